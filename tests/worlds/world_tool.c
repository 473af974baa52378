/*
 * The command in this world: what it asks of servers, of the system, of its clock. A run is a coroutine: it stops
 * where it waits, and the world goes on. One that is killed ends without another effect; what it had sent may
 * arrive later.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/at_once.h"
#include "base/moment.h"
#include "base/signals.h"
#include "ground/wait.h"
#include "link/link_open.h"
#include "migrate/migrate_watches.h"
#include "world.h"

#define LIMIT_MS 5000
#define UNCONNECTED ((tl_conn *)1)

/* ---- coroutines ---------------------------------------------------------------------------------- */

static void pass(int64_t ms) {
    world_tool *tool = world.present;

    if (tool->killed)
        return;
    tool->wake_at = world.now_ms + ms;
    world.present = NULL;
    fiber_switch(&tool->fiber, &world.scheduler);
}

static void deliver_late(void) {
    static world_tool nobody;
    tl_reply reply;

    for (int i = 0; i < LATE_MOST; i++)
        if (world.late[i].waits && world.now_ms >= world.late[i].at) {
            world.late[i].waits = false;
            if (world.node[world.late[i].node].run == world.late[i].ask.count)
                (void)execute(world.late[i].node, &world.late[i].ask, &nobody, &reply);
        }
}

static void tick(void) {
    deliver_late();
    cluster_tick();
    life_tick();
    world.next_tick = world.now_ms + 1 + draw(40);
}

static world_tool *next_tool(void) {
    world_tool *next = NULL;
    for (int i = 0; i < TOOLS; i++)
        if (world.tool[i].runs && (!next || world.tool[i].wake_at < next->wake_at))
            next = &world.tool[i];
    return next;
}

/* Until a moment, or until a run has ended. */
void world_run(int64_t until_ms, const world_tool *until_done) {
    while (!world.broken[0] && (until_done ? until_done->runs : world.now_ms < until_ms)) {
        world_tool *tool = next_tool();
        if (!tool || tool->wake_at > world.next_tick) {
            world.now_ms = world.next_tick;
            tick();
            continue;
        }
        world.now_ms = tool->wake_at > world.now_ms ? tool->wake_at : world.now_ms;
        world.present = tool;
        fiber_switch(&world.scheduler, &tool->fiber);
        life_check();
    }
}

static void live(void) {
    world_tool *tool = world.present;
    char *word = (char *)(uintptr_t)tool->word;
    operands args = {.word = &word, .count = 1};
    server where = {.url = (char *)(uintptr_t) "redis+cluster://10.0.0.0"};

    tool->status = migrate_row.function(&where, &tool->options, &args);
    tool = world.present ? world.present : tool;
    tool->runs = false;
    world_tell("run %d ends with %d", tool->run, tool->status);
    world.present = NULL;
    fiber_switch(&tool->fiber, &world.scheduler);
    abort();
}

void tool_begin(world_tool *tool, const char *word, int phase) {
    fiber fiber = tool->fiber.stack ? tool->fiber : fiber_spare();
    bool moves = strcmp(word, "status") != 0, alone = true;

    for (int i = 0; i < TOOLS; i++)
        if (world.tool[i].runs)
            alone = world.tool[i].alone = false;
    *tool = (world_tool){
        .fiber = fiber, .runs = true, .word = word, .run = ++world.tool_runs, .alone = alone};
    memcpy(&tool->options, migrate_row.defaults, sizeof tool->options);
    tool->options.name = "ns";
    tool->options.phase = phase;
    tool->options.yes = moves;
    if (strcmp(word, "init") == 0)
        tool->options.keys = "*";
    if (strcmp(word, "advance") == 0)
        tool->options.watch_ms = WATCH_MS, tool->options.monitor_ms = 0;
    tool->wake_at = world.now_ms;
    tool->at_write = draw(2);
    tool->kill_at = chance(world.kills) ? 1 + draw(tool->at_write ? 40 : 900) : 0;
    tool->interrupt_at = chance(world.kills / 4) ? world.now_ms + draw(20000) : INT64_MAX;
    tool->wall_off_us = world.coarse
                            ? 0
                            : (draw(5) ? draw(2000000) - 1000000 : draw(INT64_C(7200000000)));
    world.commands++;
    world_tell("run %d: migrate %s%s", tool->run, word, tool->kill_at ? ", to be killed" : "");
    fiber_begin(&tool->fiber, live);
}

