/*
 * The inside of a cluster's fleet, for its three files. fleet_cluster: which node has a key. cluster_nodes:
 * which node is which. cluster_ask: whether a node is still a master. The keeper's thread runs all of it,
 * except where fleet_cluster says otherwise.
 */
#pragma once

#include "client/client.h"
#include "transport/backoff.h"
#include "wire/slots.h"

#define TL_REPLICAS_MAX 8                   /* replicas of a master that are asked about it */
#define TL_WITNESSES_MAX (TL_FLEET_FDS - 4) /* connections to nodes that are asked about others */

struct tl_member;

/** A replica of a master, as far as is known. */
typedef struct {
    struct tl_member *who;
    tl_mono listed;   /* when a map listed it last */
    uint64_t epoch;   /* its master's configuration epoch, as it reports it; 0: not reported yet */
    uint64_t history; /* a hash of its replication id; 0: not asked for yet, 1: not reported */
    bool is_asked;    /* for its replication id, since its epoch is another one */
} tl_replica;

/** A question: is this node still the master of its slots? */
typedef struct {
    bool open, masters; /* it is not answered yet; the other masters have been asked, too */
    bool against;       /* another node has the slots */
    bool raised;        /* a replica reports another epoch, and nothing was begun anew for that */
    uint16_t number;
    uint32_t generation;
    unsigned replicas, said; /* replicas asked; how many of them say that they did not take over */
    unsigned same;           /* replicas that were certainly no master since the last question */
    unsigned needed, agree;  /* other masters that must agree; that agree so far */
    unsigned first, tried;   /* the index of the first master to try; how many nodes were tried */
    unsigned asked;          /* masters that were asked */
    tl_mono began, by;
} tl_question;

#define TL_MEMBER_NAMES (1 + TL_NODE_OTHERS)

/** A node of the cluster. It is known by its id, whatever its address; where no ids are reported, as before
 *  Redis 4.0, by its address. The struct is a seat, which is freed only with the client: when nothing uses a
 *  former node's seat, another node may get it. Requests built for the former node are of an older
 *  generation. The names, the id and node.endpoint are written under client.mutex: by the keeper's thread,
 *  or for a free seat by any thread. */
typedef struct tl_member {
    tl_node node; /* the first member; its endpoint is the address at which the node is asked */
    tl_site site;
    struct tl_cluster *of;
    bool is_free;                /* no node has the seat; under client.mutex */
    char id[TL_NODE_ID_MAX + 1]; /* "": not known */
    uint16_t port;
    char name[TL_MEMBER_NAMES][TL_HOST_SIZE]; /* its host, as nodes call it; "": no name */
    bool serves;                              /* a master with slots, by the last map */
    bool listed; /* a replica of a node that serves; valid only within tl__cluster_forget_former */
    char before[TL_HOST_SIZE]; /* the host at which it was asked before it moved */
    uint16_t before_port;
    tl_mono moved;  /* when it moved to another address; ns 0: never */
    tl_mono silent; /* when a connection was lost (it counts until the next reply); ns 0: never */
    /* The nodes that are asked about it: */
    tl_replica replica[TL_REPLICAS_MAX];
    unsigned replicas;
    bool incomplete; /* it has more replicas: too many, or with an unknown address */
    bool unsaid;     /* last time not all replicas answered */
    unsigned about;  /* the slot that the question is about: TL_SLOTS - 1 less this */
    tl_question question;
    tl_mono again; /* the earliest time of the next question */
    tl_backoff backoff;
    /* As a witness, which is asked about others: */
    tl_conn *conn;
    unsigned asked; /* questions that it has not answered yet */
    tl_mono used;
} tl_member;

