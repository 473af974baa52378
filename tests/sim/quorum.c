/*
 * A quorum: independent servers, none of which knows of another. They die and come back with their data or empty, stop, and
 * are cut off from some hosts or from all; keys are deleted at one of them; two places of the URL may lead to one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

#define SHAKEN_PARTS 3 /* what is gone a holder has found out after so many lifetimes */
#define USED_US                                                                                    \
    INT64_C(                                                                                       \
        3600000000000) /* a server that has been asked by others has been the same for so long */
#define ID_SIZE 41

int sim_quorum_at(const sim_world *w, int place) {
    return w->cfg.twice > 1 && place == w->cfg.twice - 1 ? place - 1 : place;
}

int sim_quorum_any(sim_world *w) {
    return sim_quorum_at(w, (int)sim_draw(w, 0, w->cfg.voters - 1));
}

/* ---- beginning ----------------------------------------------------------------------------------- */

/* "run_id:..." of INFO. */
static void read_id(tl_bytes info, const char *name, char to[ID_SIZE]) {
    const char *at = memmem(info.p, info.n, name, strlen(name));
    size_t n = 0;
    for (at = at ? at + strlen(name) : info.p + info.n;
         at<info.p + info.n && * at> ' ' && n < ID_SIZE - 1; at++)
        to[n++] = *at;
    to[n] = '\0';
}

/* What with/quiet.lua has left there, long ago. */
static void note_use(sim_world *w, int server) {
    char run[ID_SIZE], history[ID_SIZE], since[2 * ID_SIZE + 24];
    sim_server *s = &w->server[server];
    sim_server_set(w, server);
    read_id(fake_conn_say(s->runner, "INFO server")->text, "run_id:", run);
    read_id(fake_conn_say(s->runner, "INFO replication")->text, "master_replid:", history);
    (void)snprintf(since, sizeof since, "%s-%s %lld", run, history,
                   (long long)(sim_server_us(w, s) - USED_US));
    tl_bytes argv[] = {TL_LITERAL("SET"), TL_LITERAL("tidelock:reign"), tl__bytes_of(since)};
    (void)fake_conn_command(s->runner, argv, 3);
}

void sim_quorum_reset(sim_world *w) {
    w->quorum = (sim_quorum){.silent = {false}};
    for (int i = 0; i < w->cfg.voters && !w->cfg.unused; i++)
        note_use(w, i);
    for (int i = 0; i < w->cfg.voters && i < w->cfg.dead; i++) {
        w->quorum.silent[i] = sim_draw(w, 0, 1);
        sim_server_kill(w, i);
    }
}

/* ---- what is lost -------------------------------------------------------------------------------- */

/* A holder may count on it all the same: for as long as it would have been there nobody else is given it. */
static void forget_key(sim_world *w, int server, int key) {
    sim_vote *v = &w->quorum.vote[key][server];
    tl_bytes value = {0};
    const fake_redis *r = w->server[server].r;
    sim_server_set(w, server);
    w->key[key].shaken_until = w->now + SHAKEN_PARTS * sim_config_longest_ms(&w->cfg) * SIM_MS;
    unsigned i = v->ghosts % SIM_GHOSTS;
    if (!fake_redis_peek(r, 0, w->key[key].k, &value) || value.n >= sizeof v->ghost[i].token)
        return;
    v->ghosts++;
    memcpy(v->ghost[i].token, value.p, value.n);
    v->ghost[i].token[value.n] = '\0';
    v->ghost[i].until_ms = fake_redis_peek_expiry(r, 0, w->key[key].k);
}

static void forget(sim_world *w, int server) {
    w->stats.emptied++;
    w->quorum.forgot[server] = w->now;
    for (int i = 0; i < w->cfg.keys; i++) {
        forget_key(w, server, i);
        w->quorum.vote[i][server].dropped[0] = '\0';
    }
}

/* Does S keep others out there for as long as K would have? */
static bool is_bound(sim_world *w, int server, const sim_key *key) {
    const fake_redis *r = w->server[server].r;
    tl_bytes value = {0}, token = {0}, until = {0};
    int64_t us = 0;
    (void)fake_redis_peek(r, 0, key->k, &value);
    (void)fake_redis_peek_field(r, 0, key->s, TL_LITERAL("token"), &token);
    (void)fake_redis_peek_field(r, 0, key->s, TL_LITERAL("until"), &until);
    (void)tl__bytes_to_int(until, &us);
    return value.n == 0 ||
           (tl__bytes_eq(value, token) && us / 1000 >= fake_redis_peek_expiry(r, 0, key->k));
}

