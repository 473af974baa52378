/*
 * Text of a server or a user, for a terminal.
 */
#pragma once

#include <stddef.h>

#define PRINTABLE_MAX 4 /**< bytes of the longest character */

/**
 * Copy len bytes to `to`, which may be `text` itself. A terminal acts on control characters: those of ASCII, U+0080 to
 * U+009F, and where it does not read UTF-8 the bytes 0x80 to 0x9f. '?' replaces each of these characters, and each byte
 * that is not UTF-8. Returns the number of bytes, which is not larger than len.
 */
size_t printable(char *to, const char *text, size_t len);

/** The most of the first len bytes that ends with a whole character; len if the bytes are not UTF-8 there. */
size_t printable_cut(const char *text, size_t len);
