/*
 * local status and local stop: look after the private server that local: URLs use. They never start a
 * server. Without --force they never stop one while a lock is held.
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

#define GONE_MS 10000 /* limit for the server's end */
#define NAP_MS 20
#define NAMED_MAX 3 /* how many holders a refusal names */
#define NAMED_SIZE 240
#define HOLDER_MOST 160 /* bytes of one holder */

enum { STATUS_STOPPED = 1 }; /* of `local status` */

typedef struct {
    bool json, force;
    int format;
} local_options;

static const opt local_table[] = {
    {'f', "force", OPT_FLAG, offsetof(local_options, force), NULL,
     "stop: even while locks are held; kill a server that doesn't respond", 0, 0},
    {0, "json", OPT_FLAG, offsetof(local_options, json), NULL, "status: print one line of JSON", 0,
     0},
    OPT_RARE_FOLLOW,
    {0, "format", OPT_CHOICE, offsetof(local_options, format), "text|json", "json: as --json", 0,
     0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

/* The server, and what it says of itself. */
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

/* ---- the server's replies -------------------------------------------------------------------- */

static tl_bytes field(tl_bytes info, const char *name) {
    tl_bytes rest = tl__bytes_after(info, name);
    tl_bytes line = tl__bytes_take(&rest, '\n');
    return tl__bytes_take(&line, '\r');
}

static bool take_info(void *ctx, const tl_reply *reply) {
    local *local = ctx;
    tl_bytes info;

    if (!tl__reply_text(reply, &info))
        return false;
    tl__bytes_print(local->version, sizeof local->version, field(info, "redis_version:"));
    return tl__bytes_to_int(field(info, "process_id:"), &local->pid) &&
           tl__bytes_to_int(field(info, "uptime_in_seconds:"), &local->uptime_s);
}

static bool take_count(void *ctx, const tl_reply *reply) {
    local *local = ctx;
    return tl__reply_int(reply, &local->keys);
}

/* ---- locks on the server --------------------------------------------------------------------- */

/* One batch of SCAN: copies of the names. */
typedef struct {
    char cursor[TL_INT_SIZE];
    char **name;
    size_t *len, count;
} batch;

static void batch_clear(batch *batch) {
    for (size_t i = 0; i < batch->count; i++)
        free(batch->name[i]);
    free(batch->name);
    free(batch->len);
    batch->name = NULL;
    batch->len = NULL;
    batch->count = 0;
}

static bool take_batch(void *ctx, const tl_reply *reply) {
    batch *batch = ctx;
    tl_bytes text;
    const tl_reply *names = tl__reply_item(reply, 1);

    if (!names || names->type != TL_REPLY_ARRAY || !tl__reply_text(tl__reply_item(reply, 0), &text))
        return false;
    tl__bytes_print(batch->cursor, sizeof batch->cursor, text);
    batch->name = calloc(names->count + 1, sizeof *batch->name);
    batch->len = calloc(names->count + 1, sizeof *batch->len);
    for (size_t i = 0; batch->name && batch->len && i < names->count; i++) {
        if (!tl__reply_text(&names->items[i], &text) || text.n == 0)
            continue;
        batch->name[batch->count] = malloc(text.n);
        if (!batch->name[batch->count])
            return false;
        memcpy(batch->name[batch->count], text.p, text.n);
        batch->len[batch->count++] = text.n;
    }
    return batch->name && batch->len;
}

/* The key of the lock to which a sidecar belongs (see src/wire/keys.h); false: the name is no sidecar's. */
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

/* A slot's fencing counter, or the key that identifies the server's run? */
static bool is_counter(tl_bytes name) {
    static const char before[] = "tidelock:fence:{", reign[] = "tidelock:reign";
    if (name.n == sizeof reign - 1 && memcmp(name.p, reign, name.n) == 0)
        return true;
    return name.n > sizeof before && memcmp(name.p, before, sizeof before - 1) == 0 &&
           name.p[name.n - 1] == '}';
}

static void name_holder(local *local, tl_bytes key, const tl_lock_info *info) {
    char who[HOLDER_SHOWN];
    char shown[64];
    size_t used = strlen(local->named);

    if (local->locks > NAMED_MAX)
        return;
    tl__bytes_print(shown, sizeof shown, key);
    (void)snprintf(local->named + used, sizeof local->named - used, "%s%s by %.*s",
                   used ? ", " : "", shown, HOLDER_MOST, report_who(who, info));
}

/* Each lock is counted once: by its sidecar if a tidelock client holds it, else by its own key. A lock that rests
 * isn't counted: nobody holds it, and the server keeps it when it is stopped. */
static bool count_lock(local *local, tl_client *client, tl_bytes name, tl_error *err) {
    tl_lock_info info = {.size = sizeof info};
    tl_bytes key = name;
    bool sidecar = lock_of(name, &key);

    if (key.n > TL_KEY_MAX || is_counter(name))
        return true;
    if (tl_client_look(client, key.p, key.n, &info, err))
        return false;
    if (!info.held || info.rests || info.by_tidelock != sidecar)
        return true;
    local->locks++;
    name_holder(local, key, &info);
    return true;
}

static int count_locks(local *local, local_line *to, tl_client *client) {
    batch batch = {.cursor = "0"};
    tl_error err;
    bool ok = true;

    do {
        char cursor[TL_INT_SIZE];
        memcpy(cursor, batch.cursor, sizeof cursor);
        const char *const request[] = {"SCAN", cursor, "COUNT", "1000", NULL};
        if (!local_ask(to, request, take_batch, &batch)) {
            batch_clear(&batch);
            return fail(STATUS_UNAVAILABLE, "local: %s", to->message);
        }
        for (size_t i = 0; ok && i < batch.count; i++)
            ok = count_lock(local, client, tl__bytes(batch.name[i], batch.len[i]), &err);
        batch_clear(&batch);
    } while (ok && strcmp(batch.cursor, "0") != 0);
    return ok ? 0 : fail(status_of(err.code), "%s", err.message);
}

/* ---- find the server ------------------------------------------------------------------------- */

/* The URL, if it is a local: one; else the default, as TIDELOCK_URL may name another server. */
static int find_place(const server *where, local *local) {
    tl_error err;
    bool is_local = server_is_local(where);

    if (where->url && !is_local && !where->from_env)
        return fail(STATUS_USAGE, "local: the URL must begin with local:");
    local->url = is_local ? where->url : NULL;
    if (tl__endpoint_parse(&local->endpoint, NULL, is_local ? where->url : "local:", &err))
        return fail(is_local && !where->from_env ? STATUS_USAGE : STATUS_CONFIG, "%s", err.message);
    local->endpoint.only_find = true;
    return 0;
}

static int find_server(const server *where, local *ret) {
    tl_local_problem problem;

    *ret = (local){.dir = -1};
    int status = find_place(where, ret);
    if (status)
        return status;
    ret->dir = tl__local_open_dir(ret->endpoint.dir, false, &problem);
    if (ret->dir < 0 && problem.code)
        return fail(status_of(problem.code), "%s", problem.message);
    ret->alive = ret->dir >= 0 && tl__local_is_alive(ret->dir);
    if (!ret->alive && tl__local_is_hidden(ret->endpoint.dir, &problem))
        return fail(status_of(problem.code), "%s", problem.message);
    ret->pid = ret->alive ? tl__local_pid(ret->dir) : 0;
    return 0;
}

static int ask_all(local *local, local_line *to) {
    static const char *const info[] = {"INFO", "server", NULL}, *const size[] = {"DBSIZE", NULL};
    tl_client_options options = TL_CLIENT_OPTIONS(.url = local->url, .connect_ms = LOCAL_ANSWER_MS);
    tl_client *client;
    tl_error err;

    if (!local_ask(to, info, take_info, local) || !local_ask(to, size, take_count, local))
        return fail(STATUS_UNAVAILABLE, "%s (pid %lld; \"tidelock local stop --force\" kills it)",
                    to->message, (long long)local->pid);
    if (tl_client_open(&options, &client, &err))
        return fail(status_of(err.code), "%s", err.message);
    int status = count_locks(local, to, client);
    tl_client_close(client);
    return status;
}

/* ---- status ---------------------------------------------------------------------------------- */

#define LOCAL_MEMBERS(M, of)                                                                       \
    M(of, state,                                                                                   \
      "\"running\" or \"stopped\"; the other members but _socket_ and _data_ are null "            \
      "when it is stopped")                                                                        \
    M(of, socket, "the server's socket")                                                           \
    M(of, pid, "its process")                                                                      \
    M(of, version, "its version")                                                                  \
    M(of, uptime_ms, "for how long it has run")                                                    \
    M(of, keys, "how many keys it has")                                                            \
    M(of, locks, "how many of these are held locks")                                               \
    M(of, data, "the directory of its data")
MEMBERS(local, LOCAL_MEMBERS);

static int status_json(const local *local) {
    json_t *json = json_pack("{s:s}", state_of_local, local->alive ? "running" : "stopped");

    js_set(&json, socket_of_local, js_text(local->endpoint.path));
    js_set(&json, pid_of_local, js_known(local->alive ? local->pid : -1));
    js_set(&json, version_of_local, js_text(local->alive ? local->version : NULL));
    js_set(&json, uptime_ms_of_local, js_known(local->alive ? local->uptime_s * 1000 : -1));
    js_set(&json, keys_of_local, js_known(local->alive ? local->keys : -1));
    js_set(&json, locks_of_local, js_known(local->alive ? local->locks : -1));
    js_set(&json, data_of_local, js_text(local->endpoint.dir));
    return js_line(json, STDOUT_FILENO);
}

static int status_text(const local *local) {
    char uptime[DURATION_SHOWN];
    char path[2 * TL_PATH_SIZE];

    tl__bytes_print(path, sizeof path, tl__bytes_of(local->endpoint.path));
    printf("%s\nsocket   %s\n", local->alive ? "running" : "not running", path);
    if (local->alive)
        printf("pid      %lld\nversion  %s\nuptime   %s\nkeys     %lld\nlocks    %lld\n",
               (long long)local->pid, local->version,
               local->uptime_s ? show_ms(uptime, local->uptime_s * 1000) : "less than 1 s",
               (long long)local->keys, (long long)local->locks);
    tl__bytes_print(path, sizeof path, tl__bytes_of(local->endpoint.dir));
    printf("data     %s\n", path);
    return fflush(stdout);
}

static int show_status(local *local, local_line *to, bool as_json) {
    int status = local->alive ? ask_all(local, to) : 0;

    if (status)
        return status;
    if (as_json ? status_json(local) : status_text(local))
        return fail(STATUS_INTERNAL, "local: standard output: %s", strerror(errno));
    return local->alive ? STATUS_OK : STATUS_STOPPED;
}

/* ---- stop ------------------------------------------------------------------------------------ */

static int await_end(const local *local) {
    tl_mono by = tl__mono_add_ms(tl__mono_now(), GONE_MS);

    while (tl__local_is_alive(local->dir)) {
        if (!tl__mono_before(tl__mono_now(), by))
            return fail(STATUS_UNAVAILABLE, "local: the server (pid %lld) has not ended in %d s",
                        (long long)local->pid, GONE_MS / 1000);
        (void)poll(NULL, 0, NAP_MS);
    }
    return 0;
}

/* The lock on the directory shows that the server runs, so the pid is still its own. Its sockets are closed
 * some time after that lock is released, so wait for the end of the process, where the kernel reports it. */
static bool kill_it(const local *local) {
    bool ok = local->pid > 0 && tl__local_is_alive(local->dir);
    struct pollfd p = {.fd = -1, .events = POLLIN};

#ifdef SYS_pidfd_open
    if (ok)
        p.fd = (int)syscall(SYS_pidfd_open, (pid_t)local->pid, 0);
#endif
    ok = ok && kill((pid_t)local->pid, SIGKILL) == 0;
    if (ok && p.fd >= 0)
        (void)poll(&p, 1, GONE_MS);
    if (p.fd >= 0)
        close(p.fd);
    return ok;
}

static int stop_by_force(local *local, local_line *to) {
    static const char *const info[] = {"INFO", "server", NULL};
    static const char *const shutdown[] = {"SHUTDOWN", NULL};

    if (local_ask(to, info, take_info, local)) {
        (void)local_ask(to, shutdown, NULL, NULL); /* its end is the reply */
        return await_end(local);
    }
    return kill_it(local) ? await_end(local)
                          : fail(STATUS_UNAVAILABLE, "%s, and its pid is not known", to->message);
}

static int stop(local *local, local_line *to, bool force) {
    static const char *const shutdown[] = {"SHUTDOWN", NULL};

    if (!local->alive)
        return 0;
    if (force)
        return stop_by_force(local, to);
    int status = ask_all(local, to);
    if (status)
        return status;
    if (local->locks > 0)
        return fail(STATUS_REFUSED, "local stop: %lld lock%s held (%s%s); --force stops it anyway",
                    (long long)local->locks, local->locks == 1 ? " is" : "s are", local->named,
                    local->locks > NAMED_MAX ? ", ..." : "");
    (void)local_ask(to, shutdown, NULL, NULL);
    return await_end(local);
}

/* ---- the row --------------------------------------------------------------------------------- */

/* The demo's directory is beside that of the private server, which the demo doesn't use. */
static int demo(const server *where, const local_options *options, const operands *args) {
    local local = {.dir = -1};
    if (options->json || options->format || options->force)
        return fail(STATUS_USAGE, "local demo: it takes no options");
    if (args->count < 2)
        return fail(STATUS_USAGE,
                    "local demo: say sentinel, cluster, quorum, etcd, status or stop");
    int status = find_place(where, &local);
    return status ? status : local_demo(local.endpoint.dir, args->word[1]);
}

static int local_function(const server *where, const void *given, const operands *args) {
    const local_options *options = given;
    const char *what = args->word[0];
    bool stops = strcmp(what, "stop") == 0;
    local local;
    local_line to;

    if (strcmp(what, "demo") == 0)
        return demo(where, options, args);
    if (!stops && strcmp(what, "status") != 0)
        return fail(STATUS_USAGE, "local: say status, stop or demo");
    if (args->count > 1)
        return fail(STATUS_USAGE, "local %s: too many arguments", what);
    if (stops ? options->json || options->format : options->force)
        return fail(STATUS_USAGE, "local %s: %s is not an option of it", what,
                    stops ? "--json" : "--force");
    int status = find_server(where, &local);
    if (status == 0 && !local_ask_open(&to, &local.endpoint, false))
        status = fail(STATUS_INTERNAL, "out of memory");
    if (status == 0) {
        status = stops ? stop(&local, &to, options->force)
                       : show_status(&local, &to, options->json || options->format);
        local_ask_close(&to);
    }
    if (local.dir >= 0)
        close(local.dir);
    return status;
}

const command local_row = {
    .name = "local",
    .usage = "[options] status|stop|demo sentinel|cluster|quorum|etcd|status|stop",
    .help = "manage this user's private server, used without a URL",
    .notes =
        "The server is started when it is first needed. \"stop\" refuses while locks are held.\n"
        "\"demo sentinel\" (or cluster, quorum, etcd) starts several servers on this host to try "
        "that kind of "
        "URL, and prints the URL; \"demo status\" shows them, \"demo stop\" ends them.\n",
    .statuses =
        (const status_row[]){{STATUS_OK, "it runs, or was stopped", NULL},
                             {STATUS_STOPPED, "status: it does not run",
                              "*local status*, *local demo status*: it does not run"},
                             {STATUS_REFUSED, NULL,
                              "*local* of a directory that is open to others, *local stop* while "
                              "locks are held, *local demo* while one runs"},
                             {0, NULL, NULL}},
    .members = (const members_row[]){{"local", members_of_local}, {NULL, NULL}},
    .options = local_table,
    .size = sizeof(local_options),
    .args_min = 1,
    .args_max = 2,
    .function = local_function,
};
