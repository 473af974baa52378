/*
 * Replies of any shape, in any order of events, into each machine, through the contract of
 * protocol.h. The target plays the driver as the contract has it and the server as badly as it can,
 * and holds every answer of the machine against what the contract promises.
 */

/*
 * Given events and reply trees for one of six machines: acquire, extend, release, renew, look, ping; with tokens, the
 * bridge, timestamps or strict. The target is the driver of protocol.h and a server that lies. The input yields answers
 * (any tree, or a script's own answer with one item replaced), failures with and without anything sent, wake-ups, timers
 * early and late, and stray answers. It yields cancellations, extensions by hand, a server whose clock steps, and time
 * from nothing to two years. When the input is used up, each request fails at its limit and timers come in time.
 * fuzz_world_checks.h and fuzz_world_stamps.h assert after each step.
 *
 * These checks were tried by changing one line at a time in the sources: a deadline from the wrong clock reading, a
 * forgotten limit, a forgotten doubt. Of 46 changes 44 were found within 45 s each. The other two change nothing that
 * was promised.
 */
#include "fuzz.h"
#include "renewals.h"
#include "wire/keys.h"
#include "fuzz_world.h"
#include "fuzz_world_checks.h"
#include "fuzz_world_replies.h"

#define EVENTS_MAX 64
#define ENDING_MAX 400   /* steps until every machine is done, once all its requests fail */
#define TIMERS_AT_ONCE 3 /* timers that a machine may ask for at one instant */

/* What is known of the hold before a step, and what its answer tells. */
static void note_hold(fuzz_world *w, const tl_event *answer) {
    w->proof = w->kind == RENEW ? w->machine.renew.job.hold.proof : w->job.hold.proof;
    if (w->kind == RENEW && w->stamps)
        w->job.hold.proof = w->proof;
#ifdef TL_COMPAT
    if (answer)
        note_told(w, answer);
#else
    (void)answer;
#endif
}

/* ---- steps ------------------------------------------------------------------------------------ */

static void step(fuzz_world *w, tl_event e) {
    e.now = w->now;
    e.server = &w->server;
    bool answers = (e.kind == TL_REPLY || e.kind == TL_FAILED) && w->in_flight &&
                   e.asked.ticket == w->asked.ticket;
    note_doubt(w, &e);
    if (answers)
        w->in_flight = false;
    w->deadline = w->machine.result.deadline;
    note_hold(w, answers ? &e : NULL);
    tl__out_clear(&w->out);
    w->status = w->step(&w->machine, &e, &w->out);
#ifdef TL_COMPAT
    refuse_watch(w);
#endif
    if (w->out.level)
        w->server.level = w->out.level;
    if (answers)
        note_done(w, &e);
    if (w->status == TL_DETACH)
        w->in_flight = false;
    check_result(w, &e);
    w->detached = w->detached || w->status == TL_DETACH;
    check_out(w, &e);
}

static void pass(fuzz_world *w, tl_mono until) {
    if (until.ns <= w->now.ns)
        return;
    w->now = until;
    w->at_once = 0;
}

/* As the keeper does it: again while the time asked for has come. */
static void timer(fuzz_world *w) {
    for (unsigned n = 0; n == 0 || (w->status != TL_END && w->out.until.ns <= w->now.ns); n++) {
        MUST(n < TIMERS_AT_ONCE);
        step(w, (tl_event){.kind = TL_TIMER});
    }
}

static void fail(fuzz_world *w, bool maybe_sent, bool native, tl_err why, tl_bytes words) {
    w->wordless = w->wordless || words.n == 0;
    step(w, (tl_event){.kind = TL_FAILED,
                       .asked = {.ticket = w->asked.ticket,
                                 .native = native && w->asked.native > 0,
                                 .run = 1,
                                 .id = 7,
                                 .sent = w->asked_at},
                       .failed = {.maybe_sent = maybe_sent && w->asked.count > 0,
                                  .why = why,
                                  .message = words}});
}

/* ---- events from the input -------------------------------------------------------------------- */

static void any_time(fuzz_world *w) {
    uint8_t how = in_byte(&w->in);
    tl_mono until = w->status == TL_END ? w->now : w->out.until;
    switch (how) {
    case 0: return;
    case 1: break;
    case 2: until.ns -= 1; break;
    case 3: until = w->in_flight ? w->asked.by : w->now; break;
    case 4: until.ns = w->in_flight ? w->asked.by.ns - 1 : w->now.ns + 1; break;
    default: until.ns = w->now.ns + (INT64_C(1) << how % 57);
    }
    if (until.ns < TL_NEVER.ns - 1)
        pass(w, until);
}

