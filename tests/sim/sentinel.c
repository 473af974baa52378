/*
 * Sentinels, and the failovers that they make: another server is promoted with what it has; they learn of it one after
 * the other; and the former master is dead, or goes on for a while as the master that it takes itself for, until it is
 * made a replica. Its history is lost then. Beside them the network between each host and each of them all.
 */
#include <arpa/inet.h>
#include <stdio.h>

#include "world.h"

#define NAME "m"
#define PORT 6379
#define ADDRESS_SIZE 16
#define EPOCH_FIRST 7 /**< of the configuration at the start */

static const char *address(int node) {
    static char text[SIM_NODES][ADDRESS_SIZE];
    bool server = node < SIM_SERVERS;
    (void)snprintf(text[node], ADDRESS_SIZE, "10.0.%d.%d", server ? 0 : 2,
                   (server ? node : node - SIM_SERVERS) + 1);
    return text[node];
}

int sim_node_at(const sim_world *w, const void *to) {
    const struct sockaddr_in *at = to;
    uint32_t a = ntohl(at->sin_addr.s_addr), last = (a & 255) - 1;
    if (at->sin_family != AF_INET || a >> 16 != 0x0a00)
        return SIM_NODES;
    bool second = w->cfg.voters && (a >> 8 & 255) == 3; /* of a server that has two */
    uint32_t servers = (uint32_t)(w->cfg.fleet || w->cfg.voters || w->cfg.members ? sim_servers(w)
                                                                                  : SIM_SERVERS);
    if (((a >> 8 & 255) == 0 || second) && last < servers)
        return (int)last;
    return (a >> 8 & 255) == 2 && last < SIM_SENTINELS ? (int)last + SIM_SERVERS : SIM_NODES;
}

/* "s1" is the first of the Sentinels; "q1" of a quorum's servers, and "r1" by another name. */
uint32_t sim_node_named(const char *name) {
    char text[ADDRESS_SIZE];
    if (name[0] == 'q' || name[0] == 'r') {
        (void)snprintf(text, sizeof text, "10.0.%c.%c", name[0] == 'q' ? '0' : '3', name[1]);
        return inet_addr(text);
    }
    int i = name[0] == 's' && name[1] >= '1' && name[1] < '1' + SIM_SENTINELS && !name[2]
                ? name[1] - '1'
                : 0;
    return inet_addr(address(SIM_SERVERS + i));
}

/* ---- the network --------------------------------------------------------------------------------- */

sim_ns sim_node_through(const sim_world *w, const sim_socket *s, sim_ns at) {
    sim_ns cut = w->cut[s->host->id][s->server];
    if (!sim_is_named(w) || cut <= w->now)
        return at;
    cut += sim_link_delay(w, s->host);
    return at > cut ? at : cut;
}

bool sim_node_is_silent(const sim_world *w, int node) {
    if ((w->cfg.voters || w->cfg.members) && node < SIM_NODES)
        return w->quorum.silent[node] && !w->server[node].up;
    return node == SIM_NODES ||
           (w->change.on && w->change.silent && node == w->change.former && !w->server[node].up);
}

static void cut(sim_world *w, int host, int node, sim_ns until) {
    if (w->cut[host][node] < until)
        w->cut[host][node] = until;
}

/* Its clients are told, or find out. */
static void end_connections(sim_world *w, int node) {
    for (sim_socket *c = w->sockets; c; c = c->all) {
        if (!c->host || c->server != node || !c->session)
            continue;
        fake_conn_close(c->session);
        c->session = NULL;
        c->input.n = 0;
        sim_socket_reset(w, c);
    }
}

/* ---- what they say ------------------------------------------------------------------------------- */

static tl_reply text_of(const char *text) {
    return (tl_reply){.type = TL_REPLY_STRING, .text = tl__bytes_of(text)};
}

static tl_reply array_of(const tl_reply *items, size_t n) {
    return (tl_reply){.type = TL_REPLY_ARRAY, .items = (tl_reply *)(uintptr_t)items, .count = n};
}

