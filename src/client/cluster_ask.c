/*
 * Whether a cluster's master still is one. One that was stopped and wakes carries out what lay in its sockets, before it
 * hears that a replica has taken its place; so what it answers counts only when others, asked afterwards, know of nobody
 * else (tl_send.confirm).
 *
 * Nobody but a replica takes a place over, and it knows that first: at once with the promotion, before it executes anything. So
 * all of a master's replicas are asked, and when each says that it is one yet, it is certain that there was no promotion
 * before they were asked. Where one doesn't answer, or none is known, the other masters are: as many that one at least has
 * voted in each election that there may have been. A voter hears of the outcome a moment later, from who has won; so what counts
 * is asked NEWS_MS later.
 */
#include <stdio.h>
#include <string.h>

#include "client/cluster_inside.h"
#include "ground/guard.h"

#define HEDGE_MS 100 /* then the masters are asked, too */
#define NEWS_MS 200  /* so long a master may know nothing of the election that it has voted in */
#define AGAIN_MS 20  /* between questions to masters */
#define UNLISTED_MS 60000
#define IDLE_MS 30000  /* a connection that nothing was asked over is closed */
#define ASKED_MAX 8    /* questions that a replica has left unanswered: it isn't asked more; */
#define PEERS_MAX 512  /* that a master has, who is asked about all others */
#define MORE_MASTERS 2 /* are asked than need to answer */

typedef enum { SAYS_NOTHING, SAYS_MINE, SAYS_ITS, SAYS_OTHERS } opinion;

/* ---- who there is ---------------------------------------------------------------------------- */

void tl__member_learn(tl_member *m, tl_member *replica, tl_mono now) {
    unsigned i = 0;
    while (i < m->replicas && m->replica[i].who != replica)
        i++;
    if (i == TL_REPLICAS_MAX) {
        m->untold = true;
        return;
    }
    if (i == m->replicas)
        m->replica[m->replicas++] = (tl_replica){.who = replica};
    m->replica[i].listed = now;
}

void tl__member_forget(tl_member *m, tl_mono now) {
    unsigned kept = 0;
    for (unsigned i = 0; i < m->replicas; i++)
        if (tl__mono_before(now, tl__mono_add_ms(m->replica[i].listed, UNLISTED_MS)))
            m->replica[kept++] = m->replica[i];
    m->replicas = kept;
}

/* One of its slots: the same for as long as it has that; at first its last, as slots are moved away from the first on. Of one
 * that it was given lately not all others may have heard, so that they name whoever had it; and a replica that takes its place
 * may not know of it, so that they go on naming this one. TL_SLOTS: it has none. */
