/*
 * What the doctor says becomes of a lock in a server: evicted, forgotten in a restart, lost in a failover, refused.
 */
#include "doctor_findings.h"

/* Nothing is wrong with this one. */
#define MEMORY "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
#define KEPT "aof_enabled:1\r\naof_last_write_status:ok\r\nrdb_last_bgsave_status:ok\r\n"
#define MASTER "role:master\r\nconnected_slaves:0\r\n"
#define WELL "redis_mode:standalone\r\nuptime_in_seconds:5000\r\n" MEMORY KEPT MASTER

static int set_up(void **state) {
    (void)state;
    memset(&facts, 0, sizeof facts);
    facts.version = DOCTOR_VERSION(7, 0, 15);
    facts.ttl_ms = 30000;
    (void)snprintf(facts.product, sizeof facts.product, "Redis 7.0.15");
    info(WELL);
    set(CONFIG_APPENDFSYNC, "always");
    set(CONFIG_MIN_REPLICAS, "0");
    return 0;
}

TESTS_WITH(set_up, NULL);

static void check(void) {
    report.count = 0;
    doctor_check_state(&facts, &report);
}

TEST(nothing_is_found_where_nothing_is_wrong) {
    says_nothing();
}

/* ---- memory ---------------------------------------------------------------------------------- */

#define LIMITED(policy, limit, used)                                                               \
    "maxmemory:" limit "\r\nused_memory:" used "\r\nmaxmemory_policy:" policy "\r\n" KEPT MASTER

TEST(a_policy_that_evicts_is_a_danger_with_a_limit_and_a_note_without) {
    info(LIMITED("allkeys-lru", "1000000", "10"));
    says_only("eviction", DOCTOR_DANGER, "maxmemory-policy is allkeys-lru");
    info(LIMITED("volatile-ttl", "1000000", "10"));
    says_only("eviction", DOCTOR_DANGER, "maxmemory-policy is volatile-ttl");
    info(LIMITED("allkeys-lru", "0", "10"));
    says_only("eviction", DOCTOR_NOTE, "which has no effect while maxmemory is 0");
    info(LIMITED("noeviction", "1000000", "10"));
    says_nothing();
}

/* From Redis 8.12 on. Only policies that delete keys without a lifetime endanger a counter. */
TEST(a_counter_can_be_kept_from_eviction_where_the_server_knows_bless) {
    info(LIMITED("allkeys-lru", "1000000", "10"));
    facts.bless = COMMAND_OK;
    (void)snprintf(facts.counter, sizeof facts.counter, "tidelock:fence:{2bq}");
    const doctor_finding *x = says("fence", DOCTOR_NOTE,
                                   "may delete the fencing counter tidelock:fence:{2bq}");
    assert_non_null(strstr(x->fix, "BLESS SET tidelock:fence:{2bq} NO-EVICT"));
    assert_non_null(strstr(x->fix, "locks themselves need maxmemory-policy noeviction"));
    says("eviction", DOCTOR_DANGER, "maxmemory-policy is allkeys-lru");
    facts.counter[0] = '\0';
    x = says("fence", DOCTOR_NOTE, "may delete the fencing counter");
    assert_non_null(strstr(x->fix, "`tidelock doctor KEY` names the counter"));
    facts.blessed = true;
    says_only("eviction", DOCTOR_DANGER, "maxmemory-policy is allkeys-lru");
    facts.blessed = false;
    facts.bless = COMMAND_MISSING;
    says_only("eviction", DOCTOR_DANGER, "maxmemory-policy is allkeys-lru");
    facts.bless = COMMAND_OK;
    info(LIMITED("volatile-lru", "1000000", "10"));
    says_only("eviction", DOCTOR_DANGER, "maxmemory-policy is volatile-lru");
    info(LIMITED("allkeys-lru", "0", "10"));
    says_only("eviction", DOCTOR_NOTE, "which has no effect while maxmemory is 0");
    info(LIMITED("noeviction", "1000000", "10"));
    says_nothing();
}

TEST(a_policy_is_known_by_the_configuration_where_info_does_not_tell) {
    info(KEPT MASTER);
    says_only("eviction", DOCTOR_UNSEEN, "the eviction policy");
    set(CONFIG_POLICY, "allkeys-lru");
    says_only("eviction", DOCTOR_DANGER,
              "maxmemory-policy is allkeys-lru"); /* the limit may be any */
    set(CONFIG_MAXMEMORY, "0");
    says_only("eviction", DOCTOR_NOTE, "has no effect");
    set(CONFIG_MAXMEMORY, "1000000");
    says_only("eviction", DOCTOR_DANGER, "maxmemory-policy is allkeys-lru");
    set(CONFIG_POLICY, "noeviction");
    says_nothing();
}

