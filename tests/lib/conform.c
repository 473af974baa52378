/*
 * Rows of protocols and servers, and what a test needs of each.
 */
#include "conform.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_tcp.h"
#include "real_redis.h"

#define NAME_SIZE 160
#define SKIP 77
/* Stamps: with the least margins and the longest legacy lifetime any lifetime of our own will do, and is
 * believed but for some ms. Strict writes the legacy lifetime, which so is shorter; and it gives its
 * requests no longer than the lag, which so is longer, and releases only what lasts for longer than a request may take. */
#define STRICT_LAG_MS 10000
#define STAMPS_LACK (CONFORM_GARBAGE | CONFORM_RUNTIME | CONFORM_SAYS_REST)
#define SCRIPTS_LACK (STAMPS_LACK | CONFORM_NO_SCRIPTS)
/* By WATCH an operation takes two round trips, which a lifetime of some ms does not leave on a busy machine, and
 * of a first one that is lost nothing is in doubt. */
#define WATCH_LACKS                                                                                \
    (SCRIPTS_LACK | CONFORM_SCRIPTS | CONFORM_CLEANING | CONFORM_ONE_STEP | CONFORM_SHORT |        \
     CONFORM_EXPIRY | CONFORM_REST)
#define STRICT_LACKS                                                                               \
    (CONFORM_FENCE | CONFORM_RENEWAL | CONFORM_EXPIRY | CONFORM_SIDECAR | CONFORM_CLEANING |       \
     CONFORM_OWN_TOKEN | CONFORM_ONE_STEP | CONFORM_SHORT)

struct conform_kind {
    const char *name;
    void *(*start)(void);
    void (*stop)(void *server);
    int (*port)(void *server);
    redisContext *(*connect)(void *server);
    /** Commands so far of those that came by TCP. */
    uint64_t (*count)(void *server);
    /** Connections by TCP. */
    size_t (*connections)(void *server);
    bool asks_by_tcp; /**< connect's own connection and its commands are among them */
};

/* ---- the fake server, over TCP ----------------------------------------------------------------- */

static void *fake_start(void) {
    return fake_tcp_start(NULL);
}

static void fake_stop(void *server) {
    fake_tcp_free(server);
}

static int fake_port(void *server) {
    return fake_tcp_port(server);
}

static redisContext *fake_connect(void *server) {
    redisContext *context = redisConnect("127.0.0.1", fake_tcp_port(server));
    assert_true(context && !context->err);
    return context;
}

static uint64_t fake_count(void *server) {
    return fake_tcp_count(server, NULL);
}

static size_t fake_connections(void *server) {
    return fake_tcp_connections(server);
}

/* ---- a real redis-server ----------------------------------------------------------------------- */

typedef struct {
    real_redis *redis;
    redisContext *monitor;
    uint64_t count, marks;
} real_server;

static void *real_start(void) {
    static real_server server;
    server = (real_server){.redis = real_redis_start(NULL)};
    return &server;
}

static void real_stop(void *server) {
    real_server *s = server;
    redisFree(s->monitor);
    real_redis_free(s->redis);
}

static int real_port(void *server) {
    return real_redis_port(((real_server *)server)->redis);
}

static redisContext *real_connect(void *server) {
    return real_redis_connect(((real_server *)server)->redis);
}

/* What MONITOR tells, up to a command of our own, which comes by the unix socket. */
static uint64_t real_count(void *server) {
    real_server *s = server;
    char mark[32];
    bool seen = false;
    if (!s->monitor) {
        s->monitor = real_connect(s);
        freeReplyObject(redisCommand(s->monitor, "MONITOR"));
    }
    (void)snprintf(mark, sizeof mark, "mark-%llu", (unsigned long long)++s->marks);
    freeReplyObject(real_redis_command(s->redis, "ECHO %s", mark));
    while (!seen) {
        redisReply *line = NULL;
        assert_int_equal(redisGetReply(s->monitor, (void **)&line), REDIS_OK);
        seen = strstr(line->str, mark) != NULL;
        s->count += strstr(line->str, " 127.0.0.1:") != NULL;
        freeReplyObject(line);
    }
    return s->count;
}

static size_t real_connections(void *server) {
    return real_redis_clients(((real_server *)server)->redis);
}

/* ---- rows -------------------------------------------------------------------------------------- */

static const conform_kind kinds[] = {
    {"fake", fake_start, fake_stop, fake_port, fake_connect, fake_count, fake_connections, true},
    {"real redis-server", real_start, real_stop, real_port, real_connect, real_count,
     real_connections, false},
};

#define KINDS (sizeof kinds / sizeof *kinds)

