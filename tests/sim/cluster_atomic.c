/*
 * Slots that change masters at one moment: CLUSTER MIGRATESLOTS of Valkey 9.0, CLUSTER MIGRATION of Redis 8.4.
 *
 * The target copies the slot's keys, and gets what is written to them meanwhile, while the source owns the slot: who asks
 * the target is sent to the source. Keys keep their ends, by whichever clock: from then on the target's. Then the source
 * postpones all writes, of all of its slots, for `pause_ms` at most. It gives the slot away when the target has all;
 * Valkey then postpones for two seconds more at least, Redis doesn't (`drains`). The target takes the slot, whenever it
 * reads that, and tells the others. When the source hears of it, it drops the slot's keys; what it has postponed is sent
 * to the target. A source that hears of nothing in time executes what it has postponed.
 *
 * A migration ends where it stands when it is cancelled, when its time is over, or when another takes over from the source
 * or the target: then the target drops its copies.
 *
 * With `empties` a target may restart without data just before it takes the slot, or just after: as a master that restarts.
 *
 * Assumed: the target takes the slot, and the source hears of it, before the pause ends; and the target's clock isn't ahead.
 * `doubtful` and `uphill` break these: both masters may serve the slot for a while, and locks end early.
 */
#include <string.h>

#include "world.h"

#define CANCELLED 7 /* one of so many and one is; */
#define EMPTIES 4 /* of so many and one targets one dies before it takes the slot, and one after */
#define HELD_UP 7 /* and of messages between the two */

static sim_slot *slot_of(sim_world *w, const sim_handover *h) {
    return &w->cluster.slot[h - w->cluster.handover];
}

static bool goes_on(const sim_handover *h, uint32_t number) {
    return h->state != SIM_STAYS && h->number == number;
}

static void later(sim_world *w, sim_handover *h, sim_fire what, sim_ns by) {
    sim_put(w, w->now + by, SIM_RANK_NET, what, h, h->number);
}

static sim_ns message_time(sim_world *w) {
    int64_t odds = w->cfg.doubtful ? 1 : HELD_UP;
    if (!w->calm && sim_draw(w, 0, odds) == 0)
        return sim_draw(w, w->cfg.delay, w->cfg.delay + 2 * w->cfg.pause_ms * SIM_MS);
    return w->cfg.delay / 2 + sim_draw(w, 0, w->cfg.delay);
}

static int64_t ahead_ns(const sim_world *w, int server, int other) {
    return sim_clock_read(&w->server[server].wall, w->now) -
           sim_clock_read(&w->server[other].wall, w->now);
}

/* ---- what the source postpones ------------------------------------------------------------------- */

static bool is_paused(const sim_world *w, int server) {
    bool paused = false;
    for (int i = 0; i < w->cluster.slots; i++) {
        const sim_handover *h = &w->cluster.handover[i];
        paused = paused || (h->state != SIM_STAYS && h->paused && h->from == server);
    }
    return paused;
}

/* Those that only read, as far as clients use them; a script may write. */
static bool may_write(tl_bytes name) {
    static const char *const reads[] = {
        "GET",    "MGET",    "EXISTS",   "PTTL", "TIME",    "INFO",   "ROLE",      "CLUSTER",
        "CLIENT", "PING",    "HELLO",    "AUTH", "SELECT",  "MULTI",  "DISCARD",   "WATCH",
        "ASKING", "UNWATCH", "READONLY", "WAIT", "COMMAND", "SCRIPT", "SUBSCRIBE", "UNSUBSCRIBE"};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        if (tl__bytes_eq(name, tl__bytes_of(reads[i])))
            return false;
    return true;
}

static bool is_word(tl_bytes a, const char *word) {
    return tl__bytes_eq(a, tl__bytes_of(word));
}

/* n 0: it has none. */
static tl_bytes key_of(const tl_bytes *argv, size_t argc) {
    bool script = is_word(argv[0], "EVAL") || is_word(argv[0], "EVALSHA");
    if (is_word(argv[0], "PUBLISH") || (script && argc > 2 && is_word(argv[2], "0")))
        return (tl_bytes){0};
    size_t at = script ? 3 : 1;
    return at < argc ? argv[at] : (tl_bytes){0};
}

bool sim_atomic_postpones(sim_world *w, sim_socket *s, const tl_bytes *argv, size_t argc) {
    if (!is_paused(w, s->server) || !may_write(argv[0]) ||
        !sim_cluster_serves(w, s->server, key_of(argv, argc)))
        return false;
    if (!s->postponed) {
        s->postponed = true;
        s->refs++;
        w->stats.postponed++;
    }
    return true;
}

