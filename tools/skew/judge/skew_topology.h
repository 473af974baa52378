/*
 * Who belongs to a Redis server, as it says itself: the texts of INFO and CLUSTER NODES, read with
 * suspicion. Pure.
 */
#pragma once

#include <stddef.h>

#include "transport/conn.h"

#define PLACES_MAX 100
#define RUN_ID_SIZE 48
#define MASTER_SIZE 65

typedef struct {
    char host[TL_HOST_SIZE]; /**< "": not known */
    uint16_t port;
} redis_place;

typedef struct {
    redis_place place[PLACES_MAX];
    int count;
    bool more; /**< they were more than fit */
} redis_places;

/** Add one, unless it is there. */
void places_add(redis_places *places, const char *host, size_t host_len, uint16_t port);

/** "HOST:PORT", with brackets for a V6; host is up to the last colon. False when it is no such thing. */
bool place_read(const char *text, size_t n, redis_place *ret);

typedef struct {
    char run_id[RUN_ID_SIZE]; /**< "": not told */
    bool sentinel, cluster;
    int64_t time_us;          /**< its clock as it answered; -1: not told */
    redis_places peers;       /**< its master and replicas; of a Sentinel, the masters */
    int masters;              /**< that a Sentinel watches */
    char master[MASTER_SIZE]; /**< the name of the first of them */
} redis_info;

/** False when it is no INFO. */
bool info_read(const char *text, size_t n, redis_info *ret);

/** Add the nodes that CLUSTER NODES tells of. One whose address is not known is added without a host. */
void nodes_read(const char *text, size_t n, redis_places *ret);
