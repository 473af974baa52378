/*
 * Gathering the hosts. This host's own record is left out, as the measurement says the same; should they
 * contradict each other, a clock was set, and older records are void. One of our name from another boot
 * is another host, unless its agent has gone: then it is ours, from before we were booted.
 */
#include <stdlib.h>
#include <string.h>

#include "skew/skew_fleet.h"

#define ASK_MOST (TL_ARGV_MAX - 1) /* records at a time */
#define MOST "1000"                /* names: SKEW_HOSTS_MAX, one more than are looked at */

typedef struct {
    char name[SKEW_NAME_SIZE];
    bool there, sound;
    bool over; /* sound, but no agent's word any more */
    skew_record record;
} entry;

typedef struct {
    entry *entry;
    int count, at; /* at: the first that the present question is about */
    bool more;
} entries;

bool skew_fleet_begin(skew_fleet *f) {
    *f = (skew_fleet){.hosts = calloc(SKEW_HOSTS_MAX, sizeof *f->hosts)};
    skew_self_name(f->self);
    return f->hosts != NULL;
}

void skew_fleet_end(skew_fleet *f) {
    free(f->hosts);
    *f = (skew_fleet){.hosts = NULL};
}

/* ---- reading the records ---------------------------------------------------------------------- */

static bool take_names(void *ctx, const tl_reply *reply) {
    entries *e = ctx;
    tl_bytes text;

    if (reply->type != TL_REPLY_ARRAY)
        return false;
    e->more = reply->count >= SKEW_HOSTS_MAX; /* as many as were asked for, whatever they are */
    for (size_t i = 0; i < reply->count && e->count < SKEW_HOSTS_MAX - 1; i++) { /* one is ours */
        entry *x = &e->entry[e->count];
        if (!tl__reply_text(&reply->items[i], &text) || text.n >= SKEW_NAME_SIZE)
            continue;
        memcpy(x->name, text.p, text.n);
        x->name[text.n] = '\0';
        if (strlen(x->name) == text.n && skew_name_ok(x->name))
            e->count++;
    }
    return true;
}

