/*
 * From commands to intervals. Lower edges hold whatever a client does: its clock was read before its
 * command was executed. Upper edges want more: a command before, whose answer the client had when it read
 * its clock. In doubt there is none.
 *
 * GETSET gives no upper edge. It may send the SETNX's value once more, so that the command to count from is
 * the one before the SETNX; from there its later value can't say more than the SETNX's own.
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

bool skew_passive_begin(skew_passive *p, const skew_model *model) {
    return skew_passive_begin_for(p, model, SKEW_HOSTS_MAX, SKEW_CONNECTIONS_MAX);
}

bool skew_passive_begin_for(skew_passive *p, const skew_model *model, int hosts, int connections) {
    *p = (skew_passive){.model = *model,
                        .source = calloc((size_t)hosts, sizeof *p->source),
                        .connection = calloc((size_t)connections, sizeof *p->connection),
                        .sources_max = hosts,
                        .connections_max = connections};
    if (p->source && p->connection)
        return true;
    skew_passive_end(p);
    return false;
}

void skew_passive_end(skew_passive *p) {
    free(p->source);
    free(p->connection);
    p->source = NULL;
    p->connection = NULL;
}

/* ---- who -------------------------------------------------------------------------------------- */

/* Its place, perhaps a free one; NULL: the table is as full as it may be. */
static skew_connection *connection_of(skew_passive *p, const char *client) {
    uint32_t at = (uint32_t)(tl__bytes_hash(0, tl__bytes_of(client)) %
                             (uint64_t)p->connections_max);

    while (p->connection[at].client[0] && strcmp(p->connection[at].client, client) != 0)
        at = (at + 1) % (uint32_t)p->connections_max;
    skew_connection *c = &p->connection[at];
    if (c->spell != p->spell)
        c->has_before = c->in_multi = false;
    c->spell = p->spell;
    if (c->client[0])
        return c;
    if (p->connections >= p->connections_max / 4 * 3) {
        p->full = true;
        return NULL;
    }
    p->connections++;
    memcpy(c->client, client, strlen(client) + 1);
    return c;
}

static skew_source *source_of(skew_passive *p, const char *name) {
    for (int i = 0; i < p->sources; i++)
        if (strcmp(p->source[i].name, name) == 0)
            return &p->source[i];
    if (p->sources == p->sources_max) {
        p->full = true;
        return NULL;
    }
    skew_source *s = &p->source[p->sources++];
    *s = (skew_source){.sum = NOTHING};
    memcpy(s->name, name, strlen(name) + 1);
    return s;
}

/* ---- which commands ----------------------------------------------------------------------------- */

static bool is_any(const skew_heard *c, const char *const *names) {
    for (; *names; names++)
        if (skew_heard_is(c, *names))
            return true;
    return false;
}

bool skew_is_take(const skew_heard *c) {
    return c->by == SKEW_BY_TCP && c->words == SKEW_WORDS &&
           (skew_heard_is(c, "setnx") || skew_heard_is(c, "getset"));
}

/* What client libraries say by themselves, perhaps between the caller's reading its clock and its
 * command: no command to count from. */
static bool is_aside(const skew_heard *c) {
    static const char *const names[] = {
        "ping",   "echo",  "select", "auth",    "hello",   "client", "readonly", "readwrite",
        "asking", "multi", "watch",  "unwatch", "command", "reset",  "quit",     NULL};
    return GUARD(asides_bound_nothing) && is_any(c, names);
}

/* What a connection's later commands can count from, after this one. */
static void follow(skew_connection *n, const skew_heard *c) {
    static const char *const ends[] = {"exec", "discard", NULL};
    static const char *const leaves[] = {"quit", "reset", NULL};

    if (skew_heard_is(c, "ping"))
        n->pinged = true;
    if (skew_heard_is(c, "multi"))
        n->in_multi = true;
    if (is_any(c, ends))
        n->in_multi = false;
    if (is_any(c, leaves))
        n->has_before = n->in_multi = false;
    if (is_aside(c) || n->in_multi)
        return;
    n->has_before = true;
    n->before_us = c->stamp_us;
}

/* ---- what a stamp says -------------------------------------------------------------------------- */

static int64_t drift_us(const skew_model *m, int64_t us) {
    return (tl__drift_ns(tl__mul_sat(us, 1000), m->rate_ppm) + 999) / 1000;
}

/* A value that was sent before may come of a clock that was read before that. */
static bool is_fresh(skew_source *s, int64_t value) {
    for (int i = 0; i < SKEW_RECENT; i++)
        if (s->recent[i] == value)
            return false;
    s->recent[s->next] = value;
    s->next = (s->next + 1) % SKEW_RECENT;
    return true;
}

