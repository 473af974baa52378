/*
 * A lock as src/client/lock.c is: it runs the machines, publishes what they found, has the keeper watch over
 * a hold. What that file does on three threads happens here in as many events.
 */
#include "world.h"

#define REPORT_NS 200000 /* the keeper's thread reports within so long */

static void drive_stepped(sim_world *w, sim_task *t, const tl_out *out, tl_status status);
static void watch_stepped(sim_world *w, sim_task *t, const tl_out *out, tl_status status);
static void deliver(sim_world *w, void *who, uint32_t tag);

void sim_lock_init(sim_world *w, sim_lock *l, sim_actor *actor) {
    *l = (sim_lock){.client = &actor->host->client, .actor = actor, .key = actor->key};
    l->drive = (sim_task){.client = l->client, .lock = l, .key = l->key, .listens = -1};
    l->drive.alarm = l->drive.wake = SIM_ALARM;
    l->watch = l->drive;
    l->report = SIM_ALARM;
    l->drive.stepped = drive_stepped;
    l->watch.stepped = watch_stepped;
    l->watch.machine = &l->renew;
    l->watch.step = tl__renew_step;
    l->ttl_ms = w->cfg.ttl_ms;
    sim_kind kind = (sim_kind)w->cfg.cast[actor->id].kind;
    l->protocol = kind == SIM_TOKEN ? &sim_counted_token : sim_stamp_row(kind);
    l->strict = kind == SIM_STRICT;
}

static tl_job make_job(sim_world *w, const sim_lock *l) {
    const sim_key *key = &w->key[l->key];
    return (tl_job){.protocol = l->protocol,
                    .key = key->k,
                    .sidecar = key->s,
                    .owner = tl__bytes_of(l->client->owner),
                    .token = l->token,
                    .ttl_ms = l->ttl_ms,
                    .attempt_ms = w->cfg.attempt_ms,
                    .restart_quiet_ms = w->cfg.quiet_ms,
                    .wait_replicas = w->cfg.wait_replicas,
                    .wait_replicas_ms = w->cfg.wait_replicas_ms,
                    .rules = l->rules,
                    .proof = l->proof,
                    .believed = l->deadline};
}

static void publish(sim_lock *l, tl_state state, tl_mono deadline) {
    l->deadline = deadline;
    l->state = state;
}

bool sim_lock_held(const sim_world *w, const sim_lock *l, sim_ns at) {
    (void)w;
    if (l->state == TL_FREE || l->state == TL_LOST)
        return false;
    return sim_clock_read(&l->client->host->boot, at) < l->deadline.ns;
}

/* ---- watching over a hold ---------------------------------------------------------------------- */

static void drop_left_over(sim_world *w, sim_lock *l) {
    tl_settle s;
    tl_job job = make_job(w, l);
    job.proof = (tl_proof){0};
    tl__settle_init(&s, &job, TL_RELEASE, (tl_mono){0}, sim_random(&w->random));
    sim_detach(w, l->client, &s, sizeof s, tl__settle_step, TL_START, l->key);
}

static bool leaves_something(const sim_lock *l, const tl_lock_event *event) {
    bool gone = event->why == TL_LOST_TAKEN || event->why == TL_LOST_GONE;
    return event->state == TL_LOST && (gone || (event->why == TL_LOST_EXPIRED && !l->manual_renew));
}

static void deliver(sim_world *w, void *who, uint32_t tag) {
    sim_lock *l = who;
    if (!sim_host_alarm(w, l->client->host, &l->report, SIM_RANK_TIMER, deliver, who, tag) ||
        !l->reported)
        return;
    tl_lock_event event = l->event;
    l->reported = false;
    if (leaves_something(l, &event))
        drop_left_over(w, l);
    l->told(w, l, &event);
}

static void count_note(sim_world *w, sim_lock *l, const tl_note *note) {
    sim_stats *s = &w->stats;
    switch (note->kind) {
    case TL_NOTE_AT_RISK: s->at_risk++; return;
    case TL_NOTE_HELD: s->saved++; return;
    case TL_NOTE_LOST: break;
    }
    s->lost_expired += note->why == TL_LOST_EXPIRED;
    s->lost_taken += note->why == TL_LOST_TAKEN;
    s->lost_gone += note->why == TL_LOST_GONE;
    s->lost_max_hold += note->why == TL_LOST_MAX_HOLD;
    s->stolen += note->stolen;
    sim_check_lost(w, l, l->renew.result.deadline, note->why);
}

