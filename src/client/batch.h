/*
 * One request for many locks: sends of a kind that can be joined (command.each), put together.
 */
#pragma once

#include "protocol/protocol.h"
#include "wire/etcd.h"

#define TL_BATCH_MAX 100 /**< locks in a request: larger ones make others wait on the server */
#define TL_BATCH_ETCD_MAX TL_ETCD_OPS_MAX /**< the same on etcd: in a transaction */

typedef struct {
    void *cookie;
    uint16_t ticket;
    size_t keys_end, own_end; /**< of its bytes in batch.keys and batch.own */
    int64_t lease;            /**< on etcd: that it was built with */
} tl_batch_member;

/** Bytes that grow. */
typedef struct {
    char *p;
    size_t n, room;
} tl_batch_bytes;

struct tl_node;

/** What refused a request for many: whatever each of them would be answered with, too; or something about one of them, or
 *  about asking for many at once; or that they are asked for together, which this server always refuses. */
typedef enum { TL_BATCH_ALL, TL_BATCH_SINGLY, TL_BATCH_NEVER } tl_batch_refusal;

#define TL_BATCH_ITEMS (TL_ETCD_JOINED + 1)

/** Room for a member's part of an answer. */
typedef struct {
    tl_reply reply[TL_COMMANDS_MAX], items[TL_BATCH_ITEMS];
    tl_reply whole, time[2];
} tl_batch_part;

struct tl_batch;

/** How renewals are joined at a kind of server: its row is client.backend->joiner. */
typedef struct {
    unsigned most; /**< locks in a request */
    bool (*fits)(const struct tl_batch *batch, const tl_send *send, tl_mono now);
    bool (*add)(struct tl_batch *batch, const tl_send *send, void *cookie, tl_mono now);
    /** For `count` members, from `first` on. NULL: out of memory. */
    const tl_send *(*send)(struct tl_batch *batch, unsigned first, unsigned count);
    tl_batch_refusal (*refused)(const struct tl_batch *batch, const tl_event *whole);
    /** Member i's part of a REPLY; asked for of each, from the first on. */
    const tl_reply *(*part)(const struct tl_batch *batch, const tl_event *whole, unsigned i,
                            tl_batch_part *room);
} tl_joiner;

extern const tl_joiner tl__joiner_of_scripts; /**< batch.c */
extern const tl_joiner tl__joiner_of_etcd;    /**< batch_etcd.c */

typedef struct tl_batch {
    const tl_joiner *joiner;
    struct tl_batch *next;
    struct tl_node *node; /**< whom it goes to, */
    uint16_t slot;        /**< and whose keys it has; for who joins */
    unsigned count;
    unsigned asked; /**< being asked singly: how many of them have been */
    tl_batch_member member[TL_BATCH_ETCD_MAX];
    tl_mono now;             /* when they were built */
    tl_mono by;              /* the earliest limit of any, */
    int64_t not_after;       /* and of any by the server's clock, */
    char limit[TL_INT_SIZE]; /* as it was written; limit_n 0: it wasn't a number */
    uint8_t limit_n;
    tl_send send;
    uint16_t nkeys; /* of each */
    tl_batch_bytes keys, own;
    tl_batch_bytes head, tail;
    tl_batch_bytes *request; /* all of these in their order, for the members that are asked for */
    tl_batch_bytes behind;   /* the arguments of a second command, as WAIT is; the same for all */
    /* on etcd, where `own` is all that there is of each: */
    unsigned ops;  /* comparisons */
    int64_t lease; /* the highest of those that they were built with */
    char lease_text[TL_INT_SIZE], seconds[TL_INT_SIZE];
} tl_batch;

/** `request` is a buffer that all batches share, as each needs it for a moment only. NULL: out of memory. */
tl_batch *tl__batch_new(const tl_joiner *joiner, tl_batch_bytes *request);
void tl__batch_free(tl_batch *batch);
void tl__batch_clear(tl_batch *batch);

/** Can this send be joined to what is there? Of the same kind and instant, and in about as much of a
 *  hurry. (On etcd of the same lifetime, at whichever instant.) */
bool tl__batch_fits(const tl_batch *batch, const tl_send *send, tl_mono now);

/** Join it. false: out of memory, and nothing has changed. */
bool tl__batch_add(tl_batch *batch, const tl_send *send, void *cookie, tl_mono now);

/** The request for all, or for member i alone, by the same limit; valid until the next of these,
 *  of whichever batch. NULL: out of memory. */
const tl_send *tl__batch_send(tl_batch *batch);
const tl_send *tl__batch_send_one(tl_batch *batch, unsigned i);

tl_batch_refusal tl__batch_refused(const tl_batch *batch, const tl_event *whole);

/** Append arguments, encoded. false: out of memory, and nothing has changed. */
bool tl__batch_append(tl_batch_bytes *to, const tl_bytes *argv, size_t count);

/** On etcd: the part of both answers that is member i's, for which there is room in `items`. */
void tl__batch_reply_of_etcd(const tl_batch *batch, const tl_event *whole, unsigned i,
                             tl_reply ret[2], tl_reply items[TL_BATCH_ITEMS]);

/** The part of the answer that is member i's: `ret`, whose items are put in `items`. */
void tl__batch_reply(const tl_batch *batch, const tl_reply *whole, unsigned i, tl_reply *ret,
                     tl_reply items[3]);
