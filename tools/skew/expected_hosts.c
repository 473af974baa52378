/*
 * Finds the missing hosts. Names are compared as published, byte by byte.
 */
#include <string.h>

#include "skew/expected_hosts.h"
#include "ground/guard.h"

/* The next name of a list; false at its end. Moves *at past the comma. */
static bool next_name(const char **at, char name[SKEW_NAME_SIZE]) {
    size_t n = strcspn(*at, ",");

    if (**at == '\0')
        return false;
    (void)snprintf(name, SKEW_NAME_SIZE, "%.*s", n < SKEW_NAME_SIZE ? (int)n : 0, *at);
    *at += n + ((*at)[n] == ',');
    return true;
}

static int check_list(const expected_hosts *expected, const char *list, const char *self) {
    char name[SKEW_NAME_SIZE];

    if (!*list || list[strlen(list) - 1] == ',')
        return fail(STATUS_USAGE,
                    "skew: --expect: hosts' names with commas between, as in --expect app1,db1");
    while (next_name(&list, name)) {
        if (!skew_name_ok(name))
            return fail(
                STATUS_USAGE,
                "skew: --expect: a host's name: 1 to 64 letters, digits and any of . _ : -");
        if (expected->no_self && strcmp(name, self) == 0)
            return fail(STATUS_USAGE,
                        "skew: --expect names %s, which is this host, and --no-self leaves it out",
                        self);
    }
    return 0;
}

int expected_hosts_check(const expected_hosts *expected, const char *self) {
    int status = 0;

    for (int i = 0; i < expected->expect.count && status == 0; i++)
        status = check_list(expected, expected->expect.text[i], self);
    return status;
}

static bool is_there(const skew_fleet *fleet, const char *name) {
    for (int i = 0; i < fleet->count; i++)
        if (fleet->hosts[i].kind == SKEW_CLOCK && strcmp(fleet->hosts[i].name, name) == 0)
            return true;
    return false;
}

static void add_missing(skew_fleet *fleet, const char *name) {
    if (fleet->count == SKEW_HOSTS_MAX) {
        fleet->more = true;
        return;
    }
    skew_host *host = &fleet->hosts[fleet->count++];
    *host = (skew_host){.instrument = "agent", .missing = true, .status = "missing", .age_ms = -1};
    (void)snprintf(host->name, sizeof host->name, "%s", name);
    (void)snprintf(host->detail, sizeof host->detail,
                   "it is expected, and no agent publishes under that name");
}

void expected_hosts_apply(const expected_hosts *expected, skew_fleet *fleet) {
    char name[SKEW_NAME_SIZE];

    if (expected->no_self) {
        fleet->hosts[0].kind = SKEW_REMARK;
        (void)snprintf(fleet->hosts[0].detail, sizeof fleet->hosts[0].detail,
                       "this host, which acquires none of these locks (--no-self)");
    }
    for (int i = 0; i < expected->expect.count; i++)
        for (const char *at = expected->expect.text[i]; next_name(&at, name);)
            if (GUARD(expected_is_missed) && !is_there(fleet, name))
                add_missing(fleet, name);
}