static void end_pause(sim_world *w, sim_handover *h) {
    h->paused = false;
    if (is_paused(w, h->from))
        return;
    for (sim_socket *s = w->sockets; s; s = s->all)
        if (s->postponed && s->server == h->from)
            sim_put(w, w->now, SIM_RANK_NET, sim_socket_resume, s, 0);
}

/* ---- how it ends ----------------------------------------------------------------------------------- */

static void look_at_keys(sim_world *w) {
    for (int i = 0; i < w->cfg.keys && !w->failed; i++)
        sim_check_key(w, i);
}

static void fail(sim_world *w, sim_handover *h) {
    const sim_slot *s = slot_of(w, h);
    if (w->shard[h->heir].master == h->to && w->server[h->to].up)
        sim_cluster_drop_slot(w, s, h->to);
    h->state = SIM_STAYS;
    w->stats.atomic_failed++;
    sim_tell(w, "", SIM_ALL, "slot %u stays", s->number);
    end_pause(w, h);
}

void sim_atomic_heard(sim_world *w, int server) {
    for (int i = 0; i < w->cluster.slots; i++) {
        sim_handover *h = &w->cluster.handover[i];
        bool knows = w->cluster.view[server].owner[i] != sim_shard_of(w, server);
        if (h->state != SIM_TAKEN || h->from != server || !knows)
            continue;
        if (sim_master_of(w, server) == server)
            sim_cluster_drop_slot(w, &w->cluster.slot[i], server);
        h->state = SIM_STAYS;
        sim_tell(w, "", SIM_ALL, "server %d hears that slot %u has moved", server,
                 w->cluster.slot[i].number);
        end_pause(w, h);
    }
}

void sim_atomic_replaced(sim_world *w, int former) {
    for (int i = 0; i < w->cluster.slots; i++) {
        sim_handover *h = &w->cluster.handover[i];
        if (h->state == SIM_STAYS || (h->from != former && h->to != former))
            continue;
        if (h->state != SIM_TAKEN) {
            fail(w, h);
        } else if (h->from == former) {
            h->state = SIM_STAYS;
            end_pause(w, h);
        }
    }
}

/* It waits for no news: what it writes from here on is lost if the slot has been taken, or is yet. */
static void doubt(sim_world *w, sim_handover *h) {
    w->stats.doubted++;
    sim_tell(w, "", SIM_ALL, "server %d writes again, and doesn't know whose slot %u is",
             (int)h->from, slot_of(w, h)->number);
    end_pause(w, h);
}

static void pause_over(sim_world *w, void *who, uint32_t number) {
    sim_handover *h = who;
    sim_ns end = h->until > w->server[h->from].busy_until ? h->until
                                                          : w->server[h->from].busy_until;
    bool given = h->state == SIM_GRANTED || h->state == SIM_TAKEN;
    if (!goes_on(h, number) || !h->paused)
        return;
    if (w->now < end)
        later(w, h, pause_over, end - w->now);
    else if (given && w->cfg.doubtful)
        doubt(w, h);
    else if (h->state != SIM_TAKEN) /* else it hears: assumed */
        fail(w, h);
}

/* By an operator, who can't know whether the slot has been taken. */
static void cancel(sim_world *w, void *who, uint32_t number) {
    sim_handover *h = who;
    bool given = h->state == SIM_GRANTED || h->state == SIM_TAKEN;
    if (!goes_on(h, number))
        return;
    if (!given)
        fail(w, h);
    else if (w->cfg.doubtful && h->paused)
        doubt(w, h);
}

/* ---- its steps ----------------------------------------------------------------------------------- */

/* Can it go on? What a node that is stopped should do waits until it wakes. */
static bool is_ready(sim_world *w, sim_handover *h, uint32_t number, int server, sim_fire again) {
    if (!goes_on(h, number))
        return false;
    if (w->shard[slot_of(w, h)->owner].master != h->from || w->shard[h->heir].master != h->to) {
        fail(w, h);
        return false;
    }
    if (sim_cluster_is_well(w, server))
        return true;
    later(w, h, again, SIM_MS + sim_draw(w, 0, 2 * w->cfg.delay));
    return false;
}

