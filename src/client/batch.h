/*
 * One request for many locks: joins sends of one kind. command.each says which sends can be joined.
 */
#pragma once

#include "protocol/protocol.h"
#include "wire/etcd.h"

#define TL_BATCH_MAX 100 /**< locks in a request: a larger one delays the server's other clients */
#define TL_BATCH_ETCD_MAX TL_ETCD_OPS_MAX /**< on etcd: locks in a transaction */

typedef struct {
    void *cookie;
    uint16_t ticket;
    size_t keys_end, own_end; /**< where its bytes end in batch.keys and batch.own */
    int64_t lease;            /**< on etcd: the lease that its send was built with */
} tl_batch_member;

/** A byte buffer that grows. */
typedef struct {
    char *p;
    size_t n, room;
} tl_batch_bytes;

struct tl_node;

/** Why a joined request was refused.
 *  ALL: each member alone would get the same reply.
 *  SINGLY: because of one member, or of asking for many at once: send each member alone.
 *  NEVER: this server refuses every joined request: send each member alone, now and later. */
typedef enum { TL_BATCH_ALL, TL_BATCH_SINGLY, TL_BATCH_NEVER } tl_batch_refusal;

#define TL_BATCH_ITEMS (TL_ETCD_JOINED + 1)

/** Room for a member's part of a reply. */
typedef struct {
    tl_reply reply[TL_COMMANDS_MAX], items[TL_BATCH_ITEMS];
    tl_reply whole, time[2];
} tl_batch_part;

struct tl_batch;

/** How renewals are joined at a kind of server: its row is client.backend->joiner. */
typedef struct {
    unsigned most; /**< the most locks in a request */
    bool (*fits)(const struct tl_batch *batch, const tl_send *send, tl_mono now);
    bool (*add)(struct tl_batch *batch, const tl_send *send, void *cookie, tl_mono now);
    /** The request for `count` members, from `first` on. NULL: out of memory. */
    const tl_send *(*send)(struct tl_batch *batch, unsigned first, unsigned count);
    tl_batch_refusal (*refused)(const struct tl_batch *batch, const tl_event *whole);
    /** Member i's part of a REPLY. Call it for every member, in ascending order from 0. */
    const tl_reply *(*part)(const struct tl_batch *batch, const tl_event *whole, unsigned i,
                            tl_batch_part *room);
} tl_joiner;

extern const tl_joiner tl__joiner_of_scripts; /**< batch.c */
extern const tl_joiner tl__joiner_of_etcd;    /**< batch_etcd.c */

typedef struct tl_batch {
    const tl_joiner *joiner;
    struct tl_batch *next;
    struct tl_node *node; /**< the node that it is sent to; for the user of the batch */
    uint16_t slot;        /**< the slot of its keys; for the user of the batch */
    unsigned count;
    unsigned asked; /**< sent singly: how many members have been sent */
    tl_batch_member member[TL_BATCH_ETCD_MAX];
    tl_mono now;             /* when the sends were built */
    tl_mono by;              /* the earliest limit of any member */
    int64_t not_after;       /* the earliest limit of any member by the server's clock */
    char limit[TL_INT_SIZE]; /* that limit as text; limit_n 0: none yet, or it was too long */
    uint8_t limit_n;
    tl_send send;
    uint16_t nkeys; /* keys of each member */
    tl_batch_bytes keys, own;
    tl_batch_bytes head, tail;
    tl_batch_bytes *request; /* keys, head, own, tail: of the members that are sent */
    tl_batch_bytes behind;   /* the arguments of a second command, such as WAIT; the same for all */
    /* On etcd, where `own` has all that belongs to a member: */
    unsigned ops;  /* comparisons */
    int64_t lease; /* the highest lease that any send was built with */
    char lease_text[TL_INT_SIZE], seconds[TL_INT_SIZE];
} tl_batch;

/** All batches share the buffer `request`, as each needs it for a moment only. NULL: out of memory. */
tl_batch *tl__batch_new(const tl_joiner *joiner, tl_batch_bytes *request);
void tl__batch_free(tl_batch *batch);
void tl__batch_clear(tl_batch *batch);

/** Can this send be joined to the batch? It must be of the same kind, built at the same instant, and have
 *  about the same limit. (On etcd it must have the same lifetime; the instant does not matter.) */
bool tl__batch_fits(const tl_batch *batch, const tl_send *send, tl_mono now);

/** Join it. false: out of memory, and nothing has changed. */
bool tl__batch_add(tl_batch *batch, const tl_send *send, void *cookie, tl_mono now);

/** The request for all members, or for member i alone, with the same limit. It is valid until the next call
 *  of either function, for any batch. NULL: out of memory. */
const tl_send *tl__batch_send(tl_batch *batch);
const tl_send *tl__batch_send_one(tl_batch *batch, unsigned i);

tl_batch_refusal tl__batch_refused(const tl_batch *batch, const tl_event *whole);

/** Append arguments, encoded. false: out of memory, and nothing has changed. */
bool tl__batch_append(tl_batch_bytes *to, const tl_bytes *argv, size_t count);

/** On etcd: member i's part of both replies, in `ret`; `items` is room for the items of the second. */
void tl__batch_reply_of_etcd(const tl_batch *batch, const tl_event *whole, unsigned i,
                             tl_reply ret[2], tl_reply items[TL_BATCH_ITEMS]);

/** Member i's part of the reply, in `ret`; its items are put in `items`. */
void tl__batch_reply(const tl_batch *batch, const tl_reply *whole, unsigned i, tl_reply *ret,
                     tl_reply items[3]);
