/*
 * An etcd: its members stop, die and come back, are cut off from each other and from hosts, elect; and what that amounts to on
 * the way of time: who finds out when, who is told when, which leases are over. It plugs in at the bytes of connections: what
 * the client says goes through its own HTTP and JSON, and what the fake of tests/lib says comes back so. That costs a
 * few microseconds a request, less than the threads that ask; in return encoding, logins, members and watches run as they
 * ship.
 */
#include "world.h"

#define ELECTION_MS 1000 /* a leader is missed after once or twice as long */
#define LOOK_MS 500      /* leases are looked at so often */

static void mind(sim_world *w);

/* ---- what the fake asks for ---------------------------------------------------------------------- */

static int64_t clock_of(void *ctx, int member) {
    sim_world *w = ctx;
    return sim_clock_read(&w->server[member].wall, w->now);
}

static uint32_t choose(void *ctx, uint32_t ways) {
    return (uint32_t)sim_draw(ctx, 0, ways - 1);
}

static void say(void *ctx, void *conn, const char *bytes, size_t n) {
    sim_socket *s = conn;
    (void)ctx;
    fake_buffer_add(&s->out, bytes, n);
    sim_server_answered(s);
}

static void give_up(sim_world *w, void *who, uint32_t number) {
    sim_socket *s = who;
    const sim_server *server = &w->server[s->server];
    if (s->etcd && server->up && server->busy_until > w->now) { /* when it goes on */
        sim_put_off(w, server->busy_until, give_up, s, number);
        return;
    }
    if (s->etcd && s->epoch == server->epoch) {
        unsigned before = w->answer_count;
        fake_etcd_give_up(s->etcd, number);
        w->stats.etcd_timeouts += w->answer_count > before;
        sim_sockets_answer(w);
    }
    sim_socket_let_go(w, s);
}

static void waits(void *ctx, void *conn, uint32_t number, int64_t ms) {
    sim_world *w = ctx;
    sim_socket *s = conn;
    w->stats.etcd_pending++;
    s->refs++;
    sim_put(w, w->now + ms * SIM_MS, SIM_RANK_NET, give_up, s, number);
}

static void changed(void *ctx, void *conn, const fake_etcd_key *key) {
    sim_etcd_changed(ctx, conn, key);
}

void sim_etcd_reset(sim_world *w) {
    const fake_etcd_calls calls = {clock_of, choose, say, waits, changed, w};
    fake_etcd *e = w->etcd.e;
    if (!w->cfg.members)
        return;
    if (!e)
        e = fake_etcd_new(&calls);
    w->etcd = (sim_etcd){.e = e};
    fake_etcd_reset(e, w->cfg.members);
    fake_etcd_set_user(e, w->cfg.users ? "me" : NULL, "secret");
    for (int i = 0; i < w->cfg.dead && i < w->cfg.members; i++)
        sim_server_kill(w, w->cfg.members - 1 - i);
    mind(w);
}

void sim_etcd_free(sim_world *w) {
    fake_etcd_free(w->etcd.e);
    w->etcd.e = NULL;
}

/* ---- who hears of what --------------------------------------------------------------------------- */

static bool runs(const sim_world *w, int i) {
    return w->server[i].up && w->server[i].busy_until <= w->now;
}

static void catch_up(sim_world *w, void *who, uint32_t i) {
    (void)who;
    w->etcd.catches[i] = false;
    if (!runs(w, (int)i) || w->etcd.cut[i] > w->now || fake_etcd_is_stale(w->etcd.e, (int)i))
        return;
    fake_etcd_catch_up(w->etcd.e, (int)i);
    sim_sockets_answer(w);
}

static void spread(sim_world *w) {
    for (int i = 0; i < w->cfg.members; i++) {
        if (w->etcd.catches[i] || !fake_etcd_is_behind(w->etcd.e, i))
            continue;
        w->etcd.catches[i] = true;
        sim_put(w, w->now + sim_draw(w, 0, 2 * w->cfg.delay), SIM_RANK_NET, catch_up, w,
                (uint32_t)i);
    }
}

/* Of the present leader: by one that called itself that, or was cut off. */
static void learn(sim_world *w, void *who, uint32_t i) {
    (void)who;
    if (!runs(w, (int)i) || w->etcd.cut[i] > w->now)
        return; /* it is told when it is back */
    fake_etcd_learn(w->etcd.e, (int)i);
    sim_tell(w, "", SIM_ALL, "member %d knows that member %d leads", (int)i,
             fake_etcd_leader(w->etcd.e));
    spread(w);
    sim_sockets_answer(w);
}

