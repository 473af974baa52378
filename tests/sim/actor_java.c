/*
 * A Java service with DistributeLockUtil, bug for bug: SETNX, GET, GETSET and DEL as separate
 * commands, stamps from the host's wall clock, exceptions on what isn't a number and on nil, one
 * boolean field that says "locked" for every key, and a DEL that nothing but it guards. In a run of
 * another dialect: the same program with that one's stamps (dialect.c); where waiters overwrite, the
 * one of these copies: SETNX and EXPIRE, or GETSET without a GET, whose answer is compared with the clock as it is
 * then, and a GET before its DEL, which asks who wrote what stands there.
 */
#include "world.h"

typedef struct {
    sim_raw raw;
    bool busy; /**< between reading the clock and its DEL */
    bool own_flag;
    bool holding;       /**< between lock() and unlock() */
    bool careless;      /**< calls unlock() in a finally, whatever lock() said */
    bool deleting;      /**< its DEL has been sent */
    int64_t expires_ms; /**< its clock when it writes, and its lifetime: Java's stamp */
    int64_t stamp_ms;   /**< of the lock that it holds */
    int64_t ttl_ms;     /**< that it gives a lock */
    char stamp[SIM_STAMP_SIZE], read[SIM_STAMP_SIZE];
    size_t stamp_n, read_n;
} java_actor;

_Static_assert(sizeof(java_actor) <= SIM_ACTOR_STATE, "fits where actors live");

static java_actor *self(const sim_actor *a) {
    return (java_actor *)(uintptr_t)a->state;
}

static bool *flag(sim_world *w, sim_actor *a) {
    return w->cfg.one_java_key ? &self(a)->own_flag : &a->host->java_flag;
}

/* NULL: an exception was thrown. */
static const tl_reply *ask(sim_world *w, sim_actor *a, const char *word, tl_bytes stamp) {
    java_actor *j = self(a);
    tl_command c = {.form = TL_ARGV, .argc = 2, .argv = {tl__bytes_of(word), w->key[a->key].k}};
    if (stamp.n > 0)
        c.argv[c.argc++] = stamp;
    w->migration.asked[SIM_JAVA] = w->now;
    const tl_reply *r = sim_raw_ask(w, &j->raw, &c, 1, w->cfg.attempt_ms);
    if (r && r->type != TL_REPLY_ERROR)
        return r;
    w->stats.java_throws++;
    sim_tell(w, a->name, a->key, "throws: %s",
             r ? "JedisDataException" : "JedisConnectionException");
    return NULL;
}

static void throw(sim_world * w, sim_actor *a, const char *what) {
    w->stats.java_throws++;
    sim_tell(w, a->name, a->key, "throws: %s", what);
}

/* ---- having it ----------------------------------------------------------------------------------- */

static void count_overlaps(sim_world *w, sim_actor *a) {
    for (int i = 0; i < w->cfg.actors; i++) {
        sim_actor *b = &w->actor[i];
        if (b == a || b->kind != a->kind || b->key != a->key || !b->host->up || !self(b)->holding)
            continue;
        bool within = sim_host_wall_ms(w, b->host) <= self(b)->stamp_ms;
        w->stats.java_robberies += within;
        w->stats.java_overstays += !within;
        sim_tell(w, a->name, a->key, "%s %s", within ? "STEALS FROM" : "succeeds", b->name);
    }
}

/* By its clock. A racing loser may have left a stamp by its own lifetime, so that where these differ the
 * shortest counts for all. */
static int64_t last_ms(const sim_world *w, const sim_actor *a) {
    const java_actor *j = self(a);
    bool differ = w->cfg.stamps && (w->cfg.java_writes_ms == 0 || w->cfg.plain_level);
    int64_t end_ms = j->stamp_ms - w->cfg.java_slack_ms - sim_dialect_early_ms(&w->cfg);
    return differ && j->ttl_ms > w->cfg.java_ttl_ms ? end_ms - (j->ttl_ms - w->cfg.java_ttl_ms)
                                                    : end_ms;
}

static sim_ns left_to_work(const sim_world *w, const sim_actor *a) {
    int64_t end_ms = last_ms(w, a);
    int64_t left_ms = end_ms - sim_host_wall_ms(w, a->host);
    return left_ms > 0 ? left_ms * SIM_MS : 0;
}

