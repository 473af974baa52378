/*
 * The topics that are listened to: a hash table, and a list that stays walkable while topics come
 * and go.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/bytes.h"
#include "ground/clock.h"

typedef struct tl_topic {
    struct tl_topic *chain;       /* of one bucket */
    struct tl_topic *next, *prev; /* all, the newest first */
    uint64_t hash;
    uint64_t asked;   /**< number of its SUBSCRIBE on this connection; 0: none */
    int64_t revision; /**< of etcd: seen at it; 0: only the name tells */
    tl_mono since;    /**< of etcd, patient: to be asked for since then */
    bool patient;     /**< of etcd: it isn't asked for at once */
    bool from_now;    /**< of etcd: its stream tells of nothing before it was asked for */
    bool compacted;   /**< of etcd, patient: what came after `revision` isn't kept any more */
    unsigned listeners;
    enum { TL_UNREPORTED, TL_REPORTED_ARMED, TL_REPORTED_UNARMED } reported;
    tl_bytes name;
    char bytes[];
} tl_topic;

typedef struct {
    uint64_t seed;
    tl_topic **bucket;
    size_t buckets, count;
    tl_topic *first;
    tl_topic *walk; /* what tl__topics_walk gives next */
} tl_topics;

tl_topic *tl__topics_find(const tl_topics *topics, tl_bytes name);

/** Add one that is not there, with no listener; NULL: out of memory. */
tl_topic *tl__topics_add(tl_topics *topics, tl_bytes name);

/** Take out and free. */
void tl__topics_remove(tl_topics *topics, tl_topic *topic);

/** Begin a walk over those that are there now; one at a time. */
static inline void tl__topics_begin(tl_topics *topics) {
    topics->walk = topics->first;
}

/** The next one of the walk that was not removed meanwhile, or NULL. */
tl_topic *tl__topics_walk(tl_topics *topics);

void tl__topics_clear(tl_topics *topics);