static void orphan(sim_world *w, void *who, uint32_t i) {
    (void)who;
    if (!runs(w, (int)i))
        return;
    fake_etcd_orphan(w->etcd.e, (int)i);
    sim_sockets_answer(w);
}

/* ---- leases -------------------------------------------------------------------------------------- */

static void tick(sim_world *w, void *who, uint32_t unused);

static void look_again(sim_world *w, sim_ns at) {
    if (w->etcd.ticks)
        return;
    w->etcd.ticks = true;
    sim_put(w, at + sim_draw(w, 0, LOOK_MS) * SIM_MS, SIM_RANK_NET, tick, w, 0);
}

static void tick(sim_world *w, void *who, uint32_t unused) {
    int64_t seconds;
    (void)who, (void)unused;
    w->etcd.ticks = false;
    w->etcd.expires = true;
    int64_t next = fake_etcd_expire(w->etcd.e);
    w->etcd.expires = false;
    spread(w);
    sim_sockets_answer(w);
    if (!fake_etcd_lease(w->etcd.e, 0, &seconds))
        return;
    sim_ns latest = w->now + 2 * LOOK_MS * SIM_MS, at = latest;
    if (next != INT64_MAX)
        at = sim_clock_when(&w->server[fake_etcd_leader(w->etcd.e)].wall, next);
    look_again(w, at < latest ? at : latest);
}

/* ---- who leads ----------------------------------------------------------------------------------- */

static void lead(sim_world *w, int i) {
    int former = fake_etcd_leader(w->etcd.e);
    fake_etcd_elect(w->etcd.e, i);
    w->stats.etcd_elections++;
    sim_tell(w, "", SIM_ALL, "member %d leads, after member %d", i, former);
    spread(w);
    look_again(w, w->now);
}

static bool is_live(const sim_world *w, int i) {
    return runs(w, i) && w->etcd.cut[i] <= w->now;
}

static void elect(sim_world *w, void *who, uint32_t unused) {
    int next = (int)sim_draw(w, 0, w->cfg.members - 1);
    (void)who, (void)unused;
    w->etcd.votes = false;
    if (!fake_etcd_is_led(w->etcd.e) && fake_etcd_has_quorum(w->etcd.e)) {
        while (!is_live(w, next))
            next = (next + 1) % w->cfg.members;
        lead(w, next);
    }
    for (int i = 0; i < w->cfg.members; i++)
        if (!fake_etcd_is_led(w->etcd.e) || !is_live(w, i))
            orphan(w, w, (uint32_t)i);
    mind(w);
}

/* Who runs and is reached may have changed. */
static void mind(sim_world *w) {
    fake_etcd *e = w->etcd.e;
    for (int i = 0; i < w->cfg.members; i++) {
        fake_etcd_set_member(e, i, runs(w, i), w->etcd.cut[i] <= w->now);
        if (is_live(w, i) && fake_etcd_is_stale(e, i))
            sim_put(w, w->now + sim_draw(w, 0, 1) * sim_draw(w, 0, 300) * SIM_MS, SIM_RANK_NET,
                    learn, w, (uint32_t)i);
    }
    spread(w);
    sim_sockets_answer(w);
    bool led = fake_etcd_is_led(e);
    w->stats.etcd_unled += !led && w->etcd.led != SIM_NEVER;
    w->etcd.led = led ? w->etcd.led == SIM_NEVER ? w->now : w->etcd.led : SIM_NEVER;
    if (led || w->etcd.votes || w->cfg.dead > w->cfg.members / 2)
        return;
    w->etcd.votes = true;
    sim_put(w, w->now + sim_draw(w, ELECTION_MS, 2 * ELECTION_MS) * SIM_MS, SIM_RANK_NET, elect, w,
            0);
}

int sim_etcd_any(sim_world *w) {
    return sim_draw(w, 0, 1) ? fake_etcd_leader(w->etcd.e)
                             : (int)sim_draw(w, 0, w->cfg.members - 1);
}

void sim_etcd_transfer(sim_world *w) {
    int i = (int)sim_draw(w, 0, w->cfg.members - 1);
    if (!is_live(w, i) || !fake_etcd_is_led(w->etcd.e) || i == fake_etcd_leader(w->etcd.e))
        return;
    lead(w, i);
    sim_sockets_answer(w);
}

/* ---- connections --------------------------------------------------------------------------------- */

void sim_etcd_accept(sim_world *w, sim_socket *s) {
    s->etcd = fake_etcd_connect(w->etcd.e, s->server, s);
}

void sim_etcd_execute(sim_world *w, sim_socket *s) {
    w->stats.commands++;
    sim_mark(w, (uint64_t)fake_etcd_revision(w->etcd.e));
    fake_etcd_feed(s->etcd, s->input.p, s->input.n);
    s->input.n = 0;
    spread(w);
    look_again(w, w->now);
}

