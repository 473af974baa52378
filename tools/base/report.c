/*
 * Reports that several commands share. A key's value is never shown: it is the holder's token,
 * and anyone who knows the token can release the lock.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/report.h"
#include "base/tool.h"

#define DAY_MS INT64_C(86400000)

static const char *known(const char *text) {
    return text[0] ? text : NULL;
}

/* ---- members of JSON --------------------------------------------------------------------------- */

#define LOCK_MEMBERS(M, of)                                                                        \
    M(of, key, "the key")                                                                          \
    M(of, protocol,                                                                                \
      "\"token\", \"bridge\" or \"timestamp\"; null when the lock is free, or the protocol is "    \
      "unknown")                                                                                   \
    M(of, state,                                                                                   \
      "\"held\", \"free\", \"busy\"; \"resting\": nobody holds it, but it is taken; "              \
      "\"expired\": a stamp that has ended, if it was read correctly. *run* also has \"lost\", "   \
      "\"unavailable\", \"uncertain\", \"refused\", \"cancelled\", \"invalid\", \"error\"")        \
    M(of, token, "*run* and *lock*: the token; never another client's")                            \
    M(of, fence, "the fencing number of the present holder, or of the last one")                   \
    M(of, holder, "null, or an object, see below; of a lock that rests, the last holder")          \
    M(of, remaining_ms, "how long until the lock expires, or its rest ends")                       \
    M(of, waiters,                                                                                 \
      "*check* and *inspect*: the number of waiters, those in the queue and those that listen "    \
      "for its release instead")
MEMBERS(lock, LOCK_MEMBERS);

#define HOLDER_MEMBERS(M, of)                                                                      \
    M(of, host, "its host")                                                                        \
    M(of, pid, "the process there")                                                                \
    M(of, service, "the name that its client has, as *run --name*")
MEMBERS(holder, HOLDER_MEMBERS);

#define LOOK_MEMBERS(M, of)                                                                        \
    M(of, in_line, "how many of the waiters are in the queue")                                     \
    M(of, line, "an array of the first 20 of the queue, see below; null: it was not read")         \
    M(of, held_ms, "how long the lock has been held; null while it rests")                         \
    M(of, rested_ms, "how long the lock has rested; null also on etcd")                            \
    M(of, rest_until,                                                                              \
      "when its rest ends by the server's clock, as \"2026-01-31T04:00:00Z\"; null also on etcd")  \
    M(of, dialect, "how the stamp is written, or null")                                            \
    M(of, guessed, "true: the dialect is a guess, and without a holder the protocol too")          \
    M(of, stamp_left_ms, "until the end that the stamp names; negative when that has passed")      \
    M(of, library,                                                                                 \
      "whose lock it is, if the form of the value is that library's alone: Redisson, ShedLock; "   \
      "or null")                                                                                   \
    M(of, oddity, "what is odd about the value, or null")
MEMBERS(look, LOOK_MEMBERS);

#define WAITER_MEMBERS(M, of)                                                                      \
    M(of, place, "its rank in the queue, from 1")                                                  \
    M(of, host, "its host")                                                                        \
    M(of, pid, "the process there")                                                                \
    M(of, service, "the name that its client has")                                                 \
    M(of, waited_ms, "how long it has waited")                                                     \
    M(of, fair, "true: it waits with *--fair*")
MEMBERS(waiter, WAITER_MEMBERS);

static json_t *holder_json(const tl_lock_info *info) {
    if (!info || !info->held || !info->by_tidelock)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", host_of_holder, js_text(known(info->host)), pid_of_holder,
                     js_known(info->pid > 0 ? info->pid : -1), service_of_holder,
                     js_text(known(info->service)));
}

json_t *report_lock_json(const report_lock *lock) {
    json_t *json = json_pack("{s:o}", key_of_lock, js_bytes(lock->key, lock->key_len));

    js_set(&json, protocol_of_lock, js_text(protocol_name(lock->protocol)));
    js_set(&json, state_of_lock, js_text(lock->state));
    js_set(&json, token_of_lock, js_text(lock->token));
    js_set(&json, fence_of_lock, js_known(lock->fence));
    js_set(&json, holder_of_lock, holder_json(lock->found));
    js_set(&json, remaining_ms_of_lock, js_known(lock->remaining_ms));
    js_set(&json, waiters_of_lock, js_known(lock->waiters));
    return json;
}

const char *protocol_name(int protocol) {
    const legacy_locks_hooks *legacy = FROM_LEGACY(legacy_locks);

    if (protocol == TL_TOKEN)
        return "token";
    return legacy ? legacy->protocol_name(protocol) : NULL;
}

