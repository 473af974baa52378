/*
 * The nodes of a Redis Cluster, and what each says of itself and of the others: for the doctor.
 */
#pragma once

#include "skew/skew_sample.h"
#include "wire/slots.h"

#define CLUSTER_NODES_MOST 100
#define NODE_ID_SIZE 41
#define NODE_OPEN_MOST 4 /* slots of one node that are named */

typedef struct {
    uint16_t slot;
    bool leaves;              /**< it is being moved from here; else to here, */
    char other[NODE_ID_SIZE]; /**< to, or from, this node */
} open_slot;

typedef struct {
    char id[NODE_ID_SIZE]; /**< "": not known */
    char host[TL_HOST_SIZE];
    uint16_t port; /**< 0: nobody knows where it is */
    char label[TL_HOST_SIZE + 16];
    bool seed; /**< the URL names it */
    char led_to
        [NODE_ID_SIZE]; /**< no node of its own, but where clients are led to for this one; "": it is one */
    bool twice;         /**< the same node is in the list already */
    bool asked;
    int status;        /**< 0: it has answered; else why not, as the exit status that it means, */
    char message[240]; /**< and for people */
    bool stranger;     /**< it is no cluster's node */
    /* As it says itself, or where it doesn't, as others do: */
    bool master;
    char of[NODE_ID_SIZE]; /**< whose replica it is */
    /* As others say: */
    unsigned named, linked; /**< how many of them know it, are connected to it, */
    bool failing;           /**< or say that it has failed, or may have */
    /* It has answered: */
    int64_t epoch; /**< of its slots */
    bool ok;       /**< cluster_state */
    unsigned open; /**< slots that are being moved; the first of them: */
    open_slot opened[NODE_OPEN_MOST];
    char coverage[8]; /**< cluster-require-full-coverage; "": not told */
    char product[INFO_PRODUCT_SIZE];
    skew_track track;
    tl_interval offset; /**< of this host's clock less its own, if the track is known */
    uint16_t *owner;    /**< TL_SLOTS of them: who has each, as it takes it; TL_NOBODY */
} cluster_node;

typedef struct {
    cluster_node *of;
    unsigned count, answered;
    bool more; /**< there are others that did not fit */
} cluster_survey;

/** Ask those that the URL names and all that these know, each question for 5 s at most, many at once. login: how they let us
 *  in, and its TLS; rate_ppm as for skew_learn. False: no memory. */
bool cluster_survey_ask(cluster_survey *ret, const tl_endpoint *login, const tl_seeds *seeds,
                        int32_t rate_ppm);
void cluster_survey_end(cluster_survey *survey);

/** Why nobody has answered, in one line; returns the exit status that it means. */
int cluster_survey_trouble(const cluster_survey *survey, char *to, size_t size);

/** The node of this id; -1: there is none. */
int cluster_survey_find(const cluster_survey *survey, const char *id);

/** What a node, number `who`, has answered to CLUSTER NODES; in the order in which they are asked. */
bool cluster_survey_learn(cluster_survey *survey, unsigned who, tl_bytes text);
