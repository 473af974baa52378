/*
 * The environment of the command: ours, and variables that describe the lock.
 */
#pragma once

#include <stdint.h>

/** For exec; NULL: out of memory. Valid until the environment of this process changes. */
char **childenv_make(const char *key, const char *token, uint64_t fence, int64_t ttl_ms);

/** NULL is fine. */
void childenv_free(char **env);
