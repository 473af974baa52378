/*
 * Reading a key and its sidecar. Any client may have written them: they are cut, made printable and never
 * trusted.
 */
#include "protocol/look.h"

#include <stdio.h>
#include <strings.h>

#include "wire/rest.h"

#define HEX_TOKEN_MIN 32
#define HEX_TOKEN_MAX 40
#define HOST_SIZE TL_LOOK_HOST
#define SERVICE_SIZE TL_LOOK_SERVICE

static int64_t number(const tl_reply *array, size_t i, int64_t otherwise) {
    int64_t v;
    return tl__reply_int(tl__reply_item(array, i), &v) ? v : otherwise;
}

/* "host pid service" */
void tl__look_owner(tl_bytes owner, char host[HOST_SIZE], int64_t *pid,
                    char service[SERVICE_SIZE]) {
    tl_bytes first = tl__bytes_take(&owner, ' '), second = tl__bytes_take(&owner, ' ');
    if (!owner.p)
        return;
    tl__bytes_print(host, HOST_SIZE, first);
    (void)tl__bytes_to_int(second, pid);
    tl__bytes_print(service, SERVICE_SIZE, owner);
}

/* Does the sidecar know the holder? Then *value becomes the value of K, or its last value if K was
 * deleted. */
static void read_sidecar(tl_lock_info *info, const tl_reply *reply, tl_bytes *value,
                         int64_t now_us) {
    tl_bytes bound, owner;
    int64_t until = number(reply, TL_LOOK_UNTIL, 0), since = number(reply, TL_LOOK_SINCE, -1);
    if (!tl__reply_text(tl__reply_item(reply, TL_LOOK_BOUND), &bound) || bound.n == 0)
        return;
    bool absent = !info->held;
    if (absent ? until < now_us : !tl__bytes_eq(bound, *value))
        return;
    info->held = info->by_tidelock = true;
    if (absent) { /* K was deleted, but its holder may still work: S keeps others out until then */
        info->remaining_ms = (until - now_us) / 1000 + 1;
        tl__bytes_print(info->value, sizeof info->value, bound);
        *value = bound;
    }
    info->held_ms = since >= 0 && since <= now_us ? (now_us - since) / 1000 : -1;
    if (tl__reply_text(tl__reply_item(reply, TL_LOOK_OWNER), &owner))
        tl__look_owner(owner, info->host, &info->pid, info->service);
}

/* Does the lock rest? K's value says so, and S where K has a stamp. The value that is shown is without the time:
 * the servers of a majority each have their own. */
static void read_rest(tl_lock_info *info, const tl_reply *reply, tl_bytes value, int64_t now_us) {
    tl_bytes token, bound = {"", 0};
    int64_t since_us;
    if (info->by_tidelock)
        (void)tl__reply_text(tl__reply_item(reply, TL_LOOK_SINCE), &bound);
    bool plain = tl__rest_read(value, &since_us, &token);
    if (!info->held || (!plain && !tl__rest_read(bound, &since_us, &token)))
        return;
    info->rests = true;
    info->rested_ms = since_us <= now_us ? (now_us - since_us) / 1000 : -1;
    if (plain) {
        static const char word[] = "resting ";
        memcpy(info->value, word, sizeof word);
        tl__bytes_print(info->value + sizeof word - 1, sizeof info->value - sizeof word + 1, token);
    }
}

static bool is_hex(char c) {
    char lower = (char)(c | 0x20);
    return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'f');
}

/* Does it look like a token of a common library? That is a UUID, with or without its dashes, or up to 20
 * bytes in hexadecimal. */
static bool is_token(tl_bytes text) {
    size_t digits = 0, dashes = 0;
    for (size_t i = 0; i < text.n; i++) {
        digits += is_hex(text.p[i]);
        dashes += text.p[i] == '-';
    }
    return digits >= HEX_TOKEN_MIN && digits <= HEX_TOKEN_MAX && digits + dashes == text.n &&
           (dashes == 0 || dashes == 4);
}

/* "ADDED:TIME@HOST:UUID", or without the UUID in older versions. */
static bool is_shedlocks(tl_bytes text) {
    static const char form[] = "ADDED:dddd-dd-ddTdd:dd:dd.dddZ@";
    if (text.n < sizeof form)
        return false;
    for (size_t i = 0; i < sizeof form - 1; i++) {
        bool digit = text.p[i] >= '0' && text.p[i] <= '9';
        if (form[i] == 'd' ? !digit : text.p[i] != form[i])
            return false;
    }
    return true;
}

static void tell_protocol(tl_lock_info *info, const tl_legacy *legacy, tl_bytes key, tl_bytes value,
                          int64_t now_us) {
    const tl_legacy_look *stamps = TL_FROM_COMPAT(tl__legacy_look);
    info->protocol = -1;
    info->stamp_left_ms = INT64_MIN;
    info->free_at_ms = -1;
    if (!info->held)
        return;
    if (tl__is_rest(value)) {
        info->protocol = TL_TOKEN;
        return;
    }
    if (legacy && stamps)
        stamps->look(info, legacy, key, value, now_us);
    if (info->protocol < 0 && (info->by_tidelock || is_token(value) || is_shedlocks(value))) {
        info->protocol = TL_TOKEN;
        info->guessed = !info->by_tidelock;
    }
}

