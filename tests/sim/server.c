/*
 * The server: it executes what arrives, one command at a time, on its own clock, and answers. It may
 * stop, die and start again.
 */
#include "world.h"

#include <stdio.h>

#include "protocol/protocol.h"

#define TOKEN_END 12 /* digits of a token that tell it from others */
#define EPOCH_NS INT64_C(1700000000000000000)

int64_t sim_server_us(const sim_world *w, const sim_server *s) {
    return sim_clock_read(&s->wall, w->now) / 1000;
}

void sim_server_set(sim_world *w, int server) {
    sim_server *s = &w->server[server];
    fake_redis_set_time(s->r, sim_server_us(w, s));
}

fake_redis *sim_store_of(sim_world *w, tl_bytes key) {
    int home = sim_home_of(w, key);
    sim_server_set(w, home);
    return w->server[home].r;
}

/* ---- life -------------------------------------------------------------------------------------- */

/* Another after each death. And another history where a server begins without data, or takes over: then its replicas
 * have that, too. */
static void set_run_id(sim_world *w, int i) {
    fake_redis_set_run_id(w->server[i].r, (uint64_t)i << 32 | w->server[i].epoch);
}

void sim_server_begin_history(sim_world *w, int shard) {
    sim_shard *h = &w->shard[shard];
    uint64_t apart = w->cfg.voters ? SIM_NODES : SIM_SHARDS;
    h->history++;
    for (int i = 0; i < sim_servers(w); i++)
        if (sim_shard_of(w, i) == shard)
            fake_redis_set_replid(w->server[i].r, h->history * apart + (uint64_t)shard);
}

static void fresh(sim_world *w, int i) {
    sim_server *s = &w->server[i];
    fake_redis *r = s->r;
    if (r)
        fake_redis_reset(r);
    else
        r = i == 0 ? fake_redis_new() : fake_redis_beside(w->server[0].r);
    int64_t ppb = (w->cfg.voters || w->cfg.members) && i % 2 ? -w->cfg.server_ppb
                                                             : w->cfg.server_ppb;
    int64_t behind_ns = i == 0 || i >= sim_servers(w) ? 0 : w->cfg.behind_us[i - 1] * 1000;
    *s = (sim_server){.r = r, .up = true, .wall = {EPOCH_NS - behind_ns, 0, ppb}};
    fake_redis_set_started(r, sim_server_us(w, s) - 1000000 * w->cfg.ttl_ms);
    fake_redis_set_level(r, w->cfg.level);
    fake_redis_set_replicas(r, w->cfg.replicas);
    if (w->cfg.no_eval)
        fake_redis_deny(r, "EVAL EVALSHA", FAKE_RENAMED);
    s->runner = fake_redis_connect(r, NULL, NULL);
    fake_conn_trust(s->runner);
    set_run_id(w, i);
    sim_server_set(w, i);
}

static void fresh_sentinel(sim_world *w, int i) {
    fresh(w, i);
    fake_redis_set_level(w->server[i].r, FAKE_LEVEL(7, 0, 15));
}

/* In scripts, too. */
static const char *const deniable[SIM_DENIABLE] = {"EVALSHA EVAL", "SCRIPT",     "TIME",
                                                   "INFO",         "PUBLISH",    "SUBSCRIBE",
                                                   "CLIENT",       "HMSET HSET", "GET"};

void sim_server_deny(sim_world *w, int which, bool denied) {
    const char *names = deniable[which - 1];
    if (w->cfg.no_eval && which == 1)
        return; /* that is unknown there */
    for (int i = 0; i < sim_servers(w); i++)
        fake_redis_deny(w->server[i].r, names,
                        denied || which == w->cfg.lacks ? FAKE_NOPERM : FAKE_ALLOW);
    if (strcmp(names, "PUBLISH") == 0)
        w->mute = w->cfg.mute || denied || which == w->cfg.lacks;
    w->stats.denies += denied;
    sim_tell(w, "", SIM_ALL, "%s is %s", names, denied ? "forbidden" : "allowed again");
}

