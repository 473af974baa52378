/*
 * What is to happen, earliest first: a binary heap over true time. Of what happens at the same
 * instant the lower rank comes first, and then what was put in first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t sim_ns; /**< true time since the start of the run */
#define SIM_NEVER INT64_MAX
#define SIM_MS INT64_C(1000000)

#define SIM_RANK_SHIFT 56

struct sim_world;
typedef void (*sim_fire)(struct sim_world *w, void *who, uint32_t tag);

typedef struct {
    sim_ns at;
    uint64_t order; /**< rank, then number */
    sim_fire fire;
    void *who;
    uint32_t tag;
} sim_event;

typedef struct {
    sim_event *heap; /**< [0] is unused */
    size_t count, room;
    uint64_t number;
} sim_queue;

/** What comes first when a stopped host goes on: as in the real drivers. */
enum {
    SIM_RANK_RESUME,
    SIM_RANK_NET,
    SIM_RANK_LIMIT,
    SIM_RANK_WAKE,
    SIM_RANK_TIMER,
    SIM_RANK_ACTOR
};

void sim_queue_put(sim_queue *q, sim_ns at, unsigned rank, sim_fire fire, void *who, uint32_t tag);
/** The order that the next one put in with this rank will have; never 0. */
uint64_t sim_queue_next(const sim_queue *q, unsigned rank);
static inline unsigned sim_rank(uint64_t order) {
    return (unsigned)(order >> SIM_RANK_SHIFT);
}
/** Put off what has just come up: it keeps its place before what was put in after it. */
void sim_queue_put_off(sim_queue *q, sim_ns at, uint64_t order, sim_fire fire, void *who,
                       uint32_t tag);
bool sim_queue_take(sim_queue *q, sim_event *ret);
void sim_queue_clear(sim_queue *q);
void sim_queue_free(sim_queue *q);

/** A time that moves often, with few entries in the queue. Its memory stays valid for the run. */
typedef struct {
    sim_ns at;     /**< SIM_NEVER: not set */
    sim_ns queued; /**< the entry that counts; SIM_NEVER: none */
} sim_alarm;

#define SIM_ALARM ((sim_alarm){SIM_NEVER, SIM_NEVER})

void sim_alarm_set(sim_queue *q, sim_alarm *alarm, sim_ns at, unsigned rank, sim_fire fire,
                   void *who);
/** To be asked by `fire`: is it time, and for this entry? Then the alarm is no longer set. */
bool sim_alarm_due(sim_queue *q, sim_alarm *alarm, sim_ns now, unsigned rank, sim_fire fire,
                   void *who);
