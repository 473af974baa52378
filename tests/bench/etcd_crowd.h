/*
 * Clients that stand in line for one lock of an etcd, again and again: threads, each with a client of its own.
 */
#pragma once

#include <stdint.h>

#define ETCD_CROWD_MOST 32

typedef struct etcd_crowd etcd_crowd;

etcd_crowd *etcd_crowd_open(const char *url, const char *key, int n);
void etcd_crowd_close(etcd_crowd *c); /**< NULL is fine */
void etcd_crowd_begin(etcd_crowd *c);
void etcd_crowd_end(etcd_crowd *c); /**< who waits has one more turn each, and then nobody waits */
uint64_t etcd_crowd_turns(const etcd_crowd *c); /**< so far */
