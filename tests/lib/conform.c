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

#define TESTS_MAX 64
#define NAME_SIZE 160
#define SKIP 77

struct conform_kind {
    const char *name;
    void *(*start)(void);
    void (*stop)(void *server);
    int (*port)(void *server);
    redisContext *(*connect)(void *server);
    /** Commands so far of those that came by TCP. */
    uint64_t (*count)(void *server);
    bool asks_by_tcp; /**< connect's own commands are among them */
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

/* ---- rows -------------------------------------------------------------------------------------- */

static const conform_kind kinds[] = {
    {"fake", fake_start, fake_stop, fake_port, fake_connect, fake_count, true},
    {"real redis-server", real_start, real_stop, real_port, real_connect, real_count, false},
};

#define KINDS (sizeof kinds / sizeof *kinds)

static const struct {
    const char *name;
    tl_protocol_id id;
} protocols[] = {
    {"token", TL_TOKEN},
};

/* ---- running ----------------------------------------------------------------------------------- */

static int set_up(void **state) {
    static unsigned tests;
    conform *c = *state;
    (void)snprintf(c->key, sizeof c->key, "conform:%u", ++tests);
    return 0;
}

static int tear_down(void **state) {
    conform *c = *state;
    int failed = locks_clean_up(state);
    proxy_free(c->proxy);
    c->proxy = NULL;
    return failed;
}

static int run_row(conform *c, const char *row, const conform_test *tests, size_t count) {
    static char names[TESTS_MAX][NAME_SIZE];
    struct CMUnitTest units[TESTS_MAX] = {0};
    if (count > TESTS_MAX)
        return 1;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], NAME_SIZE, "%s [%s]", tests[i].name, row);
        units[i] = (struct CMUnitTest){names[i], tests[i].run, set_up, tear_down, c};
    }
    return _cmocka_run_group_tests(row, units, count, NULL, NULL);
}

static int run_kind(const conform_kind *kind, const conform_test *tests, size_t count) {
    int failed = 0;
    void *server = kind->start();
    for (size_t p = 0; p < sizeof protocols / sizeof *protocols; p++) {
        char row[64];
        conform c = {.protocol = protocols[p].id, .kind = kind, .server = server};
        c.port = kind->port(server);
        c.context = kind->connect(server);
        (void)snprintf(c.url, sizeof c.url, "redis://127.0.0.1:%d", c.port);
        (void)snprintf(row, sizeof row, "%s, %s", protocols[p].name, kind->name);
        failed += run_row(&c, row, tests, count);
        redisFree(c.context);
    }
    kind->stop(server);
    return failed;
}

/* ---- side by side ------------------------------------------------------------------------------ */

/* The tests mostly wait: so each kind of server has a process of its own, and what they say is put
 * together at the end. */
typedef struct {
    pid_t pid;
    FILE *says;
} child;

static child start(const conform_kind *kind, const conform_test *tests, size_t count) {
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
    exit(run_kind(kind, tests, count) ? 1 : 0);
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

int conform_run(const conform_test *tests, size_t count, const char *only) {
    child children[KINDS];
    int result = 0;
    if (only)
        cmocka_set_test_filter(only);
    for (size_t k = 0; k < KINDS; k++)
        children[k] = start(&kinds[k], tests, count);
    for (size_t k = 0; k < KINDS; k++) {
        int status = end(children[k]);
        if (status != 0 && (result == 0 || result == SKIP))
            result = status;
    }
    return result;
}

/* ---- for tests --------------------------------------------------------------------------------- */

tl_client *conform_client_with(conform *c, tl_client_options options) {
    options.protocol = c->protocol;
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
    return make_lock(client, c->key, ttl_ms);
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
