/*
 * What befalls a Redis Cluster and who is connected to it, one row each, told of a key: while clients go on, and nothing is
 * mended between. On return all processes run again, and no slot is open.
 */
#pragma once

#include "real_fleet.h"

/** What a client can be sure of meanwhile: the rows of tidelock-promises(7). */
typedef enum {
    CLUSTER_FORGETS_NOTHING,   /**< no held lock is lost, whatever quiet_ms */
    CLUSTER_FORGETS,           /**< no two hold a lock with quiet_ms of the lifetime */
    CLUSTER_ANSWERS_AFTERWARDS /**< the former master does: nothing but the fence is promised */
} cluster_harm;

typedef struct {
    const char *name;
    void (*strike)(real_fleet *f, const char *key);
    cluster_harm harm;
    int replaces; /**< so many masters at most; more does a machine that is too busy for its nodes */
} cluster_fault;

/** Who says that it is a master, bit by bit in the servers' order. */
unsigned cluster_masters(real_fleet *f);

/** Of those that this server has. NULL behind the last. */
const cluster_fault *cluster_fault_at(const real_fleet *f, int i);
