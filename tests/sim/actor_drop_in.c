/*
 * A Java service with the drop-in of compat/java: by the rules of that class, not by its code. It asks by EVAL alone, with
 * the scripts that the library sends, and hears nothing. It acquires by the phase of its namespace, under a lease. It waits by
 * polling, in the phase of tokens in the queue. Its clocks are the two that Java has. Some of its locks are renewed.
 * What is left behind without a reply is released again and again, also by later calls; its record is removed when it
 * closes, which it does now and then. In a cluster its acquires carry what it believes of the register of its key's slot,
 * and it has no lease. Its requests go where a node sends them.
 *
 * Besides check.c and phases.c there must hold: it never goes back to an older epoch. And where nothing goes wrong, no more clients are given the lock before one that
 * polls in the queue than stood before it, and the one that had it.
 */
#include "world.h"

#ifdef TL_COMPAT
#include <stdio.h>

#include "dialect/dialect.h"
#include "ground/guard.h"
#include "phase/phase.h"

#define ROUNDS 3       /* so often a stamp that is free may turn out to be another's */
#define SPENT_MS 60000 /* as protocol/sidecar.c */
#define IDLE_MS "3600000"
#define GARBAGE_MS INT64_C(3600000)
#define OWNER "javahost 77 drop-in"
#define NUMBERS "50"
#define POLL_MIN_MS 50 /* the first of the queue; others, and up to */
#define POLL_MS 250
#define POLL_MAX_MS 500
#define LEFTS 4
#define READS 32 /* bytes of a slot's register */
#define SLOT_GRACE_MS 2000
#define DIFFERS (-6)
#define TAKE_ARGS 11 /* before that of the condition */
#define JOIN_ARGS 8

/** By both clocks: one may stand still, the other may be set. */
typedef struct {
    tl_mono nanos;
    int64_t wall_ms;
} moment;

typedef struct {
    moment from;
    int64_t ns;
} limit;

/** What a request without a reply may have left. */
typedef struct {
    tl_token token;
    char entry[160];
    limit until;
} leftover;

typedef struct {
    int phase; /**< as it was read; TL_PHASE_NONE: there is no register */
    int64_t epoch, lease_ms;
    limit until;
    moment reported;
    bool read;
} drop_lease;

/** What it believes of the register of its slot, and the latest phase that it knows. */
typedef struct {
    char name[SIM_SLOT_REGISTER], reads[READS];
    tl_bytes key;
    int phase, latest_phase;
    int64_t epoch, latest_epoch;
    bool read;
} drop_slot;

typedef struct {
    sim_raw raw;
    drop_slot slot;
    char id[48];
    bool knows; /**< the server's clock: server_us, read between these */
    int64_t server_us;
    moment asked, received;
    drop_lease lease;
    int64_t ttl_ms;
    bool renews, repeats;
    uint32_t number; /**< of the token */
    tl_token token;
    bool repeated; /**< a request for it was sent twice */
    bool doubt;    /**< it may have, or get, K, though its client doesn't know */
    bool joined;   /**< and perhaps an entry in the queue */
    char place[64], entry[160];
    int64_t pause_ms; /**< between polls */
    uint32_t turns;   /**< the key's, when it first stood there, */
    int64_t before, since_epoch;
    /* a hold */
    bool holds, stamp, capped;
    limit life, cap;
    moment proved; /**< of an acquire: from L after that on no racing loser can overwrite it */
    int64_t proved_us, end_ms, fence;
    leftover left[LEFTS];
    int lefts;
    unsigned closed;
} drop_in;

_Static_assert(sizeof(drop_in) <= SIM_ACTOR_STATE, "fits where actors live");

typedef enum { HAD, BUSY, THREW } outcome;

static drop_in *self(const sim_actor *a) {
    return (drop_in *)(uintptr_t)a->state;
}

/* ---- its clocks ---------------------------------------------------------------------------------------- */

static moment look(const sim_world *w, const sim_actor *a) {
    return (moment){tl__mono_add_ns(sim_host_clock(w, a->host), -a->host->suspended_ns),
                    sim_host_wall_ms(w, a->host)};
}

static int64_t least_since(moment now, moment then) {
    int64_t ns = tl__ns_until(then.nanos, now.nanos);
    return ns > 0 ? ns : 0;
}

static int64_t most_since(moment now, moment then) {
    int64_t ns = least_since(now, then), wall = (now.wall_ms - then.wall_ms) * SIM_MS;
    return GUARD(drop_in_later_clock) && wall > ns ? wall : ns;
}

static int64_t left_of(limit l, moment now) {
    return l.ns - most_since(now, l.from);
}

static int64_t least_ns(const sim_world *w, int64_t ms) {
    return tl__rate_least_ns(ms * SIM_MS, w->cfg.drift_ppm);
}

/* The server's clock at its earliest, so many ns from now. */
static int64_t earliest_us(const sim_world *w, const drop_in *d, moment now, int64_t in_ns) {
    return d->server_us +
           tl__rate_least_ns(least_since(now, d->received) + in_ns, w->cfg.drift_ppm) / 1000;
}

static int64_t latest_us(const sim_world *w, const drop_in *d, moment now) {
    return d->knows ? d->server_us + 2 +
                          tl__rate_most_ns(most_since(now, d->asked), w->cfg.drift_ppm) / 1000
                    : 0;
}