int tool_run(world_tool *tool) {
    world_run(0, tool);
    return tool->status;
}

/* All that still run are killed. */
void tools_end(void) {
    for (int i = 0; i < TOOLS; i++)
        while (world.tool[i].runs) {
            world.tool[i].killed = true;
            world.present = &world.tool[i];
            fiber_switch(&world.scheduler, &world.tool[i].fiber);
        }
}

/* ---- what it says ---------------------------------------------------------------------------------- */

void __wrap_say_line(const char *line, size_t len);
void __wrap_say_line(const char *line, size_t len) {
    if (world.present && !world.present->killed)
        world_tell("run %d: %.*s", world.present->run, (int)(len ? len - 1 : 0), line);
}

static void java_may_start(const world_tool *tool) {
    world_tell("run %d says that Java may start", tool->run);
    world.said++;
    world.java_may = true;
    world.java_runs = draw(10) > 0;
    cluster_spite();
    life_check();
}

ssize_t tool_printed(void *cookie, const char *from, size_t n);
ssize_t tool_printed(void *cookie, const char *from, size_t n) {
    world_tool *tool = world.present;
    (void)cookie;

    if (!tool || tool->killed)
        return (ssize_t)n;
    size_t room = sizeof tool->out - 1 - tool->out_n, k = n < room ? n : room;
    size_t was = tool->out_n > 40 ? tool->out_n - 40 : 0;
    memcpy(tool->out + tool->out_n, from, k);
    tool->out_n += k;
    tool->out[tool->out_n] = '\0';
    bool said = strstr(tool->out + was, ": Java may start\n") != NULL ||
                (tool->alone && strstr(tool->out + was, "old Java class: may run\n"));
    if (said) {
        tool->out_n = 0;
        java_may_start(tool);
    }
    return (ssize_t)n;
}

/* ---- the system ------------------------------------------------------------------------------------ */

int64_t __wrap_moment_ms(void);
int64_t __wrap_moment_ms(void) {
    return world.now_ms;
}

/* Never twice the same. The clocks of hosts differ. */
int64_t __wrap_moment_wall_us(void);
int64_t __wrap_moment_wall_us(void) {
    int64_t now_us = INT64_C(1763700000000000) + world.now_ms * 1000 + ++world.wall_calls;

    if (world.coarse) /* of seconds alone */
        return INT64_C(1763700000000000) + world.wall_calls * 1000000;
    return now_us + (world.present ? world.present->wall_off_us : 0);
}

kernel_clock __wrap_moment_kernel(void);
kernel_clock __wrap_moment_kernel(void) {
    return (kernel_clock){.known = false};
}

int __wrap_isatty(int fd);
int __wrap_isatty(int fd) {
    (void)fd;
    return 0;
}

pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void) {
    return world.present ? world.present->run : 1;
}

void __wrap_at_once(void *(*work)(void *item), void *items, size_t size, unsigned count);
void __wrap_at_once(void *(*work)(void *item), void *items, size_t size, unsigned count) {
    world_tool *tool = world.present;
    unsigned first = count ? (unsigned)draw(count) : 0;

    tool->at_once = !tool->killed;
    for (unsigned i = 0; i < count; i++)
        (void)work((char *)items + size * ((first + i) % count));
    tool->at_once = false;
}

void __wrap_tl__wait(struct pollfd *fds, unsigned count, tl_mono until);
void __wrap_tl__wait(struct pollfd *fds, unsigned count, tl_mono until) {
    (void)fds, (void)count, (void)until;
    pass(20);
}

int __wrap_signals_begin(signals *signals);
int __wrap_signals_begin(signals *signals) {
    (void)signals;
    return 0;
}

void __wrap_signals_end(signals *signals);
void __wrap_signals_end(signals *signals) {
    (void)signals;
}

