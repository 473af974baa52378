/*
 * Misfortunes that come by themselves, each every so often. Those of single messages are in link.c,
 * conn.c and server.c.
 */
#include "world.h"

static sim_host *any_host(sim_world *w) {
    return &w->host[sim_draw(w, 0, w->cfg.hosts - 1)];
}

/* Mostly short, sometimes longer than the lock lives. */
static sim_ns draw_length(sim_world *w) {
    return sim_draw_part(w, 0, sim_draw(w, 0, 3) ? 60 : 250);
}

static void partition(sim_world *w) {
    sim_host *h = any_host(w);
    sim_ns until = w->now + draw_length(w);
    int ways = (int)sim_draw(w, 1, 3);
    w->stats.partitions++;
    if (ways & 1)
        h->cut_up = until;
    if (ways & 2)
        h->cut_down = until;
    sim_tell(w, "", SIM_ALL, "host %c is cut off%s until %lld", h->name,
             ways == 1   ? " from sending"
             : ways == 2 ? " from hearing"
                         : "",
             (long long)(until / SIM_MS));
}

static void pause_host(sim_world *w) {
    sim_host *h = any_host(w);
    sim_ns until = w->now + draw_length(w);
    w->stats.pauses++;
    sim_host_pause(h, until);
    sim_tell(w, "", SIM_ALL, "host %c stops until %lld", h->name, (long long)(until / SIM_MS));
}

/* Clients that look at no VMClock. */
static bool has_others(const sim_world *w, const sim_host *h) {
    bool others = false;
    for (int i = 0; i < w->cfg.actors; i++)
        others = others || (w->actor[i].host == h &&
                            (w->cfg.cast[i].kind == SIM_PLAIN || w->cfg.cast[i].kind == SIM_JAVA ||
                             w->cfg.cast[i].kind == SIM_DROP_IN));
    return others;
}

/* As a virtual machine is: none of its clocks goes on meanwhile. What it is to show then it shows from here on,
 * and counts from there; nobody of it looks before. */
static void freeze_host(sim_world *w) {
    sim_host *h = any_host(w);
    sim_ns until = w->now + draw_length(w);
    sim_clock *clocks[] = {&h->boot, &h->wall};
    /* with a VMClock the wall clock is set right: else stamps, which rest on it, would show nothing */
    int stand_still = w->cfg.vmclock ? 1 : 2;
    tl_mono shows = sim_host_clock(w, h);
    if (!h->up || h->paused_until > w->now || (w->cfg.vmclock && has_others(w, h)))
        return;
    w->stats.freezes++;
    for (int i = 0; i < stand_still; i++) {
        sim_clock_set_rate(clocks[i], w->now, clocks[i]->ppb);
        sim_clock_step(clocks[i],
                       sim_clock_read(clocks[i], w->now) - sim_clock_read(clocks[i], until));
    }
    if (w->cfg.vmclock)
        h->frozen = shows;
    h->page.marker++;
    sim_host_pause(h, until);
    sim_tell(w, "", SIM_ALL, "host %c is paused until %lld, and its clocks stand still", h->name,
             (long long)(until / SIM_MS));
}

static void crash(sim_world *w) {
    sim_host_crash(w, any_host(w));
}

static int any_master(sim_world *w) {
    return w->cfg.voters    ? sim_quorum_any(w)
           : w->cfg.members ? sim_etcd_any(w)
           : w->cfg.fleet   ? sim_cluster_any(w)
                            : w->shard[0].master;
}

static void pause_server(sim_world *w) {
    sim_server *s = &w->server[any_master(w)];
    w->stats.server_pauses++;
    sim_ns until = w->now + draw_length(w);
    if (until > s->busy_until)
        s->busy_until = until;
    sim_tell(w, "", SIM_ALL, "the server stops until %lld", (long long)(s->busy_until / SIM_MS));
    if (w->cfg.members)
        sim_etcd_stopped(w, (int)(s - w->server));
}

static void fork_host(sim_world *w) {
    sim_host *h = any_host(w);
    if (h->up && h->threads)
        sim_fork(w, h);
}

/* ---- restarts ---------------------------------------------------------------------------------- */

static void come_back(sim_world *w, void *who, uint32_t keep_data) {
    (void)who;
    if (w->failing_over || w->server[w->shard[0].master].up)
        return;
    sim_server_start(w, w->shard[0].master, keep_data);
    if (!keep_data)
        sim_replicas_copy(w);
    sim_tell(w, "", SIM_ALL, "the server is back%s", keep_data ? "" : ", empty");
}