static void learn(drop_in *d, int64_t us, moment asked, moment received) {
    d->knows = true;
    d->server_us = us;
    d->asked = asked;
    d->received = received;
}

/* ---- asking -------------------------------------------------------------------------------------------- */

/** A request, and the texts of its numbers. */
typedef struct {
    tl_command c;
    char text[10][TL_INT_SIZE];
    int texts;
} request;

static void add(request *q, tl_bytes word) {
    q->c.argv[q->c.argc++] = word;
}

static void add_text(request *q, const char *word) {
    add(q, tl__bytes_of(word));
}

static void add_int(request *q, int64_t n) {
    add(q, tl__bytes_from_int(q->text[q->texts++], n));
}

static void begin(request *q, sim_world *w, const sim_actor *a, tl_script script, unsigned nkeys) {
    sim_key *k = &w->key[a->key];
    const tl_bytes keys[] = {k->k, k->s, k->f, k->l};
    q->c = (tl_command){.form = TL_SCRIPT, .script = (uint8_t)script};
    q->texts = 0;
    for (unsigned i = 0; i < nkeys; i++)
        add(q, keys[i]);
    q->c.nkeys = (uint16_t)nkeys;
}

/* Some of Java's clients connect anew, and send again what had no reply. The class doesn't know: what was sent first may
 * acquire the lock for nobody after the reply to the second, until its limit. */
static const tl_reply *ask_again(sim_world *w, sim_actor *a, const request *q) {
    drop_in *d = self(a);
    bool maybe = d->raw.maybe;
    if (!d->repeats || !maybe)
        return NULL;
    w->stats.drop_in_repeats++;
    d->repeated = true;
    const tl_reply *r = sim_raw_ask(w, &d->raw, &q->c, 1, w->cfg.attempt_ms);
    d->raw.maybe = maybe;
    return r;
}

/* NULL: an exception. */
static const tl_reply *ask(sim_world *w, sim_actor *a, const request *q) {
    drop_in *d = self(a);
    d->raw.never_after = SIM_NEVER;
    d->raw.by_text = true;
    const tl_reply *r = sim_raw_ask(w, &d->raw, &q->c, 1, w->cfg.attempt_ms);
    if (!r)
        r = ask_again(w, a, q);
    if (r && r->type != TL_REPLY_ERROR)
        return r;
    w->stats.drop_in_throws++;
    sim_tell(w, a->name, a->key, "throws: %.*s", r ? (int)r->text.n : 8,
             r ? r->text.p : "no reply");
    return NULL;
}

/* Add the register as the fifth key, and later what it must hold, behind so many arguments. */
static void begin_acquire(request *q, sim_world *w, sim_actor *a, tl_script script, bool acquires) {
    drop_slot *slot = &self(a)->slot;
    begin(q, w, a, script, 4);
    if (!w->cfg.slot_phases || !acquires || !GUARD(drop_in_condition))
        return;
    slot->key = sim_slot_register(w, a->key, slot->name);
    add(q, slot->key);
    q->c.nkeys++;
}

static void add_condition(request *q, const drop_in *d, unsigned args) {
    if (q->c.nkeys < 5)
        return;
    while (q->c.argc < q->c.nkeys + args)
        add_text(q, "");
    add_text(q, d->slot.reads);
}

/* A slot's older register may have come back: then the lower phase counts. */
static int slot_phase(const drop_slot *slot) {
    bool lower = slot->epoch < slot->latest_epoch && slot->latest_phase < slot->phase;
    return lower ? slot->latest_phase : slot->phase;
}

/* For the checks: until when it may be executed, and by which lease. */
static void note(sim_world *w, sim_actor *a, const request *q, int64_t limit_ns, bool by_lease) {
    drop_in *d = self(a);
    tl_mono now = sim_host_clock(w, a->host);
    sim_asked asked = {.token = d->number,
                       .fences = 1,
                       .by = tl__mono_add_ns(now, limit_ns),
                       .sent = now,
                       .never_after = SIM_NEVER};
    if (w->cfg.slot_phases) /* the limit is by the clock of the node that had the slot before */
        asked.by = tl__mono_add_ms(asked.by, 2 * w->cfg.skew_ms);
    if (by_lease && w->cfg.slot_phases) /* the server judges it */
        asked.lease = (sim_lease){
            .epoch = d->slot.epoch, .until = TL_NEVER, .phase = (int8_t)slot_phase(&d->slot)};
    else if (by_lease)
        (void)sim_drop_in_lease(w, a, &asked.lease);
    sim_asked_note(w, a->host, &asked, &q->c);
    sim_phase_asked(w, a->host, NULL, &asked.lease, now);
}

/* ---- the phase ----------------------------------------------------------------------------------------- */

static int acts(const drop_in *d) {
    int phase = d->slot.read ? slot_phase(&d->slot) : d->lease.phase;
    return phase == TL_PHASE_NONE ? TL_PHASE_BRIDGE : phase;
}

static bool knows_time(const sim_world *w, const drop_in *d, moment now) {
    int64_t ns = most_since(now, d->received);
    return d->knows &&
           ns - tl__rate_least_ns(ns, w->cfg.drift_ppm) <= w->cfg.attempt_ms * (SIM_MS / 2);
}

static bool lasts(const sim_world *w, const drop_in *d, moment now) {
    bool fresh = knows_time(w, d, now);
    bool lease = d->lease.read && left_of(d->lease.until, now) > d->lease.lease_ms * (SIM_MS / 4);
    return fresh && lease;
}

