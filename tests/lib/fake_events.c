/*
 * Keyspace events: what has become of a key, published to who has subscribed to it, where the server is
 * configured to tell.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fake_inside.h"

#define LETTERS_MAX 20

static const struct {
    char letter;
    unsigned bit;
    uint32_t since;
} letters[] = {
    {'g', FAKE_ON_GENERIC, FAKE_LEVEL(2, 8, 0)},  {'$', FAKE_ON_STRING, FAKE_LEVEL(2, 8, 0)},
    {'l', FAKE_ON_LIST, FAKE_LEVEL(2, 8, 0)},     {'s', FAKE_ON_SET, FAKE_LEVEL(2, 8, 0)},
    {'h', FAKE_ON_HASH, FAKE_LEVEL(2, 8, 0)},     {'z', FAKE_ON_ZSET, FAKE_LEVEL(2, 8, 0)},
    {'x', FAKE_ON_EXPIRED, FAKE_LEVEL(2, 8, 0)},  {'e', FAKE_ON_EVICTED, FAKE_LEVEL(2, 8, 0)},
    {'t', FAKE_ON_STREAM, FAKE_LEVEL(5, 0, 0)},   {'d', FAKE_ON_MODULE, FAKE_LEVEL(6, 2, 0)},
    {'n', FAKE_ON_NEW, FAKE_LEVEL(7, 0, 0)},      {'K', FAKE_TO_KEYSPACE, FAKE_LEVEL(2, 8, 0)},
    {'E', FAKE_TO_KEYEVENT, FAKE_LEVEL(2, 8, 0)}, {'m', FAKE_ON_MISS, FAKE_LEVEL(6, 0, 0)}};

#define COUNT (sizeof(letters) / sizeof(letters[0]))

/* Of all kinds but those that only a look brings about. */
static const unsigned most = FAKE_ON_GENERIC | FAKE_ON_STRING | FAKE_ON_LIST | FAKE_ON_SET |
                             FAKE_ON_HASH | FAKE_ON_ZSET | FAKE_ON_EXPIRED | FAKE_ON_EVICTED |
                             FAKE_ON_STREAM | FAKE_ON_MODULE;

bool fake__events_read(const fake_redis *r, tl_bytes text, unsigned *ret) {
    *ret = 0;
    for (size_t at = 0; at < text.n; at++) {
        size_t i = 0;
        while (i < COUNT && (letters[i].letter != text.p[at] || letters[i].since > r->level)) {
            i++;
        }
        if (i == COUNT && text.p[at] != 'A') {
            return false;
        }
        *ret |= text.p[at] == 'A' ? most : letters[i].bit;
    }
    return true;
}

tl_bytes fake__events_print(fake_conn *c) {
    unsigned events = c->r->events;
    bool all = (events & most) == most;
    char *text = fake__arena_get(&c->arena, LETTERS_MAX);
    size_t n = 0;
    if (all) {
        text[n++] = 'A';
        events &= ~(most | FAKE_ON_NEW); /* which redis-server 7.0 then forgets to name */
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (events & letters[i].bit) {
            text[n++] = letters[i].letter;
        }
    }
    return tl__bytes(text, n);
}

void fake_redis_set_events(fake_redis *r, const char *events) {
    if (!fake__events_read(r, tl__bytes_of(events), &r->events)) {
        r->events = 0;
    }
    r->events_set = r->events;
}

static void publish_to(fake_redis *r, const char *kind, int db, tl_bytes rest, tl_bytes what) {
    char head[40];
    size_t n = (size_t)snprintf(head, sizeof(head), "__%s@%d__:", kind, db);
    char *channel = fake__alloc(NULL, n + rest.n);
    memcpy(channel, head, n);
    if (rest.n) {
        memcpy(channel + n, rest.p, rest.n);
    }
    (void)fake__send(r, tl__bytes(channel, n + rest.n), what);
    free(channel);
}

void fake__event_tell(fake_redis *r, const char *event, int db, tl_bytes key) {
    tl_bytes name = tl__bytes_of(event);
    if (r->events & FAKE_TO_KEYSPACE && r->subscriber_count) {
        publish_to(r, "keyspace", db, key, name);
    }
    if (r->events & FAKE_TO_KEYEVENT && r->subscriber_count) {
        publish_to(r, "keyevent", db, name, key);
    }
}

void fake__missed(fake_conn *c, tl_bytes key) {
    if (c->r->events & FAKE_ON_MISS && !fake__find(c->r, c->db, key)) {
        fake__event_tell(c->r, "keymiss", c->db, key);
    }
}
