/*
 * A world for the machines of a majority, drawn from a seed: servers whose clocks differ and drift, which restart with
 * and without their data; connections that break, with requests that are lost, carried out later or not answered;
 * clients that contend, hold, renew, release, give up and die. A server is a model of the scripts that are shipped, or
 * carries them out itself. What must never happen is looked for after every event.
 */
#ifndef QUORUM_WORLD_H
#define QUORUM_WORLD_H

#include <stdio.h>
#include <string.h>

#include "protocol/quorum_acquire.h"
#include "protocol/quorum_renew.h"
#include "protocol/quorum_settle.h"
#include "seeded.h"
#include "tests.h"

#define QW_KEY "jobs"
#define QW_S "tidelock:{jobs}"
#define QW_CLIENTS 6
#define QW_MESSAGES 400
#define QW_ITEMS 12
#define QW_EPOCH_US INT64_C(1700000000000000)

/* ---- what a world is like --------------------------------------------------------------------- */

typedef struct {
    unsigned servers, clients;
    int64_t ttl_ms, quiet_ms, attempt_ms;
    int64_t length_ms, calm_ms; /* faults end at length_ms; then it goes on for calm_ms */
    int64_t skew_us;            /* a server's clock is so far off, at most */
    int32_t drift_ppm;
    int64_t delay_us;                                  /* of a message, usually */
    int break_of, cut_of, restart_of, die_of, draw_of; /* one event in so many; 0: never */
    bool keep_data;                                    /* some restarts keep it */
} qw_settings;

typedef struct {
    char token[40], spent[40], s_token[40];
    int64_t expires_ms, s_until, since;
    uint64_t counter;
    bool known; /* since when it is the same */
    int64_t offset_us, rate_ppm;
    void *real; /* carries the scripts out itself */
} qw_server;

typedef enum { QW_REQUEST, QW_ANSWER, QW_BROKEN, QW_EXPIRED, QW_CALL, QW_LISTENS } qw_kind;

typedef struct {
    bool used, ghost; /* ghost: carried out, but nobody gets the answer */
    bool refused;     /* BROKEN: it was never sent */
    qw_kind kind;
    int64_t at_us; /* true time */
    unsigned client, server;
    uint32_t serial; /* of the machine */
    uint16_t ticket;
    tl_mono sent;
    int script; /* -1: reach, -2: TIME */
    unsigned argc;
    char argv[QW_ITEMS][64];
    unsigned count;
    tl_reply reply, items[QW_ITEMS], inner[4];
    char text[QW_ITEMS][64];
    int64_t server_us;
    bool armed;
} qw_message;

typedef enum { QW_IDLE, QW_ACQUIRING, QW_HOLDING, QW_RELEASING, QW_DEAD } qw_state;

typedef struct {
    qw_state state;
    int64_t offset_ns, rate_ppm;
    tl_server server[TL_QUORUM_MAX];
    bool connected[TL_QUORUM_MAX], listening;
    int64_t last_at_us[TL_QUORUM_MAX]; /* when the last request on this connection arrives */
    int64_t cut_us[TL_QUORUM_MAX];     /* until when nothing comes through */
    union {
        tl_quorum_acquisition acquire;
        tl_quorum_settlement settle;
    } m;
    tl_quorum_renewal renew;
    tl_job job;
    uint64_t fence;
    uint32_t serial;
    int64_t wake_us; /* true time of its timer, or of its next deed */
    int64_t release_us;
    tl_mono until;
    tl_out out;
    unsigned tokens;
} qw_client;

typedef struct {
    qw_settings is;
    int64_t now_us;
    qw_server server[TL_QUORUM_MAX];
    qw_client client[QW_CLIENTS];
    qw_message message[QW_MESSAGES];
    unsigned open;  /* messages up to here may be in use */
    uint64_t fence; /* of the last holder */
    unsigned holds, lost, calm_holds, events, restarts, breaks, commands;
    const char *wrong; /* what should not have happened */
    bool calm;
} qw_world;