static void restart_server(sim_world *w, bool keep_data) {
    if (w->cfg.voters) {
        sim_quorum_restart(w, keep_data);
        return;
    }
    if (w->cfg.members) {
        sim_etcd_restart(w);
        return;
    }
    if (w->failing_over || !w->server[w->shard[0].master].up)
        return;
    w->stats.restarts++;
    sim_tell(w, "", SIM_ALL, "the server dies");
    sim_server_kill(w, w->shard[0].master);
    sim_put(w, w->now + SIM_MS + sim_draw_part(w, 0, 60), SIM_RANK_NET, come_back, w, keep_data);
}

static void restart(sim_world *w) {
    restart_server(w, true);
}

static void forget(sim_world *w) {
    restart_server(w, false);
}

static void fail_over(sim_world *w) {
    sim_failover(w, false, false);
}

static void fail_over_lossy(sim_world *w) {
    sim_failover(w, true, false);
}

static void fail_over_quickly(sim_world *w) {
    sim_failover(w, true, true);
}

/* ---- at the server ----------------------------------------------------------------------------- */

static void flush(sim_world *w) {
    int master = any_master(w);
    if (w->cfg.members) {
        sim_etcd_compact(w);
        return;
    }
    w->stats.flushes++;
    sim_server_set(w, master);
    (void)fake_conn_say(w->server[master].runner, "SCRIPT FLUSH");
    fake_redis_expire_cycle(w->server[master].r);
}

static void room_again(sim_world *w, void *who, uint32_t server) {
    (void)who;
    if (w->cfg.members)
        fake_etcd_set_full(w->etcd.e, false);
    fake_redis_set_oom(w->server[server].r, false);
    w->full = false;
}

static void oom(sim_world *w) {
    int server = any_master(w);
    w->stats.ooms++;
    w->full = true;
    if (w->cfg.members)
        fake_etcd_set_full(w->etcd.e, true);
    fake_redis_set_oom(w->server[server].r, true);
    sim_tell(w, "", SIM_ALL, "the server's memory is full");
    sim_put(w, w->now + draw_length(w), SIM_RANK_NET, room_again, w, (uint32_t)server);
}

static void delete_key(sim_world *w) {
    sim_key *key = &w->key[sim_draw(w, 0, w->cfg.keys - 1)];
    int number = (int)(key - w->key);
    tl_bytes argv[] = {TL_LITERAL("DEL"), key->k};
    if (w->cfg.voters) {
        sim_quorum_delete(w, number);
        return;
    }
    if (w->cfg.members) {
        sim_etcd_delete(w, number);
        return;
    }
    if (!w->server[w->shard[0].master].up)
        return;
    w->stats.deletes++;
    key->deleted_until = w->now + 3 * w->cfg.ttl_ms * SIM_MS;
    if (w->cfg.stamps) /* two legacy clients that hold it delete each other's from then on */
        key->deleted_until = SIM_NEVER;
    sim_tell(w, "", number, "somebody deletes %s by hand", key->name);
    sim_server_set(w, w->shard[0].master);
    sim_rest_deleted(w, w->shard[0].master, number);
    (void)fake_conn_command(w->server[w->shard[0].master].runner, argv, 2);
    sim_check_key(w, number);
}

static void allow_again(sim_world *w, void *who, uint32_t which) {
    (void)who;
    sim_server_deny(w, (int)which, false);
}

static void deny(sim_world *w) {
    int which = (int)sim_draw(w, 1, SIM_DENIABLE);
    if (w->cfg.members) {
        sim_etcd_forget_logins(w);
        return;
    }
    sim_server_deny(w, which, true);
    sim_put(w, w->now + draw_length(w), SIM_RANK_NET, allow_again, w, (uint32_t)which);
}

static void go_on_moving(sim_world *w, void *who, uint32_t unused) {
    (void)who, (void)unused;
    sim_slots_move(w, sim_slots_next(w));
    if (w->slots)
        sim_put(w, w->now + draw_length(w), SIM_RANK_NET, go_on_moving, w, 0);
}

static void move(sim_world *w) {
    if (w->cfg.fleet) {
        sim_cluster_move(w);
        return;
    }
    if (w->slots || !w->cfg.cluster)
        return;
    sim_slots_move(w, (int)sim_draw(w, 1, SIM_MOVES));
    sim_put(w, w->now + draw_length(w), SIM_RANK_NET, go_on_moving, w, 0);
}

