/*
 * Gathers the hosts. This host's own record gets no row, because the measurement says the same. If they
 * contradict each other, a clock was set, and older records are void. A record with our name from
 * another boot is another host's, unless its agent has ended: then it is ours, from before the boot.
 */
#include <stdlib.h>
#include <string.h>

#include "skew/skew_fleet.h"
#include "skew/skew_vmclock.h"

#define ASK_MOST (TL_ARGV_MAX - 1) /* records in one request */
#define MOST "5000"                /* names: SKEW_HOSTS_MAX, one more than are read */

typedef struct {
    char name[SKEW_NAME_SIZE];
    bool there, sound;
    bool over; /* sound, but its lease has ended */
    skew_record record;
} entry;

typedef struct {
    entry *entry;
    int count, at; /* at: the first record of the present request */
    bool more;
} entries;

bool skew_fleet_begin(skew_fleet *fleet) {
    *fleet = (skew_fleet){.hosts = calloc(SKEW_HOSTS_MAX, sizeof *fleet->hosts)};
    skew_self_name(fleet->self);
    return fleet->hosts != NULL;
}

void skew_fleet_end(skew_fleet *fleet) {
    free(fleet->hosts);
    *fleet = (skew_fleet){.hosts = NULL};
}

/* ---- reading the records ---------------------------------------------------------------------- */

static bool take_names(void *ctx, const tl_reply *reply) {
    entries *entries = ctx;
    tl_bytes text;

    if (reply->type != TL_REPLY_ARRAY)
        return false;
    entries->more = reply->count >= SKEW_HOSTS_MAX; /* as many as requested, valid or not */
    for (size_t i = 0; i < reply->count && entries->count < SKEW_HOSTS_MAX - 1;
         i++) { /* one row is ours */
        entry *entry = &entries->entry[entries->count];
        if (!tl__reply_text(&reply->items[i], &text) || text.n >= SKEW_NAME_SIZE)
            continue;
        memcpy(entry->name, text.p, text.n);
        entry->name[text.n] = '\0';
        if (strlen(entry->name) == text.n && skew_name_ok(entry->name))
            entries->count++;
    }
    return true;
}