int __wrap_signals_pause(signals *signals, int64_t ms);
int __wrap_signals_pause(signals *signals, int64_t ms) {
    (void)signals;
    if (ms > 0)
        pass(ms);
    return world.present->killed || world.now_ms >= world.present->interrupt_at ? SIGINT : 0;
}

int __wrap_signals_status(int sig);
int __wrap_signals_status(int sig) {
    return STATUS_SIGNAL + sig;
}

/* ---- links ----------------------------------------------------------------------------------------- */

static int node_of(const server_link *link) {
    return link->endpoint.host[0] ? link->endpoint.host[7] - '0'
                                  : NODES - 1; /* of no address: one that is never up */
}

static void turn(server_link *link, int node) {
    (void)snprintf(link->endpoint.host, sizeof link->endpoint.host, "10.0.0.%d", node);
    (void)snprintf(link->endpoint.label, sizeof link->endpoint.label, "10.0.0.%d:6379", node);
    link->endpoint.port = 6379;
    link->conn = UNCONNECTED;
}

int __wrap_link_open(server_link *link, const server *where);
int __wrap_link_open(server_link *link, const server *where) {
    (void)where;
    *link = (server_link){.conn = NULL};
    return 0;
}

bool __wrap_link_open_same(server_link *link, const server_link *other, const char *host,
                           uint16_t port);
bool __wrap_link_open_same(server_link *link, const server_link *other, const char *host,
                           uint16_t port) {
    (void)other, (void)port;
    *link = (server_link){.conn = NULL};
    turn(link, host[7] - '0');
    return true;
}

void __wrap_link_close(server_link *link);
void __wrap_link_close(server_link *link) {
    link->conn = NULL;
}

int __wrap_link_places(server_link *link, const server *where, tl_endpoint *ret_login,
                       link_login *ret_own, tl_seeds *ret_seeds);
int __wrap_link_places(server_link *link, const server *where, tl_endpoint *ret_login,
                       link_login *ret_own, tl_seeds *ret_seeds) {
    (void)where;
    *link = (server_link){.conn = NULL};
    *ret_login = (tl_endpoint){.port = 6379};
    memset(ret_own, 0, sizeof *ret_own);
    *ret_seeds = (tl_seeds){.count = 0};
    return 0;
}

static bool fails(server_link *link, const char *why) {
    link->ok = false;
    link->status = STATUS_UNAVAILABLE;
    (void)snprintf(link->message, sizeof link->message, "%s", why);
    return false;
}

bool __wrap_seeds_lead(server_link *link, const tl_endpoint *login, const tl_seeds *seeds,
                       const char *key);
bool __wrap_seeds_lead(server_link *link, const tl_endpoint *login, const tl_seeds *seeds,
                       const char *key) {
    int votes[NODES] = {0}, best = NONE;

    (void)login, (void)seeds, (void)key;
    pass(1 + draw(5));
    for (int i = 0; i < world.nodes; i++)
        if (node_is_reached(&world.node[i]))
            votes[world.node[i].view[HOME].owner]++;
    for (int i = 0; i < world.nodes; i++)
        if (votes[i] > 0 && (best < 0 || votes[i] > votes[best]))
            best = i;
    if (best < 0 || world.present->killed)
        return fails(link, "no node replies");
    turn(link, best);
    return true;
}

bool __wrap_seeds_go_on(server_link *link, const char *key);
bool __wrap_seeds_go_on(server_link *link, const char *key) {
    int at = node_of(link), to;

    (void)key;
    pass(1);
    if (world.present->killed || !node_is_reached(&world.node[at]))
        return fails(link, "no reply");
    to = link->elsewhere == TL_MOVED && link->to_port ? link->to_host[7] - '0'
                                                      : world.node[at].view[HOME].owner;
    if (to != at)
        turn(link, to);
    return true;
}

/* ---- one request ----------------------------------------------------------------------------------- */

static bool is(const tl_bytes *argv, const char *word) {
    return tl__bytes_eq(argv[0], tl__bytes_of(word));
}

static void copy(char *to, size_t size, tl_bytes from) {
    (void)snprintf(to, size, "%.*s", (int)from.n, from.p);
}

