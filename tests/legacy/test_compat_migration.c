/*
 * A whole migration on a real server: Java services and tidelock's clients by phase contend for one
 * lock, holders are killed and stopped, and an operator leads them from stamps to tokens and back,
 * with the tool. Never two at once, and never a pause longer than a lease and a lock's life.
 *
 *   make check ONLY=legacy/test_compat_migration TORTURE_SEED=1      timeout: 300
 */
#include <stdlib.h>
#include <string.h>

#include "legacy.h"
#include "tests.h"

static real_redis *server;

static void tidelock(const char *command) {
    char line[512];
    (void)snprintf(line, sizeof line, "\"$TIDELOCK\" --url '%s' %s", real_redis_url(server),
                   command);
    if (system(line) != 0)
        fail_msg("%s", command);
}

static void is_in_phase(int phase) {
    assert_int_equal(real_redis_int(server, "HINCRBY tidelock:phase:{default} phase 0"), phase);
}

TEST(a_fleet_goes_from_stamps_to_tokens_and_back_without_an_outage) {
    static const kind posts[] = {JAVA_AHEAD, JAVA_BEHIND, AUTO, AUTO, AUTO, KINDS};
    static const char *const course[] = {
        "turns",    "advance --watch 1s", "turns", "stop java", "advance --watch 1s",
        "turns",    "advance --watch 1s", "turns", "rollback",  "turns",
        "rollback", "start java",         "turns", NULL};
    tidelock("migrate init --keys '*' --lease 1s --phase 0 --yes");
    verdict v = referee_judge(server, &(match){.key = "moving", .posts = posts, .course = course});
    print_message(
        "%d turns of Java, %d of ours, %d kills, longest gap %lld ms, %d lags, %d stalls\n",
        v.turns[JAVA_AHEAD] + v.turns[JAVA_BEHIND], v.turns[AUTO], v.kills,
        (long long)v.longest_gap_us / 1000, v.lags, v.stalls);
    is_in_phase(1);
    assert_int_equal(v.overlaps, 0);
    assert_int_equal(v.refused, 0);
    if (v.lags + v.stalls == 0)
        assert_int_equal(v.lost, 0);
    assert_int_equal(v.strange_exceptions, 0);
    assert_true(v.longest_gap_us / 1000 < FREE_MS + LEASE_MS + LATE_MS);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return worker_main(argc, argv);
    real_server_need(REAL_SCAN);
    legacy_need_java();
    legacy_need_faketime();
    server = real_redis_start(NULL);
    return tests_run();
}
