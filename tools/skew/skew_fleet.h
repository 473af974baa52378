/*
 * The hosts of a result: this host, measured now, and the hosts whose agents have published.
 */
#pragma once

#include "skew/legacy_hooks.h"

typedef struct {
    skew_host *hosts; /**< room for SKEW_HOSTS_MAX */
    int count;
    bool more;     /**< there are more than fit */
    int64_t at_ms; /**< the server's clock at the end of the measurement */
    char self[SKEW_NAME_SIZE];
} skew_fleet;

/** False: out of memory. */
bool skew_fleet_begin(skew_fleet *fleet);
void skew_fleet_end(skew_fleet *fleet);

/** Measure this host; listen to legacy clients (unless NULL); read the agents' records (if
 *  `agents`). All are judged at one moment of the server's clock. The caller still judges the
 *  legacy clients' lifetimes. False: link->status and link->message say why. */
bool skew_fleet_measure(skew_fleet *fleet, server_link *link, const skew_effort *effort,
                        bool agents, skew_listen *listening);
