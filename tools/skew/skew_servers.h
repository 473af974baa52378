/*
 * The clocks of all servers that may time the locks: after a failover, another server's clock decides
 * when a lock expires. Replicas, masters and nodes are found through the URL's server and the servers
 * given by option. Sentinels report which servers they watch.
 */
#pragma once

#include "skew/skew_sample.h"
#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_topology.h"

typedef struct {
    redis_place place;
    char label[TL_HOST_SIZE + 16];
    char run_id[RUN_ID_SIZE];
    bool sentinel, twice; /**< twice: the same server already has a row */
    skew_track track;     /**< this host's clock minus the server's */
    const char *status;   /**< set if the track is not known */
    char why[SKEW_DETAIL_SIZE];
} redis_server;

typedef struct {
    redis_server *server; /**< the first is the server that all is measured against */
    int count;
    bool more;         /**< there are more than fit */
    bool by_cluster;   /**< a cluster: each master's clock times the locks of its slots */
    bool only_masters; /**< only the masters are needed */
    bool unserved;     /**< some node reports slots without a master */
    redis_places given;
} skew_servers;

/** places: further servers, HOST:PORT separated by commas; may be "". No I/O. Returns 0, or the
 *  exit status after a message. */
int skew_servers_begin(skew_servers *servers, const char *places);
void skew_servers_end(skew_servers *servers);

/** Find the servers, and measure each. A link to a Sentinel is redirected to the master that it
 *  watches. False: link->status and link->message say why. */
bool skew_servers_ask(skew_servers *servers, server_link *link, int32_t rate_ppm);

/** Fill the row of one server at the reading `now`. own is this host's clock minus the first
 *  server's; NULL: unknown. This host is the first of the rows. */
void skew_server_judge(const skew_servers *servers, int which, const skew_reading *now,
                       const tl_interval *own, int32_t rate_ppm, skew_host *host);

/** Fill the row of the server that all is measured against, without a request to it. */
void skew_server_itself(const char *label, skew_host *host);
