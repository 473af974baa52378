/*
 * A site says where the connections of a node lead, if that may change: to the server that is the node's
 * master, as far as the discovery has found out. (The discovery is the code that asks Sentinels or nodes of a
 * cluster: client/fleet.h.) Any thread may use a site, whatever mutex it holds; the discovery is one thread.
 *
 * Each change of the server is a new generation. A connection belongs to the generation that it was made in,
 * and ends with it. A request that was built for one generation is never sent over a connection of another.
 *
 * The site is "named" when the discovery has confirmed that its server is still the master.
 */
#pragma once

#include <stdatomic.h>

#include "ground/bytes.h"
#include "ground/clock.h"
#include "ground/thread.h"
#include "transport/endpoint.h"

#define TL_SITE_MESSAGE_SIZE 240
#define TL_NO_EPOCH (-1)
/** A lock is requested only if the master was confirmed this recently, by clocks of any rate. */
#define TL_NAMED_MS 1000

/** A server; it lives as long as its endpoint is used. */
typedef struct {
    atomic_uint refs;
    uint32_t generation;
    int64_t epoch; /**< the epoch of the configuration that names it the master, or TL_NO_EPOCH */
    tl_endpoint endpoint;
} tl_spot;

/** A connection that ends with its generation. */
typedef struct tl_opened {
    int fd;
    bool open;                    /* used by its owner alone; the other members are shared */
    struct tl_opened *next, **at; /* in the site's list */
} tl_opened;

typedef struct {
    _Atomic uint32_t generation; /**< 0: it leads nowhere */
    /** When the question was asked that confirmed the master last; 0: not yet. */
    _Atomic int64_t named_ns;
    _Atomic int64_t first_ns; /**< the same, of the first such question in this generation */
    /** Bound for the clocks of all clients. This member and the next two are set by the creator. */
    int32_t drift_ppm;
    /** After a change a renewal counts only once no client can count on a lock of the former server. */
    bool settles;
    /** Once it has led somewhere and no longer does, requests fail instead of waiting. */
    bool stays;
    atomic_bool left;    /**< it no longer leads anywhere */
    atomic_bool wanted;  /**< the discovery is asked to find or confirm the server */
    atomic_bool doubted; /**< also: the server may have changed */
    /** Wakes the discovery; called from any thread, whatever mutex it holds. */
    void (*want)(void *ctx);
    void *ctx;
    tl_mutex mutex; /* protects the members below */
    uint32_t last;  /* of the last generation */
    tl_spot *spot;
    tl_opened *opened;
    tl_err refusal;  /* no server will be found, for this reason */
    tl_mono refused; /* when the question was asked that found that */
    char message[TL_SITE_MESSAGE_SIZE];
} tl_site;

void tl__site_init(tl_site *site, void (*want)(void *ctx), void *ctx);
/** Free its contents; nothing uses it from now on. */
void tl__site_end(tl_site *site);

/* For the discovery: */

/** The site leads to this server from now on, by a configuration of this epoch: begins the next generation.
 *  false: no memory, nothing has changed. */
bool tl__site_lead(tl_site *site, const tl_endpoint *endpoint, int64_t epoch);
/** The site leads nowhere, or still nowhere, for this reason. */
void tl__site_lose(tl_site *site, const char *message);
/** Set the reason why nothing newer is known; where the site leads stays. */
void tl__site_trouble(tl_site *site, const char *message);
/** The same after a question asked at `asked` whose repetition would find nothing else: requests made up to
 *  then fail with this reason. A site without a server forgets this as soon as it leads somewhere. */
void tl__site_refuse(tl_site *site, tl_err why, const char *message, tl_mono asked);
/** A question asked at `asked` has confirmed the server. */
void tl__site_named(tl_site *site, tl_mono asked);
/** Return and clear the flag `wanted`; `doubted`. */
bool tl__site_wanted(tl_site *site);
bool tl__site_doubted(tl_site *site);

/* For connections: */

/** The server to connect to; release it with tl__spot_give. NULL: unknown, and the message says why. */
tl_spot *tl__site_spot(tl_site *site, char *message, size_t size);
/** For a site that leads nowhere: must a request made at `since` fail, since no server will be found? Then
 *  the message says why. TL_OK: no. */
tl_err tl__site_refusal(tl_site *site, tl_mono since, char *message, size_t size);
/** The server's label for messages; unchanged if the site leads nowhere. */
void tl__site_label(tl_site *site, char *label, size_t size);
/** Release a server. NULL is fine. */
void tl__spot_give(tl_spot *spot);

/** A connection of this generation has opened; and is about to close. If its generation is over, its socket
 *  is shut down. */
void tl__site_opened(tl_site *site, tl_opened *opened, int fd, uint32_t generation);
void tl__site_closed(tl_site *site, tl_opened *opened);

/** Why the server is unknown or not confirmed. */
void tl__site_message(tl_site *site, char *message, size_t size);

/** Must a request that waits for a connection be sent elsewhere? */
static inline bool tl__site_is_left(const tl_site *site) {
    return site->stays && atomic_load(&site->left);
}

/** A connection of this generation was lost: if the site still leads there, have the discovery check whether
 *  another server is the master now. */
void tl__site_doubt(tl_site *site, uint32_t generation);

static inline bool tl__site_is(const tl_site *site, uint32_t generation) {
    return atomic_load(&site->generation) == generation;
}

/** A question asked at `since` had confirmed the server of that time: does the site lead elsewhere now? */
static inline bool tl__site_has_changed(const tl_site *site, tl_mono since) {
    int64_t ns = atomic_load(&site->first_ns);
    return ns == 0 || since.ns < ns; /* the present server is not confirmed yet */
}

/** Has a question asked at `since` or later confirmed the server? */
static inline bool tl__site_was_named(const tl_site *site, tl_mono since) {
    int64_t ns = atomic_load(&site->named_ns);
    return ns != 0 && ns >= since.ns;
}

/** The same; if not, the discovery is asked to. */
bool tl__site_is_named(tl_site *site, tl_mono since);
/** Is that enough for a renewal? Clients that don't know of a change yet may acquire the lock on the former
 *  server, for TL_NAMED_MS after its lifetime there ends. So after a change a renewal counts only when that
 *  time has passed. A lock that was adopted may be of a server before the first one that this site led to. */
bool tl__site_is_confirmed(tl_site *site, tl_mono since, bool adopted, tl_mono now);
/** Was the server confirmed so recently that a lock may be requested? If not, and also some time before that,
 *  the discovery is asked to confirm it. */
bool tl__site_is_fresh(tl_site *site, tl_mono now);
/** The same, without asking the discovery. */
bool tl__site_was_fresh(const tl_site *site, tl_mono now);