static void watch_stepped(sim_world *w, sim_task *t, const tl_out *out, tl_status status) {
    static const tl_state states[] = {
        [TL_NOTE_AT_RISK] = TL_AT_RISK, [TL_NOTE_HELD] = TL_HELD, [TL_NOTE_LOST] = TL_LOST};
    static const char *const words[] = {
        [TL_NOTE_AT_RISK] = "at risk", [TL_NOTE_HELD] = "held again", [TL_NOTE_LOST] = "LOST"};
    sim_lock *l = t->lock;
    bool grown = tl__mono_before(l->deadline, l->renew.result.deadline);
    l->deadline = l->renew.result.deadline;
    if (status == TL_END)
        l->deadline = (tl_mono){0};
    for (unsigned i = 0; i < out->notes; i++) {
        sim_tell(w, l->actor->name, l->key, "%s%s", words[out->note[i].kind],
                 out->note[i].stolen ? ": stolen" : "");
        count_note(w, l, &out->note[i]);
        l->state = states[out->note[i].kind];
        l->event = (tl_lock_event){.state = l->state, .why = out->note[i].why};
        l->reported = true;
        sim_alarm_set(&w->queue, &l->report, w->now + sim_draw(w, 0, REPORT_NS), SIM_RANK_TIMER,
                      deliver, l);
    }
    if (grown && l->state != TL_LOST) {
        w->stats.keeps++;
        sim_check_belief(w, l->actor, l->deadline);
    }
}

/* What its renewals have proved. */
static void prove(sim_lock *l) {
    if (l->watch.running)
        l->proof = l->renew.job.proof;
}

/* True when something of the hold may be left over that nobody has dropped. */
static bool stop_watching(sim_world *w, sim_lock *l) {
    bool left = !l->manual_renew && (l->watch.running || l->reported);
    sim_keep_forget(w, &l->watch);
    l->reported = false;
    return left;
}

void sim_lock_drop(sim_world *w, sim_lock *l) {
    (void)stop_watching(w, l);
    l->state = TL_FREE;
    w->token[l->number].promise = SIM_MOVED_ON;
}

static void watch(sim_world *w, sim_lock *l, uint64_t seed) {
    tl_job job = make_job(w, l);
    tl_mono now = sim_host_now(w, l->client->host);
    tl_mono hold = l->max_hold_ms > 0 ? tl__mono_add_ms(now, l->max_hold_ms) : TL_NEVER;
    l->hold_by = hold;
    tl__renew_init(&l->renew, &job, l->deadline, hold, l->manual_renew, seed);
    sim_keep(w, &l->watch, TL_START);
}

/* ---- operations -------------------------------------------------------------------------------- */

static void begin_op(sim_world *w, sim_lock *l, sim_op op, int64_t limit_ms) {
    l->busy = true;
    l->op = op;
    l->op_began = w->now;
    l->op_ms = limit_ms;
}

static void end_op(sim_world *w, sim_lock *l, tl_err code, bool maybe, bool detached) {
    l->busy = false;
    sim_check_ended(w, l, code, maybe, detached);
    l->done(w, l, code);
}

void sim_lock_acquire(sim_world *w, sim_lock *l, int64_t wait_ms) {
    int64_t open_ms = wait_ms == 0 ? w->cfg.connect_ms + w->cfg.attempt_ms : wait_ms;
    if (stop_watching(w, l))
        drop_left_over(w, l);
    publish(l, TL_FREE, (tl_mono){0});
    l->proof = (tl_proof){0};
    l->number = sim_token_new(w, l, &l->token);
    begin_op(w, l, SIM_ACQUIRE, open_ms);
    if (l->protocol->rules)
        sim_stamp_rules(w, l, &l->rules, &l->ttl_ms);
    tl_job job = make_job(w, l);
    tl__acquire_init(&l->machine.acquire, &job, &l->retry, wait_ms, w->cfg.connect_ms,
                     sim_random(&w->random));
    l->drive.machine = &l->machine.acquire;
    l->drive.step = tl__acquire_step;
    sim_drive(w, &l->drive);
}

