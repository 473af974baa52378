/*
 * Looks at the VMClock once a round. QEMU and Firecracker give no time there (UNKNOWN): that is no trouble.
 */
#include "skew/skew_vmclock.h"

#include <stdio.h>
#include <string.h>

#include "base/tool.h"

void skew_vmclock_judge(const tl_vmclock_view *view, char to[SKEW_VMCLOCK_SIZE]) {
    const char *why = "";

    if (view->flags & TL_VMCLOCK_IMMINENT)
        why = "the hypervisor expects to disrupt this machine's clocks within about an hour";
    else if (view->flags & TL_VMCLOCK_SOON)
        why = "the hypervisor expects to disrupt this machine's clocks within about a day";
    else if (view->status == TL_VMCLOCK_UNRELIABLE)
        why = "the hypervisor calls its own clock unreliable";
    else if (view->status == TL_VMCLOCK_FREERUNNING)
        why = "the hypervisor's own clock is not synchronized at the moment";
    (void)snprintf(to, SKEW_VMCLOCK_SIZE, "%s", why);
}

static void report(skew_vmclock *vmclock, const char *host) {
    char trouble[SKEW_VMCLOCK_SIZE];

    skew_vmclock_judge(&vmclock->view, trouble);
    if (strcmp(trouble, vmclock->trouble) == 0)
        return;
    if (trouble[0])
        say("agent: WARN: %s: %s", host, trouble);
    else
        say("agent: %s: no longer: %s", host, vmclock->trouble);
    memcpy(vmclock->trouble, trouble, sizeof trouble);
}

bool skew_vmclock_look(skew_vmclock *vmclock, const char *host) {
    const char *why;
    const tl_vmclock *page = tl__vmclock_open(TL_VMCLOCK_PATH, &why);
    tl_vmclock_view before = vmclock->view;
    bool seen = vmclock->seen;

    if (!page)
        return false;
    vmclock->view = tl__vmclock_read(page);
    tl__vmclock_close(page);
    vmclock->seen = true;
    report(vmclock, host);
    bool disrupted = seen && (before.marker != vmclock->view.marker ||
                              before.generation != vmclock->view.generation);
    if (disrupted)
        say("agent: WARN: %s was paused, moved or restored: it measures anew", host);
    return disrupted;
}
