/*
 * A Java service with DistributeLockUtil, bug for bug: SETNX, GET, GETSET and DEL as separate
 * commands, stamps from the host's wall clock, exceptions on what isn't a number and on nil, one
 * boolean field that says "locked" for every key, and a DEL that nothing but it guards.
 */
#include "world.h"

typedef struct {
    sim_conn *conn;
    enum { IDLE, SETNX, GET, GETSET, SLEEPING, HOLDING, DEL } state;
    bool own_flag;
    bool holding;       /**< between lock() and unlock() */
    bool to_the_end;    /**< works for as long as it may */
    bool careless;      /**< calls unlock() in a finally, whatever lock() said */
    int64_t timeout_ms; /**< what is left of it */
    int64_t expires_ms; /**< the stamp that it writes */
    int64_t stamp_ms;   /**< of the lock that it holds */
    int64_t ttl_ms;     /**< that it gives a lock */
    sim_ns never_after; /**< assumed: nothing of the present attempt is executed later */
    char read[TL_INT_SIZE];
    size_t read_n;
} java_actor;

static java_actor *self(sim_actor *a) {
    return (java_actor *)a->state;
}

static bool *flag(sim_world *w, sim_actor *a) {
    return w->cfg.one_java_key ? &self(a)->own_flag : &a->host->java_flag;
}

static void rest(sim_world *w, sim_actor *a) {
    self(a)->state = IDLE;
    sim_actor_wait(w, a, sim_draw(w, 0, w->cfg.idle_ms * SIM_MS));
}

static void say(sim_world *w, sim_actor *a, int state, const char *word, int64_t stamp_ms) {
    java_actor *j = self(a);
    char text[TL_INT_SIZE];
    tl_send send = {.count = 1, .by = tl__mono_add_ms(sim_host_now(w, a->host), w->cfg.attempt_ms)};
    tl_command *c = &send.command[0];
    *c = (tl_command){.form = TL_ARGV, .argc = 2, .argv = {tl__bytes_of(word), w->key[a->key].k}};
    if (stamp_ms)
        c->argv[c->argc++] = tl__bytes_from_int(text, stamp_ms);
    j->state = state;
    w->migration.asked[SIM_JAVA] = w->now;
    sim_conn_send(w, j->conn, &send, a)->never_after = j->never_after;
}

/* ---- lock() ------------------------------------------------------------------------------------ */

static void attempt(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    j->expires_ms = sim_host_wall_ms(w, a->host) + j->ttl_ms;
    j->never_after = SIM_NEVER;
    if (w->cfg.stamps && !w->cfg.slow_javas)
        j->never_after = w->now + w->cfg.lag_ms * (SIM_MS - SIM_MS / 1000);
    say(w, a, SETNX, "SETNX", j->expires_ms);
}

static void unlock(sim_world *w, sim_actor *a);

/* lock() has returned false, or thrown. */
static void fail(sim_world *w, sim_actor *a) {
    if (self(a)->careless)
        unlock(w, a);
    else
        rest(w, a);
}

static void throw(sim_world * w, sim_actor *a, const char *what) {
    w->stats.java_throws++;
    sim_tell(w, a->name, a->key, "throws: %s", what);
    fail(w, a);
}

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
    const java_actor *j = (const java_actor *)a->state;
    bool differ = w->cfg.stamps && (w->cfg.java_writes_ms == 0 || w->cfg.plain_level);
    int64_t end_ms = j->stamp_ms - w->cfg.java_slack_ms;
    return differ && j->ttl_ms > w->cfg.java_ttl_ms ? end_ms - (j->ttl_ms - w->cfg.java_ttl_ms)
                                                    : end_ms;
}

static sim_ns left_to_work(const sim_world *w, sim_actor *a) {
    int64_t end_ms = last_ms(w, a);
    int64_t left_ms = end_ms - sim_host_wall_ms(w, a->host);
    return left_ms > 0 ? left_ms * SIM_MS : 0;
}