static int slot_of(tl_bytes key) {
    char name[MIGRATE_SLOT_KEY_SIZE];

    for (unsigned i = 0; i < TL_SLOTS; i++)
        if (tl__bytes_eq(key, tl__bytes_of(migrate_slot_key(name, "ns", i))))
            return (int)i;
    abort();
}

static int64_t number_of(tl_bytes text) {
    int64_t number = 0;
    (void)tl__bytes_to_int(tl__bytes_take(&text, ' '), &number);
    return number;
}

static void read_change(world_ask *ask, const tl_bytes *argv) {
    const world_tool *tool = world.present;

    ask->kind = ASK_CHANGE;
    ask->epoch = number_of(argv[7]);
    ask->phase = (int)number_of(argv[8]);
    copy(ask->by, sizeof ask->by, argv[9]);
    ask->anew = argv[11].n > 0;
    ask->run = (int)number_of(argv[13]);
    ask->limit_us = number_of(argv[14]);
    ask->advances = strcmp(tool->word, "advance") == 0;
    ask->watched_from = tool->watched_from;
    ask->watched_to = tool->watched_to;
}

static void read_eval(world_ask *ask, const tl_bytes *argv, size_t n) {
    ask->slot = HOME;
    if (is(argv + 1, "return 1"))
        ask->kind = ASK_ONE, ask->slot = NONE;
    else if (n == 15)
        read_change(ask, argv);
    else if (n == 6 && is(argv + 2, "1")) {
        ask->kind = ASK_SET;
        ask->slot = slot_of(argv[3]);
        copy(ask->is, sizeof ask->is, argv[4]);
        copy(ask->want, sizeof ask->want, argv[5]);
    } else
        ask->kind = n == 4 ? ASK_TOUCH : n == 5 ? ASK_READ : ASK_NOTE;
}

static world_ask read_ask(const tl_bytes *argv, size_t n) {
    world_ask ask = {.slot = NONE, .tool_run = world.present->run};

    if (is(argv, "INFO"))
        ask.kind = ASK_INFO;
    else if (is(argv, "CLUSTER"))
        ask.kind = is(argv + 1, "GETSLOTMIGRATIONS") ? ASK_MOVES
                   : is(argv + 1, "NODES")           ? ASK_NODES
                                                     : ASK_LACKING;
    else if (is(argv, "EVAL"))
        read_eval(&ask, argv, n);
    else if (is(argv, "WAIT"))
        ask.kind = ASK_WAIT, ask.count = number_of(argv[1]);
    else if (is(argv, "TIME"))
        ask.kind = ASK_TIME;
    else if (is(argv, "GET"))
        ask.kind = ASK_GET, ask.slot = slot_of(argv[1]);
    else if (is(argv, "EXISTS") || is(argv, "PING")) /* to the latter any reply will do */
        ask.kind = ASK_ABSENT;
    else if (is(argv, "PSETEX"))
        ask.kind = ASK_OK, ask.slot = HOME;
    else
        abort();
    return ask;
}

/* It is on its way for a while. */
static void send_late(int node, const world_ask *ask) {
    for (int i = 0; i < LATE_MOST; i++)
        if (!world.late[i].waits) {
            world.late[i] = (world_late){.waits = true, .node = node, .ask = *ask};
            world.late[i].at = world.now_ms + draw(chance(5000) ? 2000 : 30000);
            world.late[i].ask.count = world.node[node].run;
            return;
        }
}

static bool is_write(const world_ask *ask) {
    return ask->kind == ASK_SET || ask->kind == ASK_CHANGE;
}

static void lose(int node, const world_ask *ask) {
    tl_reply reply;
    int fate = is_write(ask) ? (int)draw(3) : 0;

    if (fate == 1 && node_is_reached(&world.node[node]))
        (void)execute(node, ask, world.present, &reply);
    if (fate == 2)
        send_late(node, ask);
}

/* The process ends, now or earlier. */
static bool dies(int node, const world_ask *ask) {
    world_tool *tool = world.present;

    if (tool->killed) { /* what it sent to other nodes at the same time */
        if (tool->at_once && is_write(ask) && draw(3) == 0)
            send_late(node, ask);
        return true;
    }
    tool->asked += !tool->at_write || is_write(ask);
    if (!tool->kill_at || tool->asked < tool->kill_at)
        return false;
    world_tell("run %d is killed", tool->run);
    lose(node, ask);
    tool->killed = true;
    cluster_spite();
    return true;
}

