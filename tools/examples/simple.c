/*
 * In two calls: work that only one host may do at a time.
 *
 *     cc simple.c $(pkg-config --cflags --libs tidelock) -o simple
 *     ./simple redis://localhost jobs:nightly
 */
#include <stdio.h>
#include <tidelock/tidelock.h>

/* A step of the work, which writes its result together with the fencing number. */
static void do_step(int step, uint64_t fence) {
    printf("step %d, fence %llu\n", step, (unsigned long long)fence);
}

int main(int argc, char **argv) {
    tl_error err;
    tl_client *client;
    if (argc != 3) {
        fprintf(stderr, "usage: simple URL KEY\n");
        return 2;
    }
    tl_client_options options = TL_CLIENT_OPTIONS(.url = argv[1]);
    if (tl_client_open(&options, &client, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    tl_lock *lock = tl_acquire(client, argv[2], 5000, &err);
    if (!lock) {
        fprintf(stderr, "%s\n", err.message); /* e.g. another client held it for five seconds */
        tl_client_close(client);
        return 1;
    }
    /* The lock is renewed in the background. If that fails, remaining_ms reaches 0 in time. */
    for (int step = 1; step <= 3 && tl_lock_remaining_ms(lock) > 0; step++)
        do_step(step, tl_lock_fence(lock));
    tl_err code = tl_release(lock, &err);
    if (code)
        fprintf(stderr, "%s\n", err.message); /* the lock was lost before the end */
    else
        printf("done\n");
    tl_client_close(client);
    return code != TL_OK;
}
