/*
 * What the agent says of the hypervisor's reports.
 */
#include "tests.h"

#include <string.h>

#include "skew/skew_vmclock.h"

static const char *judged(uint64_t flags, uint8_t status) {
    static char room[SKEW_VMCLOCK_SIZE];
    const tl_vmclock_view view = {.flags = flags, .status = status};
    skew_vmclock_judge(&view, room);
    return room;
}

TEST(without_trouble_nothing_is_said) {
    assert_string_equal(judged(TL_VMCLOCK_COUNTS, TL_VMCLOCK_SYNCHRONIZED), "");
    assert_string_equal(judged(0, TL_VMCLOCK_UNKNOWN), ""); /* it gives no time */
    assert_string_equal(judged(0, TL_VMCLOCK_INITIALIZING), "");
}

TEST(the_nearest_trouble_is_said) {
    assert_non_null(strstr(judged(TL_VMCLOCK_SOON, TL_VMCLOCK_UNRELIABLE), "about a day"));
    assert_non_null(strstr(judged(TL_VMCLOCK_SOON | TL_VMCLOCK_IMMINENT, 0), "about an hour"));
    assert_non_null(strstr(judged(0, TL_VMCLOCK_UNRELIABLE), "unreliable"));
    assert_non_null(strstr(judged(0, TL_VMCLOCK_FREERUNNING), "not synchronized"));
}
