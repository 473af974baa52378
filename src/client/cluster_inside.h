/*
 * The inside of a cluster's fleet, for its two files: fleet_cluster, which node has a key; cluster_ask, whether that is
 * still so. By the keeper's thread, but where fleet_cluster says otherwise.
 */
#ifndef TL_CLUSTER_INSIDE_H
#define TL_CLUSTER_INSIDE_H

#include "client/client.h"
#include "transport/backoff.h"
#include "wire/slots.h"

#define TL_REPLICAS_MAX 8                   /* of a master, who are asked about it */
#define TL_WITNESSES_MAX (TL_FLEET_FDS - 4) /* connections to those who are asked about others */

struct tl_member;

/** A replica of a master, as far as is known. */
typedef struct {
    struct tl_member *who;
    tl_mono listed; /* the last time */
    uint64_t epoch; /* of its master's configuration, by its own word; 0: it hasn't told */
} tl_replica;

/** Whether a master still is the one to ask. */
typedef struct {
    bool open, masters; /* it goes on; the other masters have been asked, too */
    bool against;       /* somebody else has its slots */
    uint16_t number;
    uint32_t generation;
    unsigned replicas, said; /* who were asked, and say that they have taken nothing over */
    unsigned needed, agree;  /* of the other masters */
    unsigned first, tried;   /* with whom they begin, and how many had their turn */
    unsigned asked;          /* of these */
    tl_mono began, by;
} tl_question;

/** A place, host and port. */
typedef struct tl_member {
    tl_node node; /* first */
    tl_site site;
    struct tl_cluster *of;
    bool serves; /* by the last map it is a master with slots */
    /* who is asked about it: */
    tl_replica replica[TL_REPLICAS_MAX];
    unsigned replicas;
    bool untold;    /* there are others, whom nobody knows where to ask */
    bool unsaid;    /* last time not all of them answered */
    unsigned about; /* by which slot: so many before the last */
    tl_question question;
    tl_mono again; /* it isn't asked about before */
    tl_backoff backoff;
    /* as one who is asked about others: */
    tl_conn *conn;
    unsigned asked; /* questions without an answer */
    tl_mono used;
} tl_member;

typedef struct tl_cluster {
    tl_node *home;
    tl_site site;       /* home's, */
    tl_member *home_at; /* which leads there; NULL: nowhere yet */
    bool astray;        /* it may have to lead elsewhere */
    tl_fleet *fleet;
    tl_seeds seeds;
    int64_t limit_ms;
    bool settles; /* as of its sites */
    _Atomic(tl_node *) owner[TL_SLOTS];
    _Atomic(tl_member *) list[TL_NODES_MAX]; /* each set once, under client.mutex */
    atomic_uint count;
    atomic_uint serving; /* how many of them are led to */
    atomic_bool wanted;  /* the map is */
    atomic_bool doubts;  /* some site is wanted */
    atomic_bool moved;   /* a slot has another owner than was known: listen there */
    _Atomic(tl_member *)
        knows; /* who is to be asked next, as it has just got a slot; NULL: whose turn it is */
    atomic_bool known; /* there has been a map */
    /* the thread's: */
    tl_endpoint asked_at;
    tl_conn *conn; /* to whom is asked for the map, or was */
    bool asking, asked, over;
    bool learns;   /* replicas are to be learned of */
    bool learning; /* that alone is why the map is asked for */
    tl_mono learn; /* when they are learned of again */
    unsigned turn; /* of those who may be asked */
    tl_mono round; /* when the first of them was, this time */
    bool lasting;  /* and none of them may tell the next time */
    tl_err why;    /* the last one's */
    tl_mono again; /* not before */
    tl_backoff backoff;
    char words[TL_SITE_WORDS];
    tl_slot_map map;
    /* cluster_ask's: */
    unsigned masters; /* by the last map */
    tl_member *witness[TL_WITNESSES_MAX];
    unsigned witnesses;
    unsigned questions; /* open ones */
    tl_mono next;       /* when to look again who is wanted */
    unsigned first;     /* of the masters who are asked */
} tl_cluster;

static inline tl_member *tl__member(const tl_cluster *c, unsigned i) {
    return atomic_load(&c->list[i]);
}

/* cluster_ask: */

/** A map has told of m's replica; those that no map has told of for long are forgotten. */
void tl__member_learn(tl_member *m, tl_member *replica, tl_mono now);
void tl__member_forget(tl_member *m, tl_mono now);

/** As of tl_fleet_row. */
unsigned tl__cluster_ask_fds(const tl_cluster *c, struct pollfd *ret);
tl_mono tl__cluster_ask_until(const tl_cluster *c);
void tl__cluster_ask_drive(tl_cluster *c, tl_mono now);
void tl__cluster_ask_end(tl_cluster *c);

#endif
