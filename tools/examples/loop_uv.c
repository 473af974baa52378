/*
 * In libuv's loop: the client's descriptor is watched, and dispatched when it is readable.
 *
 *     cc loop_uv.c $(pkg-config --cflags --libs tidelock libuv) -o loop_uv
 *     ./loop_uv redis://localhost jobs:nightly
 */
#include <stdio.h>
#include <string.h>
#include <uv.h>
#include <tidelock/tidelock.h>

static int status = 1; /* the program's exit status */

static void end_loop(void *loop) {
    uv_stop(loop);
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

static void on_readable(uv_poll_t *poll, int failed, int events) {
    (void)failed;
    (void)events;
    tl_client_dispatch(poll->data);
}

static tl_err run(tl_client *client, tl_lock *lock, tl_error *err) {
    uv_loop_t *loop = uv_default_loop();
    uv_poll_t poll = {.data = client};
    uv_poll_init(loop, &poll, tl_client_fd(client));
    uv_poll_start(&poll, UV_READABLE, on_readable);
    tl_err code = tl_lock_acquire_async(lock, 5000, on_acquired, loop, err);
    if (!code)
        uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&poll, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_loop_close(loop);
    return code;
}

int main(int argc, char **argv) {
    tl_error err;
    tl_client *client;
    if (argc != 3) {
        fprintf(stderr, "usage: loop_uv URL KEY\n");
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
