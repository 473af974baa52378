/*
 * The parts of the fake etcd among themselves: the store, requests in JSON, and connections to members.
 */
#pragma once

#include "fake_etcd.h"

#include <jansson.h>

/* ---- the store ------------------------------------------------------------------------------------------ */

/** A version of a key. They are in the order of their revisions. */
typedef struct {
    tl_bytes value;
    int64_t created, changed, version, lease;
    uint32_t key;
    int32_t before; /**< the version before of the same key; -1: none */
    bool deleted;
} etcd_record;

typedef struct {
    tl_bytes name;
    int32_t last; /**< version */
} etcd_name;

typedef struct {
    int64_t id, seconds;
    int64_t ends[FAKE_ETCD_MEMBERS];
} etcd_lease;

typedef struct etcd_chunk {
    struct etcd_chunk *next;
    size_t used, size;
    char bytes[];
} etcd_chunk;

typedef struct {
    etcd_record *record;
    size_t records, record_room;
    etcd_name *name;
    size_t names, name_room;
    uint32_t *order; /**< numbers of names, sorted */
    etcd_lease *lease;
    size_t leases, lease_room;
    int64_t revision, compacted;
    etcd_chunk *chunks, *at;
    bool full, alarm; /**< no space is left; and it was found out */
} etcd_store;

/** What is asked for: keys from `key` on, before `end`; without an end, that key alone; with "\0", all from there on. */
typedef struct {
    tl_bytes key, end;
    bool has_end;
} etcd_span;

void etcd_store_reset(etcd_store *s);
void etcd_store_free(etcd_store *s);
/** Bytes that last until the reset. */
char *etcd_store_room(etcd_store *s, size_t n);
bool etcd_span_has(const etcd_span *span, tl_bytes key);
/** The first number in `order` that may be in the span. */
size_t etcd_store_from(const etcd_store *s, tl_bytes key);
/** The version of that name at a revision; NULL: it wasn't there. */
const etcd_record *etcd_store_at(const etcd_store *s, uint32_t name, int64_t revision);
const etcd_record *etcd_store_now(const etcd_store *s, tl_bytes key);
void etcd_store_put(etcd_store *s, tl_bytes key, tl_bytes value, int64_t lease, int64_t revision);
/** Returns how many were there. */
int64_t etcd_store_delete(etcd_store *s, const etcd_span *span, int64_t revision);
etcd_lease *etcd_store_lease(const etcd_store *s, int64_t id);
void etcd_store_grant(etcd_store *s, const etcd_lease *lease);
/** With the keys that are under it. */
void etcd_store_revoke(etcd_store *s, int64_t id);

/* ---- requests ------------------------------------------------------------------------------------------- */

typedef enum {
    ETCD_UNKNOWN,
    ETCD_RANGE,
    ETCD_PUT,
    ETCD_DELETE,
    ETCD_TXN,
    ETCD_COMPACT,
    ETCD_GRANT,
    ETCD_REVOKE,
    ETCD_TTL,
    ETCD_KEEP,
    ETCD_AUTH,
    ETCD_STATUS,
    ETCD_MEMBERS,
    ETCD_ALARM,
    ETCD_WATCH
} etcd_kind;

typedef struct {
    int code; /**< 0: it has worked */
    const char *message;
} etcd_error;

typedef struct {
    etcd_kind kind;
    int member;   /**< that was asked, */
    int64_t view; /**< and has applied all up to this revision */
    const json_t *body;
    fake_buffer *to; /**< the answer */
} etcd_request;

struct fake_etcd {
    fake_etcd_calls calls;
    etcd_store store;
    struct {
        bool runs, reaches, leads, lost;
        int64_t view;
    } member[FAKE_ETCD_MEMBERS];
    int members, leader, term;
    char user[32], password[32];
    uint32_t tokens, tokens_from; /**< those from .. to are valid */
    uint32_t doubt, waits, crossed;
    struct etcd_entry *entry; /**< what can't be executed yet, in order */
    size_t entries, entry_room;
    fake_etcd_conn *conns;
    void *by;    /**< whose request is executed */
    size_t told; /**< records that were told */
    fake_buffer scratch;
};

etcd_kind etcd_kind_of(tl_bytes path);
/** Execute it, and write the answer without what it says of errors. */
etcd_error etcd_execute(fake_etcd *e, const etcd_request *r);
void etcd_say(fake_buffer *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
void etcd_say_header(const fake_etcd *e, int member, int64_t revision, fake_buffer *to);
void etcd_say_key(const etcd_store *s, const etcd_record *r, bool values, fake_buffer *to);
int64_t etcd_int(const json_t *object, const char *name);
/** Of base64; they last until the store's reset. */
tl_bytes etcd_bytes(etcd_store *s, const json_t *object, const char *name);
etcd_span etcd_span_of(etcd_store *s, const json_t *object);