void sim_quorum_delete(sim_world *w, int number) {
    int server = sim_quorum_any(w);
    sim_key *key = &w->key[number];
    tl_bytes argv[] = {TL_LITERAL("DEL"), key->k};
    if (!w->server[server].up)
        return;
    w->stats.deletes++;
    sim_server_set(w, server);
    if (!is_bound(w, server, key))
        key->deleted_until = w->now + SHAKEN_PARTS * sim_config_longest_ms(&w->cfg) * SIM_MS;
    sim_tell(w, "", number, "somebody deletes %s at server %d by hand", key->name, server);
    forget_key(w, server, number);
    sim_rest_deleted(w, server, number);
    (void)fake_conn_command(w->server[server].runner, argv, 2);
    sim_check_key(w, number);
}

/* ---- servers that die ---------------------------------------------------------------------------- */

static void count_few(sim_world *w) {
    int dead = 0;
    for (int i = 0; i < w->cfg.voters; i++)
        dead += !w->server[sim_quorum_at(w, i)].up;
    w->stats.few += dead > w->cfg.voters / 2;
}

static void come_back(sim_world *w, void *who, uint32_t keep_data) {
    int server = (int)((sim_server *)who - w->server);
    if (!keep_data)
        forget(w, server);
    w->quorum.back[server] = w->now;
    sim_server_start(w, server, keep_data);
    sim_tell(w, "", SIM_ALL, "server %d is back%s", server, keep_data ? "" : ", empty");
    for (int i = 0; i < w->cfg.keys; i++)
        sim_check_key(w, i);
}

/* The next in turn, once what the one before may have forgotten doesn't matter any more, nor how long it was away. */
static int next_in_turn(sim_world *w) {
    int last = -1;
    for (int i = 0; i < w->cfg.voters; i++) {
        if (!w->server[i].up)
            return i;
        if (w->quorum.back[i] > 0 && (last < 0 || w->quorum.back[i] > w->quorum.back[last]))
            last = i;
    }
    sim_ns apart = tl__rate_most_ns((w->cfg.quiet_ms + w->cfg.ttl_ms + w->cfg.connect_ms) * SIM_MS,
                                    w->cfg.drift_ppm);
    if (last >= 0 && w->now < w->quorum.back[last] + apart)
        return -1;
    return (last + 1) % w->cfg.voters;
}

/* Mostly for a while, now and then for longer than a lock lives. */
void sim_quorum_restart(sim_world *w, bool keep_data) {
    int server = w->cfg.in_turn ? next_in_turn(w) : sim_quorum_any(w);
    if (server < 0 || !w->server[server].up)
        return;
    w->stats.restarts++;
    w->quorum.silent[server] = sim_draw(w, 0, 1);
    sim_tell(w, "", SIM_ALL, "server %d dies%s", server,
             w->quorum.silent[server] ? ", silently" : "");
    sim_server_kill(w, server);
    count_few(w);
    sim_put(w, w->now + SIM_MS + sim_draw_part(w, 0, sim_draw(w, 0, 3) ? 60 : 400), SIM_RANK_NET,
            come_back, &w->server[server], keep_data);
}

/* ---- who is cut off ------------------------------------------------------------------------------ */

static void cut(sim_world *w, int host, int server, sim_ns until) {
    if (w->cut[host][server] < until)
        w->cut[host][server] = until;
}

/* A host from some servers, a server from all hosts, or some hosts and servers from the others. */
void sim_quorum_aside(sim_world *w) {
    int way = (int)sim_draw(w, 0, 2), any = sim_quorum_any(w);
    int host = (int)sim_draw(w, 0, w->cfg.hosts - 1);
    unsigned hosts = (unsigned)sim_draw(w, 0, (1 << w->cfg.hosts) - 1);
    unsigned servers = (unsigned)sim_draw(w, 1, (1 << w->cfg.voters) - 1);
    sim_ns until = w->now + SIM_MS + sim_draw_part(w, 0, sim_draw(w, 0, 2) ? 100 : 300);
    w->stats.apart++;
    for (int h = 0; h < w->cfg.hosts; h++)
        for (int i = 0; i < w->cfg.voters; i++) {
            bool there = servers >> i & 1, side = hosts >> h & 1;
            if (way == 0 ? h == host && there : way == 1 ? i == any : there != side)
                cut(w, h, i, until);
        }
    sim_tell(w, "", SIM_ALL, "%s %d: cut off until %lld (hosts %x, servers %x)",
             way == 0   ? "host"
             : way == 1 ? "server"
                        : "some",
             way == 0   ? host
             : way == 1 ? any
                        : 0,
             (long long)(until / SIM_MS), hosts, servers);
}
