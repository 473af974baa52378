/*
 * tidelock agent: measures this host's clock against the server's at intervals, and publishes the
 * result under a lease. Any host can then print the whole matrix.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/metrics.h"
#include "base/outfile.h"
#include "base/signals.h"
#include "link/link_open.h"
#include "skew/judge/skew_pace.h"
#include "skew/skew_vmclock.h"
#include "skew/skew_self.h"

#define BURST 8       /* requests each round */
#define BURST_MS 1000 /* ms; longest duration of a round's requests */
/* ms; how often to check whether the clock was set, if the kernel doesn't notify */
#define LOOK_MS 200
#define SOON_MS 1000 /* ms; until a new or doubtful track is measured again */
/* A clock that is slewed faster is measured each SOON_MS: between two rounds its interval grows by as much as
 * the clock may move, so after 10 s at 83,333 ppm it would be too wide for a verdict. */
#define FAST_PPM 500
#define SLEWED_LEAST_US 50 /* less may be the time between two readings */
#define SPREAD 16          /* a round may come earlier by up to 1/16 of --every */
#define EVERY_LEAST_MS 100
#define NAME_RULE "1 to 64 letters, digits and any of . _ : -"
#define STATUS_NOT_THERE 1 /* --forget: no such host */

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
     "measure and publish every D (10s)", 0, 0},
    {0, "once", OPT_FLAG, offsetof(agent_options, once), NULL,
     "measure once, publish for three times --every, and end", 0, 0},
    {0, "metrics", OPT_TEXT, offsetof(agent_options, metrics), "FILE",
     "each time replace FILE by metrics, for Prometheus' textfile collector", 0, 0},
    {0, "forget", OPT_TEXTS, offsetof(agent_options, forget), "HOST",
     "instead: remove the record of HOST, a retired host; may be repeated", 0, 0},
    {'v', "verbose", OPT_FLAG, offsetof(agent_options, verbose), NULL,
     "report on stderr what is published", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const agent_options agent_defaults = {.every_ms = 10000};

typedef struct {
    const agent_options *options;
    const server *where;
    char name[SKEW_NAME_SIZE], key[SKEW_KEY_SIZE], id[SKEW_ID_SIZE];
    server_link link;
    skew_track track;
    skew_record record;            /* the last one that was published, */
    tl_mono measured;              /* and when that was measured */
    char server[SKEW_SERVER_SIZE]; /* the server that the track was measured against */
    bool published;                /* at least once */
    int64_t put_us[2];             /* at_us of the last two records sent */
    int clash;                     /* rounds in which a clash is still reported; 0: none */
    bool failing;
    int64_t rounds, failed;
    int64_t success_us; /* wall clock of the last successful round; 0: none */
    bool unwritten;     /* the last write of the metrics failed */
    int32_t rate_ppm;   /* the clock's rate in the last round */
    int32_t slew_ppm;   /* the kernel's correction in the last round */
    int64_t slewed_us;  /* and how far it had slewed the clock then, */
    int64_t slewed_ms;  /* at this moment */
    skew_pace pace;
    skew_vmclock vmclock;
    int set; /* readable after the clock was set; -1: not available */
} agent;

/* ---- the record ------------------------------------------------------------------------------ */

typedef struct {
    bool there;
    skew_record record;
} found;

static bool take_record(void *ctx, const tl_reply *reply) {
    found *found = ctx;
    tl_bytes text;

    found->there = tl__reply_text(reply, &text) && skew_record_read(text.p, text.n, &found->record);
    return true;
}

static bool take_count(void *ctx, const tl_reply *reply) {
    int64_t *count = ctx;
    return tl__reply_int(reply, count);
}

/* Did this agent write the record? The ID is not enough: a machine cloned while it ran has an agent
 * with our ID. */
static bool is_ours(const agent *agent, const skew_record *record) {
    return strcmp(record->id, agent->id) == 0 &&
           (record->at_us == agent->put_us[0] || record->at_us == agent->put_us[1]);
}

/* Is another agent publishing under our name? A predecessor, or an agent that has ended, doesn't
 * count. The clash is reported for as long as a record lasts: if one of the two is late, the other
 * one finds its own record. */
static bool look_for_clash(agent *agent) {
    const char *const request[] = {"GET", agent->key, NULL};
    found found = {.there = false};

    if (!link_ask(&agent->link, request, take_record, &found))
        return false;
    bool other = found.there && !is_ours(agent, &found.record) &&
                 skew_record_end_us(&found.record) >= agent->track.stamp_us;
    bool clash = other && (agent->published || !skew_same_boot(found.record.id, agent->id));
    if (clash && !agent->clash)
        say("agent: another agent publishes as %s: give one of them another name (--name)",
            agent->name);
    if (clash)
        agent->clash = SKEW_LEASE;
    else if (agent->clash > 0)
        agent->clash--;
    return true;
}

/* Removes names a day after their lease; if there are too many, those silent for longest. */
static bool keep_index(agent *agent, int64_t at_us, int64_t kept_ms) {
    char past[TL_INT_SIZE], kept[TL_INT_SIZE], oldest[TL_INT_SIZE];

    (void)snprintf(oldest, sizeof oldest, "%d", -1 - SKEW_NAMES_MOST);
    (void)snprintf(past, sizeof past, "(%lld", (long long)(at_us - SKEW_REMEMBERED_MS * 1000));
    (void)snprintf(kept, sizeof kept, "%lld", (long long)kept_ms);
    const char *const keep[] = {"PEXPIRE", SKEW_INDEX_KEY, kept, NULL},
                      *const prune[] = {"ZREMRANGEBYSCORE", SKEW_INDEX_KEY, "-inf", past, NULL},
                      *const bound[] = {"ZREMRANGEBYRANK", SKEW_INDEX_KEY, "0", oldest, NULL};
    return link_ask(&agent->link, keep, NULL, NULL) && link_ask(&agent->link, prune, NULL, NULL) &&
           link_ask(&agent->link, bound, NULL, NULL);
}

static bool put(agent *agent, const skew_record *record) {
    char text[SKEW_RECORD_SIZE], kept[TL_INT_SIZE], until[TL_INT_SIZE];
    int64_t end_us = skew_record_end_us(record),
            kept_ms = (end_us - record->at_us) / 1000 + SKEW_REMEMBERED_MS;

    skew_record_write(text, record);
    (void)snprintf(kept, sizeof kept, "%lld", (long long)kept_ms);
    (void)snprintf(until, sizeof until, "%lld", (long long)end_us);
    const char *const add[] = {"ZADD", SKEW_INDEX_KEY, until, agent->name, NULL}, *const set[] = {
                                                                                      "PSETEX",
                                                                                      agent->key,
                                                                                      kept, text,
                                                                                      NULL};
    return link_ask(&agent->link, add, NULL, NULL) && link_ask(&agent->link, set, NULL, NULL) &&
           keep_index(agent, record->at_us, kept_ms);
}

static bool publish(agent *agent, const kernel_clock *kernel) {
    skew_record record;

    skew_self_record(&agent->track, kernel, agent->server, &record);
    record.every_ms = agent->options->every_ms;
    record.clash = agent->clash > 0;
    record.alarm = agent->vmclock.alarm;
    skew_pace_mark(&agent->pace, agent->track.at, &record);
    agent->put_us[1] = agent->put_us[0];
    agent->put_us[0] = record.at_us;
    if (!put(agent, &record))
        return false;
    agent->published = true;
    agent->record = record;
    agent->measured = agent->track.at;
    if (agent->options->verbose)
        say("agent: %s is %lld to %lld us from the server's clock", agent->name,
            (long long)record.offset.lo, (long long)record.offset.hi);
    return true;
}

/* Ends the lease of our record, unless another agent has replaced it. The measurement stays as long
 * as any host is remembered: a bad clock does not improve when it is no longer measured. */
static void withdraw(agent *agent) {
    const char *const get[] = {"GET", agent->key, NULL};
    found found = {.there = false};

    if (!agent->published || !link_ask(&agent->link, get, take_record, &found) || !found.there ||
        !is_ours(agent, &found.record))
        return;
    found.record.every_ms = SKEW_EVERY_ENDED_MS;
    (void)put(agent, &found.record);
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* As a reader of the record would age it: the file is also written when the server can't be reached. */
static void put_offset(const metrics *metrics, const agent *agent) {
    static const metrics_label lo = {"edge", "lo"}, hi = {"edge", "hi"};
    tl_interval offset = tl__interval_aged(agent->record.offset, agent->measured,
                                           skew_reading_now().after,
                                           SKEW_DRIFT_PPM + (int32_t)agent->record.slew_ppm);
    metrics_head(metrics, "agent_offset_seconds", "gauge",
                 "This host's clock minus the server's, bounds.");
    metrics_seconds(metrics, "agent_offset_seconds", &lo, offset.lo);
    metrics_seconds(metrics, "agent_offset_seconds", &hi, offset.hi);
    metrics_head(metrics, "agent_width_seconds", "gauge", "How far these bounds are apart.");
    metrics_seconds(metrics, "agent_width_seconds", NULL, tl__add_sat(offset.hi, -offset.lo));
}

static void put_metrics(const void *ctx, FILE *out) {
    const agent *agent = ctx;
    const metrics metrics = {.out = out, .label = {{"host", agent->name}}};
    metrics_head(&metrics, "agent_up", "gauge",
                 "1 if the agent runs, and its last round was published.");
    metrics_int(&metrics, "agent_up", NULL, agent->success_us > 0 && !agent->failing);
    metrics_head(&metrics, "agent_name_clash", "gauge",
                 "1 if another agent publishes under the same name.");
    metrics_int(&metrics, "agent_name_clash", NULL, agent->clash > 0);
    metrics_head(&metrics, "agent_rounds_total", "counter", "Rounds of measuring.");
    metrics_int(&metrics, "agent_rounds_total", NULL, agent->rounds);
    metrics_head(&metrics, "agent_rounds_failed_total", "counter", "Rounds that failed.");
    metrics_int(&metrics, "agent_rounds_failed_total", NULL, agent->failed);
    if (agent->success_us > 0) {
        metrics_head(&metrics, "agent_last_success_timestamp_seconds", "gauge",
                     "When the last round was published.");
        metrics_seconds(&metrics, "agent_last_success_timestamp_seconds", NULL, agent->success_us);
    }
    if (agent->track.known && agent->published)
        put_offset(&metrics, agent);
}

/* A failed write is reported once; measuring continues. */
static int write_metrics(agent *agent) {
    const char *path = agent->options->metrics;
    if (!path)
        return 0;
    int why = outfile_replace_quietly(path, put_metrics, agent);
    bool reported = agent->unwritten;
    agent->unwritten = why != 0;
    return why && !reported
               ? fail(STATUS_CONFIG, "agent: --metrics %.200s: %s", path, outfile_why(why))
           : why ? STATUS_CONFIG
                 : 0;
}

static int count_round(agent *agent, bool ok) {
    agent->rounds++;
    agent->failed += !ok;
    agent->failing = !ok;
    if (ok)
        agent->success_us = moment_wall_us();
    return write_metrics(agent);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void forget_server(agent *agent) {
    agent->track.known = false;
    skew_pace_forget(&agent->pace);
}

/* Forgets the measurements after a change of server, or a pause of this machine: they apply no longer. */
static bool look_for_server(agent *agent) {
    char server[SKEW_SERVER_SIZE];

    if (!skew_self_server(&agent->link, server))
        return false;
    bool disrupted = skew_vmclock_look(&agent->vmclock, agent->name);
    if (disrupted || strcmp(server, agent->server) != 0)
        forget_server(agent);
    memcpy(agent->server, server, sizeof server);
    return true;
}

/* Reports once that the clock runs wrong, and once that it runs right again. */
static void learn_pace(agent *agent, int32_t bound_ppm) {
    bool was = agent->pace.wrong;
    skew_pace_learn(&agent->pace, &agent->track, bound_ppm);
    if (agent->pace.wrong && !was)
        say("agent: the clock of %s runs wrong, or is set repeatedly: by up to %d ppm against the "
            "server's",
            agent->name, (int)skew_pace_ppm(&agent->pace));
    else if (was && !agent->pace.wrong)
        say("agent: the clock of %s runs correctly again", agent->name);
}

static bool round_once(agent *agent) {
    static const skew_effort effort = {.samples = BURST, .for_ms = BURST_MS};
    kernel_clock kernel = moment_kernel();
    int32_t rate = skew_self_rate(&kernel);

    /* A correction may begin or end between two rounds, so the faster rate counts for the time
     * between. */
    int32_t between = rate > agent->rate_ppm ? rate : agent->rate_ppm;
    agent->rate_ppm = rate;
    agent->slew_ppm = kernel.slew_ppm;
    agent->slewed_us = moment_slewed_us();
    agent->slewed_ms = moment_ms();
    /* Nor is the rate slower than the one observed. */
    int32_t seen = skew_pace_ppm(&agent->pace) > 0
                       ? skew_rate(SKEW_DRIFT_PPM, skew_pace_ppm(&agent->pace))
                       : 0;
    skew_track_round(&agent->track);
    if (!look_for_server(agent) ||
        !skew_self_measure(&agent->link, &agent->track, &effort, between > seen ? between : seen) ||
        !look_for_server(agent))
        return false;
    if (!agent->options->once)
        learn_pace(agent, between);
    /* A single round cannot distinguish a step from a clock that moves while it is read. */
    bool doubtful = !agent->track.known || (agent->options->once && agent->track.steps > 0);
    return doubtful || (look_for_clash(agent) && publish(agent, &kernel));
}

#define HOPS 3 /* most redirections, in a cluster whose slots are being moved */

/* A round that follows a change of server. Measurements of another server don't count, even where
 * this client may not ask a server for its identity. */
static bool round_there(agent *agent) {
    char label[sizeof agent->link.endpoint.label];
    for (int i = 0; i < HOPS; i++) {
        memcpy(label, agent->link.endpoint.label, sizeof label);
        if (!link_follow(&agent->link, agent->where))
            return false;
        if (strcmp(label, agent->link.endpoint.label) != 0)
            forget_server(agent);
        if (round_once(agent))
            return true;
        if (!link_leads_on(&agent->link, agent->where))
            return false;
    }
    return false;
}

/* The pause is random: two cloned agents that resume at the same moment would otherwise overwrite
 * each other's record before they can notice. */
static int64_t pause_ms(const agent *agent) {
    int64_t every_ms = agent->options->every_ms;
    uint64_t drawn;
    if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != (ssize_t)sizeof drawn)
        return every_ms; /* the machine has just started: no randomness yet */
    return every_ms - (int64_t)(drawn % (uint64_t)(every_ms / SPREAD + 1));
}

/* Has the clock been slewed since the last round by more than its record allows for? A correction may begin
 * and end between two looks at what the kernel reports. */
static bool was_slewed(const agent *agent) {
    int64_t moved_us = llabs(moment_slewed_us() - agent->slewed_us),
            may_us = (moment_ms() - agent->slewed_ms) * (SKEW_DRIFT_PPM / 2 + agent->slew_ppm) /
                     1000;
    return moved_us > may_us + SLEWED_LEAST_US;
}

/* Was the clock set since the last round, or has its daemon begun to correct it? */
static bool is_overtaken(agent *agent) {
    skew_reading now = skew_reading_now();
    bool set = moment_set_seen(agent->set);
    return set || (agent->track.has_reading && !skew_unbroken(&agent->track, &now)) ||
           moment_kernel().slew_ppm > agent->slew_ppm || was_slewed(agent);
}

/* Waits until then, or until the published record is outdated. True: a signal ends the agent. */
static bool rest(agent *agent, signals *signals, int64_t until, bool *ret_early) {
    int64_t left = until - moment_ms();
    *ret_early = false;
    do {
        int64_t ms = left < 1 ? 1 : left < LOOK_MS ? left : LOOK_MS;
        if (signals_pause_or(signals, agent->failing ? -1 : agent->set, ms))
            return true;
        *ret_early = !agent->failing && is_overtaken(agent);
        left = until - moment_ms();
    } while (left > 0 && !*ret_early);
    return false;
}

/* Measures until a signal ends the agent. */
static void serve(agent *agent, signals *signals) {
    int64_t next = moment_ms();
    bool early = false, ends = false;
    do {
        bool ok = round_there(agent);
        if (!ok && !agent->failing)
            say("agent: %s; it tries again every %lld ms", agent->link.message,
                (long long)agent->options->every_ms);
        else if (ok && agent->failing)
            say("agent: the server replies again");
        (void)count_round(agent, ok);
        int64_t now = moment_ms(),
                soon = now +
                       (agent->options->every_ms < SOON_MS ? agent->options->every_ms : SOON_MS);
        next += early ? 0 : pause_ms(agent);
        next = next > now ? next : now;
        bool wonders = ok && soon < next &&
                       (!agent->track.known || skew_pace_wonders(&agent->pace) ||
                        agent->slew_ppm > FAST_PPM);
        ends = rest(agent, signals, wonders ? soon : next, &early);
        early = early || wonders;
    } while (!ends);
    withdraw(agent);
    agent->failing = true; /* measuring has ended, but the file stays */
    (void)write_metrics(agent);
}

/* An error that a retry can't fix ends the agent at the start. */
static int start(agent *agent) {
    if (agent->link.conn &&
        (round_once(agent) || (link_leads_on(&agent->link, agent->where) && round_there(agent))))
        return (agent->track.known && agent->track.steps == 0) || !agent->options->once
                   ? 0
                   : fail(STATUS_UNAVAILABLE,
                          "agent: the clock was set while it was measured; try again");
    bool lasting = agent->link.status != STATUS_UNAVAILABLE;
    return lasting || agent->options->once ? fail(agent->link.status, "%s", agent->link.message)
                                           : 0;
}

/* A round whose metrics can't be written is a failure. */
static int run_once(agent *agent) {
    int status = start(agent), second = count_round(agent, status == 0);
    return status ? status : second;
}

static int agent_run(agent *agent) {
    signals signals;

    if (agent->options->once)
        return run_once(agent);
    if (signals_begin(&signals))
        return fail(STATUS_INTERNAL, "signals: %s", strerror(errno));
    agent->set = moment_set_begin();
    int status = start(agent);
    if (status == 0)
        serve(agent, &signals);
    if (agent->set >= 0)
        close(agent->set);
    return status;
}

/* ---- retired hosts -------------------------------------------------------------------------- */

static int forget_one(server_link *link, const char *name, int64_t now_us) {
    char key[SKEW_KEY_SIZE];
    found found = {.there = false};
    int64_t known = 0, gone = 0;

    skew_record_key(key, name);
    const char *const get[] = {"GET", key, NULL}, *const del[] = {"DEL", key, NULL},
                      *const rem[] = {"ZREM", SKEW_INDEX_KEY, name, NULL};
    if (!link_ask(link, get, take_record, &found) || !link_ask(link, rem, take_count, &known) ||
        !link_ask(link, del, take_count, &gone))
        return fail(link->status, "%s", link->message);
    if (known + gone == 0)
        return fail(STATUS_NOT_THERE,
                    "agent: host %s is unknown; \"tidelock skew\" lists the known ones", name);
    if (found.there && skew_record_end_us(&found.record) >= now_us)
        say("agent: the agent of %s may still run: stop it first, or the record of %s returns",
            name, name);
    return 0;
}

static int forget(const server *where, const opt_texts *names) {
    server_link link;
    skew_track track = {.known = false};

    for (int i = 0; i < names->count; i++)
        if (!skew_name_ok(names->text[i]))
            return fail(STATUS_USAGE, "agent: --forget: " NAME_RULE);
    int status = server_need_url(where, "agent");
    status = status ? status : link_open(&link, where);
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

static int agent_command(const server *where, const void *values, const operands *args) {
    const agent_options *options = values;
    agent agent = {.options = options, .where = where, .rate_ppm = SKEW_DRIFT_PPM, .set = -1};

    (void)args;
    if (options->forget.count)
        return options->name || options->once || options->metrics ||
                       options->every_ms != agent_defaults.every_ms
                   ? fail(STATUS_USAGE,
                          "agent: --forget: leave --name, --every, --once and --metrics out")
                   : forget(where, &options->forget);
    if (options->name && !skew_name_ok(options->name))
        return fail(STATUS_USAGE, "agent: --name: " NAME_RULE);
    if (options->every_ms < EVERY_LEAST_MS || options->every_ms > SKEW_EVERY_MOST_MS)
        return fail(STATUS_USAGE, "agent: --every: 100ms to 1h");
    if (options->name)
        (void)snprintf(agent.name, sizeof agent.name, "%s", options->name);
    else
        skew_self_name(agent.name);
    skew_record_key(agent.key, agent.name);
    skew_self_id(agent.id);
    int status = server_need_url(where, "agent");
    if (!status && options->metrics)
        status = outfile_check("agent: --metrics", options->metrics);
    if (status)
        return status;
    status = link_open_quietly(&agent.link,
                               where); /* unreachable Sentinels may return, as a server may */
    if (status && (status != STATUS_UNAVAILABLE || !link_is_led(where)))
        return fail(status, "%s", agent.link.message);
    agent.link.needer = &skew_needer;
    status = agent_run(&agent);
    link_close(&agent.link);
    return status;
}

const command agent_row = {
    .name = "agent",
    .usage = "[options]",
    .help = "publish how far this host's clock is from the server's",
    .notes = "\"tidelock skew\" on any host then shows every host that runs an agent. For a day it "
             "reports a host "
             "as missing when its agent has stopped, unless you remove it with --forget.\n",
    .statuses =
        (const status_row[]){
            {STATUS_OK, "done, or ended by a signal", NULL},
            {STATUS_NOT_THERE, "--forget: the host is unknown", "*--forget*: the host is unknown"},
            {STATUS_UNAVAILABLE, NULL, "the server can't be reached, with *--once* or *--forget*"},
            {STATUS_REFUSED, NULL, "the server refuses, or has no TIME (before Redis 2.6)"},
            {0, NULL, NULL}},
    .options = agent_table,
    .defaults = &agent_defaults,
    .size = sizeof(agent_options),
    .function = agent_command,
};