static tl_reply say_master(const sim_sentinel *me) {
    static char epoch[24];
    static tl_reply fields[12];
    const char *const words[] = {
        "name",   NAME,           "ip",  address(me->names),    "port", "6379", "flags",
        "master", "config-epoch", epoch, "num-other-sentinels", "2"};
    (void)snprintf(epoch, sizeof epoch, "%lld", (long long)me->epoch + EPOCH_FIRST);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        fields[i] = text_of(words[i]);
    return array_of(fields, sizeof fields / sizeof *fields);
}

static tl_reply say_address(const sim_sentinel *me) {
    static tl_reply items[2];
    items[0] = text_of(address(me->names));
    items[1] = text_of("6379");
    return array_of(items, 2);
}

static tl_reply say_others(const sim_world *w, const sim_sentinel *me) {
    static tl_reply field[SIM_SENTINELS][4], items[SIM_SENTINELS];
    size_t n = 0;
    for (int i = 0; i < SIM_SENTINELS; i++) {
        if (me == &w->sentinel[i])
            continue;
        field[n][0] = text_of("ip");
        field[n][1] = text_of(address(SIM_SERVERS + i));
        field[n][2] = text_of("port");
        field[n][3] = text_of("26379");
        items[n] = array_of(field[n], 4);
        n++;
    }
    return array_of(items, n);
}

static bool is_word(tl_bytes a, const char *word) {
    return tl__bytes_eq(a, tl__bytes_of(word));
}

static tl_reply say(sim_world *w, const sim_sentinel *me, const tl_bytes *argv, size_t argc) {
    static const char unknown[] = "ERR No such master with that name";
    w->stats.questions++;
    if (argc < 3 || !is_word(argv[2], NAME))
        return (tl_reply){.type = TL_REPLY_ERROR, .text = TL_LITERAL(unknown)};
    return is_word(argv[1], "MASTER")                    ? say_master(me)
           : is_word(argv[1], "GET-MASTER-ADDR-BY-NAME") ? say_address(me)
                                                         : say_others(w, me);
}

void sim_sentinel_execute(sim_world *w, sim_socket *s) {
    static tl_bytes argv[FAKE_RESP_ARGS_MAX];
    size_t argc, used;
    sim_server_set(w, s->server);
    while (!w->failed && s->session &&
           fake_resp_read(tl__bytes(s->input.p, s->input.n), argv, &argc, &used) ==
               FAKE_RESP_READY) {
        tl_reply own;
        const tl_reply *r = &own;
        w->stats.commands++;
        if (is_word(argv[0], "SENTINEL"))
            own = say(w, &w->sentinel[s->server - SIM_SERVERS], argv, argc);
        else
            r = fake_conn_command(s->session, argv, argc);
        if (r)
            sim_server_answer(s, r);
        fake_buffer_cut(&s->input, used);
    }
}

/* ---- what they know ------------------------------------------------------------------------------ */

static void name(sim_world *w, sim_sentinel *me, uint8_t master, int64_t epoch) {
    me->names = master;
    me->epoch = epoch;
    me->turn[me->turns].at = w->now;
    me->turn[me->turns++].names = master;
}

static bool is_well(const sim_world *w, int i) {
    return w->server[SIM_SERVERS + i].up && w->sentinel[i].parted <= w->now;
}

static void publish(sim_world *w, void *who, uint32_t former) {
    sim_sentinel *me = who;
    int i = (int)(me - w->sentinel), node = SIM_SERVERS + i;
    char text[80];
    if (!w->server[node].up)
        return;
    (void)snprintf(text, sizeof text, NAME " %s %d %s %d", address((int)former), PORT,
                   address(me->names), PORT);
    tl_bytes argv[] = {TL_LITERAL("PUBLISH"), TL_LITERAL("+switch-master"), tl__bytes_of(text)};
    sim_server_set(w, node);
    w->telling_former = (int)former;
    (void)fake_conn_command(w->server[node].runner, argv, 3);
    sim_sockets_answer(w);
}