static unsigned slot_of(const tl_cluster *c, tl_member *m) {
    for (unsigned i = 0; i < TL_SLOTS; i++) {
        unsigned slot = TL_SLOTS - 1 - (GUARD(long_held_slot) * m->about + i) % TL_SLOTS;
        if (atomic_load(&c->owner[slot]) == &m->node) {
            m->about = TL_SLOTS - 1 - slot;
            return slot;
        }
    }
    return TL_SLOTS;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void on_answer(void *ctx, const tl_answer *answer);

/* Of those who have answered, the one that was asked longest ago. */
static bool make_room(tl_cluster *c) {
    unsigned found = c->witnesses;
    for (unsigned i = 0; i < c->witnesses; i++)
        if (c->witness[i]->asked == 0 &&
            (found == c->witnesses ||
             tl__mono_before(c->witness[i]->used, c->witness[found]->used)))
            found = i;
    if (found == c->witnesses)
        return false;
    tl__cluster_hang_up(c, found);
    return true;
}

/* NULL: no room, or no memory. */
static tl_conn *conn_to(tl_cluster *c, tl_member *who) {
    tl_conn_limits limits = {.connect_ms = c->limit_ms, .no_time = true};
    tl_conn_calls calls = {.answer = on_answer, .ctx = who};
    if (who->conn || (c->witnesses == TL_WITNESSES_MAX && !make_room(c)))
        return who->conn;
    who->conn = tl__conn_new(&who->node.endpoint, &limits, &calls);
    if (who->conn)
        c->witness[c->witnesses++] = who;
    return who->conn;
}

static void close_idle(tl_cluster *c, tl_mono now) {
    for (unsigned i = c->witnesses; i > 0; i--)
        if (c->witness[i - 1]->asked == 0 &&
            !tl__mono_before(now, tl__mono_add_ms(c->witness[i - 1]->used, IDLE_MS)))
            tl__cluster_hang_up(c, i - 1);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static uint16_t ticket_of(const tl_member *m, bool master) {
    return (uint16_t)(m->question.number << 1 | master);
}

static tl_command *add(tl_send *send, tl_bytes first, tl_bytes second) {
    tl_command *c = &send->command[send->count++];
    *c = (tl_command){.form = TL_ARGV, .argc = second.n > 0 ? 2 : 1, .argv = {first, second}};
    return c;
}

/* Whose a slot of m is, by a key there; of a replica also what it is, and the epoch of its master. */
static bool ask(tl_cluster *c, tl_member *who, tl_member *m, bool master, tl_mono now) {
    char counter[TL_COUNTER_SIZE];
    unsigned slot = slot_of(c, m);
    tl_slot_tag tag = tl__slot_tag((uint16_t)(slot % TL_SLOTS));
    tl_send send = {.ticket = ticket_of(m, master), .by = m->question.by};
    tl_conn *conn = conn_to(c, who);
    (void)add(&send, TL_LITERAL("GET"), tl__counter(counter, &tag));
    if (!master) {
        (void)add(&send, TL_LITERAL("ROLE"), (tl_bytes){0});
        (void)add(&send, TL_LITERAL("CLUSTER"), TL_LITERAL("INFO"));
    }
    if (!conn || who->asked >= (master ? PEERS_MAX : ASKED_MAX) ||
        tl__conn_send(conn, &send, m, now) != TL_OK)
        return false;
    who->asked++;
    who->used = now;
    return true;
}

/* Who has no connection, for want of room, has his turn when another has answered. */
static void ask_more_masters(tl_cluster *c, tl_member *m, tl_mono now) {
    tl_question *q = &m->question;
    unsigned count = atomic_load(&c->count), most = q->needed > 0 ? q->needed + MORE_MASTERS : 0;
    for (; q->tried < count && q->asked < most; q->tried++) {
        tl_member *who = tl__member(c, (q->first + q->tried) % count);
        if (who == m || !who->serves)
            continue;
        bool asked = ask(c, who, m, true, now);
        if (!asked && !who->conn && c->witnesses == TL_WITNESSES_MAX)
            return;
        q->asked += asked;
    }
}

/* Of n masters n / 2 + 1 elect a replica, the one that fails not among them: of the others so many that one at least has
 * voted. Where there are no more than two none is ever elected without that master. Several masters are asked about by the same
 * others, so that these need few connections. */
static void ask_masters(tl_cluster *c, tl_member *m, tl_mono now) {
    tl_question *q = &m->question;
    unsigned n = c->masters;
    q->masters = true;
    q->needed = n - (n / 2 + 1);
    if (n == 0 || slot_of(c, m) == TL_SLOTS)
        q->needed = 0;
    else if (n == 2)
        q->needed = 1;
    c->first += GUARD(silent_not_always_first) && c->questions == 1;
    q->first = c->first;
    q->tried = q->asked = 0;
    ask_more_masters(c, m, now);
}

static void begin(tl_cluster *c, tl_member *m) {
    tl_question *q = &m->question;
    tl_mono now = tl__mono_now();
    (void)tl__site_wanted(&m->site);
    if (c->home_at == m)
        (void)tl__site_wanted(&c->site);
    *q = (tl_question){.open = true,
                       .number = (uint16_t)(q->number + 1),
                       .generation = atomic_load(&m->site.generation),
                       .replicas = m->replicas,
                       .began = now,
                       .by = tl__mono_add_ms(now, c->limit_ms)};
    c->questions++;
    bool all = m->replicas > 0 && !m->untold && !m->unsaid;
    for (unsigned i = 0; i < m->replicas; i++)
        all = ask(c, m->replica[i].who, m, false, now) && all;
    if (!all)
        ask_masters(c, m, now);
    if (!tl__mono_before(now, c->learn)) {
        c->learns = true;
        c->learn = TL_NEVER; /* the map says when */
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Of a slot of m. One that executes a command there has it. It may name m as no node has before: then it is asked for the map,
 * which tells who that is, and until then it doesn't agree. */
static opinion read_opinion(tl_member *who, const tl_member *m, const tl_reply *reply) {
    if (reply->type != TL_REPLY_ERROR)
        return SAYS_MINE;
    tl_redirect r = tl__redirect_read(reply->text);
    if (r.kind != TL_MOVED || r.node.port == 0)
        return SAYS_NOTHING;
    tl_bytes host = r.node.host.n ? r.node.host : tl__bytes_of(who->node.endpoint.host);
    if (tl__member_is_called(m, host, r.node.port))
        return SAYS_ITS;
    tl__cluster_ask_whom(m->of, who, host, r.node.port);
    return GUARD(unknown_name_disagrees) ? SAYS_OTHERS : SAYS_ITS;
}

static bool is_replica(const tl_reply *role) {
    tl_bytes text;
    return tl__reply_text(tl__reply_item(role, 0), &text) &&
           tl__bytes_eq(text, TL_LITERAL("slave"));
}

/* 0: it isn't told. */
static uint64_t epoch_in(const tl_reply *info) {
    tl_bytes text = {0};
    int64_t epoch;
    (void)tl__reply_text(info, &text);
    text = tl__bytes_after(text, "cluster_my_epoch:");
    return tl__bytes_to_int(tl__bytes_take(&text, '\r'), &epoch) && epoch > 0 ? (uint64_t)epoch : 0;
}

/* It may have lost its place and got it back meanwhile, and what was answered be of before. Who has left since he was asked
 * about comes back only as one who serves slots again. */
static void begin_anew(tl_cluster *c, tl_member *m) {
    if (GUARD(left_is_not_led_to) && atomic_load(&m->site.generation) == 0)
        return;
    (void)tl__site_lead(&m->site, &m->node.endpoint, TL_NO_EPOCH);
    if (c->home_at == m && atomic_load(&c->site.generation) != 0)
        (void)tl__site_lead(&c->site, &m->node.endpoint, TL_NO_EPOCH);
    m->question.generation = atomic_load(&m->site.generation);
}

static void hear_replica(tl_cluster *c, tl_member *m, tl_member *who, const tl_answer *answer) {
    tl_question *q = &m->question;
    opinion o = read_opinion(who, m, &answer->reply[0]);
    uint64_t epoch = epoch_in(&answer->reply[2]);
    bool has_slots = slot_of(c, m) < TL_SLOTS;
    for (unsigned i = 0; i < m->replicas; i++) {
        uint64_t *was = &m->replica[i].epoch;
        if (m->replica[i].who != who || epoch == 0)
            continue;
        if (*was != 0 && *was != epoch)
            begin_anew(c, m);
        *was = epoch;
    }
    if (has_slots && o == SAYS_MINE)
        q->against = true;
    else if (o == SAYS_ITS || (is_replica(&answer->reply[1]) && (!has_slots || o != SAYS_OTHERS)))
        q->said++;
}

static void on_answer(void *ctx, const tl_answer *answer) {
    tl_member *who = ctx, *m = answer->cookie;
    tl_question *q = &m->question;
    who->asked--;
    bool master = answer->ticket == ticket_of(m, true);
    if (!q->open || (!master && answer->ticket != ticket_of(m, false)) || !answer->ok)
        return;
    if (!master) {
        hear_replica(m->of, m, who, answer);
        return;
    }
    opinion o = read_opinion(who, m, &answer->reply[0]);
    q->agree += o == SAYS_ITS;
    q->against = q->against || o == SAYS_MINE || o == SAYS_OTHERS;
}

/* ---- what comes of it ------------------------------------------------------------------------ */

static void name(tl_cluster *c, tl_member *m, tl_mono asked) {
    if (!tl__site_is(&m->site, m->question.generation))
        return;
    if (!tl__site_was_named(&m->site, asked))
        tl__site_named(&m->site, asked);
    if (c->home_at == m && atomic_load(&c->site.generation) != 0 &&
        !tl__site_was_named(&c->site, asked))
        tl__site_named(&c->site, asked);
}

static void say_trouble(tl_cluster *c, tl_member *m, bool against) {
    char words[TL_SITE_WORDS];
    (void)snprintf(words, sizeof words,
                   against
                       ? "%.140s: another node of the cluster has taken its slots over"
                       : "%.140s: neither its replicas nor enough of the other masters say that it "
                         "is a master still",
                   m->node.endpoint.label);
    tl__site_trouble(&m->site, words);
    if (c->home_at == m)
        tl__site_trouble(&c->site, words);
    if (against)
        atomic_store(&c->wanted, true);
}

/* false: it goes on. */
static bool conclude(tl_cluster *c, tl_member *m, tl_mono now) {
    tl_question *q = &m->question;
    bool all = q->replicas > 0 && !m->untold &&
               (q->said >= q->replicas || !GUARD(every_replica_says));
    bool most = q->masters && q->agree >= q->needed, late = !tl__mono_before(now, q->by);
    if (!q->against && !all && !most && !late) {
        if (!q->masters && !tl__mono_before(now, tl__mono_add_ms(q->began, HEDGE_MS)))
            ask_masters(c, m, now);
        else if (q->masters)
            ask_more_masters(c, m, now);
        return false;
    }
    q->open = false;
    m->unsaid = !all;
    m->again = now;
    if (q->against || (!all && !most)) {
        say_trouble(c, m, q->against);
        m->again = tl__mono_add_ns(now, tl__backoff_ns(&m->backoff));
        return true;
    }
    tl__backoff_reset(&m->backoff);
    if (!all && q->replicas > 0)
        m->again = tl__mono_add_ms(q->began, AGAIN_MS);
    name(c, m,
         all || q->replicas == 0 ? q->began
                                 : tl__mono_add_ms(q->began, -GUARD(news_takes_time) * NEWS_MS));
    return true;
}

/* Also where the connections of the first node lead, which is one of them. */
static void look(tl_cluster *c, tl_mono now) {
    unsigned count = atomic_load(&c->count);
    c->next = TL_NEVER;
    if (tl__site_doubted(&c->site) || (!c->home_at && tl__site_wanted(&c->site))) {
        c->astray = true;
        atomic_store(&c->wanted, true);
    }
    for (unsigned i = 0; i < count; i++) {
        tl_member *m = tl__member(c, i);
        bool wanted = atomic_load(&m->site.wanted) ||
                      (c->home_at == m && atomic_load(&c->site.wanted));
        if (tl__site_doubted(&m->site)) {
            atomic_store(&c->wanted, true);
            bool noted = m->silent.ns != 0 && !tl__node_heard_since(&m->node, m->silent);
            if (atomic_load(&m->site.generation) != 0 && !noted)
                m->silent = now;
        }
        if (!wanted || m->question.open)
            continue;
        if (atomic_load(&m->site.generation) == 0)
            (void)tl__site_wanted(&m->site);
        else if (tl__mono_before(now, m->again))
            c->next = tl__mono_min(c->next, m->again);
        else
            begin(c, m);
    }
}

static void conclude_all(tl_cluster *c, tl_mono now) {
    unsigned count = atomic_load(&c->count);
    for (unsigned i = 0; i < count && c->questions > 0; i++) {
        tl_member *m = tl__member(c, i);
        if (!m->question.open || !conclude(c, m, now))
            continue;
        c->questions--;
        if (atomic_load(&m->site.wanted) || (c->home_at == m && atomic_load(&c->site.wanted)))
            atomic_store(&c->doubts, true);
    }
}

/* ---- for the keeper -------------------------------------------------------------------------- */

unsigned tl__cluster_ask_fds(const tl_cluster *c, struct pollfd *ret) {
    for (unsigned i = 0; i < c->witnesses; i++)
        ret[i] = (struct pollfd){.fd = tl__conn_fd(c->witness[i]->conn),
                                 .events = tl__conn_events(c->witness[i]->conn)};
    return c->witnesses;
}

tl_mono tl__cluster_ask_until(const tl_cluster *c) {
    const tl_mono at_once = {0};
    tl_mono until = atomic_load(&c->doubts) ? at_once : c->next;
    for (unsigned i = 0; i < c->witnesses; i++) {
        until = tl__mono_min(until, tl__conn_until(c->witness[i]->conn));
        until = tl__mono_min(until, tl__mono_add_ms(c->witness[i]->used, IDLE_MS));
    }
    unsigned count = atomic_load(&c->count), open = c->questions;
    for (unsigned i = 0; i < count && open > 0; i++) {
        const tl_question *q = &tl__member(c, i)->question;
        open -= q->open;
        if (q->open)
            until = tl__mono_min(until, q->masters ? q->by : tl__mono_add_ms(q->began, HEDGE_MS));
    }
    return until;
}

static void drive_witnesses(const tl_cluster *c, tl_mono now) {
    for (unsigned i = 0; i < c->witnesses; i++)
        tl__conn_drive(c->witness[i]->conn, now);
}

void tl__cluster_ask_drive(tl_cluster *c, tl_mono now) {
    drive_witnesses(c, now);
    conclude_all(c, now);
    if (atomic_exchange(&c->doubts, false) || !tl__mono_before(now, c->next)) {
        look(c, now);
        drive_witnesses(c, now);
        conclude_all(c, now); /* where nobody need be asked */
    }
    close_idle(c, now);
}

void tl__cluster_ask_end(tl_cluster *c) {
    while (c->witnesses > 0)
        tl__cluster_hang_up(c, c->witnesses - 1);
}
