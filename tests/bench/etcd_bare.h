/*
 * What can be had of an etcd's JSON gateway without a library: requests written by hand over one connection, each
 * answered before the next. And what the member says of itself in its metrics.
 */
#pragma once

#include <stdint.h>

#define ETCD_BARE_KEYS_MOST 128 /**< in one transaction, as etcd is set usually */

typedef struct etcd_bare etcd_bare;

/** To a port of 127.0.0.1, with a lease of ten minutes. */
etcd_bare *etcd_bare_open(int port, const char *key);
void etcd_bare_close(etcd_bare *b); /**< with its lease. NULL is fine */

void etcd_bare_pair(
    void *b); /**< a contender's operation: create the key if it isn't there; delete it */
void etcd_bare_look(etcd_bare *b); /**< a round trip that changes nothing */
/** A new lease, and n keys that are there under it: `renew` makes them when it is called first. */
void etcd_bare_renew(etcd_bare *b, int n);

/** What the member has counted so far, by its own port: messages that were said to it, of streams too; its CPU time. */
typedef struct {
    double requests, cpu_s;
} etcd_counts;
etcd_counts etcd_counts_of(int port);