static void set_knobs(sim_world *w, fake_redis *r) {
    static const char *const events[] = {"", "Kg$x", "KEA"};
    fake_redis_set_events(r, events[w->cfg.events]);
    fake_redis_set_cluster(r, w->cfg.cluster);
    if (w->cfg.mute)
        fake_redis_allow_channels(r, "nothing");
}

void sim_servers_reset(sim_world *w) {
    for (int i = 0; i < SIM_NODES; i++) {
        w->shard[i].master = i;
        w->shard[i].promoted = 0;
    }
    w->failing_over = false;
    w->went_back = 0;
    w->mute = w->cfg.mute;
    for (int i = 0; i < sim_servers(w); i++)
        fresh(w, i);
    for (int i = 0; i < sim_servers(w); i++)
        set_knobs(w, w->server[i].r);
    if (w->cfg.lacks)
        sim_server_deny(w, w->cfg.lacks, true);
    for (int i = 0; i < sim_shards(w); i++)
        sim_server_begin_history(w, i);
    sim_slots_move(w, w->cfg.slots);
    sim_keys_forbid(w, w->cfg.touches);
    sim_replicas_reset(w);
    for (int i = SIM_SERVERS; w->cfg.sentinel && i < SIM_SERVERS + SIM_SENTINELS; i++)
        fresh_sentinel(w, i);
    sim_sentinels_reset(w);
    sim_cluster_reset(w);
    sim_quorum_reset(w);
    sim_etcd_reset(w);
}

void sim_servers_free(sim_world *w) {
    for (int i = 0; i < SIM_NODES; i++)
        fake_redis_free(w->server[i].r);
    sim_replicas_free(w);
    sim_etcd_free(w);
}

/* Its connections end: the hosts hear of it, or find out by themselves. */
void sim_server_kill(sim_world *w, int server) {
    sim_server *s = &w->server[server];
    s->up = false;
    s->epoch++;
    set_run_id(w, server);
    s->busy_until = 0;
    for (sim_socket *c = w->sockets; c; c = c->all) {
        if (!c->host || c->server != server || (!c->session && !c->etcd))
            continue;
        sim_socket_hang_up(c);
        c->dead_up = c->dead_down = true; /* to those that are not told it is silent */
        if (sim_draw(w, 0, 3))
            sim_socket_reset(w, c);
    }
}

void sim_server_start(sim_world *w, int server, bool keep_data) {
    sim_server *s = &w->server[server];
    s->up = true;
    fake_redis_set_started(s->r, sim_server_us(w, s));
    sim_server_set(w, server);
    fake_redis_restart(s->r, keep_data);
    if (!keep_data)
        sim_server_begin_history(w, sim_shard_of(w, server));
}

/* ---- answers ------------------------------------------------------------------------------------- */

void sim_server_answer(sim_socket *s, const tl_reply *reply) {
    size_t before = s->out.n;
    fake_resp_write(&s->out, reply);
    s->answered += s->out.n - before;
    sim_server_answered(s);
}

void sim_server_answered(sim_socket *s) {
    sim_world *w = s->w;
    if (s->listed)
        return;
    if (w->answer_count == sizeof w->answers / sizeof *w->answers)
        sim_sockets_answer(w);
    s->listed = true;
    s->refs++;
    w->answers[w->answer_count++] = s;
}

/* Nothing is taken there: what it says of locks is what it has heard. */
static bool is_replica(const sim_world *w, int server) {
    return server != sim_master_of(w, server) || w->failing_over;
}

static void push(void *ctx, const tl_reply *reply) {
    sim_socket *s = ctx;
    bool said = reply->count == 3 && tl__bytes_eq(reply->items[0].text, TL_LITERAL("message"));
    bool sentinel = s->server >= SIM_SERVERS && s->w->cfg.sentinel;
    s->w->stats.repeated += said && !sentinel && is_replica(s->w, s->server);
    sim_server_answer(s, reply);
    if (said && sentinel)
        sim_sentinel_told(s, s->w->telling_former);
}

void sim_server_accept(sim_world *w, sim_socket *s) {
    static const fake_calls calls = {.push = push};
    char address[32];
    if (w->cfg.members) {
        sim_etcd_accept(w, s);
        return;
    }
    (void)snprintf(address, sizeof address, "10.0.1.%d:%d", s->host->id + 1, 30000 + s->fd);
    s->session = fake_redis_connect(w->server[s->server].r, &calls, s);
    fake_conn_set_address(s->session, address);
}

