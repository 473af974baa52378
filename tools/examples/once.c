/*
 * A service on several hosts that does its work once in each period, on whichever host comes first. The hosts'
 * clocks may differ: the server's clock measures how long the lock rests. This program is one start of such
 * a service; with a timer of its own it would call once() at each period.
 *
 *     cc once.c $(pkg-config --cflags --libs tidelock) -o once
 *     ./once redis://localhost jobs:hourly 3000
 *
 * The rest, here 3000 s, must be longer than the hosts' starts differ, and shorter than the period less that
 * difference and less the wait of a minute.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidelock/inspect.h>
#include <tidelock/tidelock.h>

/* The work; false: it has failed, and another host may try. */
static bool work(uint64_t fence) {
    return printf("working, fence %" PRIu64 "\n", fence) > 0;
}

static void say_busy(tl_client *client, const char *key) {
    tl_lock_info info = {.size = sizeof info};
    if (tl_client_look(client, key, strlen(key), &info, NULL) == TL_OK && info.rests)
        printf("done by %s on %s\n", info.service, info.host);
    else
        printf("another host is at work\n");
}

/* TL_OK: it is done, here or elsewhere, or another host is at work. */
static tl_err once(tl_client *client, const char *key, int64_t rest_ms, tl_error *err) {
    /* Another host that fails or dies within a minute is waited for: then this one works. */
    tl_lock_options options = TL_LOCK_OPTIONS(.rest_ends_wait = true, .will_rest_ms = rest_ms);
    tl_lock *lock = tl_lock_new(client, key, strlen(key), &options, err);
    if (!lock)
        return err->code;
    tl_err code = tl_lock_acquire(lock, 60000, err);
    if (code == TL_EBUSY || code == TL_ETIMEDOUT) {
        say_busy(client, key);
        code = TL_OK;
    } else if (code == TL_OK && work(tl_lock_fence(lock))) {
        code = tl_lock_rest(lock, rest_ms, err); /* not TL_OK: another host may work again */
    } else if (code == TL_OK) {
        code = tl_lock_release(lock, err);
    }
    tl_lock_free(lock);
    return code;
}

int main(int argc, char **argv) {
    tl_error err;
    tl_client *client;
    if (argc != 4) {
        fprintf(stderr, "usage: once URL KEY SECONDS\n");
        return 2;
    }
    tl_client_options co = TL_CLIENT_OPTIONS(.url = argv[1], .service = "once example");
    if (tl_client_open(&co, &client, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    tl_err code = once(client, argv[2], strtoll(argv[3], NULL, 10) * 1000, &err);
    if (code)
        fprintf(stderr, "%s\n", err.message);
    tl_client_close(client);
    return code != TL_OK;
}
