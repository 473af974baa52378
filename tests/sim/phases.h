/*
 * Migrations: clients that follow the phase of a namespace, and what must hold of phases. With TL_COMPAT
 * only; without it nothing of this is ever asked for.
 */
#pragma once

#include "config.h"
#include "protocol/protocol.h"

typedef struct sim_world sim_world;
typedef struct sim_host sim_host;
typedef struct sim_lock sim_lock;
typedef struct sim_actor sim_actor;

/** Of a lease on a phase, what checks want to know. */
typedef struct {
    int64_t epoch;
    tl_mono until;
    int8_t phase;
} sim_lease;

#define SIM_REGISTER "tidelock:phase:{default}"

#define SIM_SLOT_REGISTER 64 /**< bytes of its name */

/** The register of the phase in the slot of this key. */
tl_bytes sim_slot_register(const sim_world *w, int key, char to[SIM_SLOT_REGISTER]);

/** What a world knows of its migration. */
typedef struct {
    int64_t epoch; /**< the register's; 0: there is none */
    int phase;
    int64_t top, epoch_before; /**< the highest there ever was; the one before the last change, */
    int phase_before;          /**< which a failover may bring back */
    bool undone;               /**< as one has */
    bool stopped[SIM_KIND_COUNT]; /**< whoever doesn't follow the phase is not to begin anything */
    sim_ns asked[SIM_KIND_COUNT]; /**< when one of that kind has last asked for something */
    sim_ns steps_until;           /**< assumed: no step that was sent is executed later */
    int done;                     /**< steps of the plan */
    int64_t runs;                 /**< of the command that makes them */
    int working;                  /**< operators who are about one, who let nothing begin */
    int64_t
        begun; /**< the epoch of which services were started last: who has seen none so late looks again */
    sim_ns legacy_shown; /**< the last SETNX or GETSET of a legacy client on its keys */
} sim_migration;

void sim_phases_reset(sim_world *w);

/* ---- clients that follow the phase --------------------------------------------------------------- */

/** What is known of the phase; what has just been read. */
sim_lease sim_lease_known(const tl_server *server);
sim_lease sim_lease_read(const tl_out *out);
/** The latest epoch that a client knows; 0: none. */
int64_t sim_phase_epoch(const tl_client *client);
/** A register was read. before: what its client knew */
void sim_phase_kept(sim_world *w, const sim_host *h, int64_t before, const tl_out *out);
/** Something is asked, for this lock (NULL: nobody's any more), by this lease (until.ns 0: none), at
 *  `now` by the host's clock. */
void sim_phase_asked(sim_world *w, const sim_host *h, const sim_lock *lock, const sim_lease *lease,
                     tl_mono now);

/* ---- the others ------------------------------------------------------------------------------------ */

/** May this one begin something? One that is forgotten, or outside of the namespace, always does. */
bool sim_phase_lets(const sim_world *w, const sim_actor *a);
bool sim_phase_is_outside(const sim_world *w, int key);
/** Have those of this kind that were stopped come to an end, with all that they have asked for? */
bool sim_phase_is_rid_of(const sim_world *w, sim_kind kind);
void sim_phase_stop(sim_world *w, sim_kind kind);
/** The phase to go to from this one, by the plan or as an operator likes who means to advance, or not. */
int64_t sim_phase_next(sim_world *w, int64_t phase, bool on);
/** May locks' keys hold tokens now? */
bool sim_phase_has_tokens(const sim_world *w);
bool sim_actor_is_idle(const sim_actor *a);

/* ---- what must hold -------------------------------------------------------------------------------- */

/** A command has been executed: has the register moved? */
void sim_phase_look(sim_world *w);
/** Another server is master: has the register gone back? */
void sim_phase_failed_over(sim_world *w);
/** A take, or a keep that turns a stamp into a token, has taken effect. */
void sim_phase_acted(sim_world *w, const sim_host *h, int64_t boot, const sim_lease *lease,
                     int key);
