/*
 * A whole fleet through all phases and back: two old Java services, two with the drop-in for Java, two in C (a lock, and
 * the drop-in), and a job under `tidelock run`, with token clients in phase 3. The operator types what the runbook says.
 * In each phase holders are killed, and services stand still: never two at once, and what they count is exact. A
 * step that is too early is refused, and says who is in its way.
 *
 *   make check ONLY=legacy/test_compat_fleet TORTURE_SEED=1      timeout: 300
 */
#include <stdlib.h>
#include <string.h>

#include "legacy.h"
#include "tests.h"

static real_redis *server;

TEST(a_fleet_goes_from_stamps_to_tokens_and_back_without_an_outage) {
    static const kind posts[] = {JOB,  JAVA_AHEAD, JAVA_BEHIND, DROP_IN, DROP_IN_AHEAD,
                                 AUTO, DLU,        TOKEN,       KINDS};
    static const char *const course[] = {"turns",
                                         "77 advance --phase 2 --watch 1s --yes/phase",
                                         "advance --phase 1 --watch 1s",
                                         "turns",
                                         "77 advance --phase 2 --watch 1s --yes/legacy client",
                                         "0 clients/confirmed .*java",
                                         "stop java",
                                         "advance --phase 2 --watch 1s",
                                         "turns",
                                         "advance --phase 3 --watch 1s",
                                         "start tokens",
                                         "turns",
                                         "stop tokens",
                                         "rollback --phase 2",
                                         "turns",
                                         "rollback --phase 1",
                                         "start java",
                                         "turns",
                                         "rollback --phase 0",
                                         "turns",
                                         NULL};
    referee_register(real_redis_url(server));
    referee_demand(server, &(match){.key = "fleet", .posts = posts, .course = course});
    assert_int_equal(real_redis_int(server, "HINCRBY tidelock:phase:{default} phase 0"), 0);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return worker_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "job") == 0)
        return job_main();
    real_server_need(REAL_SCAN);
    legacy_need_java();
    legacy_need_faketime();
    server = real_redis_start(NULL);
    return tests_run();
}
