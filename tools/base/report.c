/*
 * What commands report in the same way. What a key holds is never shown: it is the holder's token,
 * and who has it can release the lock.
 */
#include <stdio.h>

#include "base/report.h"
#include "base/tool.h"

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

const char *protocol_name(int protocol) {
    const legacy_locks_calls *legacy = FROM_LEGACY(legacy_locks);

    if (protocol == TL_TOKEN)
        return "token";
    return legacy ? legacy->protocol_name(protocol) : NULL;
}

const char *report_who(char buf[HOLDER_SHOWN], const tl_lock_info *info) {
    const legacy_locks_calls *legacy = FROM_LEGACY(legacy_locks);

    if (info->by_tidelock)
        (void)snprintf(buf, HOLDER_SHOWN, "%s on %s (pid %lld)",
                       info->service[0] ? info->service : "an unnamed program",
                       info->host[0] ? info->host : "an unknown host", (long long)info->pid);
    else if (!legacy || !legacy->who(buf, HOLDER_SHOWN, info))
        (void)snprintf(buf, HOLDER_SHOWN, "a client that is not tidelock");
    return buf;
}

const char *report_end(char buf[REPORT_END], const tl_lock_info *info) {
    const legacy_locks_calls *legacy = FROM_LEGACY(legacy_locks);
    char left[DURATION_SHOWN];

    if (legacy && legacy->end(buf, REPORT_END, info))
        return buf;
    if (info->remaining_ms >= 0)
        (void)snprintf(buf, REPORT_END, "expires in %s", show_ms(left, info->remaining_ms));
    else
        (void)snprintf(buf, REPORT_END, "never expires");
    return buf;
}

const char *report_state(const tl_lock_info *info) {
    if (!info->held)
        return "free";
    return info->guessed && info->stamp_left_ms < 0 && info->stamp_left_ms != INT64_MIN ? "expired"
                                                                                        : "held";
}

void report_facts(json *j, const char *key, size_t key_len, const tl_lock_info *info) {
    json_bytes(j, "key", key, key_len);
    json_text(j, "protocol", info->held ? protocol_name(info->protocol) : NULL);
    json_text(j, "state", report_state(info));
    json_null(j, "token");
    json_known(j, "fence", info->fence ? (int64_t)info->fence : -1);
    report_holder(j, info);
    json_known(j, "remaining_ms", info->held ? info->remaining_ms : -1);
    json_known(j, "waiters", info->waiters);
    json_known(j, "held_ms", info->held ? info->since_ms : -1);
    json_text(j, "dialect", info->dialect[0] ? info->dialect : NULL);
    json_bool(j, "guessed", info->guessed);
    if (info->stamp_left_ms != INT64_MIN)
        json_int(j, "stamp_left_ms", info->stamp_left_ms);
    else
        json_null(j, "stamp_left_ms");
    json_text(j, "oddity", info->oddity[0] ? info->oddity : NULL);
}
