/*
 * What fuzz_reply knows while it plays driver and server to one machine.
 */
#pragma once

#include "fuzz.h"
#include "protocol/acquire.h"
#include "protocol/ask.h"
#include "protocol/renew.h"
#include "protocol/settle.h"
#include "wire/keys.h"

#define SENDS_MAX 512 /* of one run */
#define NODES_MAX 256 /* of one reply */
#define START_NS INT64_C(5000000000000)
#define OFFSET_US INT64_C(1700000000000000)

typedef enum { ACQUIRE, KEEP, DROP, RENEW, LOOK, PING, KINDS } kind;

typedef struct {
    input in;
    kind kind;
    tl_step step;
    union {
        tl_result result; /* the first member of each */
        tl_acquisition acquire;
        tl_settle settle;
        tl_renew renew;
        tl_ask ask;
    } machine;
    tl_job job;
    char sidecar[256 + TL_SIDECAR_EXTRA], line[256 + TL_SIDECAR_EXTRA + TL_LINE_EXTRA];
    int64_t wait_ms, connect_ms;
    tl_mono believed, hold;
    bool by_hand; /* RENEW: the deadline is only watched */

    /* the world */
    tl_mono now, start;
    tl_server server;
    int64_t offset_us; /* of the server's clock */
    bool finishing;

    /* the machine, as the driver sees it */
    tl_out out;
    tl_status status;
    bool detached;  /* the caller has its answer */
    bool in_flight; /* a send without an answer */
    tl_send asked;
    tl_mono asked_at;
    int64_t asked_us; /* what a stamp is written by: its clock then, at most */
    uint16_t tickets[SENDS_MAX];
    unsigned sends, arms;
    unsigned at_once; /* sends at this instant */

    /* what may be believed */
    bool wordless;      /* somebody gave no words for a failure */
    bool busy;          /* the server has told once that another holds it */
    bool doubt;         /* a request without an answer may have taken effect, or may yet */
    tl_mono doubt_by;   /* until when a take in flight may; NEVER: no limit */
    tl_mono unkillable; /* the same, of those that a CLIENT KILL doesn't end */
    bool checks; /* the server refuses a take that comes too late, as its last answer to one said */
    bool done;   /* the server has said that one took effect, and it was of no use */
    bool in_time; /* DROP: begun while believed */
    bool at_risk;
    tl_mono bound;    /* RENEW: no deadline may be later */
    tl_mono deadline; /* RENEW: the one before this step */

    /* stamps */
    bool stamps;
    tl_proof proof; /* of the hold, before this step */
    bool told_text; /* the last GET was answered with text, which is in `told` */
    char told[80];
    size_t told_n;
    char written[80]; /* the last stamp that was sent */
    size_t written_n;

    tl_reply nodes[NODES_MAX];
    unsigned nodes_used;
    char texts[NODES_MAX][TL_INT_SIZE];
    char stamp_texts[8][80];
    unsigned stamps_used;
} fuzz_world;

/* ---- what a reply says ------------------------------------------------------------------------ */

static inline bool is_time(const tl_send *send) {
    const tl_command *c = &send->command[0];
    return send->count == 1 && c->form == TL_ARGV && c->argc == 1 &&
           tl__bytes_eq(c->argv[0], TL_LITERAL("TIME"));
}

static inline bool is_script(const tl_send *send, tl_script script) {
    return send->count > 0 && send->command[0].form == TL_SCRIPT &&
           send->command[0].script == script;
}

/* What a take in native commands brings: MULTI SET INCR HMGET EXEC, of which EXEC's reply has the others'. */
enum { NATIVE_SET = 1, NATIVE_EXEC = 4 };

static inline bool is_ok(const tl_reply *r) {
    tl_bytes text;
    return r && tl__reply_text(r, &text) && tl__bytes_eq(text, TL_LITERAL("OK"));
}

/* SET, INCR or HMGET of it; NULL: they weren't executed so. */
static inline const tl_reply *native_item(const tl_event *e, size_t at) {
    const tl_reply *exec = &e->replied.reply[NATIVE_EXEC];
    bool whole = exec->type == TL_REPLY_ARRAY && exec->count == 3 &&
                 e->replied.reply[0].type != TL_REPLY_ERROR;
    return whole ? tl__reply_item(exec, at) : NULL;
}