/* One hears of a configuration: from whoever leads the failover, or from the others. */
static void learn(sim_world *w, void *who, uint32_t epoch) {
    sim_sentinel *me = who;
    int i = (int)(me - w->sentinel);
    uint8_t former = me->names;
    if (me->epoch >= (int64_t)epoch)
        return;
    if (!is_well(w, i)) {
        sim_ns at = me->parted > me->down_until ? me->parted : me->down_until;
        sim_put(w, (at > w->now ? at : w->now) + SIM_MS + sim_draw_part(w, 0, 30), SIM_RANK_NET,
                learn, me, epoch);
        return;
    }
    name(w, me, w->config_master[epoch], epoch);
    sim_tell(w, "", SIM_ALL, "Sentinel %d names server %d the master", i + 1, (int)me->names);
    if (former != me->names)
        sim_put(w, w->now + (sim_draw(w, 0, 1) ? 0 : sim_draw_part(w, 0, 50)), SIM_RANK_NET,
                publish, me, former);
}

/* ---- failing over -------------------------------------------------------------------------------- */

static void set_history(sim_world *w) {
    w->shard[0].history++;
    for (int i = 0; i <= w->cfg.replicas; i++)
        if (i == w->shard[0].master || w->follows[i])
            fake_redis_set_replid(w->server[i].r, w->shard[0].history);
}

/* It is told to be a replica: then it gets what the master has. */
static void demote(sim_world *w, void *who, uint32_t unused) {
    sim_switch *c = &w->change;
    const sim_server *s = &w->server[c->former];
    (void)who, (void)unused;
    if (s->busy_until > w->now) {
        sim_put(w, s->busy_until + SIM_MS, SIM_RANK_NET, demote, w, 0);
        return;
    }
    sim_replica_join(w, c->former);
    fake_redis_set_replid(s->r, w->shard[0].history);
    if (w->cfg.ends_conns)
        end_connections(w, c->former);
    c->on = false;
    sim_tell(w, "", SIM_ALL, "server %d is a replica now", (int)c->former);
}

static void come_back(sim_world *w, void *who, uint32_t unused) {
    sim_switch *c = &w->change;
    (void)who, (void)unused;
    sim_server_start(w, c->former, true);
    sim_tell(w, "", SIM_ALL, "server %d is back", (int)c->former);
    if (c->way == SIM_DIES)
        demote(w, w, 0);
    else
        sim_put(w, w->now + sim_draw_part(w, 0, 200) + sim_draw(w, 0, 1200) * SIM_MS, SIM_RANK_NET,
                demote, w, 0);
}

static void spread_news(sim_world *w);
static int find_leader(sim_world *w);

/* The former master goes on, and the present one dies before it was made a replica of that: it is named again. */
static void name_again(sim_world *w, void *who, uint32_t unused) {
    sim_switch *c = &w->change;
    const int former = c->former, present = c->next, leader = find_leader(w);
    const int64_t back_ns = sim_clock_read(&w->server[present].wall, w->now) -
                            sim_clock_read(&w->server[former].wall, w->now);
    (void)who, (void)unused;
    if (w->server[former].busy_until > w->now || leader < 0) {
        sim_put(w, w->now + 10 * SIM_MS, SIM_RANK_NET, name_again, w, 0);
        return;
    }
    sim_server_kill(w, present);
    w->went_back += back_ns > 0 ? back_ns : 0;
    w->stats.there_and_back++;
    w->stats.unfollowed++;
    sim_replica_return(w, former);
    w->shard[0].history++; /* whoever follows it from now on has another */
    w->shard[0].promoted = w->now;
    w->config_master[++w->config_epoch] = (uint8_t)former;
    *c = (sim_switch){.on = true,
                      .way = SIM_DIES,
                      .former = (uint8_t)present,
                      .next = (uint8_t)former,
                      .leader = (uint8_t)leader};
    sim_tell(w, "", SIM_ALL, "server %d dies; server %d, which was no replica, is named again",
             present, former);
    spread_news(w);
    sim_put(w, w->now + SIM_MS + sim_draw_part(w, 0, 300), SIM_RANK_NET, come_back, w, 0);
}

/* Who leads knows first; who was cut off, last. */
static void spread_news(sim_world *w) {
    uint32_t epoch = (uint32_t)w->config_epoch;
    sim_ns first = w->now + sim_draw(w, 0, 2) * sim_draw(w, 0, 500) * SIM_MS;
    sim_ns later = sim_draw_part(w, 1, 100) + sim_draw(w, 0, 1) * 1000 * SIM_MS;
    for (int i = 0; i < SIM_SENTINELS; i++)
        sim_put(w, i == w->change.leader ? first : first + sim_draw(w, w->cfg.delay, later),
                SIM_RANK_NET, learn, &w->sentinel[i], epoch);
}

