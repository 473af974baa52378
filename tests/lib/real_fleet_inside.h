/*
 * The inside of a fleet, for its files: real_fleet, what all kinds share; real_fleet_sentinel and
 * real_fleet_cluster.
 */
#pragma once

#include <stdint.h>

#include "real_fleet.h"

#define REAL_NODES_MAX 16
#define REAL_CONFIG_SIZE 2048
#define REAL_WHOLE_MS 240000 /* until a fleet is whole, however busy the machine */

typedef struct {
    const char *scheme;                 /**< of the URL, behind redis+ */
    bool has_bus;                       /**< servers are a cluster's nodes */
    bool (*is_whole)(real_fleet *f);    /**< all answer; NULL: that is enough */
    void (*restarted)(real_node *node); /**< may be NULL */
    void (*healing)(real_fleet *f);     /**< once all run again; may be NULL, as the next */
    void (*healed)(real_fleet *f);      /**< once it is whole */
} real_fleet_kind;

struct real_fleet {
    const real_fleet_kind *kind;
    real_fleet_options options;
    char *config, *password, *sentinel_password;
    char url[512];
    real_node node[REAL_NODES_MAX]; /* servers first */
    int servers, sentinels;
    int masters; /* of a cluster */
    int clients; /* their side */
    int slot;    /* the open one, or -1, */
    int closed;  /* the one that was open last, or -1 */
    real_node *slot_from, *slot_to;
    int doubles; /* keys that were at both */
};

__attribute__((noreturn, format(printf, 1, 2))) void real_fleet_fail(const char *format, ...);

real_fleet *real_fleet_new(const real_fleet_kind *kind, const real_fleet_options *options);
/** A further process, with these lines of its own. It is answering. Servers first. */
real_node *real_fleet_add(real_fleet *f, bool is_sentinel, const char *lines);
/** Fill in the URL. `tail`: what follows the hosts. */
void real_fleet_name(real_fleet *f, const char *tail);

/** Of a wait: a moment of it. It ends the program when REAL_WHOLE_MS have passed. */
void real_fleet_nap(const real_fleet *f, int64_t since_ms, const char *what);
void real_fleet_await(real_fleet *f, bool (*is_so)(real_fleet *f), const char *what);

/** The reply to a command, which must have been done; it is freed. */
void real_node_must(const real_node *node, redisReply *reply);
#define REAL_NODE_MUST(node, ...)                                                                  \
    real_node_must((node), real_redis_command((node)->redis, __VA_ARGS__))
/** A reply that is a text; the caller frees it (freeReplyObject). NULL: it isn't, or the process doesn't run. */
redisReply *real_node_ask(const real_node *node, const char *command);
/** Does the text of the reply contain these words? */
bool real_node_says(const real_node *node, const char *command, const char *words);
/** Does it run, and say so itself? */
bool real_node_is_master(const real_node *node);

static inline bool real_node_is_running(const real_node *node) {
    return real_redis_is_running(node->redis);
}
