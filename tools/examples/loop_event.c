/*
 * In libevent's loop: the client's descriptor is watched, and dispatched when it is readable.
 *
 *     cc loop_event.c $(pkg-config --cflags --libs tidelock libevent) -o loop_event
 *     ./loop_event redis://localhost jobs:nightly
 */
#include <stdio.h>
#include <string.h>
#include <event2/event.h>
#include <tidelock/tidelock.h>

static int status = 1; /* the program's exit status */

static void end_loop(void *base) {
    event_base_loopbreak(base);
}

static void on_released(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock;
    if (code)
        fprintf(stderr, "%s\n", err->message);
    else
        printf("released\n");
    status = code != TL_OK;
    end_loop(ctx);
}

static void on_acquired(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    tl_error failed;
    if (code) {
        fprintf(stderr, "%s\n", err->message);
        end_loop(ctx);
        return;
    }
    printf("held\n");
    if (tl_lock_release_async(lock, on_released, ctx, &failed)) {
        fprintf(stderr, "%s\n", failed.message);
        end_loop(ctx);
    }
}

static void on_readable(evutil_socket_t fd, short events, void *client) {
    (void)fd;
    (void)events;
    tl_client_dispatch(client);
}

static tl_err run(tl_client *client, tl_lock *lock, tl_error *err) {
    struct event_base *base = event_base_new();
    struct event *readable = event_new(base, tl_client_fd(client), EV_READ | EV_PERSIST,
                                       on_readable, client);
    event_add(readable, NULL);
    tl_err code = tl_lock_acquire_async(lock, 5000, on_acquired, base, err);
    if (!code)
        event_base_dispatch(base);
    event_free(readable);
    event_base_free(base);
    return code;
}

int main(int argc, char **argv) {
    tl_error err;
    tl_client *client;
    if (argc != 3) {
        fprintf(stderr, "usage: loop_event URL KEY\n");
        return 2;
    }
    tl_client_options options = TL_CLIENT_OPTIONS(.url = argv[1], .dispatch = true);
    if (tl_client_open(&options, &client, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    tl_lock *lock = tl_lock_new(client, argv[2], strlen(argv[2]), NULL, &err);
    if (!lock || run(client, lock, &err))
        fprintf(stderr, "%s\n", err.message);
    tl_lock_free(lock);
    tl_client_close(client);
    return status;
}