static void promote(sim_world *w, void *who, uint32_t unused) {
    sim_switch *c = &w->change;
    (void)who, (void)unused;
    int64_t back_ns = sim_clock_read(&w->server[c->former].wall, w->now) -
                      sim_clock_read(&w->server[c->next].wall, w->now);
    w->went_back += back_ns > 0 ? back_ns : 0;
    w->stats.there_and_back += w->config_epoch > 0 &&
                               c->next == w->config_master[w->config_epoch - 1];
    sim_replica_promote(w, c->next);
    w->shard[0].promoted = w->now;
    w->config_master[++w->config_epoch] = c->next;
    set_history(w);
    if (w->cfg.ends_conns)
        end_connections(w, c->next);
    sim_tell(w, "", SIM_ALL, "server %d is promoted", (int)c->next);
    spread_news(w);
    if (c->way == SIM_DIES || c->way == SIM_RETURNS) {
        sim_put(w, w->now + SIM_MS + sim_draw_part(w, 0, 300), SIM_RANK_NET, come_back, w, 0);
        return;
    }
    sim_ns at = c->demoted > w->now ? c->demoted : w->now;
    sim_ns later = c->way == SIM_LED ? sim_draw_part(w, 0, 60)
                                     : sim_draw_part(w, 0, 150) + sim_draw(w, 0, 1200) * SIM_MS;
    bool again = w->cfg.unfollowed && w->config_epoch < SIM_SWITCHES;
    sim_put(w, again ? at + sim_draw_part(w, 800, 1500) : at + later, SIM_RANK_NET,
            again ? name_again : demote, w, 0);
}

/* It, perhaps one of the Sentinels, and some hosts, against the rest; some hosts reach all. */
static void part(sim_world *w, sim_ns until) {
    sim_switch *c = &w->change;
    int aside = (c->leader + (int)sim_draw(w, 1, 2)) % SIM_SENTINELS;
    bool alone = !is_well(w, 3 - c->leader - aside) || sim_draw(w, 0, 2) == 0;
    if (!alone)
        w->sentinel[aside].parted = until;
    for (int h = 0; h < w->cfg.hosts; h++) {
        int64_t side = sim_draw(w, 0, 3); /* 0: it reaches all */
        for (int n = 0; n < SIM_NODES; n++) {
            bool there = n == c->former || (!alone && n == SIM_SERVERS + aside);
            if (side > 0 && there != (side < 3))
                cut(w, h, n, until);
        }
        sim_tell(w, "", SIM_ALL, "host %c %s until %lld", w->host[h].name,
                 side == 0   ? "reaches all"
                 : side == 3 ? "is cut off from the master"
                             : "is cut off with the master",
                 (long long)(until / SIM_MS));
    }
    for (int i = 0; i <= w->cfg.replicas; i++)
        w->follows[i] = i == c->former;
}

/* What becomes of the former master by then. */
static void leave_master(sim_world *w, sim_ns promoted) {
    sim_switch *c = &w->change;
    sim_ns until = sim_former_leaves(w, promoted);
    if (c->way == SIM_DIES || c->way == SIM_RETURNS)
        sim_server_kill(w, c->former);
    else if (c->way == SIM_WAKES)
        w->server[c->former].busy_until = c->demoted = until;
    else if (c->way == SIM_PARTED)
        part(w, c->demoted = until);
}

/* The one that has most, or the one that was master before. */
static int candidate(sim_world *w) {
    int best = -1, before = w->config_epoch > 0 ? w->config_master[w->config_epoch - 1] : -1;
    if (before >= 0 && w->follows[before] && before != w->shard[0].master && sim_draw(w, 0, 1))
        return before;
    for (int i = 0; i <= w->cfg.replicas; i++)
        if (i != w->shard[0].master && w->follows[i] &&
            (best < 0 || w->log_fifo[i] < w->log_fifo[best]))
            best = i;
    return best;
}