static bool connects(server_link *link) {
    const world_node *node = &world.node[node_of(link)];
    tl_conn *conn = (tl_conn *)(uintptr_t)(node->run + 1);

    if (!node_is_reached(node)) {
        link->conn = UNCONNECTED;
        pass(node->up ? LIMIT_MS : 1);
        return false;
    }
    link->ups += link->conn != conn;
    link->conn = conn;
    return true;
}

/* False: no reply. */
static bool exchange(server_link *link, const world_ask *ask, int64_t ms, tl_reply *ret) {
    int node = node_of(link);

    if (dies(node, ask))
        return fails(link, "killed");
    if (ms > 0)
        pass(ms);
    if (!connects(link))
        return fails(link, "no reply");
    if (!world.calm && chance(world.lossy)) {
        lose(node, ask);
        link->conn = UNCONNECTED;
        pass(draw(2) ? LIMIT_MS : 5);
        return fails(link, "no reply");
    }
    if (!execute(node, ask, world.present, ret))
        return fails(link, "no reply");
    return true;
}

static int64_t delay(void) {
    return chance(200) ? draw(400) : draw(3);
}

static void take_error(server_link *link, const tl_reply *reply) {
    tl_redirect redirect = tl__redirect_read(reply->text);
    tl_err code = tl__refusal(reply->text);

    link->error = true;
    link->lacks = code == TL_EUNSUPPORTED;
    link->status = code == TL_EDENIED || code == TL_EUNSUPPORTED ? STATUS_REFUSED
                                                                 : STATUS_UNAVAILABLE;
    link->elsewhere = redirect.kind;
    link->to_port = redirect.node.port;
    tl__bytes_print(link->to_host, sizeof link->to_host, redirect.node.host);
    tl__bytes_print(link->message, sizeof link->message, reply->text);
}

static bool ask_one(server_link *link, const tl_bytes *argv, size_t n,
                    bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    world_ask ask = read_ask(argv, n);
    int64_t since = world.now_ms;
    tl_reply reply;

    link->ok = link->error = link->lacks = link->engineless = false;
    link->elsewhere = TL_NOT_ELSEWHERE;
    link->status = STATUS_UNAVAILABLE;
    if (!exchange(link, &ask, delay(), &reply))
        return false;
    while (ask.kind == ASK_WAIT && reply.integer < ask.count && world.now_ms < since + 3000 &&
           exchange(link, &ask, 20, &reply))
        continue;
    if (reply.type == TL_REPLY_ERROR) {
        take_error(link, &reply);
        return false;
    }
    link->ok = !take || take(ctx, &reply);
    return link->ok;
}

bool __wrap_link_ask(server_link *link, const char *const *request,
                     bool (*take)(void *ctx, const tl_reply *reply), void *ctx);
bool __wrap_link_ask(server_link *link, const char *const *request,
                     bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    tl_bytes argv[TL_ARGV_MAX];
    size_t n = 0;

    for (; request[n]; n++)
        argv[n] = tl__bytes_of(request[n]);
    return ask_one(link, argv, n, take, ctx);
}

/* Sent one behind the other; the first that is lost takes those behind it along. */
bool __wrap_link_ask_many(server_link *link, link_many *many);
bool __wrap_link_ask_many(server_link *link, link_many *many) {
    tl_bytes argv[TL_ARGV_MAX];
    tl_reply reply;

    link->ok = true;
    for (size_t i = 0; i < many->count; i++) {
        size_t n = many->request(many->ctx, i, argv);
        world_ask ask = read_ask(argv, n);
        if (!link->ok) {
            if (!world.present->killed || world.present->at_once)
                lose(node_of(link), &ask);
        } else if (exchange(link, &ask, chance(500) ? delay() : 0, &reply))
            many->take(many->ctx, i, &reply);
    }
    return link->ok;
}

/* ---- the nodes of the cluster ---------------------------------------------------------------------- */

