/*
 * Faults of a fleet with Sentinels. A failover isn't begun while another is in progress, nor without a replica that is
 * linked: so each begins with a fleet that is whole (real_fleet_mend).
 */
#include "sentinel_faults.h"

#include <string.h>

#include "clock_wait.h"
#include "contest.h"
#include "real_fleet_inside.h"

#define ENOUGH 5 /* are counted while a fault lasts that stops nobody */

static void graceful(real_fleet *f) {
    real_fleet_switch(f);
}

static void killed(real_fleet *f) {
    real_node *former = real_fleet_master(f);
    real_redis_kill(former->redis);
    (void)real_fleet_await_master(f, former);
    real_fleet_restart(f, former);
}

/* It wakes with requests in its sockets, which it carries out and answers. */
static void stopped(real_fleet *f) {
    real_node *former = real_fleet_master(f);
    real_redis_freeze(former->redis);
    (void)real_fleet_await_master(f, former);
    real_redis_thaw(former->redis);
}

/* Clients reach all of them: the former master too, which knows of nothing. */
static void parted(real_fleet *f) {
    real_node *former = real_fleet_master(f);
    real_fleet_part(f, former, 1);
    real_fleet_part(f, real_fleet_sentinel(f, 0), 1);
    (void)real_fleet_await_master(f, former);
    real_fleet_join(f);
}

static void go_on(void) {
    const int counted = contest_counted();
    WAIT_FOR(6 * SOON_MS, contest_counted() > counted + ENOUGH);
}

static void sentinel_killed(real_fleet *f) {
    real_node *one = real_fleet_sentinel(f, 1);
    real_redis_kill(one->redis);
    go_on();
    real_fleet_restart(f, one);
}

/* From clients, too. */
static void sentinel_parted(real_fleet *f) {
    real_fleet_part_clients(f, 0);
    real_fleet_part(f, real_fleet_sentinel(f, 2), 1);
    go_on();
    real_fleet_join(f);
}

static void replica_killed(real_fleet *f) {
    real_node *master = real_fleet_master(f), *one = real_fleet_server(f, 0);
    one = one == master ? real_fleet_server(f, 1) : one;
    real_redis_kill(one->redis);
    go_on();
    real_fleet_restart(f, one);
}

static const sentinel_fault faults[] = {
    {"a graceful failover", graceful, false},
    {"the master killed", killed, false},
    {"the master stopped, and woken after the promotion", stopped, false},
    {"the master and one Sentinel parted from the others", parted, true},
    {"a Sentinel killed", sentinel_killed, false},
    {"a Sentinel parted from all", sentinel_parted, true},
    {"a replica killed", replica_killed, false},
};

const sentinel_fault *sentinel_fault_at(int i) {
    return i < (int)(sizeof faults / sizeof *faults) ? &faults[i] : NULL;
}

const sentinel_fault *sentinel_fault_named(const char *name) {
    const sentinel_fault *f;
    for (int i = 0; (f = sentinel_fault_at(i)); i++)
        if (strcmp(f->name, name) == 0)
            return f;
    real_fleet_fail("there is no fault \"%s\"", name);
}
