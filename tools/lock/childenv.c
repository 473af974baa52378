/*
 * The environment of the command. It is built as an array of its own rather than by setenv, since the
 * library's threads may be reading the environment of this process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/childenv.h"
#include "lock/nested.h"

/* The last three only with a watchdog. */
static const char *const added[] = {
    "TIDELOCK_KEY=", "TIDELOCK_TOKEN=", "TIDELOCK_FENCE=", "TIDELOCK_TTL_MS=",
    NESTED_ASSIGNS,  "NOTIFY_SOCKET=",  "WATCHDOG_USEC=",  "WATCHDOG_PID="};
#define ADDED (sizeof added / sizeof added[0])
#define OF_WATCHDOG 3
#define PID_ROOM "0000000000" /* as many digits as any pid has */

/* Variables that a tidelock or a service manager around this one may have set. */
static bool is_added(const char *assignment, size_t made) {
    for (size_t i = 0; i < made; i++)
        if (strncmp(assignment, added[i], strlen(added[i])) == 0)
            return true;
    return false;
}

static char *assign(const char *name, const char *value) {
    char *text;

    return asprintf(&text, "%s%s", name, value) < 0 ? NULL : text;
}

static bool fill(const childenv_values *values, childenv *ret) {
    char number[3][24];
    char *held = nested_value(values->key, values->token, values->fence);
    const char *value[ADDED] = {values->key, values->token,         number[0], number[1],
                                held,        values->notify_socket, number[2], PID_ROOM};
    bool all = true;

    (void)snprintf(number[0], sizeof number[0], "%llu", (unsigned long long)values->fence);
    (void)snprintf(number[1], sizeof number[1], "%lld", (long long)values->ttl_ms);
    (void)snprintf(number[2], sizeof number[2], "%lld", (long long)values->watchdog_us);
    for (size_t i = 0; i < ret->made && all; i++) {
        ret->list[i] = value[i] ? assign(added[i], value[i]) : NULL;
        all = ret->list[i] != NULL;
    }
    free(held);
    return all;
}

/* Our own strings come first, which childenv_free frees; the inherited ones follow. */
bool childenv_make(const childenv_values *values, childenv *ret) {
    size_t count = 0;

    *ret = (childenv){.made = values->notify_socket ? ADDED : ADDED - OF_WATCHDOG};
    while (environ[count])
        count++;
    ret->list = calloc(ret->made + count + 1, sizeof *ret->list);
    if (!ret->list || !fill(values, ret)) {
        childenv_free(ret);
        return false;
    }
    size_t at = ret->made;
    for (size_t i = 0; i < count; i++)
        if (!is_added(environ[i], ret->made))
            ret->list[at++] = environ[i];
    if (values->notify_socket)
        ret->own_pid = strchr(ret->list[ADDED - 1], '=') + 1;
    return true;
}

void childenv_put_pid(char *own_pid, int64_t pid) {
    size_t n = 0;

    if (!own_pid)
        return;
    for (int64_t rest = pid; rest > 0; rest /= 10)
        n++;
    own_pid[n] = '\0';
    for (; n > 0; pid /= 10)
        own_pid[--n] = (char)('0' + pid % 10);
}

void childenv_free(childenv *env) {
    for (size_t i = 0; env->list && i < env->made; i++)
        free(env->list[i]);
    free(env->list);
    *env = (childenv){.list = NULL};
}
