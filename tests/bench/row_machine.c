/*
 * What a pair costs this side without any I/O: the step machines, the commands' bytes, the replies'
 * parsing, the random numbers. The replies are those of the real server, played again and again.
 * The only row that looks inside the library.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "client/client.h"
#include "protocol/acquire.h"
#include "protocol/attempt.h"
#ifdef TL_COMPAT
#include "phase/phase.h"
#endif
#include "ground/token.h"
#include "protocol/settle.h"
#include "transport/resp.h"

#define SLICE (20 * MS)
#define SLICES 4
#define ROW "machine"
#define ATTEMPT_MS 2000

typedef struct {
    tl_job job;
    tl_server server;
    tl_out out;
    tl_acquisition acquire;
    tl_settle settle;
    tl_command command[2]; /* take, drop */
    tl_out kept[2];        /* where their numbers stand */
    char raw[2][512];      /* their replies */
    size_t raw_size[2];
    tl_resp *resp[2];
    tl_reply reply[2];
    tl_mono now;
} theatre;

/* ---- a pair, played -------------------------------------------------------------------------- */

static tl_status tell(theatre *t, void *machine, tl_step step, tl_event_kind kind,
                      const tl_reply *reply) {
    const tl_event e = {.kind = kind,
                        .now = t->now,
                        .server = &t->server,
                        .asked = {.sent = t->now, .ticket = t->out.sends ? t->out.send.ticket : 0},
                        .replied = {.reply = reply, .count = reply ? 1 : 0}};
    tl__out_clear(&t->out);
    return step(machine, &e, &t->out);
}

/* To the send of the take; some protocols first ask whether the server has been reached. */
static void ask_take(theatre *t) {
    const tl_retry retry = {0};
    t->out.sends = 0;
    tl__acquire_init(&t->acquire, &t->job, &retry, 0, ATTEMPT_MS, 1);
    (void)tell(t, &t->acquire, tl__acquire_step, TL_START, NULL);
    if (t->out.sends == 1 && t->out.send.count == 0)
        (void)tell(t, &t->acquire, tl__acquire_step, TL_REPLY, NULL);
}

static void ask_drop(theatre *t) {
    t->out.sends = 0;
    tl__settle_init(&t->settle, &t->job, TL_RELEASE, tl__mono_add_ms(t->now, 1000), 1);
    (void)tell(t, &t->settle, tl__settle_step, TL_START, NULL);
}

static void play(theatre *t) {
    ask_take(t);
    if (tell(t, &t->acquire, tl__acquire_step, TL_REPLY, &t->reply[0]) != TL_END ||
        t->acquire.result.code != TL_OK)
        die("machine: a take that worked does not end");
    ask_drop(t);
    if (tell(t, &t->settle, tl__settle_step, TL_REPLY, &t->reply[1]) != TL_END ||
        t->settle.result.code != TL_OK)
        die("machine: a drop that worked does not end");
}

/* ---- once for real --------------------------------------------------------------------------- */

static void exchange(theatre *t, int i, redisContext *c) {
    char bytes[1024];
    t->kept[i] = t->out; /* the words of numbers point into t->out, which the next step reuses */
    t->command[i] = t->out.send.command[0];
    for (int k = 0; k < t->command[i].argc; k++) {
        ptrdiff_t at = t->command[i].argv[k].p - t->out.scratch;
        if (at >= 0 && at < (ptrdiff_t)sizeof t->out.scratch)
            t->command[i].argv[k].p = t->kept[i].scratch + at;
    }
    size_t n = tl__command_encode(&t->command[i], 1, NULL, 0);
    char text[16384];
    if (n > sizeof text || tl__command_encode(&t->command[i], 1, text, sizeof text) != n ||
        write(c->fd, text, n) != (ssize_t)n)
        die("machine: write: %s", strerror(errno));
    t->resp[i] = tl__resp_new();
    while (tl__resp_next(t->resp[i], &t->reply[i]) == 0) {
        ssize_t got = read(c->fd, bytes, sizeof bytes);
        if (got <= 0 || t->raw_size[i] + (size_t)got > sizeof t->raw[i])
            die("machine: read: %s", strerror(errno));
        memcpy(t->raw[i] + t->raw_size[i], bytes, (size_t)got);
        t->raw_size[i] += (size_t)got;
        tl__resp_feed(t->resp[i], bytes, (size_t)got);
    }
}