static void survey_node(cluster_node *ret, int at, int first) {
    const world_node *node = &world.node[at];

    *ret = (cluster_node){
        .port = 6379, .asked = true, .epoch = node->epoch, .master = node->master};
    (void)snprintf(ret->id, sizeof ret->id, "%040d", at);
    (void)snprintf(ret->host, sizeof ret->host, "10.0.0.%d", at);
    (void)snprintf(ret->label, sizeof ret->label, "10.0.0.%d:6379", at);
    if (node->of >= 0 && !node->master)
        (void)snprintf(ret->of, sizeof ret->of, "%040d", node->of);
    if (!node_is_reached(node) || world.present->killed) {
        ret->status = STATUS_UNAVAILABLE;
        (void)snprintf(ret->message, sizeof ret->message, "no reply");
        return;
    }
    ret->owner = malloc(TL_SLOTS * sizeof *ret->owner);
    for (int i = 0; i < TL_SLOTS; i++) {
        ret->owner[i] = (uint16_t)((node->view[i].owner - first + world.nodes) % world.nodes);
        int other = node->leaves[i] != NONE ? node->leaves[i] : node->arrives[i];
        if (other == NONE)
            continue;
        open_slot *open = &ret->opened[ret->open++ < NODE_OPEN_MOST ? ret->open - 1 : 0];
        *open = (open_slot){.slot = (uint16_t)i, .leaves = node->leaves[i] != NONE};
    }
}

bool __wrap_cluster_survey_ask(cluster_survey *ret, const tl_endpoint *login, const tl_seeds *seeds,
                               int32_t rate_ppm);
bool __wrap_cluster_survey_ask(cluster_survey *ret, const tl_endpoint *login, const tl_seeds *seeds,
                               int32_t rate_ppm) {
    (void)login, (void)seeds, (void)rate_ppm;
    int first = world.present->run % world.nodes; /* a run finds them in an order of its own */
    *ret = (cluster_survey){.count = (unsigned)world.nodes};
    ret->of = calloc(ret->count, sizeof *ret->of);
    for (unsigned i = 0; i < ret->count; i++) {
        pass(chance(1000) ? delay() : 0);
        survey_node(&ret->of[i], (int)(i + (unsigned)first) % world.nodes, first);
        ret->answered += ret->of[i].status == 0;
    }
    return true;
}

void __wrap_cluster_survey_end(cluster_survey *survey);
void __wrap_cluster_survey_end(cluster_survey *survey) {
    for (unsigned i = 0; i < survey->count; i++)
        free(survey->of[i].owner);
    free(survey->of);
}

int __wrap_cluster_survey_trouble(const cluster_survey *survey, char *to, size_t size);
int __wrap_cluster_survey_trouble(const cluster_survey *survey, char *to, size_t size) {
    (void)survey;
    (void)snprintf(to, size, "no node replies");
    return STATUS_UNAVAILABLE;
}

/* ---- the scan -------------------------------------------------------------------------------------- */

int __wrap_server_open(const server *where, const char *who, const char *service,
                       tl_client **ret_client);
int __wrap_server_open(const server *where, const char *who, const char *service,
                       tl_client **ret_client) {
    (void)where, (void)who, (void)service;
    *ret_client = (tl_client *)&world;
    return 0;
}

void __wrap_tl_client_close(tl_client *client);
void __wrap_tl_client_close(tl_client *client) {
    (void)client;
}

/* A node's keys, whatever slots it has. */
tl_err __wrap_tl_client_scan(tl_client *client, const char *pattern, uint64_t *cursor,
                             tl_found_fn found, void *ctx, tl_error *err);
tl_err __wrap_tl_client_scan(tl_client *client, const char *pattern, uint64_t *cursor,
                             tl_found_fn found, void *ctx, tl_error *err) {
    const world_node *node = &world.node[*cursor];
    tl_lock_info info = {.size = sizeof info, .held = true, .protocol = TL_TOKEN};
    char key[20];

    (void)client, (void)pattern;
    *err = (tl_error){.code = TL_OK};
    pass(draw(chance(3000) ? 1000 : 20)); /* there may be many keys */
    if (world.present->killed || (node->master && !node->deposed && !node_is_reached(node))) {
        err->code = TL_EUNAVAILABLE;
        return TL_EUNAVAILABLE;
    }
    for (int i = 0; i < TL_SLOTS && node->up && node->master; i++) {
        info.remaining_ms = node->data.slot[i].until_ms - world.now_ms;
        info.stamp_left_ms = INT64_MIN;
        (void)snprintf(key, sizeof key, "key:%d", i);
        if (node->data.slot[i].token && info.remaining_ms > 0)
            found(key, strlen(key), &info, ctx);
    }
    *cursor = (*cursor + 1) % (uint64_t)world.nodes;
    return TL_OK;
}

