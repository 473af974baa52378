/*
 * Which row of what a failover can promise a server is in, as the doctor says, from what it and others have told.
 */
#include <string.h>

#include "doctor/doctor.h"
#include "tests.h"

static doctor_facts facts;
static doctor_report report;

/* A master that keeps all, with two replicas, as far as a test doesn't change it. */
static int set_up(void **state) {
    (void)state;
    memset(&facts, 0, sizeof facts);
    facts.version = DOCTOR_VERSION(7, 0, 15);
    facts.ttl_ms = 30000;
    (void)snprintf(
        facts.info, sizeof facts.info, "%s",
        "role:master\r\nredis_mode:standalone\r\naof_enabled:1\r\nconnected_slaves:2\r\n");
    return 0;
}

TESTS_WITH(set_up, NULL);

static void by_sentinels(int64_t replicas) {
    facts.by_sentinels = true;
    facts.heard = (sentinels){.master = "main", .seeds = 3, .count = 3};
    facts.heard.of[2].replicas = replicas; /* the others haven't heard of the last one yet */
    facts.heard.of[0].replicas = facts.heard.of[1].replicas = 2;
}

static void min_replicas(const char *least) {
    facts.config[CONFIG_MIN_REPLICAS].known = facts.config[CONFIG_MIN_LAG].known = true;
    (void)snprintf(facts.config[CONFIG_MIN_REPLICAS].text, 8, "%s", least);
    (void)snprintf(facts.config[CONFIG_MIN_LAG].text, 8, "10");
}

static const doctor_finding *find(const char *what) {
    report.count = 0;
    doctor_check_failover(&facts, &report);
    for (int i = 0; i < report.count; i++)
        if (strstr(report.finding[i].what, what))
            return &report.finding[i];
    return NULL;
}

static const doctor_finding *says(doctor_level level, const char *what) {
    const doctor_finding *x = find(what);
    if (!x)
        fail_msg("not found: %s", what);
    assert_int_equal(x->level, level);
    return x;
}

TEST(who_asks_about_the_master_needs_a_second_more_than_a_lifetime) {
    for (int i = 0; i < 2; i++) {
        facts.by_cluster = i == 1;
        facts.by_sentinels = i == 0;
        facts.care.quiet_ms = 31000;
        assert_int_equal(doctor_promised(&facts), DOCTOR_GENERAL);
        facts.care.quiet_ms = 30999;
        assert_int_equal(doctor_promised(&facts), DOCTOR_DEAD);
    }
    facts.by_cluster = facts.by_sentinels = false;
    facts.care.quiet_ms = 40000;
    assert_int_equal(doctor_promised(&facts), DOCTOR_DEAD);
}

TEST(advice_leads_to_the_row_that_it_names) {
    const doctor_finding *x = says(DOCTOR_WARNING, "two clients may hold a lock at once");
    assert_string_equal(
        x->fix, "a redis+sentinel:// URL and quiet_ms of 31.0 s in all clients; or "
                "min-replicas-to-write 2, min-replicas-max-lag 10 and quiet_ms of 42.0 s; or "
                "wait_replicas 2");
    min_replicas("2");
    facts.care.quiet_ms = 42000;
    assert_int_equal(doctor_promised(&facts), DOCTOR_GENERAL);
    facts.care.quiet_ms = 41999;
    assert_int_equal(doctor_promised(&facts), DOCTOR_DEAD);
    facts.care = (server_care){.wait_replicas = 2};
    assert_int_equal(doctor_promised(&facts), DOCTOR_ALWAYS);
}

TEST(a_node_of_a_cluster_is_sent_to_a_clusters_url) {
    (void)snprintf(facts.info, sizeof facts.info, "%s",
                   "role:master\r\nredis_mode:cluster\r\naof_enabled:1\r\nconnected_slaves:1\r\n");
    const doctor_finding *x = says(DOCTOR_WARNING, "two clients may hold a lock at once");
    assert_non_null(strstr(x->fix, "a redis+cluster:// URL and quiet_ms of 31.0 s"));
}

TEST(replicas_that_are_away_may_take_over_too) {
    by_sentinels(3);
    facts.care.wait_replicas = 2;
    assert_int_equal(doctor_promised(&facts), DOCTOR_FENCE);
    assert_non_null(find("wait_replicas 2 of 3"));
    says(DOCTOR_WARNING, "the Sentinels know of 3 replicas, and the master has 2");
    by_sentinels(2);
    assert_int_equal(doctor_promised(&facts), DOCTOR_ALWAYS);
    assert_null(find("the Sentinels know of"));

    facts.by_sentinels = false;
    facts.known = 3; /* as a cluster's nodes say */
    assert_int_equal(doctor_promised(&facts), DOCTOR_FENCE);
    facts.care = (server_care){.quiet_ms = 42000};
    min_replicas("2");
    assert_int_equal(doctor_promised(&facts), DOCTOR_DEAD);
    min_replicas("3");
    assert_int_equal(doctor_promised(&facts), DOCTOR_GENERAL);
}