#define SHEDLOCK_HOST "Z@" /* behind it is the host */

static void show_library(char buf[HOLDER_SHOWN], const tl_lock_info *info) {
    const char *host = strstr(info->value, SHEDLOCK_HOST);

    host = host ? host + sizeof SHEDLOCK_HOST - 1 : "";
    (void)snprintf(buf, HOLDER_SHOWN, "%s%s%.*s", report_library(info), host[0] ? " on " : "",
                   (int)strcspn(host, ":"), host);
}

const char *report_who(char buf[HOLDER_SHOWN], const tl_lock_info *info) {
    const legacy_locks_hooks *legacy = FROM_LEGACY(legacy_locks);

    if (info->by_tidelock)
        (void)snprintf(buf, HOLDER_SHOWN, "%s on %s (pid %lld)",
                       info->service[0] ? info->service : "an unnamed program",
                       info->host[0] ? info->host : "an unknown host", (long long)info->pid);
    else if (info->rests)
        (void)snprintf(buf, HOLDER_SHOWN, "an unknown client");
    else if (report_library(info))
        show_library(buf, info);
    else if (info->guessed && info->protocol == TL_TOKEN)
        (void)snprintf(
            buf, HOLDER_SHOWN,
            "a client known only by its token (tidelock before its first renewal, or another "
            "library)");
    else if (!legacy || !legacy->who(buf, HOLDER_SHOWN, info))
        (void)snprintf(buf, HOLDER_SHOWN,
                       info->value_only ? "a client known only by the key's value"
                                        : "a client that is not tidelock");
    return buf;
}

/* The process of the last holder has ended, so its pid would say nothing. */
static void say_rests(const char *shown, const tl_lock_info *info, bool once) {
    char since[DURATION_SHOWN], left[DURATION_SHOWN], by[HOLDER_SHOWN] = "", ago[48] = "";

    if (info->by_tidelock)
        (void)snprintf(by, sizeof by, " by %s on %s",
                       info->service[0] ? info->service : "an unnamed program",
                       info->host[0] ? info->host : "an unknown host");
    if (info->rested_ms >= 0)
        (void)snprintf(ago, sizeof ago, " %s ago", show_span(since, info->rested_ms));
    say("%s: %s%s%s; free again in %s", shown, once ? "done" : "it rests; released", by, ago,
        show_span(left, info->remaining_ms));
}

void report_conflict(const char *key, const tl_error *err, const tl_lock_info *info, bool once) {
    const char *other = info ? report_other_type(info) : NULL;
    char shown[KEY_SHOWN];

    (void)show_key(shown, key);
    if (info && info->rests)
        say_rests(shown, info, once);
    else if (other)
        say("%s %s; choose another key", shown, other);
    else
        say("%s; see: tidelock check %s", err->message, shown);
}

const char *report_end(char buf[REPORT_END], const tl_lock_info *info) {
    const legacy_locks_hooks *legacy = FROM_LEGACY(legacy_locks);
    char left[DURATION_SHOWN];

    if (legacy && legacy->end(buf, REPORT_END, info))
        return buf;
    if (info->remaining_ms >= 0)
        (void)snprintf(buf, REPORT_END, "expires in %s", show_ms(left, info->remaining_ms));
    else
        (void)snprintf(buf, REPORT_END, "never expires");
    return buf;
}

/* The end of a rest, rounded up to seconds. */
static time_t rest_end(const tl_lock_info *info) {
    return (time_t)((info->rest_end_ms + 999) / 1000);
}

const char *report_rest(char buf[REPORT_END], const tl_lock_info *info) {
    time_t seconds = rest_end(info);
    bool dated = info->remaining_ms >= DAY_MS;
    char left[DURATION_SHOWN], at[32];
    struct tm parts;

    if (info->remaining_ms < 0)
        (void)snprintf(buf, REPORT_END, "resting");
    else if (info->rest_end_ms < 0 || !localtime_r(&seconds, &parts) ||
             strftime(at, sizeof at, dated ? "%Y-%m-%d %H:%M:%S" : "%H:%M:%S", &parts) == 0)
        (void)snprintf(buf, REPORT_END, "resting for another %s",
                       show_span(left, info->remaining_ms));
    else
        (void)snprintf(buf, REPORT_END, "resting until %s (in %s)", at,
                       show_span(left, info->remaining_ms));
    return buf;
}

