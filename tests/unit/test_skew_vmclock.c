/*
 * What the tool makes of the hypervisor's reports. This file defines ground/vmclock: the page is a variable.
 */
#include "tests.h"

#include "skew/skew_vmclock.h"

static tl_vmclock page;
static bool there;

const tl_vmclock *tl__vmclock_open(const char *path, const char **ret_why) {
    assert_string_equal(path, TL_VMCLOCK_PATH);
    *ret_why = there ? NULL : "there is none";
    return there ? &page : NULL;
}

void tl__vmclock_close(const tl_vmclock *mapped) {
    assert_ptr_equal(mapped, &page);
}

tl_vmclock_view tl__vmclock_read(const tl_vmclock *mapped) {
    return (tl_vmclock_view){.marker = mapped->marker,
                             .generation = mapped->generation,
                             .flags = mapped->flags,
                             .status = mapped->status};
}

static skew_alarm alarm_of(uint64_t flags, uint8_t status) {
    page.flags = flags;
    page.status = status;
    return skew_vmclock_now();
}

TEST(without_trouble_there_is_no_alarm) {
    there = true;
    assert_int_equal(alarm_of(TL_VMCLOCK_COUNTS, TL_VMCLOCK_SYNCHRONIZED), SKEW_NO_ALARM);
    assert_int_equal(alarm_of(0, TL_VMCLOCK_UNKNOWN), SKEW_NO_ALARM); /* it gives no time */
    assert_int_equal(alarm_of(0, TL_VMCLOCK_INITIALIZING), SKEW_NO_ALARM);
}

TEST(the_nearest_trouble_is_the_alarm) {
    there = true;
    assert_int_equal(alarm_of(TL_VMCLOCK_SOON, TL_VMCLOCK_UNRELIABLE), SKEW_SOON);
    assert_int_equal(alarm_of(TL_VMCLOCK_SOON | TL_VMCLOCK_IMMINENT, 0), SKEW_IMMINENT);
    assert_int_equal(alarm_of(0, TL_VMCLOCK_UNRELIABLE), SKEW_UNRELIABLE);
    assert_int_equal(alarm_of(0, TL_VMCLOCK_FREERUNNING), SKEW_FREERUNNING);
}

TEST(without_a_vmclock_there_is_no_alarm) {
    there = false;
    assert_int_equal(alarm_of(TL_VMCLOCK_IMMINENT, TL_VMCLOCK_UNRELIABLE), SKEW_NO_ALARM);
    skew_vmclock vmclock = {.seen = false};
    assert_false(skew_vmclock_look(&vmclock, "app1"));
    assert_int_equal(vmclock.alarm, SKEW_NO_ALARM);
}

TEST(an_agent_knows_its_alarm_and_a_disruption) {
    skew_vmclock vmclock = {.seen = false};
    there = true;
    page = (tl_vmclock){.marker = 7, .generation = 3, .flags = TL_VMCLOCK_SOON};
    assert_false(skew_vmclock_look(&vmclock, "app1")); /* the first look */
    assert_int_equal(vmclock.alarm, SKEW_SOON);
    assert_false(skew_vmclock_look(&vmclock, "app1"));
    page.flags = 0;
    page.marker = 8;
    assert_true(skew_vmclock_look(&vmclock, "app1"));
    assert_int_equal(vmclock.alarm, SKEW_NO_ALARM);
    page.generation = 4;
    assert_true(skew_vmclock_look(&vmclock, "app1"));
    assert_false(skew_vmclock_look(&vmclock, "app1"));
}
