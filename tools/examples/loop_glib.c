/*
 * In GLib's loop: the client's descriptor is watched, and dispatched when it is readable.
 *
 *     cc loop_glib.c $(pkg-config --cflags --libs tidelock glib-2.0) -o loop_glib
 *     ./loop_glib redis://localhost jobs:nightly
 */
#include <stdio.h>
#include <string.h>
#include <glib-unix.h>
#include <tidelock/tidelock.h>

static int status = 1; /* the program's exit status */

static void end_loop(void *loop) {
    g_main_loop_quit(loop);
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

static gboolean on_readable(gint fd, GIOCondition events, gpointer client) {
    (void)fd;
    (void)events;
    tl_client_dispatch(client);
    return G_SOURCE_CONTINUE;
}

static tl_err run(tl_client *client, tl_lock *lock, tl_error *err) {
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);
    guint source = g_unix_fd_add(tl_client_fd(client), G_IO_IN, on_readable, client);
    tl_err code = tl_lock_acquire_async(lock, 5000, on_acquired, loop, err);
    if (!code)
        g_main_loop_run(loop);
    g_source_remove(source);
    g_main_loop_unref(loop);
    return code;
}

int main(int argc, char **argv) {
    tl_error err;
    tl_client *client;
    if (argc != 3) {
        fprintf(stderr, "usage: loop_glib URL KEY\n");
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
