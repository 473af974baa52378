/*
 * What commands report in the same way. What a key holds is never shown: it is the holder's token,
 * and who has it can release the lock.
 */
#include <stdio.h>

#include "report.h"

static const char *known(const char *text) {
    return text[0] ? text : NULL;
}

void report_holder(json *j, const tl_lock_info *info) {
    if (!info || !info->held || !info->by_tidelock) {
        json_null(j, "holder");
        return;
    }
    json_open(j, "holder");
    json_text(j, "host", known(info->host));
    json_known(j, "pid", info->pid > 0 ? info->pid : -1);
    json_text(j, "service", known(info->service));
    json_close(j);
}

const char *report_who(char buf[HOLDER_SHOWN], const tl_lock_info *info) {
    if (!info->by_tidelock)
        (void)snprintf(buf, HOLDER_SHOWN, "a client that is not tidelock");
    else
        (void)snprintf(buf, HOLDER_SHOWN, "%s on %s (pid %lld)",
                       info->service[0] ? info->service : "an unnamed program",
                       info->host[0] ? info->host : "an unknown host", (long long)info->pid);
    return buf;
}
