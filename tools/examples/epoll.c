/*
 * In an event loop of your own: nothing blocks, and every callback runs within tl_client_dispatch.
 *
 *     cc epoll.c $(pkg-config --cflags --libs tidelock) -o epoll
 *     ./epoll redis://localhost jobs:nightly
 */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <tidelock/tidelock.h>

#define ROUNDS 3

static int rounds, status = -1; /* the program's exit status; -1 while it runs */

static void on_released(tl_lock *lock, tl_err code, const tl_error *err, void *ctx);

static void stop(const tl_error *err) {
    fprintf(stderr, "%s\n", err->message);
    status = 1;
}

static void on_acquired(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    tl_error failed;
    if (code) {
        stop(err);
        return;
    }
    printf("round %d: held, fence %llu\n", ++rounds, (unsigned long long)tl_lock_fence(lock));
    if (tl_lock_release_async(lock, on_released, ctx, &failed))
        stop(&failed);
}

static void on_released(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    tl_error failed;
    if (code)
        stop(err);
    else if (rounds == ROUNDS)
        status = 0;
    else if (tl_lock_acquire_async(lock, 5000, on_acquired, ctx, &failed)) /* the next one */
        stop(&failed);
}

static void serve(tl_client *client) {
    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, tl_client_fd(client), &event)) {
        perror("epoll");
        status = 1;
    }
    while (status < 0) /* other descriptors can be served here, too */
        if (epoll_wait(loop, &event, 1, -1) == 1)
            tl_client_dispatch(event.data.ptr);
    if (loop >= 0)
        close(loop);
}

int main(int argc, char **argv) {
    tl_error err;
    tl_client *client;
    if (argc != 3) {
        fprintf(stderr, "usage: epoll URL KEY\n");
        return 2;
    }
    tl_client_options options = TL_CLIENT_OPTIONS(.url = argv[1], .dispatch = true);
    if (tl_client_open(&options, &client, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    tl_lock *lock = tl_lock_new(client, argv[2], strlen(argv[2]), NULL, &err);
    if (!lock || tl_lock_acquire_async(lock, 5000, on_acquired, NULL, &err))
        stop(&err);
    else
        serve(client);
    tl_lock_free(lock);
    tl_client_close(client);
    return status != 0;
}
