/*
 * A cluster as data, in which the files of `tidelock migrate` run: masters and replicas, slots with a register and
 * a token each, clients, old Java, and the time. A seed is the same world on each machine.
 */
#pragma once

#include "fiber.h"
#include "migrate/migrate_fleet.h"
#include "migrate/migrate.h"

#define NODES 10 /* the last one is never there */
#define HISTORIES 200
#define HOME 0 /* the slot of the namespace's record */
#define NONE (-1)
#define WATCH_MS 1000
#define TOOLS 2
#define LATE_MOST 400
#define EPOCHS_MOST 400

typedef struct {
    bool there;
    int phase, from;
    int64_t epoch, since_us;
    char by[64];
} world_record;

typedef struct {
    migrate_slot reg;
    bool token;
    int64_t until_ms; /* of the token */
} world_cell;

typedef struct {
    world_cell slot[TL_SLOTS];
    world_record record;
} world_data;

/* A change, as replicas receive it. */
typedef struct {
    enum { CHANGE_NOTHING, CHANGE_CELL, CHANGE_RECORD, CHANGE_ALL } kind;
    int slot;
    world_cell cell;
    world_record record;
} world_change;

/* The stream of one master's reign. */
typedef struct {
    world_change *change;
    int64_t base, count, room;
} world_history;

typedef struct {
    int owner;
    int64_t epoch;
} world_claim;

typedef struct {
    bool up, master, linked, deposed, moves;
    int of, run, history;
    int64_t epoch, offset;
    world_data data;
    world_claim view[TL_SLOTS];
    int leaves[TL_SLOTS], arrives[TL_SLOTS]; /* the other node of an open slot; NONE */
    int64_t up_at, link_at, gossip_at, stalled_until, apart_until, denies_until, calls;
} world_node;

/* A slot that is being moved. */
typedef struct {
    bool goes_on, atomic;
    int slot, from, to, stage;
    int64_t next_at;
} world_move;

/* A request of the tool that can be executed late. */
typedef struct {
    enum {
        ASK_INFO,
        ASK_MOVES,
        ASK_NODES,
        ASK_LACKING,
        ASK_ONE,
        ASK_TOUCH,
        ASK_READ,
        ASK_CHANGE,
        ASK_NOTE,
        ASK_WAIT,
        ASK_TIME,
        ASK_OK,
        ASK_ABSENT,
        ASK_GET,
        ASK_SET
    } kind;
    int slot; /* whose owner is asked; NONE: any node */
    char is[32], want[32], by[64];
    int64_t epoch, limit_us, count; /* of a change of the record; replicas to wait for */
    int phase, run, tool_run;
    bool anew, advances;
    int64_t watched_from, watched_to;
} world_ask;

typedef struct {
    bool waits;
    int64_t at;
    int node;
    world_ask ask;
} world_late;

typedef struct {
    fiber fiber;
    bool runs, killed, at_once, at_write;
    int run, status;
    int64_t wake_at, kill_at, asked; /* killed at a number of requests, or of writes */
    const char *word;
    migrate_options options;
    int64_t watched_from, watched_to, wall_off_us;
    int64_t interrupt_at;
    char out[8192];
    size_t out_n;
    char text[4096];
    tl_reply item[40], pair[2];
    bool alone; /* no other ran meanwhile */
} world_tool;

typedef struct {
    uint64_t random;
    int64_t now_ms, next_tick, wall_calls;
    int64_t top_epoch; /* of claims on slots */
    int runs, nodes, tool_runs;
    bool calm, upward;
    /* what may happen here, in 1/10000 a tick */
    int faults, lags, moves, flushes, lossy, takes, persistent, coarse, kills, twice, denials,
        spite;
    int64_t spite_until; /* failovers follow at once */
    world_node node[NODES];
    world_history history[HISTORIES];
    int histories;
    world_claim truth[TL_SLOTS];
    world_move move;
    world_late late[LATE_MOST];
    world_tool tool[TOOLS], *present;
    fiber scheduler;
    /* Java */
    bool java_may, java_runs;
    int64_t java_last;
    struct {
        int64_t epoch;
        int run;
    } given[EPOCHS_MOST];
    int epochs;
    char broken[200];
    /* counts */
    int64_t said, steps, commands, tokens, calls, failovers, slots_moved;
} world_state;

extern world_state world;
extern bool world_tells;

void world_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void world_broken(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t draw(int64_t below); /* from 0 to below - 1 */
bool chance(int of_ten_thousand);

/* ---- world_cluster.c */
void cluster_begin(int phase);
void cluster_end(void);
void cluster_tick(void);
void cluster_heal(void);
void cluster_spite(void); /* now is the moment for failovers */
void node_write(world_node *node, world_change change);
bool node_serves(const world_node *node, int slot);
bool node_is_reached(const world_node *node);
int replicas_with_all(const world_node *node);

/* ---- world_life.c */
void life_tick(void);
void life_check(void);
bool execute(int node, const world_ask *ask, world_tool *for_whom, tl_reply *ret);

/* ---- world_tool.c */
int tool_run(world_tool *tool); /* until it has ended, while the world goes on */
void tool_begin(world_tool *tool, const char *word, int phase);
void world_run(int64_t until_ms, const world_tool *until_done);
void tools_end(void);