/* ---- what is asked ------------------------------------------------------------------------------- */

static bool is_word(tl_bytes a, const char *word) {
    return tl__bytes_eq(a, tl__bytes_of(word));
}

/* TL_SCRIPTS: none of ours. */
static unsigned script_of(const sim_request *m, bool by_text) {
    unsigned i = 0;
    while (i < TL_SCRIPTS && !tl__bytes_eq(m->argv[1], by_text ? tl__script_text((tl_script)i)
                                                               : tl__script_sha1((tl_script)i)))
        i++;
    return i;
}

static void read_script(sim_world *w, sim_request *m) {
    bool by_text = is_word(m->argv[0], "EVAL");
    if (m->argc < 4 || (!by_text && !is_word(m->argv[0], "EVALSHA")))
        return;
    unsigned script = script_of(m, by_text);
    int64_t nkeys = 0;
    if (script == TL_SCRIPTS || !tl__bytes_to_int(m->argv[2], &nkeys))
        return;
    w->stats.by_text += by_text;
    m->is_script = true;
    m->script = (uint8_t)script;
    m->nkeys = (uint16_t)nkeys;
    m->argv += 3;
    m->argc -= 3;
}

static sim_request read_request(sim_world *w, sim_socket *s, const tl_bytes *argv, size_t argc) {
    sim_request m = {.socket = s, .sender = s->host, .argv = argv, .argc = argc};
    m.late = s->fd < 0;
    read_script(w, &m);
    size_t n = m.is_script ? m.argc - sim_joined_tail(m.script) : m.argc;
    m.asked = sim_asked_by(s->host, s->boot, sim_hash_words(m.is_script, m.script, m.argv, n));
    if (!m.is_script &&
        (s->raw || m.argc < 2)) /* others may say the same; and logins say it, too */
        m.asked = sim_asked_by(s->host, s->boot, 0);
    m.token = m.asked->token;
    return m;
}

/* ---- transactions ---------------------------------------------------------------------------------- */

static void keep_command(sim_socket *s, const sim_request *m, bool refused) {
    if (s->queued == SIM_QUEUED || m->argc > TL_ARGV_MAX)
        return;
    fake_buffer *text = &s->command[s->queued].text;
    tl_bytes *to = s->command[s->queued].argv;
    text->n = 0;
    for (size_t i = 0; i < m->argc; i++)
        fake_buffer_add(text, m->argv[i].p, m->argv[i].n);
    const char *p = text->p;
    for (size_t i = 0; i < m->argc; p += m->argv[i++].n)
        to[i] = tl__bytes(p, m->argv[i].n);
    s->command[s->queued].argc = m->argc;
    s->command[s->queued].refused = refused;
    s->command[s->queued].fences = m->asked->fences;
    s->command[s->queued].asked = m->asked;
    s->command[s->queued++].token = m->token;
}

/* True: it is part of one, or belongs to one. */
static bool transacted(sim_world *w, sim_socket *s, const sim_request *m, const tl_reply *reply) {
    bool refused = reply && reply->type == TL_REPLY_ERROR;
    if (!m->is_script && is_word(m->argv[0], "MULTI")) {
        s->multi = !refused;
        s->queued = 0;
        return true;
    }
    if (!s->multi)
        return !m->is_script && (is_word(m->argv[0], "WATCH") || is_word(m->argv[0], "UNWATCH"));
    if (is_word(m->argv[0], "EXEC")) {
        s->multi = false;
        if (!sim_check_transacted(w, m, reply))
            sim_stamp_transacted(w, m, reply);
    } else if (is_word(m->argv[0], "DISCARD")) {
        s->multi = false;
    } else {
        keep_command(s, m, refused);
    }
    return true;
}

/* ---- executing --------------------------------------------------------------------------------- */

