/*
 * The fleet of test_compat_fleet.c where Sentinels lead it to the master, which is killed in each phase, and in the midst of
 * steps. What is in C waits for the replicas, so that no failover forgets its locks: never two at once. Java, old or
 * with the drop-in, does not: what it held at the former master may be another's at once, and is counted apart.
 *
 *   make check ONLY=legacy/test_compat_fleet_sentinel TORTURE_SEED=1      timeout: 600
 *
 * Only in make check-all.
 */
#include <stdlib.h>
#include <string.h>

#include "legacy.h"
#include "tests.h"

static real_fleet *fleet;

TEST(a_fleet_goes_to_tokens_and_back_while_masters_die) {
    static const kind posts[] = {JOB,           JAVA_AHEAD, JAVA_BEHIND, DROP_IN,
                                 DROP_IN_AHEAD, AUTO,       DLU,         KINDS};
    static const char *const course[] = {
        "turns",      "failover",
        "turns",      "+advance --phase 1 --watch 1s",
        "failover",   "end",
        "turns",      "77 advance --phase 2 --watch 1s --yes/legacy client",
        "stop java",  "+advance --phase 2 --watch 3s",
        "failover",   "end",
        "turns",      "+advance --phase 3 --watch 1s",
        "failover",   "end",
        "turns",      "failover",
        "turns",      "+rollback --phase 2",
        "failover",   "end",
        "turns",      "+rollback --phase 1",
        "failover",   "end",
        "start java", "turns",
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
    real_server_need(REAL_SCAN);
    legacy_need_java();
    legacy_need_faketime();
    fleet = real_fleet_start_sentinels(NULL);
    return tests_run();
}