static void rehearse(theatre *t) {
    static const char key[] = "bench:machine", sidecar[] = "tidelock:{bench:machine}";
    redisContext *c = bench_connect();
    t->job = (tl_job){.protocol = tl__protocol_row(TL_TOKEN),
                      .key = TL_LITERAL(key),
                      .sidecar = TL_LITERAL(sidecar),
                      .owner = TL_LITERAL("host 4711 bench"),
                      .token = tl__token_draw(),
                      .ttl_ms = 30000,
                      .attempt_ms = ATTEMPT_MS};
    t->server.drift_ppm = 200;
    t->now = tl__mono_now();
    ask_take(t);
    exchange(t, 0, c);
    ask_drop(t);
    exchange(t, 1, c);
    redisFree(c);
    play(t);
}

/* ---- contenders ------------------------------------------------------------------------------ */

#define REPEAT(work)                                                                               \
    uint64_t n = 0;                                                                                \
    (void)m;                                                                                       \
    do {                                                                                           \
        for (int i = 0; i < 100; i++) {                                                            \
            work;                                                                                  \
        }                                                                                          \
        n += 100;                                                                                  \
    } while (now_ns() < until_ns);                                                                 \
    return n

static uint64_t play_all(void *ctx, int64_t until_ns, meter *m) {
    REPEAT(play(ctx));
}

static uint64_t encode_all(void *ctx, int64_t until_ns, meter *m) {
    static char bytes[2048];
    const theatre *t = ctx;
    REPEAT(for (int k = 0; k < 2; k++)(void)
               tl__command_encode(&t->command[k], 0, bytes, sizeof bytes));
}

static void format_bare(void) {
    static const char token[] = "6f1c2d52-8a0b-4c57-9d3e-000000000000";
    static const char sha1[] = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
    char *command;
    (void)redisFormatCommand(&command, "SET %s %s NX PX 30000", "bench:machine", token);
    redisFreeCommand(command);
    (void)redisFormatCommand(&command, "EVALSHA %s 1 %s %s", sha1, "bench:machine", token);
    redisFreeCommand(command);
}

static uint64_t encode_bare(void *ctx, int64_t until_ns, meter *m) {
    (void)ctx;
    REPEAT(format_bare());
}

static void parse(theatre *t) {
    tl_reply reply;
    for (int k = 0; k < 2; k++) {
        tl__resp_feed(t->resp[k], t->raw[k], t->raw_size[k]);
        if (tl__resp_next(t->resp[k], &reply) != 1)
            die("machine: not a reply: %s", tl__resp_message(t->resp[k]));
        tl__resp_release(t->resp[k]);
    }
}

static uint64_t parse_all(void *ctx, int64_t until_ns, meter *m) {
    REPEAT(parse(ctx));
}

static uint64_t parse_bare(void *ctx, int64_t until_ns, meter *m) {
    static const char *const replies[] = {"+OK\r\n", ":1\r\n"};
    redisReader *reader = ctx;
    REPEAT(for (int k = 0; k < 2; k++) {
        void *reply = NULL;
        (void)redisReaderFeed(reader, replies[k], strlen(replies[k]));
        (void)redisReaderGetReply(reader, &reply);
        freeReplyObject(reply);
    });
}

static uint64_t draw(void *ctx, int64_t until_ns, meter *m) {
    (void)ctx;
    REPEAT((void)tl__token_draw());
}

/* ---- the guard against clocks that are off --------------------------------------------------- */

#ifdef TL_COMPAT

/* A take of the bridge up to its send, with a client of the library as the source of what it knows. */
typedef struct {
    tl_client *client; /* one whose protocol reads the wall clock, or not */
    int64_t ahead_us;  /* by how much that clock is made out to be */
    tl_job job;
    tl_out out;
    tl_attempt attempt;
} guarded;

static tl_namespace guard_namespace; /* what is published of it is looked at too */

static void prepare(guarded *g, tl_protocol_id of_client, tl_clock_guard guard, int64_t ahead_us) {
    const tl_legacy legacy = {.protocol = of_client,
                              .options = TL_LEGACY_OPTIONS(.clock_guard = guard)};
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = bench_url(), .protocol = of_client,
                                                        .legacy = of_client == TL_TOKEN
                                                                      ? NULL
                                                                      : &legacy.options);
    tl_error err;
    if (tl_client_open(&options, &g->client, &err) || tl_client_ping(g->client, &err))
        die("%s", err.message);
    g->ahead_us = ahead_us;
    g->job = (tl_job){.protocol = tl__protocol_row(TL_BRIDGE),
                      .key = TL_LITERAL("bench:machine"),
                      .sidecar = TL_LITERAL("tidelock:{bench:machine}"),
                      .owner = TL_LITERAL("host 4711 bench"),
                      .token = tl__token_draw(),
                      .attempt_ms = ATTEMPT_MS};
    if (g->job.protocol->rules(&legacy, NULL, g->job.key, &g->job.rules, &g->job.ttl_ms, &err))
        die("%s", err.message);
    guard_namespace.name = TL_LITERAL("default");
    g->job.rules.of = &guard_namespace;
}

