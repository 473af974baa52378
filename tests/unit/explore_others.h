/*
 * What others do to a lock that is explored, and which of it may happen next: another tidelock client, which
 * does each thing at once; two legacy clients, whose looks and GETSETs come apart; somebody who deletes the key
 * by hand; requests that were late; and time.
 */
#pragma once

#include "explore.h"

/* ---- the others ------------------------------------------------------------------------------- */

static inline tl_job job_of(char name, const kind *s) {
    tl_job job = {.protocol = s->protocol,
                  .key = TL_LITERAL(KEY),
                  .sidecar = TL_LITERAL(SIDECAR),
                  .line = TL_LITERAL(SIDECAR ":line"),
                  .slot = tl__slot_tag(tl__hash_slot(TL_LITERAL(KEY))),
                  .acquire = {.bind = true},
                  .owner = TL_LITERAL("host 42 demo"),
                  .ttl_ms = s->ttl_ms,
                  .attempt_ms = ATTEMPT_MS,
                  .rules = {.dialect = dialect(),
                            .clock_skew_max_ms = M_MS,
                            .legacy_delay_max_ms = L_MS,
                            .legacy_ttl_min_ms = LEGACY_MS,
                            .strict = s->strict}};
    (void)snprintf(job.token.text, sizeof job.token.text, "00000000-0000-4000-8000-00000000000%c",
                   name == 'a' ? 'a' : '0');
    return job;
}

static inline void begin_attempt(actor *x, tl_op op) {
    x->step = NULL;
    x->status = TL_GO;
    memset(&x->machine, 0x5a, sizeof x->machine);
    tl__attempt_init(&x->machine, x->job.protocol, op, 1, tl__mono_add_ms(now(), ATTEMPT_MS));
    step(x, (tl_event){.kind = TL_START});
    run_alone(x);
}

static inline void b_takes(void) {
    actor *b = &w.b;
    tell("B takes");
    b->job.token.text[35]++; /* another token for each lock */
    b->job.hold.proof = (tl_proof){0};
    b->job.hold.believed = (tl_mono){0};
    begin_attempt(b, TL_ACQUIRE);
    const tl_result *r = &b->machine.result;
    if (r->code != TL_OK) {
        w.cut = true;
        return;
    }
    b->job.hold.proof = r->proof;
    b->job.hold.believed = r->deadline;
    had(b, r);
}

static inline void b_drops(void) {
    tell("B drops");
    w.until_us[HOLDER_B] = 0;
    begin_attempt(&w.b, TL_RELEASE);
}

static inline int64_t clock_ms(const legacy *j) {
    return w.now_us / 1000 + j->off_ms;
}

static inline const tl_reply *legacy_says(const char *word, const legacy *j, bool with_value) {
    char text[TL_STAMP_SIZE], id[] = "00000000-0000-4000-8000-0000000000f0";
    id[35] = (char)('0' + (j - w.j));
    tl_bytes argv[3] = {tl__bytes_of(word), TL_LITERAL(KEY)};
    if (with_value)
        argv[2] = tl__dialect_write(dialect(), j->end_ms, tl__bytes_of(id), text);
    return fake_conn_command(w.legacy_conn, argv, with_value ? 3 : 2);
}

/* When the job of a legacy client is over: no later than 2M + L before its stamp, by the server's clock. */
static inline int64_t done_us(const legacy *j) {
    return (j->end_ms - 2 * M_MS - L_MS) * INT64_C(1000);
}

/* Beside clients that go by the server's clock it may work until its stamp ends by its own. */
static inline void legacy_holds(legacy *j) {
    int64_t end_us = (j->end_ms - j->off_ms) * INT64_C(1000);
    j->holds = true;
    believes(HOLDER_J + (unsigned)(j - w.j), w.kind->off_ms == 0 ? end_us : done_us(j));
}

/* But not where a racing loser may have overwritten it. */
static inline void legacy_loses(void) {
    for (unsigned i = 0; i < 2; i++)
        if (w.until_us[HOLDER_J + i] > done_us(&w.j[i]))
            w.until_us[HOLDER_J + i] = done_us(&w.j[i]);
}

/* ms-pipe: no GET, whatever is there is overwritten. */
static inline void legacy_looks(legacy *j) {
    j->end_ms = clock_ms(j) + LEGACY_MS;
    j->looked_us = w.now_us;
    if (legacy_says("SETNX", j, true)->integer == 1) {
        tell("J%d takes", (int)(j - w.j));
        legacy_holds(j);
        return;
    }
    const tl_reply *found = legacy_says("GET", j, false);
    tl_stamp stamp = read_stamp(found->text);
    j->looked = dialect()->waiters_overwrite ||
                (stamp.kind == TL_STAMP_GOOD && clock_ms(j) >= stamp.first_free_ms);
    j->found_n = found->text.n;
    assert_true(j->found_n < sizeof j->found);
    memcpy(j->found, found->text.p, j->found_n);
    w.cut = !j->looked;
    tell("J%d has looked", (int)(j - w.j));
}