/* Some work takes longer than the lock lives, where clocks are not the question. */
static sim_ns draw_hold(sim_world *w, sim_actor *a) {
    if (w->cfg.late_dels)
        return sim_draw(w, 0, 2 * w->cfg.java_ttl_ms * SIM_MS);
    if (w->cfg.java_slack_ms != SIM_NEVER) {
        self(a)->to_the_end = sim_draw(w, 0, 1);
        return sim_draw(w, 0, left_to_work(w, a));
    }
    bool long_work = sim_draw(w, 0, 15) == 0 && w->cfg.hold_ms * 8 > w->cfg.java_ttl_ms;
    return sim_draw(w, 0, (long_work ? 2 * w->cfg.java_ttl_ms : w->cfg.hold_ms) * SIM_MS);
}

static void lock(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    *flag(w, a) = true;
    j->holding = true;
    j->stamp_ms = j->expires_ms;
    j->state = HOLDING;
    w->stats.java_takes++;
    w->key[a->key].turns += a->kind->holds(w, a);
    sim_tell(w, a->name, a->key, "locks %s", w->key[a->key].name);
    if (!w->cfg.stamps)
        count_overlaps(w, a);
    else if (a->kind->holds(w, a))
        sim_check_two(w, a);
    sim_actor_wait(w, a, draw_hold(w, a));
}

static void sleep_or_fail(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    j->timeout_ms -= w->cfg.java_sleep_ms;
    if (j->timeout_ms < 0 || w->calm || !sim_phase_lets(w, SIM_JAVA)) {
        fail(w, a);
        return;
    }
    j->state = SLEEPING;
    sim_actor_wait(w, a, w->cfg.java_sleep_ms * SIM_MS);
}

static void got(sim_world *w, sim_actor *a, const tl_reply *r) {
    java_actor *j = self(a);
    int64_t stored;
    if (r->type != TL_REPLY_STRING || !tl__bytes_to_int(r->text, &stored)) {
        throw(w, a, "NumberFormatException");
        return;
    }
    j->read_n = r->text.n;
    memcpy(j->read, r->text.p, r->text.n);
    if (stored < sim_host_wall_ms(w, a->host))
        say(w, a, GETSET, "GETSET", j->expires_ms);
    else
        sleep_or_fail(w, a);
}

static void got_set(sim_world *w, sim_actor *a, const tl_reply *r) {
    java_actor *j = self(a);
    int64_t replaced;
    if (r->type != TL_REPLY_STRING) {
        w->stats.java_orphans++;
        throw(w, a, "NullPointerException");
        return;
    }
    if (!tl__bytes_eq(r->text, tl__bytes(j->read, j->read_n))) {
        w->stats.java_undercuts += tl__bytes_to_int(r->text, &replaced) && replaced > j->expires_ms;
        sleep_or_fail(w, a);
        return;
    }
    w->stats.java_takeovers++;
    lock(w, a);
}

/* ---- unlock() ---------------------------------------------------------------------------------- */

/* Assumed: a DEL is of what it took, and before the end that its job may have. */
static sim_ns end_of_del(const sim_world *w, sim_actor *a) {
    if (!w->cfg.stamps || w->cfg.late_dels)
        return SIM_NEVER;
    return self(a)->holding ? w->now + left_to_work(w, a) - 1 : 0;
}

static void unlock(sim_world *w, sim_actor *a) {
    self(a)->never_after = end_of_del(w, a);
    self(a)->holding = false;
    if (*flag(w, a))
        say(w, a, DEL, "DEL", 0);
    else
        rest(w, a);
}

/* ---- events ------------------------------------------------------------------------------------ */

static void failed(sim_world *w, sim_actor *a) {
    w->stats.java_throws++;
    sim_tell(w, a->name, a->key, "throws: JedisConnectionException");
    if (self(a)->state == DEL)
        rest(w, a); /* the flag stays set */
    else
        fail(w, a);
}

