/*
 * Migrations: clients that follow the phase of a namespace, and what must hold of phases. With TL_COMPAT
 * only; without it nothing of this is ever asked for.
 */
#ifndef SIM_PHASES_H
#define SIM_PHASES_H

#include "config.h"
#include "protocol/protocol.h"

typedef struct sim_world sim_world;
typedef struct sim_client sim_client;
typedef struct sim_task sim_task;
typedef struct sim_actor sim_actor;
typedef struct sim_msg sim_msg;

#define SIM_REGISTER "tidelock:phase:{default}"
#define SIM_ATTENDANT 256 /* bytes of the machine that keeps a lease fresh */

/** What a world knows of its migration. */
typedef struct {
    struct tl_namespaces *names[SIM_HOSTS]; /**< each client's */
    uint32_t clients;                       /**< begun so far: each has an id of its own */
    int64_t epoch;                          /**< the register's; 0: there is none */
    int phase;
    int64_t top, epoch_before; /**< the highest there ever was; the one before the last change, */
    int phase_before;          /**< which a failover may bring back */
    bool undone;               /**< as one has */
    bool stopped[SIM_KIND_COUNT]; /**< whoever doesn't follow the phase is not to begin anything */
    sim_ns asked[SIM_KIND_COUNT]; /**< when one of that kind has last asked for something */
    sim_ns steps_until;           /**< assumed: no step that was sent is executed later */
    int done;                     /**< steps of the plan */
} sim_migration;

void sim_phases_reset(sim_world *w);
void sim_phases_free(sim_world *w);

/* ---- clients that follow the phase --------------------------------------------------------------- */

/** tl__protocol_auto, watched. */
extern const tl_protocol sim_counted_auto;

/** A client begins. */
void sim_phase_boot(sim_world *w, sim_client *c);
const struct tl_namespace *sim_phase_space(const sim_world *w, const sim_client *c);
/** The driver's part: a machine of the client has stepped. */
void sim_phase_stepped(sim_world *w, sim_task *t, const tl_out *out);

/* ---- the others ------------------------------------------------------------------------------------ */

/** May those of this kind begin something? */
bool sim_phase_lets(const sim_world *w, sim_kind kind);
/** Have those of this kind that were stopped come to an end, with all that they have asked for? */
bool sim_phase_is_rid_of(const sim_world *w, sim_kind kind);
void sim_phase_stop(sim_world *w, sim_kind kind);
/** May locks' keys hold tokens now? */
bool sim_phase_has_tokens(const sim_world *w);
bool sim_actor_is_idle(const sim_actor *a);

/* ---- what must hold -------------------------------------------------------------------------------- */

/** A command has been executed: has the register moved? */
void sim_phase_look(sim_world *w);
/** Another server is master: has the register gone back? */
void sim_phase_failed_over(sim_world *w);
/** A take, or a keep that turns a stamp into a token, has taken effect. */
void sim_phase_acted(sim_world *w, const sim_msg *m, int key);

#endif
