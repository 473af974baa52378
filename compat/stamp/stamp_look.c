/*
 * Describes a stamp for people, and lists the dialects. Nothing here decides whether a lock is
 * held: a guessed dialect is only for display and for warnings.
 */
#include <stdio.h>

#include "ground/glob.h"
#include "ground/options.h"
#include "protocol/look.h"
#include "stamp/stamp.h"

static void copy(char *to, size_t size, const char *text) {
    tl__bytes_print(to, size, tl__bytes_of(text));
}

/* A stamp that S knows is free by its time, or, if K was deleted, as soon as S no longer binds. A
 * stamp with a lifetime of its own that S does not know is free only after both its time and that
 * lifetime. */
static void tell_left(tl_lock_info *info, const tl_rules *rules, const tl_stamp *stamp,
                      int64_t now_ms) {
    int64_t left = stamp->first_free_ms + rules->clock_skew_max_ms + rules->legacy_delay_max_ms +
                   1 - now_ms;
    int64_t known = info->remaining_ms;
    if (info->by_tidelock ? known >= 0 && known < left : known > left)
        left = known;
    info->held = left > 0;
    info->remaining_ms = left > 0 ? left : 0;
    info->free_at_ms = now_ms + left;
}

/* The dialect chosen for this key, else a guess. */
static const tl_dialect *choose(const tl_legacy *legacy, tl_bytes key, tl_bytes text,
                                int64_t now_ms, tl_rules *ret_rules) {
    int64_t ttl_ms = 0;
    *ret_rules = (tl_rules){.dialect = NULL};
    if (legacy->protocol == TL_TOKEN || legacy->protocol == TL_AUTO)
        return tl__dialect_guess(text, now_ms);
    if (tl__stamp_rules(legacy, NULL, key, ret_rules, &ttl_ms, NULL))
        return NULL;
    return ret_rules->dialect;
}

static void look_at(tl_lock_info *info, const tl_legacy *legacy, tl_bytes key, tl_bytes text,
                    int64_t now_us) {
    int64_t now_ms = now_us / 1000;
    bool guess = legacy->protocol == TL_TOKEN || legacy->protocol == TL_AUTO;
    tl_rules rules;
    const tl_dialect *dialect = choose(legacy, key, text, now_ms, &rules);
    const tl_dialect *any = dialect ? dialect : tl__dialect_at(0);
    tl_stamp stamp = tl__dialect_read(any, text, now_ms);
    if (stamp.kind == TL_STAMP_NOT_A_STAMP || stamp.kind == TL_STAMP_UNLIKELY || !dialect) {
        if (tl__dialect_is_accident(any, text, now_ms))
            copy(info->oddity, sizeof info->oddity, tl__dialect_oddity(any, text, now_ms));
        return;
    }
    info->protocol = info->by_tidelock && guess ? TL_BRIDGE : TL_TIMESTAMP;
    if (info->by_tidelock && !guess)
        info->protocol = (int)legacy->protocol;
    info->guessed = guess;
    copy(info->dialect, sizeof info->dialect, dialect->name);
    if (stamp.kind == TL_STAMP_ETERNAL) {
        copy(info->oddity, sizeof info->oddity, "never expires: its client set no end");
        return;
    }
    info->stamp_left_ms = stamp.end_ms - now_ms;
    if (guess)
        info->remaining_ms = info->by_tidelock && info->stamp_left_ms > 0 ? info->stamp_left_ms
                                                                          : -1;
    else
        tell_left(info, &rules, &stamp, now_ms);
}

static void explain(tl_lock_info *info, const tl_legacy *legacy, tl_bytes key,
                    const tl_reply *value, int64_t now_us) {
    tl_rules rules;
    tl_bytes text;
    bool stamps = legacy->protocol == TL_BRIDGE || legacy->protocol == TL_TIMESTAMP;
    if (!stamps || !info->held || info->dialect[0] || info->oddity[0])
        return;
    const tl_dialect *dialect = choose(legacy, key, (tl_bytes){0}, now_us / 1000, &rules);
    if (!dialect)
        return;
    if (!tl__reply_text(value, &text)) /* K was deleted, and had a token */
        return;
    const char *odd = tl__dialect_oddity(dialect, text, now_us / 1000);
    if (odd)
        copy(info->oddity, sizeof info->oddity, odd);
    else
        (void)snprintf(info->oddity, sizeof info->oddity, "not a time of the dialect %s",
                       dialect->name);
}

static bool is_chosen(const tl_legacy *legacy, const tl_dialect *dialect) {
    const char *choices = legacy->options.dialect;
    tl_bytes pattern, name;
    while (tl__glob_choice(&choices, &pattern, &name))
        if (tl__bytes_eq(name, tl__bytes_of(dialect->name)))
            return true;
    return false;
}

/* A guess tells no dialect by such a text: it may be anything. */
static bool endless(const tl_legacy *legacy, unsigned i, tl_bytes *ret) {
    const unsigned each = sizeof((tl_dialect *)0)->eternal / sizeof(char *);
    const tl_dialect *dialect = tl__dialect_at(i / each);
    *ret = (tl_bytes){0};
    if (!dialect || legacy->protocol == TL_TOKEN || legacy->protocol == TL_AUTO)
        return false;
    const char *text = dialect->eternal[i % each];
    if (text && is_chosen(legacy, dialect))
        *ret = tl__bytes_of(text);
    return true;
}

const tl_legacy_look tl__legacy_look = {.look = look_at, .explain = explain, .endless = endless};

bool tl_dialect_at(unsigned i, int64_t end_ms, tl_dialect_info *ret_info) {
    static const char *const units[] = {
        [TL_UNIT_MS] = "ms", [TL_UNIT_S] = "s", [TL_UNIT_REAL] = "s, decimals"};
    const tl_dialect *dialect = tl__dialect_at(i);
    tl_dialect_info info = {.size = sizeof info};
    char text[TL_STAMP_SIZE];
    if (!dialect || tl__info_check(ret_info, "tl_dialect_info", NULL))
        return false;
    info.name = dialect->name;
    info.seen_in = dialect->seen_in;
    info.unit = units[dialect->unit];
    tl_bytes id = TL_LITERAL("6f1c9be2-0d4a-4c5e-9a7b-3e2d1c0b9a88");
    if (dialect->shape == TL_SHAPE_NUMBER_ID && dialect->separator == '-')
        id = TL_LITERAL("4711"); /* a process ID */
    tl__bytes_print(info.example, sizeof info.example,
                    tl__dialect_write(dialect, end_ms, id, text));
    tl__info_write(ret_info, &info, sizeof info);
    return true;
}
