/*
 * Sentinels' replies about a master, and what follows from them. Pure.
 *
 * Each Sentinel is asked for the master's address and its configuration epoch. A failover gets a new epoch
 * from a majority of the Sentinels. The Sentinel that leads the failover knows the new master first, the
 * others within seconds. So if a majority answers, the highest epoch counts; and until a majority names that
 * master, the result isn't sure.
 *
 * A Sentinel may be asked at several addresses: that of the URL, and those that other Sentinels
 * announce. It counts once, by its identity: SENTINEL MYID, or the run_id of INFO. A Sentinel that
 * reports neither counts only while it can't be one of the others: as long as there are no more
 * addresses than Sentinels know of Sentinels.
 */
#pragma once

#include "transport/endpoint.h"
#include "wire/reply.h"

/** Message: without the nameless ones there is no majority. */
#define TL_SENTINELS_NAMELESS                                                                      \
    "the Sentinels don't say who they are, and one may be known by two addresses: allow their "    \
    "user SENTINEL MYID"

typedef enum {
    TL_VIEW_NONE,    /**< no reply */
    TL_VIEW_UNKNOWN, /**< it knows no such master */
    TL_VIEW_NAMED
} tl_sentinel_view_kind;

typedef struct {
    tl_sentinel_view_kind kind;
    uint64_t run;            /**< the Sentinel's run, the same at each address; 0: not known */
    uint64_t id;             /**< a hash of its SENTINEL MYID; 0: not asked for, or refused */
    bool alone;              /**< it does not list other Sentinels: their addresses are not known */
    int64_t epoch;           /**< of the master's configuration */
    int32_t others;          /**< other Sentinels that it knows */
    uint16_t port;           /**< the master's port */
    char host[TL_HOST_SIZE]; /**< the master's host, as it is announced */
} tl_sentinel_view;

typedef struct {
    /** The view with the highest epoch; NULL: fewer than a majority have answered. */
    const tl_sentinel_view *master;
    bool sure;                  /**< a majority names this master */
    unsigned answered, unknown; /**< Sentinels that count; of these, how many know no such master */
    unsigned nameless; /**< those that have answered, but don't count as they have no identity */
    unsigned total, majority;
} tl_sentinel_verdict;

/** Read the replies to SENTINEL MASTER and SENTINEL GET-MASTER-ADDR-BY-NAME. run: that of the connection.
 *  false: malformed. */
bool tl__sentinel_view_read(tl_sentinel_view *ret, const tl_reply *master, const tl_reply *address,
                            uint64_t run);

/** Read the reply to SENTINEL MYID, whatever its type. */
void tl__sentinel_view_read_id(tl_sentinel_view *view, const tl_reply *reply);

/** count: the views, one for each known address. seeds: the first so many are addresses of the URL. former:
 *  `total` of the last sure verdict, 0: there was none. If the views give a smaller total, `former` counts
 *  until a majority of `former` has answered: a Sentinel that was reset knows no others for a time. */
tl_sentinel_verdict tl__sentinel_views_judge(const tl_sentinel_view *views, unsigned count,
                                             unsigned seeds, unsigned former);

/** Read an item of the reply to SENTINEL SENTINELS: another Sentinel's address. false: malformed. */
bool tl__sentinel_view_other(const tl_reply *item, tl_bytes *ret_host, uint16_t *ret_port);