TEST(memory_that_is_full_refuses_locks) {
    info(LIMITED("noeviction", "104857600", "94371840"));
    says_nothing(); /* nine tenths */
    info(LIMITED("noeviction", "104857600", "94371841"));
    const doctor_finding *x = says_only("memory", DOCTOR_WARNING, "90 of 100 MB of maxmemory");
    assert_string_equal(x->fix, "CONFIG SET maxmemory 209715200, or delete something");
    info(LIMITED("noeviction", "104857600", "104857600"));
    says_only("memory", DOCTOR_DANGER, "100 of 100 MB of maxmemory");
}

/* ---- persistence ----------------------------------------------------------------------------- */

/* A restart that forgets asks for quiet_ms, too, of which doctor_failover speaks. */
static void keeps(const char *id, doctor_level level, const char *what) {
    (void)says(id, level, what);
    for (int i = 0; i < report.count; i++)
        assert_true(strcmp(report.finding[i].id, id) == 0 ||
                    strcmp(report.finding[i].id, "quiet") == 0);
}

TEST(what_a_restart_forgets_is_told) {
    info(MEMORY MASTER "aof_enabled:0\r\n");
    keeps("persistence", DOCTOR_WARNING, "goes back to the last snapshot");
    set(CONFIG_SAVE, "3600 1");
    keeps("persistence", DOCTOR_WARNING, "goes back to the last snapshot");
    set(CONFIG_SAVE, "");
    keeps("persistence", DOCTOR_WARNING, "no data survives a restart");
    facts.care.quiet_ms = 30000;
    keeps("persistence", DOCTOR_NOTE, "no data survives a restart"); /* it is waited out */
    facts.care.quiet_ms = 29999;
    keeps("persistence", DOCTOR_WARNING, "no data survives a restart");
}

TEST(how_often_the_append_only_file_is_synced_tells_what_is_forgotten) {
    set(CONFIG_APPENDFSYNC, "no");
    keeps("persistence", DOCTOR_WARNING, "appendfsync is no");
    facts.care.quiet_ms = 30000;
    keeps("persistence", DOCTOR_NOTE, "appendfsync is no");
    facts.care.quiet_ms = 0;
    set(CONFIG_APPENDFSYNC, "everysec");
    keeps("persistence", DOCTOR_NOTE, "appendfsync is everysec");
    facts.care.wait_fsync = true;
    check();
    assert_null(find("appendfsync"));
}

/* A save, a rewrite or a copy for a replica may be going on at any time. */
TEST(a_file_that_is_not_synced_during_a_save_forgets_as_one_that_never_is) {
    static const char *const synced[] = {"always", "everysec"};
    set(CONFIG_NO_FSYNC, "yes");
    for (size_t i = 0; i < sizeof synced / sizeof *synced; i++) {
        set(CONFIG_APPENDFSYNC, synced[i]);
        keeps("persistence", DOCTOR_WARNING, "no-appendfsync-on-rewrite is yes");
        assert_string_equal(find("no-appendfsync-on-rewrite")->fix,
                            "CONFIG SET no-appendfsync-on-rewrite no");
        facts.care.quiet_ms = 30000;
        says_only("persistence", DOCTOR_NOTE, "no-appendfsync-on-rewrite is yes");
        facts.care.quiet_ms = 0;
    }
    facts.care.wait_fsync = true; /* what isn't on the disk then doesn't count */
    check();
    for (int i = 0; i < report.count; i++)
        assert_string_not_equal(report.finding[i].id, "persistence");
    facts.care.wait_fsync = false;
    set(CONFIG_APPENDFSYNC, "no"); /* which is the graver of both */
    keeps("persistence", DOCTOR_WARNING, "appendfsync is no");
    assert_null(find("no-appendfsync-on-rewrite"));
    set(CONFIG_APPENDFSYNC, "always");
    set(CONFIG_NO_FSYNC, "no");
    says_nothing();
}

TEST(a_disk_that_can_not_be_written_refuses_locks) {
    info(MEMORY MASTER "aof_enabled:1\r\naof_last_write_status:err\r\n");
    says_only("persistence", DOCTOR_DANGER, "the append-only file can't be written");
    info(MEMORY MASTER "aof_enabled:1\r\nrdb_last_bgsave_status:err\r\n");
    says_only("persistence", DOCTOR_DANGER, "the last save failed");
}

