/*
 * What the doctor says of a cluster, from what each of its nodes has answered.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include "tests.h"

#define NODES 6 /* three masters, and a replica of each behind them */

static cluster_survey all;
static cluster_node node[CLUSTER_NODES_MOST];
static doctor_report report;

/* As if each had an id of one letter. */
static const char *ids[NODES] = {"a", "b", "c", "d", "e", "f"};
static const char *shares[NODES / 2] = {"0-5460", "5461-10922", "10923-16383"};

static unsigned master_of(unsigned i) {
    return i % (NODES / 2);
}

/* What node `who` says of all, with more behind the slots of its own line. */
static void tells(unsigned who, const char *const slots[NODES / 2], const char *more) {
    char text[2048];
    size_t n = 0;
    for (unsigned i = 0; i < NODES; i++)
        n += (size_t)snprintf(
            text + n, sizeof text - n, "%s 10.0.0.%u:6379@16379 %s%s %s 0 0 %u connected%s%s%s\n",
            ids[i], i + 1, i == who ? "myself," : "", i < NODES / 2 ? "master" : "slave",
            i < NODES / 2 ? "-" : ids[master_of(i)], master_of(i) + 1, i < NODES / 2 ? " " : "",
            i < NODES / 2 ? slots[i] : "", i == who ? more : "");
    free(node[who].owner);
    node[who].owner = NULL;
    node[who].open = 0;
    assert_true(cluster_survey_learn(&all, who, tl__bytes(text, n)));
}

/* All are well, as far as a test doesn't change it. */
static int set_up(void **state) {
    (void)state;
    memset(&report, 0, sizeof report);
    memset(node, 0, sizeof node);
    all = (cluster_survey){.of = node, .count = NODES, .answered = NODES};
    for (unsigned i = 0; i < NODES; i++) {
        node[i] = (cluster_node){.port = 6379, .asked = true, .ok = true, .coverage = "no"};
        (void)snprintf(node[i].id, sizeof node[i].id, "%s", ids[i]);
        (void)snprintf(node[i].host, sizeof node[i].host, "10.0.0.%u", i + 1);
        (void)snprintf(node[i].label, sizeof node[i].label, "10.0.0.%u:6379", i + 1);
        (void)snprintf(node[i].product, sizeof node[i].product, "Redis 7.0.15");
        node[i].track.known = true;
        node[i].offset = (tl_interval){-100, 100};
    }
    for (unsigned i = 0; i < NODES; i++)
        tells(i, shares, "");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (unsigned i = 0; i < CLUSTER_NODES_MOST; i++)
        free(node[i].owner);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static int check(void) {
    report.count = 0;
    doctor_check_cluster(&all, &report);
    return report.count;
}

static void silence(unsigned i, int status, const char *message) {
    node[i].status = status;
    all.answered--;
    (void)snprintf(node[i].message, sizeof node[i].message, "%s", message);
}

static void says(int i, const char *id, doctor_level level, const char *what, const char *fix) {
    const doctor_finding *x = &report.finding[i];
    if (strcmp(x->id, id) != 0 || x->level != level || !strstr(x->what, what) ||
        !strstr(x->fix, fix))
        fail_msg("no %s '%s', '%s' in: %s %s: %s | %s", id, what, fix, x->id,
                 doctor_level_name(x->level), x->what, x->fix);
    assert_true(x->why[0]);
}

static bool is_only_at(int i, unsigned which) {
    for (unsigned k = 0; k < NODES; k++)
        if (doctor_is_at(&report.finding[i], k) != (k == which))
            return false;
    return true;
}

TEST(nothing_is_said_of_three_masters_with_a_replica_each) {
    assert_int_equal(check(), 0);
}

TEST(nodes_beyond_those_that_are_looked_at_are_told_of) {
    all.more = true;
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_WARNING, "only 100 nodes", "--cluster check 10.0.0.1:6379");
}