/* Some work takes longer than the lock lives, where clocks are not the question. */
static sim_ns draw_hold(sim_world *w, sim_actor *a, bool *ret_to_the_end) {
    if (w->cfg.late_dels)
        return sim_draw(w, 0, 2 * w->cfg.java_ttl_ms * SIM_MS);
    if (w->cfg.java_slack_ms != SIM_NEVER) {
        *ret_to_the_end = sim_draw(w, 0, 1);
        return sim_draw(w, 0, left_to_work(w, a));
    }
    bool long_work = sim_draw(w, 0, 15) == 0 && w->cfg.hold_ms * 8 > w->cfg.java_ttl_ms;
    return sim_draw(w, 0, (long_work ? 2 * w->cfg.java_ttl_ms : w->cfg.hold_ms) * SIM_MS);
}

static void lock(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    bool to_the_end = false;
    *flag(w, a) = true;
    j->holding = true;
    j->stamp_ms = j->expires_ms;
    w->stats.java_takes++;
    w->stats.dialect_takes += w->cfg.dialect > 0;
    bool holds = a->kind->holds(w, a);
    w->key[a->key].turns += holds;
    sim_tell(w, a->name, a->key, "locks %s", w->key[a->key].name);
    if (!w->cfg.stamps)
        count_overlaps(w, a);
    else if (holds)
        sim_check_two(w, a);
    if (holds)
        sim_rest_stolen(w, a, a->key);
    sim_sleep(w, draw_hold(w, a, &to_the_end));
    while (to_the_end && left_to_work(w, a) > 0)
        sim_sleep(w, left_to_work(w, a));
}

/* ---- lock() ------------------------------------------------------------------------------------ */

typedef enum { HAD, NOT_HAD, THREW } outcome;

static outcome got_set(sim_world *w, sim_actor *a, const tl_reply *r) {
    java_actor *j = self(a);
    int64_t replaced, own;
    if (r->type != TL_REPLY_STRING) {
        w->stats.java_orphans++;
        throw(w, a, "NullPointerException");
        return THREW;
    }
    if (!tl__bytes_eq(r->text, tl__bytes(j->read, j->read_n))) {
        w->stats.java_undercuts += sim_dialect_read(w, r->text, &replaced) &&
                                   sim_dialect_read(w, tl__bytes(j->stamp, j->stamp_n), &own) &&
                                   replaced > own;
        return NOT_HAD;
    }
    w->stats.java_takeovers++;
    return HAD;
}

/* What it goes on to compare the answer to its GETSET with. */
static bool keep_read(sim_actor *a, tl_bytes text) {
    java_actor *j = self(a);
    if (text.n > sizeof j->read)
        return false;
    j->read_n = text.n;
    memcpy(j->read, text.p, text.n);
    return true;
}

/* By its clock as it is now; what is done with it is over within L. */
static tl_bytes write_stamp(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    j->expires_ms = sim_host_wall_ms(w, a->host) + j->ttl_ms;
    tl_bytes stamp = sim_dialect_write(w, a, j->ttl_ms, j->stamp);
    j->stamp_n = stamp.n;
    j->raw.never_after = SIM_NEVER;
    if (w->cfg.stamps && !w->cfg.slow_javas)
        j->raw.never_after = w->now + w->cfg.lag_ms * (SIM_MS - SIM_MS / 1000);
    return stamp;
}

/* Below 2.2 such a key would be as good as absent to the next SETNX: no program did so then. */
static outcome has_set(sim_world *w, sim_actor *a) {
    char seconds[TL_INT_SIZE];
    if (!sim_dialect_overwrites(w->cfg.dialect) || w->cfg.level < FAKE_LEVEL(2, 2, 0))
        return HAD;
    return ask(w, a, "EXPIRE", tl__bytes_from_int(seconds, self(a)->ttl_ms / 1000)) ? HAD : THREW;
}

static outcome overwrite(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    bool expired = false;
    const tl_reply *r = ask(w, a, "GETSET", write_stamp(w, a));
    if (!r)
        return THREW;
    bool late = w->now > j->raw.never_after, nil = r->type != TL_REPLY_STRING;
    w->stats.java_orphans += nil;
    if (late || nil || !sim_dialect_expired(w, a, r->text, &expired)) {
        throw(w, a,
              nil    ? "NullPointerException"
              : late ? "JedisConnectionException"
                     : "NumberFormatException");
        return THREW;
    }
    w->stats.java_overwrites += !expired;
    w->stats.java_takeovers += expired;
    return expired ? HAD : NOT_HAD;
}

static outcome attempt(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    bool expired;
    j->busy = true;
    tl_bytes stamp = write_stamp(w, a);
    const tl_reply *r = ask(w, a, "SETNX", stamp);
    if (!r)
        return THREW;
    if (r->integer == 1)
        return has_set(w, a);
    if (sim_dialect_overwrites(w->cfg.dialect))
        return overwrite(w, a);
    r = ask(w, a, "GET", (tl_bytes){0});
    if (!r)
        return THREW;
    if (r->type != TL_REPLY_STRING || !sim_dialect_expired(w, a, r->text, &expired) ||
        !keep_read(a, r->text)) {
        throw(w, a, "NumberFormatException");
        return THREW;
    }
    if (!expired)
        return NOT_HAD;
    r = ask(w, a, "GETSET", stamp);
    return r ? got_set(w, a, r) : THREW;
}