/* ---- clocks ------------------------------------------------------------------------------------ */

static inline tl_mono qw_mono(const qw_world *w, const qw_client *c) {
    return (tl_mono){c->offset_ns + w->now_us * 1000 + w->now_us * c->rate_ppm / 1000};
}

/* The first us at which that clock shows t. */
static inline int64_t qw_when(const qw_client *c, tl_mono t) {
    if (t.ns == INT64_MAX)
        return INT64_MAX;
    int64_t ns = t.ns - c->offset_ns;
    return ns <= 0 ? 0 : ns * 1000 / (1000000 + c->rate_ppm) + 1;
}

static inline int64_t qw_clock(const qw_world *w, const qw_server *s) {
    return QW_EPOCH_US + s->offset_us + w->now_us + w->now_us * s->rate_ppm / 1000000;
}

/* ---- a server, as a model ----------------------------------------------------------------------- */

static inline void qw_copy(char to[40], const char *from) {
    size_t n = strlen(from);
    assert_true(n < 40);
    memmove(to, from, n + 1);
}

static inline void qw_item(qw_message *m, unsigned i, const char *text) {
    (void)snprintf(m->text[i], sizeof m->text[i], "%s", text);
    m->items[i] = (tl_reply){.type = TL_REPLY_STRING, .text = tl__bytes_of(m->text[i])};
}

static inline void qw_number(qw_message *m, unsigned i, int64_t v) {
    m->items[i] = (tl_reply){.type = TL_REPLY_INT, .integer = v};
}

static inline void qw_time(qw_message *m, unsigned i, int64_t us) {
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)(us / 1000000));
    qw_item(m, i, text);
    (void)snprintf(text, sizeof text, "%lld", (long long)(us % 1000000));
    qw_item(m, i + 1, text);
}

static inline void qw_array(qw_message *m, unsigned count) {
    m->reply = (tl_reply){.type = TL_REPLY_ARRAY, .items = m->items, .count = count};
    m->count = 1;
}

static inline int64_t qw_int(const qw_message *m, unsigned i) {
    long long v = 0;
    (void)sscanf(m->argv[i], "%lld", &v);
    return v;
}

static inline void qw_expire(qw_server *s, int64_t now) {
    if (s->token[0] && now / 1000 > s->expires_ms)
        s->token[0] = '\0';
}

static inline int64_t qw_left_ms(const qw_server *s, int64_t now) {
    return s->token[0] ? s->expires_ms - now / 1000 : -2;
}

static inline void qw_vote_says(qw_message *m, const qw_server *s, int64_t now, int64_t status,
                                int64_t left, uint64_t number, bool noted) {
    char text[32];
    qw_number(m, 0, status);
    if (s->token[0])
        qw_item(m, 1, s->token);
    else
        m->items[1] = (tl_reply){.type = TL_REPLY_NIL};
    qw_number(m, 2, left);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    qw_item(m, 3, text);
    qw_time(m, 4, now);
    qw_number(m, 6, 1);
    qw_number(m, 7, noted);
    qw_array(m, 8);
}

