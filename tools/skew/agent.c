/*
 * tidelock agent: measures this host's clock against the server's again and again, and publishes what
 * it finds under a lease, so that any host can print the whole matrix.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/metrics.h"
#include "base/outfile.h"
#include "base/signals.h"
#include "link/link_open.h"
#include "skew/judge/skew_pace.h"
#include "skew/skew_self.h"

#define BURST 8       /* questions each time */
#define BURST_MS 1000 /* at most */
#define LOOK_MS 200  /* how often to see whether the clock was set, where the kernel doesn't tell */
#define SOON_MS 1000 /* what has only begun is looked at again, */
#define SPREAD 16    /* the part of --every by which a round may come earlier */
#define EVERY_LEAST_MS 100
#define NAME_RULE "1 to 64 letters, digits and any of . _ : -"
#define STATUS_NOT_THERE 1 /* of --forget */

typedef struct {
    const char *name, *metrics;
    int64_t every_ms;
    bool once, verbose;
    opt_texts forget;
} agent_options;

static const opt agent_table[] = {
    {0, "name", OPT_TEXT, offsetof(agent_options, name), "HOST",
     "publish as HOST (the host's name)", 0, 0},
    {0, "every", OPT_DURATION, offsetof(agent_options, every_ms), "D",
     "measure and publish so often (10s)", 0, 0},
    {0, "once", OPT_FLAG, offsetof(agent_options, once), NULL,
     "measure once, leave the record for three times --every, and end", 0, 0},
    {0, "metrics", OPT_TEXT, offsetof(agent_options, metrics), "FILE",
     "replace FILE by metrics for Prometheus' textfile collector each time", 0, 0},
    {0, "forget", OPT_TEXTS, offsetof(agent_options, forget), "HOST",
     "instead: forget HOST, which was retired; again and again", 0, 0},
    {'v', "verbose", OPT_FLAG, offsetof(agent_options, verbose), NULL,
     "say on stderr what is published", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const agent_options agent_defaults = {.every_ms = 10000};

typedef struct {
    const agent_options *options;
    const server *where;
    char name[SKEW_NAME_SIZE], key[SKEW_KEY_SIZE], id[SKEW_ID_SIZE];
    server_link link;
    skew_track track;
    char server[SKEW_SERVER_SIZE]; /* that the track is of */
    bool published;                /* at least once */
    int64_t put_us[2];             /* at_us of the last two records that were sent */
    int clash;                     /* rounds for which it is told of still; 0: of none */
    bool failing;
    int64_t rounds, failed;
    int64_t success_us; /* when the last round succeeded, by the wall clock; 0: none has */
    bool unwritten;     /* the metrics, the last time */
    int32_t rate_ppm;   /* the greatest since the evidence was gathered */
    int32_t slew_ppm;   /* what the kernel said of it in the last round */
    skew_pace pace;
    int set; /* readable when somebody has set the clock; -1: nobody tells */
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

static bool take_count(void *ctx, const tl_reply *reply) {
    int64_t *count = ctx;
    return tl__reply_int(reply, count);
}

/* Whose bytes: a machine that was cloned while it ran has an agent with our id, too. */
static bool is_ours(const agent *a, const skew_record *r) {
    return strcmp(r->id, a->id) == 0 && (r->at_us == a->put_us[0] || r->at_us == a->put_us[1]);
}

/* Another agent of our name, and not merely one that we follow, or that has gone. It is told of for
 * as long as a record lasts: one of the two may be late, and the other then finds its own. */
static bool look_for_clash(agent *a) {
    const char *const request[] = {"GET", a->key, NULL};
    found f = {.there = false};

    if (!link_ask(&a->link, request, take_record, &f))
        return false;
    bool other = f.there && !is_ours(a, &f.record) &&
                 skew_record_end_us(&f.record) >= a->track.stamp_us;
    bool clash = other && (a->published || !skew_same_boot(f.record.id, a->id));
    if (clash && !a->clash)
        say("agent: another agent publishes as %s: give one of them another name (--name)",
            a->name);
    if (clash)
        a->clash = SKEW_LEASE;
    else if (a->clash > 0)
        a->clash--;
    return true;
}

/* Names go a day after their lease; of too many those that have been silent for longest. */
static bool keep_index(agent *a, int64_t at_us, int64_t kept_ms) {
    char past[TL_INT_SIZE], kept[TL_INT_SIZE], oldest[TL_INT_SIZE];

    (void)snprintf(oldest, sizeof oldest, "%d", -1 - SKEW_NAMES_MOST);
    (void)snprintf(past, sizeof past, "(%lld", (long long)(at_us - SKEW_REMEMBERED_MS * 1000));
    (void)snprintf(kept, sizeof kept, "%lld", (long long)kept_ms);
    const char *const keep[] = {"PEXPIRE", SKEW_INDEX_KEY, kept, NULL},
                      *const prune[] = {"ZREMRANGEBYSCORE", SKEW_INDEX_KEY, "-inf", past, NULL},
                      *const bound[] = {"ZREMRANGEBYRANK", SKEW_INDEX_KEY, "0", oldest, NULL};
    return link_ask(&a->link, keep, NULL, NULL) && link_ask(&a->link, prune, NULL, NULL) &&
           link_ask(&a->link, bound, NULL, NULL);
}

static bool put(agent *a, const skew_record *record) {
    char text[SKEW_RECORD_SIZE], kept[TL_INT_SIZE], until[TL_INT_SIZE];
    int64_t end_us = skew_record_end_us(record),
            kept_ms = (end_us - record->at_us) / 1000 + SKEW_REMEMBERED_MS;

    skew_record_write(text, record);
    (void)snprintf(kept, sizeof kept, "%lld", (long long)kept_ms);
    (void)snprintf(until, sizeof until, "%lld", (long long)end_us);
    const char *const add[] = {"ZADD", SKEW_INDEX_KEY, until, a->name, NULL}, *const set[] = {
                                                                                  "PSETEX", a->key,
                                                                                  kept, text, NULL};
    return link_ask(&a->link, add, NULL, NULL) && link_ask(&a->link, set, NULL, NULL) &&
           keep_index(a, record->at_us, kept_ms);
}

static bool publish(agent *a, const kernel_clock *kernel) {
    skew_record record;

    skew_self_record(&a->track, kernel, a->server, &record);
    record.every_ms = a->options->every_ms;
    record.clash = a->clash > 0;
    skew_pace_mark(&a->pace, a->track.at, &record);
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

/* What was found stays for as long as any host is remembered, but is the host's word no more,
 * unless it is another's by now: a host with a bad clock is no better for not being watched. */
static void withdraw(agent *a) {
    const char *const get[] = {"GET", a->key, NULL};
    found f = {.there = false};

    if (!a->published || !link_ask(&a->link, get, take_record, &f) || !f.there ||
        !is_ours(a, &f.record))
        return;
    f.record.every_ms = 1;
    (void)put(a, &f.record);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void put_offset(const metrics *m, const skew_track *t) {
    static const metrics_label lo = {"edge", "lo"}, hi = {"edge", "hi"};
    tl_interval offset = t->offset;
    metrics_head(m, "agent_offset_seconds", "gauge",
                 "This host's clock less the server's, bounds.");
    metrics_seconds(m, "agent_offset_seconds", &lo, offset.lo);
    metrics_seconds(m, "agent_offset_seconds", &hi, offset.hi);
    metrics_head(m, "agent_width_seconds", "gauge", "How far these bounds are apart.");
    metrics_seconds(m, "agent_width_seconds", NULL, tl__add_sat(offset.hi, -offset.lo));
}

static void put_metrics(const void *ctx, FILE *out) {
    const agent *a = ctx;
    const metrics m = {.out = out, .label = {{"host", a->name}}};
    metrics_head(&m, "agent_up", "gauge", "1 if the agent runs, and its last round was published.");
    metrics_int(&m, "agent_up", NULL, a->success_us > 0 && !a->failing);
    metrics_head(&m, "agent_name_clash", "gauge", "1 if another agent publishes by the same name.");
    metrics_int(&m, "agent_name_clash", NULL, a->clash > 0);
    metrics_head(&m, "agent_rounds_total", "counter", "Rounds of measuring.");
    metrics_int(&m, "agent_rounds_total", NULL, a->rounds);
    metrics_head(&m, "agent_rounds_failed_total", "counter", "Rounds that failed.");
    metrics_int(&m, "agent_rounds_failed_total", NULL, a->failed);
    if (a->success_us > 0) {
        metrics_head(&m, "agent_last_success_timestamp_seconds", "gauge",
                     "When a round was published last.");
        metrics_seconds(&m, "agent_last_success_timestamp_seconds", NULL, a->success_us);
    }
    if (a->track.known && a->success_us > 0)
        put_offset(&m, &a->track);
}

/* What can't be written is told once; measuring goes on. */
static int write_metrics(agent *a) {
    const char *path = a->options->metrics;
    if (!path)
        return 0;
    int why = outfile_replace_quietly(path, put_metrics, a);
    bool reported = a->unwritten;
    a->unwritten = why != 0;
    return why && !reported
               ? fail(STATUS_CONFIG, "agent: --metrics %.200s: %s", path, outfile_why(why))
           : why ? STATUS_CONFIG
                 : 0;
}

static int count_round(agent *a, bool ok) {
    a->rounds++;
    a->failed += !ok;
    a->failing = !ok;
    if (ok)
        a->success_us = moment_wall_us();
    return write_metrics(a);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void forget_server(agent *a) {
    a->track.known = false;
    skew_pace_forget(&a->pace);
}

/* What was measured against another server's clock says nothing of this one's. */
static bool look_for_server(agent *a) {
    char server[SKEW_SERVER_SIZE];

    if (!skew_self_server(&a->link, server))
        return false;
    if (strcmp(server, a->server) != 0)
        forget_server(a);
    memcpy(a->server, server, sizeof server);
    return true;
}

/* A clock that runs wrong is told of once, and when it runs right again. */
static void learn_pace(agent *a, int32_t bound_ppm) {
    bool was = a->pace.wrong;
    skew_pace_learn(&a->pace, &a->track, bound_ppm);
    if (a->pace.wrong && !was)
        say("agent: the clock of %s runs wrong, or is set again and again: by up to %d ppm against the server's",
            a->name, (int)skew_pace_ppm(&a->pace));
    else if (was && !a->pace.wrong)
        say("agent: the clock of %s runs as it should again", a->name);
}

static bool round_once(agent *a) {
    static const skew_effort effort = {.samples = BURST, .for_ms = BURST_MS};
    kernel_clock kernel = moment_kernel();
    int32_t rate = skew_self_rate(&kernel);

    /* A correction that begins or ends between two rounds: the faster rate holds for the time between. */
    int32_t between = rate > a->rate_ppm ? rate : a->rate_ppm;
    a->rate_ppm = rate;
    a->slew_ppm = kernel.slew_ppm;
    /* Nor is it slower than it was seen to be. */
    int32_t seen = skew_pace_ppm(&a->pace) > 0 ? skew_rate(SKEW_DRIFT_PPM, skew_pace_ppm(&a->pace))
                                               : 0;
    skew_track_round(&a->track);
    if (!look_for_server(a) ||
        !skew_self_measure(&a->link, &a->track, &effort, between > seen ? between : seen) ||
        !look_for_server(a))
        return false;
    if (!a->options->once)
        learn_pace(a, between);
    /* By a single round nobody can tell a step from a clock that moves while it is read. */
    bool doubtful = !a->track.known || (a->options->once && a->track.steps > 0);
    return doubtful || (look_for_clash(a) && publish(a, &kernel));
}

#define HOPS 3 /* in a cluster whose slots are being moved */

/* Where the server may have changed: what was measured of another doesn't count, whoever may not ask which it is. */
static bool round_there(agent *a) {
    char label[sizeof a->link.endpoint.label];
    for (int i = 0; i < HOPS; i++) {
        memcpy(label, a->link.endpoint.label, sizeof label);
        if (!link_follow(&a->link, a->where))
            return false;
        if (strcmp(label, a->link.endpoint.label) != 0)
            forget_server(a);
        if (round_once(a))
            return true;
        if (!link_leads_on(&a->link, a->where))
            return false;
    }
    return false;
}

/* Of two that go on at one moment, as clones do, each would put its record over the other's before that is seen. */
static int64_t pause_ms(const agent *a) {
    int64_t every_ms = a->options->every_ms;
    uint64_t drawn;
    if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != (ssize_t)sizeof drawn)
        return every_ms; /* the machine has only just started: next time */
    return every_ms - (int64_t)(drawn % (uint64_t)(every_ms / SPREAD + 1));
}

/* Was the clock set since the last round, or has its daemon begun to correct it? */
static bool is_overtaken(agent *a) {
    skew_reading now = skew_reading_now();
    bool set = moment_set_seen(a->set);
    return set || (a->track.has_reading && !skew_unbroken(&a->track, &now)) ||
           moment_kernel().slew_ppm > a->slew_ppm;
}

/* Until then, or until what was published is true no more. True: it is to end. */
static bool rest(agent *a, signals *s, int64_t until, bool *ret_early) {
    int64_t left = until - moment_ms();
    *ret_early = false;
    do {
        int64_t ms = left < 1 ? 1 : left < LOOK_MS ? left : LOOK_MS;
        if (signals_pause_or(s, a->failing ? -1 : a->set, ms))
            return true;
        *ret_early = !a->failing && is_overtaken(a);
        left = until - moment_ms();
    } while (left > 0 && !*ret_early);
    return false;
}

/* The signal that ends it. */
static void serve(agent *a, signals *s) {
    int64_t next = moment_ms();
    bool early = false, ends = false;
    do {
        bool ok = round_there(a);
        if (!ok && !a->failing)
            say("agent: %s; it tries again every %lld ms", a->link.message,
                (long long)a->options->every_ms);
        else if (ok && a->failing)
            say("agent: the server replies again");
        (void)count_round(a, ok);
        int64_t now = moment_ms(),
                soon = now + (a->options->every_ms < SOON_MS ? a->options->every_ms : SOON_MS);
        next += early ? 0 : pause_ms(a);
        next = next > now ? next : now;
        bool wonders = ok && soon < next && (!a->track.known || skew_pace_wonders(&a->pace));
        ends = rest(a, s, wonders ? soon : next, &early);
        early = early || wonders;
    } while (!ends);
    withdraw(a);
    a->failing = true; /* nobody measures any more, and the file stays */
    (void)write_metrics(a);
}

/* Whatever a retry can't mend ends it at the start. */
static int start(agent *a) {
    if (a->link.conn && (round_once(a) || (link_leads_on(&a->link, a->where) && round_there(a))))
        return (a->track.known && a->track.steps == 0) || !a->options->once
                   ? 0
                   : fail(STATUS_UNAVAILABLE,
                          "agent: the clock was set while it was measured; try again");
    bool lasting = a->link.status != STATUS_UNAVAILABLE;
    return lasting || a->options->once ? fail(a->link.status, "%s", a->link.message) : 0;
}

/* A round that can't be told of is no success. */
static int run_once(agent *a) {
    int status = start(a), second = count_round(a, status == 0);
    return status ? status : second;
}

static int agent_run(agent *a) {
    signals s;

    if (a->options->once)
        return run_once(a);
    if (signals_begin(&s))
        return fail(STATUS_INTERNAL, "signals: %s", strerror(errno));
    a->set = moment_set_begin();
    int status = start(a);
    if (status == 0)
        serve(a, &s);
    if (a->set >= 0)
        close(a->set);
    return status;
}

/* ---- hosts that were retired ------------------------------------------------------------------- */

static int forget_one(server_link *l, const char *name, int64_t now_us) {
    char key[SKEW_KEY_SIZE];
    found f = {.there = false};
    int64_t known = 0, gone = 0;

    skew_record_key(key, name);
    const char *const get[] = {"GET", key, NULL}, *const del[] = {"DEL", key, NULL},
                      *const rem[] = {"ZREM", SKEW_INDEX_KEY, name, NULL};
    if (!link_ask(l, get, take_record, &f) || !link_ask(l, rem, take_count, &known) ||
        !link_ask(l, del, take_count, &gone))
        return fail(l->status, "%s", l->message);
    if (known + gone == 0)
        return fail(STATUS_NOT_THERE,
                    "agent: host %s is unknown; \"tidelock skew\" lists the known ones", name);
    if (f.there && skew_record_end_us(&f.record) >= now_us)
        say("agent: the agent of %s was there a moment ago: stop it, or %s comes back", name, name);
    return 0;
}

static int forget(const server *s, const opt_texts *names) {
    server_link link;
    skew_track track = {.known = false};

    for (int i = 0; i < names->count; i++)
        if (!skew_name_ok(names->text[i]))
            return fail(STATUS_USAGE, "agent: --forget: " NAME_RULE);
    int status = server_need_url(s, "agent");
    status = status ? status : link_open(&link, s);
    if (status)
        return status;
    link.needer = &skew_needer;
    if (!skew_sample(&link, &track, SKEW_DRIFT_PPM))
        status = fail(link.status, "%s", link.message);
    for (int i = 0; i < names->count && (status == 0 || status == STATUS_NOT_THERE); i++) {
        int one = forget_one(&link, names->text[i], track.stamp_us);
        status = one ? one : status;
    }
    link_close(&link);
    return status;
}

static int agent_command(const server *s, const void *options, const operands *args) {
    const agent_options *o = options;
    agent a = {.options = o, .where = s, .rate_ppm = SKEW_DRIFT_PPM, .set = -1};

    (void)args;
    if (o->forget.count)
        return o->name || o->once || o->metrics || o->every_ms != agent_defaults.every_ms
                   ? fail(STATUS_USAGE,
                          "agent: --forget: leave --name, --every, --once and --metrics out")
                   : forget(s, &o->forget);
    if (o->name && !skew_name_ok(o->name))
        return fail(STATUS_USAGE, "agent: --name: " NAME_RULE);
    if (o->every_ms < EVERY_LEAST_MS || o->every_ms > SKEW_EVERY_MOST_MS)
        return fail(STATUS_USAGE, "agent: --every: 100ms to 1h");
    if (o->name)
        (void)snprintf(a.name, sizeof a.name, "%s", o->name);
    else
        skew_self_name(a.name);
    skew_record_key(a.key, a.name);
    skew_self_id(a.id);
    int status = server_need_url(s, "agent");
    if (!status && o->metrics)
        status = outfile_check("agent: --metrics", o->metrics);
    if (status)
        return status;
    status = link_open_quietly(&a.link,
                               s); /* Sentinels that are away may come back, as a server may */
    if (status && (status != STATUS_UNAVAILABLE || !link_is_led(s)))
        return fail(status, "%s", a.link.message);
    a.link.needer = &skew_needer;
    status = agent_run(&a);
    link_close(&a.link);
    return status;
}

const command agent_row = {
    .name = "agent",
    .usage = "[options]",
    .help = "publish how far this host's clock is from the server's",
    .notes =
        "\"tidelock skew\" on any host then shows all hosts that do so, and misses those that cease to "
        "for a day, unless they are forgotten.\n",
    .options = agent_table,
    .defaults = &agent_defaults,
    .size = sizeof(agent_options),
    .function = agent_command,
};
