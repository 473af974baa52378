/*
 * tidelock bench: what locks cost on this machine, with this server, and what limits them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/js.h"
#include "base/members.h"
#include "bench/bench_measure.h"
#include "link/link_open.h"

#define PARTS 5
#define SECONDS_MOST 600
#define KEY_SIZE 96
/* In a cluster the link leads to the node with this tag's slot, and there it can remove the names beside
 * the key. */
#define KEY_FORMAT "{tidelock:agents}:bench:%016" PRIx64

typedef struct {
    int seconds, format;
    bool json;
} bench_options;

static const bench_options defaults = {.seconds = 5};

static const opt table[] = {
    {0, "seconds", OPT_NUMBER, offsetof(bench_options, seconds), "N",
     "how long to measure in all (5)", 1, SECONDS_MOST},
    {0, "json", OPT_FLAG, offsetof(bench_options, json), NULL, "print one line of JSON", 0, 0},
    OPT_RARE_FOLLOW,
    {0, "format", OPT_CHOICE, offsetof(bench_options, format), "text|json", "json: as --json", 0,
     0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

typedef struct {
    bench bench;
    server_link link; /* removes what is left; conn NULL: it leads nowhere */
    char key[KEY_SIZE], bare_key[KEY_SIZE + 8];
} session;

/* ---- output ---------------------------------------------------------------------------------- */

static const char *const limits[] = {[BENCH_CLIENT] = "client",
                                     [BENCH_SERVER] = "server",
                                     [BENCH_NETWORK] = "network",
                                     [BENCH_WAITING] = "waiting"};

static void print_times(const char *what, const bench_times *times) {
    (void)printf("%-12s %9.1f us  (99 %% within %.1f us, %lld times)\n", what, times->p50,
                 times->p99, (long long)times->count);
}

static int unprinted(void) {
    return fail(STATUS_INTERNAL, "bench: standard output: %s", strerror(errno));
}

/* One sentence about what limits the speed. */
static void print_limit(const bench_result *result) {
    double all = result->client_us + result->waiting_us,
           server = result->server_us < 0 ? 0 : result->server_us;
    double network = result->waiting_us > server ? result->waiting_us - server : 0;
    int client = (int)(100 * result->client_us / all + 0.5),
        by_server = (int)(100 * server / all + 0.5), by_network = (int)(100 * network / all + 0.5);
    switch (bench_limit_of(result)) {
    case BENCH_CLIENT:
        (void)printf("The limit is this host's CPU, which works for %d %% of a pair.\n", client);
        break;
    case BENCH_SERVER:
        (void)printf("The limit is the server's CPU, which works for %d %% of a pair.\n",
                     by_server);
        break;
    case BENCH_NETWORK:
        (void)printf(
            "The limit is the network, with both kernels: %d %% of a pair is work neither of the "
            "server (%d %%) nor of this host (%d %%).\n",
            by_network, by_server, client);
        break;
    case BENCH_WAITING:
        (void)printf(
            "The limit is waiting for replies, %d %% of a pair; the shares of the network and of "
            "the servers can't be measured here.\n",
            100 - client);
        break;
    }
}

static int print_text(const bench_result *result) {
    print_times("round trip", &result->round_trip);
    print_times("pair", &result->pair);
    (void)printf("%-12s %9.0f a second", "pairs", result->pairs);
    if (result->bare_pairs > 0)
        (void)printf(", %.2f of what a bare hiredis loop does (%.0f)",
                     result->pairs / result->bare_pairs, result->bare_pairs);
    (void)putchar('\n');
    print_times("renewal", &result->renewal);
    print_times("hand-off", &result->hand_off);
    print_limit(result);
    return fflush(stdout) || ferror(stdout) ? unprinted() : 0;
}

#define BENCH_MEMBERS(M, of)                                                                       \
    M(of, pairs_per_second, "how many pairs one caller completes in a second")                     \
    M(of, bare_pairs_per_second, "the loop of hiredis calls; null where there is no such loop")    \
    M(of, share_of_bare, "the first of these divided by the second, or null")                      \
    M(of, round_trip_us, "a request and its reply: an object, see below")                          \
    M(of, pair_us, "a pair, likewise")                                                             \
    M(of, renewal_us, "a renewal, likewise")                                                       \
    M(of, hand_off_us, "from a release to the next holder, likewise")                              \
    M(of, client_us_per_pair, "of a typical pair: the client's work")                              \
    M(of, waiting_us_per_pair, "of a typical pair: the client's waiting")                          \
    M(of, server_us_per_pair,                                                                      \
      "of the waiting, the server's computing; null when the server doesn't report it")            \
    M(of, limit,                                                                                   \
      "\"client\", \"server\" or \"network\"; \"waiting\" where server and network are "           \
      "not separated")
MEMBERS(bench, BENCH_MEMBERS);

#define TIMES_MEMBERS(M, of)                                                                       \
    M(of, p50, "the median")                                                                       \
    M(of, p99, "99 of 100 were at most this")                                                      \
    M(of, mean, "the mean")                                                                        \
    M(of, count, "how many were measured")
MEMBERS(times, TIMES_MEMBERS);

static json_t *js_times(const bench_times *times) {
    return json_pack("{s:f,s:f,s:f,s:I}", p50_of_times, times->p50, p99_of_times, times->p99,
                     mean_of_times, times->mean, count_of_times, (json_int_t)times->count);
}

static json_t *js_real(double value, bool known) {
    return known ? json_real(value) : json_null();
}

static int print_json(const bench_result *result) {
    bool bare = result->bare_pairs > 0, server = result->server_us >= 0;
    json_t *json = json_pack("{s:f}", pairs_per_second_of_bench, result->pairs);

    js_set(&json, bare_pairs_per_second_of_bench, js_real(result->bare_pairs, bare));
    js_set(&json, share_of_bare_of_bench,
           js_real(bare ? result->pairs / result->bare_pairs : 0, bare));
    js_set(&json, round_trip_us_of_bench, js_times(&result->round_trip));
    js_set(&json, pair_us_of_bench, js_times(&result->pair));
    js_set(&json, renewal_us_of_bench, js_times(&result->renewal));
    js_set(&json, hand_off_us_of_bench, js_times(&result->hand_off));
    js_set(&json, client_us_per_pair_of_bench, json_real(result->client_us));
    js_set(&json, waiting_us_per_pair_of_bench, json_real(result->waiting_us));
    js_set(&json, server_us_per_pair_of_bench, js_real(result->server_us, server));
    js_set(&json, limit_of_bench, js_text(limits[bench_limit_of(result)]));
    return js_line(json, STDOUT_FILENO) ? unprinted() : 0;
}

/* The message begins with what was asked of the server. A ping helps no user, so that is removed. */
static int fail_at(const server *where, const tl_error *err) {
    static const char ping[] = "ping: ";
    size_t skip = strncmp(err->message, ping, sizeof ping - 1) == 0 ? sizeof ping - 1 : 0;
    tl_error ours = *err;
    (void)snprintf(ours.message, sizeof ours.message, "bench: %.*s",
                   (int)(sizeof ours.message - sizeof "bench: "), err->message + skip);
    return fail_as(where, &ours);
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool draw_keys(session *session) {
    uint64_t drawn;
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        return false;
    (void)snprintf(session->key, sizeof session->key, KEY_FORMAT, drawn);
    (void)snprintf(session->bare_key, sizeof session->bare_key, "%s:bare", session->key);
    return true;
}

/* Remove the names that a lock leaves beside its key: they would only expire. */
static void remove_traces(session *session, const server *where) {
    char beside[KEY_SIZE + 16];
    const char *const request[] = {"DEL", beside, NULL};
    if (!session->link.conn)
        return;
    (void)snprintf(beside, sizeof beside, "%s:tidelock", session->key);
    if (link_follow(&session->link, where))
        (void)link_ask(&session->link, request, NULL, NULL);
}

/* Only where one server can be asked. In a cluster a bare client would need to know where the slot is. */
static void open_link(session *session, const server *where, bool several) {
    if (several || link_open_quietly(&session->link, where))
        session->link.conn = NULL;
    if (session->link.conn && !server_by_cluster(where))
        session->bench.bare = bench_bare_open(&session->link.endpoint, session->bare_key);
}

static int measure(session *session, const server *where, const bench_options *options) {
    static char local[] = "local:";
    static const server_care no_care = {.quiet_ms = 0}; /* no other client uses these keys */
    bench_result result;
    server same = *where;
    same.care = &no_care;
    bool quorum = server_by_quorum(where);
    int status = server_open(&same, "bench", "bench", &session->bench.client);
    same.url = where->url ? where->url : local; /* the default was reported already */
    if (!status)
        status = server_open(&same, "bench", "bench", &session->bench.other);
    if (status)
        return status;
    /* The ping also starts a private server. */
    if (tl_client_ping(session->bench.client, &session->bench.err))
        return fail_at(where, &session->bench.err);
    open_link(session, where, quorum || server_by_etcd(where));
    bool ok = bench_measure(&session->bench, &result);
    bool answers = session->bench.err.code != TL_EUNAVAILABLE &&
                   session->bench.err.code != TL_EUNCERTAIN;
    bench_bare_close(session->bench.bare);
    if (ok || answers)
        remove_traces(session, where);
    link_close(&session->link);
    if (session->bench.ended_by)
        return signals_status(session->bench.ended_by);
    if (ok)
        return options->json || options->format ? print_json(&result) : print_text(&result);
    return fail_at(where, &session->bench.err);
}

static int bench_command(const server *where, const void *values, const operands *args) {
    const bench_options *options = values;
    signals signals;
    session session = {.bench = {.part_ms = options->seconds * 1000 / PARTS, .signals = &signals}};

    (void)args;
    session.bench.key = session.key;
    if (!draw_keys(&session))
        return fail(STATUS_INTERNAL, "bench: no random bytes: %s", strerror(errno));
    if (signals_begin(&signals))
        return fail(STATUS_INTERNAL, "bench: signals: %s", strerror(errno));
    int status = measure(&session, where, options);
    tl_client_close(session.bench.client);
    tl_client_close(session.bench.other);
    signals_end(&signals);
    return status;
}

const command bench_row = {
    .name = "bench",
    .usage = "[options]",
    .help = "measure how fast locks are here, and what limits them",
    .notes = "It acquires locks with random names of its own and removes them at the end. "
             "Meanwhile the "
             "server is busy.\n",
    .statuses = (const status_row[]){{STATUS_OK, "measured", NULL},
                                     {STATUS_UNAVAILABLE, NULL,
                                      "the server was not reached, or did not reply"},
                                     {STATUS_REFUSED, NULL,
                                      "the server refused, or lacks a command"},
                                     {STATUS_SIGNAL, "signal n ended it", "signal _n_ ended it"},
                                     {0, NULL, NULL}},
    .members = (const members_row[]){{"bench", members_of_bench},
                                     {"times", members_of_times},
                                     {NULL, NULL}},
    .options = table,
    .defaults = &defaults,
    .size = sizeof defaults,
    .function = bench_command,
};