/* ---- the watch ------------------------------------------------------------------------------------- */

void __wrap_migrate_acl_judge(migrate_work *work, int to, migrate_permissions *permissions,
                              migrate_blockers *ret);
void __wrap_migrate_acl_judge(migrate_work *work, int to, migrate_permissions *permissions,
                              migrate_blockers *ret) {
    (void)work, (void)to, (void)ret;
    *permissions = (migrate_permissions){.users = 1};
}

void __wrap_migrate_watch_begin(migrate_watch *watch, migrate_link *migration, const char *keys,
                                int64_t monitor_ms, int64_t doubt_ms, migrate_traffic *ret);
void __wrap_migrate_watch_begin(migrate_watch *watch, migrate_link *migration, const char *keys,
                                int64_t monitor_ms, int64_t doubt_ms, migrate_traffic *ret) {
    const world_node *node = &world.node[node_of(&migration->link)];

    (void)keys, (void)monitor_ms, (void)doubt_ms;
    pass(delay());
    *ret = (migrate_traffic){.counted = node_is_reached(node) && !world.present->killed,
                             .refused = -1};
    *watch = (migrate_watch){.migration = migration, .seen = ret, .began_ms = world.now_ms};
    watch->base.calls = node->calls;
    (void)snprintf(watch->server, sizeof watch->server, "%d %d", node->run, node->history);
    world.present->watched_from = world.now_ms;
    world.present->watched_to = INT64_MAX;
}

static bool is_same(const migrate_watch *watch) {
    const world_node *node = &world.node[node_of(&watch->migration->link)];
    char server[MIGRATE_RUN_ID];

    (void)snprintf(server, sizeof server, "%d %d", node->run, node->history);
    return node->master && strcmp(server, watch->server) == 0;
}

bool __wrap_migrate_watch_end(migrate_watch *watch);
bool __wrap_migrate_watch_end(migrate_watch *watch) {
    const world_node *node = &world.node[node_of(&watch->migration->link)];

    pass(delay());
    watch->seen->counted = watch->seen->counted && node_is_reached(node) && !world.present->killed;
    watch->seen->calls = node->calls - watch->base.calls;
    watch->seen->watch_ms = world.now_ms - watch->began_ms;
    if (world.now_ms < world.present->watched_to)
        world.present->watched_to = world.now_ms;
    return is_same(watch);
}

bool __wrap_migrate_watch_look(migrate_watch *watch);
bool __wrap_migrate_watch_look(migrate_watch *watch) {
    bool same = __wrap_migrate_watch_end(watch);

    world.present->watched_to = INT64_MAX;
    if (!same)
        __wrap_migrate_watch_begin(watch, watch->migration, watch->keys, 0, 0, watch->seen);
    return same;
}

void __wrap_migrate_watch_pause(migrate_watch *watch, signals *sigs, int64_t ms);
void __wrap_migrate_watch_pause(migrate_watch *watch, signals *sigs, int64_t ms) {
    (void)watch, (void)sigs;
    pass(ms);
}

void __wrap_migrate_watch_glance(migrate_link *migration, const char *keys, migrate_traffic *ret);
void __wrap_migrate_watch_glance(migrate_link *migration, const char *keys, migrate_traffic *ret) {
    (void)migration, (void)keys;
    *ret = (migrate_traffic){.counted = true};
}

/* There is one namespace alone. */
int __wrap_migrate_tell_overlap(migrate_work *work, const char *keys);
int __wrap_migrate_tell_overlap(migrate_work *work, const char *keys) {
    (void)work, (void)keys;
    return 0;
}
