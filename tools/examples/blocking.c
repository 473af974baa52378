/*
 * Blocking calls: a lock with options and events, and a store that checks fencing numbers.
 *
 *     cc blocking.c $(pkg-config --cflags --libs tidelock) -o blocking
 *     ./blocking redis://localhost jobs:nightly
 */
#include <stdio.h>
#include <string.h>
#include <tidelock/tidelock.h>

/* The lock protects this store. It refuses a write by an earlier holder. So the fencing number closes the
 * gap that no lock service can close: a program that sleeps past the end of its lock. */
static struct {
    uint64_t fence;
    int value;
} store;

static bool store_write(int value, uint64_t fence) {
    if (fence < store.fence)
        return false;
    store.fence = fence;
    store.value = value;
    return true;
}

/* Called by the client's own thread: it must not block. */
static void on_event(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    (void)lock, (void)ctx;
    fprintf(stderr, "%s; %lld ms left\n", event->detail, (long long)event->remaining_ms);
}

static tl_err work(tl_lock *lock, tl_error *err) {
    tl_err code = tl_lock_acquire(lock, 10000, err);
    if (code)
        return code;
    printf("held for the next %s\n", tl_lock_remaining_ms(lock) > 9000 ? "10 s" : "while");
    for (int i = 1; i <= 3; i++) {
        if (tl_lock_state(lock) == TL_LOST) /* then write nothing more */
            break;
        if (!store_write(i * 100, tl_lock_fence(lock)))
            fprintf(stderr, "a later holder has written already\n");
    }
    code = tl_lock_extend(lock, 20000, err); /* this will take longer than usual */
    if (code == TL_OK || code == TL_EUNCERTAIN)
        printf("stored %d\n", store.value);
    return tl_lock_release(lock, err);
}

int main(int argc, char **argv) {
    tl_error err;
    tl_client *client;
    if (argc != 3) {
        fprintf(stderr, "usage: blocking URL KEY\n");
        return 2;
    }
    tl_client_options co = TL_CLIENT_OPTIONS(.url = argv[1], .service = "blocking example");
    tl_err code = tl_client_open(&co, &client, &err);
    if (code) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    tl_lock_options lo = TL_LOCK_OPTIONS(.ttl_ms = 10000, .on_event = on_event);
    tl_lock *lock = tl_lock_new(client, argv[2], strlen(argv[2]), &lo, &err);
    code = lock ? work(lock, &err) : err.code;
    if (code)
        fprintf(stderr, "%s: %s\n", tl_err_name(code), err.message);
    else
        printf("released\n");
    tl_lock_free(lock);
    tl_client_close(client);
    return code != TL_OK;
}