TEST(a_master_that_is_silent_is_a_danger_and_a_replica_a_warning) {
    silence(3, STATUS_UNAVAILABLE, "connect 10.0.0.4:6379: connection refused");
    node[3].failing = true;
    assert_int_equal(check(), 2);
    says(0, "cluster", DOCTOR_WARNING, "10.0.0.4:6379 doesn't answer: connect 10.0.0.4:6379",
         "CLUSTER FORGET d");
    says(1, "cluster", DOCTOR_WARNING, "a master has no replica", "--cluster-master-id a");
    assert_true(is_only_at(1, 0));
    silence(1, STATUS_UNAVAILABLE, "connect 10.0.0.2:6379: connection refused");
    node[1].failing = true;
    assert_int_equal(check(), 3);
    says(0, "cluster", DOCTOR_DANGER, "10.0.0.2:6379 doesn't answer", "FAILOVER TAKEOVER");
}

TEST(an_address_that_only_nodes_reach_is_told_from_a_node_that_is_gone) {
    silence(1, STATUS_UNAVAILABLE, "connect 10.0.0.2:6379: no answer");
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_DANGER, "10.0.0.2:6379, which other nodes are connected to",
         "cluster-announce-ip");
}

TEST(where_clients_are_led_to_is_looked_at_too) {
    all.count = NODES + 1;
    node[NODES] = (cluster_node){.port = 1, .asked = true, .led_to = "b"};
    (void)snprintf(node[NODES].label, sizeof node[NODES].label, "192.0.2.1:6379");
    silence(NODES, STATUS_UNAVAILABLE, "connect 192.0.2.1:6379: no answer");
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_DANGER, "sends clients to 192.0.2.1:6379 for 10.0.0.2:6379",
         "cluster-announce-ip");
    (void)snprintf(node[NODES].led_to, sizeof node[NODES].led_to, "e");
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_WARNING, "for 10.0.0.5:6379", "cluster-announce-ip");
}

TEST(a_node_with_another_password_is_named) {
    silence(0, STATUS_REFUSED, "10.0.0.1:6379: wrong user or password");
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_DANGER, "10.0.0.1:6379 refuses the login", "masterauth");
    silence(0, STATUS_REFUSED, "connect 10.0.0.1:6379: TLS: the handshake failed: x");
    check();
    says(0, "cluster", DOCTOR_DANGER, "10.0.0.1:6379 refuses the login: ", "--tls-name");
}

TEST(what_is_no_node_or_anothers_is_told) {
    all.count = NODES + 1;
    node[NODES] = (cluster_node){.port = 1, .asked = true, .seed = true, .stranger = true};
    (void)snprintf(node[NODES].label, sizeof node[NODES].label, "10.0.0.9:6379");
    silence(NODES, STATUS_UNAVAILABLE, "x");
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_WARNING, "10.0.0.9:6379 of the URL is no node", "from the URL");
    for (unsigned i = 0; i < NODES; i++)
        node[i].named = i != 3;
    node[NODES].twice = true;
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_DANGER, "no other node knows 10.0.0.4:6379", "CLUSTER MEET");
}

TEST(slots_without_a_master_are_listed_and_the_state_is_told_once) {
    const char *const lacking[] = {"0-5460", "5461-10920 10922", "10923-16383"};
    for (unsigned i = 0; i < NODES; i++) {
        tells(i, lacking, "");
        node[i].ok = i == 4;
    }
    assert_int_equal(check(), 2);
    says(0, "cluster", DOCTOR_DANGER, "cluster_state:fail", "CLUSTER NODES");
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(doctor_is_at(&report.finding[0], i), i != 4);
    says(1, "cluster", DOCTOR_DANGER, "1 slot has no master: 10921", "--cluster fix 10.0.0.1:6379");
}