static bool is_refused(sim_world *w, const drop_in *d, const drop_lease *read) {
    bool older = read->epoch < d->lease.epoch;
    w->stats.drop_in_refuses += older;
    return older && GUARD(drop_in_no_older_epoch);
}

static void keep_lease(sim_world *w, const sim_actor *a, const drop_lease *read, moment now) {
    drop_in *d = self(a);
    bool newer = read->epoch > d->lease.epoch ||
                 left_of(read->until, now) > left_of(d->lease.until, now);
    if (read->epoch < d->lease.epoch)
        sim_fail(w, a->key, "%s goes from epoch %lld back to %lld", a->name,
                 (long long)d->lease.epoch, (long long)read->epoch);
    w->stats.drop_in_phases += d->lease.read && read->epoch > d->lease.epoch;
    if (!d->lease.read || newer)
        d->lease = *read;
}

static bool read_phase(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    int64_t phase, us;
    request q;
    moment asked = look(w, a);
    int64_t left_ns = d->lease.read ? d->lease.until.ns - least_since(asked, d->lease.until.from)
                                    : 0;
    int64_t most_ns = tl__rate_most_ns(left_ns, w->cfg.drift_ppm);
    begin(&q, w, a, TL_SCRIPT_PHASE, 0);
    q.c.nkeys = 3;
    add_text(&q, SIM_REGISTER);
    add_text(&q, SIM_REGISTER ":clients");
    add_text(&q, "tidelock:skew:{default}");
    add_text(&q, d->id);
    add_text(&q, "1-java " OWNER);
    add_int(&q, latest_us(w, d, asked));
    add_int(&q, TL_PHASE_BRIDGE);
    add_int(&q, w->cfg.own_lease_ms);
    add_int(&q, most_ns > 0 ? most_ns / SIM_MS + 1 : 0);
    add_int(&q, d->lease.epoch);
    add_int(&q, d->lease.epoch > 0 ? d->lease.phase : TL_PHASE_BRIDGE);
    add_text(&q, w->cfg.tool ? sim_config_glob(&w->cfg).keys : "*");
    const tl_reply *r = ask(w, a, &q);
    moment now = look(w, a);
    drop_lease read = {.reported = now, .read = true};
    if (!r || !tl__reply_int(tl__reply_item(r, 0), &phase) ||
        !tl__reply_int(tl__reply_item(r, 1), &read.epoch) ||
        !tl__reply_int(tl__reply_item(r, 2), &read.lease_ms) || !tl__reply_time(r, 3, &us) ||
        phase < TL_PHASE_NONE)
        return false;
    learn(d, us, asked, now);
    read.phase = (int)phase;
    read.until = (limit){GUARD(drop_in_lease_from_request) ? asked : now,
                         least_ns(w, read.lease_ms)};
    if (d->lease.epoch > read.epoch && tl__mono_before(asked.nanos, d->lease.reported.nanos))
        return false;
    if (is_refused(w, d, &read))
        return false;
    keep_lease(w, a, &read, now);
    return true;
}

/* False: it can't be read. */
static bool keep_slot(sim_world *w, drop_slot *slot, tl_bytes reads) {
    int64_t epoch = 0;
    if (reads.n >= READS ||
        (reads.n > 0 && !tl__bytes_to_int(tl__bytes(reads.p + 2, reads.n - 2), &epoch)))
        return false;
    w->stats.drop_in_phases += slot->read && epoch > slot->epoch;
    (void)snprintf(slot->reads, READS, "%.*s", (int)reads.n, reads.n > 0 ? reads.p : "");
    slot->phase = reads.n > 0 ? reads.p[0] - '0' : TL_PHASE_NONE;
    slot->epoch = epoch;
    if (!slot->read || epoch > slot->latest_epoch) {
        slot->latest_epoch = epoch;
        slot->latest_phase = slot->phase;
    }
    slot->read = true;
    return true;
}

static bool read_slot(sim_world *w, sim_actor *a) {
    static const char script[] = "local time = redis.call('TIME') "
                                 "return {redis.call('GET', KEYS[1]) or '', time[1], time[2]}";
    drop_in *d = self(a);
    request q = {.c = {.form = TL_ARGV}};
    moment asked = look(w, a);
    int64_t us;
    add_text(&q, "EVAL");
    add_text(&q, script);
    add_text(&q, "1");
    add(&q, sim_slot_register(w, a->key, d->slot.name));
    const tl_reply *r = ask(w, a, &q);
    if (!r || !tl__reply_time(r, 1, &us))
        return false;
    learn(d, us, asked, look(w, a));
    return keep_slot(w, &d->slot, tl__reply_item(r, 0)->text);
}

static bool knows_slot(sim_world *w, sim_actor *a) {
    const drop_in *d = self(a);
    for (int i = 0; i < ROUNDS && !(d->slot.read && knows_time(w, d, look(w, a))); i++)
        if (!read_slot(w, a))
            return false;
    return d->slot.read && knows_time(w, d, look(w, a));
}

static bool has_lease(sim_world *w, sim_actor *a) {
    if (w->cfg.slot_phases)
        return knows_slot(w, a);
    for (int i = 0; i < ROUNDS; i++) {
        if (lasts(w, self(a), look(w, a)))
            return true;
        if (!read_phase(w, a))
            return false;
    }
    return lasts(w, self(a), look(w, a));
}