static const conform_row rows[] = {
    {.name = "token", .protocol = TL_TOKEN},
#ifdef TL_COMPAT
    {.name = "bridge", .protocol = TL_BRIDGE, .stamps = true, .lacks = SCRIPTS_LACK},
    {.name = "timestamp", .protocol = TL_TIMESTAMP, .stamps = true, .lacks = SCRIPTS_LACK},
    {.name = "timestamp, no Lua module",
     .protocol = TL_TIMESTAMP,
     .stamps = true,
     .engineless = true,
     .lacks = WATCH_LACKS},
    {.name = "strict",
     .protocol = TL_TIMESTAMP,
     .stamps = true,
     .strict = true,
     .lacks = STAMPS_LACK | STRICT_LACKS | CONFORM_REST},
    {.name = "auto, draining",
     .protocol = TL_AUTO,
     .phase = 2,
     .lacks = CONFORM_RUNTIME | CONFORM_NO_SCRIPTS | CONFORM_SAYS_REST},
    {.name = "auto, tokens",
     .protocol = TL_AUTO,
     .phase = 3,
     .lacks = CONFORM_RUNTIME | CONFORM_NO_SCRIPTS},
#endif
};

#define ROWS (sizeof rows / sizeof *rows)

/* Why a row doesn't promise what a test is about, bit by bit. */
static const char *const reasons[CONFORM_NEEDS] = {
    "it has no fence",
    "K's lifetime only collects garbage",
    "without EVAL nothing is renewed or extended",
    "without EVAL a key that wasn't released is held for the legacy lifetime at least",
    "without EVAL no release is announced: who waits polls",
    "without EVAL nothing that may be left over is cleaned up",
    "without EVAL the stamp is the token, and two of one millisecond are equal",
    "without EVAL a release is a GET and a DEL",
    "it uses scripts",
    "without EVAL a lifetime is longer than a request may take, twice",
    "it is shown with tokens",
    "its locks can't rest",
    "a stamp doesn't say that it rests",
    "its server runs no scripts",
};

/* ---- running ----------------------------------------------------------------------------------- */

static int set_up(void **state) {
    static unsigned tests;
    conform *c = *state;
    (void)snprintf(c->key, sizeof c->key, "conform:%u", ++tests);
    if (c->row->phase) /* another test may have flushed it away */
        conform_do(c,
                   "HMSET tidelock:phase:{default} phase %d epoch 1 lease_ms 30000 since 1 keys *",
                   c->row->phase);
    return 0;
}

/* What a client sent as it was closed may be read later: then the next test would count it. */
static int tear_down(void **state) {
    conform *c = *state;
    int failed = locks_clean_up(state);
    proxy_free(c->proxy);
    c->proxy = NULL;
    WAIT_FOR(SOON_MS, c->kind->connections(c->server) <= (c->kind->asks_by_tcp ? 1 : 0));
    return failed;
}

/* Is it among this row's promises? */
static bool is_promised(const conform_row *row, unsigned needs, const char *name) {
    unsigned lacking = row->lacks & needs;
    if (needs & CONFORM_IS_OF_STAMPS && !row->stamps)
        return false;
    for (unsigned i = 0; i < CONFORM_NEEDS; i++)
        if (lacking & 1U << i) {
            (void)printf("[ NO PROMISE ] %s: %s\n", name, reasons[i]);
            return false;
        }
    return true;
}

static void open_server(conform *c) {
    c->server = c->kind->start();
    if (c->row->engineless && c->kind->start == fake_start) {
        fake_redis_set_engineless(fake_tcp_lock(c->server), true);
        fake_tcp_unlock(c->server);
    }
    c->port = c->kind->port(c->server);
    c->context = c->kind->connect(c->server);
    (void)snprintf(c->url, sizeof c->url, "redis://127.0.0.1:%d", c->port);
}

static void close_server(conform *c) {
    redisFree(c->context);
    c->kind->stop(c->server);
}

/* A real one without its Lua module (REDIS_SERVER) is shown by the row for that alone. */
static bool runs_scripts(conform *c) {
    redisReply *reply = redisCommand(c->context, "EVAL %s 0", "return 1");
    bool runs = reply && reply->type == REDIS_REPLY_INTEGER;
    freeReplyObject(reply);
    c->asked++;
    return runs;
}

static int run_row(const conform_kind *kind, const conform_row *row) {
    static char names[TESTS_MAX][NAME_SIZE];
    struct CMUnitTest units[TESTS_MAX] = {0};
    conform c = {.protocol = row->protocol, .row = row, .kind = kind};
    size_t count, n = 0;
    const tests_entry *tests = tests_all(&count);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], NAME_SIZE, "%s [%s, %s]", tests[i].name, row->name, kind->name);
        if (is_promised(row, tests[i].marks, names[i]))
            units[n++] = (struct CMUnitTest){names[i], tests[i].run, set_up, tear_down, &c};
    }
    if (n == 0)
        return 0;
    open_server(&c);
    int failed = runs_scripts(&c) != row->engineless
                     ? _cmocka_run_group_tests(row->name, units, n, NULL, NULL)
                     : 0;
    close_server(&c);
    return failed;
}

/* ---- side by side ------------------------------------------------------------------------------ */

/* The tests mostly wait: so each row with each kind of server has a process of its own, and what they
 * say is put together at the end. */
typedef struct {
    pid_t pid;
    FILE *says;
} child;

