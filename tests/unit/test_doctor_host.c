/*
 * What the doctor finds of this host: a VMClock or none, and what the hypervisor expects.
 */
#include "doctor_findings.h"

static const tl_vmclock_view *view;

static void check(void) {
    report.count = 0;
    doctor_judge_host(view, "there is none", &report);
}

TEST(no_vmclock_is_noted_with_the_reason) {
    view = NULL;
    const doctor_finding *x = says_only("vmclock", DOCTOR_NOTE, "no VMClock");
    assert_non_null(strstr(x->what, "/dev/vmclock0): there is none"));
}

TEST(a_vmclock_is_noted_with_what_it_has) {
    const tl_vmclock_view less = {.marker = 1}, all = {.flags = TL_VMCLOCK_COUNTS};
    view = &less;
    says_only("vmclock", DOCTOR_NOTE, "without a VM generation");
    view = &all;
    says_only("vmclock", DOCTOR_NOTE, "with a VM generation");
}

TEST(a_disruption_that_is_expected_is_a_warning) {
    const tl_vmclock_view soon = {.flags = TL_VMCLOCK_SOON},
                          imminent = {.flags = TL_VMCLOCK_SOON | TL_VMCLOCK_IMMINENT};
    view = &soon;
    says("vmclock-disruption", DOCTOR_WARNING, "within about a day");
    view = &imminent;
    says("vmclock-disruption", DOCTOR_WARNING, "within about an hour");
}

TEST(nothing_more_is_found) {
    const tl_vmclock_view all = {.flags = TL_VMCLOCK_COUNTS};
    view = &all;
    check();
    if (report.count != 1)
        says_nothing();
}
