/*
 * A table of topics. Plain memory; it grows and shrinks with its contents.
 */
#include "transport/topics.h"

#include <stdlib.h>

#define BUCKETS_MIN 16

static uint64_t hash_of(const tl_topics *topics, tl_bytes name) {
    uint64_t h = tl__bytes_hash(topics->seed, name);
    return h ^ (h >> 32);
}

static tl_topic **bucket_of(const tl_topics *topics, uint64_t hash) {
    return &topics->bucket[hash & (topics->buckets - 1)];
}

/* `buckets` is a power of two. Without memory the table stays as it is. */
static bool resize(tl_topics *topics, size_t buckets) {
    tl_topic **bucket = calloc(buckets, sizeof(tl_topic *));
    if (!bucket)
        return topics->buckets > 0;
    free(topics->bucket);
    topics->bucket = bucket;
    topics->buckets = buckets;
    for (tl_topic *topic = topics->first; topic; topic = topic->next) {
        tl_topic **at = bucket_of(topics, topic->hash);
        topic->chain = *at;
        *at = topic;
    }
    return true;
}

tl_topic *tl__topics_find(const tl_topics *topics, tl_bytes name) {
    if (topics->count == 0)
        return NULL;
    uint64_t hash = hash_of(topics, name);
    tl_topic *topic = *bucket_of(topics, hash);
    while (topic && !(topic->hash == hash && tl__bytes_eq(topic->name, name)))
        topic = topic->chain;
    return topic;
}

tl_topic *tl__topics_add(tl_topics *topics, tl_bytes name) {
    tl_topic *topic = calloc(1, sizeof *topic + name.n);
    bool room = topics->count < topics->buckets ||
                resize(topics, topics->buckets ? topics->buckets * 2 : BUCKETS_MIN);
    if (!topic || !room) {
        free(topic);
        return NULL;
    }
    if (name.n)
        memcpy(topic->bytes, name.p, name.n);
    topic->name = tl__bytes(topic->bytes, name.n);
    topic->hash = hash_of(topics, name);
    topic->chain = *bucket_of(topics, topic->hash);
    *bucket_of(topics, topic->hash) = topic;
    topic->next = topics->first;
    if (topic->next)
        topic->next->prev = topic;
    topics->first = topic;
    topics->count++;
    return topic;
}

void tl__topics_remove(tl_topics *topics, tl_topic *topic) {
    tl_topic **at = bucket_of(topics, topic->hash);
    while (*at != topic)
        at = &(*at)->chain;
    *at = topic->chain;
    if (topics->walk == topic)
        topics->walk = topic->next;
    if (topic->next)
        topic->next->prev = topic->prev;
    if (topic->prev)
        topic->prev->next = topic->next;
    else
        topics->first = topic->next;
    topics->count--;
    if (topics->buckets > BUCKETS_MIN && topics->count < topics->buckets / 8)
        (void)resize(topics, topics->buckets / 2);
    free(topic);
}

tl_topic *tl__topics_walk(tl_topics *topics) {
    tl_topic *topic = topics->walk;
    if (topic)
        topics->walk = topic->next;
    return topic;
}

void tl__topics_clear(tl_topics *topics) {
    tl_topic *next;
    for (tl_topic *topic = topics->first; topic; topic = next) {
        next = topic->next;
        free(topic);
    }
    free(topics->bucket);
    *topics = (tl_topics){.seed = topics->seed};
}