/* WAIT: the reply comes when enough replicas have confirmed. */
static void execute_wait(sim_world *w, sim_socket *s, const sim_request *m) {
    int64_t needed = 0, ms = 0;
    sim_ns when = w->now;
    if (w->cfg.fleet) /* what ASKING before it has allowed ends with it */
        (void)fake_conn_command(s->session, m->argv, m->argc);
    (void)tl__bytes_to_int(m->argv[1], &needed);
    (void)tl__bytes_to_int(m->argv[2], &ms);
    tl_reply reply = {.type = TL_REPLY_INT};
    reply.integer = 0;
    if (!is_replica(w, s->server))
        reply.integer = sim_replicas_confirm(w, s->server, (int)needed, w->now + ms * SIM_MS,
                                             &when);
    else /* nobody follows it any more */
        when = w->now + ms * SIM_MS;
    w->stats.too_few += reply.integer < needed;
    w->stats.stamps_too_few += w->cfg.stamps && reply.integer < needed;
    if (when > w->now)
        s->blocked = when + 1;
    sim_server_answer(s, &reply);
}

/* Against what is assumed: it and what follows never come. */
static bool is_too_late(sim_world *w, sim_socket *s, const sim_request *m) {
    bool another = s->fd < 0 && m->asked->at > s->closed; /* in the same words, since */
    if ((w->now <= m->asked->never_after && !another) || m->is_script)
        return false;
    w->stats.kept_away++;
    w->calm_all_along = false; /* the client waits for an answer as it does when a reply is lost */
    s->withheld = s->dead_up = s->dead_down = true;
    s->out.n = 0;
    return true;
}

static bool begins_with(const tl_reply *r, const char *word) {
    size_t n = strlen(word);
    return r->type == TL_REPLY_ERROR && r->text.n >= n && memcmp(r->text.p, word, n) == 0;
}

static bool says(const tl_reply *r, const char *words) {
    return r->type == TL_REPLY_ERROR && memmem(r->text.p, r->text.n, words, strlen(words));
}

static void count_replies(sim_world *w, const sim_request *m, const tl_reply *r) {
    bool moved = begins_with(r, "MOVED ") || begins_with(r, "ASK ");
    bool split = begins_with(r, "TRYAGAIN "), key = says(r, "NOPERM") && says(r, " key");
    w->stats.forbidden += begins_with(r, "NOPERM") && !key;
    w->stats.moved += moved;
    w->stats.split += split;
    w->stats.cluster_down += begins_with(r, "CLUSTERDOWN ");
    w->stats.keys_forbidden += key;
    w->stats.crossslot += begins_with(r, "CROSSSLOT");
    w->stats.tracked += !m->is_script && is_word(m->argv[0], "CLIENT") &&
                        r->type == TL_REPLY_STATUS;
}

/* Of several servers, where a story would be hard to follow without. */
static void trace(sim_world *w, const sim_request *m, const tl_reply *r) {
    tl_bytes first = m->argc > 0 ? m->argv[0] : (tl_bytes){0};
    const tl_reply *said = r->type == TL_REPLY_ARRAY ? tl__reply_item(r, 0) : r;
    int key = m->is_script ? sim_key_named(w, first) : SIM_ALL;
    tl_bytes second = m->argc > 1 ? m->argv[1] : (tl_bytes){0};
    tl_bytes token = {0};
    for (size_t i = 0; i < m->argc && token.n == 0; i++)
        if (sim_token_number(w, m->argv[i]))
            token = tl__bytes(m->argv[i].p + m->argv[i].n - TOKEN_END, TOKEN_END);
    sim_tell(w, "", key < 0 ? SIM_ALL : key,
             "  server %d, of host %c: %s%d %.*s %.*s %.*s -> %lld %.*s", (int)m->socket->server,
             m->sender->name, m->is_script ? "script " : "command ", m->is_script ? m->script : 0,
             (int)first.n, first.p, (int)second.n, second.p, (int)token.n, token.p,
             (long long)(said->type == TL_REPLY_INT ? said->integer : -9), (int)said->text.n,
             said->type == TL_REPLY_INT || said->type == TL_REPLY_NIL ? "" : said->text.p);
}

