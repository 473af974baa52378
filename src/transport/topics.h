/*
 * The topics that a client listens to: a hash table, and a list that can be walked while topics are added and
 * removed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/bytes.h"
#include "ground/clock.h"

typedef struct tl_topic {
    struct tl_topic *chain;       /* in its bucket */
    struct tl_topic *next, *prev; /* in the list of all, the newest first */
    uint64_t hash;
    /** Number of its SUBSCRIBE on this connection, or watch id in this stream; 0: none. */
    uint64_t asked;
    /** etcd: the key was seen at this revision; 0: only the topic's name has one. */
    int64_t revision;
    tl_mono since; /**< etcd, patient: it has waited since then to be watched */
    bool owed;     /**< etcd: the stream that watches it has yet to report on it */
    bool patient;  /**< etcd: it is not watched at once */
    bool from_now; /**< etcd: its watch reports nothing that happened before the watch began */
    /** etcd, patient: the changes after `revision` were removed by a compaction. */
    bool compacted;
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
    tl_topic *walk; /* the next result of tl__topics_walk */
} tl_topics;

tl_topic *tl__topics_find(const tl_topics *topics, tl_bytes name);

/** Add a topic that is not there yet, with no listener; NULL: out of memory. */
tl_topic *tl__topics_add(tl_topics *topics, tl_bytes name);

/** Remove and free. */
void tl__topics_remove(tl_topics *topics, tl_topic *topic);

/** Begin a walk over the topics that exist now; one walk at a time. */
static inline void tl__topics_begin(tl_topics *topics) {
    topics->walk = topics->first;
}

/** The next topic of the walk that was not removed meanwhile, or NULL. */
tl_topic *tl__topics_walk(tl_topics *topics);

void tl__topics_clear(tl_topics *topics);