static int64_t added_us(const skew_model *m, const skew_source *s) {
    if (!GUARD(pool_wait_widens) || (!m->pooled && !s->pooled))
        return 0;
    return tl__add_sat(m->pool_wait_us, drift_us(m, m->pool_wait_us));
}

/* Each edge has aged since its own moment. */
static tl_interval sum_at(const skew_model *m, const skew_source *s, int64_t now_us) {
    int64_t hi = tl__add_sat(s->sum.hi, added_us(m, s));
    return (tl_interval){tl__add_sat(s->sum.lo, -drift_us(m, now_us - s->lo_at_us)),
                         tl__add_sat(hi, drift_us(m, now_us - s->hi_at_us))};
}

/* A contradiction that the wait for a pool explains shows the pool. Any other is one. */
static void check(const skew_model *m, skew_source *s, int64_t now_us) {
    if (tl__interval_empty(sum_at(m, s, now_us)))
        s->pooled = true;
    if (tl__interval_empty(sum_at(m, s, now_us)))
        s->torn = true;
}

/* Keep what is the tighter at this moment, and so at any later one. */
static void tighten(const skew_model *m, skew_source *s, tl_interval sum, int64_t now_us) {
    tl_interval old = sum_at(m, s, now_us);

    old.hi = tl__add_sat(old.hi, -added_us(m, s));
    if (sum.lo >= old.lo) {
        s->sum.lo = sum.lo;
        s->lo_at_us = now_us;
    }
    if (sum.hi <= old.hi) {
        s->sum.hi = sum.hi;
        s->hi_at_us = now_us;
    }
}

/* Between the reading and the execution the clock may have gained on the server's. */
static int64_t upper(const skew_model *m, tl_interval written, int64_t before_us, int64_t now_us) {
    int64_t hi = tl__add_sat(written.hi, -before_us);
    return tl__add_sat(hi, drift_us(m, now_us - before_us));
}

static void learn(skew_passive *p, skew_source *s, skew_connection *n, const skew_heard *c,
                  tl_interval written) {
    tl_interval sum = {tl__add_sat(written.lo, -c->stamp_us - 1), INT64_MAX};
    bool fresh = is_fresh(s, written.lo);

    if ((fresh || !GUARD(resent_stamp_unbounded)) && n->has_before &&
        (skew_heard_is(c, "setnx") || !GUARD(getset_unbounded)))
        sum.hi = upper(&p->model, written, n->before_us, c->stamp_us);
    if (n->pinged || (n->has_last && written.lo < n->last)) /* threads that share a connection */
        s->pooled = true;
    n->has_last = true;
    n->last = written.lo;
    if (s->stamps++ == 0)
        s->first_us = c->stamp_us;
    s->at_us = c->stamp_us;
    tighten(&p->model, s, sum, c->stamp_us);
    check(&p->model, s, c->stamp_us);
}

void skew_passive_learn(skew_passive *p, const skew_heard *c, skew_stamp_kind kind,
                        tl_interval written) {
    if (c->stamp_us < p->last_us)
        p->stepped = true;
    p->last_us = c->stamp_us;
    if (c->by != SKEW_BY_TCP || p->stepped)
        return;
    skew_connection *n = connection_of(p, c->client);
    skew_source *s = n && kind != SKEW_NO_STAMP ? source_of(p, c->host) : NULL;
    if (s && kind == SKEW_STAMP)
        learn(p, s, n, c, written);
    else if (s)
        s->strangers++;
    if (n)
        follow(n, c);
}

void skew_passive_missed(skew_passive *p) {
    p->spell++;
}

