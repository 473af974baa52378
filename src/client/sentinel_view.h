/*
 * What Sentinels say of a master, and what follows from that. Pure.
 *
 * Each is asked for the master's address and for the epoch of its configuration. A failover gets a new epoch from a
 * majority of the Sentinels; who leads it knows the new master first, the others within seconds. So of a majority that
 * answers the highest epoch counts; and as long as fewer than a majority name that master, it isn't sure.
 *
 * A Sentinel may be asked at several places: as the URL names it, and as the others announce it. It counts once, by who it
 * says that it is: SENTINEL MYID, or the run_id of INFO. One that says neither counts only while it must be another than the
 * rest: as long as there are no more places than Sentinels by their own word.
 */
#pragma once

#include "transport/endpoint.h"
#include "wire/reply.h"

/** Where those that are nameless leave no majority. */
#define TL_SENTINELS_NAMELESS                                                                      \
    "the Sentinels don't say who they are, and one may be known by two addresses: allow their "    \
    "user SENTINEL MYID"

typedef enum {
    TL_VIEW_NONE,    /**< no answer */
    TL_VIEW_UNKNOWN, /**< it knows no such master */
    TL_VIEW_NAMED
} tl_sentinel_view_kind;

typedef struct {
    tl_sentinel_view_kind kind;
    uint64_t run;   /**< which Sentinel it is, by whatever address: its run; 0: not known, */
    uint64_t id;    /**< and what SENTINEL MYID says; 0: that wasn't asked, or refused */
    bool alone;     /**< it doesn't tell who else there is: what places they have isn't known */
    int64_t epoch;  /**< of the configuration */
    int32_t others; /**< Sentinels that it knows beside itself */
    uint16_t port;  /**< the master's, */
    char host[TL_HOST_SIZE]; /**< as it is announced */
} tl_sentinel_view;

typedef struct {
    const tl_sentinel_view
        *master; /**< the one of the highest epoch; NULL: fewer than a majority have answered */
    bool sure;   /**< a majority names it, and none another of a later epoch */
    unsigned answered, unknown; /**< Sentinels; those that know no such master */
    unsigned nameless; /**< have answered besides, and don't count: they may be others once more */
    unsigned total, majority;
} tl_sentinel_verdict;

/** The replies to SENTINEL MASTER and SENTINEL GET-MASTER-ADDR-BY-NAME. `run`: of the connection. false: malformed. */
bool tl__sentinel_view_read(tl_sentinel_view *ret, const tl_reply *master, const tl_reply *address,
                            uint64_t run);

/** The reply to SENTINEL MYID, of whatever kind. */
void tl__sentinel_view_read_id(tl_sentinel_view *view, const tl_reply *reply);

/** count: all places that are known. seeds: how many of them, the first, are known by other means than by the Sentinels'
 *  own word. former: the total by which a master was sure before, 0: none was; it counts on unless a majority of that many
 *  say less. A Sentinel that was reset knows of no others, for a time. */
tl_sentinel_verdict tl__sentinel_views_judge(const tl_sentinel_view *views, unsigned count,
                                             unsigned seeds, unsigned former);

/** One of the others, as SENTINEL SENTINELS lists them. false: it isn't one. */
bool tl__sentinel_view_other(const tl_reply *item, tl_bytes *ret_host, uint16_t *ret_port);
