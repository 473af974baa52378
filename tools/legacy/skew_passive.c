/*
 * Turns commands into intervals. A lower edge holds whatever a client does: its clock was read
 * before its command was executed. An upper edge needs more: an earlier command whose reply the
 * client had received when it read its clock. In doubt there is no upper edge.
 *
 * GETSET gives no upper edge. It may send the SETNX's value once more, so only the command before
 * the SETNX can be used. From there its later value can't prove more than the SETNX's own.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "legacy/skew_passive.h"
#include "ground/bytes.h"
#include "ground/guard.h"
#include "skew/judge/skew_number.h"

#define NOTHING ((tl_interval){INT64_MIN, INT64_MAX})
#define SECOND_US INT64_C(1000000)
#define NEARLY_US (SECOND_US / 10 * 9)

bool skew_passive_begin(skew_passive *passive, const skew_model *model) {
    return skew_passive_begin_for(passive, model, SKEW_HOSTS_MAX, SKEW_CONNECTIONS_MAX);
}

bool skew_passive_begin_for(skew_passive *passive, const skew_model *model, int hosts,
                            int connections) {
    *passive = (skew_passive){
        .model = *model,
        .source = calloc((size_t)hosts, sizeof *passive->source),
        .connection = calloc((size_t)connections, sizeof *passive->connection),
        .sources_max = hosts,
        .connections_max = connections};
    if (passive->source && passive->connection)
        return true;
    skew_passive_end(passive);
    return false;
}

void skew_passive_end(skew_passive *passive) {
    free(passive->source);
    free(passive->connection);
    passive->source = NULL;
    passive->connection = NULL;
}

/* ---- clients -------------------------------------------------------------------------------- */

/* The client's entry, new if needed; NULL: the table is full. */
static skew_connection *connection_of(skew_passive *passive, const char *client) {
    uint32_t at = (uint32_t)(tl__bytes_hash(0, tl__bytes_of(client)) %
                             (uint64_t)passive->connections_max);

    while (passive->connection[at].client[0] && strcmp(passive->connection[at].client, client) != 0)
        at = (at + 1) % (uint32_t)passive->connections_max;
    skew_connection *connection = &passive->connection[at];
    if (connection->spell != passive->spell)
        connection->has_before = connection->in_multi = false;
    connection->spell = passive->spell;
    if (connection->client[0])
        return connection;
    if (passive->connections >= passive->connections_max / 4 * 3) {
        passive->full = true;
        return NULL;
    }
    passive->connections++;
    memcpy(connection->client, client, strlen(client) + 1);
    return connection;
}

static skew_source *source_of(skew_passive *passive, const char *name) {
    for (int i = 0; i < passive->sources; i++)
        if (strcmp(passive->source[i].name, name) == 0)
            return &passive->source[i];
    if (passive->sources == passive->sources_max) {
        passive->full = true;
        return NULL;
    }
    skew_source *source = &passive->source[passive->sources++];
    *source = (skew_source){.sum = NOTHING};
    memcpy(source->name, name, strlen(name) + 1);
    return source;
}

/* ---- which commands ----------------------------------------------------------------------------- */

static bool is_any(const skew_heard *heard, const char *const *names) {
    for (; *names; names++)
        if (skew_heard_is(heard, *names))
            return true;
    return false;
}

bool skew_is_take(const skew_heard *heard) {
    return heard->by == SKEW_BY_TCP && heard->words == SKEW_WORDS &&
           (skew_heard_is(heard, "setnx") || skew_heard_is(heard, "getset"));
}

/* Is it a command that client libraries send by themselves? It may come between the caller's
 * reading of its clock and its command, so it gives no upper edge. */
static bool is_aside(const skew_heard *heard) {
    static const char *const names[] = {
        "ping",   "echo",  "select", "auth",    "hello",   "client", "readonly", "readwrite",
        "asking", "multi", "watch",  "unwatch", "command", "reset",  "quit",     NULL};
    return GUARD(asides_bound_nothing) && is_any(heard, names);
}

