/*
 * The agent's record, which anybody who may write to the server may have written: what is read is what
 * would be written, nothing that it says makes an interval that is upside down or narrower than told, and
 * what it says of another server's clock makes none.
 * The input is a record, then perhaps a newline and two numbers of 8 bytes: the server's clock, its step.
 */

/*
 * Given what an agent published, the server's clock and its last step. It asserts:
 * - What is read is what would be written.
 * - It is known exactly when it is neither of the future, nor from before the step, nor of two agents, nor of another
 *   server.
 * - The interval is never narrower than reported.
 */
#include "fuzz.h"

#include "skew/judge/skew_record.h"

static void judge(const skew_record *r, int64_t now_us, int64_t stepped_us) {
    skew_host h = {.known = false};
    skew_record_at at = {.server = r->server, .now_us = now_us, .stepped_us = stepped_us};
    skew_record_judge(r, &at, 200, &h);
    MUST(h.instrument && h.status && memchr(h.detail, '\0', sizeof h.detail));
    MUST(h.missing == (strcmp(h.status, "missing") == 0) || !h.known);
    MUST(h.known == (strcmp(h.status, "ok") == 0 || strcmp(h.status, "missing") == 0 ||
                     strcmp(h.status, "unsteady") == 0 || h.alarm != SKEW_NO_ALARM));
    MUST(h.alarm == SKEW_NO_ALARM || h.alarm == r->alarm);
    MUST(h.unsteady == r->unsteady);
    if (!h.known)
        return;
    MUST(!r->clash && r->at_us <= now_us && r->at_us >= stepped_us && h.age_ms >= 0);
    MUST(h.offset.lo <= r->offset.lo && r->offset.hi <= h.offset.hi);
    at.server = "another";
    skew_record_judge(r, &at, 200, &h);
    MUST(!h.known || strcmp(r->server, at.server) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    size_t n = line ? (size_t)(line - data) : size;
    char again[SKEW_RECORD_SIZE];
    int64_t number[2] = {INT64_C(1700000000000000), 0};
    skew_record r;

    if (!skew_record_read((const char *)data, n, &r))
        return 0;
    skew_record_write(again, &r);
    MUST(strlen(again) == n && memcmp(again, data, n) == 0);
    if (line && size - n - 1 >= sizeof number)
        memcpy(number, line + 1, sizeof number);
    for (int i = 0; i < 2; i++)
        number[i] &= (INT64_C(1) << 54) - 1; /* us to the year 2540 */
    judge(&r, number[0], number[1]);
    judge(&r, r.at_us, 0);
    return 0;
}
