/*
 * local status and local stop: look after the private server that local: URLs use. They never start
 * one, and never end one under a lock that somebody holds unless they are told to.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/js.h"
#include "base/report.h"
#include "base/tool.h"
#include "lock/local_ask.h"
#include "lock/local_demo.h"

#define GONE_MS 10000 /* for its end */
#define NAP_MS 20
#define NAMED_MAX 3 /* holders that a refusal names */
#define NAMED_SIZE 240
#define HOLDER_MOST 160 /* bytes of one of them */

enum { STATUS_STOPPED = 1 }; /* of status */

typedef struct {
    bool json, force;
    int format;
} local_options;

static const opt local_table[] = {
    {'f', "force", OPT_FLAG, offsetof(local_options, force), NULL,
     "stop: even while locks are held; kill a server that does not answer", 0, 0},
    {0, "json", OPT_FLAG, offsetof(local_options, json), NULL, "status: one line of JSON", 0, 0},
    {0, "format", OPT_CHOICE, offsetof(local_options, format), "text|json", "json: as --json", 0,
     0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

/* The server and what it says of itself. */
typedef struct {
    tl_endpoint endpoint;
    const char *url; /* NULL: the default */
    int dir;
    bool alive;
    int64_t pid, uptime_s, keys;
    char version[32];
    int64_t locks;
    char named[NAMED_MAX * NAMED_SIZE]; /* "KEY by HOLDER, ..." */
} local;

/* ---- what it says of itself ------------------------------------------------------------------ */

static tl_bytes field(tl_bytes info, const char *name) {
    const char *at = memmem(info.p, info.n, name, strlen(name));
    if (!at)
        return (tl_bytes){"", 0};
    at += strlen(name);
    size_t n = 0;
    while (at + n < info.p + info.n && at[n] != '\r' && at[n] != '\n')
        n++;
    return tl__bytes(at, n);
}

static bool take_info(void *ctx, const tl_reply *reply) {
    local *l = ctx;
    tl_bytes info;

    if (!tl__reply_text(reply, &info))
        return false;
    tl__bytes_print(l->version, sizeof l->version, field(info, "redis_version:"));
    return tl__bytes_to_int(field(info, "process_id:"), &l->pid) &&
           tl__bytes_to_int(field(info, "uptime_in_seconds:"), &l->uptime_s);
}

static bool take_count(void *ctx, const tl_reply *reply) {
    local *l = ctx;
    return tl__reply_int(reply, &l->keys);
}

/* ---- its locks ------------------------------------------------------------------------------- */

/* One batch of SCAN: copies of the names. */
typedef struct {
    char cursor[TL_INT_SIZE];
    char **name;
    size_t *len, count;
} batch;

static void batch_clear(batch *b) {
    for (size_t i = 0; i < b->count; i++)
        free(b->name[i]);
    free(b->name);
    free(b->len);
    b->name = NULL;
    b->len = NULL;
    b->count = 0;
}

static bool take_batch(void *ctx, const tl_reply *reply) {
    batch *b = ctx;
    tl_bytes text;
    const tl_reply *names = tl__reply_item(reply, 1);

    if (!names || names->type != TL_REPLY_ARRAY || !tl__reply_text(tl__reply_item(reply, 0), &text))
        return false;
    tl__bytes_print(b->cursor, sizeof b->cursor, text);
    b->name = calloc(names->count + 1, sizeof *b->name);
    b->len = calloc(names->count + 1, sizeof *b->len);
    for (size_t i = 0; b->name && b->len && i < names->count; i++) {
        if (!tl__reply_text(&names->items[i], &text) || text.n == 0)
            continue;
        b->name[b->count] = malloc(text.n);
        if (!b->name[b->count])
            return false;
        memcpy(b->name[b->count], text.p, text.n);
        b->len[b->count++] = text.n;
    }
    return b->name && b->len;
}

/* The lock that a sidecar stands beside (see src/wire/keys.h); false: the name is no sidecar's. */
static bool lock_of(tl_bytes name, tl_bytes *ret) {
    static const char before[] = "tidelock:{", after[] = ":tidelock";
    size_t b = sizeof before - 1, a = sizeof after - 1;

    if (name.n > b + 1 && memcmp(name.p, before, b) == 0 && name.p[name.n - 1] == '}')
        *ret = tl__bytes(name.p + b, name.n - b - 1);
    else if (name.n > a && memcmp(name.p + name.n - a, after, a) == 0)
        *ret = tl__bytes(name.p, name.n - a);
    else
        return false;
    return true;
}

/* A slot's fencing counter, or what is known of the server's run. */
static bool is_counter(tl_bytes name) {
    static const char before[] = "tidelock:fence:{", reign[] = "tidelock:reign";
    if (name.n == sizeof reign - 1 && memcmp(name.p, reign, name.n) == 0)
        return true;
    return name.n > sizeof before && memcmp(name.p, before, sizeof before - 1) == 0 &&
           name.p[name.n - 1] == '}';
}

static void name_holder(local *l, tl_bytes key, const tl_lock_info *info) {
    char who[HOLDER_SHOWN];
    char shown[64];
    size_t used = strlen(l->named);

    if (l->locks > NAMED_MAX)
        return;
    tl__bytes_print(shown, sizeof shown, key);
    (void)snprintf(l->named + used, sizeof l->named - used, "%s%s by %.*s", used ? ", " : "", shown,
                   HOLDER_MOST, report_who(who, info));
}

/* Each lock is counted once: by its sidecar, or by its own name when no tidelock client has it. */
static bool count_lock(local *l, tl_client *client, tl_bytes name, tl_error *err) {
    tl_lock_info info = {.size = sizeof info};
    tl_bytes key = name;
    bool sidecar = lock_of(name, &key);

    if (key.n > TL_KEY_MAX || is_counter(name))
        return true;
    if (tl_client_look(client, key.p, key.n, &info, err))
        return false;
    if (!info.held || info.by_tidelock != sidecar)
        return true;
    l->locks++;
    name_holder(l, key, &info);
    return true;
}

static int count_locks(local *l, local_line *to, tl_client *client) {
    batch b = {.cursor = "0"};
    tl_error err;
    bool ok = true;

    do {
        char cursor[TL_INT_SIZE];
        memcpy(cursor, b.cursor, sizeof cursor);
        const char *const request[] = {"SCAN", cursor, "COUNT", "1000", NULL};
        if (!local_ask(to, request, take_batch, &b)) {
            batch_clear(&b);
            return fail(STATUS_UNAVAILABLE, "local: %s", to->message);
        }
        for (size_t i = 0; ok && i < b.count; i++)
            ok = count_lock(l, client, tl__bytes(b.name[i], b.len[i]), &err);
        batch_clear(&b);
    } while (ok && strcmp(b.cursor, "0") != 0);
    return ok ? 0 : fail(status_of(err.code), "%s", err.message);
}

/* ---- finding it ------------------------------------------------------------------------------ */

/* The URL, where it is one of local:; TIDELOCK_URL may well name another server. */
static int find_place(const server *s, local *l) {
    tl_error err;
    bool is_local = server_is_local(s);

    if (s->url && !is_local && !s->from_env)
        return fail(STATUS_USAGE, "local: the URL is not one of local:");
    l->url = is_local ? s->url : NULL;
    if (tl__endpoint_parse(&l->endpoint, NULL, is_local ? s->url : "local:", &err))
        return fail(is_local && !s->from_env ? STATUS_USAGE : STATUS_CONFIG, "%s", err.message);
    l->endpoint.only_find = true;
    return 0;
}

static int find_server(const server *s, local *l) {
    tl_local_problem problem;

    *l = (local){.dir = -1};
    int status = find_place(s, l);
    if (status)
        return status;
    l->dir = tl__local_open_dir(l->endpoint.dir, false, &problem);
    if (l->dir < 0 && problem.code)
        return fail(status_of(problem.code), "%s", problem.words);
    l->alive = l->dir >= 0 && tl__local_is_alive(l->dir);
    if (!l->alive && tl__local_is_hidden(l->endpoint.dir, &problem))
        return fail(status_of(problem.code), "%s", problem.words);
    l->pid = l->alive ? tl__local_pid(l->dir) : 0;
    return 0;
}

static int ask_all(local *l, local_line *to) {
    static const char *const info[] = {"INFO", "server", NULL}, *const size[] = {"DBSIZE", NULL};
    tl_client_options options = TL_CLIENT_OPTIONS(.url = l->url, .connect_ms = LOCAL_ANSWER_MS);
    tl_client *client;
    tl_error err;

    if (!local_ask(to, info, take_info, l) || !local_ask(to, size, take_count, l))
        return fail(STATUS_UNAVAILABLE, "%s (pid %lld; \"tidelock local stop --force\" kills it)",
                    to->message, (long long)l->pid);
    if (tl_client_open(&options, &client, &err))
        return fail(status_of(err.code), "%s", err.message);
    int status = count_locks(l, to, client);
    tl_client_close(client);
    return status;
}

/* ---- status ---------------------------------------------------------------------------------- */

static int status_json(const local *l) {
    json_t *j = json_pack("{s:s}", "state", l->alive ? "running" : "stopped");

    js_set(&j, "socket", js_text(l->endpoint.path));
    js_set(&j, "pid", js_known(l->alive ? l->pid : -1));
    js_set(&j, "version", js_text(l->alive ? l->version : NULL));
    js_set(&j, "uptime_ms", js_known(l->alive ? l->uptime_s * 1000 : -1));
    js_set(&j, "keys", js_known(l->alive ? l->keys : -1));
    js_set(&j, "locks", js_known(l->alive ? l->locks : -1));
    js_set(&j, "data", js_text(l->endpoint.dir));
    return js_line(j, STDOUT_FILENO);
}

static int status_text(const local *l) {
    char uptime[DURATION_SHOWN];
    char path[2 * TL_PATH_SIZE];

    tl__bytes_print(path, sizeof path, tl__bytes_of(l->endpoint.path));
    printf("%s\nsocket   %s\n", l->alive ? "running" : "not running", path);
    if (l->alive)
        printf("pid      %lld\nversion  %s\nuptime   %s\nkeys     %lld\nlocks    %lld\n",
               (long long)l->pid, l->version,
               l->uptime_s ? show_ms(uptime, l->uptime_s * 1000) : "less than 1 s",
               (long long)l->keys, (long long)l->locks);
    tl__bytes_print(path, sizeof path, tl__bytes_of(l->endpoint.dir));
    printf("data     %s\n", path);
    return fflush(stdout);
}

static int show_status(local *l, local_line *to, bool as_json) {
    int status = l->alive ? ask_all(l, to) : 0;

    if (status)
        return status;
    if (as_json ? status_json(l) : status_text(l))
        return fail(STATUS_INTERNAL, "local: standard output: %s", strerror(errno));
    return l->alive ? STATUS_OK : STATUS_STOPPED;
}

/* ---- stop ------------------------------------------------------------------------------------ */

static int await_end(const local *l) {
    tl_mono by = tl__mono_add_ms(tl__mono_now(), GONE_MS);

    while (tl__local_is_alive(l->dir)) {
        if (!tl__mono_before(tl__mono_now(), by))
            return fail(STATUS_UNAVAILABLE, "local: the server (pid %lld) has not ended in %d s",
                        (long long)l->pid, GONE_MS / 1000);
        (void)poll(NULL, 0, NAP_MS);
    }
    return 0;
}

/* The lock on the directory shows that it lives, so the pid is still its own. Its sockets are closed
 * some time after that lock is gone: wait for its end itself, where the kernel tells it. */
static bool kill_it(const local *l) {
    bool ok = l->pid > 0 && tl__local_is_alive(l->dir);
    struct pollfd p = {.fd = -1, .events = POLLIN};

#ifdef SYS_pidfd_open
    if (ok)
        p.fd = (int)syscall(SYS_pidfd_open, (pid_t)l->pid, 0);
#endif
    ok = ok && kill((pid_t)l->pid, SIGKILL) == 0;
    if (ok && p.fd >= 0)
        (void)poll(&p, 1, GONE_MS);
    if (p.fd >= 0)
        close(p.fd);
    return ok;
}

static int stop_by_force(local *l, local_line *to) {
    static const char *const info[] = {"INFO", "server", NULL};
    static const char *const shutdown[] = {"SHUTDOWN", NULL};

    if (local_ask(to, info, take_info, l)) {
        (void)local_ask(to, shutdown, NULL, NULL); /* the answer is its end */
        return await_end(l);
    }
    return kill_it(l) ? await_end(l)
                      : fail(STATUS_UNAVAILABLE, "%s, and its pid is not known", to->message);
}

static int stop(local *l, local_line *to, bool force) {
    static const char *const shutdown[] = {"SHUTDOWN", NULL};

    if (!l->alive)
        return 0;
    if (force)
        return stop_by_force(l, to);
    int status = ask_all(l, to);
    if (status)
        return status;
    if (l->locks > 0)
        return fail(STATUS_REFUSED, "local stop: %lld lock%s held (%s%s); --force stops it anyway",
                    (long long)l->locks, l->locks == 1 ? " is" : "s are", l->named,
                    l->locks > NAMED_MAX ? ", ..." : "");
    (void)local_ask(to, shutdown, NULL, NULL);
    return await_end(l);
}

/* ---- the row --------------------------------------------------------------------------------- */

/* Beside the directory of the private server, which it has nothing to do with. */
static int demo(const server *s, const local_options *o, const operands *args) {
    local l = {.dir = -1};
    if (o->json || o->format || o->force)
        return fail(STATUS_USAGE, "local demo: it takes no options");
    if (args->count < 2)
        return fail(STATUS_USAGE,
                    "local demo: say sentinel, cluster, quorum, etcd, status or stop");
    int status = find_place(s, &l);
    return status ? status : local_demo(l.endpoint.dir, args->word[1]);
}

static int local_function(const server *s, const void *given, const operands *args) {
    const local_options *o = given;
    const char *what = args->word[0];
    bool stops = strcmp(what, "stop") == 0;
    local l;
    local_line to;

    if (strcmp(what, "demo") == 0)
        return demo(s, o, args);
    if (!stops && strcmp(what, "status") != 0)
        return fail(STATUS_USAGE, "local: say status, stop or demo");
    if (args->count > 1)
        return fail(STATUS_USAGE, "local %s: too many arguments", what);
    if (stops ? o->json || o->format : o->force)
        return fail(STATUS_USAGE, "local %s: %s is not for this", what,
                    stops ? "--json" : "--force");
    int status = find_server(s, &l);
    if (status == 0 && !local_ask_open(&to, &l.endpoint, false))
        status = fail(STATUS_INTERNAL, "out of memory");
    if (status == 0) {
        status = stops ? stop(&l, &to, o->force) : show_status(&l, &to, o->json || o->format);
        local_ask_close(&to);
    }
    if (l.dir >= 0)
        close(l.dir);
    return status;
}

const command local_row = {
    .name = "local",
    .usage = "[options] status|stop|demo sentinel|cluster|quorum|etcd|status|stop",
    .help = "look after this user's private server, used without a URL",
    .notes =
        "It is started when it is first needed. \"stop\" refuses while locks are held.\n"
        "\"demo sentinel\" (or cluster, quorum, etcd) starts several servers on this host to try such a URL "
        "with, and prints it; \"demo stop\" ends them, \"demo status\" shows them.\n"
        "Exit status: 0 it runs, or is stopped now; status: 1 it does not run.\n",
    .options = local_table,
    .size = sizeof(local_options),
    .args_min = 1,
    .args_max = 2,
    .function = local_function,
};