static inline void qw_vote(qw_server *s, qw_message *m, int64_t now) {
    const char *token = m->argv[3], *owner = m->argv[8];
    int64_t px = qw_int(m, 4), not_after = qw_int(m, 5), quiet = qw_int(m, 11);
    uint64_t least = (uint64_t)qw_int(m, 10);
    bool mine = strcmp(s->token, token) == 0;
    if (strcmp(s->spent, token) == 0) {
        qw_vote_says(m, s, now, -2, -1, 0, false);
        return;
    }
    if (!mine && not_after > 0 && now > not_after) {
        qw_vote_says(m, s, now, -1, -1, 0, false);
        return;
    }
    if (s->token[0] && !mine) {
        qw_vote_says(m, s, now, 0, qw_left_ms(s, now), 0, strcmp(s->token, s->s_token) == 0);
        return;
    }
    if (!mine && s->s_token[0] && strcmp(s->s_token, token) != 0 && s->s_until >= now) {
        qw_vote_says(m, s, now, 0, (s->s_until - now) / 1000 + 1, 0, true);
        return;
    }
    if (quiet > 0 && !s->known) {
        s->known = true;
        s->since = now;
    }
    if (quiet > 0 && s->since + quiet * 1000 > now) {
        qw_vote_says(m, s, now, -4, (s->since - now + 999) / 1000 + quiet, 0, false);
        return;
    }
    s->counter = s->counter + 1 > least ? s->counter + 1 : least;
    if (owner[0] || strcmp(s->s_token, token) == 0) {
        qw_copy(s->s_token, token);
        s->s_until = now + px * 1000;
    }
    if (!mine) {
        qw_copy(s->token, token);
        s->expires_ms = now / 1000 + px;
    }
    qw_vote_says(m, s, now, 1, qw_left_ms(s, now), s->counter, mine);
}

static inline void qw_keep(qw_server *s, qw_message *m, int64_t now) {
    const char *token = m->argv[5];
    int64_t px = qw_int(m, 7), not_after = qw_int(m, 10), status = s->token[0] ? 0 : -1;
    if (not_after > 0 && now > not_after)
        status = -2;
    else if (strcmp(s->token, token) == 0) {
        status = 1;
        if (s->expires_ms < now / 1000 + px)
            s->expires_ms = now / 1000 + px;
        qw_copy(s->s_token, token);
        s->s_until = s->expires_ms * 1000;
    }
    m->inner[0] = (tl_reply){.type = TL_REPLY_INT, .integer = status};
    m->inner[1] = (tl_reply){.type = TL_REPLY_NIL};
    m->inner[2] = (tl_reply){.type = TL_REPLY_INT,
                             .integer = status == 1 ? qw_left_ms(s, now) : -1};
    qw_time(m, 0, now);
    m->items[2] = (tl_reply){.type = TL_REPLY_ARRAY, .items = m->inner, .count = 3};
    qw_array(m, 3);
}

/* true: those who listen are told. */
static inline bool qw_drop(qw_server *s, qw_message *m, bool silent) {
    const char *token = m->argv[2];
    bool mine = strcmp(s->token, token) == 0, bound = strcmp(s->s_token, token) == 0;
    int64_t status = mine ? 1 : s->token[0] ? 0 : -1;
    if (mine)
        s->token[0] = '\0';
    if (bound)
        s->s_token[0] = '\0';
    if (bound || m->argc > 3)
        qw_copy(s->spent, token);
    m->reply = (tl_reply){.type = TL_REPLY_INT, .integer = status};
    m->count = 1;
    return !silent && (mine || bound);
}

/* A real one, if there is. */
static bool (*qw_real)(qw_server *s, qw_message *m, int64_t now);
static void (*qw_real_restart)(qw_server *s, bool keep);

static inline bool qw_execute(qw_world *w, qw_server *s, qw_message *m) {
    int64_t now = qw_clock(w, s);
    m->server_us = now;
    w->commands += m->script != -1;
    if (m->script == -1)
        return false;
    if (m->script == -2) {
        qw_time(m, 0, now);
        qw_array(m, 2);
        return false;
    }
    if (s->real)
        return qw_real(s, m, now);
    qw_expire(s, now);
    switch ((tl_script)m->script) {
    case TL_SCRIPT_VOTE: qw_vote(s, m, now); return false;
    case TL_SCRIPT_KEEP: qw_keep(s, m, now); return false;
    case TL_SCRIPT_DROP: return qw_drop(s, m, false);
    case TL_SCRIPT_UNVOTE: return qw_drop(s, m, true);
    default: fail_msg("script %d is none of a majority's", m->script);
    }
    return false;
}