TEST(nodes_that_disagree_are_told_of_and_the_later_claim_counts) {
    const char *const stale[] = {"0-5461", "5462-10922", "10923-16383"};
    uint16_t owner[TL_SLOTS];
    tells(4, stale, "");
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_WARNING,
         "about 1 slot: of slot 5461 10.0.0.5:6379 says that 10.0.0.1:6379 has it, and "
         "10.0.0.2:6379 does",
         "--cluster check");
    tells(4, shares, "");
    tells(0, stale, ""); /* its epoch is 1, that of the other 2 */
    doctor_owners(&all, owner);
    assert_int_equal(owner[5461], 1);
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_WARNING, "slot 5461 10.0.0.1:6379 says that 10.0.0.1:6379", "check");
}

TEST(a_slot_that_was_left_open_is_told_once) {
    tells(0, shares, " [17->-b] [18->-b]");
    tells(1, shares, " [17-<-a] [18-<-a]");
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_WARNING,
         "slots 17 and 1 more are being moved from 10.0.0.1:6379 to 10.0.0.2:6379",
         "SETSLOT 17 STABLE");
    tells(0, shares, ""); /* one end alone */
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_WARNING, "being moved from 10.0.0.1:6379 to 10.0.0.2:6379", "STABLE");
}

TEST(with_fewer_than_three_masters_there_is_no_failover) {
    const char *const two[] = {"0-8191", "8192-16383", ""};
    for (unsigned i = 0; i < NODES; i++)
        tells(i, two, "");
    assert_int_equal(check(), 1);
    says(0, "cluster", DOCTOR_WARNING, "there are two masters with slots", "three masters");
}

TEST(full_coverage_and_versions_are_looked_at) {
    (void)snprintf(node[2].coverage, sizeof node[2].coverage, "yes");
    (void)snprintf(node[5].product, sizeof node[5].product, "Redis 6.2.1");
    assert_int_equal(check(), 2);
    says(0, "coverage", DOCTOR_NOTE, "cluster-require-full-coverage is yes", "CONFIG SET");
    assert_true(is_only_at(0, 2));
    says(1, "version", DOCTOR_WARNING,
         "10.0.0.1:6379 is Redis 7.0.15, 10.0.0.6:6379 is Redis 6.2.1", "to one version");
    node[2].coverage[0] = node[5].product[0] = '\0';
    assert_int_equal(check(), 1);
    says(0, "coverage", DOCTOR_UNSEEN, "cluster-require-full-coverage", "+config|get");
}

TEST(a_clock_that_is_off_is_named_and_no_other) {
    node[0].offset = (tl_interval){-200100, -199900}; /* this host's is behind it */
    node[4].offset = (tl_interval){1500000, 1500200};
    assert_int_equal(check(), 2);
    says(0, "cluster-clock", DOCTOR_WARNING, "the clock of 10.0.0.1:6379 is 199 ms ahead",
         "chronyc");
    says(1, "cluster-clock", DOCTOR_DANGER, "10.0.0.5:6379 is 1500 ms behind", "chronyc");
    node[0].offset = (tl_interval){-300000, 100000}; /* it may be right */
    node[4].track.known = false;
    assert_int_equal(check(), 1);
    says(0, "cluster-clock", DOCTOR_UNSEEN, "the clock of 10.0.0.5:6379", "+time");
}

/* Texts of nodes are read with suspicion. */
TEST(half_of_a_line_is_no_node) {
    static const char text[] = "g\nh 10.0.0.8:6379\ni 10.0.0.8:6379@1 master - 0 0 x connected 1\n"
                               "a 10.0.0.1:6379@1 myself,master - 0 0 1 connected 0-99999 -1 [ "
                               "[5->- [7-x 70000\n"
                               "j :0@0 master,noaddr - 0 0 9 disconnected 3\n";
    free(node[0].owner);
    node[0].owner = NULL;
    assert_true(cluster_survey_learn(&all, 0, tl__bytes(text, sizeof text - 1)));
    assert_int_equal(all.count, NODES + 1);
    assert_string_equal(node[NODES].id, "j");
    assert_int_equal(node[NODES].port, 0);
    assert_int_equal(node[0].owner[3], NODES);
    assert_int_equal(node[0].owner[0], TL_NOBODY);
}
