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
    found *found = ctx;
    tl_bytes text;

    found->there = tl__reply_text(reply, &text) && skew_record_read(text.p, text.n, &found->record);
    return true;
}

static bool take_count(void *ctx, const tl_reply *reply) {
    int64_t *count = ctx;
    return tl__reply_int(reply, count);
}

/* Whose bytes: a machine that was cloned while it ran has an agent with our id, too. */
static bool is_ours(const agent *agent, const skew_record *record) {
    return strcmp(record->id, agent->id) == 0 &&
           (record->at_us == agent->put_us[0] || record->at_us == agent->put_us[1]);
}

/* Another agent of our name, and not merely one that we follow, or that has gone. It is told of for
 * as long as a record lasts: one of the two may be late, and the other then finds its own. */
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

/* Names go a day after their lease; of too many those that have been silent for longest. */
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
    skew_pace_mark(&agent->pace, agent->track.at, &record);
    agent->put_us[1] = agent->put_us[0];
    agent->put_us[0] = record.at_us;
    if (!put(agent, &record))
        return false;
    agent->published = true;
    if (agent->options->verbose)
        say("agent: %s is %lld to %lld us from the server's clock", agent->name,
            (long long)record.offset.lo, (long long)record.offset.hi);
    return true;
}

/* What was found stays for as long as any host is remembered, but is the host's word no more,
 * unless it is another's by now: a host with a bad clock is no better for not being watched. */
static void withdraw(agent *agent) {
    const char *const get[] = {"GET", agent->key, NULL};
    found found = {.there = false};

    if (!agent->published || !link_ask(&agent->link, get, take_record, &found) || !found.there ||
        !is_ours(agent, &found.record))
        return;
    found.record.every_ms = 1;
    (void)put(agent, &found.record);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void put_offset(const metrics *metrics, const skew_track *track) {
    static const metrics_label lo = {"edge", "lo"}, hi = {"edge", "hi"};
    tl_interval offset = track->offset;
    metrics_head(metrics, "agent_offset_seconds", "gauge",
                 "This host's clock less the server's, bounds.");
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
                 "1 if another agent publishes by the same name.");
    metrics_int(&metrics, "agent_name_clash", NULL, agent->clash > 0);
    metrics_head(&metrics, "agent_rounds_total", "counter", "Rounds of measuring.");
    metrics_int(&metrics, "agent_rounds_total", NULL, agent->rounds);
    metrics_head(&metrics, "agent_rounds_failed_total", "counter", "Rounds that failed.");
    metrics_int(&metrics, "agent_rounds_failed_total", NULL, agent->failed);
    if (agent->success_us > 0) {
        metrics_head(&metrics, "agent_last_success_timestamp_seconds", "gauge",
                     "When a round was published last.");
        metrics_seconds(&metrics, "agent_last_success_timestamp_seconds", NULL, agent->success_us);
    }
    if (agent->track.known && agent->success_us > 0)
        put_offset(&metrics, &agent->track);
}

/* What can't be written is told once; measuring goes on. */
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

/* What was measured against another server's clock says nothing of this one's. */
static bool look_for_server(agent *agent) {
    char server[SKEW_SERVER_SIZE];

    if (!skew_self_server(&agent->link, server))
        return false;
    if (strcmp(server, agent->server) != 0)
        forget_server(agent);
    memcpy(agent->server, server, sizeof server);
    return true;
}

/* A clock that runs wrong is told of once, and when it runs right again. */
static void learn_pace(agent *agent, int32_t bound_ppm) {
    bool was = agent->pace.wrong;
    skew_pace_learn(&agent->pace, &agent->track, bound_ppm);
    if (agent->pace.wrong && !was)
        say("agent: the clock of %s runs wrong, or is set again and again: by up to %d ppm against the server's",
            agent->name, (int)skew_pace_ppm(&agent->pace));
    else if (was && !agent->pace.wrong)
        say("agent: the clock of %s runs as it should again", agent->name);
}

static bool round_once(agent *agent) {
    static const skew_effort effort = {.samples = BURST, .for_ms = BURST_MS};
    kernel_clock kernel = moment_kernel();
    int32_t rate = skew_self_rate(&kernel);

    /* A correction that begins or ends between two rounds: the faster rate holds for the time between. */
    int32_t between = rate > agent->rate_ppm ? rate : agent->rate_ppm;
    agent->rate_ppm = rate;
    agent->slew_ppm = kernel.slew_ppm;
    /* Nor is it slower than it was seen to be. */
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
    /* By a single round nobody can tell a step from a clock that moves while it is read. */
    bool doubtful = !agent->track.known || (agent->options->once && agent->track.steps > 0);
    return doubtful || (look_for_clash(agent) && publish(agent, &kernel));
}

#define HOPS 3 /* in a cluster whose slots are being moved */

/* Where the server may have changed: what was measured of another doesn't count, whoever may not ask which it is. */
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

/* Of two that go on at one moment, as clones do, each would put its record over the other's before that is seen. */
static int64_t pause_ms(const agent *agent) {
    int64_t every_ms = agent->options->every_ms;
    uint64_t drawn;
    if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != (ssize_t)sizeof drawn)
        return every_ms; /* the machine has only just started: next time */
    return every_ms - (int64_t)(drawn % (uint64_t)(every_ms / SPREAD + 1));
}

/* Was the clock set since the last round, or has its daemon begun to correct it? */
static bool is_overtaken(agent *agent) {
    skew_reading now = skew_reading_now();
    bool set = moment_set_seen(agent->set);
    return set || (agent->track.has_reading && !skew_unbroken(&agent->track, &now)) ||
           moment_kernel().slew_ppm > agent->slew_ppm;
}

/* Until then, or until what was published is true no more. True: it is to end. */
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

/* The signal that ends it. */
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
                       (!agent->track.known || skew_pace_wonders(&agent->pace));
        ends = rest(agent, signals, wonders ? soon : next, &early);
        early = early || wonders;
    } while (!ends);
    withdraw(agent);
    agent->failing = true; /* nobody measures any more, and the file stays */
    (void)write_metrics(agent);
}

/* Whatever a retry can't mend ends it at the start. */
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

/* A round that can't be told of is no success. */
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

/* ---- hosts that were retired ------------------------------------------------------------------- */

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
        say("agent: the agent of %s was there a moment ago: stop it, or %s comes back", name, name);
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
                               where); /* Sentinels that are away may come back, as a server may */
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
    .notes =
        "\"tidelock skew\" on any host then shows all hosts that do so, and misses those that cease to "
        "for a day, unless they are forgotten.\n",
    .options = agent_table,
    .defaults = &agent_defaults,
    .size = sizeof(agent_options),
    .function = agent_command,
};