/* Records whether later commands of the connection can use this one for an upper edge. */
static void follow(skew_connection *connection, const skew_heard *heard) {
    static const char *const ends[] = {"exec", "discard", NULL};
    static const char *const leaves[] = {"quit", "reset", NULL};

    if (skew_heard_is(heard, "ping"))
        connection->pinged = true;
    if (skew_heard_is(heard, "multi"))
        connection->in_multi = true;
    if (is_any(heard, ends))
        connection->in_multi = false;
    if (is_any(heard, leaves))
        connection->has_before = connection->in_multi = false;
    if (is_aside(heard) || connection->in_multi)
        return;
    connection->has_before = true;
    connection->before_us = heard->stamp_us;
}

/* ---- what a stamp proves -------------------------------------------------------------------- */

static int64_t drift_us(const skew_model *model, int64_t us) {
    return (tl__drift_ns(tl__mul_sat(us, 1000), model->rate_ppm) + 999) / 1000;
}

/* Is the value new? A value that was sent before may come from a clock reading before that. */
static bool is_fresh(skew_source *source, int64_t value) {
    for (int i = 0; i < SKEW_RECENT; i++)
        if (source->recent[i] == value)
            return false;
    source->recent[source->next] = value;
    source->next = (source->next + 1) % SKEW_RECENT;
    return true;
}

static int64_t added_us(const skew_model *model, const skew_source *source) {
    if (!GUARD(pool_wait_widens) || (!model->pooled && !source->pooled))
        return 0;
    return tl__add_sat(model->pool_wait_us, drift_us(model, model->pool_wait_us));
}

/* The sum at now_us: each edge ages from its own time. */
static tl_interval sum_at(const skew_model *model, const skew_source *source, int64_t now_us) {
    int64_t hi = tl__add_sat(source->sum.hi, added_us(model, source));
    return (tl_interval){tl__add_sat(source->sum.lo, -drift_us(model, now_us - source->lo_at_us)),
                         tl__add_sat(hi, drift_us(model, now_us - source->hi_at_us))};
}

/* A contradiction that a pool's wait explains shows that there is a pool. Any other is a real
 * one. */
static void check(const skew_model *model, skew_source *source, int64_t now_us) {
    if (tl__interval_empty(sum_at(model, source, now_us)))
        source->pooled = true;
    if (tl__interval_empty(sum_at(model, source, now_us)))
        source->torn = true;
}

/* Keeps the edge that is tighter now, and so at any later time. */
static void tighten(const skew_model *model, skew_source *source, tl_interval sum, int64_t now_us) {
    tl_interval old = sum_at(model, source, now_us);

    old.hi = tl__add_sat(old.hi, -added_us(model, source));
    if (sum.lo >= old.lo) {
        source->sum.lo = sum.lo;
        source->lo_at_us = now_us;
    }
    if (sum.hi <= old.hi) {
        source->sum.hi = sum.hi;
        source->hi_at_us = now_us;
    }
}

/* The upper edge: between the reading and the execution the clock may have gained on the
 * server's. */
static int64_t upper(const skew_model *model, tl_interval written, int64_t before_us,
                     int64_t now_us) {
    int64_t hi = tl__add_sat(written.hi, -before_us);
    return tl__add_sat(hi, drift_us(model, now_us - before_us));
}

static void learn(skew_passive *passive, skew_source *source, skew_connection *connection,
                  const skew_heard *heard, tl_interval written) {
    tl_interval sum = {tl__add_sat(written.lo, -heard->stamp_us - 1), INT64_MAX};
    bool fresh = is_fresh(source, written.lo);

    if ((fresh || !GUARD(resent_stamp_unbounded)) && connection->has_before &&
        (skew_heard_is(heard, "setnx") || !GUARD(getset_unbounded)))
        sum.hi = upper(&passive->model, written, connection->before_us, heard->stamp_us);
    if (connection->pinged ||
        (connection->has_last && written.lo < connection->last)) /* threads share a connection */
        source->pooled = true;
    connection->has_last = true;
    connection->last = written.lo;
    if (source->stamps++ == 0)
        source->first_us = heard->stamp_us;
    source->at_us = heard->stamp_us;
    tighten(&passive->model, source, sum, heard->stamp_us);
    check(&passive->model, source, heard->stamp_us);
}