static child start(const conform_kind *kind, const conform_row *row) {
    const pid_t parent = getpid();
    child c = {.says = tmpfile()};
    if (!c.says || (c.pid = fork()) < 0) {
        perror("conform");
        exit(1);
    }
    if (c.pid > 0)
        return c;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        exit(1);
    (void)dup2(fileno(c.says), 1);
    (void)dup2(fileno(c.says), 2);
    exit(run_row(kind, row) ? 1 : 0);
}

static int end(child c) {
    char line[512];
    int status;
    if (waitpid(c.pid, &status, 0) != c.pid)
        return 1;
    rewind(c.says);
    while (fgets(line, sizeof line, c.says))
        (void)fputs(line, stdout);
    (void)fclose(c.says);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int conform_run(void) {
    child children[KINDS * ROWS];
    const char *only = getenv("TEST_ONLY");
    size_t count;
    (void)tests_all(&count);
    int result = count ? 0 : 1;
    if (only)
        cmocka_set_test_filter(only);
    /* Another server than usual is asked for: of it the fake shows nothing. */
    const size_t first = getenv("REDIS_SERVER") ? (KINDS - 1) * ROWS : 0;
    for (size_t i = first; i < KINDS * ROWS; i++)
        children[i] = start(&kinds[i / ROWS], &rows[i % ROWS]);
    for (size_t i = first; i < KINDS * ROWS; i++) {
        int status = end(children[i]);
        if (status != 0 && (result == 0 || result == SKIP))
            result = status;
    }
    return result;
}

/* ---- for tests --------------------------------------------------------------------------------- */

bool conform_has(const conform *c, unsigned need) {
    return !(c->row->lacks & need);
}

void conform_needs_server(const conform *c, real_server_ability what) {
    if (c->kind->start == real_start)
        NEEDS_SERVER(what);
}

tl_client *conform_client_with(conform *c, tl_client_options options) {
    tl_legacy_options legacy = options.legacy ? *options.legacy : TL_LEGACY_OPTIONS(0);
    options.protocol = c->protocol;
    if (!legacy.clock_skew_max_ms) {
        legacy.clock_skew_max_ms = 1;
        legacy.legacy_delay_max_ms = c->row->strict ? STRICT_LAG_MS : 1;
        legacy.legacy_ttl_min_ms = c->row->strict ? STRICT_TTL_MS : TL_TTL_MAX_MS;
    }
    legacy.strict = c->row->strict;
    if (c->row->strict && !options.attempt_ms)
        options.attempt_ms = STRICT_LAG_MS;
    options.legacy = c->row->stamps || c->row->phase ? &legacy : NULL;
    if (!options.url)
        options.url = c->url;
    return make_client_with(options);
}

tl_client *conform_client(conform *c) {
    return conform_client_with(c, TL_CLIENT_OPTIONS(0));
}

tl_lock *conform_lock_with(conform *c, tl_client *client, tl_lock_options options) {
    return make_lock_with(client, c->key, options);
}

tl_lock *conform_lock(conform *c, tl_client *client, int64_t ttl_ms) {
    return conform_lock_with(c, client, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms));
}

proxy *conform_proxy(conform *c) {
    if (!c->proxy)
        c->proxy = proxy_start(c->port);
    return c->proxy;
}

static redisReply *ask(conform *c, const char *format, va_list args) {
    c->asked++;
    redisReply *reply = redisvCommand(c->context, format, args);
    if (!reply)
        fail_msg("%s: %s", format, c->context->errstr);
    return reply;
}

long long conform_int(conform *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = ask(c, format, args);
    va_end(args);
    long long n = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return n;
}

void conform_do(conform *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = ask(c, format, args);
    va_end(args);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    freeReplyObject(reply);
}

static void move_sidecar(conform *c, const char *from, const char *to, const char *in_its_place) {
    static const char script[] =
        "redis.call('DEL', KEYS[2]) "
        "redis.call('HMSET', KEYS[2], unpack(redis.call('HGETALL', KEYS[1]))) "
        "redis.call('DEL', KEYS[1]) "
        "if ARGV[1] ~= '' then redis.call('SET', KEYS[1], ARGV[1]) end";
    conform_do(c, "EVAL %s 2 %s:{%s} %s:{%s} %s", script, from, c->key, to, c->key, in_its_place);
}

/* A lock that is renewed is known to its sidecar from its first renewal on. */
void conform_spoil(conform *c) {
    WAIT_FOR(SOON_MS, conform_int(c, "EXISTS tidelock:{%s}", c->key) == 1);
    move_sidecar(c, "tidelock", "away", "string");
}

void conform_heal(conform *c) {
    move_sidecar(c, "away", "tidelock", "");
}

bool conform_holds(conform *c, const char *key, const char *text) {
    c->asked++;
    redisReply *reply = redisCommand(c->context, "GET %s", key);
    bool is = reply && (text ? reply->type == REDIS_REPLY_STRING && strcmp(reply->str, text) == 0
                             : reply->type == REDIS_REPLY_NIL);
    freeReplyObject(reply);
    return is;
}

uint64_t conform_count(conform *c) {
    return c->kind->count(c->server) - (c->kind->asks_by_tcp ? c->asked : 0);
}