/* Keys that are over by the source's clock, and not by the target's. */
static int64_t count_back(sim_world *w, const sim_handover *h, const sim_slot *s) {
    int64_t there_ms = sim_clock_read(&w->server[h->from].wall, w->now) / SIM_MS,
            here_ms = sim_clock_read(&w->server[h->to].wall, w->now) / SIM_MS, n = 0;
    for (int i = 0; i < w->cfg.keys; i++) {
        bool its = fake_redis_slot(w->key[i].k) == s->number;
        int64_t ends_ms = its ? fake_redis_peek_expiry(w->server[h->to].r, 0, w->key[i].k) : 0;
        n += ends_ms > here_ms && ends_ms <= there_ms;
    }
    return n;
}

static void take(sim_world *w, void *who, uint32_t number) {
    sim_handover *h = who;
    sim_slot *s = slot_of(w, h);
    if (!is_ready(w, h, number, h->to, take))
        return;
    int64_t ahead = ahead_ns(w, h->to, h->from);
    if (ahead > 0 && !w->cfg.uphill) {
        fail(w, h);
        return;
    }
    int64_t dies = w->cfg.empties && !w->calm ? sim_draw(w, 0, EMPTIES) : EMPTIES;
    if (dies == 0) { /* the source waits in vain until the pause is over */
        sim_cluster_empty(w, h->to);
        return;
    }
    w->went_back += ahead < 0 ? -ahead : 0;
    h->state = SIM_TAKEN;
    w->stats.atomic++;
    w->stats.keys_back += count_back(w, h, s);
    sim_cluster_give(w, s, h->heir, h->from);
    look_at_keys(w);
    if (dies == 1)
        sim_cluster_empty(w, h->to);
}

static void give(sim_world *w, sim_handover *h) {
    h->state = SIM_GRANTED;
    later(w, h, take, message_time(w));
}

static void grant(sim_world *w, void *who, uint32_t number) {
    sim_handover *h = who;
    if (!is_ready(w, h, number, h->from, grant))
        return;
    if (h->until < w->now + SIM_GRANT_MS * SIM_MS)
        h->until = w->now + SIM_GRANT_MS * SIM_MS;
    give(w, h);
}

/* It has read that nothing more is to come. */
static void ask_for_it(sim_world *w, void *who, uint32_t number) {
    sim_handover *h = who;
    if (!is_ready(w, h, number, h->to, ask_for_it))
        return;
    sim_cluster_copy_slot(w, slot_of(w, h), h->from, h->to);
    h->state = SIM_ASKS;
    later(w, h, grant, message_time(w));
}

static void begin_pause(sim_world *w, void *who, uint32_t number) {
    sim_handover *h = who;
    if (!is_ready(w, h, number, h->from, begin_pause))
        return;
    h->paused = true;
    h->state = SIM_PAUSES;
    h->until = w->now + w->cfg.pause_ms * SIM_MS;
    later(w, h, pause_over, h->until - w->now);
    sim_tell(w, "", SIM_ALL, "server %d postpones writes, to give slot %u away", (int)h->from,
             slot_of(w, h)->number);
    if (!w->cfg.drains) {
        later(w, h, ask_for_it, message_time(w));
        return;
    }
    sim_cluster_copy_slot(w, slot_of(w, h), h->from, h->to); /* it sends all before it says so */
    give(w, h);
}

static void copy(sim_world *w, void *who, uint32_t number) {
    sim_handover *h = who;
    if (!is_ready(w, h, number, h->from, copy))
        return;
    sim_cluster_copy_slot(w, slot_of(w, h), h->from, h->to);
    later(w, h, begin_pause, 2 * w->cfg.delay + sim_draw_part(w, 0, 60));
}

void sim_atomic_move(sim_world *w, sim_slot *s) {
    sim_handover *h = &w->cluster.handover[s - w->cluster.slot];
    int heir = (int)((s->owner + sim_draw(w, 1, SIM_SHARDS - 1)) % SIM_SHARDS);
    int from = w->shard[s->owner].master, to = w->shard[heir].master;
    bool well = sim_cluster_is_well(w, from) && sim_cluster_is_well(w, to);
    if (h->state != SIM_STAYS || !well || (ahead_ns(w, to, from) > 0 && !w->cfg.uphill))
        return;
    *h = (sim_handover){.state = SIM_COPIES,
                        .from = (uint8_t)from,
                        .to = (uint8_t)to,
                        .heir = (uint8_t)heir,
                        .number = h->number + 1};
    w->stats.moves++;
    sim_tell(w, "", SIM_ALL, "slot %u is copied from server %d to server %d", s->number, from, to);
    later(w, h, copy, w->cfg.delay + sim_draw_part(w, 0, 40));
    if (sim_draw(w, 0, CANCELLED) == 0)
        later(w, h, cancel, sim_draw_part(w, 0, 150));
}