void skew_passive_learn(skew_passive *passive, const skew_heard *heard, skew_stamp_kind kind,
                        tl_interval written) {
    if (heard->stamp_us < passive->last_us)
        passive->stepped = true;
    passive->last_us = heard->stamp_us;
    if (heard->by != SKEW_BY_TCP || passive->stepped)
        return;
    skew_connection *connection = connection_of(passive, heard->client);
    skew_source *source = connection && kind != SKEW_NO_STAMP ? source_of(passive, heard->host)
                                                              : NULL;
    if (source && kind == SKEW_STAMP)
        learn(passive, source, connection, heard, written);
    else if (source)
        source->strangers++;
    if (connection)
        follow(connection, heard);
}

void skew_passive_missed(skew_passive *passive) {
    passive->spell++;
}

/* ---- hosts -------------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 3, 4)))
refuse(skew_host *host, const char *status, const char *format, ...) {
    va_list args;

    host->known = false;
    host->status = status;
    va_start(args, format);
    (void)vsnprintf(host->detail, sizeof host->detail, format, args);
    va_end(args);
}

static void describe(const skew_passive *passive, const skew_source *source, skew_host *host) {
    host->known = true;
    host->status = "ok";
    (void)snprintf(host->detail, sizeof host->detail, "its stamps, seen by MONITOR%s%s",
                   passive->model.pooled || source->pooled ? "; connections that wait in a pool"
                                                           : "",
                   source->strangers ? "; some are of another dialect" : "");
    if (passive->stepped)
        refuse(host, "void", "the server's clock was set back while it was measured");
    else if (source->stamps == 0)
        refuse(host, "model-mismatch",
               "MODEL-MISMATCH: its stamps are of another dialect (--dialect)");
    else if (source->torn)
        refuse(host, "model-mismatch",
               "MODEL-MISMATCH: its stamps contradict each other: several lifetimes (--keys), "
               "several hosts behind one address, or its clock was set");
    else if (source->sum.hi == INT64_MAX)
        refuse(host, "unknown", "no command before its stamps was seen: listen for longer");
}

static void add(const skew_passive *passive, const skew_source *source, int64_t now_us,
                int64_t stepped_us, skew_host *host) {
    *host = (skew_host){
        .instrument = "passive",
        .samples = source->stamps,
        .age_ms = -1,
        .advice = "listen for longer (--passive=1m), or run \"tidelock agent\" on %1$s"};
    (void)snprintf(host->name, sizeof host->name, "%s", source->name);
    for (char *c = host->name; *c; c++)
        *c = (char)(strchr("_.:-", *c) || (*c >= '0' && *c <= '9') ||
                            ((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z')
                        ? *c
                        : '_');
    describe(passive, source, host);
    int64_t age_us = now_us - source->at_us;
    if (host->known && (age_us < 0 || source->first_us < stepped_us))
        refuse(host, "void", "measured before the server's clock was set");
    if (source->stamps > 0 && age_us >= 0)
        host->age_ms = age_us / 1000;
    if (!host->known)
        return;
    tl_interval sum = sum_at(&passive->model, source, now_us + 1);
    host->offset = (tl_interval){tl__add_sat(sum.lo, -passive->model.legacy_ttl_us),
                                 tl__add_sat(sum.hi, -passive->model.legacy_ttl_us)};
}

int skew_passive_hosts(const skew_passive *passive, int64_t now_us, int64_t stepped_us,
                       skew_host *hosts, int count, bool *ret_more) {
    *ret_more = passive->full;
    for (int i = 0; i < passive->sources; i++) {
        if (count == SKEW_HOSTS_MAX) {
            *ret_more = true;
            break;
        }
        add(passive, &passive->source[i], now_us, stepped_us, &hosts[count++]);
    }
    return count;
}

/* ---- is the lifetime right? --------------------------------------------------------------------- */

static bool is_measured(const skew_host *host) {
    return host->known && strcmp(host->instrument, "passive") == 0;
}

/* -1, 1: shifted to this side by about a second or more, or the evidence is too poor to rule that out;
 * 0: not shifted. The low edge is late by at most the network's delay and the stamps' unit; the high edge
 * by as long as a client was idle. A mistaken dialect shifts by just a second. */