static outcome try_until(sim_world *w, sim_actor *a, int64_t timeout_ms) {
    for (;;) {
        outcome o = attempt(w, a);
        if (o != NOT_HAD)
            return o;
        timeout_ms -= w->cfg.java_sleep_ms;
        if (timeout_ms < 0 || w->calm || !sim_phase_lets(w, a))
            return NOT_HAD;
        self(a)->busy = false;
        sim_sleep(w, w->cfg.java_sleep_ms * SIM_MS);
        if (!sim_phase_lets(w, a))
            return NOT_HAD;
    }
}

/* ---- unlock() ---------------------------------------------------------------------------------- */

/* Assumed: a DEL is of what it took, and before the end that its job may have. */
static sim_ns end_of_del(const sim_world *w, const sim_actor *a) {
    if (!w->cfg.stamps || w->cfg.late_dels)
        return SIM_NEVER;
    return self(a)->holding ? w->now + left_to_work(w, a) - 1 : 0;
}

/* Where a waiter has overwritten it, it is left to run out. */
static bool is_to_delete(sim_world *w, sim_actor *a) {
    if (!sim_dialect_overwrites(w->cfg.dialect))
        return *flag(w, a);
    self(a)->raw.never_after = SIM_NEVER;
    const tl_reply *r = ask(w, a, "GET", (tl_bytes){0});
    if (r && r->type != TL_REPLY_STRING)
        throw(w, a, "NullPointerException");
    return r && r->type == TL_REPLY_STRING && sim_dialect_is_by(w, a, r->text);
}

static void unlock(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    sim_ns end = end_of_del(w, a);
    j->holding = false;
    if (!is_to_delete(w, a))
        return;
    j->raw.never_after = end;
    if (!ask(w, a, "DEL", (tl_bytes){0}))
        return; /* the flag stays set */
    *flag(w, a) = false;
    sim_tell(w, a->name, a->key, "deletes %s", w->key[a->key].name);
}

/* A key that somebody polls all the time never runs out where waiters overwrite. */
static int64_t draw_wait(sim_world *w) {
    bool once = sim_dialect_overwrites(w->cfg.dialect) && sim_draw(w, 0, 2) > 0;
    return once ? 0 : sim_draw(w, 0, 3 * w->cfg.java_ttl_ms);
}

static void use(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    outcome o = try_until(w, a, draw_wait(w));
    j->busy = true;
    if (o == HAD)
        lock(w, a);
    if (o == HAD || j->careless)
        unlock(w, a);
    j->busy = false;
}

static int64_t draw_ttl(sim_world *w) {
    if (!w->cfg.stamps || sim_draw(w, 0, 2) > 0)
        return w->cfg.java_writes_ms ? w->cfg.java_writes_ms : w->cfg.java_ttl_ms;
    return w->cfg.java_writes_ms ? w->cfg.java_writes_ms
                                 : sim_draw(w, w->cfg.java_ttl_ms, 3 * w->cfg.java_ttl_ms);
}

static void live(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    j->raw.fd = -1;
    j->careless = sim_draw(w, 0, 1);
    j->ttl_ms = sim_dialect_lifetime(&w->cfg, draw_ttl(w));
    while (!w->calm && !w->failed) {
        sim_rest(w, sim_draw(w, 0, w->cfg.idle_ms * SIM_MS));
        if (!w->calm && sim_phase_lets(w, a))
            use(w, a);
    }
    sim_raw_end(&j->raw);
}

static void crash(sim_world *w, sim_actor *a) {
    (void)w;
    self(a)->holding = self(a)->busy = false;
}

/* Only with stamps is it said until when it may be. */
static bool holds(const sim_world *w, const sim_actor *a) {
    const java_actor *j = self(a);
    return w->cfg.stamps && a->host->up && j->holding &&
           sim_host_wall_ms(w, a->host) < last_ms(w, a);
}

bool sim_java_is_busy(const sim_actor *a) {
    return self(a)->busy;
}

bool sim_java_is_inside(const sim_world *w, int key) {
    for (int i = 0; i < w->cfg.actors; i++) {
        const sim_actor *a = &w->actor[i];
        if (a->kind == &sim_actor_java && a->key == key && holds(w, a))
            return true;
    }
    return false;
}

const sim_actor_kind sim_actor_java = {
    .name = "java",
    .size = sizeof(java_actor),
    .live = live,
    .crash = crash,
    .holds = holds,
};
