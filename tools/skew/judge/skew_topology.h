/*
 * Which servers belong to a Redis server, by its own report: reads and checks the texts of INFO and
 * CLUSTER NODES. Pure.
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
    bool more; /**< there are more than fit */
} redis_places;

/** Add an address, unless it is already there. */
void places_add(redis_places *places, const char *host, size_t host_len, uint16_t port);

/** Read "HOST:PORT", with brackets for a V6; the host ends at the last colon. False: it is not
 *  one. */
bool place_read(const char *text, size_t n, redis_place *ret);

typedef struct {
    char run_id[RUN_ID_SIZE]; /**< "": not reported */
    bool sentinel, cluster;
    int64_t time_us;          /**< its clock in the reply; -1: not reported */
    redis_places peers;       /**< its master and replicas; a Sentinel's masters */
    int masters;              /**< number of masters that a Sentinel watches */
    char master[MASTER_SIZE]; /**< name of the first of these */
} redis_info;

/** False: it is not a reply to INFO. */
bool info_read(const char *text, size_t n, redis_info *ret);

/** Add the nodes in CLUSTER NODES. A node whose address is not known is added without a host. */
void nodes_read(const char *text, size_t n, redis_places *ret);