static int side(const skew_model *model, tl_interval i) {
    int64_t much = model->unit_us > 1000 ? SECOND_US + model->unit_us : SECOND_US;

    if (i.lo < -much || i.hi < -NEARLY_US)
        return -1;
    return i.lo > NEARLY_US || (i.lo > 0 && i.hi > much);
}

/* Has another instrument measured a similar clock? A daemon's report is about our own clock
 * only. */
static bool is_backed(const skew_model *model, const skew_host *host, const skew_host *hosts,
                      int count) {
    for (int i = 0; i < count; i++) {
        const skew_host *other = &hosts[i];
        if (other->known && !is_measured(other) && skew_is_clock(other->kind) &&
            side(model, other->offset) == side(model, host->offset) &&
            other->offset.lo <= tl__add_sat(host->offset.hi, SECOND_US) &&
            host->offset.lo <= tl__add_sat(other->offset.hi, SECOND_US))
            return true;
    }
    return false;
}

/* Are all passive hosts shifted to the same side? Also returns the hull of their offsets. */
static bool is_shifted(const skew_model *model, const skew_host *hosts, int count,
                       tl_interval *ret_hull) {
    int common = 0, measured = 0;

    *ret_hull = (tl_interval){INT64_MAX, INT64_MIN};
    for (int i = 0; i < count; i++) {
        if (!is_measured(&hosts[i]))
            continue;
        if (measured++ == 0)
            common = side(model, hosts[i].offset);
        if (side(model, hosts[i].offset) != common || is_backed(model, &hosts[i], hosts, count))
            common = 0;
        if (common == 0)
            return false;
        ret_hull->lo = hosts[i].offset.lo < ret_hull->lo ? hosts[i].offset.lo : ret_hull->lo;
        ret_hull->hi = hosts[i].offset.hi > ret_hull->hi ? hosts[i].offset.hi : ret_hull->hi;
    }
    return common != 0;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Estimates the lifetime from the median host, since most clocks are right; whole seconds if one is
 * near. */
int64_t skew_passive_lifetime_us(const skew_host *hosts, int count) {
    int64_t middle[SKEW_HOSTS_MAX];
    int n = 0;

    for (int i = 0; i < count && n < SKEW_HOSTS_MAX; i++)
        if (is_measured(&hosts[i]))
            middle[n++] = tl__add_sat(hosts[i].offset.lo, hosts[i].offset.hi) / 2;
    if (n == 0)
        return 0;
    qsort(middle, (size_t)n, sizeof *middle, ascending);
    int64_t us = middle[n / 2], whole = (us + SECOND_US / 2) / SECOND_US * SECOND_US;
    return llabs(us - whole) <= SECOND_US / 10 ? whole : (us + 500) / 1000 * 1000;
}

void skew_passive_judge(const skew_model *model, skew_host *hosts, int count) {
    bool estimate = model->legacy_ttl_us == SKEW_LIFETIME_UNKNOWN;
    char from[SKEW_NUMBER_SIZE], to[SKEW_NUMBER_SIZE];
    tl_interval hull = {0, 0};

    if (!estimate && (!GUARD(lifetime_is_theirs) || !is_shifted(model, hosts, count, &hull)))
        return;
    int64_t lifetime_us = estimate ? skew_passive_lifetime_us(hosts, count) : 0;
    for (int i = 0; i < count; i++) {
        skew_host *host = &hosts[i];
        if (!is_measured(host))
            continue;
        host->relative = GUARD(gaps_without_lifetime);
        host->advice =
            "give the lifetime of their locks (--legacy-ttl) and how they write it (--dialect), or "
            "run \"tidelock agent\" on these hosts";
        if (estimate)
            refuse(
                host, "relative",
                "the lifetime seems to be %lld ms; clocks are known only relative to each other, "
                "until --legacy-ttl gives it",
                (long long)(lifetime_us / 1000));
        else
            refuse(host, "model-mismatch",
                   "MODEL-MISMATCH: --legacy-ttl (or --dialect) is wrong by %s to %s ms, or all "
                   "these hosts are off by as much",
                   skew_down(from, hull.lo, 3), skew_up(to, hull.hi, 3));
    }
}