/* ---- what befalls it ----------------------------------------------------------------------------- */

/* It does what lies in its sockets by what it knew, and looks for leases that are over; then it hears of others. */
static void wake(sim_world *w, void *who, uint32_t i) {
    (void)who;
    if (!runs(w, (int)i))
        return;
    if (fake_etcd_is_stale(w->etcd.e, (int)i)) {
        w->stats.etcd_stale++;
        sim_tell(w, "", SIM_ALL, "member %d wakes, and calls itself the leader", (int)i);
        w->etcd.expires = true;
        (void)fake_etcd_expire(w->etcd.e);
        w->etcd.expires = false;
    }
    mind(w);
}

void sim_etcd_stopped(sim_world *w, int member) {
    sim_put(w, w->server[member].busy_until, SIM_RANK_NET, wake, w, (uint32_t)member);
    mind(w);
}

static void come_back(sim_world *w, void *who, uint32_t i) {
    (void)who;
    sim_server_start(w, (int)i, true);
    sim_tell(w, "", SIM_ALL, "member %d is back", (int)i);
    mind(w);
}

void sim_etcd_restart(sim_world *w) {
    int i = sim_etcd_any(w);
    if (!w->server[i].up)
        return;
    w->stats.restarts++;
    sim_tell(w, "", SIM_ALL, "member %d dies", i);
    fake_etcd_kill(w->etcd.e, i);
    sim_server_kill(w, i);
    sim_put(w, w->now + SIM_MS + sim_draw_part(w, 0, sim_draw(w, 0, 3) ? 60 : 250), SIM_RANK_NET,
            come_back, w, (uint32_t)i);
    mind(w);
}

static void reach(sim_world *w, void *who, uint32_t i) {
    (void)who, (void)i;
    mind(w);
}

/* A member from the others, a host from some members, or both of some. */
void sim_etcd_aside(sim_world *w) {
    int way = (int)sim_draw(w, 0, 2), any = sim_etcd_any(w);
    int host = (int)sim_draw(w, 0, w->cfg.hosts - 1);
    sim_ns until = w->now + SIM_MS + sim_draw_part(w, 0, sim_draw(w, 0, 2) ? 60 : 250);
    w->stats.etcd_apart++;
    for (int i = 0; i < w->cfg.members && way != 0; i++)
        if (i == any || sim_draw(w, 0, 3) == 0)
            w->cut[host][i] = w->cut[host][i] < until ? until : w->cut[host][i];
    sim_tell(w, "", SIM_ALL, "cut off until %lld: %s%d", (long long)(until / SIM_MS),
             way == 1 ? "from host " : "member ", way == 1 ? host : any);
    if (way == 1 || w->etcd.cut[any] > w->now)
        return;
    w->etcd.cut[any] = until;
    sim_put(w, until, SIM_RANK_NET, reach, w, 0);
    sim_put(w, w->now + sim_draw(w, ELECTION_MS, 2 * ELECTION_MS) * SIM_MS, SIM_RANK_NET, orphan, w,
            (uint32_t)any);
    mind(w);
}

void sim_etcd_compact(sim_world *w) {
    w->stats.etcd_compactions++;
    sim_tell(w, "", SIM_ALL, "its history is compacted");
    fake_etcd_compact(w->etcd.e);
}

void sim_etcd_forget_logins(sim_world *w) {
    w->stats.etcd_logins += w->cfg.users;
    fake_etcd_forget_tokens(w->etcd.e);
}

void sim_etcd_wedge(sim_world *w) {
    w->stats.etcd_wedges++;
    fake_etcd_wedge(w->etcd.e);
}

static void come_true(sim_world *w, void *who, uint32_t unused) {
    (void)who, (void)unused;
    fake_etcd_late(w->etcd.e);
    spread(w);
    sim_sockets_answer(w);
    if (w->now < w->etcd.doubt_until) {
        sim_put(w, w->now + sim_draw_part(w, 0, 30), SIM_RANK_NET, come_true, w, 0);
        return;
    }
    fake_etcd_set_doubt(w->etcd.e, 0);
}

void sim_etcd_doubt(sim_world *w, sim_ns until) {
    if (w->now < w->etcd.doubt_until)
        return;
    w->stats.etcd_doubts++;
    w->etcd.doubt_until = until;
    fake_etcd_set_doubt(w->etcd.e, (uint32_t)sim_draw(w, 1, 4));
    sim_tell(w, "", SIM_ALL, "errors are told of what may be executed later, until %lld",
             (long long)(until / SIM_MS));
    sim_put(w, w->now + sim_draw_part(w, 0, 30), SIM_RANK_NET, come_true, w, 0);
}
