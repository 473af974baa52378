/*
 * Where a lock stands in its client's queue, which no caller is told: a test must know before it goes on.
 */
#pragma once

#include "client/client.h"
#include "client/lock.h"

static inline int standing(tl_lock *lock) {
    tl_gate *gate = &lock->client->gate;
    tl__mutex_lock(&gate->mutex);
    int state = lock->gate_node.state;
    tl__mutex_unlock(&gate->mutex);
    return state;
}
