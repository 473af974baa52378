/*
 * Findings about this host: the VMClock that a hypervisor offers. A client on this host with the same rights finds
 * the same.
 */
#include "doctor/doctor.h"
#include "ground/vmclock.h"

void doctor_judge_host(const tl_vmclock_view *view, const char *why, doctor_report *report) {
    if (!view) {
        doctor_found(report, "vmclock", DOCTOR_NOTE, "no VMClock on this host (%s): %s",
                     TL_VMCLOCK_PATH, why);
        doctor_why(report, "a holder on a virtual machine that is paused, moved or restored relies "
                           "on its lock for too long");
        doctor_fix(report, "on a virtual machine: a hypervisor with a VMClock and Linux 6.13, or "
                           "let the protected resource check fences");
    } else if (!(view->flags & TL_VMCLOCK_COUNTS)) {
        doctor_found(report, "vmclock", DOCTOR_NOTE,
                     "a VMClock of version %d, without a VM generation", TL_VMCLOCK_VERSION);
        doctor_why(report, "a pause or a move of this machine is noticed; that it was restored "
                           "twice from one image is not");
        doctor_fix(report, "start no image of this machine twice");
    } else {
        doctor_found(report, "vmclock", DOCTOR_NOTE,
                     "a VMClock of version %d, with a VM generation", TL_VMCLOCK_VERSION);
        doctor_why(report, "held locks are renewed at once when this machine was paused or moved, "
                           "and lost when it was restored");
        doctor_fix(report, "see that each program that locks may open " TL_VMCLOCK_PATH
                           ", also as another user or in a container");
    }
    if (view && (view->flags & (TL_VMCLOCK_SOON | TL_VMCLOCK_IMMINENT))) {
        doctor_found(report, "vmclock-disruption", DOCTOR_WARNING,
                     "the hypervisor expects to disrupt this machine within about %s",
                     view->flags & TL_VMCLOCK_IMMINENT ? "an hour" : "a day");
        doctor_why(report, "locks that it holds then may be lost");
        doctor_fix(report, "move work with long locks to another host");
    }
}

void doctor_check_host(doctor_report *report) {
    const char *why;
    const tl_vmclock *page = tl__vmclock_open(TL_VMCLOCK_PATH, &why);
    tl_vmclock_view view = page ? tl__vmclock_read(page) : (tl_vmclock_view){0};
    doctor_judge_host(page ? &view : NULL, why, report);
    tl__vmclock_close(page);
}
