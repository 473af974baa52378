/*
 * One key for the threads of a program, and for other programs: one client for all threads, a lock for
 * each.
 *
 *     cc threads.c $(pkg-config --cflags --libs tidelock) -pthread -o threads
 *     ./threads redis://localhost jobs:nightly
 */
#include <pthread.h>
#include <stdio.h>
#include <tidelock/tidelock.h>

#define THREADS 8
#define ROUNDS 25

typedef struct {
    tl_client *client;
    const char *key;
    int *count; /* a plain number: the lock protects it */
    tl_err code;
} worker;

/* Waiters queue within the program, and hand the lock over without asking the server. */
static void *run(void *ctx) {
    worker *w = ctx;
    tl_error err;
    for (int i = 0; i < ROUNDS && !w->code; i++) {
        tl_lock *lock = tl_acquire(w->client, w->key, TL_FOREVER, &err);
        if (lock)
            (*w->count)++;
        w->code = lock ? tl_release(lock, &err) : err.code;
    }
    if (w->code)
        fprintf(stderr, "%s\n", err.message);
    return NULL;
}

static tl_err run_all(tl_client *client, const char *key) {
    pthread_t threads[THREADS];
    worker workers[THREADS];
    tl_err code = TL_OK;
    int count = 0, started = 0;
    for (; started < THREADS; started++) {
        workers[started] = (worker){.client = client, .key = key, .count = &count};
        if (pthread_create(&threads[started], NULL, run, &workers[started]))
            break;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        code = workers[i].code ? workers[i].code : code;
    }
    printf("counted to %d\n", count);
    return started == THREADS ? code : TL_ENOMEM;
}

int main(int argc, char **argv) {
    tl_error err;
    tl_client *client;
    if (argc != 3) {
        fprintf(stderr, "usage: threads URL KEY\n");
        return 2;
    }
    tl_client_options options = TL_CLIENT_OPTIONS(.url = argv[1]);
    if (tl_client_open(&options, &client, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    tl_err code = run_all(client, argv[2]);
    tl_client_close(client);
    return code != TL_OK;
}