/* ---- the network --------------------------------------------------------------------------------- */

static inline bool qw_one_in(const qw_world *w, int of) {
    return !w->calm && of > 0 && draw(of) == 0;
}

static inline int64_t qw_delay(const qw_world *w) {
    int64_t us = 1 + draw(2 * w->is.delay_us);
    return !w->calm && draw(40) == 0 ? us * 20 : us;
}

static inline qw_message *qw_new(qw_world *w, qw_kind kind, unsigned client, unsigned server,
                                 int64_t at_us) {
    for (unsigned i = 0; i < QW_MESSAGES; i++)
        if (!w->message[i].used) {
            w->open = i >= w->open ? i + 1 : w->open;
            qw_message *m = &w->message[i];
            m->used = true;
            m->ghost = m->refused = false;
            m->kind = kind;
            m->client = client;
            m->server = server;
            m->at_us = at_us;
            m->count = m->argc = 0;
            m->serial = w->client[client].serial;
            return m;
        }
    fail_msg("too many messages");
    return NULL;
}

/* The connection is gone: what was on its way is lost, is carried out all the same, or lies in a buffer for a while. */
static inline void qw_break(qw_world *w, unsigned client, unsigned server) {
    qw_client *c = &w->client[client];
    w->breaks++;
    c->connected[server] = false;
    c->last_at_us[server] = 0;
    for (unsigned i = 0; i < w->open; i++) {
        qw_message *m = &w->message[i];
        if (!m->used || m->client != client || m->server != server || m->ghost)
            continue;
        if (m->kind == QW_ANSWER) {
            m->kind = QW_BROKEN;
            m->at_us = w->now_us + 1;
        } else if (m->kind == QW_REQUEST) {
            qw_message *b = qw_new(w, QW_BROKEN, client, server, w->now_us + 1);
            b->serial = m->serial;
            b->ticket = m->ticket;
            b->sent = m->sent;
            m->ghost = true;
            if (draw(3) == 0)
                m->used = false;
            else if (draw(2) == 0)
                m->at_us += draw(4 * w->is.ttl_ms * 1000);
        }
    }
}

/* Nobody there, nothing ever comes back, or it comes through much later. */
static inline void qw_send_nowhere(qw_world *w, qw_message *m) {
    const qw_client *c = &w->client[m->client];
    m->ghost = true;
    m->at_us = c->cut_us[m->server] + qw_delay(w);
    m->used = draw(3) == 0;
    if (m->used || draw(2) == 0)
        return;
    qw_message *b = qw_new(w, QW_BROKEN, m->client, m->server, w->now_us + qw_delay(w));
    b->ticket = m->ticket;
    b->sent = m->sent;
    b->refused = true;
}

static inline void qw_send(qw_world *w, unsigned client) {
    qw_client *c = &w->client[client];
    const tl_send *send = &c->out.send;
    unsigned server = (unsigned)__builtin_ctz(send->to ? send->to : 1);
    assert_int_equal(__builtin_popcount(send->to), 1);
    int64_t at = w->now_us + qw_delay(w);
    at = at > c->last_at_us[server] ? at : c->last_at_us[server] + 1;
    c->last_at_us[server] = at;
    qw_message *m = qw_new(w, QW_REQUEST, client, server, at);
    m->ticket = send->ticket;
    m->sent = qw_mono(w, c);
    m->script = send->count == 0                     ? -1
                : send->command[0].form == TL_SCRIPT ? send->command[0].script
                                                     : -2;
    for (unsigned i = 0; send->count > 0 && i < send->command[0].argc; i++) {
        tl_bytes arg = send->command[0].argv[i];
        assert_true(i < QW_ITEMS && arg.n < sizeof m->argv[i]);
        memcpy(m->argv[i], arg.p, arg.n);
        m->argv[i][arg.n] = '\0';
        m->argc = i + 1;
    }
    qw_message *end = qw_new(w, QW_EXPIRED, client, server, qw_when(c, send->by));
    end->ticket = send->ticket;
    end->sent = m->sent;
    if (w->now_us < c->cut_us[server])
        qw_send_nowhere(w, m);
    else if (qw_one_in(w, w->is.break_of))
        qw_break(w, client, server);
}

