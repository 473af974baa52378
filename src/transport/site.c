/*
 * Which server a node's connections lead to. The only I/O is to shut the sockets of connections whose
 * generation is over.
 */
#include "transport/site.h"

#include <stdio.h>
#include <stdlib.h>

#include "ground/guard.h"
#include "ground/socket.h"
#include "wire/interval.h"

void tl__site_init(tl_site *site, void (*want)(void *ctx), void *ctx) {
    *site = (tl_site){.want = want, .ctx = ctx};
    (void)snprintf(site->message, sizeof site->message, "no master has been named yet");
    tl__mutex_init(&site->mutex);
}

void tl__site_end(tl_site *site) {
    tl__spot_give(site->spot);
    tl__mutex_end(&site->mutex);
}

/* ---- finding out ----------------------------------------------------------------------------- */

/* With the mutex held: all open connections belong to a generation that is over. */
static void shut_all(tl_site *site) {
    for (const tl_opened *o = site->opened; o; o = o->next)
        tl__socket_shut(o->fd);
}

/* The confirmation is cleared before the generation changes, and the next one comes after it. So a thread
 * that finds the site confirmed, and then its own generation in force, is right. */
static tl_spot *put(tl_site *site, tl_spot *spot) {
    tl_spot *was = site->spot;
    site->spot = spot;
    site->refusal = TL_OK;
    atomic_store(&site->named_ns, 0);
    atomic_store(&site->first_ns, 0);
    atomic_store(&site->generation, spot ? spot->generation : 0);
    atomic_store(&site->left, !spot);
    shut_all(site);
    return was;
}

bool tl__site_lead(tl_site *site, const tl_endpoint *endpoint, int64_t epoch) {
    tl_spot *spot = malloc(sizeof *spot);
    if (!spot)
        return false;
    tl__mutex_lock(&site->mutex);
    site->last = site->last == UINT32_MAX ? 1 : site->last + 1;
    if (GUARD(past_doubt_is_over))
        atomic_store(&site->doubted, false);
    atomic_init(&spot->refs, 1);
    spot->generation = site->last;
    spot->epoch = epoch;
    spot->endpoint = *endpoint;
    tl_spot *was = put(site, spot);
    tl__mutex_unlock(&site->mutex);
    tl__spot_give(was);
    return true;
}

void tl__site_lose(tl_site *site, const char *message) {
    tl__mutex_lock(&site->mutex);
    (void)snprintf(site->message, sizeof site->message, "%s", message);
    tl_spot *was = put(site, NULL);
    tl__mutex_unlock(&site->mutex);
    tl__spot_give(was);
}

void tl__site_trouble(tl_site *site, const char *message) {
    tl__mutex_lock(&site->mutex);
    (void)snprintf(site->message, sizeof site->message, "%s", message);
    tl__mutex_unlock(&site->mutex);
}

void tl__site_refuse(tl_site *site, tl_err why, const char *message, tl_mono asked) {
    tl__mutex_lock(&site->mutex);
    (void)snprintf(site->message, sizeof site->message, "%s", message);
    site->refusal = why;
    site->refused = asked;
    tl__mutex_unlock(&site->mutex);
}

void tl__site_message(tl_site *site, char *message, size_t size) {
    tl__mutex_lock(&site->mutex);
    (void)snprintf(message, size, "%s", site->message);
    tl__mutex_unlock(&site->mutex);
}

void tl__site_named(tl_site *site, tl_mono asked) {
    if (atomic_load(&site->first_ns) == 0)
        atomic_store(&site->first_ns, asked.ns);
    atomic_store(&site->named_ns, asked.ns);
}

bool tl__site_wanted(tl_site *site) {
    return atomic_load(&site->wanted) && atomic_exchange(&site->wanted, false);
}