/* As says(): the status, what is left, and the fence. */
static inline bool native_says(const fuzz_world *w, const tl_event *e, size_t at, int64_t *ret) {
    const tl_reply *set = native_item(e, 0), *count = native_item(e, 1);
    int64_t fence;
    if (set && set->type == TL_REPLY_NIL && at == 0) {
        *ret = 0;
        return true;
    }
    if (!is_ok(set) || !tl__reply_int(count, &fence) || fence <= 0 || fence >= INT64_C(1) << 53)
        return false;
    *ret = at == 0 ? 1 : at == 2 ? w->job.ttl_ms : fence;
    return at == 0 || at == 2 || at == 3;
}

/* As if a keep had said it: TIME alone is "kept, for all of the lifetime"; 0 behind it, "too late". */
static inline bool refresh_says(const fuzz_world *w, const tl_event *e, size_t at, int64_t *ret) {
    const tl_reply *r = e->replied.reply;
    int64_t us, number = 1;
    if (r->type != TL_REPLY_ARRAY || !tl__reply_time(r, 0, &us) || r->count > 3 ||
        (r->count == 3 && (!tl__reply_int(&r->items[2], &number) || number != 0)))
        return false;
    *ret = at == 0 ? (r->count == 2 ? 1 : -2) : w->job.ttl_ms;
    return true;
}

/* Item `at` of it as a number; of KEEP's, of the array within. DROP answers with the status alone, and
 * so does TAKE in a way, where all is as usual: with its fence. */
static inline bool says(const fuzz_world *w, const tl_event *e, size_t at, int64_t *ret) {
    if (e->kind != TL_REPLY || e->replied.count < 1)
        return false;
    if (e->asked.native)
        return native_says(w, e, at, ret);
    if (is_script(&w->asked, TL_SCRIPT_RELEASE))
        return at == 0 && tl__reply_int(e->replied.reply, ret);
    if (is_script(&w->asked, TL_SCRIPT_ACQUIRE) && e->replied.reply->type == TL_REPLY_STRING) {
        int64_t fence;
        if (!tl__reply_int(e->replied.reply, &fence) || fence <= 0 || fence >= INT64_C(1) << 53)
            return false;
        *ret = at == 0 ? 1 : at == 2 ? w->job.ttl_ms : at == 3 ? fence : 1;
        return true;
    }
    if (is_script(&w->asked, TL_SCRIPT_REFRESH))
        return refresh_says(w, e, at, ret);
    const tl_reply *r = is_script(&w->asked, TL_SCRIPT_RENEW) ? tl__reply_item(e->replied.reply, 2)
                                                              : e->replied.reply;
    return tl__reply_int(tl__reply_item(r, at), ret);
}

static inline bool has_status(const fuzz_world *w, const tl_event *e, int64_t status) {
    int64_t v;
    if (is_script(&w->asked, TL_SCRIPT_RELEASE) && e->kind == TL_REPLY && e->replied.count > 0 &&
        e->replied.reply->type == TL_REPLY_STRING)
        return status == 0; /* what K holds instead */
    return says(w, e, 0, &v) && v == status;
}

/* The latest deadline that this reply can prove: what is left counts from the asking. */
static inline tl_mono latest(const fuzz_world *w, const tl_event *e) {
    int64_t left = 0;
    if (!says(w, e, 2, &left) || left == -1 || left > w->job.ttl_ms)
        left = w->job.ttl_ms;
    return tl__mono_add_ms(w->asked_at, left < 0 ? 0 : left);
}

/* Have as many replicas confirmed as were asked for, and disks? */
static inline bool is_confirmed(const fuzz_world *w, const tl_event *e) {
    int64_t n, here;
    if (!tl__job_waits(&w->job))
        return true;
    if (e->replied.count != (e->asked.native ? NATIVE_EXEC + 2 : 2))
        return false;
    const tl_reply *last = &e->replied.reply[e->replied.count - 1];
    if (w->job.wait_fsync) {
        if (last->type != TL_REPLY_ARRAY || last->count != 2 ||
            !tl__reply_int(&last->items[0], &here) || here < 1)
            return false;
        last = &last->items[1];
    }
    return tl__reply_int(last, &n) && n >= w->job.wait_replicas;
}

/* With quiet_ms a take by script alone is believed. */
static inline bool is_unasked(const fuzz_world *w, const tl_event *e) {
    return w->job.acquire.quiet_ms > 0 &&
           (e->asked.native || !is_script(&w->asked, TL_SCRIPT_ACQUIRE));
}
