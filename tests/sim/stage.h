/*
 * Small programs of a few threads in one process, with the shipped library, in a world without faults: for trying in which
 * order their threads may run. A play has a prologue on the first thread; then its threads, while which of them goes on
 * where is chosen (choices.h); then an epilogue. What its threads call here they call as a program does.
 */
#pragma once

#include "choices.h"
#include "world.h"

#define SIM_PLAY_PARTS 4
#define SIM_PLAY_THREADS 72
#define SIM_PLAY_CLIENTS 2
#define SIM_PLAY_LOCKS 72

enum {
    PLAY_CROWD = 1,   /**< 64 threads more like the last one */
    PLAY_BY_NAME = 2, /**< the server's name is looked up */
    PLAY_BY_POOL = 4, /**< it is about pooled connections: it says nothing of a crowd */
    PLAY_SPOILT = 8,  /**< somebody deletes keys, cuts connections or loses replies in it */
};

typedef struct sim_play {
    const char *name;
    void (*before)(void);                 /**< opens, makes, warms up */
    void (*thread[SIM_PLAY_PARTS])(void); /**< NULL: none */
    void (*after)(void);                  /**< results; then what is left is freed and closed */
    sim_ns stop[2];                       /**< how long one may be held up; 0: it isn't */
    sim_ns within;                        /**< it takes no longer, but for being held up */
    unsigned all, all_long; /**< all runs with at most so many switches; and in a long test */
    unsigned drawn;         /**< runs that are drawn */
    unsigned traits;
} sim_play;

/** A lock as the play sees it. */
typedef struct {
    char name;
    tl_lock *handle; /**< NULL: none, or freed */
    int key;
    bool has, releasing;
    bool tells; /**< its callback runs */
    bool goes;  /**< it is being freed: nobody may ask it any more */
    tl_state told;
    tl_err code;            /**< of what has ended last */
    unsigned begun, done;   /**< of the calls that don't block */
    unsigned losses;        /**< LOST told */
    void (*then)(int lock); /**< from its callback on */
    void (*on_event)(int lock);
} sim_play_lock;

/* ---- for plays ------------------------------------------------------------------------------------ */

sim_play_lock *play_lock(int lock);
void play_open(int client, bool dispatch);
void play_close(int client);
/** options: but for on_event and ctx; NULL: a lifetime of a second */
void play_make(int lock, int client, int key, bool events, const tl_lock_options *options);
void play_free(int lock);
tl_err play_acquire(int lock, int64_t wait_ms);
tl_err play_release(int lock);
tl_err play_extend(int lock, int64_t ttl_ms);
void play_cancel(int lock);
void play_alive(int lock);
void play_stall(int lock);
tl_err play_ping(int client);
/** Begin; the results are in the lock. */
tl_err play_acquire_async(int lock, int64_t wait_ms);
tl_err play_release_async(int lock);
/** Until what was begun on it has been told. A client with `dispatch`: by dispatching. */
void play_await(int lock, int client);
void play_dispatch(int client, sim_ns ns);
void play_sleep(sim_ns ns);
/** Until the keeper is to renew it. */
void play_sleep_to_renewal(int lock);
/** The callbacks' thread may be stopped here. */
void play_pause(const char *where);
/** Somebody deletes the key. */
void play_delete(int key);
/** Has the client's keeper anybody who listens? Nobody does but while it waits. */
bool play_listens(int client);
/** Does the server send the client what comes to its inbox? */
bool play_hears_inbox(int client);
/** All connections of the process are reset; or what is on its way back on them is lost. */
void play_cut(void);
void play_lose_replies(void);
/** The server's clock is set forward. */
void play_step_clock(sim_ns ns);
/** Has a thread been held up in this run for longer than a request may take? */
bool play_held_up(void);
sim_ns play_now(void);
/** It must be so. */
void play_must(bool so, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- for the world --------------------------------------------------------------------------------- */

/** A world in which a play may be run. */
void sim_stage_config(sim_config *config, const sim_play *play);
void sim_stage_begin(sim_world *w);
void sim_stage_end(sim_world *w);
/** What must be so at any moment. */
void sim_stage_look(sim_world *w);
/** "before it locks keeper.mutex", when a story is told. */
const char *sim_stage_where(const char *what, const void *mutex);
/** next NULL: it is held up for so long. */
void sim_stage_tell_switch(sim_world *w, const sim_thread *me, const char *where,
                           const sim_thread *next, sim_ns ns);