/* ---- clients -------------------------------------------------------------------------------------- */

static inline bool qw_believes(const qw_world *w, const qw_client *c) {
    return c->state == QW_HOLDING && tl__mono_before(qw_mono(w, c), c->renew.result.deadline);
}

static inline void qw_step(qw_world *w, unsigned client, tl_event e);

static inline void qw_rest(qw_world *w, qw_client *c, int64_t most_ms) {
    c->state = QW_IDLE;
    c->serial++;
    c->listening = false;
    c->wake_us = w->now_us + draw(most_ms * 1000 + 1);
}

static inline tl_job qw_job(qw_world *w, unsigned client) {
    tl_job job = {.key = TL_LITERAL(QW_KEY),
                  .sidecar = TL_LITERAL(QW_S),
                  .slot = tl__slot_tag(tl__hash_slot(TL_LITERAL(QW_KEY))),
                  .owner = TL_LITERAL("owner"),
                  .ttl_ms = w->is.ttl_ms,
                  .attempt_ms = w->is.attempt_ms,
                  .quiet_ms = w->is.quiet_ms};
    (void)snprintf(job.token.text, sizeof job.token.text, "00000000-0000-4000-%04x-%06x000000",
                   client, ++w->client[client].tokens);
    return job;
}

static inline void qw_acquire(qw_world *w, unsigned client) {
    static const tl_retry retry = {.kind = TL_RETRY_AUTO};
    qw_client *c = &w->client[client];
    c->job = qw_job(w, client);
    c->state = QW_ACQUIRING;
    c->serial++;
    int64_t wait_ms = draw(6) == 0 ? 0 : 1 + draw(4 * w->is.ttl_ms);
    tl__quorum_acquire_init(&c->m.acquire, &c->job, w->is.servers, &retry, wait_ms,
                            w->is.attempt_ms * 2, (uint64_t)draw(INT64_MAX) + 1);
    qw_step(w, client, (tl_event){.kind = TL_START});
}

static inline void qw_release(qw_world *w, unsigned client) {
    qw_client *c = &w->client[client];
    tl_job job = c->job;
    job.believed = c->renew.result.deadline;
    c->state = QW_RELEASING;
    c->serial++;
    tl__quorum_settle_init(&c->m.settle, &job, &c->renew.ballots, TL_RELEASE,
                           (uint64_t)draw(INT64_MAX) + 1);
    qw_step(w, client, (tl_event){.kind = TL_START});
}

static inline void qw_acquired(qw_world *w, unsigned client) {
    qw_client *c = &w->client[client];
    const tl_quorum_acquisition *a = &c->m.acquire;
    tl_ballots ballots = a->ballots;
    c->job = a->job;
    c->job.fence = a->result.fence;
    c->job.proof = a->result.proof;
    if (a->result.fence <= w->fence)
        w->wrong = "a fencing number that is not larger than the last holder's";
    w->fence = a->result.fence;
    w->holds++;
    w->calm_holds += w->calm;
    for (unsigned i = 0; i < w->is.clients; i++)
        if (i != client && qw_believes(w, &w->client[i]))
            w->wrong = "two clients believe that they hold the lock";
    c->state = QW_HOLDING;
    c->serial++;
    c->listening = false;
    c->release_us = w->now_us + draw(3 * w->is.ttl_ms * 1000);
    tl__quorum_renew_init(&c->renew, &c->job, &ballots, TL_NEVER, false,
                          (uint64_t)draw(INT64_MAX) + 1);
    qw_step(w, client, (tl_event){.kind = TL_START});
}

