/*
 * Whether a cluster's master is still a master. A master that was stopped and wakes up executes the requests
 * in its sockets before it learns that a replica has taken over. So its reply counts only if other nodes,
 * asked after it, know of no other master (tl_send.confirm).
 *
 * Only a replica can take over, and it knows that first: from the promotion on, before it executes anything.
 * So all replicas of the master are asked. When each says that it is still a replica, there was certainly no
 * promotion before they were asked.
 *
 * If a replica doesn't answer, or none is known, the other masters are asked: so many that any election had a
 * voter among them. A voter learns the outcome a moment later, from the winner. So replies of the other
 * masters only rule out elections until NEWS_MS before they were asked.
 *
 * Nobody is asked about the slot of a lock. So a former owner of a slot that has moved atomically is confirmed
 * as long as it is the master of other slots. It must not serve that slot then: [elections] of
 * tidelock-promises(7). To ask about slots in use is not enough. A node with old news names the owner before
 * this one, and costs locks after ordinary moves, unless the epochs of CLUSTER NODES tell the two apart.
 */
#include <stdio.h>
#include <string.h>

#include "client/cluster_inside.h"
#include "ground/guard.h"

#define HEDGE_MS 100   /* after so long without an outcome the masters are asked, too */
#define LEARN_MS 10000 /* the replicas of a list that is older may not be all that can take over */
#define NEWS_MS 200    /* a master may not know the winner of its election for so long */
#define AGAIN_MS 20    /* between questions to masters */
#define UNLISTED_MS 60000 /* a replica that no map has listed for so long is forgotten */
#define IDLE_MS 30000     /* an idle connection is closed */
#define ASKED_MAX 8       /* a replica with so many unanswered questions gets no more */
#define PEERS_MAX 512     /* the same for a master, which is asked about all others */
#define MORE_MASTERS 2    /* so many more masters are asked than must answer */
#define NO_HISTORY 1      /* a replica doesn't report its replication id */

typedef enum { SAYS_NOTHING, SAYS_MINE, SAYS_ITS, SAYS_OTHERS } opinion;

/* ---- replicas and slots ---------------------------------------------------------------------- */

void tl__member_learn(tl_member *member, tl_member *replica, tl_mono now) {
    unsigned i = 0;
    while (i < member->replicas && member->replica[i].who != replica)
        i++;
    if (i == TL_REPLICAS_MAX) {
        member->incomplete = true;
        return;
    }
    if (i == member->replicas)
        member->replica[member->replicas++] = (tl_replica){.who = replica};
    member->replica[i].listed = now;
}

void tl__member_forget(tl_member *member, tl_mono now) {
    unsigned kept = 0;
    for (unsigned i = 0; i < member->replicas; i++)
        if (tl__mono_before(now, tl__mono_add_ms(member->replica[i].listed, UNLISTED_MS)))
            member->replica[kept++] = member->replica[i];
    member->replicas = kept;
}

/* One of the member's slots: the same one for as long as the member has it. At first it is its last slot, as
 * slots are usually moved away from the first on. A slot that it got lately would be wrong. Other nodes may
 * not know that yet, and name the former owner. And a replica that takes over may not know, so that others
 * go on naming this member. TL_SLOTS: it has no slot. */