static void check(sim_world *w, sim_socket *s, const sim_request *m, const tl_reply *r) {
    count_replies(w, m, r);
    if (w->cfg.trace && (w->cfg.fleet || w->cfg.voters))
        trace(w, m, r);
    sim_mark(w, (uint64_t)r->type << 8 | (uint64_t)r->count);
    if (w->cfg.sentinel || w->cfg.fleet)
        sim_sentinel_executed(w, m, r);
    if (transacted(w, s, m, r) || is_replica(w, s->server) || sim_cluster_astray(w, m, r))
        ;
    else if (m->is_script && r->type != TL_REPLY_ERROR)
        sim_check_executed(w, m, r);
    else if (m->is_script && !w->cfg.voters)
        sim_check_erred(w, m);
    else if (w->cfg.stamps && !m->is_script)
        sim_stamp_executed(w, m, r);
    if (!w->cfg.migrates)
        return;
    int before = w->migration.phase;
    sim_phase_look(w);
    if (w->cfg.tool && before == 1 && w->migration.phase == 2)
        sim_tool_moved(w, m);
}

/* What has been sent over such a connection is thrown away, whether it has arrived or not. */
static void end_killed(sim_world *w, const sim_request *m) {
    for (sim_socket *c = w->sockets; c; c = c->all) {
        if (!c->session || !fake_conn_killed(c->session))
            continue;
        if (c->host != m->sender || c->boot != m->socket->boot)
            sim_fail(w, SIM_ALL, "host %c has a connection ended that isn't its own",
                     m->sender->name);
        w->stats.kills++;
        w->stats.kills_in_time += c->up.n + c->input.n > 0;
        fake_conn_close(c->session);
        c->session = NULL;
        c->input.n = 0;
        sim_socket_reset(w, c);
    }
}

/* Who is told that a connection has gone counts on it that nothing comes of it any more. */
static void check_killed(sim_world *w, const sim_request *m, const tl_reply *r) {
    bool kill = !m->is_script && m->argc > 1 && is_word(m->argv[0], "CLIENT") &&
                is_word(m->argv[1], "KILL");
    if (!kill || r->type != TL_REPLY_INT)
        return;
    w->token[m->token].killed = m->token > 0;
    end_killed(w, m);
}

static void execute(sim_world *w, sim_socket *s, const tl_bytes *argv, size_t argc) {
    sim_request m = read_request(w, s, argv, argc);
    if (is_too_late(w, s, &m))
        return;
    w->stats.commands++;
    if (!s->multi && is_word(argv[0], "WAIT") && argc == 3 &&
        (!is_replica(w, s->server) || sim_server_is_former(w, s->server))) {
        execute_wait(w, s, &m);
        return;
    }
    if (w->cfg.fleet)
        sim_check_late(w);
    if (m.is_script && (m.script == TL_SCRIPT_ACQUIRE || m.script == TL_SCRIPT_JOIN)) {
        m.has = sim_check_has(w, &m);
        m.noted = sim_check_noted(w, &m);
    }
    if (m.is_script && m.script == TL_SCRIPT_HOLD && w->cfg.fleet)
        m.has = sim_check_has_alone(w, &m);
    m.claim = sim_check_claim(w, &m);
    sim_check_found(w, &m);
    const tl_reply *r = w->cfg.fleet && is_word(argv[0], "CLUSTER")
                            ? sim_cluster_say(w, s->server, argc > 1 ? argv[1] : (tl_bytes){0})
                            : fake_conn_command(s->session, argv, argc);
    if (w->cfg.tool)
        sim_tool_heard(w, &m, r);
    if (!r)
        return;
    sim_server_answer(s, r);
    check(w, s, &m, r);
    check_killed(w, &m, r);
}

void sim_server_execute(sim_world *w, sim_socket *s) {
    static tl_bytes argv[FAKE_RESP_ARGS_MAX];
    size_t argc, used;
    if (s->etcd) {
        sim_etcd_execute(w, s);
        return;
    }
    if (s->server >= sim_servers(w)) {
        sim_sentinel_execute(w, s);
        return;
    }
    sim_server_set(w, s->server);
    while (!s->withheld && !w->failed && s->session &&
           fake_resp_read(tl__bytes(s->input.p, s->input.n), argv, &argc, &used) ==
               FAKE_RESP_READY) {
        if (w->cfg.atomic && sim_atomic_postpones(w, s, argv, argc))
            return;
        execute(w, s, argv, argc);
        fake_buffer_cut(&s->input, used);
    }
}