bool sim_drop_in_lease(const sim_world *w, const sim_actor *a, sim_lease *ret) {
    const drop_in *d = self(a);
    if (!a->host->up || !d->lease.read || left_of(d->lease.until, look(w, a)) <= 0)
        return false;
    *ret = (sim_lease){
        .epoch = d->lease.epoch,
        .until = tl__mono_add_ns(sim_host_clock(w, a->host), left_of(d->lease.until, look(w, a))),
        .phase = (int8_t)acts(d)};
    return true;
}

/* ---- undoing ------------------------------------------------------------------------------------------- */

static void ask_release(request *q, sim_world *w, const sim_actor *a, const tl_token *token,
                        const char *entry) {
    begin(q, w, a, TL_SCRIPT_RELEASE, 4);
    add(q, tl__token_bytes(token));
    add_int(q, SPENT_MS + w->cfg.attempt_ms);
    if (entry)
        add_text(q, entry);
}

static void undo_all(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    while (d->lefts > 0) {
        leftover *l = &d->left[d->lefts - 1];
        moment now = look(w, a);
        request q;
        ask_release(&q, w, a, &l->token, l->entry);
        if (l->until.ns > least_since(now, l->until.from) && !ask(w, a, &q))
            return;
        d->lefts--;
    }
}

/* The token is given up, whatever has become of it. */
static void undo(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    int64_t ns = tl__rate_most_ns(d->ttl_ms * SIM_MS, w->cfg.drift_ppm) +
                 w->cfg.attempt_ms * SIM_MS;
    w->token[d->number].promise = SIM_MOVED_ON;
    if (d->lefts == LEFTS) /* the oldest lasts no longer than its lifetime */
        memmove(d->left, d->left + 1, (size_t)--d->lefts * sizeof *d->left);
    leftover *l = &d->left[d->lefts++];
    *l = (leftover){.token = d->token, .until = {look(w, a), ns}};
    memcpy(l->entry, d->entry, sizeof l->entry);
    w->stats.drop_in_undoes++;
    undo_all(w, a);
}

/* ---- what a request writes ------------------------------------------------------------------------------- */

/** A stamp, or a token. */
typedef struct {
    char stamp[TL_INT_SIZE];
    tl_bytes value;
    int64_t px_ms, end_ms, until_us; /**< until_us 0: as long as K */
} writes;

static void draw_up(sim_world *w, const drop_in *d, moment now, bool token, int64_t least_end_ms,
                    writes *ret) {
    int64_t now_ms = earliest_us(w, d, now, 0) / 1000, grace_ms = 10 * d->ttl_ms;
    *ret = (writes){.end_ms = now_ms + d->ttl_ms};
    ret->end_ms = ret->end_ms < least_end_ms ? least_end_ms : ret->end_ms;
    if (token) {
        ret->value = tl__token_bytes(&d->token);
        ret->px_ms = ret->end_ms - now_ms;
        return;
    }
    ret->value = tl__bytes_from_int(ret->stamp, ret->end_ms);
    ret->until_us = (ret->end_ms + w->cfg.skew_ms) * 1000;
    if (w->cfg.slot_phases) {
        ret->px_ms = ret->end_ms - now_ms + w->cfg.skew_ms + w->cfg.lag_ms + SLOT_GRACE_MS;
        return;
    }
    ret->px_ms = d->ttl_ms + (grace_ms > GARBAGE_MS ? grace_ms : GARBAGE_MS);
}

static tl_bytes until_text(char room[TL_INT_SIZE + 1], const writes *what) {
    char digits[TL_INT_SIZE];
    tl_bytes n = tl__bytes_from_int(digits, what->until_us > 0 ? what->until_us : what->px_ms);
    int length = snprintf(room, TL_INT_SIZE + 1, "%s%.*s", what->until_us > 0 ? "@" : "", (int)n.n,
                          n.p);
    return tl__bytes(room, (size_t)length);
}

static int64_t limit_ns(const sim_world *w, const drop_in *d, moment now, bool by_lease) {
    int64_t ns = w->cfg.attempt_ms * SIM_MS, lease_ns = left_of(d->lease.until, now);
    bool limits = by_lease && !w->cfg.slot_phases;
    return limits && GUARD(drop_in_take_within_lease) && lease_ns < ns ? lease_ns : ns;
}

/* ---- proofs -------------------------------------------------------------------------------------------- */

static int64_t left_ns(const drop_in *d, moment now) {
    int64_t ns = left_of(d->life, now), cap_ns = left_of(d->cap, now);
    return d->stamp && d->capped && cap_ns < ns ? cap_ns : ns;
}

static bool holds(const sim_world *w, const sim_actor *a) {
    const drop_in *d = self(a);
    return a->host->up && d->holds && left_ns(d, look(w, a)) > 0;
}

static tl_bytes value(const sim_actor *a) {
    return tl__token_bytes(&self(a)->token);
}

/* A key without a lifetime counts as ours; one that expired while the script ran (-2) counts for nothing. */
static void prove_token(const sim_world *w, drop_in *d, moment asked, int64_t left_ms) {
    bool all = left_ms == -1 || left_ms > d->ttl_ms;
    int64_t ms = all ? d->ttl_ms : left_ms > 0 ? left_ms : 0;
    d->stamp = false;
    d->life = (limit){asked, least_ns(w, ms)};
}