static void answer(sim_world *w, sim_conn *conn, void *who, tl_event *e) {
    sim_actor *a = who;
    const tl_reply *r = e->reply;
    (void)conn;
    if (e->kind == TL_FAILED) {
        failed(w, a);
        return;
    }
    if (r->type == TL_REPLY_ERROR) {
        throw(w, a, "JedisDataException");
        return;
    }
    switch (self(a)->state) {
    case SETNX:
        if (r->integer == 1)
            lock(w, a);
        else
            say(w, a, GET, "GET", 0);
        return;
    case GET: got(w, a, r); return;
    case GETSET: got_set(w, a, r); return;
    case DEL:
        *flag(w, a) = false;
        sim_tell(w, a->name, a->key, "deletes %s", w->key[a->key].name);
        rest(w, a);
        return;
    default: return;
    }
}

static const sim_calls calls = {.answer = answer};

static void act(sim_world *w, sim_actor *a) {
    java_actor *j = self(a);
    switch (j->state) {
    case HOLDING:
        if (j->to_the_end && left_to_work(w, a) > 0)
            sim_actor_wait(w, a, left_to_work(w, a));
        else
            unlock(w, a);
        return;
    case SLEEPING:
        if (sim_phase_lets(w, SIM_JAVA))
            attempt(w, a);
        else
            fail(w, a);
        return;
    case IDLE:
        if (w->calm)
            return;
        if (!sim_phase_lets(w, SIM_JAVA)) {
            rest(w, a);
            return;
        }
        j->timeout_ms = sim_draw(w, 0, 3 * w->cfg.java_ttl_ms);
        attempt(w, a);
        return;
    default: return;
    }
}

static int64_t draw_ttl(sim_world *w) {
    if (!w->cfg.stamps || sim_draw(w, 0, 2) > 0)
        return w->cfg.java_writes_ms ? w->cfg.java_writes_ms : w->cfg.java_ttl_ms;
    return w->cfg.java_writes_ms ? w->cfg.java_writes_ms
                                 : sim_draw(w, w->cfg.java_ttl_ms, 3 * w->cfg.java_ttl_ms);
}

static void start(sim_world *w, sim_actor *a) {
    self(a)->conn = sim_conn_new(w, a->host, &calls, a);
    self(a)->careless = sim_draw(w, 0, 1);
    self(a)->ttl_ms = draw_ttl(w);
    rest(w, a);
}

static void crash(sim_world *w, sim_actor *a) {
    sim_conn_free(w, self(a)->conn);
    self(a)->conn = NULL;
    self(a)->holding = false;
    self(a)->state = IDLE;
}

/* Only with stamps is it said until when it may be. */
static bool holds(const sim_world *w, const sim_actor *a) {
    const java_actor *j = (const java_actor *)a->state;
    return w->cfg.stamps && a->host->up && j->holding &&
           sim_host_wall_ms(w, a->host) < last_ms(w, a);
}

bool sim_java_is_busy(const sim_actor *a) {
    const java_actor *j = (const java_actor *)a->state;
    return j->state != IDLE && j->state != SLEEPING;
}

bool sim_java_is_inside(const sim_world *w, int key) {
    for (int i = 0; i < w->cfg.actors; i++) {
        const sim_actor *a = &w->actor[i];
        if (a->kind == &sim_actor_java && a->key == key && holds(w, a))
            return true;
    }
    return false;
}

static void end(sim_world *w, sim_actor *a) {
    if (self(a)->state != IDLE)
        sim_fail(w, a->key, "%s never ends", a->name);
}

const sim_actor_kind sim_actor_java = {
    .name = "java",
    .size = sizeof(java_actor),
    .start = start,
    .act = act,
    .crash = crash,
    .holds = holds,
    .end = end,
};
