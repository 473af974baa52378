/*
 * Drawing a migration in a Redis Cluster: a run of `cluster-stamps` in which most tidelock clients follow the
 * phase of their lock's slot, and an operator (actor_slots.c) moves it slot by slot. Its random numbers are its own.
 */

/*
 * `cluster-phases`: each slot has a register (compat/phase/phase.h). Slots move, masters fail over, answers are lost
 * and late, clients and the operator crash, as in `cluster-stamps`. The operator goes up when all Java services have
 * ended, and down by tests/model/phaseslot.pml: a new epoch in each slot, WAIT, no token at any key, WAIT. It leaves
 * steps half-made, and completes or undoes what it finds. `cluster-atomic=phases`: the same, and slots change
 * masters at one moment.
 *
 * Besides all of `cluster-stamps` there must hold: no key has a token while Java may run. Where the source of a move
 * may write again without knowing of the target (`doubtful`), the move can undo the operator's last write: then
 * nothing is claimed.
 */
#include "config.h"
#include "random.h"

/* As for tokens: the clock of a server that takes over isn't ahead. */
static void set_clocks(sim_config *c) {
    for (int i = SIM_SHARDS; i < 2 * SIM_SHARDS; i++) {
        int64_t master_us = i == SIM_SHARDS ? 0 : c->behind_us[i - SIM_SHARDS - 1];
        if (c->behind_us[i - 1] < master_us)
            c->behind_us[i - 1] = master_us;
    }
}

void sim_config_cluster_phases(sim_config *c) {
    sim_config_cluster_stamps(c);
    uint64_t random = c->seed ^ UINT64_C(0x736c6f7473);
    c->slot_phases = true;
    c->fallback = (int32_t)sim_between(&random, 0, 1);
    c->first_phase = (int32_t)sim_between(&random, -1, 3);
    c->own_lease_ms = 1000;
    for (int i = 0; i < c->actors; i++)
        if (c->cast[i].kind != SIM_JAVA && sim_chance(&random, 800000))
            c->cast[i].kind = SIM_AUTO;
    set_clocks(c);
    c->actors -= c->actors == SIM_ACTORS;
    c->cast[c->actors++] = (sim_cast){SIM_OPERATOR, (uint8_t)sim_between(&random, 0, c->hosts - 1),
                                      0, false};
}
