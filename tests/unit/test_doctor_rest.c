/*
 * What the doctor says ends a rest early: a restart, an eviction, a failover, FLUSHALL.
 */
#include "doctor_findings.h"

#define MASTER                                                                                     \
    "role:master\r\naof_enabled:1\r\nuptime_in_seconds:7200\r\nmaxmemory_policy:noeviction\r\nmaxmemory:0\r\n"

static int set_up(void **state) {
    (void)state;
    memset(&facts, 0, sizeof facts);
    facts.version = DOCTOR_VERSION(7, 2, 4);
    facts.ttl_ms = 30000;
    facts.once_per_ms = 86400000;
    (void)snprintf(facts.user, sizeof facts.user, "default");
    info(MASTER);
    set(CONFIG_APPENDFSYNC, "always");
    return 0;
}

TESTS_WITH(set_up, NULL);

static void check(void) {
    report.count = 0;
    doctor_check_rest(&facts, &report);
}

TEST(nothing_ends_a_rest_where_nothing_is_forgotten) {
    says_nothing();
}

TEST(a_restart_without_data_ends_rests) {
    info("role:master\r\naof_enabled:0\r\nuptime_in_seconds:7200\r\n");
    const doctor_finding *x = says_only("rest-restart", DOCTOR_WARNING,
                                        "a restart ends rests early");
    assert_string_equal(
        x->what, "a restart ends rests early (appendonly no); the last one was 2 h 0 min ago");
    assert_non_null(strstr(x->fix, "CONFIG SET appendonly yes"));
    facts.once_per_ms = 3600000; /* what rested then is over by now */
    x = says_only("rest-restart", DOCTOR_WARNING, "a restart ends rests early");
    assert_string_equal(x->what, "a restart ends rests early (appendonly no)");
    facts.care.quiet_ms = 3600000; /* it protects only what is held */
    says_only("rest-restart", DOCTOR_WARNING, "a restart ends rests early");
}

TEST(a_loss_of_power_ends_what_is_not_on_disk_yet) {
    set(CONFIG_APPENDFSYNC, "no");
    says_only("rest-restart", DOCTOR_WARNING, "the last half a minute");
    set(CONFIG_APPENDFSYNC, "everysec");
    const doctor_finding *x = says_only("rest-restart", DOCTOR_NOTE, "the last second or two");
    assert_non_null(strstr(x->fix, "wait_fsync"));
    facts.version = DOCTOR_VERSION(7, 0, 15);
    x = says_only("rest-restart", DOCTOR_NOTE, "the last second or two");
    assert_null(strstr(x->fix, "wait_fsync"));
    facts.care.wait_fsync = true;
    says_nothing();
}

TEST(a_loss_of_power_during_a_save_ends_what_is_not_synced_meanwhile) {
    set(CONFIG_NO_FSYNC, "yes");
    const doctor_finding *x = says_only("rest-restart", DOCTOR_WARNING, "during a save");
    assert_string_equal(x->fix, "CONFIG SET no-appendfsync-on-rewrite no");
    set(CONFIG_APPENDFSYNC, "everysec");
    says_only("rest-restart", DOCTOR_WARNING, "during a save");
    facts.care.wait_fsync = true;
    says_nothing();
}

TEST(a_full_server_that_evicts_ends_rests) {
    const char *const policies[] = {"allkeys-lru", "allkeys-random", "volatile-lru",
                                    "volatile-ttl"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        char text[128];
        (void)snprintf(text, sizeof text,
                       "role:master\r\nmaxmemory:1000\r\nmaxmemory_policy:%s\r\n", policies[i]);
        info(text);
        const doctor_finding *x = says_only("rest-eviction", DOCTOR_DANGER, policies[i]);
        assert_non_null(strstr(x->fix, "noeviction"));
    }
    info("role:master\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n");
    says_only("rest-eviction", DOCTOR_NOTE, "but maxmemory is 0");
    info("role:master\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\n");
    says_nothing();
}

TEST(a_failover_ends_rests_that_not_all_replicas_have_confirmed) {
    info(MASTER "connected_slaves:2\r\n");
    facts.care.quiet_ms = 31000; /* it protects only what is held */
    facts.care.wait_replicas = 1;
    const doctor_finding *x = says_only("rest-failover", DOCTOR_WARNING, "(wait_replicas 1 of 2)");
    assert_string_equal(x->fix, "wait_replicas 2 (run --wait-replicas 2) in all clients");
    facts.care.wait_replicas = 2;
    says_nothing();
    facts.moving = true;
    x = says_only("rest-failover", DOCTOR_WARNING, "a failover may end rests early");
    assert_non_null(strstr(x->why, "slots are being moved"));
}

TEST(behind_sentinels_a_replica_is_missing) {
    facts.by_sentinels = true;
    facts.heard = (sentinels){.master = "main", .seeds = 3, .count = 3};
    const doctor_finding *x = says_only("rest-failover", DOCTOR_WARNING, "(wait_replicas 0 of 0)");
    assert_string_equal(x->fix, "add a replica, and use wait_replicas 1 in all clients");
    facts.version = DOCTOR_VERSION(2, 8, 24);
    x = says_only("rest-failover", DOCTOR_WARNING, "(wait_replicas 0 of 0)");
    assert_non_null(strstr(x->fix, "upgrade to 3.0"));
}

TEST(flushall_ends_rests_where_it_is_allowed) {
    facts.flush = COMMAND_OK;
    const doctor_finding *x = says_only("rest-flush", DOCTOR_NOTE, "FLUSHALL is allowed");
    assert_string_equal(x->fix, "ACL SETUSER default -flushall -flushdb");
    (void)snprintf(facts.user, sizeof facts.user, "\033[2J");
    x = says_only("rest-flush", DOCTOR_NOTE, "FLUSHALL is allowed");
    assert_string_equal(x->fix, "ACL SETUSER USER -flushall -flushdb");
    facts.version = DOCTOR_VERSION(5, 0, 14);
    x = says_only("rest-flush", DOCTOR_NOTE, "FLUSHALL is allowed");
    assert_non_null(strstr(x->fix, "rename-command FLUSHALL"));
    facts.flush = COMMAND_DENIED;
    says_nothing();
}

TEST(without_scripts_nothing_rests) {
    const doctor_legacy_hooks *legacy = FROM_LEGACY(doctor_legacy);
    if (!legacy)
        skip();
    facts.protocol = TL_TIMESTAMP;
    says_nothing();
    facts.version = DOCTOR_VERSION(2, 4, 18);
    says_only("rest-scripts", DOCTOR_DANGER, "no lock can rest");
}

TEST(without_once_per_nothing_is_said_of_rests) {
    facts.once_per_ms = 0;
    facts.flush = COMMAND_OK;
    info("role:master\r\naof_enabled:0\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n");
    says_nothing();
}
