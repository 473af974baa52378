/*
 * Files that other processes read while this one writes them: replaced atomically, or extended by whole lines.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Let `write` fill a temporary file beside path, and rename it to path: a reader sees the old file or
 *  the new one. If path is not a regular file (a pipe, a device), the data is written to it directly. The same
 *  is true of /dev/stdout or another name of a descriptor, and of "-", which is standard output. A named pipe's reader is waited
 *  for 2 s at most, and 2 s each time that it doesn't read. Returns 0, or the exit status after a message that begins
 *  with `what`. */
int outfile_replace(const char *what, const char *path, void (*write)(const void *ctx, FILE *out),
                    const void *ctx);

/** The same without a message: 0, or an errno, which outfile_why() explains. */
int outfile_replace_quietly(const char *path, void (*write)(const void *ctx, FILE *out),
                            const void *ctx);
const char *outfile_why(int why);

/** Check in advance that outfile_replace could write there; changes nothing. Returns as outfile_replace. */
int outfile_check(const char *what, const char *path);

/** Is it a regular file, or no file yet: not a pipe or a device? */
bool outfile_is_plain(const char *path);

/** Append a line, text with its newline, to a file to which other processes may append too.
 *  The file then has the whole line or, on failure, nothing of it. Waits at most 2 s for the other processes.
 *  Returns 0, or the exit status after a message that begins with `what`. */
int outfile_append(const char *what, const char *path, const char *text, size_t len);