static void begin_take(guarded *g) {
    tl_mono now = tl__mono_now();
    tl_server server;
    (void)tl__node_server(&g->client->node, now, &server);
    const tl_event e = {.kind = TL_START, .now = now, .server = &server};
    server.wall_us += g->ahead_us;
    tl__out_clear(&g->out);
    tl__attempt_init(&g->attempt, g->job.protocol, TL_ACQUIRE, 1,
                     tl__mono_add_ms(e.now, ATTEMPT_MS));
    if (tl__attempt_step(&g->attempt, &g->job, &e, &g->out) != TL_GO || g->out.sends != 1 ||
        g->out.clock_off != (g->ahead_us > 0))
        die("machine: a take does not begin");
}

static uint64_t begin_takes(void *ctx, int64_t until_ns, meter *m) {
    REPEAT(begin_take(ctx));
}

static volatile int64_t sink; /* the results are used */

static uint64_t read_clock(void *ctx, int64_t until_ns, meter *m) {
    struct timespec t;
    (void)ctx;
    REPEAT((void)clock_gettime(CLOCK_BOOTTIME, &t); sink += t.tv_nsec);
}

/* What a take costs more with the guard than without, clocks that are read for it included. */
static void report_guard(regime r) {
    static guarded with, off, without;
    static figures f[4];
    double right[ROUNDS_MAX], wrong[ROUNDS_MAX], clock[ROUNDS_MAX];
    prepare(&with, TL_BRIDGE, TL_GUARD_WARN, 0);
    prepare(&off, TL_BRIDGE, TL_GUARD_WARN, 10000000);
    prepare(&without, TL_TOKEN, TL_GUARD_OFF, 0);
    const contender c[] = {{.ctx = &with, .run = begin_takes},
                           {.ctx = &off, .run = begin_takes},
                           {.ctx = &without, .run = begin_takes},
                           {.run = read_clock}};
    take_turns(c, 4, SLICE, SLICES, f);
    for (int i = 0; i < rounds; i++) {
        right[i] = (f[0].client_us[i] - f[2].client_us[i]) * 1000;
        wrong[i] = (f[1].client_us[i] - f[2].client_us[i]) * 1000;
        clock[i] = f[3].client_us[i] * 1000;
    }
    report(&(label){ROW, "clock guard of a take, beside clock_gettime", "ns CPU", r, "<= 100 ns"},
           right, clock, rounds);
    report(&(label){ROW, "... when it warns", "ns CPU", r, NULL}, wrong, clock, rounds);
    tl_client_close(with.client);
    tl_client_close(off.client);
    tl_client_close(without.client);
}

#endif

/* ---- the row --------------------------------------------------------------------------------- */

static void report_ns(regime r, const char *what, const contender *ours, const contender *base) {
    static figures f[2];
    double a[ROUNDS_MAX], b[ROUNDS_MAX];
    const contender c[2] = {*ours, base ? *base : *ours};
    take_turns(c, base ? 2 : 1, SLICE, SLICES, f);
    for (int i = 0; i < rounds; i++) {
        a[i] = f[0].client_us[i] * 1000;
        b[i] = f[1].client_us[i] * 1000;
    }
    report(&(label){ROW, what, "ns CPU", r, NULL}, a, base ? b : NULL, rounds);
}

void row_machine(regime r) {
    static theatre t;
    redisReader *reader = redisReaderCreate();
    memset(&t, 0, sizeof t);
    rehearse(&t);
    report_ns(r, "step machines of a pair", &(contender){.ctx = &t, .run = play_all}, NULL);
    report_ns(r, "encode a pair, beside redisFormatCommand",
              &(contender){.ctx = &t, .run = encode_all}, &(contender){.run = encode_bare});
    report_ns(r, "parse a pair's replies, beside hiredis",
              &(contender){.ctx = &t, .run = parse_all},
              &(contender){.ctx = reader, .run = parse_bare});
    report_ns(r, "a token", &(contender){.run = draw}, NULL);
#ifdef TL_COMPAT
    report_guard(r);
#endif
    redisReaderFree(reader);
    tl__resp_free(t.resp[0]);
    tl__resp_free(t.resp[1]);
}
