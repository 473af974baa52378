/*
 * See soak.h.
 */
#include "soak.h"

#include <signal.h>
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
