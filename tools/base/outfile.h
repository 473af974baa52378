/*
 * Files that others read while we write them: replaced at once, or grown by whole lines.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Have `write` fill a file beside path, and put it in its place: whoever reads it sees the old one or
 *  the new one. What is no regular file (a pipe, a device) is written to instead; so is /dev/stdout, or another
 *  name of a descriptor, whatever is behind it, and standard output for "-". A named pipe's reader is waited
 *  for 2 s at most, and 2 s each time that it doesn't read. Returns 0, or the exit status after a message that begins
 *  with `what`. */
int outfile_replace(const char *what, const char *path, void (*write)(const void *ctx, FILE *out),
                    const void *ctx);

/** The same without a message: 0, or an errno, of which outfile_why() says what it means here. */
int outfile_replace_quietly(const char *path, void (*write)(const void *ctx, FILE *out),
                            const void *ctx);
const char *outfile_why(int why);

/** Could it be? Before there is anything to write; what is there stays. As outfile_replace. */
int outfile_check(const char *what, const char *path);

/** Is it a regular file, or no file yet: not a pipe or a device? */
bool outfile_is_plain(const char *path);

/** Add a line, text with its newline, to the end of a file that other processes may add to as well.
 *  It is there whole or, when it could not be written, not at all. Waits 2 s at most for the others.
 *  Returns 0, or the exit status after a message that begins with `what`. */
int outfile_append(const char *what, const char *path, const char *text, size_t len);
