/*
 * One key, several threads that all want it: the hand-off within one client, beside the hand-off
 * between clients of their own.
 */
#include "crew.h"

#define SLICE (200 * MS)
#define SLICES 1
#define SIZE 4
#define ROW "local"
#define WAIT_MS 10000

static void pass_on(void *ctx) {
    tl_error err;
    if (tl_lock_acquire(ctx, WAIT_MS, &err) || tl_lock_release(ctx, &err))
        die("%s", err.message);
}

static tl_lock *make(tl_client *client, const char *key, size_t n) {
    tl_error err;
    tl_lock *lock = tl_lock_new(client, key, n, NULL, &err);
    if (!lock)
        die("%s", err.message);
    return lock;
}

void row_local(regime r) {
    static figures f[2];
    static const char together_key[] = "bench:together", apart_key[] = "bench:apart";
    static hist of_together, of_apart;
    crew together = {.size = SIZE, .operation = pass_on, .hist = &of_together};
    crew apart = {.size = SIZE, .operation = pass_on, .hist = &of_apart};
    const contender c[] = {{.ctx = &together, .run = crew_run, .hist = &of_together},
                           {.ctx = &apart, .run = crew_run, .hist = &of_apart}};
    tl_client *one = bench_client(), *own[SIZE];
    for (int i = 0; i < SIZE; i++) {
        own[i] = bench_client();
        together.ctx[i] = make(one, together_key, sizeof together_key - 1);
        apart.ctx[i] = make(own[i], apart_key, sizeof apart_key - 1);
    }
    take_turns(c, 2, SLICE, SLICES, f);
    report(&(label){ROW, "4 threads: holds a second, beside 4 clients", "/s", r, ">= 20"},
           f[0].rate, f[1].rate, rounds);
    report(&(label){ROW, "4 threads: p99 of a wait and hold", "us", r, NULL}, f[0].p99_us,
           f[1].p99_us, rounds);
    for (int i = 0; i < SIZE; i++) {
        tl_lock_free(together.ctx[i]);
        tl_lock_free(apart.ctx[i]);
        tl_client_close(own[i]);
    }
    tl_client_close(one);
}