static void prove_stamp(const sim_world *w, drop_in *d, moment asked, moment now, int64_t end_ms,
                        int64_t us) {
    const sim_config *c = &w->cfg;
    int64_t left_ms = end_ms - (us + 999) / 1000 - GUARD(drop_in_spares_skew) * c->skew_ms;
    bool fresh = !d->holds || !d->stamp;
    d->stamp = true;
    d->life = (limit){asked, least_ns(w, left_ms > 0 ? left_ms : 0)};
    if (fresh) {
        d->cap = (limit){asked, least_ns(w, c->java_ttl_ms - c->lag_ms - 2 * c->skew_ms)};
        d->proved = now;
    }
    d->capped = fresh ||
                least_since(asked, d->proved) <= tl__rate_most_ns(c->lag_ms * SIM_MS, c->drift_ppm);
    d->proved_us = us;
    d->end_ms = end_ms;
}

/* False: malformed. */
static bool prove(sim_world *w, sim_actor *a, tl_bytes found, moment asked, int64_t left_ms,
                  int64_t us) {
    drop_in *d = self(a);
    if (tl__bytes_eq(found, tl__token_bytes(&d->token))) {
        prove_token(w, d, asked, left_ms);
        return true;
    }
    tl_stamp stamp = tl__dialect_read(tl__dialect_at(0), found, us / 1000 + 1);
    if (stamp.kind == TL_STAMP_GOOD)
        prove_stamp(w, d, asked, look(w, a), stamp.end_ms, us);
    return stamp.kind == TL_STAMP_GOOD;
}

/* For the checks, on the clock that they know. */
static tl_mono deadline(const sim_world *w, const sim_actor *a) {
    return tl__mono_add_ns(sim_host_clock(w, a->host), left_ns(self(a), look(w, a)));
}

/* ---- acquiring ----------------------------------------------------------------------------------------- */

typedef struct {
    int64_t status, left_ms, fence, us, checked, known;
    tl_bytes value;
    moment asked;
} answer;

static bool parse_list(const tl_reply *r, size_t fence_at, answer *ret) {
    const tl_reply *found = tl__reply_item(r, 1);
    ret->value = found->type == TL_REPLY_STRING ? found->text : (tl_bytes){0};
    return tl__reply_int(tl__reply_item(r, 0), &ret->status) &&
           tl__reply_int(tl__reply_item(r, 2), &ret->left_ms) &&
           tl__reply_int(tl__reply_item(r, fence_at), &ret->fence) &&
           tl__reply_time(r, 4, &ret->us);
}

static bool parse_acquired(const drop_in *d, const tl_reply *r, answer *ret) {
    if (r->type == TL_REPLY_STRING) {
        ret->status = ret->checked = 1;
        ret->left_ms = d->ttl_ms;
        ret->value = tl__token_bytes(&d->token);
        return tl__reply_int(r, &ret->us) && (ret->fence = ret->us) > 0;
    }
    return parse_list(r, 3, ret) && tl__reply_int(tl__reply_item(r, 6), &ret->checked) &&
           tl__reply_int(tl__reply_item(r, 7), &ret->known) && ret->checked == 1;
}

static void add_acquire(request *q, sim_world *w, const drop_in *d, moment now, const writes *what,
                        int64_t within_ns) {
    add(q, tl__token_bytes(&d->token));
    add_int(q, what->px_ms);
    add_int(q, earliest_us(w, d, now, within_ns));
    add_int(q, earliest_us(w, d, now, 0));
    add_int(q, latest_us(w, d, now));
    add_text(q, OWNER);
}

/* K must hold `expect`; n 0: nothing. least_end_ms: of a stamp that replaces a loser's. False: no reply. */
static bool ask_for(sim_world *w, sim_actor *a, tl_bytes expect, bool token, bool by_lease,
                    int64_t least_end_ms, answer *ret) {
    drop_in *d = self(a);
    writes what;
    request q;
    char until[TL_INT_SIZE + 1], expected[SIM_STAMP_SIZE + 2];
    moment now = ret->asked = look(w, a);
    int64_t ns = limit_ns(w, d, now, by_lease);
    if (ns <= 0)
        return false;
    draw_up(w, d, now, token, least_end_ms, &what);
    begin_acquire(&q, w, a, TL_SCRIPT_ACQUIRE, by_lease);
    add_acquire(&q, w, d, now, &what, ns);
    if (!token || expect.n > 0 || q.c.nkeys > 4) {
        int n = expect.n > 0 ? snprintf(expected, sizeof expected, "=%.*s", (int)expect.n, expect.p)
                             : 0;
        add_int(&q, 1);
        add(&q, what.value);
        add(&q, tl__bytes(expected, (size_t)n));
        add(&q, until_text(until, &what));
    }
    add_condition(&q, d, TAKE_ARGS);
    d->doubt = true;
    note(w, a, &q, ns, by_lease);
    const tl_reply *r = ask(w, a, &q);
    if (!r || !parse_acquired(d, r, ret))
        return false;
    learn(d, ret->us, ret->asked, look(w, a));
    return true;
}

static bool is_free(const sim_world *w, const answer *found, const tl_stamp *stamp) {
    const sim_config *c = &w->cfg;
    return stamp->kind == TL_STAMP_GOOD && (found->left_ms < 0 || found->known) &&
           stamp->first_free_ms + GUARD(drop_in_waits_for_skew) * (c->skew_ms + c->lag_ms) <
               found->us / 1000;
}

