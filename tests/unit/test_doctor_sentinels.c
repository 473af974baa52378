/*
 * What the doctor says of a set of Sentinels, from what each of them has answered.
 */
#include <string.h>

#include "doctor/doctor.h"
#include "tests.h"

static sentinels set;
static doctor_report report;

/* Three that agree, as far as a test doesn't change it. */
static int set_up(void **state) {
    (void)state;
    memset(&report, 0, sizeof report);
    set = (sentinels){.master = "main", .seeds = 3, .count = 3};
    for (unsigned i = 0; i < 3; i++) {
        set.of[i] = (sentinel){.port = (uint16_t)(26379 + i), .quorum = 2};
        (void)snprintf(set.of[i].label, sizeof set.of[i].label, "10.0.0.%u:26379", i + 1);
        set.view[i] = (tl_sentinel_view){
            .kind = TL_VIEW_NAMED, .run = i + 1, .epoch = 4, .others = 2, .port = 6379};
        (void)snprintf(set.view[i].host, sizeof set.view[i].host, "10.0.0.9");
    }
    return 0;
}

TESTS_WITH(set_up, NULL);

static int check(void) {
    report.count = 0;
    set.verdict = tl__sentinel_views_judge(set.view, set.count, set.seeds, 0);
    doctor_check_sentinels(&set, &report);
    return report.count;
}

static void silence(unsigned i, int status, const char *message) {
    set.view[i] = (tl_sentinel_view){.kind = TL_VIEW_NONE};
    set.of[i].status = status;
    (void)snprintf(set.of[i].message, sizeof set.of[i].message, "%s", message);
}

static void says(int i, doctor_level level, const char *what, const char *fix) {
    const doctor_finding *x = &report.finding[i];
    assert_string_equal(x->id, "sentinels");
    assert_int_equal(x->level, level);
    if (!strstr(x->what, what) || !strstr(x->fix, fix))
        fail_msg("no '%s', '%s' in: %s | %s", what, fix, x->what, x->fix);
    assert_true(x->why[0]);
}

TEST(nothing_is_said_of_three_that_agree) {
    assert_int_equal(check(), 0);
}

TEST(one_that_is_silent_is_named_and_a_majority_that_is_a_danger) {
    silence(2, STATUS_UNAVAILABLE, "connect 10.0.0.3:26379: connection refused");
    assert_int_equal(check(), 1);
    says(0, DOCTOR_WARNING, "10.0.0.3:26379: connection refused", "remove it from the URL");
    set.seeds = 2; /* the others alone know of it */
    assert_int_equal(check(), 1);
    says(0, DOCTOR_WARNING, "10.0.0.3:26379: connection refused", "SENTINEL RESET main");
    set.seeds = 3;
    silence(1, STATUS_UNAVAILABLE, "no reply in 5000 ms");
    assert_int_equal(check(), 3);
    says(0, DOCTOR_DANGER, "no majority of the Sentinels: 1 of 3 answer",
         "each has a finding of "
         "its own");
}

TEST(a_login_that_is_refused_is_not_an_outage) {
    silence(0, STATUS_REFUSED, "10.0.0.1:26379: wrong user or password");
    assert_int_equal(check(), 1);
    says(0, DOCTOR_WARNING, "wrong user or password", "TIDELOCK_SENTINEL_PASSWORD");
    silence(0, STATUS_REFUSED,
            "connect 10.0.0.1:26379: TLS: the server's certificate is not accepted: expired");
    assert_int_equal(check(), 1);
    says(0, DOCTOR_WARNING, "is not accepted", "--tls-name");
}

TEST(a_name_that_nobody_knows_is_a_danger_and_that_one_doesnt_a_warning) {
    set.view[1] = (tl_sentinel_view){.kind = TL_VIEW_UNKNOWN, .run = 2};
    assert_int_equal(check(), 1);
    says(0, DOCTOR_WARNING, "10.0.0.2:26379 knows no master main", "make it monitor main");
    set.view[0] = (tl_sentinel_view){.kind = TL_VIEW_UNKNOWN, .run = 1};
    set.view[2] = (tl_sentinel_view){.kind = TL_VIEW_UNKNOWN, .run = 3};
    assert_int_equal(check(), 1);
    says(0, DOCTOR_DANGER, "the Sentinels know no master main", "check the name");
}

TEST(who_names_another_is_told_of) {
    (void)snprintf(set.view[2].host, sizeof set.view[2].host, "10.0.0.8");
    set.view[2].epoch = 3;
    assert_int_equal(check(), 1);
    says(0, DOCTOR_WARNING, "10.0.0.3:26379 names 10.0.0.8:6379, and the latest",
         "sentinel announce-ip");
    set.view[2].epoch = 5; /* a failover that the others haven't heard of */
    assert_int_equal(check(), 1);
    says(0, DOCTOR_DANGER, "10.0.0.1:26379 names 10.0.0.9:6379", "passes in seconds");
}

TEST(a_quorum_is_a_majority_and_no_more_than_there_are) {
    set.of[1].quorum = 1;
    assert_int_equal(check(), 1);
    says(0, DOCTOR_WARNING, "the quorum of 10.0.0.2:26379 is 1 of 3 Sentinels, less",
         "SENTINEL SET main quorum 2");
    set.of[1].quorum = 4;
    assert_int_equal(check(), 1);
    says(0, DOCTOR_WARNING, "is 4 of 3 Sentinels, more than there are", "quorum 2");
    set.of[1].quorum = 3;
    assert_int_equal(check(), 0);
}

TEST(two_are_too_few) {
    set.seeds = set.count = 2;
    set.view[0].others = set.view[1].others = 1;
    assert_int_equal(check(), 1);
    says(0, DOCTOR_WARNING, "there are two Sentinels", "run three");
}

/* Its user may ask neither, and the URL names them otherwise than they are announced. */
TEST(sentinels_that_do_not_say_who_they_are_are_told_of) {
    for (unsigned i = 0; i < 3; i++)
        set.view[i].run = 0;
    assert_int_equal(check(), 0);
    set.count = 6;
    for (unsigned i = 3; i < 6; i++) {
        set.of[i] = set.of[i - 3];
        set.view[i] = set.view[i - 3];
    }
    assert_int_equal(check(), 1);
    says(0, DOCTOR_DANGER, "6 of the addresses", "SENTINEL MYID");
    for (unsigned i = 0; i < 5; i++)
        set.view[i].id = i % 3 + 1;
    assert_int_equal(check(), 1);
    says(0, DOCTOR_WARNING, "1 of the addresses", "SENTINEL MYID");
}