static void any_answer(fuzz_world *w) {
    tl_reply replies[TL_COMMANDS_MAX];
    uint8_t how = in_byte(&w->in);
    tl_event e = {.kind = TL_REPLY,
                  .asked = {.ticket = w->asked.ticket},
                  .replied = {.count = w->asked.count}};
    const tl_command *c = w->asked.command;
    e.asked.run = how & 0x80 ? 2 : 1;
    if ((how & 0x30) == 0x30) {
        e.replied.count = 0;
    } else if (w->asked.native > 0 && how & 4) {
        e.asked.native = true;
        e.replied.stale = how & 8;
        e.replied.count = w->asked.native;
        c += w->asked.count;
    }
    e.asked.sent.ns = how & 1 ? w->now.ns
                              : w->asked_at.ns + (w->now.ns - w->asked_at.ns) * (how & 2) / 4;
    w->nodes_used = 0;
    for (uint8_t i = 0; i < e.replied.count; i++) {
        replies[i] = e.asked.native ? native_reply(w, &c[i]) : reply_to(w, &c[i]);
        w->wordless = w->wordless || (replies[i].type == TL_REPLY_ERROR && replies[i].text.n == 0);
    }
    e.replied.reply = e.replied.count > 0 ? replies : NULL;
    step(w, e);
}

static void any_failure(fuzz_world *w) {
    static const tl_err whys[] = {TL_EUNAVAILABLE, TL_EUNAVAILABLE, TL_EDENIED,
                                  TL_ENOMEM,       TL_ESERVER,      TL_EINVALID};
    uint8_t how = in_byte(&w->in);
    tl_bytes words = how & 0x80 ? in_bytes(&w->in, 200) : TL_LITERAL("it broke");
    fail(w, how & 0x40, how & 0x20, whys[(how & 0x3f) % (sizeof whys / sizeof *whys)], words);
}

/* An answer that was not asked for. */
static void any_stray(fuzz_world *w) {
    uint8_t how = in_byte(&w->in);
    uint16_t ticket = how & 1 && w->sends > 0 ? w->tickets[w->in.n % w->sends] : in_byte(&w->in);
    tl_reply reply = any_reply(w, 0);
    if (w->in_flight && ticket == w->asked.ticket)
        ticket = 9999;
    tl_event e = {.kind = how & 2 ? TL_REPLY : TL_FAILED,
                  .asked = {.ticket = ticket, .sent = w->start}};
    if (e.kind == TL_REPLY)
        e.replied = (tl_replied){.reply = &reply, .count = 1};
    else
        e.failed.message = TL_LITERAL("not asked for");
    step(w, e);
}

static void any_server(fuzz_world *w) {
    uint8_t how = in_byte(&w->in);
    if (how & 1)
        w->server.anchor.known = false;
    if (how & 2)
        w->offset_us = tl__add_sat(w->offset_us, in_range(&w->in, -86400000, 86400000) * 1000);
    if (how & 8)
        w->server.level = 0;
}

/* The lock was extended by hand: as tl_lock_extend does it. */
static void any_extension(fuzz_world *w) {
    if (w->kind != RENEW)
        return;
    w->job.ttl_ms = w->stamps ? w->job.ttl_ms : in_range(&w->in, TL_TTL_MIN_MS, TL_TTL_MAX_MS);
    w->bound = tl__mono_add_ms(w->now, in_range(&w->in, -1000, w->job.ttl_ms));
    w->in_flight = false; /* given up: from now on its answer is a stray */
    tl__renew_extended(&w->machine.renew, w->job.ttl_ms, w->bound, w->now);
    timer(w);
}

static void any_event(fuzz_world *w) {
    uint8_t what = in_byte(&w->in) % 12;
    any_time(w);
    switch (what) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (w->in_flight)
            any_answer(w);
        else
            timer(w);
        break;
    case 4:
        if (w->in_flight)
            any_failure(w);
        break;
    case 5: step(w, (tl_event){.kind = TL_ARMED, .armed = in_byte(&w->in) & 1}); break;
    case 6:
        w->by_hand = false; /* the server's clock has stepped: it must be asked */
        step(w, (tl_event){.kind = TL_WOKEN});
        break;
    case 7:
    case 8: timer(w); break;
    case 9: any_stray(w); break;
    case 10: any_server(w); break;
    default:
        if (in_byte(&w->in) & 1)
            any_extension(w);
        else
            step(w, (tl_event){.kind = TL_CANCEL});
    }
    if (w->status == TL_DETACH)
        timer(w);
}

