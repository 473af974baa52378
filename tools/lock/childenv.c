/*
 * The environment of the command. It is built as an array of its own rather than by setenv, since the
 * library's threads may be reading the environment of this process.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/childenv.h"
#include "lock/nested.h"

static const char *const added[] = {
    "TIDELOCK_KEY=", "TIDELOCK_TOKEN=", "TIDELOCK_FENCE=", "TIDELOCK_TTL_MS=", NESTED_ASSIGNS};
#define ADDED (sizeof added / sizeof added[0])

/* Variables that a tidelock around this one may have set. */
static bool is_added(const char *assignment) {
    for (size_t i = 0; i < ADDED; i++)
        if (strncmp(assignment, added[i], strlen(added[i])) == 0)
            return true;
    return false;
}

static char *assign(const char *name, const char *value) {
    char *text;

    return asprintf(&text, "%s%s", name, value) < 0 ? NULL : text;
}

/* The caller frees the first ADDED strings with childenv_free; the inherited ones follow. */
char **childenv_make(const char *key, const char *token, uint64_t fence, int64_t ttl_ms) {
    char number[2][24];
    char *held = nested_value(key, token, fence);
    const char *value[ADDED] = {key, token, number[0], number[1], held};
    size_t count = 0;

    (void)snprintf(number[0], sizeof number[0], "%llu", (unsigned long long)fence);
    (void)snprintf(number[1], sizeof number[1], "%lld", (long long)ttl_ms);
    while (environ[count])
        count++;
    char **env = calloc(ADDED + count + 1, sizeof *env);
    for (size_t i = 0; env && i < ADDED; i++) {
        env[i] = value[i] ? assign(added[i], value[i]) : NULL;
        if (!env[i]) {
            childenv_free(env);
            env = NULL;
        }
    }
    free(held);
    size_t at = ADDED;
    for (size_t i = 0; env && i < count; i++)
        if (!is_added(environ[i]))
            env[at++] = environ[i];
    return env;
}

void childenv_free(char **env) {
    for (size_t i = 0; env && i < ADDED; i++)
        free(env[i]);
    free(env);
}