static void settle(sim_world *w, sim_lock *l, tl_op op, int64_t ttl_ms) {
    prove(l);
    tl_job job = make_job(w, l);
    job.ttl_ms = ttl_ms;
    begin_op(w, l, op == TL_RENEW ? SIM_EXTEND : SIM_RELEASE, w->cfg.attempt_ms);
    tl__settle_init(&l->machine.settle, &job, op, l->deadline, sim_random(&w->random));
    l->drive.machine = &l->machine.settle;
    l->drive.step = tl__settle_step;
    sim_drive(w, &l->drive);
}

void sim_lock_extend(sim_world *w, sim_lock *l, int64_t ttl_ms) {
    tl_rules rules;
    if (l->protocol->rules)
        sim_stamp_rules(w, l, &rules, &ttl_ms);
    l->extend_ms = ttl_ms;
    settle(w, l, TL_RENEW, ttl_ms);
}

void sim_lock_release(sim_world *w, sim_lock *l) {
    prove(l);
    (void)stop_watching(w, l);
    bool early = l->state == TL_LOST &&
                 (l->event.why == TL_LOST_EXPIRED || l->event.why == TL_LOST_MAX_HOLD);
    tl_mono deadline = early ? l->renew.result.deadline : l->deadline;
    l->believed = tl__mono_before(sim_host_now(w, l->client->host), deadline);
    l->state = TL_FREE;
    settle(w, l, TL_RELEASE, l->ttl_ms);
}

void sim_lock_cancel(sim_world *w, sim_lock *l) {
    if (l->busy && l->op == SIM_ACQUIRE)
        sim_task_post(w, &l->drive, SIM_WAKE_CANCEL);
}

/* ---- their ends -------------------------------------------------------------------------------- */

static void acquired(sim_world *w, sim_lock *l, tl_err code, bool detached) {
    const tl_acquisition *a = &l->machine.acquire;
    if (detached)
        sim_detach(w, l->client, a, sizeof *a, tl__acquire_step, TL_TIMER, l->key);
    if (code == TL_OK) {
        l->fence = a->result.fence;
        l->proof = a->result.proof;
        publish(l, TL_HELD, a->result.deadline);
        sim_check_belief(w, l->actor, l->deadline);
        watch(w, l, a->random);
    }
    end_op(w, l, code, a->result.maybe, detached);
}

static void extended(sim_world *w, sim_lock *l, tl_err code) {
    const tl_result *r = &l->machine.settle.result;
    if (code == TL_ELOST) {
        (void)stop_watching(w, l);
        drop_left_over(w, l);
        publish(l, TL_LOST, (tl_mono){0});
    } else if (code == TL_OK && l->watch.running) {
        l->ttl_ms = l->extend_ms;
        l->proof = l->renew.job.proof = r->proof;
        tl__renew_extended(&l->renew, l->ttl_ms, r->deadline, sim_host_now(w, l->client->host));
        publish(l, TL_HELD, r->deadline);
        w->stats.extends++;
        sim_check_belief(w, l->actor, l->deadline);
        sim_keep_tell(w, &l->watch, TL_TIMER);
    } else if (code == TL_OK) {
        l->ttl_ms = l->extend_ms;
        code = TL_ELOST; /* the keeper called it lost while we asked */
    }
    end_op(w, l, code, r->maybe, false);
}

static void released(sim_world *w, sim_lock *l, tl_err code, bool detached) {
    const tl_settle *s = &l->machine.settle;
    if (detached)
        sim_detach(w, l->client, s, sizeof *s, tl__settle_step, TL_TIMER, l->key);
    l->deadline = (tl_mono){0};
    end_op(w, l, code, s->result.maybe, detached);
}

static void drive_stepped(sim_world *w, sim_task *t, const tl_out *out, tl_status status) {
    sim_lock *l = t->lock;
    (void)out;
    if (status == TL_GO)
        return;
    bool detached = status == TL_DETACH;
    switch (l->op) {
    case SIM_ACQUIRE: acquired(w, l, l->machine.acquire.result.code, detached); break;
    case SIM_EXTEND: extended(w, l, l->machine.settle.result.code); break;
    case SIM_RELEASE: released(w, l, l->machine.settle.result.code, detached); break;
    }
}

void sim_lock_crash(sim_world *w, sim_lock *l) {
    sim_conn_free(w, l->drive.line);
    l->drive.line = NULL;
    l->drive.running = l->watch.running = false;
    l->drive.alarm.at = l->drive.wake.at = l->watch.alarm.at = l->report.at = SIM_NEVER;
    l->drive.listens = -1;
    l->state = TL_FREE;
    l->busy = l->reported = false;
}