/* One of a majority that is well, and knows of the last failover. -1: there is none. */
static int find_leader(sim_world *w) {
    int well = 0, n = 0, knowing[SIM_SENTINELS] = {0};
    for (int i = 0; i < SIM_SENTINELS; i++) {
        well += is_well(w, i);
        if (is_well(w, i) && w->sentinel[i].epoch == w->config_epoch)
            knowing[n++] = i;
    }
    return well > SIM_SENTINELS / 2 && n > 0 ? knowing[sim_draw(w, 0, n - 1)] : -1;
}

static int draw_way(sim_world *w) {
    int n = 0, ways[SIM_WAYS] = {0};
    for (int i = 0; i < SIM_WAYS; i++)
        if (w->cfg.ways >> i & 1)
            ways[n++] = i;
    return n > 0 ? ways[sim_draw(w, 0, n - 1)] : SIM_DIES;
}

void sim_switch_over(sim_world *w) {
    sim_switch *c = &w->change;
    int next = candidate(w), leader = find_leader(w);
    if (c->on || next < 0 || leader < 0 || !w->server[w->shard[0].master].up ||
        w->config_epoch == SIM_SWITCHES)
        return;
    *c = (sim_switch){.on = true,
                      .silent = sim_draw(w, 0, 1),
                      .way = (uint8_t)draw_way(w),
                      .former = (uint8_t)w->shard[0].master,
                      .next = (uint8_t)next,
                      .leader = (uint8_t)leader};
    w->stats.switched++;
    /* So long that the time doesn't go back. */
    int64_t ahead_us = sim_server_us(w, &w->server[c->former]) - sim_server_us(w, &w->server[next]);
    sim_ns least = ahead_us > 0 ? ahead_us * 1001 : 0, most = c->way == SIM_LED ? 5 : 120;
    sim_ns at = w->now + least + SIM_MS + sim_draw_part(w, 0, (int)most);
    leave_master(w, at);
    sim_put(w, at, SIM_RANK_NET, promote, w, 0);
}

/* ---- one of them is not there -------------------------------------------------------------------- */

static void sentinel_back(sim_world *w, void *who, uint32_t node) {
    (void)who;
    sim_server_start(w, (int)node, true);
    sim_tell(w, "", SIM_ALL, "Sentinel %d is back", (int)node - SIM_SERVERS + 1);
}

static void kill_sentinel(sim_world *w, int i, sim_ns until) {
    if (w->change.on || !w->server[SIM_SERVERS + i].up)
        return; /* what it leads it leads to the end */
    w->sentinel[i].down_until = until;
    sim_server_kill(w, SIM_SERVERS + i);
    sim_tell(w, "", SIM_ALL, "Sentinel %d dies", i + 1);
    sim_put(w, until, SIM_RANK_NET, sentinel_back, w, (uint32_t)(SIM_SERVERS + i));
}

/* It, or two, or all are cut off from a host; or it is dead. */
void sim_sentinel_aside(sim_world *w) {
    int first = (int)sim_draw(w, 0, SIM_SENTINELS - 1), n = (int)sim_draw(w, 0, SIM_SENTINELS);
    int host = (int)sim_draw(w, 0, w->cfg.hosts - 1);
    sim_ns until = w->now + SIM_MS + sim_draw_part(w, 0, sim_draw(w, 0, 2) ? 100 : 300);
    w->stats.asides++;
    if (n == 0) {
        kill_sentinel(w, first, until);
        return;
    }
    for (int i = 0; i < n; i++)
        cut(w, host, SIM_SERVERS + (first + i) % SIM_SENTINELS, until);
    sim_tell(w, "", SIM_ALL, "host %c is cut off from %d Sentinels until %lld", w->host[host].name,
             n, (long long)(until / SIM_MS));
}

/* ---- beginning ----------------------------------------------------------------------------------- */

void sim_sentinels_reset(sim_world *w) {
    w->change = (sim_switch){.on = false};
    w->config_epoch = 0;
    memset(w->config_master, 0, sizeof w->config_master);
    memset(w->cut, 0, sizeof w->cut);
    w->excludes = sim_config_excludes(&w->cfg);
    for (int i = 0; i < SIM_SENTINELS; i++) {
        w->sentinel[i] = (sim_sentinel){.turns = 0};
        name(w, &w->sentinel[i], 0, 0);
    }
}
