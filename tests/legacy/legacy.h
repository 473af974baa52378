/*
 * What the tests beside legacy clients share: the rules of the world they live in, services
 * as processes that are spoken to in lines, and a referee that sees who is in the lock with whom.
 */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "locks.h"
#include "real_fleet.h"
#include "real_redis.h"
#include "real_server.h"

#define LIFE_MS 1500 /**< of every lock */
#define SKEW_MS 150  /**< M */
#define LAG_MS 75    /**< L */
#define SLACK_OF_JAVA_MS (2 * SKEW_MS + LAG_MS)
#define FREE_MS (LIFE_MS + SKEW_MS + LAG_MS) /**< an orphan is free by then */
#define LEASE_MS 1000                        /**< on a phase */
#define TURN_MS 300                          /**< limit of a request */
#define LATE_MS 60000                        /**< by how much a loaded machine may be late */

/** Clients of our own, for these rules. */
tl_client_options legacy_client(const char *url, tl_protocol_id protocol, bool strict);

/** CLOCK_MONOTONIC: the one clock that all processes share, and that libfaketime leaves alone. */
int64_t shared_us(void);

/* ---- a process that speaks lines -------------------------------------------------------------- */

#define LINE_SIZE 400

typedef struct {
    pid_t pid; /* -1: none */
    int wire;  /* its standard input and output */
    size_t n;
    char got[LINE_SIZE];
} service;

/** The classes are compiled, or the test is over: skipped without a JDK. */
void legacy_need_java(void);
/** libfaketime is there, or the test is skipped. */
void legacy_need_faketime(void);

/** `words` end with NULL. It dies with this process. errors: where its stderr goes; NULL: ours. */
service service_start(const char *const words[], int shift_ms, const char *errors);
/** Java, with its clock shifted: a class of this folder, and what its head says. */
service service_java(const char *const args[], int shift_ms, const char *errors);
/** A line that has come, without its end. 0: none yet; -1: no more will come. */
int service_line(service *s, char line[LINE_SIZE]);
/** The test fails when none comes in time. */
void service_await(service *s, char line[LINE_SIZE]);
void service_say(service *s, const char *line);
/** Kill and reap; a closed or dead one is fine. Returns its status as waitpid has it. */
int service_kill(service *s);

/** A Java that does as it is told. */
service java_peer(const real_redis *server, int shift_ms);
/** The test fails unless its answer begins so. */
void java_answers(service *java, const char *question, const char *answer);

/* ---- slots that move --------------------------------------------------------------------------- */

#define SLOT_STAYS_OPEN INT64_MAX

/** Zeros but for the fleet, a cluster, and the seed. */
typedef struct {
    real_fleet *fleet;
    unsigned seed;
    const char *key; /* whose slot moves; NULL: none does */
    char name[32];
    real_node *to;
    bool is_whole;
    int64_t close_us, next_us;
    int moves;
} slot_mover;

/** False: another moves, or has just moved, or there is nowhere to move it. */
bool slot_mover_begin(slot_mover *m, const char *key, int64_t open_us);
/** Of one that stays open. */
void slot_mover_close(slot_mover *m);
/** Go on with it, again and again, until none moves. */
bool slot_mover_rests(slot_mover *m);

/* ---- referee ---------------------------------------------------------------------------------- */

#define POSTS_MAX 12

/** DROP_IN is Java's, DLU is C's; JOB is `tidelock run`. */
typedef enum {
    JAVA,
    JAVA_AHEAD,
    JAVA_BEHIND,
    REDIS_PY,
    BRIDGE,
    STAMP,
    STRICT,
    AUTO,
    DROP_IN,
    DROP_IN_AHEAD,
    DLU,
    JOB,
    TOKEN,
    KINDS
} kind;

typedef struct {
    int turns[KINDS];
    int kills, overlaps, refused, lost, lost_tokens, exceptions, strange_exceptions;
    int slow, expired; /* requests, and locks of our own, that ran out of time */
    int lags, stalls;  /* times when the machine was too slow for what is assumed */
    int forgotten;     /* locks of Java's that a failover has lost while it was inside */
    int counted, done; /* what those inside have counted up to, and how many say that they did */
    int64_t longest_gap_us;
} verdict;

typedef struct {
    const char *key;
    const kind *posts; /* ends with KINDS */
    bool tokens;       /* Java throws on them */
    real_fleet *fleet; /* Sentinels lead to the server, or a cluster; NULL: it is the only one */
    /* What happens meanwhile, one after the other. What `tidelock migrate` is to do ("advance --watch 1s") is tried
     * until it isn't refused; "+advance" only begins so, and the next "end" of the tool awaits it; "77 advance /PATTERN"
     * ends so, and says so. "turns": each has had some more, and somebody was killed; "stop java", "start java"; "start
     * tokens", "stop tokens": TOKEN and REDIS_PY, which begin so. "failover": the master is killed, until another is.
     * Of a cluster that is the master of the key's slot. There "promote" makes its replica the master by command, so that
     * nothing is forgotten; "open" and "close" move the slot, "move" does both, and in "turns" some slots move. */
    const char *const *course; /* ends with NULL; NULL: nothing */
} match;

/** Let the services of a match contend for torture_seconds, kill some, and judge. */
verdict referee_judge(real_redis *server, const match *m);

/** A fleet's namespace, in phase 0; and the match that leads it by its course, which must go well. */
void referee_register(const char *url);
void referee_demand(real_redis *server, const match *m);

/** How long each match lasts, and by which draws: TORTURE_SECONDS and TORTURE_SEED. */
int torture_seconds(void);
unsigned torture_seed(void);

/** A worker of our own: what the program does when it is called with `worker`, or by `tidelock run` with `job`. */
int worker_main(int argc, char **argv);
int job_main(void);
#define JOB_STOPS 9 /**< its status when it was told to stop */
