/*
 * The environment of the command: ours, and variables that describe the lock and its watchdog.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *key, *token;
    uint64_t fence;
    int64_t ttl_ms;
    const char
        *notify_socket; /**< NULL: there is no watchdog, and its variables stay as they are */
    int64_t watchdog_us;
} childenv_values;

typedef struct {
    char **list;   /**< for exec; valid until the environment of this process changes */
    size_t made;   /**< so many strings are ours, the others inherited */
    char *own_pid; /**< room for the command's pid in WATCHDOG_PID; NULL: there is no watchdog */
} childenv;

/** False: out of memory. */
bool childenv_make(const childenv_values *values, childenv *ret);

/** In the process that will be the command: write its pid. Safe after a fork with threads. NULL is fine. */
void childenv_put_pid(char *own_pid, int64_t pid);

void childenv_free(childenv *env);
