/*
 * Random bytes: the only module that provides them. token.h makes tokens and seeds of them.
 */
#pragma once

#include <stddef.h>

/** Fill `to` with bytes that no one can predict. Preserves errno. */
void tl__random_bytes(void *to, size_t n);