static void give_back(sim_world *w, void *who, uint32_t unused) {
    (void)who, (void)unused;
    sim_keys_forbid(w, w->cfg.touches);
}

static void withhold(sim_world *w) {
    bool reads = w->cfg.level >= FAKE_LEVEL(7, 0, 0);
    sim_keys_forbid(w, (int)sim_draw(w, 1, reads ? SIM_TOUCHES : SIM_TOUCHES_PLAIN));
    sim_put(w, w->now + draw_length(w), SIM_RANK_NET, give_back, w, 0);
}

static void switch_over(sim_world *w) {
    if (w->cfg.sentinel)
        sim_switch_over(w);
    if (w->cfg.fleet)
        sim_cluster_switch(w);
    if (w->cfg.members)
        sim_etcd_transfer(w);
}

static void set_aside(sim_world *w) {
    if (w->cfg.sentinel)
        sim_sentinel_aside(w);
    if (w->cfg.fleet)
        sim_cluster_aside(w);
    if (w->cfg.voters)
        sim_quorum_aside(w);
    if (w->cfg.members)
        sim_etcd_aside(w);
}

static void doubt(sim_world *w) {
    if (w->cfg.members)
        sim_etcd_doubt(w, w->now + draw_length(w));
}

static void wedge(sim_world *w) {
    if (w->cfg.members)
        sim_etcd_wedge(w);
}

static void jump(sim_world *w) {
    sim_ns by = sim_draw_part(w, 1, 150);
    sim_clock_step(&w->server[w->shard[0].master].wall, by);
    sim_tell(w, "", SIM_ALL, "the server's clock jumps forward by %lld ms",
             (long long)(by / SIM_MS));
}

/* ---- slewing --------------------------------------------------------------------------------------- */

/* To one edge of what is allowed or to the other, or to anything between. */
static int64_t draw_rate(sim_world *w) {
    int64_t most = w->cfg.drift_ppm * INT64_C(1000);
    int way = (int)sim_draw(w, -2, 2);
    return way < 0 ? -most : way > 0 ? most : sim_draw(w, -most, most);
}

/* Servers have the same time, and legacy clocks stay as far from it as they are. */
static void slew_servers(sim_world *w, int64_t ppb) {
    int64_t by = ppb - w->server[w->shard[0].master].wall.ppb;
    for (int i = 0; i < sim_servers(w); i++)
        sim_clock_set_rate(&w->server[i].wall, w->now, ppb);
    for (int i = 0; i < SIM_HOSTS && w->cfg.stamps; i++)
        sim_clock_set_rate(&w->host[i].wall, w->now, w->host[i].wall.ppb + by);
}

static void slew_to(sim_world *w, int64_t ppb) {
    sim_host *h = any_host(w);
    bool server = sim_draw(w, 0, 1) || !h->up;
    if (server)
        slew_servers(w, ppb);
    else
        sim_clock_set_rate(&h->boot, w->now, ppb);
    if (server)
        sim_tell(w, "", SIM_ALL, "the server's clock gains %lld ppm", (long long)(ppb / 1000));
    else
        sim_tell(w, "", SIM_ALL, "host %c's clock gains %lld ppm", h->name,
                 (long long)(ppb / 1000));
}

static void slew(sim_world *w) {
    int64_t ppb = draw_rate(w);
    w->stats.slews++;
    slew_to(w, ppb);
}

/* From just beyond the bound to twenty times as far; and every third time back. */
static void slew_beyond(sim_world *w) {
    int64_t bound = w->cfg.drift_ppm * INT64_C(1000), most = SIM_BEYOND_PPM * INT64_C(1000);
    int64_t ppb = sim_draw(w, bound + 1, 20 * bound < most ? 20 * bound : most);
    int way = (int)sim_draw(w, -1, 1);
    w->stats.off_rates += way != 0;
    slew_to(w, way * ppb);
}

/* ---- legacy clocks with stamps: anywhere within M of the server's ----------------------------------- */

static bool may_step(sim_world *w, const sim_host *h) {
    bool slack = w->cfg.java_slack_ms >= 4 * w->cfg.skew_ms + w->cfg.lag_ms;
    for (int i = 0; i < w->cfg.actors && !slack; i++) {
        const sim_actor *a = &w->actor[i];
        if (a->host == h && a->kind == &sim_actor_java && sim_java_is_busy(a))
            return false;
    }
    return true;
}