/* ---- the end ---------------------------------------------------------------------------------- */

/* From here on every request fails at its limit, and timers are in time. */
static void one_failure(fuzz_world *w, bool maybe_sent) {
    tl_mono until = w->out.until;
    if (w->in_flight)
        until = tl__mono_min(until, w->asked.by);
    if (until.ns != TL_NEVER.ns)
        pass(w, until);
    if (w->in_flight && w->asked.by.ns <= w->now.ns)
        fail(w, maybe_sent, true, TL_EUNAVAILABLE, TL_LITERAL("no answer"));
    else if (w->out.until.ns <= w->now.ns)
        timer(w);
    else
        step(w, (tl_event){.kind = TL_CANCEL}); /* it waits for ever, and may */
}

/* When the caller must have its answer; `from`: when things began to go as they should. */
static tl_mono answer_by(const fuzz_world *w, tl_mono from) {
    int64_t ms = w->job.attempt_ms;
    switch (w->kind) {
    case ACQUIRE:
        if (w->wait_ms == TL_FOREVER)
            return TL_NEVER;
        if (w->wait_ms > 0)
            return tl__mono_max(from, tl__mono_add_ms(w->start, w->wait_ms));
        return tl__mono_add_ms(tl__mono_max(from, tl__mono_add_ms(w->start, w->connect_ms)), ms);
    case KEEP:
    case DROP: return tl__mono_max(from, tl__mono_add_ms(w->start, ms));
    case RENEW: return tl__mono_max(from, tl__mono_min(w->machine.result.deadline, w->hold));
    default:
        return tl__mono_add_ms(tl__mono_max(from, tl__mono_add_ms(w->start, w->connect_ms)), ms);
    }
}

static void finish(fuzz_world *w, bool maybe_sent) {
    int64_t most_ns = tl__rate_most_ns(w->job.ttl_ms * TL_NS_PER_MS, w->server.drift_ppm);
    int64_t clean_ms = most_ns / TL_NS_PER_MS + 1 + w->job.attempt_ms;
    tl_mono by = w->detached ? TL_NEVER : answer_by(w, w->now);
    tl_mono end = w->detached ? tl__mono_add_ms(w->now, clean_ms) : TL_NEVER;
    w->finishing = true;
    w->at_once = 0;
    for (unsigned n = 0; w->status != TL_END; n++) {
        bool before = w->detached;
        MUST(n < ENDING_MAX);
        if (n == ENDING_MAX / 2) { /* many small steps of a long time: go to its end */
            pass(w, tl__mono_add_ms(w->now, clean_ms));
            by = end = TL_NEVER;
        }
        one_failure(w, maybe_sent);
        if (w->detached && !before) {
            MUST(w->now.ns <= by.ns);
            end = tl__mono_add_ms(w->now, clean_ms);
            timer(w);
        }
    }
    MUST(w->now.ns <= (w->detached ? end.ns : by.ns));
}

/* ---- the beginning ---------------------------------------------------------------------------- */

static int64_t custom_pause(uint32_t attempts, int64_t waited_ms, void *ctx) {
    fuzz_world *w = ctx;
    MUST(attempts > 0 && waited_ms >= 0);
    return in_int(&w->in);
}

static void make_job(fuzz_world *w) {
    static const int64_t ttls[] = {30000, TL_TTL_MIN_MS, 1000, TL_TTL_MAX_MS};
    static const int64_t attempts[] = {2000, 1, 500, 86400000};
    uint8_t how = in_byte(&w->in);
    tl_bytes key = in_bytes(&w->in, 32);
    w->job = (tl_job){.protocol = &tl__protocol_token,
                      .key = key.n > 0 ? key : TL_LITERAL("jobs:nightly"),
                      .owner = TL_LITERAL("host 42 demo"),
                      .ttl_ms = ttls[how & 3],
                      .attempt_ms = attempts[how >> 2 & 3]};
    w->job.sidecar = tl__sidecar(w->sidecar, w->job.key, NULL);
    w->job.line = tl__line(w->line, w->job.sidecar);
    w->job.slot = tl__slot_tag(tl__hash_slot(w->job.key));
    w->job.acquire.bind = w->stamps;
    memcpy(w->job.token.text, "00000000-0000-4000-8000-000000000001", TL_TOKEN_SIZE);
    if (how & 0x10) {
        w->job.wait_replicas = (int32_t)in_range(&w->in, 1, 1000);
        w->job.wait_replicas_ms = (int32_t)in_range(&w->in, 1, 86400000);
        w->job.wait_fsync = w->job.wait_replicas_ms & 1;
    }
    if (how & 0x20)
        w->job.acquire.quiet_ms = in_range(&w->in, 0, 86400000);
#ifdef TL_COMPAT
    w->stamps = how >> 6 && w->kind != LOOK && w->kind != PING;
    if (w->stamps)
        make_stamps(w, how >> 6);
#endif
}