/* ---- hosts -------------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 3, 4)))
refuse(skew_host *h, const char *status, const char *format, ...) {
    va_list args;

    h->known = false;
    h->status = status;
    va_start(args, format);
    (void)vsnprintf(h->detail, sizeof h->detail, format, args);
    va_end(args);
}

static void describe(const skew_passive *p, const skew_source *s, skew_host *h) {
    h->known = true;
    h->status = "ok";
    (void)snprintf(h->detail, sizeof h->detail, "its stamps, seen by MONITOR%s%s",
                   p->model.pooled || s->pooled ? "; connections that wait in a pool" : "",
                   s->strangers ? "; some are of another dialect" : "");
    if (p->stepped)
        refuse(h, "void", "the server's clock was set back while it was measured");
    else if (s->stamps == 0)
        refuse(h, "model-mismatch",
               "MODEL-MISMATCH: its stamps are of another dialect (--dialect)");
    else if (s->torn)
        refuse(h, "model-mismatch",
               "MODEL-MISMATCH: its stamps contradict each other: several lifetimes (--keys), "
               "several hosts behind one address, or its clock was set");
    else if (s->sum.hi == INT64_MAX)
        refuse(h, "unknown", "no command before its stamps was seen: listen for longer");
}

static void add(const skew_passive *p, const skew_source *s, int64_t now_us, int64_t stepped_us,
                skew_host *h) {
    *h = (skew_host){
        .instrument = "passive",
        .samples = s->stamps,
        .age_ms = -1,
        .advice = "listen for longer (--passive=1m), or run \"tidelock agent\" on %1$s"};
    (void)snprintf(h->name, sizeof h->name, "%s", s->name);
    for (char *c = h->name; *c; c++)
        *c = (char)(strchr("_.:-", *c) || (*c >= '0' && *c <= '9') ||
                            ((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z')
                        ? *c
                        : '_');
    describe(p, s, h);
    int64_t age_us = now_us - s->at_us;
    if (h->known && (age_us < 0 || s->first_us < stepped_us))
        refuse(h, "void", "measured before the server's clock was set");
    if (s->stamps > 0 && age_us >= 0)
        h->age_ms = age_us / 1000;
    if (!h->known)
        return;
    tl_interval sum = sum_at(&p->model, s, now_us + 1);
    h->offset = (tl_interval){tl__add_sat(sum.lo, -p->model.legacy_ttl_us),
                              tl__add_sat(sum.hi, -p->model.legacy_ttl_us)};
}

int skew_passive_hosts(const skew_passive *p, int64_t now_us, int64_t stepped_us, skew_host *hosts,
                       int count, bool *ret_more) {
    *ret_more = p->full;
    for (int i = 0; i < p->sources; i++) {
        if (count == SKEW_HOSTS_MAX) {
            *ret_more = true;
            break;
        }
        add(p, &p->source[i], now_us, stepped_us, &hosts[count++]);
    }
    return count;
}

/* ---- is the lifetime right? --------------------------------------------------------------------- */

static bool is_measured(const skew_host *h) {
    return h->known && strcmp(h->instrument, "passive") == 0;
}

/* -1, 1: off to this side, by a second or so, or else the evidence is too poor to tell. The low edge is late
 * by no more than the network and the stamps' unit; the high edge by as long as a client did nothing. A
 * dialect that is taken for another is off by just a second. */
static int side(const skew_model *m, tl_interval i) {
    int64_t much = m->unit_us > 1000 ? SECOND_US + m->unit_us : SECOND_US;

    if (i.lo < -much || i.hi < -NEARLY_US)
        return -1;
    return i.lo > NEARLY_US || (i.lo > 0 && i.hi > much);
}

/* Has another instrument found a clock like this one? What daemons believe is of no clock but our own. */
static bool is_backed(const skew_model *m, const skew_host *h, const skew_host *hosts, int count) {
    for (int i = 0; i < count; i++) {
        const skew_host *o = &hosts[i];
        if (o->known && !is_measured(o) && skew_is_clock(o->kind) &&
            side(m, o->offset) == side(m, h->offset) &&
            o->offset.lo <= tl__add_sat(h->offset.hi, SECOND_US) &&
            h->offset.lo <= tl__add_sat(o->offset.hi, SECOND_US))
            return true;
    }
    return false;
}

/* What all passive hosts' offsets have in common, if that is too much; and their hull. */
static bool is_shifted(const skew_model *m, const skew_host *hosts, int count,
                       tl_interval *ret_hull) {
    int common = 0, measured = 0;

    *ret_hull = (tl_interval){INT64_MAX, INT64_MIN};
    for (int i = 0; i < count; i++) {
        if (!is_measured(&hosts[i]))
            continue;
        if (measured++ == 0)
            common = side(m, hosts[i].offset);
        if (side(m, hosts[i].offset) != common || is_backed(m, &hosts[i], hosts, count))
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

/* In the middle of all hosts, where most have a clock that is right: whole seconds if that is near. */
static int64_t estimate_us(const skew_host *hosts, int count) {
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
    int64_t lifetime_us = estimate ? estimate_us(hosts, count) : 0;
    for (int i = 0; i < count; i++) {
        skew_host *h = &hosts[i];
        if (!is_measured(h))
            continue;
        h->relative = GUARD(gaps_without_lifetime);
        h->advice =
            "say how long their locks live (--legacy-ttl) and how they write it (--dialect), or "
            "run \"tidelock agent\" on these hosts";
        if (estimate)
            refuse(h, "relative",
                   "the lifetime seems to be %lld ms; clocks are known against each other alone, "
                   "until --legacy-ttl says it",
                   (long long)(lifetime_us / 1000));
        else
            refuse(h, "model-mismatch",
                   "MODEL-MISMATCH: --legacy-ttl (or --dialect) is wrong by %s to %s ms, or all "
                   "these hosts are off by as much",
                   skew_down(from, hull.lo, 3), skew_up(to, hull.hi, 3));
    }
}