static outcome had(sim_world *w, sim_actor *a, const answer *found) {
    drop_in *d = self(a);
    d->holds = false;
    if (!prove(w, a, found->value, found->asked, found->left_ms, found->us) ||
        left_ns(d, look(w, a)) <= 0)
        return THREW;
    d->doubt = false;
    d->holds = true;
    d->fence = found->fence;
    return HAD;
}

/* K had a stamp that may be taken over: only if it has the same bytes still. */
static outcome take_over(sim_world *w, sim_actor *a, answer *found, bool token) {
    char expect[SIM_STAMP_SIZE];
    for (int i = 0; i < ROUNDS; i++) {
        tl_stamp stamp = tl__dialect_read(tl__dialect_at(0), found->value, found->us / 1000);
        size_t n = found->value.n;
        if (found->status != 0 || !is_free(w, found, &stamp) || n > sizeof expect)
            break;
        memcpy(expect, found->value.p, n);
        if (!ask_for(w, a, tl__bytes(expect, n), token, true, 0, found))
            return THREW;
        if (found->status == 0 && tl__bytes_eq(found->value, tl__bytes(expect, n)))
            break; /* S is why */
    }
    w->stats.drop_in_takeovers += found->status == 1;
    return found->status == 1 ? had(w, a, found) : BUSY;
}

static outcome acquire_by(sim_world *w, sim_actor *a, int phase, answer *found) {
    drop_in *d = self(a);
    bool token = phase >= TL_PHASE_DRAIN;
    if (!ask_for(w, a, (tl_bytes){0}, token, true, 0, found))
        return THREW;
    if (found->status == 1)
        return had(w, a, found);
    d->doubt = false;
    if (found->status < 0)
        return THREW;
    if (phase == TL_PHASE_TOKEN)
        return BUSY;
    outcome o = take_over(w, a, found, token);
    d->doubt = o == THREW;
    return o;
}

/* Again by what its slot's register holds, where that differs. */
static outcome acquire(sim_world *w, sim_actor *a) {
    for (int i = 0; i <= ROUNDS; i++) {
        answer found = {0};
        outcome o = acquire_by(w, a, acts(self(a)), &found);
        if (found.status != DIFFERS)
            return o;
        if (!keep_slot(w, &self(a)->slot, found.value))
            return THREW;
    }
    return THREW;
}

/* ---- the queue ----------------------------------------------------------------------------------------- */

static bool may_queue(const sim_world *w, const drop_in *d) {
    (void)w;
    return acts(d) == TL_PHASE_TOKEN;
}

static void check_turns(sim_world *w, const sim_actor *a) {
    const drop_in *d = self(a);
    uint32_t turns = w->key[a->key].turns - d->turns;
    bool same = w->migration.epoch == d->since_epoch && !w->cfg.slot_phases;
    if (w->calm_all_along && same && turns > (uint64_t)d->before + 2)
        sim_fail(w, a->key, "%s polls in the queue behind %lld, and %u have been given %s", a->name,
                 (long long)d->before, (unsigned)turns, w->key[a->key].name);
}

static void note_place(sim_world *w, sim_actor *a, const tl_reply *r, const answer *found) {
    drop_in *d = self(a);
    const tl_reply *place = tl__reply_item(r, 6);
    int64_t before = 0;
    if (place->type != TL_REPLY_STRING || place->text.n == 0 ||
        !tl__reply_int(tl__reply_item(r, 7), &before))
        return;
    if (d->place[0] == '\0') {
        d->turns = w->key[a->key].turns;
        d->before = before;
        d->since_epoch = w->migration.epoch;
    }
    (void)snprintf(d->place, sizeof d->place, "%.*s %lld", (int)place->text.n, place->text.p,
                   (long long)found->us);
    (void)snprintf(d->entry, sizeof d->entry, "%s %lld? " NUMBERS " poll:%lld " OWNER,
                   d->token.text, (long long)d->ttl_ms, (long long)found->us);
    d->pause_ms = before == 0 ? sim_draw(w, POLL_MIN_MS, POLL_MS)
                              : sim_draw(w, POLL_MS, POLL_MAX_MS);
}

static outcome join(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    answer found = {0};
    char px[TL_INT_SIZE + 1];
    request q;
    moment now = found.asked = look(w, a);
    int64_t ns = limit_ns(w, d, now, true);
    (void)snprintf(px, sizeof px, "%lld?", (long long)d->ttl_ms);
    if (ns <= 0)
        return THREW;
    begin_acquire(&q, w, a, TL_SCRIPT_JOIN, true);
    add(&q, tl__token_bytes(&d->token));
    add_text(&q, px);
    add_int(&q, earliest_us(w, d, now, ns));
    add_text(&q, OWNER);
    add_text(&q, NUMBERS);
    add_text(&q, "poll");
    add_text(&q, d->place);
    add_condition(&q, d, JOIN_ARGS);
    d->doubt = d->joined = true;
    note(w, a, &q, ns, true);
    const tl_reply *r = ask(w, a, &q);
    if (r && tl__reply_int(tl__reply_item(r, 0), &found.status) && found.status == DIFFERS)
        return keep_slot(w, &d->slot, tl__reply_item(r, 1)->text) ? BUSY : THREW;
    if (!r || !parse_list(r, 3, &found))
        return THREW;
    learn(d, found.us, found.asked, look(w, a));
    note_place(w, a, r, &found);
    w->stats.drop_in_joins++;
    sim_tell(w, a->name, a->key, "polls in the queue for token %u: status %lld, place %s",
             (unsigned)d->number, (long long)found.status, d->place);
    if (found.status == 1) {
        w->stats.drop_in_turns++;
        return had(w, a, &found);
    }
    check_turns(w, a);
    return found.status == 0 ? BUSY : THREW;
}