typedef struct tl_cluster {
    tl_node *home;      /* the client's first node, which leads to any master */
    tl_site site;       /* home's site */
    tl_member *home_at; /* the node that home leads to; NULL: nowhere yet */
    bool astray;        /* home may have to lead to another node */
    tl_fleet *fleet;
    tl_seeds seeds;
    int64_t limit_ms;
    bool settles; /* as in tl_site, for all sites */
    _Atomic(tl_node *) owner[TL_SLOTS];
    _Atomic(tl_member *) list[TL_NODES_MAX]; /* each set once, under client.mutex */
    atomic_uint count;
    unsigned vacant; /* free seats; under client.mutex */
    unsigned found;  /* index after the node that was found last by its id; under client.mutex */
    atomic_uint serving; /* nodes whose site leads to them */
    atomic_bool wanted;  /* the map must be asked for */
    atomic_bool doubts;  /* some site is wanted */
    atomic_bool moved;   /* a slot has another owner than was known: listen at that node */
    /** The node to ask next for the map, since it has just got a slot; NULL: take turns. */
    _Atomic(tl_member *) knows;
    atomic_bool known; /* there has been a map */
    /* For the thread only: */
    tl_endpoint asked_at;
    tl_conn *conn; /* to the node that is asked for the map; NULL: none is asked */
    bool asking, asked, over;
    bool learns;       /* the replicas must be asked for */
    bool learning;     /* the map is asked for only because of the replicas */
    tl_mono requested; /* when the present or last map was asked for */
    tl_mono listed;    /* when the map was asked for that listed the replicas last; ns 0: never */
    unsigned turn;     /* counts the nodes that were asked; they take turns */
    tl_mono round;     /* when this round began */
    bool lasting;      /* all failures of this round are permanent */
    tl_err why;        /* the last failure */
    tl_mono again;     /* the earliest time of the next request for the map */
    tl_backoff backoff;
    char message[TL_SITE_MESSAGE_SIZE];
    tl_slot_map map;
    /* For cluster_ask: */
    unsigned masters; /* how many, by the last map */
    tl_member *witness[TL_WITNESSES_MAX];
    unsigned witnesses;
    unsigned questions; /* open questions */
    tl_mono next;       /* when to look again which sites are wanted */
    unsigned first;     /* the index from which masters are asked */
} tl_cluster;

static inline tl_member *tl__member(const tl_cluster *cluster, unsigned i) {
    return atomic_load(&cluster->list[i]);
}

static inline tl_mutex *tl__cluster_mutex(const tl_cluster *cluster) {
    return &cluster->home->client->mutex;
}

/** Some site is wanted; ctx is the cluster. Any thread, whatever mutex it holds. */
void tl__cluster_doubt(void *ctx);

/** Close the connection to the witness with this index, and take it out of the list. */
void tl__cluster_hang_up(tl_cluster *cluster, unsigned index);

/* cluster_nodes: with client.mutex held, except where a comment says otherwise */

/** Is this the name of the member? With or without client.mutex. */
bool tl__member_is_called(const tl_member *member, tl_bytes host, uint16_t port);
/** The node with this name, or a new one at that address. NULL: no memory, or no room. Any thread. */
tl_member *tl__member_at(tl_cluster *view, tl_bytes host, uint16_t port);
/** The node that a map reports: found by its id, else by its address, unless a node with another id is there.
 *  NULL: no such node is known. */
tl_member *tl__cluster_find(tl_cluster *view, const tl_slot_node *reported);
/** The same node, or a new one; and learn its names and its address. `all`: the map is used for
 *  the masters too; else a node that serves keeps its address. `beside`: leave room for so many
 *  more. NULL: no memory, or no room. */
tl_member *tl__member_reported(tl_cluster *view, const tl_slot_node *reported, bool all,
                               unsigned beside);
/** If no node has this name, ask for the map, and ask `who`, which has given the name. Locks client.mutex. */
void tl__cluster_ask_whom(tl_cluster *view, tl_member *who, tl_bytes host, uint16_t port);
/** Forget former nodes: after a map, once their listeners listen elsewhere. Locks client.mutex. */
void tl__cluster_forget_former(tl_cluster *view);

/* cluster_ask: */

/** learn: a map has listed the member's replica. forget: drop replicas that no map has listed for 60 s. */
void tl__member_learn(tl_member *member, tl_member *replica, tl_mono now);
void tl__member_forget(tl_member *member, tl_mono now);

/** As in tl_fleet_row. */
unsigned tl__cluster_ask_fds(const tl_cluster *cluster, struct pollfd *ret);
tl_mono tl__cluster_ask_until(const tl_cluster *cluster);
void tl__cluster_ask_drive(tl_cluster *cluster, tl_mono now);
void tl__cluster_ask_end(tl_cluster *cluster);
