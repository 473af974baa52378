/*
 * The hosts of a result: this one, measured now, and those whose agents have published.
 */
#pragma once

#include "skew/legacy_hooks.h"

typedef struct {
    skew_host *hosts; /**< SKEW_HOSTS_MAX of room */
    int count;
    bool more;     /**< there are more than fit */
    int64_t at_ms; /**< the server's clock at the end of it */
    char self[SKEW_NAME_SIZE];
} skew_fleet;

/** Returns false when there is no memory. */
bool skew_fleet_begin(skew_fleet *fleet);
void skew_fleet_end(skew_fleet *fleet);

/** Measure this host, listen to legacy clients (unless NULL), read the agents' records (unless
 *  told not to), and judge all by one moment of the server's clock; of the clients' lifetime that remains
 *  to be done. False: link->status and link->message say why. */
bool skew_fleet_measure(skew_fleet *fleet, server_link *link, const skew_effort *effort,
                        bool agents, skew_listen *listening);
