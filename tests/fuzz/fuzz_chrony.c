/*
 * What may come from a program called chronyc: believed only when a second reader, in floating point,
 * takes the same line for the same, and then never to less than it says. The input is 8 bytes of this
 * host's clock and the text.
 */

/*
 * Given what a program called chronyc prints, and this host's clock. It asserts:
 * - The clock is known only for what a second reader, in floating point, takes for a synchronised daemon with a
 *   reachable source.
 * - The bound is never less than what the text says. A message is one line.
 */
#include "fuzz.h"

#include <math.h>

#include "skew/skew_chrony.h"

#define FIELDS 14

/* One line, no NUL in it. */
static void must_mean(char *text, const chrony_state *s, int64_t now_us) {
    char *f[FIELDS], *at = text;
    text[strcspn(text, "\n")] = '\0';
    for (int i = 0; i < FIELDS; i++) {
        MUST(at);
        f[i] = strsep(&at, ",");
    }
    MUST(!at);
    MUST(strlen(f[0]) == 8 && strncmp(f[0], "7F7F01", 6) != 0 && strcmp(f[0], "00000000") != 0);
    MUST(atoi(f[2]) >= 1 && atoi(f[2]) <= 15);
    MUST(strcmp(f[13], "Normal") == 0 || strcmp(f[13], "Insert second") == 0 ||
         strcmp(f[13], "Delete second") == 0);
    double slow = strtod(f[4], NULL), delay = fabs(strtod(f[10], NULL)),
           dispersion = strtod(f[11], NULL), set = strtod(f[3], NULL),
           interval = strtod(f[12], NULL);
    double rounding = 2.0 + (fabs(slow) + delay + dispersion + fabs(set) + interval) * 1e-8;
    MUST(fabs((double)s->system_us + slow * 1e6) <= rounding);
    MUST((double)s->error_us >= (dispersion + delay / 2) * 1e6 - rounding + 2);
    MUST(dispersion > 0);
    double age = (double)now_us / 1e6 + slow - set;
    MUST(age >= -1.0 - rounding && age <= fmax(16, 8 * interval) + rounding);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    uint64_t clock = 0;
    char text[513], why[SKEW_DETAIL_SIZE] = "";
    const char *status = NULL;
    chrony_report r = {.at = {.before = {1000}, .after = {2000}}};

    for (int i = 0; i < 8; i++)
        clock = clock << 8 | in_byte(&in);
    int64_t now_us = (int64_t)(clock & ((UINT64_C(1) << 54) - 1)) - (INT64_C(1) << 53);
    size_t n = in.n < sizeof text - 1 ? in.n : sizeof text - 1;
    memcpy(text, in.p, n);
    text[n] = '\0';
    r.known = chrony_read(text, n, now_us, &r.state, &status, why);
    if (!r.known) {
        MUST(status && is_line(why, sizeof why) && why[0]);
        return 0;
    }
    MUST(strlen(text) == n);
    skew_reading now = {.before = {3000}, .after = {4000}};
    tl_interval own = {-5, 5};
    skew_host h = {.known = false};
    chrony_judge(&r, &now, &own, &h);
    MUST(h.known && is_line(h.detail, sizeof h.detail));
    MUST(h.offset.hi >= llabs(r.state.system_us) + r.state.error_us && h.offset.lo <= -h.offset.hi);
    must_mean(text, &r.state, now_us);
    return 0;
}