static void make_server(fuzz_world *w) {
    uint8_t how = in_byte(&w->in);
    w->start = w->now = (tl_mono){START_NS};
    w->offset_us = OFFSET_US;
    w->server.drift_ppm = how & 1 ? (int32_t)in_range(&w->in, 1, 100000) : 200;
    w->server.anchor.known = how & 2;
    w->server.anchor.offset = (tl_interval){OFFSET_US - 100, OFFSET_US + 100};
    w->server.anchor.at = w->now;
    w->server.wall_us = OFFSET_US;
}

static void make_acquire(fuzz_world *w) {
    static const int64_t waits[] = {0, 1, 1000, 60000, TL_FOREVER, 86400000};
    uint8_t how = in_byte(&w->in);
    tl_retry retry = {.kind = (tl_retry_kind)(how & 3), .next = custom_pause, .ctx = w};
    w->wait_ms = waits[(how >> 2) % (sizeof waits / sizeof *waits)];
    if (how & 0x80) {
        retry.delay_ms = in_range(&w->in, 0, INT64_MAX);
        retry.max_delay_ms = in_range(&w->in, 0, INT64_MAX);
        retry.max_attempts = (uint32_t)in_int(&w->in);
    }
    tl__acquire_init(&w->machine.acquire, &w->job, &retry, w->wait_ms, w->connect_ms,
                     in_byte(&w->in));
}

static void make_machine(fuzz_world *w) {
    static const tl_step steps[] = {
        [ACQUIRE] = tl__acquire_step, [KEEP] = tl__settle_step, [DROP] = tl__settle_step,
        [RENEW] = tl__renew_step,     [LOOK] = tl__ask_step,    [PING] = tl__ask_step};
    tl_bytes key = w->kind == LOOK ? w->job.key : (tl_bytes){0};
    w->step = steps[w->kind];
    w->connect_ms = 5000;
    w->hold = TL_NEVER;
#ifdef TL_COMPAT
    if (w->stamps && w->kind != ACQUIRE)
        make_proof(w);
#endif
    switch (w->kind) {
    case ACQUIRE: make_acquire(w); break;
    case KEEP:
    case DROP:
        w->believed = tl__mono_add_ms(w->start, in_range(&w->in, -1000, w->job.ttl_ms));
        if (w->stamps)
            w->job.hold.believed = w->believed;
        w->in_time = w->start.ns < w->believed.ns;
        tl__settle_init(&w->machine.settle, &w->job, w->kind == KEEP ? TL_RENEW : TL_RELEASE,
                        w->believed, in_byte(&w->in));
        break;
    case RENEW:
        w->bound = tl__mono_add_ms(w->start, in_range(&w->in, -1000, w->job.ttl_ms));
        if (in_byte(&w->in) & 1)
            w->hold = tl__mono_add_ms(w->start, in_range(&w->in, 1, INT64_MAX));
        w->by_hand = in_byte(&w->in) & 1;
        renew_begin(&w->machine.renew, &w->job, w->bound, w->hold, w->by_hand, 1);
        break;
    default: tl__ask_init(&w->machine.ask, key, w->job.line, w->job.attempt_ms, w->connect_ms);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static fuzz_world w;
    memset(&w, 0, offsetof(fuzz_world, nodes));
    w.in = (input){data, size};
    w.kind = (kind)(in_byte(&w.in) % KINDS);
    make_job(&w);
    make_server(&w);
    make_machine(&w);
    step(&w, (tl_event){.kind = TL_START});
    for (int n = 0; n < EVENTS_MAX && w.in.n > 0 && w.status != TL_END; n++)
        any_event(&w);
    finish(&w, size & 1);
    return 0;
}
