/*
 * See soak.h.
 */
#include "soak.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock_wait.h"
#include "tests.h"

long soak_number(const char *variable, long otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

void soak_seed(void) {
    const unsigned seed = (unsigned)soak_number("SEED", (long)clock_us());
    (void)signal(SIGPIPE, SIG_IGN); /* our own connections to processes that are killed */
    print_message("SEED=%u\n", seed);
    srandom(seed);
}

void soak_struck(soak_tally *tally, int64_t pause_ms) {
    tally->struck++;
    tally->sum_ms += pause_ms;
    tally->longest_ms = pause_ms > tally->longest_ms ? pause_ms : tally->longest_ms;
}

void soak_print(const char *name, const soak_tally *tally) {
    print_message("%-52s %5d times, without service %5d ms on average, %6d at most\n", name,
                  tally->struck, (int)(tally->struck ? tally->sum_ms / tally->struck : 0),
                  (int)tally->longest_ms);
}

void soak_sum(const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_message("in all: %s\n", text);
}

static tl_lock *held;
static atomic_int lost_why; /* as it was told; NOT_LOST: it wasn't */
static int64_t over_ms;     /* since when nothing remains of it; 0: something does */
#define NOT_LOST (-1)

static void note_loss(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    (void)lock;
    (void)ctx;
    if (event->state == TL_LOST)
        atomic_store(&lost_why, (int)event->why);
}

void soak_hold(tl_client *client, const char *key, int64_t ttl_ms, int64_t within_ms) {
    atomic_store(&lost_why, NOT_LOST);
    over_ms = 0;
    held = make_lock_with(client, key, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = note_loss));
    WAIT_FOR(within_ms, tl_lock_acquire(held, SOON_MS, &said) == TL_OK);
}

void soak_look_at_held(void) {
    if (tl_lock_remaining_ms(held) > 0 || atomic_load(&lost_why) != NOT_LOST)
        over_ms = 0;
    else if (over_ms == 0)
        over_ms = clock_ms();
    else if (clock_ms() - over_ms > SLACK_MS)
        fail_msg("nothing remains of a lock, and nobody was told that it is lost");
}

bool soak_is_lost(void) {
    return atomic_load(&lost_why) != NOT_LOST;
}

bool soak_let_go(int *ret_why) {
    *ret_why = atomic_load(&lost_why);
    (void)tl_lock_release(held, &said); /* which may be lost */
    drop_lock(held);
    return *ret_why != NOT_LOST;
}