static bool take_records(void *ctx, const tl_reply *reply) {
    entries *entries = ctx;
    tl_bytes text;

    if (reply->type != TL_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->count && entries->at + (int)i < entries->count; i++) {
        entry *entry = &entries->entry[entries->at + (int)i];
        entry->there = reply->items[i].type != TL_REPLY_NIL;
        entry->sound = tl__reply_text(&reply->items[i], &text) &&
                       skew_record_read(text.p, text.n, &entry->record);
    }
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static bool read_batch(server_link *link, entries *entries) {
    char key[ASK_MOST][SKEW_KEY_SIZE];
    const char *request[ASK_MOST + 2] = {"MGET"};

    for (int i = 0; i < ASK_MOST && entries->at + i < entries->count; i++) {
        skew_record_key(key[i], entries->entry[entries->at + i].name);
        request[i + 1] = key[i];
    }
    return link_ask(link, request, take_records, entries);
}

/* If there are too many, hosts that still publish take precedence over hosts that have stopped. */
static bool read_agents(server_link *link, entries *entries, int64_t now_us) {
    char since[TL_INT_SIZE];
    const char *const names[] = {
        "ZREVRANGEBYSCORE", SKEW_INDEX_KEY, "+inf", since, "LIMIT", "0", MOST, NULL};

    (void)snprintf(since, sizeof since, "%lld", (long long)(now_us - SKEW_REMEMBERED_MS * 1000));
    if (!link_ask(link, names, take_names, entries))
        return false;
    qsort(entries->entry, (size_t)entries->count, sizeof *entries->entry, by_name);
    for (entries->at = 0; entries->at < entries->count; entries->at += ASK_MOST)
        if (!read_batch(link, entries))
            return false;
    for (int i = 0; i < entries->count; i++)
        entries->entry[i].over = entries->entry[i].sound &&
                                 skew_record_end_us(&entries->entry[i].record) < now_us;
    return true;
}

/* ---- judging them ------------------------------------------------------------------------------ */

static void add_self(skew_fleet *fleet, const skew_track *track, const kernel_clock *kernel) {
    skew_host *host = &fleet->hosts[fleet->count++];

    (void)snprintf(host->name, sizeof host->name, "%s", fleet->self);
    host->instrument = "server";
    host->self = true;
    host->known = track->known;
    host->samples = track->samples;
    host->slew_ppm = kernel->slew_ppm;
    host->status = track->known ? "ok" : "unknown";
    host->age_ms = -1;
    (void)snprintf(host->detail, sizeof host->detail, "%s%s%s%s",
                   track->known ? "measured now" : "its clock was set while it was measured",
                   !kernel->known ? "; the kernel does not report whether its clock is synchronised"
                   : kernel->slew_ppm ? "; its clock is being corrected"
                   : !kernel->synchronised
                       ? "; the kernel reports that its clock is not synchronised"
                       : "",
                   kernel->leaping ? "; a leap second is near: expect a difference of 1 s" : "",
                   track->server_steps ? "; the server's clock was set meanwhile" : "");
    if (!track->known)
        return;
    tl_mono now = skew_reading_now().after;
    host->age_ms = tl__ms_until(track->at, now);
    host->offset = skew_offset(track, now, skew_self_rate(kernel));
    host->has_drift = skew_drift(track, &host->drift_ppb);
    skew_alarm_put(host, skew_vmclock_now());
}

/* The server's clock now, at the latest. */
static int64_t server_now_us(const skew_fleet *fleet, const skew_track *track) {
    skew_reading now = skew_reading_now();
    return track->known ? tl__add_sat(now.wall_us + 1, -fleet->hosts[0].offset.lo)
                        : track->stamp_us;
}

/* Does our own agent's record contradict our measurement? Then a clock was set since, perhaps the
 * server's. */
static bool contradicted(const skew_fleet *fleet, const entry *entry, const skew_record_at *at) {
    skew_record_at any = {.server = at->server, .now_us = at->now_us};
    skew_host host = {.known = false};

    skew_record_judge(&entry->record, &any, SKEW_DRIFT_PPM, &host);
    return host.known && fleet->hosts[0].known &&
           tl__interval_empty(tl__interval_intersect(host.offset, fleet->hosts[0].offset));
}

static bool is_own(const skew_fleet *fleet, const entry *entry, const char *self_id) {
    return strcmp(entry->name, fleet->self) == 0 && entry->there && entry->sound &&
           !entry->record.clash && skew_same_boot(entry->record.id, self_id);
}

/* Does the record say nothing about this host that its measurement doesn't? */
static bool is_needless(const skew_fleet *fleet, const entry *entry, const char *self_id) {
    bool ours = strcmp(entry->name, fleet->self) == 0;
    return is_own(fleet, entry, self_id) ||
           (ours && (!entry->there || (entry->over && !entry->record.clash)));
}

/* The last step of the server's clock that any host noticed. */
static int64_t last_step(const entries *entries, const skew_track *own) {
    int64_t last = own->server_stepped_us;
    for (int i = 0; i < entries->count; i++)
        if (entries->entry[i].sound && entries->entry[i].record.server_stepped_us > last &&
            entries->entry[i].record.server_stepped_us <= own->stamp_us)
            last = entries->entry[i].record.server_stepped_us;
    return last;
}

static void add_agent(skew_fleet *fleet, const entry *entry, const skew_record_at *at,
                      const char *self_id) {
    bool ours = strcmp(entry->name, fleet->self) == 0;

    if (is_needless(fleet, entry, self_id))
        return;
    skew_host *host = &fleet->hosts[fleet->count++];
    (void)snprintf(host->name, sizeof host->name, "%s", entry->name);
    if (entry->sound) {
        skew_record_judge(&entry->record, at, SKEW_DRIFT_PPM, host);
    } else {
        host->instrument = "agent";
        host->age_ms = -1;
        host->missing = !entry->there;
        host->status = "unreadable";
        (void)snprintf(host->detail, sizeof host->detail,
                       "its record is of another version, or damaged");
    }
    if (!entry->there) {
        host->status = "missing";
        (void)snprintf(host->detail, sizeof host->detail,
                       "the record of its agent no longer exists");
    }
    if (ours && entry->sound) {
        host->known = false;
        host->status = "clash";
        (void)snprintf(host->detail, sizeof host->detail,
                       "another host has this host's name: give its agent another name (--name)");
    }
}

/* Applies our agent's observations to this host's row. They show whether the clock runs wrong. They
 * also show that it is set repeatedly, by up to the record's width. */
static void heed_own(skew_fleet *fleet, const entry *entry, const skew_record_at *at) {
    skew_host *host = &fleet->hosts[0], published = {.known = false};

    skew_record_judge(&entry->record, at, SKEW_DRIFT_PPM, &published);
    if (!host->known || !published.known || published.missing)
        return;
    if (published.unsteady) {
        host->unsteady = true;
        host->status = published.status;
        (void)snprintf(host->detail, sizeof host->detail, "%s", published.detail);
    }
    skew_alarm_put(host, published.alarm); /* the agent may read the VMClock, and we not */
    if (published.slew_ppm > host->slew_ppm)
        host->slew_ppm = published.slew_ppm;
    if (entry->record.steps > 0) {
        host->offset.lo = published.offset.lo < host->offset.lo ? published.offset.lo
                                                                : host->offset.lo;
        host->offset.hi = published.offset.hi > host->offset.hi ? published.offset.hi
                                                                : host->offset.hi;
    }
}

static bool listen_to(skew_listen *listening, server_link *link, const skew_effort *effort) {
    const skew_legacy_hooks *legacy = FROM_LEGACY(skew_legacy);

    return !listening || !legacy || legacy->listen(listening, link, effort);
}

static void add_heard(skew_fleet *fleet, const skew_listen *listening, int64_t now_us,
                      int64_t stepped_us) {
    const skew_legacy_hooks *legacy = FROM_LEGACY(skew_legacy);
    bool more = false;

    if (listening && legacy)
        fleet->count = legacy->hosts(listening, now_us, stepped_us, fleet->hosts, fleet->count,
                                     &more);
    fleet->more = fleet->more || more;
}

static bool measure(skew_fleet *fleet, server_link *link, const skew_effort *effort, bool agents,
                    skew_listen *listening, entries *entries) {
    skew_track track = {.known = false};
    kernel_clock kernel = moment_kernel();
    char id[SKEW_ID_SIZE], server[SKEW_SERVER_SIZE], last[SKEW_SERVER_SIZE];

    skew_self_id(id);
    if (!skew_self_server(link, server) ||
        !skew_self_measure(link, &track, effort, skew_self_rate(&kernel)) ||
        !listen_to(listening, link, effort) ||
        (agents && !read_agents(link, entries, track.stamp_us)))
        return false;
    kernel_clock later = moment_kernel(); /* a correction may have begun or ended since */
    if (later.slew_ppm > kernel.slew_ppm)
        kernel = later;
    if (!skew_sample(link, &track, skew_self_rate(&kernel)) || !skew_self_server(link, last))
        return false;
    bool same = strcmp(server, last) == 0; /* else another server has taken over meanwhile */
    skew_record_at at = {.server = last,
                         .stepped_us = same ? last_step(entries, &track) : track.stamp_us};
    add_self(fleet, &track, &kernel);
    int64_t now_us = at.now_us = server_now_us(fleet, &track);
    fleet->at_ms = now_us / 1000;
    for (int i = 0; i < entries->count; i++)
        if (is_own(fleet, &entries->entry[i], id) && !entries->entry[i].over &&
            contradicted(fleet, &entries->entry[i], &at))
            at.stepped_us = track.stamp_us;
    for (int i = 0; i < entries->count; i++) {
        /* The records existed before the last stamp: a later one is from before the clock was set
         * back. */
        bool future = entries->entry[i].sound && entries->entry[i].record.at_us > track.stamp_us;
        at.now_us = future ? track.stamp_us : now_us;
        if (is_own(fleet, &entries->entry[i], id))
            heed_own(fleet, &entries->entry[i], &at);
        add_agent(fleet, &entries->entry[i], &at, id);
    }
    fleet->more = entries->more;
    add_heard(fleet, listening, now_us, at.stepped_us);
    return true;
}

bool skew_fleet_measure(skew_fleet *fleet, server_link *link, const skew_effort *effort,
                        bool agents, skew_listen *listening) {
    entries entries = {.entry = calloc(SKEW_HOSTS_MAX, sizeof *entries.entry)};

    fleet->count = 0;
    if (!entries.entry) {
        link->status = STATUS_INTERNAL;
        (void)snprintf(link->message, sizeof link->message, "out of memory");
        return false;
    }
    bool ok = measure(fleet, link, effort, agents, listening, &entries);
    free(entries.entry);
    return ok;
}
