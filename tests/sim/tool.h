/*
 * The shipped command in a simulated process: what it asks of the system beside src/ground, and a run of it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/reply.h"

#define SIM_TOOL_OUT 16384

typedef struct sim_world sim_world;
typedef struct sim_socket sim_socket;
typedef struct sim_request sim_request;
typedef struct sim_host sim_host;

/** What a run has looked at last, and when a legacy client had last shown itself by then. */
typedef struct {
    int64_t at, shown; /**< 0: never */
} sim_tool_look;

/** A process of it, or room for the next one. */
typedef struct sim_tool {
    uint32_t run; /**< which one of all; 0: none is there */
    int fd;       /**< by which it hears of a signal; -1: it doesn't listen */
    int signal;   /**< that has come */
    char *out;    /**< what it has printed, SIM_TOOL_OUT at most */
    size_t out_n;
    const char *who; /**< for the story */
    sim_host *host;
    int64_t patience; /**< true time after which it is interrupted; SIM_NEVER */
    /* what its watch for legacy clients is to have seen */
    int64_t watch_ms;     /**< how long it watches at least; 0: it doesn't */
    sim_tool_look counts, /**< of the server, as it answered a client that was still there, */
        monitor;          /**< and after them MONITOR, by the marker that ends it */
} sim_tool;

#define SIM_TOOL_WORDS 16

/** Run `tidelock migrate` with these words, up to a NULL, in the thread that runs. Returns its exit status. */
int sim_tool_migrate(sim_world *w, sim_tool *tool, const char *url, char **words);
/** Ctrl-C. */
void sim_tool_interrupt(sim_world *w, sim_tool *tool);

/** A command has been executed; it was a step from phase 1 to 2. */
void sim_tool_heard(sim_world *w, const sim_request *m, const tl_reply *reply);
void sim_tool_moved(sim_world *w, const sim_request *m);

/** What goes to standard output between these is the tool's. */
void sim_tool_begin(const sim_world *w);
void sim_tool_end(const sim_world *w);
