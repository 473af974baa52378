/*
 * The Java rule, as plainly as the class has it.
 */
#include "legacy_lock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

legacy_lock legacy_lock_on(redisContext *context) {
    return (legacy_lock){.context = context, .ttl_ms = 60000};
}

static int64_t current_time_ms(const legacy_lock *l) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 + l->ahead_ms;
}

/* What Long.parseLong takes; false: it throws. */
static bool parse_long(const redisReply *r, int64_t *ret) {
    char *end = NULL;
    if (!r || r->type != REDIS_REPLY_STRING || r->len == 0 || strchr(" \t\n\v\f\r", r->str[0]))
        return false;
    *ret = strtoll(r->str, &end, 10);
    return *end == '\0';
}

static bool is_too_late(const legacy_lock *l, int64_t read_ms) {
    return l->lag_ms > 0 && current_time_ms(l) - read_ms >= l->lag_ms;
}

/* After GET: is it expired, and are we the one who replaces just this? */
static bool take_over(legacy_lock *l, const char *key, const redisReply *stored, int64_t stamp_ms) {
    int64_t end_ms;
    if (!parse_long(stored, &end_ms)) {
        l->threw = true;
        return false;
    }
    if (end_ms >= current_time_ms(l) || is_too_late(l, stamp_ms - l->ttl_ms))
        return false;
    redisReply *old = redisCommand(l->context, "GETSET %s %lld", key, (long long)stamp_ms);
    bool equal = old && old->type == REDIS_REPLY_STRING && strcmp(old->str, stored->str) == 0;
    l->threw = !old || old->type != REDIS_REPLY_STRING;
    freeReplyObject(old);
    return equal;
}

static bool attempt(legacy_lock *l, const char *key) {
    int64_t stamp_ms = current_time_ms(l) + l->ttl_ms;
    bool taken = false;
    l->threw = false;
    redisReply *set = redisCommand(l->context, "SETNX %s %lld", key, (long long)stamp_ms);
    if (!set || set->type != REDIS_REPLY_INTEGER) {
        l->threw = true;
    } else if (set->integer == 1) {
        taken = true;
    } else {
        redisReply *stored = redisCommand(l->context, "GET %s", key);
        taken = take_over(l, key, stored, stamp_ms);
        freeReplyObject(stored);
    }
    freeReplyObject(set);
    if (taken)
        l->stamp_ms = stamp_ms;
    return taken;
}

bool legacy_lock_lock(legacy_lock *l, const char *key) {
    bool taken = attempt(l, key);
    if (taken || (l->flag_is_result && !l->threw))
        l->locked = taken;
    return taken;
}

void legacy_lock_release(legacy_lock *l, const char *key) {
    if (!l->locked)
        return;
    if (l->slack_ms == 0 || current_time_ms(l) < l->stamp_ms - l->slack_ms)
        freeReplyObject(redisCommand(l->context, "DEL %s", key));
    l->locked = false;
}
