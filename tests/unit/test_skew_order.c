/*
 * One order for lists, rows and columns.
 */
#include <stdio.h>

#include "tests.h"
#include "skew/judge/skew_order.h"

static skew_host placed(const char *name, int64_t at, bool known, bool relative, skew_kind kind) {
    skew_host h = {
        .known = known, .relative = relative, .kind = kind, .offset = {at - 10, at + 10}};
    (void)snprintf(h.name, sizeof h.name, "%s", name);
    return h;
}

TEST(from_ahead_to_behind_then_what_is_not_known) {
    skew_host hosts[] = {
        placed("said", 900, true, false, SKEW_ASIDE),
        placed("mute", 0, false, false, SKEW_CLOCK),
        placed("behind", -70, true, false, SKEW_CLOCK),
        placed("rel", 500, false, true, SKEW_CLOCK),
        placed("deaf", 0, false, false, SKEW_CLOCK),
        placed("ahead", 70, true, false, SKEW_SERVED),
        placed("redis", 0, true, false, SKEW_REDIS),
    };
    static const char *const want[] = {"ahead", "redis", "behind", "rel", "mute", "deaf", "said"};
    skew_result r = {.hosts = hosts, .host_count = 7};
    int order[7];
    skew_order(&r, order);
    for (int i = 0; i < 7; i++)
        assert_string_equal(hosts[order[i]].name, want[i]);
}