static void step_within(sim_world *w, sim_host *h) {
    int64_t to = sim_draw(w, -1, 1) * w->cfg.wall_off_ms * SIM_MS;
    int64_t is = sim_clock_read(&h->wall, w->now) -
                 sim_clock_read(&w->server[w->shard[0].master].wall, w->now);
    if (sim_draw(w, 0, 1))
        to = sim_draw(w, -w->cfg.wall_off_ms * SIM_MS, w->cfg.wall_off_ms * SIM_MS);
    if (to > (w->cfg.wall_off_ms - w->cfg.spare_ms) * SIM_MS)
        to -= w->cfg.spare_ms * SIM_MS;
    if (!may_step(w, h))
        return;
    w->stats.wall_steps++;
    sim_clock_set_rate(&h->wall, w->now, w->server[w->shard[0].master].wall.ppb);
    sim_clock_step(&h->wall, to - is);
    sim_tell(w, "", SIM_ALL, "host %c's wall clock steps by %lld ms", h->name,
             (long long)((to - is) / SIM_MS));
}

/* ---- legacy clocks ----------------------------------------------------------------------------- */

static void step_wall(sim_world *w) {
    sim_host *h = any_host(w);
    int64_t most = w->cfg.java_ttl_ms * SIM_MS, skew = w->cfg.skew_ms;
    if (w->cfg.stamps) {
        step_within(w, h);
        return;
    }
    w->stats.wall_steps++;
    if (skew != SIM_NEVER || sim_draw(w, 0, 1)) {
        int64_t by = skew == SIM_NEVER ? sim_draw(w, -most, most)
                                       : sim_draw(w, -1, 1) * skew * SIM_MS - sim_host_skew(w, h);
        sim_clock_step(&h->wall, by);
        sim_tell(w, "", SIM_ALL, "host %c's wall clock steps by %lld ms", h->name,
                 (long long)(by / SIM_MS));
    } else {
        sim_clock_set_rate(&h->wall, w->now,
                           sim_draw(w, -500000, 500000)); /* slewed as ntpd does */
    }
}

/* ---- when -------------------------------------------------------------------------------------- */

static void (*const strikes[SIM_FAULT_COUNT])(sim_world *w) = {
    [SIM_PARTITION] = partition,
    [SIM_PAUSE] = pause_host,
    [SIM_CRASH] = crash,
    [SIM_SERVER_PAUSE] = pause_server,
    [SIM_RESTART] = restart,
    [SIM_FAILOVER] = fail_over,
    [SIM_FLUSH] = flush,
    [SIM_OOM] = oom,
    [SIM_DELETE] = delete_key,
    [SIM_STEP] = step_wall,
    [SIM_LOSSY] = fail_over_lossy,
    [SIM_QUICK] = fail_over_quickly,
    [SIM_FORGET] = forget,
    [SIM_JUMP] = jump,
    [SIM_SLEW] = slew,
    [SIM_FREEZE] = freeze_host,
    [SIM_BEYOND] = slew_beyond,
    [SIM_FORK] = fork_host,
    [SIM_DENY] = deny,
    [SIM_MOVE] = move,
    [SIM_WITHHOLD] = withhold,
    [SIM_SWITCH] = switch_over,
    [SIM_ASIDE] = set_aside,
    [SIM_DOUBT] = doubt,
    [SIM_WEDGE] = wedge,
};

static void strike(sim_world *w, void *who, uint32_t fault);

static void plan(sim_world *w, uint32_t fault) {
    int often = (int)w->cfg.fault[fault];
    sim_put(w, w->now + sim_draw_part(w, 0, 2 * often), SIM_RANK_NET, strike, w, fault);
}

static void strike(sim_world *w, void *who, uint32_t fault) {
    (void)who;
    if (w->calm)
        return;
    strikes[fault](w);
    plan(w, fault);
}

static void strike_once(sim_world *w, void *who, uint32_t fault) {
    (void)who;
    if (!w->calm)
        strikes[fault](w);
}

/* When some have read it, and some replica lacks it. */
void sim_faults_stepped(sim_world *w) {
    if (w->cfg.fault[SIM_LOSSY] && sim_draw(w, 0, 2) == 0)
        sim_put(w, w->now + sim_draw(w, 0, 8 * w->cfg.delay), SIM_RANK_NET, strike_once, w,
                SIM_LOSSY);
}

void sim_faults_start(sim_world *w) {
    for (uint32_t i = SIM_FIRST_TIMED; i < SIM_FAULT_COUNT; i++)
        if (w->cfg.fault[i])
            plan(w, i);
    if (w->slots)
        sim_put(w, sim_draw(w, 0, w->cfg.until), SIM_RANK_NET, go_on_moving, w, 0);
}
