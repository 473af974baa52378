/*
 * The kernel's row: its greatest error in both directions, if it reports its clock as steered.
 */
#include <stdio.h>

#include "skew/skew_kernel.h"

#define ERROR_MOST_US INT64_C(16000000) /* us; the kernel counts no further: the time is unknown */

static void say(skew_host *host, const char *status, const char *text) {
    host->status = status;
    (void)snprintf(host->detail, sizeof host->detail, "%s", text);
}

void kernel_judge(const kernel_clock *kernel, skew_host *host) {
    host->instrument = "kernel";
    host->kind = SKEW_REMARK;
    host->age_ms = -1;
    if (!kernel->known) {
        say(host, "unknown", "the kernel does not report it");
    } else if (!kernel->synchronised) {
        say(host, "unsynchronised",
            "the kernel reports that its clock is not synchronised (or the daemon does not report "
            "it to the kernel)");
    } else if (kernel->max_error_us < 0 || kernel->max_error_us >= ERROR_MOST_US) {
        say(host, "unsynchronised",
            "the kernel reports that its clock may be off by 16 s and more");
    } else {
        host->known = true;
        host->offset = (tl_interval){-kernel->max_error_us - 1, kernel->max_error_us + 1};
        host->samples = 1;
        host->age_ms = 0;
        say(host, "ok",
            kernel->leaping ? "from the true time, as the kernel believes; a leap second is near"
                            : "from the true time, as the kernel believes");
    }
}