/* Its process ends; what it has sent goes on. */
static inline void qw_die(qw_world *w, unsigned client) {
    qw_client *c = &w->client[client];
    for (unsigned i = 0; i < w->is.servers; i++) {
        qw_break(w, client, i);
        c->server[i].anchor.known = false;
    }
    qw_rest(w, c, 2 * w->is.ttl_ms);
    c->state = QW_DEAD;
}

static inline void qw_ended(qw_world *w, unsigned client) {
    qw_client *c = &w->client[client];
    if (c->state == QW_ACQUIRING && c->m.acquire.result.code == TL_OK)
        qw_acquired(w, client);
    else if (c->state == QW_HOLDING) {
        w->lost++;
        qw_release(w, client);
    } else
        qw_rest(w, c, w->is.ttl_ms / 2);
}

static inline void qw_listen(qw_world *w, unsigned client) {
    w->client[client].listening = true;
    for (unsigned i = 0; i < w->is.servers; i++)
        if (!qw_one_in(w, 10))
            qw_new(w, QW_LISTENS, client, i, w->now_us + qw_delay(w))->armed = true;
}

static inline void qw_step(qw_world *w, unsigned client, tl_event e) {
    qw_client *c = &w->client[client];
    void *machine = c->state == QW_HOLDING ? (void *)&c->renew : (void *)&c->m;
    tl_step step = c->state == QW_HOLDING     ? tl__quorum_renew_step
                   : c->state == QW_ACQUIRING ? tl__quorum_acquire_step
                                              : tl__quorum_settle_step;
    tl_status status = TL_GO;
    for (unsigned n = 0; status == TL_GO; n++) {
        if (n == 50) { /* it asks one server a step, and then waits */
            w->wrong = "a machine asks and asks";
            return;
        }
        e.now = qw_mono(w, c);
        e.server = c->server;
        e.servers = c->server;
        tl__out_clear(&c->out);
        status = step(machine, &e, &c->out);
        bool answered = e.kind == TL_REPLY && c->out.has_bracket;
        if (answered)
            (void)tl__anchor_learn(&c->server[e.from].anchor, c->out.bracket, e.now,
                                   w->is.drift_ppm);
        if (c->out.arm)
            qw_listen(w, client);
        if (status == TL_GO && c->out.sends > 0)
            qw_send(w, client);
        c->until = c->out.until;
        if (status != TL_GO || tl__mono_before(e.now, c->out.until))
            break;
        e = (tl_event){.kind = TL_TIMER};
    }
    bool has = c->state == QW_ACQUIRING && c->m.acquire.result.code == TL_OK;
    if (status == TL_END ||
        (status == TL_DETACH && has)) /* what is left of other tokens runs out here */
        qw_ended(w, client);
    else if (status == TL_DETACH) {
        c->listening = false;
        c->serial++;
    }
    c->wake_us = c->state == QW_IDLE || c->state == QW_DEAD ? c->wake_us : qw_when(c, c->until);
}

static inline void qw_deed(qw_world *w, unsigned client) {
    qw_client *c = &w->client[client];
    if (c->state == QW_DEAD)
        c->state = QW_IDLE;
    if (c->state == QW_IDLE) {
        qw_acquire(w, client);
        return;
    }
    tl_event e = {.kind = TL_TIMER};
    if (c->state == QW_ACQUIRING && !w->calm && draw(200) == 0)
        e.kind = TL_CANCEL;
    qw_step(w, client, e);
}

/* ---- events ----------------------------------------------------------------------------------------- */

static inline void qw_arrives(qw_world *w, qw_message *m) {
    unsigned server = m->server;
    bool told = qw_execute(w, &w->server[server], m);
    if (m->ghost)
        m->used = false;
    m->kind = QW_ANSWER;
    m->at_us = w->now_us + qw_delay(w);
    for (unsigned i = 0; told && i < w->is.clients; i++)
        if (w->client[i].listening && !qw_one_in(w, 10))
            (void)qw_new(w, QW_CALL, i, server, w->now_us + qw_delay(w));
}