static inline void legacy_sets(legacy *j) {
    const tl_reply *was = legacy_says("GETSET", j, true);
    tl_stamp stamp = read_stamp(was->text);
    bool equal = was->type == TL_REPLY_STRING &&
                 tl__bytes_eq(was->text, tl__bytes(j->found, j->found_n));
    if (dialect()
            ->waiters_overwrite) /* by its clock when it compares, which is L after its look at the latest */
        equal = stamp.kind == TL_STAMP_GOOD &&
                (j->looked_us + L_MS * 1000) / 1000 + j->off_ms >= stamp.first_free_ms;
    j->looked = false;
    tell("J%d: GETSET %.*s, %s", (int)(j - w.j), (int)was->text.n, was->text.p ? was->text.p : "",
         equal ? "takes" : "loses");
    if (equal)
        legacy_holds(j);
    else
        legacy_loses();
}

static inline void legacy_deletes(legacy *j) {
    tell("J%d deletes", (int)(j - w.j));
    (void)legacy_says("DEL", j, false);
    j->holds = false;
    w.until_us[HOLDER_J + (j - w.j)] = 0;
}

static inline void zombie_runs(void) {
    tell("a late request is executed");
    w.zombies--;
    (void)execute(HOLDER_A, w.zombie[w.zombies].conn, &w.zombie[w.zombies].asked);
    fake_conn_close(w.zombie[w.zombies].conn);
}

/* ---- what may happen -------------------------------------------------------------------------- */

enum {
    GO_ON,
    B_TAKES,
    B_DROPS,
    B_VISITS,
    BY_HAND,
    LATE,
    J_LOOKS,
    J_SETS = J_LOOKS + 2,
    J_DELETES = J_SETS + 2,
    J_VISITS = J_DELETES + 2,
    WAIT_L = J_VISITS + 2,
    WAIT_ATTEMPT,
    WAIT_FAST,
    WAIT_END,
    WAIT_FREE,
    EVENTS
};

static inline int64_t stamp_end_ms(void) {
    tl_stamp stamp = read_stamp(value());
    return stamp.kind == TL_STAMP_GOOD ? stamp.end_ms : 0;
}

static inline int64_t wait_until(unsigned event) {
    switch (event) {
    case WAIT_L: return w.now_us + L_MS * 1000;
    case WAIT_ATTEMPT: return w.now_us + ATTEMPT_MS * 1000 - 1;
    case WAIT_END: return (stamp_end_ms() + L_MS + 2) * 1000;
    case WAIT_FAST: return (stamp_end_ms() - M_MS + 1) * 1000;
    default: return (stamp_end_ms() + M_MS + L_MS + 2) * 1000;
    }
}

static inline bool may_delete(const legacy *j) {
    return j->holds && clock_ms(j) < j->end_ms - 2 * M_MS - L_MS;
}

static inline bool is_possible(unsigned event) {
    const legacy *j = &w.j[event & 1];
    switch (event) {
    case GO_ON: return true;
    case B_TAKES:
    case B_VISITS: return !is_believed(HOLDER_B);
    case B_DROPS: return is_believed(HOLDER_B);
    case BY_HAND: /* against a legacy client nothing helps */
        return keeps_s() && value().p && !w.by_hand && !is_believed(HOLDER_J) &&
               !is_believed(HOLDER_J + 1);
    case LATE: return w.zombies > 0;
    case J_LOOKS:
    case J_LOOKS + 1:
    case J_VISITS:
    case J_VISITS + 1: return !j->holds && !j->looked && !w.by_hand;
    case J_SETS:
    case J_SETS + 1: return j->looked && w.now_us - j->looked_us <= L_MS * 1000;
    case J_DELETES:
    case J_DELETES + 1: return may_delete(j);
    default: return wait_until(event) > w.now_us;
    }
}

#define BIT(event) (UINT32_C(1) << (event))

_Static_assert(J_LOOKS % 2 == 0 && J_SETS % 2 == 0 && J_DELETES % 2 == 0 && J_VISITS % 2 == 0,
               "the last bit says who");

static inline void happens(unsigned event) {
    legacy *j = &w.j[event & 1];
    switch (event) {
    case B_TAKES: b_takes(); break;
    case B_DROPS: b_drops(); break;
    case B_VISITS:
        b_takes();
        if (!w.cut)
            b_drops();
        break;
    case BY_HAND:
        tell("K is deleted by hand");
        w.by_hand = true;
        (void)fake_conn_say(w.legacy_conn, "DEL " KEY);
        break;
    case LATE: zombie_runs(); break;
    case J_LOOKS:
    case J_LOOKS + 1: legacy_looks(j); break;
    case J_SETS:
    case J_SETS + 1: legacy_sets(j); break;
    case J_DELETES:
    case J_DELETES + 1: legacy_deletes(j); break;
    case J_VISITS:
    case J_VISITS + 1:
        legacy_looks(j);
        if (j->looked)
            legacy_sets(j);
        if (may_delete(j))
            legacy_deletes(j);
        break;
    default: go_to(wait_until(event)); tell("time passes");
    }
}

static inline void disturb(void) {
    for (;;) {
        uint8_t which[EVENTS];
        unsigned n = 0;
        for (unsigned e = GO_ON; e < EVENTS && !w.cut; e++) {
            unsigned left = e >= WAIT_L ? w.waits : w.others;
            if (e == GO_ON ||
                ((w.suite->may & BIT(e)) && w.events > 0 && left > 0 && is_possible(e)))
                which[n++] = (uint8_t)e;
        }
        unsigned event = n > 1 ? which[choose(&w.choice, n)] : GO_ON;
        if (event == GO_ON)
            return;
        w.events--;
        if (event >= WAIT_L)
            w.waits--;
        else
            w.others--;
        happens(event);
    }
}