/* ---- what other clients leave -------------------------------------------------------------------- */

#define CONSTANT "a constant"

/* Each holder writes the same, so none can tell whether the key is still its own. The words are those of scan.lua. */
static bool is_constant(tl_bytes value) {
    static const char *const words[] = {"1", "true", "yes", "on", "ok", "lock", "locked"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (value.n == strlen(words[i]) && strncasecmp(value.p, words[i], value.n) == 0)
            return true;
    return false;
}

/* As is_constant() of scan.lua decides: "jobs:lock", but not "clock" or "blocked". */
static bool names_a_lock(tl_bytes key) {
    for (size_t i = 0; i < key.n; i++) {
        const char *at = key.p + i;
        if (key.n - i >= 5 && strncasecmp(at, "mutex", 5) == 0)
            return true;
        if (key.n - i >= 4 && strncasecmp(at, "lock", 4) == 0 &&
            (i == 0 || !memchr("bcBC", at[-1], 4)))
            return true;
    }
    return false;
}

/* K holds a value of another type than string, and no lock: the oddity names the type. Where the server allowed
 * only GET, the type is unknown. */
static void name_type(tl_lock_info *info, tl_bytes kind) {
    static const struct {
        const char *kind, *name;
    } types[] = {{"list", "a list, not a lock"},
                 {"set", "a set, not a lock"},
                 {"zset", "a sorted set, not a lock"},
                 {"hash", "a hash, not a lock"},
                 {"redisson", "a lock of Redisson, which only Redisson can share"},
                 {"stream", "a stream, not a lock"}};
    const char *name = "a value of another type, not a lock";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (tl__bytes_eq(kind, tl__bytes_of(types[i].kind)))
            name = types[i].name;
    (void)snprintf(info->oddity, sizeof info->oddity, "holds %s", name);
}

static void tell_oddity(tl_lock_info *info, tl_bytes kind, tl_bytes value) {
    if (!info->held || info->by_tidelock)
        return;
    if (!tl__bytes_eq(kind, TL_LITERAL("string")))
        name_type(info, kind);
    else if (info->protocol < 0 && !info->oddity[0] && is_constant(value))
        (void)snprintf(info->oddity, sizeof info->oddity,
                       CONSTANT ": each holder writes the same, and may delete another's lock");
}

void tl__look_fill(tl_lock_info *info, const tl_legacy *legacy, tl_bytes key, tl_bytes kind,
                   const tl_reply *answer, int64_t now_us) {
    tl_bytes value = {"", 0};
    int64_t left = number(answer, TL_LOOK_LEFT, -1), fence = number(answer, TL_LOOK_FENCE, 0);
    bool is_text = tl__reply_text(tl__reply_item(answer, TL_LOOK_VALUE), &value);
    *info = (tl_lock_info){.size = sizeof *info, .held = !tl__bytes_eq(kind, TL_LITERAL("none"))};
    tl__bytes_print(info->value, sizeof info->value, is_text || !info->held ? value : kind);
    info->remaining_ms = left >= 0 ? left : -1;
    info->fence = fence > 0 ? (uint64_t)fence : 0;
    info->held_ms = info->waiters = info->in_line = -1;
    read_sidecar(info, answer, &value, now_us);
    read_rest(info, answer, value, now_us);
    tell_protocol(info, legacy, key, value, now_us);
    tell_oddity(info, kind, value);
    if (!info->held || (info->stamp_left_ms != INT64_MIN && info->remaining_ms < 0))
        info->rests = false; /* a stamp that has ended */
    if (info->rests)
        info->rest_end_ms = info->remaining_ms < 0 ? -1 : now_us / 1000 + info->remaining_ms;
}

void tl__look_waiters(tl_lock_info *info, const tl_reply *answer, size_t i) {
    int64_t listen = number(answer, i, -1), stand = number(answer, i + 1, 0);
    info->in_line = stand >= 0 ? stand : -1;
    info->waiters = listen >= 0 && stand >= 0 ? tl__add_sat(listen, stand) : -1;
}

/* "TOKEN LIFETIME NUMBERS INBOX OWNER" */
void tl__look_waiting(tl_waiting *ret, tl_bytes entry, int64_t place_us, int64_t now_us) {
    *ret = (tl_waiting){.size = sizeof *ret, .waited_ms = -1};
    if (place_us > 0 && place_us <= now_us)
        ret->waited_ms = (now_us - place_us) / 1000;
    (void)tl__bytes_take(&entry, ' ');
    (void)tl__bytes_take(&entry, ' ');
    tl_bytes numbers = tl__bytes_take(&entry, ' '), inbox = tl__bytes_take(&entry, ' ');
    ret->fair = inbox.p && tl__bytes_eq(numbers, TL_LITERAL("1"));
    tl__look_owner(entry, ret->host, &ret->pid, ret->service);
}

bool tl__look_is_lock(const tl_lock_info *info, tl_bytes key) {
    if (strncmp(info->oddity, CONSTANT, sizeof CONSTANT - 1) == 0)
        return names_a_lock(key);
    if (info->by_tidelock || info->protocol == TL_BRIDGE || info->protocol == TL_TIMESTAMP)
        return true;
    return info->oddity[0] || (info->protocol == TL_TOKEN && info->remaining_ms >= 0);
}