static inline void qw_told(qw_world *w, qw_message *m) {
    qw_client *c = &w->client[m->client];
    qw_message copy = *m;
    m->used = false;
    if (copy.serial != c->serial || c->state == QW_IDLE || c->state == QW_DEAD)
        return;
    tl_event e = {.ticket = copy.ticket, .sent = copy.sent, .from = (uint8_t)copy.server};
    if (copy.kind == QW_CALL || copy.kind == QW_LISTENS) {
        e.kind = copy.kind == QW_CALL ? TL_WOKEN : TL_ARMED;
        e.armed = copy.armed;
        if (c->listening)
            qw_step(w, m->client, e);
        return;
    }
    e.kind = copy.kind == QW_ANSWER ? TL_REPLY : TL_FAILED;
    e.count = (uint8_t)copy.count;
    copy.reply.items = copy.items;
    if (copy.count && copy.reply.type == TL_REPLY_ARRAY && copy.items[2].type == TL_REPLY_ARRAY)
        copy.items[2].items = copy.inner;
    for (unsigned i = 0; i < QW_ITEMS; i++)
        if (copy.count && copy.items[i].type == TL_REPLY_STRING)
            copy.items[i].text.p = copy.text[i];
    e.reply = &copy.reply;
    e.maybe_sent = copy.kind != QW_ANSWER && !copy.refused;
    e.why = TL_EUNAVAILABLE;
    if (e.kind == TL_FAILED)
        e.words = TL_LITERAL("no reply");
    if (e.kind == TL_REPLY) { /* what it has asked for is answered: it doesn't run out any more */
        tl_interval told = tl__bracket(copy.server_us, copy.sent, qw_mono(w, c));
        if (!c->connected[copy.server])
            (void)tl__anchor_renew(&c->server[copy.server].anchor, told, qw_mono(w, c),
                                   w->is.drift_ppm);
        c->connected[copy.server] = true;
    }
    for (unsigned i = 0; i < w->open; i++) {
        qw_message *o = &w->message[i];
        if (o->used && o->client == copy.client && o->serial == copy.serial &&
            o->ticket == copy.ticket &&
            (o->kind == QW_EXPIRED || (copy.kind == QW_EXPIRED && o->kind == QW_ANSWER)))
            o->used = false;
        else if (o->used && copy.kind == QW_EXPIRED && o->kind == QW_REQUEST &&
                 o->client == copy.client && o->serial == copy.serial && o->ticket == copy.ticket)
            o->ghost = true; /* its connection is kept, and what is sent later comes behind it */
    }
    qw_step(w, copy.client, e);
}

/* Another lock of the slot has been acquired there. */
static inline void qw_draw(qw_world *w, qw_server *s) {
    uint64_t least = (uint64_t)(qw_clock(w, s) + draw(3) * 20000);
    if (!s->real)
        s->counter = s->counter + 1 > least ? s->counter + 1 : least;
}

static inline void qw_restart(qw_world *w, qw_server *s) {
    bool keep = w->is.keep_data && draw(2) == 0;
    unsigned server = (unsigned)(s - w->server);
    w->restarts++;
    for (unsigned i = 0; i < w->is.clients; i++)
        qw_break(w, i, server);
    s->known = false;
    if (s->real)
        qw_real_restart(s, keep);
    if (keep)
        return;
    s->token[0] = s->spent[0] = s->s_token[0] = '\0';
    s->counter = 0;
}