/* Redis refuses writes after a failed save only where it is to save by itself, and to refuse then. */
TEST(a_save_that_failed_is_a_danger_only_where_writes_are_refused) {
    info(MEMORY MASTER "aof_enabled:1\r\nrdb_last_bgsave_status:err\r\n");
    set(CONFIG_SAVE, "3600 1");
    set(CONFIG_STOP_WRITES, "yes");
    const doctor_finding *x = says_only("persistence", DOCTOR_DANGER, "the last save failed");
    assert_non_null(strstr(x->why, "refuse all writes"));
    set(CONFIG_STOP_WRITES, "no");
    x = says_only("persistence", DOCTOR_NOTE, "the last save failed");
    assert_null(strstr(x->why, "refuse"));
    set(CONFIG_STOP_WRITES, "yes");
    set(CONFIG_SAVE, "");
    says_only("persistence", DOCTOR_NOTE, "the last save failed");
    info(MEMORY MASTER "aof_enabled:0\r\nrdb_last_bgsave_status:err\r\n");
    x = says("persistence", DOCTOR_WARNING, "the last save failed");
    assert_non_null(strstr(x->why, "goes back to an older snapshot"));
    facts.care.quiet_ms = 30000; /* it is waited out */
    says("persistence", DOCTOR_NOTE, "the last save failed");
    set(CONFIG_SAVE, "3600 1");
    says("persistence", DOCTOR_DANGER, "the last save failed");
}

TEST(persistence_that_is_not_told_is_unseen) {
    info(MEMORY MASTER);
    keeps("persistence", DOCTOR_UNSEEN, "whether locks survive a restart: INFO does not report it");
}

TEST(a_server_that_has_just_started_is_noted) {
    info(WELL "uptime_in_seconds:59\r\n");
    says_nothing(); /* the first counts */
    info("uptime_in_seconds:59\r\n" MEMORY KEPT MASTER);
    says_only("restart", DOCTOR_NOTE, "the server started 59 s ago");
    info("uptime_in_seconds:60\r\n" MEMORY KEPT MASTER);
    says_nothing();
    info("uptime_in_seconds:-1\r\n" MEMORY KEPT MASTER);
    says_nothing(); /* which doctor_check speaks of */
}

/* ---- copies ---------------------------------------------------------------------------------- */

#define REPLICA "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_link_status:up\r\n"

TEST(a_replica_is_no_place_for_locks) {
    info(MEMORY KEPT REPLICA "slave_read_only:1\r\n");
    const doctor_finding *x = says_only("replica", DOCTOR_DANGER,
                                        "this server is a replica of 10.0.0.1, and read-only");
    assert_string_equal(x->fix, "name the master in --url (10.0.0.1)");
    info(MEMORY KEPT REPLICA "slave_read_only:0\r\n");
    x = says_only("replica", DOCTOR_DANGER, "10.0.0.1, and may be written to");
    assert_non_null(strstr(x->fix, "CONFIG SET replica-read-only yes"));
    facts.version = DOCTOR_VERSION(4, 0, 14);
    assert_non_null(strstr(says("replica", DOCTOR_DANGER, "may be written to")->fix,
                           "CONFIG SET slave-read-only yes"));
    facts.version = DOCTOR_VERSION(2, 4, 18);
    info(MEMORY KEPT REPLICA); /* INFO doesn't tell there: all may be written to */
    assert_null(strstr(says("replica", DOCTOR_DANGER, "may be written to")->fix, "CONFIG SET"));
}

TEST(a_replica_without_its_master_is_told) {
    info(MEMORY KEPT "role:slave\r\nmaster_host:m\r\nmaster_link_status:down\r\n");
    assert_non_null(strstr(
        says("replication", DOCTOR_WARNING, "the replica has lost its master")->fix, "REPLICAOF"));
    facts.version = DOCTOR_VERSION(4, 0, 14);
    assert_non_null(strstr(
        says("replication", DOCTOR_WARNING, "the replica has lost its master")->fix, "SLAVEOF"));
}

/* By what replicas say of themselves, in the words of 2.8 and of before. */
TEST(a_replica_that_lags_is_told) {
    static const struct {
        const char *line, *what; /* NULL: nothing */
    } rows[] = {
        {"slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0", NULL},
        {"slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=10", NULL},
        {"slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=11",
         "the replica 10.0.0.2:6379 is online, and last reported 11 s ago"},
        {"slave0:ip=10.0.0.2,port=6379,state=wait_bgsave,offset=1,lag=0",
         "the replica 10.0.0.2:6379 is wait_bgsave"},
        {"slave0:10.0.0.2,6379,online", NULL},
        {"slave0:10.0.0.2,6379,send_bulk", "the replica 10.0.0.2:6379 is send_bulk"},
        {"slave1:ip=10.0.0.2,port=6379,state=send_bulk,offset=1,lag=0", NULL}, /* there is one */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)snprintf(facts.info, sizeof facts.info,
                       MEMORY KEPT "role:master\r\nconnected_slaves:1\r\n%s\r\n", rows[i].line);
        if (rows[i].what)
            says("replication", DOCTOR_WARNING, rows[i].what);
        check();
        assert_true(rows[i].what || !find("last reported"));
    }
}