static bool take_records(void *ctx, const tl_reply *reply) {
    entries *e = ctx;
    tl_bytes text;

    if (reply->type != TL_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->count && e->at + (int)i < e->count; i++) {
        entry *x = &e->entry[e->at + (int)i];
        x->there = reply->items[i].type != TL_REPLY_NIL;
        x->sound = tl__reply_text(&reply->items[i], &text) &&
                   skew_record_read(text.p, text.n, &x->record);
    }
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static bool read_batch(server_link *l, entries *e) {
    char key[ASK_MOST][SKEW_KEY_SIZE];
    const char *request[ASK_MOST + 2] = {"MGET"};

    for (int i = 0; i < ASK_MOST && e->at + i < e->count; i++) {
        skew_record_key(key[i], e->entry[e->at + i].name);
        request[i + 1] = key[i];
    }
    return link_ask(l, request, take_records, e);
}

/* Those that publish come before those that have ceased to, should there be too many. */
static bool read_agents(server_link *l, entries *e, int64_t now_us) {
    char since[TL_INT_SIZE];
    const char *const names[] = {
        "ZREVRANGEBYSCORE", SKEW_INDEX_KEY, "+inf", since, "LIMIT", "0", MOST, NULL};

    (void)snprintf(since, sizeof since, "%lld", (long long)(now_us - SKEW_REMEMBERED_MS * 1000));
    if (!link_ask(l, names, take_names, e))
        return false;
    qsort(e->entry, (size_t)e->count, sizeof *e->entry, by_name);
    for (e->at = 0; e->at < e->count; e->at += ASK_MOST)
        if (!read_batch(l, e))
            return false;
    for (int i = 0; i < e->count; i++)
        e->entry[i].over = e->entry[i].sound && skew_record_end_us(&e->entry[i].record) < now_us;
    return true;
}

/* ---- judging them ------------------------------------------------------------------------------ */

static void add_self(skew_fleet *f, const skew_track *t, const kernel_clock *kernel) {
    skew_host *h = &f->hosts[f->count++];

    (void)snprintf(h->name, sizeof h->name, "%s", f->self);
    h->instrument = "server";
    h->self = true;
    h->known = t->known;
    h->samples = t->samples;
    h->slew_ppm = kernel->slew_ppm;
    h->status = t->known ? "ok" : "unknown";
    h->age_ms = -1;
    (void)snprintf(h->detail, sizeof h->detail, "%s%s%s%s",
                   t->known ? "measured now" : "its clock was set while it was measured",
                   !kernel->known     ? "; the kernel does not tell whether its clock is steered"
                   : kernel->slew_ppm ? "; its clock is being corrected"
                   : !kernel->synchronised ? "; the kernel says that nobody steers its clock"
                                           : "",
                   kernel->leaping ? "; a leap second is near: look out for 1 s" : "",
                   t->server_steps ? "; the server's clock was set meanwhile" : "");
    if (!t->known)
        return;
    tl_mono now = skew_reading_now().after;
    h->age_ms = tl__ms_until(t->at, now);
    h->offset = skew_offset(t, now, skew_self_rate(kernel));
    h->has_drift = skew_drift(t, &h->drift_ppb);
}

/* No earlier than the server's clock now. */
static int64_t server_now_us(const skew_fleet *f, const skew_track *t) {
    skew_reading now = skew_reading_now();
    return t->known ? tl__add_sat(now.wall_us + 1, -f->hosts[0].offset.lo) : t->stamp_us;
}

/* Our own agent and we can't both be right: a clock was set since it has measured, the server's maybe. */
static bool contradicted(const skew_fleet *f, const entry *x, const skew_record_at *at) {
    skew_record_at any = {.server = at->server, .now_us = at->now_us};
    skew_host h = {.known = false};

    skew_record_judge(&x->record, &any, SKEW_DRIFT_PPM, &h);
    return h.known && f->hosts[0].known &&
           tl__interval_empty(tl__interval_intersect(h.offset, f->hosts[0].offset));
}

static bool is_own(const skew_fleet *f, const entry *x, const char *self_id) {
    return strcmp(x->name, f->self) == 0 && x->there && x->sound && !x->record.clash &&
           skew_same_boot(x->record.id, self_id);
}

/* It says nothing of this host that its measurement doesn't. */
static bool is_needless(const skew_fleet *f, const entry *x, const char *self_id) {
    bool ours = strcmp(x->name, f->self) == 0;
    return is_own(f, x, self_id) || (ours && (!x->there || (x->over && !x->record.clash)));
}

/* The last step of the server's clock that anybody saw. */
static int64_t last_step(const entries *e, const skew_track *own) {
    int64_t last = own->server_stepped_us;
    for (int i = 0; i < e->count; i++)
        if (e->entry[i].sound && e->entry[i].record.server_stepped_us > last &&
            e->entry[i].record.server_stepped_us <= own->stamp_us)
            last = e->entry[i].record.server_stepped_us;
    return last;
}

static void add_agent(skew_fleet *f, const entry *x, const skew_record_at *at,
                      const char *self_id) {
    bool ours = strcmp(x->name, f->self) == 0;

    if (is_needless(f, x, self_id))
        return;
    skew_host *h = &f->hosts[f->count++];
    (void)snprintf(h->name, sizeof h->name, "%s", x->name);
    if (x->sound) {
        skew_record_judge(&x->record, at, SKEW_DRIFT_PPM, h);
    } else {
        h->instrument = "agent";
        h->age_ms = -1;
        h->missing = !x->there;
        h->status = "unreadable";
        (void)snprintf(h->detail, sizeof h->detail, "its record is of another version, or damaged");
    }
    if (!x->there) {
        h->status = "missing";
        (void)snprintf(h->detail, sizeof h->detail,
                       "nothing is left of what its agent has published");
    }
    if (ours && x->sound) {
        h->known = false;
        h->status = "clash";
        (void)snprintf(h->detail, sizeof h->detail,
                       "another host has this host's name: give its agent another name (--name)");
    }
}

/* What its agent has seen of this host's clock counts for what is measured now: that it runs wrong, and that it is set again
 * and again, by as much as the record is wide. */
static void heed_own(skew_fleet *f, const entry *x, const skew_record_at *at) {
    skew_host *h = &f->hosts[0], published = {.known = false};

    skew_record_judge(&x->record, at, SKEW_DRIFT_PPM, &published);
    if (!h->known || !published.known || published.missing)
        return;
    if (published.unsteady) {
        h->unsteady = true;
        h->status = published.status;
        (void)snprintf(h->detail, sizeof h->detail, "%s", published.detail);
    }
    if (published.slew_ppm > h->slew_ppm)
        h->slew_ppm = published.slew_ppm;
    if (x->record.steps > 0) {
        h->offset.lo = published.offset.lo < h->offset.lo ? published.offset.lo : h->offset.lo;
        h->offset.hi = published.offset.hi > h->offset.hi ? published.offset.hi : h->offset.hi;
    }
}

static bool listen_to(skew_listen *listening, server_link *l, const skew_effort *effort) {
    const skew_legacy_hooks *legacy = FROM_LEGACY(skew_legacy);

    return !listening || !legacy || legacy->listen(listening, l, effort);
}

static void add_heard(skew_fleet *f, const skew_listen *listening, int64_t now_us,
                      int64_t stepped_us) {
    const skew_legacy_hooks *legacy = FROM_LEGACY(skew_legacy);
    bool more = false;

    if (listening && legacy)
        f->count = legacy->hosts(listening, now_us, stepped_us, f->hosts, f->count, &more);
    f->more = f->more || more;
}

static bool measure(skew_fleet *f, server_link *l, const skew_effort *effort, bool agents,
                    skew_listen *listening, entries *e) {
    skew_track track = {.known = false};
    kernel_clock kernel = moment_kernel();
    char id[SKEW_ID_SIZE], server[SKEW_SERVER_SIZE], last[SKEW_SERVER_SIZE];

    skew_self_id(id);
    if (!skew_self_server(l, server) ||
        !skew_self_measure(l, &track, effort, skew_self_rate(&kernel)) ||
        !listen_to(listening, l, effort) || (agents && !read_agents(l, e, track.stamp_us)))
        return false;
    kernel_clock later = moment_kernel(); /* a correction may have begun, or ended, since */
    if (later.slew_ppm > kernel.slew_ppm)
        kernel = later;
    if (!skew_sample(l, &track, skew_self_rate(&kernel)) || !skew_self_server(l, last))
        return false;
    bool same = strcmp(server, last) == 0; /* else another has taken over meanwhile */
    skew_record_at at = {.server = last,
                         .stepped_us = same ? last_step(e, &track) : track.stamp_us};
    add_self(f, &track, &kernel);
    int64_t now_us = at.now_us = server_now_us(f, &track);
    f->at_ms = now_us / 1000;
    for (int i = 0; i < e->count; i++)
        if (is_own(f, &e->entry[i], id) && !e->entry[i].over && contradicted(f, &e->entry[i], &at))
            at.stepped_us = track.stamp_us;
    for (int i = 0; i < e->count; i++) {
        /* the records were there before the last stamp: a later one is from before a step back */
        bool future = e->entry[i].sound && e->entry[i].record.at_us > track.stamp_us;
        at.now_us = future ? track.stamp_us : now_us;
        if (is_own(f, &e->entry[i], id))
            heed_own(f, &e->entry[i], &at);
        add_agent(f, &e->entry[i], &at, id);
    }
    f->more = e->more;
    add_heard(f, listening, now_us, at.stepped_us);
    return true;
}

bool skew_fleet_measure(skew_fleet *f, server_link *l, const skew_effort *effort, bool agents,
                        skew_listen *listening) {
    entries e = {.entry = calloc(SKEW_HOSTS_MAX, sizeof *e.entry)};

    f->count = 0;
    if (!e.entry) {
        l->status = STATUS_INTERNAL;
        (void)snprintf(l->message, sizeof l->message, "out of memory");
        return false;
    }
    bool ok = measure(f, l, effort, agents, listening, &e);
    free(e.entry);
    return ok;
}