/* A client loses a server or all of them, or a server all its clients, for a while. */
static inline void qw_cut(qw_world *w) {
    unsigned all_servers = draw(2) == 0, all_clients = !all_servers && draw(2) == 0;
    unsigned client = (unsigned)draw(w->is.clients), server = (unsigned)draw(w->is.servers);
    int64_t until = w->now_us + draw(3 * w->is.ttl_ms * 1000);
    for (unsigned i = 0; i < w->is.clients; i++)
        for (unsigned j = 0; j < w->is.servers; j++)
            if ((i == client || all_clients) && (j == server || (all_servers && draw(3) > 0))) {
                qw_break(w, i, j);
                w->client[i].cut_us[j] = until;
            }
}

static inline void qw_mend(qw_world *w) {
    for (unsigned i = 0; i < w->is.clients; i++)
        memset(w->client[i].cut_us, 0, sizeof w->client[i].cut_us);
}

static inline void qw_check(qw_world *w) {
    unsigned believers = 0;
    for (unsigned i = 0; i < w->is.clients; i++) {
        const qw_client *c = &w->client[i];
        believers += qw_believes(w, c);
        if (c->state == QW_HOLDING && !qw_believes(w, c))
            w->wrong = "a lock past its deadline was not called lost";
    }
    if (believers > 1)
        w->wrong = "two clients believe that they hold the lock";
}

static inline bool qw_next(qw_world *w) {
    int64_t at = INT64_MAX;
    int which = -1;
    for (unsigned i = 0; i < w->open; i++)
        if (w->message[i].used && w->message[i].at_us < at) {
            at = w->message[i].at_us;
            which = (int)i;
        }
    int client = -1;
    for (unsigned i = 0; i < w->is.clients; i++) {
        const qw_client *c = &w->client[i];
        int64_t due = c->state == QW_HOLDING && c->release_us < c->wake_us ? c->release_us
                                                                           : c->wake_us;
        if (due < at) {
            at = due;
            client = (int)i;
        }
    }
    w->now_us = at > w->now_us ? at : w->now_us;
    if (w->now_us >= (w->is.length_ms + w->is.calm_ms) * 1000 || w->wrong)
        return false;
    w->calm = w->now_us >= w->is.length_ms * 1000;
    w->events++;
    if (client < 0 && w->message[which].kind == QW_REQUEST)
        qw_arrives(w, &w->message[which]);
    else if (client < 0)
        qw_told(w, &w->message[which]);
    else if (w->client[client].state == QW_HOLDING && w->now_us >= w->client[client].release_us)
        qw_release(w, (unsigned)client);
    else
        qw_deed(w, (unsigned)client);
    qw_check(w);
    if (qw_one_in(w, w->is.restart_of))
        qw_restart(w, &w->server[draw(w->is.servers)]);
    if (w->calm)
        qw_mend(w);
    if (qw_one_in(w, w->is.draw_of))
        qw_draw(w, &w->server[draw(w->is.servers)]);
    if (qw_one_in(w, w->is.cut_of))
        qw_cut(w);
    if (qw_one_in(w, w->is.die_of))
        qw_die(w, (unsigned)draw(w->is.clients));
    return true;
}

/* The settings are drawn from the same seed, or given. */
static inline void qw_begin(qw_world *w, const qw_settings *is) {
    memset(w, 0, sizeof *w);
    w->is = *is;
    w->now_us = 1000000;
    for (unsigned i = 0; i < is->servers; i++) {
        w->server[i].offset_us = draw(2 * is->skew_us + 1) - is->skew_us;
        w->server[i].rate_ppm = draw(2 * is->drift_ppm + 1) - is->drift_ppm;
    }
    for (unsigned i = 0; i < is->clients; i++) {
        qw_client *c = &w->client[i];
        c->offset_ns = 1000000000 + draw(1000000000);
        c->rate_ppm = draw(2 * is->drift_ppm + 1) - is->drift_ppm;
        for (unsigned j = 0; j < is->servers; j++)
            c->server[j].drift_ppm = is->drift_ppm;
        qw_rest(w, c, 50);
    }
}

static inline void qw_run(qw_world *w) {
    w->is.length_ms += w->now_us / 1000;
    while (qw_next(w)) {}
}

#endif
