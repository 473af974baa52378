/*
 * The library's side of test_compat_java_wire.sh: locks and releases by the phase, as the lines of its input say.
 * Usage: wire_peer URL NAMESPACE
 */
#include <stdio.h>
#include <string.h>

#include <tidelock/legacy.h>
#include <tidelock/tidelock.h>

#define SIZE 256

static tl_client *client;
static tl_lock *held;

static bool lock(const char *key, bool renews) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.manual_renew = !renews);
    tl_error err;
    held = tl_lock_new(client, key, strlen(key), &options, &err);
    if (held && tl_lock_acquire(held, 0, &err) == TL_OK)
        return true;
    tl_lock_free(held);
    held = NULL;
    return false;
}

static bool act(const char *what, const char *key) {
    tl_error err;
    if (strcmp(what, "lock") == 0 || strcmp(what, "keep") == 0)
        return lock(key, strcmp(what, "keep") == 0);
    bool released = held && tl_lock_release(held, &err) == TL_OK;
    tl_lock_free(held);
    held = NULL;
    return released;
}

int main(int argc, char **argv) {
    const tl_legacy_options legacy = TL_LEGACY_OPTIONS(.clock_skew_max_ms = 100,
                                                       .legacy_ttl_min_ms = 1000,
                                                       .namespaces = argc > 2 ? argv[2] : "",
                                                       .phase_lease_ms = 2000);
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = argc > 1 ? argv[1] : "",
                                                        .protocol = TL_AUTO, .legacy = &legacy,
                                                        .attempt_ms = 1000, .service = "peer");
    char what[SIZE], key[SIZE];
    tl_error err;
    if (tl_client_open(&options, &client, &err)) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    while (scanf("%255s %255s", what, key) == 2) {
        (void)puts(act(what, key) ? "yes" : "no");
        (void)fflush(stdout);
    }
    tl_client_close(client);
    return 0;
}
