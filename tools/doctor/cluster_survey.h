/*
 * A survey of a Redis Cluster for the doctor: what each node says of itself and of the others.
 */
#pragma once

#include "skew/skew_sample.h"
#include "wire/slots.h"

#define CLUSTER_NODES_MOST 100
#define NODE_ID_SIZE 41
#define NODE_OPEN_MOST 4 /* how many moving slots of a node are listed */

typedef struct {
    uint16_t slot;
    bool leaves; /**< from this node to `other`; false: from `other` to this node */
    char other[NODE_ID_SIZE];
} open_slot;

typedef struct {
    char id[NODE_ID_SIZE]; /**< "": not known */
    char host[TL_HOST_SIZE];
    uint16_t port; /**< 0: no node knows its address */
    char label[TL_HOST_SIZE + 16];
    bool seed; /**< the URL names it */
    /** Not "": this entry is no node of its own. It is another address of the node with this ID, to which
     *  the nodes send clients. */
    char led_to[NODE_ID_SIZE];
    bool twice; /**< the same node is in the list already */
    bool asked;
    int status;        /**< 0: it has replied; else why not, as an exit status */
    char message[240]; /**< why not, as text */
    bool stranger;     /**< it is not a node of a cluster */
    /* As the node itself says; if it doesn't reply, as the others say: */
    bool master;
    char of[NODE_ID_SIZE]; /**< the master of this replica */
    /* As the other nodes say: */
    unsigned named, linked; /**< how many know it; how many are connected to it */
    bool failing;           /**< one of them says that it failed, or may have failed */
    /* From its own replies: */
    int64_t epoch; /**< the epoch of its slots */
    bool ok;       /**< cluster_state */
    unsigned open; /**< slots that are being moved; `opened` has the first ones */
    open_slot opened[NODE_OPEN_MOST];
    char coverage[8]; /**< cluster-require-full-coverage; "": not known */
    char product[INFO_PRODUCT_SIZE];
    skew_track track;
    tl_interval offset; /**< this host's clock less the node's, in us; only if track.known */
    uint16_t *owner; /**< TL_SLOTS entries: the owner of each slot in this node's view; TL_NOBODY */
} cluster_node;

typedef struct {
    cluster_node *of;
    unsigned count, answered;
    bool more; /**< there are more nodes than fit */
} cluster_survey;

/** Ask the nodes that the URL names, and all nodes that these know: many at once, each question for 5 s at
 *  most. login: login and TLS for all of them; rate_ppm as for skew_learn. False: no memory. */
bool cluster_survey_ask(cluster_survey *ret, const tl_endpoint *login, const tl_seeds *seeds,
                        int32_t rate_ppm);
void cluster_survey_end(cluster_survey *survey);

/** Why no node has replied, in one line; returns the exit status that it means. */
int cluster_survey_trouble(const cluster_survey *survey, char *to, size_t size);

/** The number of the node with this ID; -1: there is none. */
int cluster_survey_find(const cluster_survey *survey, const char *id);

/** Add the reply of node number `who` to CLUSTER NODES. Call it in the order in which the nodes were asked.
 *  False: no memory. */
bool cluster_survey_learn(cluster_survey *survey, unsigned who, tl_bytes text);
