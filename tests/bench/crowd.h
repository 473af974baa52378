/*
 * Many that want one lock: processes that are forked and never exec, each with a client of its own. Of ours;
 * or, for comparison, one that asks again and again by hiredis, or one of a queue that hands on an element.
 * They do as they are told, and write down when in memory that all share.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CROWD_PARTS 2

/** A turn with the lock, by CLOCK_MONOTONIC. */
typedef struct {
    int64_t asked_ns;    /**< acquire was called */
    int64_t acquired_ns; /**< it returned */
    int64_t release_ns;  /**< release was called */
    int member;
} turn;

/** Processes alike. Each thread is a member of the crowd. */
typedef struct {
    const char *url; /**< NULL: as the regime says */
    int processes;
    int threads; /**< of each, on its one client; 0 is 1 */
} crowd_part;

typedef enum {
    CROWD_LOCK,
    CROWD_FAIR, /**< with the option `fair` */
    CROWD_BARE, /**< SET NX PX every 20 ms by hiredis, compare-and-delete */
    CROWD_QUEUE /**< BLPOP and RPUSH of one element: no lock, and all that a hand-off needs */
} crowd_kind;

typedef struct crowd crowd;

/** Fork them, and have each reach the server. From the main thread, while there is no other. The
 *  members are numbered in this order. NULL: this machine doesn't allow so many descriptors. */
crowd *crowd_open(const crowd_part part[CROWD_PARTS], crowd_kind kind);
void crowd_kill(crowd *c);  /**< all of them, whatever they do, and forget all keys */
void crowd_close(crowd *c); /**< NULL is fine */

/** Member 0 acquires, the next n begin to wait, and each has its turn when member 0 releases: all
 *  keep the lock for hold_ns. Returns how many of the n had none within limit_ns: then nothing but
 *  crowd_kill may follow. */
int crowd_once(crowd *c, int n, int64_t hold_ns, int64_t limit_ns);

/** Members from `from` on, n of them, acquire, hold and release again and again; until stopped. */
void crowd_begin(crowd *c, int from, int n, int64_t hold_ns);
void crowd_end(
    crowd *c); /**< each ends its turn, those that wait have one more; bare ones may give up */

void crowd_forget(crowd *c);          /**< the turns so far; while none is taken */
uint64_t crowd_turns(const crowd *c); /**< how many have been taken since, at this moment */
uint32_t crowd_turns_of(const crowd *c, int member);
double crowd_held_ns(const crowd *c); /**< how long, all turns together */
void crowd_check(crowd *c);           /**< die if a process has ended */

/** All turns since, in their order, to be freed by the caller; while none is taken. Dies if two
 *  overlap: then what was measured is no lock. */
turn *crowd_story(const crowd *c, int *ret_n);

/** 1 when all shares are alike, 1/n when one has everything; 0 without any. */
double jain(const double *shares, int n);