const char *report_advice(const server *where, const tl_lock_info *info) {
    const legacy_locks_hooks *legacy = FROM_LEGACY(legacy_locks);

    if (report_is_constant(info))
        return "let each holder write a random value, and release by a script that deletes the key "
               "only while it has that value";
    return legacy && server_protocol(where) == TL_TOKEN ? legacy->advice(info) : NULL;
}

const char *report_state(const tl_lock_info *info) {
    if (!info->held)
        return "free";
    if (info->rests)
        return "resting";
    return info->guessed && info->stamp_left_ms < 0 && info->stamp_left_ms != INT64_MIN ? "expired"
                                                                                        : "held";
}

/* ---- the line -------------------------------------------------------------------------------- */

void report_in_line(const tl_waiting *waiting, void *line) {
    report_line *l = line;

    if (l->count < REPORT_LINE)
        l->first[l->count++] = *waiting;
}

static void show_waiting(const tl_waiting *waiting, const char *indent) {
    char since[DURATION_SHOWN];

    printf("%s%3lld. %s on %s (pid %lld)", indent, (long long)waiting->place,
           waiting->service[0] ? waiting->service : "an unnamed program",
           waiting->host[0] ? waiting->host : "an unknown host", (long long)waiting->pid);
    if (waiting->waited_ms >= 0)
        printf(", for %s", show_ms(since, waiting->waited_ms));
    printf("%s\n", waiting->fair ? ", fair" : "");
}

void report_waiting(const tl_lock_info *info, const report_line *line, const char *indent) {
    if (info->waiters <= 0 && info->in_line <= 0)
        return;
    if (info->in_line > 0)
        printf("%s%lld in the queue", indent, (long long)info->in_line);
    if (info->waiters > info->in_line)
        printf("%s%lld listen for its release", info->in_line > 0 ? ", " : indent,
               (long long)(info->waiters - (info->in_line > 0 ? info->in_line : 0)));
    printf("%s\n", line->count > 0 ? ":" : "");
    for (int i = 0; i < line->count; i++)
        show_waiting(&line->first[i], indent);
    if (line->count > 0 && info->in_line > line->count)
        printf("%s     and %lld more\n", indent, (long long)(info->in_line - line->count));
}

static json_t *line_json(const report_line *line) {
    json_t *list = json_array();

    for (int i = 0; i < line->count; i++) {
        const tl_waiting *waiting = &line->first[i];
        json_t *json = json_pack("{s:o}", place_of_waiter, json_integer(waiting->place));
        js_set(&json, host_of_waiter, js_text(known(waiting->host)));
        js_set(&json, pid_of_waiter, js_known(waiting->pid > 0 ? waiting->pid : -1));
        js_set(&json, service_of_waiter, js_text(known(waiting->service)));
        js_set(&json, waited_ms_of_waiter, js_known(waiting->waited_ms));
        js_set(&json, fair_of_waiter, json_boolean(waiting->fair));
        js_append(&list, json);
    }
    return list;
}

static json_t *rest_until(const tl_lock_info *info) {
    time_t seconds = rest_end(info);
    struct tm parts;
    char at[32];

    if (!info->rests || info->rest_end_ms < 0 || !gmtime_r(&seconds, &parts) ||
        strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        return json_null();
    return js_text(at);
}

json_t *report_facts(const char *key, size_t key_len, const tl_lock_info *info,
                     const report_line *line) {
    bool stamp = info->stamp_left_ms != INT64_MIN;
    report_lock lock = {.key = key,
                        .key_len = key_len,
                        .protocol = info->held ? info->protocol : -1,
                        .state = report_state(info),
                        .fence = info->fence ? (int64_t)info->fence : -1,
                        .found = info,
                        .remaining_ms = info->held ? info->remaining_ms : -1,
                        .waiters = info->waiters};
    json_t *json = report_lock_json(&lock);

    js_set(&json, in_line_of_look, js_known(info->in_line));
    js_set(&json, line_of_look, line ? line_json(line) : json_null());
    js_set(&json, held_ms_of_look, js_known(info->held ? info->held_ms : -1));
    js_set(&json, rested_ms_of_look, js_known(info->rests ? info->rested_ms : -1));
    js_set(&json, rest_until_of_look, rest_until(info));
    js_set(&json, dialect_of_look, js_text(known(info->dialect)));
    js_set(&json, guessed_of_look, json_boolean(info->guessed));
    js_set(&json, stamp_left_ms_of_look, stamp ? json_integer(info->stamp_left_ms) : json_null());
    js_set(&json, library_of_look, js_text(report_library(info)));
    js_set(&json, oddity_of_look, js_text(known(info->oddity)));
    return json;
}
