/*
 * The Sentinels of a URL, and what they say of their master: to find the master, and for the doctor.
 */
#pragma once

#include "client/sentinel_view.h"
#include "link/server_link.h"

#define SENTINELS_MOST (2 * TL_SEEDS_MAX)

typedef struct {
    char host[TL_HOST_SIZE];
    uint16_t port;
    char label[TL_HOST_SIZE + 16];
    int status; /**< 0: it has replied; else why not, as an exit status */
    char message[240];
    bool stranger;    /**< it is not a Sentinel */
    int64_t quorum;   /**< how many must find the master down for a failover; 0: not known */
    int64_t replicas; /**< of the master, as it knows them: unreachable ones included */
} sentinel;

typedef struct {
    char master[TL_MASTER_SIZE];
    unsigned seeds, count; /**< seeds: named by the URL; count: also those that they know */
    sentinel of[SENTINELS_MOST];
    tl_sentinel_view view[SENTINELS_MOST];
    tl_sentinel_verdict verdict;
} sentinels;

/** Ask the Sentinels that the URL names, all at once, each question for 5 s at most. With `all`, or if the
 *  master isn't sure otherwise, ask also those that they know. login: their login and TLS. False: no
 *  memory. */
bool sentinels_ask(sentinels *ret, const tl_endpoint *login, const tl_seeds *seeds, bool all);

#define SENTINELS_REPLICAS_MOST 64

/** The replicas of a master, those that are down included: each may become the master. */
typedef struct {
    unsigned count;
    bool more; /**< there are more than fit */
    struct {
        char host[TL_HOST_SIZE];
        uint16_t port;
    } of[SENTINELS_REPLICAS_MOST];
} sentinel_replicas;

/** Ask the Sentinels that have replied which replicas they know, each for 5 s at most. False: none says. */
bool sentinels_replicas(const sentinels *sentinels, const tl_endpoint *login,
                        sentinel_replicas *ret);

/** Why there is no certain master, in one line; returns the exit status for that. */
int sentinels_trouble(const sentinels *sentinels, char *to, size_t size);