static unsigned slot_of(const tl_cluster *cluster, tl_member *member) {
    for (unsigned i = 0; i < TL_SLOTS; i++) {
        unsigned slot = TL_SLOTS - 1 - (GUARD(long_held_slot) * member->about + i) % TL_SLOTS;
        if (atomic_load(&cluster->owner[slot]) == &member->node) {
            member->about = TL_SLOTS - 1 - slot;
            return slot;
        }
    }
    return TL_SLOTS;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void on_answer(void *ctx, const tl_answer *answer);

/* Close the connection to the witness that was asked longest ago, of those without an open question. */
static bool make_room(tl_cluster *cluster) {
    unsigned found = cluster->witnesses;
    for (unsigned i = 0; i < cluster->witnesses; i++)
        if (cluster->witness[i]->asked == 0 &&
            (found == cluster->witnesses ||
             tl__mono_before(cluster->witness[i]->used, cluster->witness[found]->used)))
            found = i;
    if (found == cluster->witnesses)
        return false;
    tl__cluster_hang_up(cluster, found);
    return true;
}

/* The connection to a witness. NULL: no room, or no memory. */
static tl_conn *conn_to(tl_cluster *cluster, tl_member *who) {
    tl_conn_limits limits = {.connect_ms = cluster->limit_ms, .no_time = true};
    tl_conn_calls calls = {.answer = on_answer, .ctx = who};
    if (who->conn || (cluster->witnesses == TL_WITNESSES_MAX && !make_room(cluster)))
        return who->conn;
    who->conn = tl__conn_new(&who->node.endpoint, &limits, &calls);
    if (who->conn)
        cluster->witness[cluster->witnesses++] = who;
    return who->conn;
}

static void close_idle(tl_cluster *cluster, tl_mono now) {
    for (unsigned i = cluster->witnesses; i > 0; i--)
        if (cluster->witness[i - 1]->asked == 0 &&
            !tl__mono_before(now, tl__mono_add_ms(cluster->witness[i - 1]->used, IDLE_MS)))
            tl__cluster_hang_up(cluster, i - 1);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static uint16_t ticket_of(const tl_member *member, bool master) {
    return (uint16_t)(member->question.number << 1 | master);
}

static tl_command *add(tl_send *send, tl_bytes first, tl_bytes second) {
    tl_command *command = &send->command[send->count++];
    *command = (tl_command){.form = TL_ARGV, .argc = second.n > 0 ? 2 : 1, .argv = {first, second}};
    return command;
}

/* Ask `who` which node has a slot of `member`, by reading a key there. A replica is also asked for its role
 * and its master's epoch, and where `history` is true for its replication id. */
static bool ask(tl_cluster *cluster, tl_member *who, tl_member *member, bool master, bool history,
                tl_mono now) {
    char counter[TL_COUNTER_SIZE];
    unsigned slot = slot_of(cluster, member);
    tl_slot_tag tag = tl__slot_tag((uint16_t)(slot % TL_SLOTS));
    tl_send send = {.ticket = ticket_of(member, master), .by = member->question.by};
    tl_conn *conn = conn_to(cluster, who);
    (void)add(&send, TL_LITERAL("GET"), tl__counter(counter, &tag));
    if (!master) {
        (void)add(&send, TL_LITERAL("ROLE"), (tl_bytes){0});
        (void)add(&send, TL_LITERAL("CLUSTER"), TL_LITERAL("INFO"));
    }
    if (history)
        (void)add(&send, TL_LITERAL("INFO"), TL_LITERAL("replication"));
    if (!conn || who->asked >= (master ? PEERS_MAX : ASKED_MAX) ||
        tl__conn_send(conn, &send, member, now) != TL_OK)
        return false;
    who->asked++;
    who->used = now;
    return true;
}

/* If there is no room for a connection, the next master is asked when another has answered. */
static void ask_more_masters(tl_cluster *cluster, tl_member *member, tl_mono now) {
    tl_question *q = &member->question;
    unsigned count = atomic_load(&cluster->count),
             most = q->needed > 0 ? q->needed + MORE_MASTERS : 0;
    for (; q->tried < count && q->asked < most; q->tried++) {
        tl_member *who = tl__member(cluster, (q->first + q->tried) % count);
        if (who == member || !who->serves)
            continue;
        bool asked = ask(cluster, who, member, true, false, now);
        if (!asked && !who->conn && cluster->witnesses == TL_WITNESSES_MAX)
            return;
        q->asked += asked;
    }
}

/* A replica is elected by n / 2 + 1 of n masters, without the failed one. So n - (n / 2 + 1) of the others
 * include at least one voter. With two masters or one, no replica is ever elected without the failed one. The
 * same other masters are asked about several members, so that few connections are needed. */
static void ask_masters(tl_cluster *cluster, tl_member *member, tl_mono now) {
    tl_question *q = &member->question;
    unsigned n = cluster->masters;
    q->masters = true;
    q->needed = n - (n / 2 + 1);
    if (n == 0 || slot_of(cluster, member) == TL_SLOTS)
        q->needed = 0;
    else if (n == 2)
        q->needed = 1;
    cluster->first += GUARD(silent_not_always_first) && cluster->questions == 1;
    q->first = cluster->first;
    q->tried = q->asked = 0;
    ask_more_masters(cluster, member, now);
}

static void begin(tl_cluster *cluster, tl_member *member) {
    tl_question *q = &member->question;
    tl_mono now = tl__mono_now();
    (void)tl__site_wanted(&member->site);
    if (cluster->home_at == member)
        (void)tl__site_wanted(&cluster->site);
    *q = (tl_question){.open = true,
                       .number = (uint16_t)(q->number + 1),
                       .generation = atomic_load(&member->site.generation),
                       .replicas = member->replicas,
                       .began = now,
                       .by = tl__mono_add_ms(now, cluster->limit_ms)};
    cluster->questions++;
    bool all = member->replicas > 0 && !member->incomplete && !member->unsaid;
    for (unsigned i = 0; i < member->replicas; i++) {
        tl_replica *replica = &member->replica[i];
        replica->is_asked = false;
        all = ask(cluster, replica->who, member, false, replica->history == 0, now) && all;
    }
    if (!all)
        ask_masters(cluster, member, now);
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Who has the member's slot, according to `who`? If `who` executes the command it has the slot itself. If it
 * uses a name that no node has used before, that may be the member's: then ask it for the map. Until that
 * says so, `who` doesn't agree. */
static opinion read_opinion(tl_member *who, const tl_member *member, const tl_reply *reply) {
    if (reply->type != TL_REPLY_ERROR)
        return SAYS_MINE;
    tl_redirect r = tl__redirect_read(reply->text);
    if (r.kind != TL_MOVED || r.node.port == 0)
        return SAYS_NOTHING;
    tl_bytes host = r.node.host.n ? r.node.host : tl__bytes_of(who->node.endpoint.host);
    if (tl__member_is_called(member, host, r.node.port))
        return SAYS_ITS;
    tl__cluster_ask_whom(member->of, who, host, r.node.port);
    return GUARD(unknown_name_disagrees) ? SAYS_OTHERS : SAYS_ITS;
}

static bool is_replica(const tl_reply *role) {
    tl_bytes text;
    return tl__reply_text(tl__reply_item(role, 0), &text) &&
           tl__bytes_eq(text, TL_LITERAL("slave"));
}

/* 0: the reply has no epoch. */
static uint64_t epoch_in(const tl_reply *info) {
    tl_bytes text = {0};
    int64_t epoch;
    (void)tl__reply_text(info, &text);
    text = tl__bytes_after(text, "cluster_my_epoch:");
    return tl__bytes_to_int(tl__bytes_take(&text, '\r'), &epoch) && epoch > 0 ? (uint64_t)epoch : 0;
}

/* The member may have been replaced and become master again, and its reply may be from before that:
 * lead to it as a new generation. Not if it has been left since the question began: then only a map
 * can bring it back. */
static void begin_anew(tl_cluster *cluster, tl_member *member) {
    member->question.raised = false;
    if (GUARD(left_is_not_led_to) && atomic_load(&member->site.generation) == 0)
        return;
    (void)tl__site_lead(&member->site, &member->node.endpoint, TL_NO_EPOCH);
    if (cluster->home_at == member && atomic_load(&cluster->site.generation) != 0)
        (void)tl__site_lead(&cluster->site, &member->node.endpoint, TL_NO_EPOCH);
    member->question.generation = atomic_load(&member->site.generation);
}

static uint64_t history_in(const tl_reply *info) {
    tl_bytes text = {0};
    (void)tl__reply_text(info, &text);
    text = tl__bytes_after(text, "master_replid:");
    uint64_t hash = tl__bytes_hash(0, tl__bytes_take(&text, '\r'));
    return text.p && hash > NO_HISTORY ? hash : NO_HISTORY;
}

/* May the replica have been a master since it was asked before? Then its epoch is another one. But an epoch
 * also rises when the member is given a slot. The replication id tells these apart: a promotion changes it.
 * It does not return to what it was, as the member copies the data of its successor, with a new id, before
 * it is promoted itself. It is asked for only when the epoch has changed. false: that is to come.
 *
 * Exception: a member that regains its slots by a higher epoch, and was no replica in between. Then its data
 * go on, and what it has replied is in them. */
static bool compare(tl_cluster *cluster, tl_member *member, tl_replica *replica,
                    const tl_answer *answer) {
    tl_question *q = &member->question;
    uint64_t was = replica->epoch, epoch = epoch_in(&answer->reply[2]), history = replica->history;
    bool rises = replica->is_asked || (epoch != 0 && was != 0 && was != epoch);
    bool told = answer->count > 3;
    replica->epoch = epoch != 0 ? epoch : was;
    replica->history = told ? history_in(&answer->reply[3]) : history;
    q->raised = q->raised || rises;
    if (rises && !told && history > NO_HISTORY)
        replica->is_asked = ask(cluster, replica->who, member, false, true, tl__mono_now());
    if (replica->is_asked && !told)
        return false;
    bool goes_on = told && history > NO_HISTORY &&
                   (history == replica->history || !GUARD(other_history_is_another));
    q->same += rises ? goes_on : epoch != 0 && was == epoch;
    if (rises && !goes_on)
        begin_anew(cluster, member);
    return true;
}

static void hear_replica(tl_cluster *cluster, tl_member *member, tl_member *who,
                         const tl_answer *answer) {
    tl_question *q = &member->question;
    opinion o = read_opinion(who, member, &answer->reply[0]);
    bool has_slots = slot_of(cluster, member) < TL_SLOTS;
    q->against = q->against || (has_slots && o == SAYS_MINE);
    for (unsigned i = 0; i < member->replicas; i++)
        if (member->replica[i].who == who && !compare(cluster, member, &member->replica[i], answer))
            return;
    q->said += o == SAYS_ITS || (is_replica(&answer->reply[1]) && (!has_slots || o != SAYS_OTHERS));
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

/* ---- the outcome ----------------------------------------------------------------------------- */

static void name(tl_cluster *cluster, tl_member *member, tl_mono asked) {
    if (!tl__site_is(&member->site, member->question.generation))
        return;
    if (!tl__site_was_named(&member->site, asked))
        tl__site_named(&member->site, asked);
    if (cluster->home_at == member && atomic_load(&cluster->site.generation) != 0 &&
        !tl__site_was_named(&cluster->site, asked))
        tl__site_named(&cluster->site, asked);
}

static void say_trouble(tl_cluster *cluster, tl_member *member, bool against) {
    char message[TL_SITE_MESSAGE_SIZE];
    (void)snprintf(message, sizeof message,
                   against
                       ? "%.140s: another node of the cluster has taken its slots over"
                       : "%.140s: neither its replicas nor enough of the other masters say that it "
                         "is still a master",
                   member->node.endpoint.label);
    tl__site_trouble(&member->site, message);
    if (cluster->home_at == member)
        tl__site_trouble(&cluster->site, message);
    if (against)
        atomic_store(&cluster->wanted, true);
}

/* A replica reports another epoch, though it was no master itself. Then another one may have been a master,
 * unless each of them says that it was none. */
static bool is_another_reign(const tl_question *q, bool all, bool over) {
    return q->raised && GUARD(each_replica_went_on) && over && (!all || q->same < q->replicas);
}

/* End the question if it has an outcome, or its time is over. false: it goes on. */
static bool conclude(tl_cluster *cluster, tl_member *member, tl_mono now) {
    tl_question *q = &member->question;
    bool all = q->replicas > 0 && !member->incomplete &&
               (q->said >= q->replicas || !GUARD(every_replica_says));
    bool late = !tl__mono_before(now, q->by),
         hedged = !tl__mono_before(now, tl__mono_add_ms(q->began, HEDGE_MS));
    if (is_another_reign(q, all, all || hedged || late || q->against))
        begin_anew(cluster, member);
    bool most = q->masters && q->agree >= q->needed && (all || !q->raised);
    if (!q->against && !all && !most && !late) {
        if (!q->masters && hedged)
            ask_masters(cluster, member, now);
        else if (q->masters)
            ask_more_masters(cluster, member, now);
        return false;
    }
    q->open = false;
    member->unsaid = !all;
    member->again = now;
    if (q->against || (!all && !most)) {
        say_trouble(cluster, member, q->against);
        member->again = tl__mono_add_ns(now, tl__backoff_ns(&member->backoff));
        return true;
    }
    tl__backoff_reset(&member->backoff);
    if (!all && q->replicas > 0)
        member->again = tl__mono_add_ms(q->began, AGAIN_MS);
    /* Two assumptions. A replica is known for 10 s (LEARN_MS) before it is promoted. And NEWS_MS after an
     * election one of the masters that were asked knows of it.
     *
     * The second fails if the winner is cut off from all of them and from this client right after its
     * election, while other clients reach it. It also fails after CLUSTER FAILOVER TAKEOVER, which needs no
     * votes, if the winner is cut off from the masters. cluster-node-timeout bounds nothing here: a master
     * that was stopped, for however long, answers the requests in its sockets before it reads what other
     * nodes sent. */
    name(cluster, member,
         all || q->replicas == 0 ? q->began
                                 : tl__mono_add_ms(q->began, -GUARD(news_takes_time) * NEWS_MS));
    return true;
}

/* Are the replicas and the number of masters known well enough for a question? The list of them is asked for
 * when half of its time is over. So where questions are frequent none waits for it. A client that was idle
 * waits for a new list: by the old one it would not ask a replica that has come, and taken over, since. */
static bool knows_whom_to_ask(tl_cluster *cluster, tl_member *member) {
    char message[TL_SITE_MESSAGE_SIZE];
    bool never = cluster->listed.ns == 0; /* a machine that has just started is not 10 s old */
    int64_t age_ms = never ? LEARN_MS : tl__ms_until(cluster->listed, tl__mono_now());
    cluster->learns = cluster->learns || age_ms >= LEARN_MS / 2;
    if (age_ms < LEARN_MS || !GUARD(replicas_listed_lately))
        return true;
    (void)snprintf(message, sizeof message,
                   "%.140s: no node of the cluster has reported lately which replicas it has",
                   member->node.endpoint.label);
    tl__site_trouble(&member->site, message);
    if (cluster->home_at == member)
        tl__site_trouble(&cluster->site, message);
    return false;
}

/* Begin a question about each member whose site is wanted. The client's first node leads to one of the
 * members, so its site counts as well. */
static void look(tl_cluster *cluster, tl_mono now) {
    unsigned count = atomic_load(&cluster->count);
    cluster->next = TL_NEVER;
    if (tl__site_doubted(&cluster->site) ||
        (!cluster->home_at && tl__site_wanted(&cluster->site))) {
        cluster->astray = true;
        atomic_store(&cluster->wanted, true);
    }
    for (unsigned i = 0; i < count; i++) {
        tl_member *member = tl__member(cluster, i);
        bool wanted = atomic_load(&member->site.wanted) ||
                      (cluster->home_at == member && atomic_load(&cluster->site.wanted));
        if (tl__site_doubted(&member->site)) {
            atomic_store(&cluster->wanted, true);
            bool noted = member->silent.ns != 0 &&
                         !tl__node_heard_since(&member->node, member->silent);
            if (atomic_load(&member->site.generation) != 0 && !noted)
                member->silent = now;
        }
        if (!wanted || member->question.open)
            continue;
        if (atomic_load(&member->site.generation) == 0)
            (void)tl__site_wanted(&member->site);
        else if (tl__mono_before(now, member->again))
            cluster->next = tl__mono_min(cluster->next, member->again);
        else if (knows_whom_to_ask(cluster, member))
            begin(cluster, member);
    }
}

static void conclude_all(tl_cluster *cluster, tl_mono now) {
    unsigned count = atomic_load(&cluster->count);
    for (unsigned i = 0; i < count && cluster->questions > 0; i++) {
        tl_member *member = tl__member(cluster, i);
        if (!member->question.open || !conclude(cluster, member, now))
            continue;
        cluster->questions--;
        if (atomic_load(&member->site.wanted) ||
            (cluster->home_at == member && atomic_load(&cluster->site.wanted)))
            atomic_store(&cluster->doubts, true);
    }
}

/* ---- for the keeper -------------------------------------------------------------------------- */

unsigned tl__cluster_ask_fds(const tl_cluster *cluster, struct pollfd *ret) {
    for (unsigned i = 0; i < cluster->witnesses; i++)
        ret[i] = (struct pollfd){.fd = tl__conn_fd(cluster->witness[i]->conn),
                                 .events = tl__conn_events(cluster->witness[i]->conn)};
    return cluster->witnesses;
}

tl_mono tl__cluster_ask_until(const tl_cluster *cluster) {
    const tl_mono at_once = {0};
    tl_mono until = atomic_load(&cluster->doubts) ? at_once : cluster->next;
    for (unsigned i = 0; i < cluster->witnesses; i++) {
        until = tl__mono_min(until, tl__conn_until(cluster->witness[i]->conn));
        until = tl__mono_min(until, tl__mono_add_ms(cluster->witness[i]->used, IDLE_MS));
    }
    unsigned count = atomic_load(&cluster->count), open = cluster->questions;
    for (unsigned i = 0; i < count && open > 0; i++) {
        const tl_question *q = &tl__member(cluster, i)->question;
        open -= q->open;
        if (q->open)
            until = tl__mono_min(
                until, q->masters && !q->raised ? q->by : tl__mono_add_ms(q->began, HEDGE_MS));
    }
    return until;
}

static void drive_witnesses(const tl_cluster *cluster, tl_mono now) {
    for (unsigned i = 0; i < cluster->witnesses; i++)
        tl__conn_drive(cluster->witness[i]->conn, now);
}

void tl__cluster_ask_drive(tl_cluster *cluster, tl_mono now) {
    drive_witnesses(cluster, now);
    conclude_all(cluster, now);
    if (atomic_exchange(&cluster->doubts, false) || !tl__mono_before(now, cluster->next)) {
        look(cluster, now);
        drive_witnesses(cluster, now);
        conclude_all(cluster, now); /* some questions need no replies */
    }
    close_idle(cluster, now);
}

void tl__cluster_ask_end(tl_cluster *cluster) {
    while (cluster->witnesses > 0)
        tl__cluster_hang_up(cluster, cluster->witnesses - 1);
}
