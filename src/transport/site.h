/*
 * Where the connections of a node lead, when that may change: to the server that is its master, as far as
 * somebody has found out. Any thread, whatever mutex it holds; who finds out is one.
 *
 * Each change is a new generation. A connection belongs to the one that it was made in, and ends with it; what
 * was built for one generation is never sent over a connection of another.
 */
#pragma once

#include <stdatomic.h>

#include "ground/bytes.h"
#include "ground/clock.h"
#include "ground/thread.h"
#include "transport/endpoint.h"

#define TL_SITE_MESSAGE_SIZE 240
#define TL_NO_EPOCH (-1)
#define TL_NAMED_MS                                                                                \
    1000 /**< who asks for a lock wants the master named no longer ago than this, whatever the clocks' rates */

/** A server, as long as anybody needs its endpoint. */
typedef struct {
    atomic_uint refs;
    uint32_t generation;
    int64_t epoch; /**< TL_NO_EPOCH, or that of the configuration that names it the master */
    tl_endpoint endpoint;
} tl_spot;

/** A connection that ends with its generation. */
typedef struct tl_opened {
    int fd;
    bool open;                    /* its owner alone looks at it; at the rest all do */
    struct tl_opened *next, **at; /* of the site's */
} tl_opened;

typedef struct {
    _Atomic uint32_t generation; /**< 0: nobody knows where to */
    _Atomic int64_t named_ns;    /**< a question asked then has confirmed it; 0: none has */
    _Atomic int64_t first_ns;    /**< the first that has, of this generation */
    int32_t
        drift_ppm; /**< of any client's clock, this one's among them. Set by who makes it, as is */
    bool
        settles; /**< a renewal counts only where nobody may count on a lock of the former server any more */
    bool stays;              /**< where it leads nowhere any more, nobody waits for it to */
    atomic_bool left;        /**< it leads nowhere any more */
    atomic_bool wanted;      /**< somebody wants it found out, or confirmed */
    atomic_bool doubted;     /**< it may lead elsewhere by now, besides */
    void (*want)(void *ctx); /**< and says so: from any thread, whatever it holds */
    void *ctx;
    tl_mutex mutex; /* for what follows */
    uint32_t last;  /* generation */
    tl_spot *spot;
    tl_opened *opened;
    tl_err refusal;  /* nobody leads it anywhere, for this reason, */
    tl_mono refused; /* as of a question asked then */
    char message[TL_SITE_MESSAGE_SIZE];
} tl_site;

void tl__site_init(tl_site *site, void (*want)(void *ctx), void *ctx);
/** Nobody uses it any more. */
void tl__site_end(tl_site *site);

/* For who finds out: */

/** It leads there from now on, by a configuration of this epoch: the next generation. false: no memory, nothing has
 *  changed. */
bool tl__site_lead(tl_site *site, const tl_endpoint *endpoint, int64_t epoch);
/** Nobody knows any more, or still, for this reason. */
void tl__site_lose(tl_site *site, const char *message);
/** The same, wherever it leads: why nothing more is known at present. */
void tl__site_trouble(tl_site *site, const char *message);
/** The same, of a question asked at `asked`, and asking again would be answered no other: whoever had wanted to know
 *  by then is told so. A site without a server forgets that as soon as it leads somewhere. */
void tl__site_refuse(tl_site *site, tl_err why, const char *message, tl_mono asked);
/** A question that was asked at `asked` has confirmed where it leads. */
void tl__site_named(tl_site *site, tl_mono asked);
/** Take out that it is wanted; that it is doubted. */
bool tl__site_wanted(tl_site *site);
bool tl__site_doubted(tl_site *site);

/* For connections: */

/** The server to connect to, to be given back; NULL: it isn't known, which words tell. */
tl_spot *tl__site_spot(tl_site *site, char *message, size_t size);
/** Where it leads nowhere: is that so for good for who has wanted to know since then, as words tell? TL_OK: it isn't. */
tl_err tl__site_refusal(tl_site *site, tl_mono since, char *message, size_t size);
/** What the server is called where it leads; it stays as it is where it leads nowhere. */
void tl__site_label(tl_site *site, char *label, size_t size);
/** NULL is fine. */
void tl__spot_give(tl_spot *spot);

/** A connection of this generation is open, until it is closed; where that is over its socket is shut. */
void tl__site_opened(tl_site *site, tl_opened *opened, int fd, uint32_t generation);
void tl__site_closed(tl_site *site, tl_opened *opened);

/** Why it isn't known, or not confirmed. */
void tl__site_message(tl_site *site, char *message, size_t size);

/** Is whoever waits to be led there to ask elsewhere? */
static inline bool tl__site_is_left(const tl_site *site) {
    return site->stays && atomic_load(&site->left);
}

/** A connection of this generation was lost: if it leads there still, find out whether another server is the one by now. */
void tl__site_doubt(tl_site *site, uint32_t generation);

static inline bool tl__site_is(const tl_site *site, uint32_t generation) {
    return atomic_load(&site->generation) == generation;
}

/** A question that was asked at `since` had confirmed where it led then: does it lead elsewhere by now? */
static inline bool tl__site_has_changed(const tl_site *site, tl_mono since) {
    int64_t ns = atomic_load(&site->first_ns);
    return ns == 0 || since.ns < ns; /* nothing has confirmed it yet where it leads now */
}

/** Has a question that was asked at `since` or later confirmed it? */
static inline bool tl__site_was_named(const tl_site *site, tl_mono since) {
    int64_t ns = atomic_load(&site->named_ns);
    return ns != 0 && ns >= since.ns;
}

/** The same; else that is wanted. */
bool tl__site_is_named(tl_site *site, tl_mono since);
/** Does that suffice for a renewal? Others who can't be told of a change may acquire a lock of the former server for
 *  TL_NAMED_MS, once the former lifetime is over: so what is renewed after a change counts when that has passed. */
bool tl__site_is_confirmed(tl_site *site, tl_mono since, tl_mono now);
/** Was it confirmed so lately that a lock may be asked for? Else, and some time before, that is wanted. */
bool tl__site_is_fresh(tl_site *site, tl_mono now);
/** The same, and nothing more is wanted. */
bool tl__site_was_fresh(const tl_site *site, tl_mono now);