/* ---- lock() and tryLock() -------------------------------------------------------------------------------- */

static void draw_token(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    sim_token_new(w, a->host, &d->token);
    d->number = w->tokens;
    d->doubt = d->joined = d->holds = d->repeated = false;
    d->place[0] = d->entry[0] = '\0';
    d->pause_ms = 0;
}

static void give_up(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    if (d->doubt || d->joined)
        undo(w, a);
    else
        w->token[d->number].promise = d->repeated ? SIM_MOVED_ON : SIM_NOT_ACQUIRED;
}

/* One try. `waits`: the queue is worth it. */
static outcome try_once(sim_world *w, sim_actor *a, bool waits) {
    drop_in *d = self(a);
    undo_all(w, a);
    if (!has_lease(w, a))
        return THREW;
    if (d->joined &&
        !may_queue(w, d)) { /* the phase went back: another token, which no entry has */
        give_up(w, a);
        draw_token(w, a);
    }
    if (d->joined)
        return join(w, a);
    if (d->doubt) { /* a token that may yet have K is not asked for again */
        give_up(w, a);
        draw_token(w, a);
    }
    outcome o = acquire(w, a);
    return o == BUSY && waits && may_queue(w, d) && has_lease(w, a) && may_queue(w, d) ? join(w, a)
                                                                                       : o;
}

static bool lock(sim_world *w, sim_actor *a, int64_t wait_ms) {
    drop_in *d = self(a);
    limit wait = {look(w, a), wait_ms * SIM_MS};
    draw_token(w, a);
    for (;;) {
        outcome o = try_once(w, a, wait_ms > 0);
        if (o == HAD)
            return true;
        int64_t left_ms = left_of(wait, look(w, a)) / SIM_MS;
        if (left_ms <= 0 || w->calm || w->failed)
            break;
        int64_t pause_ms = d->pause_ms > 0 ? d->pause_ms : sim_draw(w, POLL_MIN_MS, POLL_MS);
        sim_sleep(w, (left_ms < pause_ms ? left_ms : pause_ms) * SIM_MS);
    }
    give_up(w, a);
    return false;
}

/* ---- holding ------------------------------------------------------------------------------------------- */

static void lose(sim_world *w, sim_actor *a, const char *why) {
    self(a)->holds = false;
    w->stats.drop_in_lost++;
    sim_tell(w, a->name, a->key, "loses %s: %s", w->key[a->key].name, why);
}

static bool is_losers(const sim_world *w, const drop_in *d, const tl_stamp *stamp) {
    return stamp->kind == TL_STAMP_GOOD &&
           stamp->written_ms - w->cfg.java_ttl_ms <= d->proved_us / 1000 + w->cfg.skew_ms;
}

/* A racing loser's stamp is in the place of ours. */
static void take_back(sim_world *w, sim_actor *a, tl_bytes found, int64_t us) {
    drop_in *d = self(a);
    char expect[SIM_STAMP_SIZE];
    moment now = look(w, a);
    tl_stamp stamp = tl__dialect_read(tl__dialect_at(0), found, us / 1000);
    if (!d->stamp || found.n > sizeof expect || left_ns(d, now) <= 0 || !is_losers(w, d, &stamp)) {
        lose(w, a, "another's stamp");
        return;
    }
    memcpy(expect, found.p, found.n);
    int64_t life_ns = d->life.ns - least_since(now, d->life.from),
            cap_ns = d->cap.ns - least_since(now, d->cap.from);
    int64_t most_ns = tl__rate_most_ns(life_ns > cap_ns ? life_ns : cap_ns, w->cfg.drift_ppm);
    answer said = {0};
    bool asked = ask_for(w, a, tl__bytes(expect, found.n), false, false,
                         latest_us(w, d, now) / 1000 + most_ns / SIM_MS + w->cfg.skew_ms + 2,
                         &said);
    d->doubt = false;
    if (asked && said.status == 1 && left_ns(d, look(w, a)) > 0)
        (void)prove(w, a, said.value, said.asked, said.left_ms, said.us);
    w->stats.drop_in_takes_back += asked && said.status == 1;
}

static void renewed(sim_world *w, sim_actor *a, const tl_reply *r, moment asked) {
    drop_in *d = self(a);
    const tl_reply *item = tl__reply_item(r, 2), *found = tl__reply_item(item, 1);
    int64_t status = -2, left_ms = 0, us = 0;
    tl_bytes text = found->type == TL_REPLY_STRING ? found->text : (tl_bytes){0};
    if (!tl__reply_int(tl__reply_item(item, 0), &status) || !tl__reply_time(r, 0, &us) ||
        !tl__reply_int(tl__reply_item(item, 2), &left_ms))
        return;
    learn(d, us, asked, look(w, a));
    bool was_stamp = d->stamp;
    if (left_ns(d, look(w, a)) <= 0)
        return; /* it was over before this came */
    if (status == 1 && prove(w, a, text, asked, left_ms, us)) {
        w->stats.drop_in_renewals++;
        w->stats.drop_in_drains += was_stamp && !d->stamp;
        sim_check_belief(w, a, deadline(w, a));
    }
    if (status == -1)
        lose(w, a, "it is gone");
    if (status == 0)
        take_back(w, a, text, us);
}

