/*
 * The clocks of all servers that may come to judge: after a failover another server's clock ends the
 * locks. Replicas, masters and nodes are found from the server of the URL and from those named besides;
 * Sentinels are asked whom they watch.
 */
#pragma once

#include "skew/skew_sample.h"
#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_topology.h"

typedef struct {
    redis_place place;
    char label[TL_HOST_SIZE + 16];
    char run_id[RUN_ID_SIZE];
    bool sentinel, twice; /**< twice: the same server has a row already */
    skew_track track;     /**< of this host's clock less its */
    const char *status;   /**< unless the track is known */
    char why[SKEW_DETAIL_SIZE];
} redis_server;

typedef struct {
    redis_server *server; /**< the first is the one that all is measured against */
    int count;
    bool more;         /**< there are others that did not fit */
    bool by_cluster;   /**< of a cluster, whose masters judge, each the locks of its slots; */
    bool only_masters; /**< nobody but these is asked for */
    bool unserved;     /**< slots without a master, as far as some node knows */
    redis_places given;
} skew_servers;

/** places: further servers, HOST:PORT with commas between; may be "". No I/O. Returns 0, or the exit status
 *  after a message. */
int skew_servers_begin(skew_servers *servers, const char *places);
void skew_servers_end(skew_servers *servers);

/** Find them, and measure each. A link to a Sentinel is turned to the master that it watches. False:
 *  link->status and link->message say why. */
bool skew_servers_ask(skew_servers *servers, server_link *link, int32_t rate_ppm);

/** Fill the row of one at the reading `now`. own is this host's clock less the first server's, or NULL when
 *  unknown; this host is the first of the rows. */
void skew_server_judge(const skew_servers *servers, int which, const skew_reading *now,
                       const tl_interval *own, int32_t rate_ppm, skew_host *host);

/** Fill the row of the server that all is measured against, without asking it. */
void skew_server_itself(const char *label, skew_host *host);