TEST(more_replicas_than_there_are_confirm_nothing) {
    facts.care.wait_replicas = 3;
    const doctor_finding *x = says(DOCTOR_DANGER, "wait_replicas is 3, and the server has 2");
    assert_non_null(strstr(x->fix, "add replicas"));
    by_sentinels(3);
    x = says(DOCTOR_DANGER, "wait_replicas is 3, and the server has 2");
    assert_non_null(strstr(x->fix, "start the replicas"));
    (void)snprintf(facts.info, sizeof facts.info, "%s",
                   "role:master\r\naof_enabled:1\r\nconnected_slaves:0\r\n");
    facts.by_sentinels = false;
    says(DOCTOR_DANGER, "wait_replicas is 3, and the server has 0"); /* nobody could take over */
}

TEST(what_a_version_cannot_do_promises_nothing) {
    facts.version = DOCTOR_VERSION(3, 2, 13);
    facts.care.quiet_ms = 42000;
    assert_int_equal(doctor_promised(&facts), DOCTOR_FENCE);
    says(DOCTOR_DANGER, "quiet_ms needs Redis 4.0");
    facts.care.wait_replicas = 2;
    assert_int_equal(doctor_promised(&facts), DOCTOR_ALWAYS);
    facts.version = DOCTOR_VERSION(2, 8, 24);
    assert_int_equal(doctor_promised(&facts), DOCTOR_FENCE);
    says(DOCTOR_DANGER, "wait_replicas needs WAIT");
    facts.version = DOCTOR_VERSION(4, 0, 0);
    facts.care.wait_replicas = 0;
    assert_int_equal(doctor_promised(&facts), DOCTOR_DEAD);
    assert_null(find("needs"));
    facts.version = 0; /* not known */
    assert_int_equal(doctor_promised(&facts), DOCTOR_DEAD);
}

TEST(while_slots_are_moved_replicas_that_confirm_are_no_promise) {
    facts.by_cluster = facts.moving = true;
    facts.care.wait_replicas = 2;
    assert_int_equal(doctor_promised(&facts), DOCTOR_FENCE);
    const doctor_finding *x = says(DOCTOR_WARNING, "two clients may hold a lock at once");
    assert_non_null(strstr(x->why, "slots are being moved"));
    assert_null(strstr(x->fix, "wait_replicas"));
    facts.care.quiet_ms = 31000;
    assert_int_equal(doctor_promised(&facts), DOCTOR_GENERAL);
    facts.moving = false;
    assert_int_equal(doctor_promised(&facts), DOCTOR_ALWAYS);
}

static void set(int which, const char *text) {
    facts.config[which].known = true;
    (void)snprintf(facts.config[which].text, sizeof facts.config[which].text, "%s", text);
}

/* One server alone, with an append-only file. */
static void be_alone(const char *fsync, const char *not_during_a_save) {
    (void)snprintf(facts.info, sizeof facts.info, "%s",
                   "role:master\r\naof_enabled:1\r\nconnected_slaves:0\r\n");
    facts.version = DOCTOR_VERSION(7, 2, 4);
    set(CONFIG_APPENDFSYNC, fsync);
    set(CONFIG_NO_FSYNC, not_during_a_save);
}

TEST(what_is_not_synced_during_a_save_may_be_forgotten) {
    be_alone("always", "no");
    assert_int_equal(doctor_promised(&facts), DOCTOR_NEVER);
    be_alone("always", "yes");
    assert_int_equal(doctor_promised(&facts), DOCTOR_FENCE);
    says(DOCTOR_WARNING, "quiet_ms is off, and a restart forgets locks");
    facts.care.quiet_ms = 30000;
    assert_int_equal(doctor_promised(&facts), DOCTOR_GENERAL);
    facts.care = (server_care){.wait_fsync = true}; /* what isn't on the disk then doesn't count */
    assert_int_equal(doctor_promised(&facts), DOCTOR_NEVER);
}

TEST(who_waits_for_the_disk_acquires_nothing_during_a_save) {
    static const char text[] = "no-appendfsync-on-rewrite is yes, and clients wait for the disk";
    facts.care.wait_fsync = true;
    be_alone("always", "yes");
    const doctor_finding *x = says(DOCTOR_WARNING, text);
    assert_string_equal(x->fix, "CONFIG SET no-appendfsync-on-rewrite no");
    be_alone("everysec", "yes");
    says(DOCTOR_WARNING, text);
    says(DOCTOR_NOTE, "appendfsync is everysec, and clients wait for the disk");
    be_alone("no", "yes"); /* where nobody acquires anything */
    assert_null(find(text));
    says(DOCTOR_DANGER, "appendfsync is no");
    be_alone("always", "no");
    assert_null(find(text));
    be_alone("always", "yes");
    facts.care.wait_fsync = false;
    assert_null(find(text));
}