static void renew(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    if (!d->stamp || w->cfg.slot_phases || has_lease(w, a))
        undo_all(w, a);
    moment now = look(w, a);
    bool drains = d->stamp && d->lease.phase >= TL_PHASE_DRAIN && lasts(w, d, now);
    int64_t ns = limit_ns(w, d, now, drains), third = left_ns(d, now) / 3;
    ns = third < ns ? third : ns;
    writes what;
    char until[TL_INT_SIZE + 1];
    request q;
    if (ns <= 0)
        return;
    draw_up(w, d, now, drains || !d->stamp, 0, &what);
    begin(&q, w, a, TL_SCRIPT_RENEW, 2);
    add_int(&q, earliest_us(w, d, now, 0));
    add_text(&q, IDLE_MS);
    add_text(&q, OWNER);
    add(&q, tl__token_bytes(&d->token));
    add(&q, what.value);
    add_int(&q, what.px_ms);
    add(&q, until_text(until, &what));
    add_int(&q, d->fence);
    add_int(&q, earliest_us(w, d, now, ns));
    add_int(&q, latest_us(w, d, now));
    note(w, a, &q, ns, drains);
    const tl_reply *r = ask(w, a, &q);
    if (r)
        renewed(w, a, r, now);
}

/* Its work looks at what is left, and ends with it. */
static void work(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    sim_ns end = w->now + sim_draw(w, 0, w->cfg.hold_ms * SIM_MS);
    while (w->now < end && !w->failed && holds(w, a)) {
        int64_t left = left_ns(d, look(w, a)), part = d->renews ? left / 3 : left;
        sim_ns rest = end - w->now < part ? end - w->now : part;
        sim_sleep(w, rest + 1);
        if (d->renews && w->now < end && holds(w, a))
            renew(w, a);
    }
}

static void release(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    request q;
    d->holds = false;
    w->token[d->number].promise = SIM_MOVED_ON;
    w->token[d->number].released = true;
    ask_release(&q, w, a, &d->token, d->doubt ? d->entry : NULL);
    if (!ask(w, a, &q))
        undo(w, a);
}

static void use(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    int64_t wait_ms = sim_draw(w, 0, 2) ? sim_draw(w, 1, 10 * w->cfg.ttl_ms) : 0;
    if (!lock(w, a, wait_ms))
        return;
    sim_token *t = &w->token[d->number];
    t->promise = SIM_HAD;
    t->dropped = t->ours = t->released = false;
    w->stats.drop_in_takes++;
    sim_tell(w, a->name, a->key, "has %s by a %s, token %u", w->key[a->key].name,
             d->stamp ? "stamp" : "token", (unsigned)d->number);
    sim_check_belief(w, a, deadline(w, a));
    work(w, a);
    release(w, a);
}

/* ---- its life ------------------------------------------------------------------------------------------ */

static void open_class(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    d->lease = (drop_lease){0};
    d->slot = (drop_slot){0};
    d->knows = false;
    d->lefts = 0;
    (void)snprintf(d->id, sizeof d->id, "drop-in-%s-%lld-%u", a->name, (long long)a->host->booted,
                   ++d->closed);
    d->renews = sim_draw(w, 0, 1);
    d->repeats = sim_draw(w, 0, 2) == 0;
}

/* Its record goes last, and not while a request of its may take effect. */
static void close_class(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    undo_all(w, a);
    if (d->lefts > 0 || !d->lease.read)
        return;
    tl_command c = {
        .form = TL_ARGV,
        .argc = 3,
        .argv = {TL_LITERAL("HDEL"), TL_LITERAL(SIM_REGISTER ":clients"), tl__bytes_of(d->id)}};
    d->lease.read = false;
    (void)sim_raw_ask(w, &d->raw, &c, 1, w->cfg.attempt_ms);
}

static int64_t draw_ttl(sim_world *w) {
    int64_t least, most, legacy = w->cfg.java_ttl_ms;
    sim_config_lifetimes(&w->cfg, &least, &most);
    legacy = legacy < least ? least : legacy > most ? most : legacy;
    return sim_draw(w, 0, 2) ? legacy : sim_draw(w, least, most);
}

static void live(sim_world *w, sim_actor *a) {
    drop_in *d = self(a);
    d->raw.fd = -1;
    d->ttl_ms = draw_ttl(w);
    open_class(w, a);
    while (!w->calm && !w->failed) {
        sim_rest(w, sim_draw(w, 0, w->cfg.idle_ms * SIM_MS));
        if (!w->calm)
            use(w, a);
        if (sim_draw(w, 0, 15) == 0) {
            close_class(w, a);
            open_class(w, a);
        }
    }
    close_class(w, a);
    sim_raw_end(&d->raw);
}

static void crash(sim_world *w, sim_actor *a) {
    (void)w;
    self(a)->holds = self(a)->lease.read = false;
}

const sim_actor_kind sim_actor_drop_in = {
    .name = "drop-in",
    .size = sizeof(drop_in),
    .live = live,
    .crash = crash,
    .holds = holds,
    .value = value,
};

#else

const sim_actor_kind sim_actor_drop_in = {.name = "drop-in"};

#endif
