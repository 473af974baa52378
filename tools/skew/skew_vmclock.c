/*
 * Looks at the VMClock, of an agent once a round. QEMU and Firecracker give no time there (UNKNOWN): that is no alarm.
 */
#include "skew/skew_vmclock.h"

#include "base/tool.h"
#include "ground/guard.h"

skew_alarm skew_vmclock_alarm(const tl_vmclock_view *view) {
    return view->flags & TL_VMCLOCK_IMMINENT        ? SKEW_IMMINENT
           : view->flags & TL_VMCLOCK_SOON          ? SKEW_SOON
           : view->status == TL_VMCLOCK_UNRELIABLE  ? SKEW_UNRELIABLE
           : view->status == TL_VMCLOCK_FREERUNNING ? SKEW_FREERUNNING
                                                    : SKEW_NO_ALARM;
}

/* Reads the page of the device; false: there is none. */
static bool read_page(tl_vmclock_view *ret) {
    const char *why;
    const tl_vmclock *page = tl__vmclock_open(TL_VMCLOCK_PATH, &why);

    if (!page)
        return false;
    *ret = tl__vmclock_read(page);
    tl__vmclock_close(page);
    return true;
}

skew_alarm skew_vmclock_now(void) {
    tl_vmclock_view view;
    return GUARD(own_alarm_is_read) && read_page(&view) ? skew_vmclock_alarm(&view) : SKEW_NO_ALARM;
}

static void report(skew_vmclock *vmclock, const char *host) {
    skew_alarm alarm = skew_vmclock_alarm(&vmclock->view);

    if (alarm == vmclock->alarm)
        return;
    if (alarm != SKEW_NO_ALARM)
        say("agent: WARN: the hypervisor of %s %s", host, skew_alarm_says(alarm));
    else
        say("agent: no longer: the hypervisor of %s %s", host, skew_alarm_says(vmclock->alarm));
    vmclock->alarm = alarm;
}

bool skew_vmclock_look(skew_vmclock *vmclock, const char *host) {
    tl_vmclock_view before = vmclock->view;
    bool seen = vmclock->seen;

    if (!read_page(&vmclock->view))
        return false;
    vmclock->seen = true;
    report(vmclock, host);
    bool disrupted = seen && (before.marker != vmclock->view.marker ||
                              before.generation != vmclock->view.generation);
    if (disrupted)
        say("agent: WARN: %s was paused, moved or restored: it measures anew", host);
    return disrupted;
}
