/*
 * The fleet of test_compat_fleet.c in a Redis Cluster. In each phase slots move, that of the lock and others, and in the
 * midst of steps. While old Java runs a master is replaced by command, which forgets nothing; else it is killed. What is in C
 * waits for the replica; the drop-in for Java does not, and what it held is counted apart.
 *
 *   make check ONLY=legacy/test_compat_fleet_cluster TORTURE_SEED=1      timeout: 600
 *   ... CLUSTER_SERVER=PATH    every second move is one of a whole slot, on a Valkey 9.0 or Redis 8.4
 *
 * Only in make check-all.
 */
#include <stdlib.h>
#include <string.h>

#include "legacy.h"
#include "tests.h"

static real_fleet *fleet;

TEST(a_fleet_goes_to_tokens_and_back_while_slots_move) {
    static const kind posts[] = {JOB,           JAVA_AHEAD, JAVA_BEHIND, DROP_IN,
                                 DROP_IN_AHEAD, AUTO,       DLU,         KINDS};
    static const char *const course[] = {
        "turns",
        "+advance --phase 1 --watch 1s",
        "move",
        "end",
        "turns",
        "promote",
        "turns",
        "77 advance --phase 2 --watch 1s --yes/legacy client",
        "stop java",
        "open",
        "77 advance --phase 2 --watch 1s --wait 0s --yes/slot [0-9]+ is being moved",
        "close",
        "+advance --phase 2 --watch 3s",
        "move",
        "end",
        "turns",
        "failover",
        "turns",
        "+advance --phase 3 --watch 1s",
        "failover",
        "end",
        "turns",
        "move",
        "+rollback --phase 2",
        "move",
        "end",
        "turns",
        "+rollback --phase 1",
        "failover",
        "end",
        "start java",
        "turns",
        "promote",
        "+rollback --phase 0",
        "move",
        "end",
        "turns",
        NULL};
    referee_register(real_fleet_url(fleet));
    const match m = {.key = "fleet", .posts = posts, .course = course, .fleet = fleet};
    referee_demand(real_fleet_server(fleet, 0)->redis, &m);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return worker_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "job") == 0)
        return job_main();
    real_server_use(getenv("CLUSTER_SERVER"));
    real_server_need(REAL_SEVEN);
    legacy_need_java();
    legacy_need_faketime();
    fleet = real_fleet_start_cluster(NULL);
    return tests_run();
}