static void with_replicas(const char *good) {
    (void)snprintf(facts.info, sizeof facts.info,
                   MEMORY KEPT "role:master\r\nconnected_slaves:2\r\nmin_slaves_good_slaves:%s\r\n",
                   good);
}

TEST(a_master_without_enough_replicas_refuses_locks) {
    with_replicas("1");
    set(CONFIG_MIN_LAG, "10");
    set(CONFIG_MIN_REPLICAS, "2");
    const doctor_finding *x = says("replication", DOCTOR_DANGER,
                                   "1 of at least 2 replicas are there");
    assert_non_null(strstr(x->fix, "CONFIG SET min-replicas-to-write 1"));
    facts.version = DOCTOR_VERSION(4, 0, 14); /* which doesn't refuse scripts */
    x = says("replication", DOCTOR_WARNING, "1 of at least 2 replicas are there");
    assert_non_null(strstr(x->fix, "CONFIG SET min-slaves-to-write 1"));
    with_replicas("2");
    check();
    assert_null(find("replicas are there"));
}

TEST(a_master_that_was_cut_off_goes_on_granting) {
    with_replicas("2");
    says("replication", DOCTOR_WARNING, "there are replicas, and min-replicas-to-write is 0");
    facts.care.wait_replicas = 2; /* what it grants then doesn't count */
    says("replication", DOCTOR_NOTE, "there are replicas, and min-replicas-to-write is 0");
    facts.care.wait_replicas = 0;
    set(CONFIG_MIN_REPLICAS, "2");
    set(CONFIG_MIN_LAG, "0");
    says("replication", DOCTOR_WARNING, "min-replicas-max-lag is 0");
    facts.config[CONFIG_MIN_REPLICAS].known = false;
    says("replication", DOCTOR_UNSEEN, "min-replicas-to-write");
}

TEST(older_masters_do_not_stop_scripts) {
    with_replicas("2");
    facts.version = DOCTOR_VERSION(4, 0, 14);
    says("replication", DOCTOR_WARNING, "doesn't stop scripts");
    set(CONFIG_MIN_REPLICAS, "1");
    says("replication", DOCTOR_WARNING, "min-slaves-to-write is 1, but doesn't stop scripts");
    facts.version = DOCTOR_VERSION(2, 6, 17);
    const doctor_finding *x = says("replication", DOCTOR_WARNING, "has no min-slaves-to-write");
    assert_non_null(strstr(x->fix, "upgrade to 7.0"));
}

/* ---- what it is ------------------------------------------------------------------------------ */

TEST(a_sentinel_keeps_no_locks_and_nothing_else_of_it_matters) {
    info("redis_mode:sentinel\r\n");
    doctor_check(&facts, &report);
    assert_int_equal(report.count, 1);
    assert_string_equal(report.finding[0].what, "this is a Sentinel, which keeps no locks");
    assert_int_equal(report.finding[0].level, DOCTOR_DANGER);
}

TEST(a_node_of_a_cluster_that_is_asked_alone_is_told) {
    info("redis_mode:cluster\r\n" MEMORY KEPT MASTER);
    says_only("cluster", DOCTOR_WARNING, "this is a node of a cluster");
    facts.by_cluster = true;
    check();
    assert_null(find("this is a node of a cluster"));
}

TEST(what_could_not_be_looked_at_is_told) {
    (void)snprintf(facts.config_why, sizeof facts.config_why, "NOPERM");
    const doctor_finding *x = says_only("config", DOCTOR_UNSEEN, "the configuration: NOPERM");
    assert_non_null(strstr(x->fix, "+config|get"));
    facts.config_lacks = true;
    assert_non_null(strstr(says("config", DOCTOR_UNSEEN, "the configuration")->fix, "renamed"));
    facts.config_why[0] = '\0';
    (void)snprintf(facts.info_why, sizeof facts.info_why, "NOPERM");
    says("info", DOCTOR_UNSEEN, "the state of the server: NOPERM");
}

TEST(the_worst_comes_first_and_else_what_was_found_first) {
    report.count = 0;
    doctor_found(&report, "a", DOCTOR_NOTE, "a");
    doctor_found(&report, "b", DOCTOR_DANGER, "b");
    doctor_found(&report, "c", DOCTOR_UNSEEN, "c");
    doctor_found(&report, "d", DOCTOR_DANGER, "d");
    doctor_found(&report, "e", DOCTOR_WARNING, "e");
    doctor_sort(&report);
    static const char *const order[] = {"b", "d", "e", "c", "a"};
    for (int i = 0; i < 5; i++)
        assert_string_equal(report.finding[i].id, order[i]);
}
