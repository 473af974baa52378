/*
 * The kernel's row: its greatest error on both sides, when it says that the clock is steered.
 */
#include <stdio.h>

#include "skew/skew_kernel.h"

#define ERROR_MOST_US INT64_C(16000000) /* where the kernel stops counting, and no time is known */

static void say(skew_host *h, const char *status, const char *text) {
    h->status = status;
    (void)snprintf(h->detail, sizeof h->detail, "%s", text);
}

void kernel_judge(const kernel_clock *k, skew_host *h) {
    h->instrument = "kernel";
    h->kind = SKEW_REMARK;
    h->age_ms = -1;
    if (!k->known) {
        say(h, "unknown", "the kernel does not tell");
    } else if (!k->synchronised) {
        say(h, "unsynchronised",
            "the kernel says that nobody steers its clock (or the daemon that does keeps it to "
            "itself)");
    } else if (k->max_error_us < 0 || k->max_error_us >= ERROR_MOST_US) {
        say(h, "unsynchronised", "the kernel says that its clock may be off by 16 s and more");
    } else {
        h->known = true;
        h->offset = (tl_interval){-k->max_error_us - 1, k->max_error_us + 1};
        h->samples = 1;
        h->age_ms = 0;
        say(h, "ok",
            k->leaping ? "from the true time, as the kernel believes; a leap second is near"
                       : "from the true time, as the kernel believes");
    }
}
