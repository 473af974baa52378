/*
 * tidelock agent: measures this host's clock against the server's again and again, and publishes what
 * it finds under a lease, so that any host can print the whole matrix.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "signals.h"
#include "skew_self.h"

#define LEASES 3         /* times --every: two may fail before the record goes */
#define BURST 8          /* questions each time */
#define BURST_MS 1000    /* at most */
#define INDEX_MS 3600000 /* the index outlives the last agent by an hour */
#define SPREAD 16        /* the part of --every by which a round may come earlier */
#define EVERY_LEAST_MS 100
#define EVERY_MOST_MS INT64_C(3600000)

typedef struct {
    const char *name;
    int64_t every_ms;
    bool once, verbose;
} agent_options;

static const opt agent_table[] = {
    {0, "name", OPT_TEXT, offsetof(agent_options, name), "HOST",
     "publish as HOST (the host's name)", 0, 0},
    {0, "every", OPT_DURATION, offsetof(agent_options, every_ms), "D",
     "measure and publish so often (10s)", 0, 0},
    {0, "once", OPT_FLAG, offsetof(agent_options, once), NULL,
     "measure once, leave the record for three times --every, and end", 0, 0},
    {'v', "verbose", OPT_FLAG, offsetof(agent_options, verbose), NULL,
     "say on stderr what is published", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const agent_options agent_defaults = {.every_ms = 10000};

typedef struct {
    const agent_options *options;
    char name[SKEW_NAME_SIZE], key[SKEW_KEY_SIZE], id[SKEW_ID_SIZE];
    skew_link link;
    skew_track track;
    char server[SKEW_SERVER_SIZE]; /* that the track is of */
    bool published;                /* at least once */
    int64_t put_us[2];             /* at_us of the last two records that were sent */
    int clash;                     /* rounds for which it is told of still; 0: of none */
    bool failing;
    int32_t rate_ppm; /* the greatest since the evidence was gathered */
} agent;

/* ---- the record ------------------------------------------------------------------------------ */

typedef struct {
    bool there;
    skew_record record;
} found;

static bool take_record(void *ctx, const tl_reply *reply) {
    found *f = ctx;
    tl_bytes text;

    f->there = tl__reply_text(reply, &text) && skew_record_read(text.p, text.n, &f->record);
    return true;
}

/* Whose bytes: a machine that was cloned while it ran has an agent with our id, too. */
static bool is_ours(const agent *a, const skew_record *r) {
    return strcmp(r->id, a->id) == 0 && (r->at_us == a->put_us[0] || r->at_us == a->put_us[1]);
}

/* Another agent of our name, and not merely one that we follow. It is told of for as long as a record lasts: one of
 * the two may be late, and the other then finds its own. */
static bool look_for_clash(agent *a) {
    const char *const words[] = {"GET", a->key, NULL};
    found f = {.there = false};

    if (!skew_link_ask(&a->link, words, take_record, &f))
        return false;
    bool other = f.there && !is_ours(a, &f.record);
    bool clash = other && (a->published || !skew_same_boot(f.record.id, a->id));
    if (clash && !a->clash)
        say("agent: another agent publishes as %s: give one of them another name (--name)",
            a->name);
    if (clash)
        a->clash = LEASES;
    else if (a->clash > 0)
        a->clash--;
    return true;
}

static bool put(agent *a, const skew_record *record) {
    char text[SKEW_RECORD_SIZE], lease[TL_INT_SIZE], until[TL_INT_SIZE], past[TL_INT_SIZE],
        index[TL_INT_SIZE];
    int64_t lease_ms = a->options->every_ms * LEASES, end_us = record->at_us + lease_ms * 1000,
            index_ms = lease_ms + INDEX_MS;

    skew_record_write(text, record);
    (void)snprintf(lease, sizeof lease, "%lld", (long long)lease_ms);
    (void)snprintf(until, sizeof until, "%lld", (long long)end_us);
    (void)snprintf(past, sizeof past, "(%lld", (long long)record->at_us);
    (void)snprintf(index, sizeof index, "%lld", (long long)index_ms);
    const char *const add[] = {"ZADD", SKEW_INDEX_KEY, until, a->name, NULL},
                      *const set[] = {"PSETEX", a->key, lease, text, NULL},
                      *const keep[] = {"PEXPIRE", SKEW_INDEX_KEY, index, NULL},
                      *const prune[] = {"ZREMRANGEBYSCORE", SKEW_INDEX_KEY, "-inf", past, NULL};
    return skew_link_ask(&a->link, add, NULL, NULL) && skew_link_ask(&a->link, set, NULL, NULL) &&
           skew_link_ask(&a->link, keep, NULL, NULL) && skew_link_ask(&a->link, prune, NULL, NULL);
}

static bool publish(agent *a, const kernel_clock *kernel) {
    skew_record record;

    skew_self_record(&a->track, kernel, a->server, &record);
    record.every_ms = a->options->every_ms;
    record.clash = a->clash > 0;
    a->put_us[1] = a->put_us[0];
    a->put_us[0] = record.at_us;
    if (!put(a, &record))
        return false;
    a->published = true;
    if (a->options->verbose)
        say("agent: %s is %lld to %lld us from the server's clock", a->name,
            (long long)record.offset.lo, (long long)record.offset.hi);
    return true;
}

/* Gone at once, unless it is another's by now. */
static void withdraw(agent *a) {
    const char *const get[] = {"GET", a->key, NULL}, *const del[] = {"DEL", a->key, NULL},
                      *const rem[] = {"ZREM", SKEW_INDEX_KEY, a->name, NULL};
    found f = {.there = false};

    if (!a->published || !skew_link_ask(&a->link, get, take_record, &f))
        return;
    if (f.there && is_ours(a, &f.record) && skew_link_ask(&a->link, del, NULL, NULL))
        (void)skew_link_ask(&a->link, rem, NULL, NULL);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* What was measured against another server's clock says nothing of this one's. */
static bool look_for_server(agent *a) {
    char server[SKEW_SERVER_SIZE];

    if (!skew_self_server(&a->link, server))
        return false;
    if (strcmp(server, a->server) != 0)
        a->track.known = false;
    memcpy(a->server, server, sizeof server);
    return true;
}

static bool round_once(agent *a) {
    static const skew_effort effort = {.samples = BURST, .for_ms = BURST_MS};
    kernel_clock kernel = moment_kernel();
    int32_t rate = skew_self_rate(&kernel);

    /* A correction that begins or ends between two rounds: the faster rate holds for the time between. */
    int32_t between = rate > a->rate_ppm ? rate : a->rate_ppm;
    a->rate_ppm = rate;
    if (!look_for_server(a) || !skew_self_measure(&a->link, &a->track, &effort, between) ||
        !look_for_server(a))
        return false;
    return !a->track.known || (look_for_clash(a) && publish(a, &kernel));
}

/* Of two that go on at one moment, as clones do, each would put its record over the other's before that is seen. */
static int64_t pause_ms(const agent *a) {
    int64_t every_ms = a->options->every_ms;
    uint64_t drawn;
    if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != (ssize_t)sizeof drawn)
        return every_ms; /* the machine has only just started: next time */
    return every_ms - (int64_t)(drawn % (uint64_t)(every_ms / SPREAD + 1));
}

/* The signal that ends it. */
static void serve(agent *a, signals *s) {
    int64_t next = moment_ms();
    do {
        bool ok = round_once(a);
        if (!ok && !a->failing)
            say("agent: %s; it tries again every %lld ms", a->link.words,
                (long long)a->options->every_ms);
        else if (ok && a->failing)
            say("agent: the server answers again");
        a->failing = !ok;
        int64_t now = moment_ms();
        next += pause_ms(a);
        next = next > now ? next : now;
        if (signals_pause(s, next > now ? next - now : 1))
            break;
    } while (true);
    withdraw(a);
}

/* Whatever a retry can't mend ends it at the start. */
static int start(agent *a) {
    if (round_once(a))
        return a->track.known || !a->options->once
                   ? 0
                   : fail(STATUS_UNAVAILABLE,
                          "agent: the clock was set while it was measured; try again");
    bool lasting = a->link.status != STATUS_UNAVAILABLE;
    return lasting || a->options->once ? fail(a->link.status, "%s", a->link.words) : 0;
}

static int agent_run(agent *a) {
    signals s;

    if (a->options->once)
        return start(a);
    if (signals_begin(&s))
        return fail(STATUS_INTERNAL, "signals: %s", strerror(errno));
    int status = start(a);
    if (status == 0)
        serve(a, &s);
    return status;
}

static int agent_command(const server *s, const void *options, const operands *words) {
    const agent_options *o = options;
    agent a = {.options = o, .rate_ppm = SKEW_DRIFT_PPM};

    (void)words;
    if (o->name && !skew_name_ok(o->name))
        return fail(STATUS_USAGE, "--name: 1 to 64 letters, digits and any of . _ : -");
    if (o->every_ms < EVERY_LEAST_MS || o->every_ms > EVERY_MOST_MS)
        return fail(STATUS_USAGE, "--every: 100ms to 1h");
    if (o->name)
        (void)snprintf(a.name, sizeof a.name, "%s", o->name);
    else
        skew_self_name(a.name);
    skew_record_key(a.key, a.name);
    skew_self_id(a.id);
    int status = server_need_url(s, "agent");
    status = status ? status : skew_link_open(&a.link, s);
    if (status)
        return status;
    a.link.needer = &skew_needer;
    status = agent_run(&a);
    skew_link_close(&a.link);
    return status;
}

const command agent_row = {
    .name = "agent",
    .usage = "[options]",
    .help = "publish how far this host's clock is from the server's",
    .notes = "\"tidelock skew\" on any host then shows all hosts that do so.\n",
    .options = agent_table,
    .defaults = &agent_defaults,
    .size = sizeof(agent_options),
    .function = agent_command,
};
