/*
 * What the Sentinels of a URL say of their master: to find it, and for the doctor.
 */
#pragma once

#include "client/sentinel_view.h"
#include "link/server_link.h"

#define SENTINELS_MOST (2 * TL_SEEDS_MAX)

typedef struct {
    char host[TL_HOST_SIZE];
    uint16_t port;
    char label[TL_HOST_SIZE + 16];
    int status; /**< 0: it has answered; else why not, as the exit status that it means, */
    char message[240];
    bool stranger;    /**< it is no Sentinel */
    int64_t quorum;   /**< how many must find the master down; 0: not told */
    int64_t replicas; /**< of the master, that it knows, also of those that are away */
} sentinel;

typedef struct {
    char master[TL_MASTER_SIZE];
    unsigned seeds, count; /**< named by the URL, and with those that they know of */
    sentinel of[SENTINELS_MOST];
    tl_sentinel_view view[SENTINELS_MOST];
    tl_sentinel_verdict verdict;
} sentinels;

/** Ask those that the URL names, each for 5 s at most, all at once; and those that they know of if `all`, or if it
 *  isn't sure otherwise. login: how they let us in, and its TLS. False: no memory. */
bool sentinels_ask(sentinels *ret, const tl_endpoint *login, const tl_seeds *seeds, bool all);

#define SENTINELS_REPLICAS_MOST 64

/** The replicas of a master, those that are down included: each may become the master. */
typedef struct {
    unsigned count;
    bool more; /**< there are others that did not fit */
    struct {
        char host[TL_HOST_SIZE];
        uint16_t port;
    } of[SENTINELS_REPLICAS_MOST];
} sentinel_replicas;

/** Ask those that have answered which replicas they know, each for 5 s at most. False: none of them says. */
bool sentinels_replicas(const sentinels *sentinels, const tl_endpoint *login,
                        sentinel_replicas *ret);

/** Why there is no sure master, in one line; returns the exit status that it means. */
int sentinels_trouble(const sentinels *sentinels, char *to, size_t size);
