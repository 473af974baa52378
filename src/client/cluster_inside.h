/*
 * The inside of a cluster's fleet, for its three files: fleet_cluster, which node has a key; cluster_nodes, which node is which;
 * cluster_ask, whether one still is a master. By the keeper's thread, but where fleet_cluster says otherwise.
 */
#pragma once

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

#define TL_MEMBER_NAMES (1 + TL_NODE_OTHERS)

/** A node of the cluster, which goes by its id wherever it is; where none is told, as before Redis 4.0, by its place. What
 *  is never freed before the end is the seat: when nothing uses a former node any more the next may have it, and what was
 *  built for the former one is of another generation. The names, the id and node.endpoint are written under client.mutex: by
 *  the keeper's thread, or by any for a seat that is free. */
typedef struct tl_member {
    tl_node node; /* first; its endpoint is the place that is asked */
    tl_site site;
    struct tl_cluster *of;
    bool is_free;                /* nobody has the seat; under client.mutex */
    char id[TL_NODE_ID_MAX + 1]; /* "": it isn't known */
    uint16_t port;
    char name[TL_MEMBER_NAMES][TL_HOST_SIZE]; /* hosts that nodes call its place by; "": none */
    bool serves;                              /* by the last map it is a master with slots */
    bool listed; /* as a replica of one that serves; while former ones are looked for */
    char before[TL_HOST_SIZE]; /* where it was asked before it came to another place, */
    uint16_t before_port;
    tl_mono moved;  /* which it did then; ns 0: never */
    tl_mono silent; /* a connection was lost then; ns 0: never. Has it answered since? */
    /* who is asked about it: */
    tl_replica replica[TL_REPLICAS_MAX];
    unsigned replicas;
    bool incomplete; /* there are others, whom nobody knows where to ask */
    bool unsaid;     /* last time not all of them answered */
    unsigned about;  /* by which slot: so many before the last */
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
    unsigned vacant;     /* free seats; under client.mutex */
    unsigned found;      /* behind which node by its id the next is looked for; under it, too */
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
    char message[TL_SITE_MESSAGE_SIZE];
    tl_slot_map map;
    /* cluster_ask's: */
    unsigned masters; /* by the last map */
    tl_member *witness[TL_WITNESSES_MAX];
    unsigned witnesses;
    unsigned questions; /* open ones */
    tl_mono next;       /* when to look again who is wanted */
    unsigned first;     /* of the masters who are asked */
} tl_cluster;

static inline tl_member *tl__member(const tl_cluster *cluster, unsigned i) {
    return atomic_load(&cluster->list[i]);
}

static inline tl_mutex *tl__cluster_mutex(const tl_cluster *cluster) {
    return &cluster->home->client->mutex;
}

/** Some site is wanted; ctx is the cluster. Any thread, whatever it holds. */
void tl__cluster_doubt(void *ctx);

/** What others were asked over is closed: the witness of this number. */
void tl__cluster_hang_up(tl_cluster *cluster, unsigned index);

/* cluster_nodes, with client.mutex held but where it says otherwise: */

/** Does a node that calls it so mean this one? Also without it. */
bool tl__member_is_called(const tl_member *member, tl_bytes host, uint16_t port);
/** Who is called so, or a new one, at that place. NULL: no memory, or room. Any thread. */
tl_member *tl__member_at(tl_cluster *cluster, tl_bytes host, uint16_t port);
/** Who it is that a map tells of: by its id, else by its place, unless another is there by now. NULL: nobody known. */
tl_member *tl__cluster_find(tl_cluster *cluster, const tl_slot_node *reported);
/** The same, or a new one, and learn what it is called and where it is. `all`: the map is to say all of masters; else one that
 *  serves stays where it is. `beside`: room must be left for so many more. NULL: no memory, or room. */
tl_member *tl__member_reported(tl_cluster *cluster, const tl_slot_node *reported, bool all,
                               unsigned beside);
/** If nobody is called so, `who`, which has named it, is asked for the map. Takes client.mutex. */
void tl__cluster_ask_whom(tl_cluster *cluster, tl_member *who, tl_bytes host, uint16_t port);
/** After a map, when whoever listened at a former node has been led away. Takes client.mutex. */
void tl__cluster_forget_former(tl_cluster *cluster);

/* cluster_ask: */

/** A map has told of m's replica; those that no map has told of for long are forgotten. */
void tl__member_learn(tl_member *member, tl_member *replica, tl_mono now);
void tl__member_forget(tl_member *member, tl_mono now);

/** As of tl_fleet_row. */
unsigned tl__cluster_ask_fds(const tl_cluster *cluster, struct pollfd *ret);
tl_mono tl__cluster_ask_until(const tl_cluster *cluster);
void tl__cluster_ask_drive(tl_cluster *cluster, tl_mono now);
void tl__cluster_ask_end(tl_cluster *cluster);