bool tl__site_doubted(tl_site *site) {
    return atomic_load(&site->doubted) && atomic_exchange(&site->doubted, false);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void want(tl_site *site, bool anew) {
    if (!atomic_exchange(&site->wanted, true) || anew)
        site->want(site->ctx);
}

void tl__site_doubt(tl_site *site, uint32_t generation) {
    tl__mutex_lock(&site->mutex);
    bool is = site->spot && site->spot->generation == generation;
    bool anew = is && !atomic_exchange(&site->doubted, true);
    tl__mutex_unlock(&site->mutex);
    if (is)
        want(site, anew);
}

tl_spot *tl__site_spot(tl_site *site, char *message, size_t size) {
    tl__mutex_lock(&site->mutex);
    tl_spot *spot = site->spot;
    bool anew = false;
    if (spot) {
        atomic_fetch_add(&spot->refs, 1);
    } else {
        (void)snprintf(message, size, "%s", site->message);
        anew = !atomic_exchange(&site->doubted, true);
    }
    tl__mutex_unlock(&site->mutex);
    if (!spot)
        want(site, anew);
    return spot;
}

void tl__site_label(tl_site *site, char *label, size_t size) {
    tl__mutex_lock(&site->mutex);
    if (site->spot)
        (void)snprintf(label, size, "%s", site->spot->endpoint.label);
    tl__mutex_unlock(&site->mutex);
}

tl_err tl__site_refusal(tl_site *site, tl_mono since, char *message, size_t size) {
    tl__mutex_lock(&site->mutex);
    bool covers = site->refusal != TL_OK &&
                  (!tl__mono_before(site->refused, since) || !GUARD(refused_since_asked));
    tl_err why = covers ? site->refusal : TL_OK;
    if (covers)
        (void)snprintf(message, size, "%s", site->message);
    tl__mutex_unlock(&site->mutex);
    return why;
}

void tl__spot_give(tl_spot *spot) {
    if (!spot || atomic_fetch_sub(&spot->refs, 1) > 1)
        return;
    tl__endpoint_wipe(&spot->endpoint);
    free(spot);
}

void tl__site_opened(tl_site *site, tl_opened *opened, int fd, uint32_t generation) {
    opened->open = true;
    tl__mutex_lock(&site->mutex);
    opened->fd = fd;
    opened->next = site->opened;
    opened->at = &site->opened;
    if (opened->next)
        opened->next->at = &opened->next;
    site->opened = opened;
    if (!tl__site_is(site, generation))
        tl__socket_shut(fd);
    tl__mutex_unlock(&site->mutex);
}

void tl__site_closed(tl_site *site, tl_opened *opened) {
    if (!opened->open)
        return;
    opened->open = false;
    tl__mutex_lock(&site->mutex);
    *opened->at = opened->next;
    if (opened->next)
        opened->next->at = opened->at;
    tl__mutex_unlock(&site->mutex);
}

bool tl__site_is_named(tl_site *site, tl_mono since) {
    bool named = tl__site_was_named(site, since);
    if (!named)
        want(site, false);
    return named;
}

bool tl__site_is_confirmed(tl_site *site, tl_mono since, bool adopted, tl_mono now) {
    /* In this order: the other thread stores first_ns first. Read the other way round, it could miss a name that
     * counts, and a new master would not have to settle. */
    bool named = tl__site_was_named(site, since);
    tl_mono first = {atomic_load(&site->first_ns)};
    bool former = atomic_load(&site->generation) > 1 || /* the lock may be a former server's */
                  (adopted && GUARD(adopted_settles));
    /* quiet_ms withholds locks on the new master only. Another client, cut off together with the former
     * master, may acquire the lock there when its former lifetime ends. A holder that renewed it on the
     * new master would hold it too. So a lock that has less than this time left when a master takes over
     * is lost. */
    if (GUARD(new_master_settles) && site->settles && former && first.ns != 0)
        since = tl__mono_max(since, tl__mono_add_ms(first, TL_NAMED_MS));
    if (tl__mono_before(now, since))
        return false;
    if (!named)
        want(site, false);
    return named && tl__site_is_named(site, since);
}

/* The longest time by our clock that is no longer than TL_NAMED_MS by another's. */
static int64_t most_ns(const tl_site *site) {
    return tl__rate_least_ns(TL_NAMED_MS * TL_NS_PER_MS, site->drift_ppm);
}

/* A Sentinel never goes back to an earlier master, and two majorities share a Sentinel. So a hold can begin
 * by a former master's reply for at most TL_NAMED_MS after a majority names the new master. */
bool tl__site_was_fresh(const tl_site *site, tl_mono now) {
    int64_t ns = atomic_load(&site->named_ns);
    return (ns != 0 && now.ns - ns <= most_ns(site)) || !GUARD(master_named_lately);
}

bool tl__site_is_fresh(tl_site *site, tl_mono now) {
    if (now.ns - atomic_load(&site->named_ns) > most_ns(site) / 2)
        want(site, false);
    return tl__site_was_fresh(site, now);
}
