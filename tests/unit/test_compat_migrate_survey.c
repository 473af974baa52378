/*
 * What a survey makes of locks, commands and connections: each key counts once, families are joined only if
 * they are alike, and the lines to type are quoted.
 */
#include "tests.h"
#include "legacy/migrate_record.h"
#include "migrate/migrate_survey.h"

#define NOW_MS INT64_C(1763700000000)
#define NOW_US (NOW_MS * 1000)

const char *show_ms(char buf[DURATION_SHOWN], int64_t ms) {
    (void)snprintf(buf, DURATION_SHOWN, "%lld ms", (long long)ms);
    return buf;
}

static migrate_view view;
static survey made;

static int begin(void **state) {
    (void)state;
    view = (migrate_view){.name = "default", .now_us = NOW_US};
    made = (survey){.view = &view, .name = "default", .keys = "*", .whole = true};
    return found_begin(&made.found) && heard_begin(&made.heard, &view.reg) ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    found_end(&made.found);
    heard_end(&made.heard);
    return 0;
}

/* A stamp that ends in so many ms. */
static found_family *stamp(const char *key, int64_t left_ms, const char *dialects) {
    tl_lock_info info = {.protocol = TL_TIMESTAMP, .guessed = true, .stamp_left_ms = left_ms};
    return found_learn(&made.found, &view, tl__bytes_of(key), &info, dialects);
}

static void token(const char *key) {
    tl_lock_info info = {.protocol = TL_TOKEN, .remaining_ms = 1000, .stamp_left_ms = INT64_MIN};
    (void)found_learn(&made.found, &view, tl__bytes_of(key), &info, "");
}

static found_family *again(const char *key, int64_t left_ms, int protocol, bool ours) {
    tl_lock_info info = {.protocol = protocol, .stamp_left_ms = left_ms, .by_tidelock = ours};
    return found_again(&made.found, tl__bytes_of(key), &info);
}

static void registered_in(int phase) {
    view.reg = (migrate_register){
        .there = true, .readable = true, .phase = phase, .epoch = 2, .keys = "jobs:*"};
    made.registered.whole = true;
}

static const char *pattern(int i) {
    static char buf[NAMES_PATTERN];
    assert_true(i < made.found.families);
    return names_pattern(buf, &made.found.family[i].names);
}

/* ---- families ------------------------------------------------------------------------------------ */

TEST_WITH(a_key_counts_once, begin, end) {
    assert_non_null(stamp("jobs:a", 1000, "java"));
    assert_null(stamp("jobs:a", 900, "java"));
    assert_non_null(stamp("jobs:b", -1, "java"));
    assert_int_equal(made.found.families, 1);
    assert_int_equal(made.found.family[0].stamps, 2);
    assert_int_equal(made.found.family[0].over, 1);
    assert_int_equal(made.found.family[0].locks.strays.count, 2);
    assert_int_equal(made.found.family[0].form[0].count, 2);
    assert_int_equal(made.found.family[0].left_most_ms, 1000);
}

TEST_WITH(alike_families_are_one_pattern, begin, end) {
    (void)stamp("jobs:import:a", 1000, "java");
    (void)stamp("jobs:export:b", 1000, "java");
    (void)stamp("cron:x", 1000, "java");
    found_join(&made.found);
    assert_int_equal(made.found.families, 2);
    assert_string_equal(pattern(0), "jobs:*");
    assert_int_equal(made.found.family[0].locks.strays.count, 2);
    assert_string_equal(made.found.family[0].locks.strays.example[1].key, "jobs:export:b");
    assert_string_equal(pattern(1), "cron:*");
}

TEST_WITH(families_that_differ_stay_apart, begin, end) {
    (void)stamp("app:lock:a", 1000, "java");
    (void)stamp("app:seen:a", -2 * FOUND_OLD_MS, "java");
    (void)stamp("app:cron:a", 1000, "redis-doc");
    token("app:token:a");
    found_join(&made.found);
    assert_int_equal(made.found.families, 4);
    assert_string_equal(pattern(0), "app:lock:*");
    assert_true(survey_counts(&made.found.family[0]));
    assert_false(survey_counts(&made.found.family[1])); /* old */
    assert_true(survey_counts(&made.found.family[2]));
    assert_false(survey_counts(&made.found.family[3]));
}

TEST_WITH(a_family_that_is_written_is_not_old, begin, end) {
    (void)stamp("jobs:a", -2 * FOUND_OLD_MS, "java");
    assert_true(found_is_old(&made.found.family[0]));
    (void)found_heard(&made.found, tl__bytes_of("jobs:a"), "java");
    assert_false(found_is_old(&made.found.family[0]));
}

TEST_WITH(odd_values_alone_are_no_locks_to_share, begin, end) {
    tl_lock_info info = {
        .protocol = -1, .held = true, .stamp_left_ms = INT64_MIN, .oddity = "holds a constant"};
    char line[SURVEY_LINE];
    (void)found_learn(&made.found, &view, tl__bytes_of("flag:lock"), &info, "");
    assert_int_equal(made.found.family[0].odd, 1);
    assert_false(survey_counts(&made.found.family[0]));
    (void)stamp("flag:other", 1000, "java");
    survey_conclude(&made);
    assert_true(survey_counts(&made.found.family[0]));
    assert_string_equal(made.found.family[0].oddity, "holds a constant");
    assert_non_null(strstr(survey_init_line(line, &made, &made.found.family[0]), "'flag:*'"));
}

TEST_WITH(families_beyond_the_room_are_counted, begin, end) {
    char key[16];
    for (int i = 0; i < FOUND_FAMILIES + 3; i++) {
        (void)snprintf(key, sizeof key, "%c%c%c:x", 'a' + i % 26, 'a' + i / 26 % 26, 'a' + i / 676);
        (void)stamp(key, 1000, "java");
    }
    assert_int_equal(made.found.families, FOUND_FAMILIES);
    assert_int_equal(made.found.dropped, 3);
    registered_in(PHASE_DRAIN); /* the locks that don't fit may be the register's */
    survey_conclude(&made);
    assert_int_equal(made.phase[PHASE_TOKEN].count, 1);
    assert_non_null(strstr(made.phase[PHASE_TOKEN].item[0].what, "than the survey can keep"));
}

/* ---- MONITOR ------------------------------------------------------------------------------------- */

static void says(int64_t at_ms, const char *client, const char *words) {
    char line[300];
    skew_heard heard_line;

    (void)snprintf(line, sizeof line, "%lld.%06lld [0 %s] %s", (long long)((NOW_MS + at_ms) / 1000),
                   (long long)((NOW_MS + at_ms) % 1000 * 1000), client, words);
    assert_true(skew_monitor_read(tl__bytes_of(line), &heard_line));
    heard_learn(&made.heard, &made.found, &heard_line);
}

static void takes(int64_t at_ms, const char *client, const char *command, const char *key,
                  int64_t life_ms) {
    char words[200];
    (void)snprintf(words, sizeof words, "\"%s\" \"%s\" \"%lld\"", command, key,
                   (long long)(NOW_MS + at_ms + life_ms));
    says(at_ms, client, words);
}

TEST_WITH(commands_show_lifetimes_holds_and_delays, begin, end) {
    takes(0, "10.0.0.5:1000", "SETNX", "jobs:a", 60000);
    says(250, "10.0.0.5:1000", "\"DEL\" \"jobs:a\"");
    takes(1000, "10.0.0.6:2000", "SETNX", "jobs:a", 30000);
    says(1001, "10.0.0.6:2000", "\"GET\" \"jobs:a\"");
    takes(1040, "10.0.0.6:2000", "GETSET", "jobs:a", 30000);
    says(1140, "10.0.0.6:2000", "\"del\" \"jobs:a\"");
    says(1150, "10.0.0.6:2000", "\"del\" \"jobs:a\""); /* it has none any more */
    const found_family *family = &made.found.family[0];
    assert_int_equal(family->takes, 3);
    assert_int_equal(family->lifetimes.count, 3);
    assert_int_equal(family->lifetimes.least_ms, 30000);
    assert_int_equal(family->holds.count, 2);
    assert_int_equal(family->holds.least_ms, 100);
    assert_int_equal(family->holds.most_ms, 250);
    assert_int_equal(made.heard.delays.count, 1);
    assert_int_equal(made.heard.delays.most_ms, 40);
    assert_int_equal(made.heard.clients, 2);
    assert_int_equal(made.heard.client[1].takes, 2);
    assert_string_equal(made.heard.client[1].host, "10.0.0.6");
    assert_string_equal(made.heard.client[1].key[0], "jobs:a");
    assert_string_equal(family->form[0].dialects, "java, jedis-lock, node-ms");
}

TEST_WITH(looks_count_where_they_show_a_shorter_lifetime, begin, end) {
    found_family *family = stamp("jobs:a", 1000, "java");
    found_look(family, 59700, 60100);
    assert_int_equal(found_lifetimes(family).least_ms, 59700);
    found_sample(&family->lifetimes, 59990, 59990);
    assert_int_equal(found_lifetimes(family).least_ms, 59990);
    found_look(family, 29700, 30100);
    assert_int_equal(found_lifetimes(family).least_ms, 29700);
    assert_int_equal(found_lifetimes(family).count, 3);
    found_samples into = {.count = 0};
    found_join_samples(&into, &family->looks);
    assert_int_equal(into.least_upper_ms, 30100);
    assert_int_equal(into.count, 2);
}

/* A stamp of long ago that is written again, or one by a clock far behind. */
TEST_WITH(a_stamp_that_was_over_as_it_was_written_shows_no_lifetime, begin, end) {
    found_family *family = stamp("jobs:a", 1000, "java");
    found_sample(&family->lifetimes, 59990, 59990);
    found_look(family, -196000000000, -195999999000);
    found_look(family, -400, 0);
    assert_int_equal(found_lifetimes(family).least_ms, 59990);
    assert_int_equal(found_lifetimes(family).count, 1);
}

/* A holder died, its stamp stayed for hours, and now another takes the lock over. */
TEST_WITH(an_old_stamp_that_is_written_again_is_a_locks, begin, end) {
    found_family *family = stamp("jobs:a", -2 * FOUND_OLD_MS, "java");
    (void)stamp("jobs:b", -2 * FOUND_OLD_MS, "java");
    assert_null(again("jobs:a", -3 * FOUND_OLD_MS, TL_TIMESTAMP, false));
    assert_null(again("jobs:a", INT64_MIN, TL_TIMESTAMP, false));
    assert_null(again("jobs:a", 1000, TL_TIMESTAMP, true));
    assert_null(again("jobs:a", 1000, TL_TOKEN, false));
    assert_null(again("other:a", 1000, TL_TIMESTAMP, false));
    assert_true(found_is_old(family));
    assert_ptr_equal(again("jobs:a", 900, TL_TIMESTAMP, false), family);
    assert_false(found_is_old(family));
    assert_int_equal(family->left_most_ms, 900);
    assert_int_equal(family->stamps, 2);
    assert_int_equal(family->over, 1);
    assert_null(again("jobs:b", 900, TL_TIMESTAMP, false)); /* once is enough */
}

TEST_WITH(other_commands_show_nothing, begin, end) {
    says(0, "10.0.0.5:1000", "\"SETNX\" \"jobs:a\" \"hello\"");
    says(0, "10.0.0.5:1000", "\"SET\" \"jobs:a\" \"1763700060000\"");
    says(0, "10.0.0.5:1000", "\"DEL\" \"jobs:a\"");
    made.heard.keys = "jobs:*";
    takes(0, "10.0.0.5:1000", "SETNX", "cron:a", 60000);
    assert_int_equal(made.found.families, 0);
    assert_int_equal(made.heard.clients, 0);
}

TEST_WITH(a_client_is_known_by_the_list, begin, end) {
    takes(0, "10.0.0.5:1000", "SETNX", "jobs:a", 60000);
    heard_list(&made.heard,
               tl__bytes_of("id=1 addr=10.0.0.5:1000 name=web cmd=del user=app lib-name=jedis "
                            "lib-ver=5.1.0\n"
                            "id=2 addr=[fe80::1]:7 name= cmd=getset user=default\n"
                            "id=3 addr=10.0.0.7:1 name= cmd=evalsha user=default lib-name=jedis\n"
                            "id=4 addr=10.0.0.8:1 name= cmd=get user=default\n"),
               true);
    assert_int_equal(made.heard.clients, 2);
    assert_string_equal(made.heard.client[0].row.library, "jedis");
    assert_string_equal(made.heard.client[1].host, "fe80::1");
    assert_int_equal(made.heard.connections, 4);
    assert_int_equal(made.heard.others, 3);
    heard_list(&made.heard, tl__bytes_of("id=2 addr=[fe80::1]:7 name= cmd=ping\n"), true);
    assert_string_equal(made.heard.client[1].row.command, "getset");
    assert_int_equal(made.heard.connections, 1);
}

/* ---- conclusions --------------------------------------------------------------------------------- */

TEST_WITH(the_lines_to_type_are_quoted_and_have_the_values, begin, end) {
    char line[SURVEY_LINE];
    (void)stamp("it's:a,1", 1000, "redis-doc, rb-resque");
    (void)stamp("it's:a,2", 1000, "redis-doc, rb-resque");
    survey_conclude(&made);
    const found_family *family = &made.found.family[0];
    assert_string_equal(survey_init_line(line, &made, family),
                        "tidelock migrate init --namespace default --keys 'it'\\''s:*' --phase 1 "
                        "--lease 30s");
    assert_string_equal(survey_client_line(line, &made, family),
                        "tidelock run --protocol auto --namespace 'it'\\''s:*=default' --dialect "
                        "redis-doc --clock-skew-max 1s --legacy-delay-max 500ms --legacy-ttl-min "
                        "60s KEY -- COMMAND");
}

/* ---- a cluster ----------------------------------------------------------------------------------- */

static void slots(int phase, int count, int epoch) {
    view.by_slots = made.by_cluster = true;
    if (phase < 0)
        view.slots.absent = count;
    else
        view.slots.in[phase] = count;
    view.slots.top = epoch > view.slots.top ? epoch : view.slots.top;
}

TEST_WITH(in_a_cluster_init_has_no_lease, begin, end) {
    char line[SURVEY_LINE];
    slots(-1, TL_SLOTS, 0);
    (void)stamp("jobs:a", 1000, "java");
    survey_conclude(&made);
    assert_true(survey_inits(&made));
    assert_string_equal(survey_init_line(line, &made, &made.found.family[0]),
                        "tidelock migrate init --namespace default --keys 'jobs:*' --phase 1");
    for (int i = 0; i < PHASES; i++)
        assert_true(made.judged[i]);
}

TEST_WITH(slots_whose_record_is_lost_keep_their_phase, begin, end) {
    char line[SURVEY_LINE];
    slots(PHASE_TOKEN, TL_SLOTS - 1, 9);
    slots(-1, 1, 9);
    (void)stamp("jobs:a", 1000, "java");
    survey_conclude(&made);
    assert_non_null(strstr(survey_init_line(line, &made, &made.found.family[0]), " --phase 3"));
    assert_true(made.judged[PHASE_TOKEN]);
    assert_false(made.judged[PHASE_TIMESTAMP] || made.judged[PHASE_BRIDGE] ||
                 made.judged[PHASE_DRAIN]);
}

TEST_WITH(slots_that_were_not_read_may_be_in_any_phase, begin, end) {
    slots(-1, TL_SLOTS - 5, 0);
    view.slots.unread = 5;
    view.flaws = (migrate_blockers){.count = 1, .item = {{.what = "a master can't be asked"}}};
    (void)stamp("jobs:a", 1000, "java");
    survey_conclude(&made);
    assert_false(survey_inits(&made));
    assert_true(made.judged[PHASE_BRIDGE]);
    assert_string_equal(made.phase[PHASE_BRIDGE].item[0].what, "a master can't be asked");
}

TEST_WITH(a_step_that_was_not_finished_is_the_next_one, begin, end) {
    registered_in(PHASE_DRAIN);
    slots(PHASE_DRAIN, TL_SLOTS - 1, 9);
    slots(PHASE_BRIDGE, 1, 8);
    takes(0, "10.0.0.5:1000", "SETNX", "jobs:a", 60000);
    survey_conclude(&made);
    assert_true(made.judged[PHASE_BRIDGE] && made.judged[PHASE_DRAIN]);
    assert_false(made.judged[PHASE_TOKEN]);
    assert_int_equal(made.phase[PHASE_DRAIN].count, 1);
    assert_non_null(strstr(made.alarm, "in phase 2, where none may run: 10.0.0.5:1000"));
}

TEST_WITH(the_highest_slot_says_whether_legacy_clients_may_run, begin, end) {
    registered_in(PHASE_BRIDGE);
    slots(PHASE_BRIDGE, TL_SLOTS - 1, 9);
    slots(PHASE_DRAIN, 1, 8);
    takes(0, "10.0.0.5:1000", "SETNX", "jobs:a", 60000);
    survey_conclude(&made);
    assert_non_null(strstr(made.alarm, "in phase 2, where none may run"));
}

TEST_WITH(several_patterns_are_several_namespaces, begin, end) {
    char line[SURVEY_LINE];
    (void)stamp("jobs:a", 1000, "java");
    (void)stamp("cron:a", 1000, "java");
    (void)stamp("cron/a", 1000, "java");
    survey_conclude(&made);
    assert_non_null(
        strstr(survey_init_line(line, &made, &made.found.family[0]), "--namespace jobs --keys"));
    assert_non_null(
        strstr(survey_init_line(line, &made, &made.found.family[1]), "--namespace cron --keys"));
    assert_non_null(
        strstr(survey_init_line(line, &made, &made.found.family[2]), "--namespace cron-3 --keys"));
    made.keys = "c*";
    made.keys_given = true;
    assert_non_null(strstr(survey_init_line(line, &made, NULL), "--namespace default --keys 'c*'"));
}

TEST_WITH(before_init_each_phase_is_judged, begin, end) {
    (void)stamp("jobs:a", 1000, "java");
    survey_conclude(&made);
    for (int i = 0; i < PHASES; i++) {
        assert_true(made.judged[i]);
        assert_int_equal(made.phase[i].count, i >= PHASE_DRAIN);
    }
}

TEST_WITH(commands_are_in_the_way_although_no_stamp_was_found, begin, end) {
    takes(0, "10.0.0.5:1000", "SETNX", "jobs:a", 60000);
    survey_conclude(&made);
    assert_int_equal(made.phase[PHASE_BRIDGE].count, 0);
    assert_int_equal(made.phase[PHASE_DRAIN].count, 1);
    assert_string_equal(made.phase[PHASE_TOKEN].item[0].who, "10.0.0.5:1000 on jobs:a");
    assert_string_equal(made.alarm, "");
}

TEST_WITH(a_count_is_doubt_and_an_unknown_one_is_none, begin, end) {
    made.calls = 7;
    survey_conclude(&made);
    assert_int_equal(made.phase[PHASE_DRAIN].count, 1);
    assert_non_null(strstr(made.phase[PHASE_DRAIN].item[0].what, "ran 7 times"));
    assert_non_null(strstr(made.phase[PHASE_DRAIN].item[0].todo, "find out with --monitor, or"));
    made.monitor_ms = 60000;
    survey_conclude(&made);
    assert_non_null(strstr(made.phase[PHASE_DRAIN].item[0].todo, "read it for longer, or"));
    made.calls = -1;
    survey_conclude(&made);
    assert_int_equal(made.phase[PHASE_DRAIN].count, 0);
}

TEST_WITH(legacy_commands_in_the_token_phase_are_an_alarm, begin, end) {
    view.reg = (migrate_register){
        .there = true, .readable = true, .phase = 3, .epoch = 4, .keys = "jobs:*"};
    takes(0, "10.0.0.5:1000", "SETNX", "cron:a", 60000);
    survey_conclude(&made);
    assert_string_equal(made.alarm, "");
    takes(1, "10.0.0.5:1000", "SETNX", "jobs:a", 60000);
    survey_conclude(&made);
    assert_non_null(strstr(made.alarm, "10.0.0.5:1000 on jobs:a"));
    assert_int_equal(made.phase[PHASE_DRAIN].count, 0); /* the way back is free */
}

/* Such as one for each request: none is left out. */
TEST_WITH(of_many_connections_each_take_counts, begin, end) {
    char client[40];
    registered_in(PHASE_TOKEN);
    for (int i = 0; i < HEARD_CLIENTS; i++) {
        (void)snprintf(client, sizeof client, "10.0.0.9:%d", 1000 + i);
        takes(i, client, "SETNX", "cron:a", 60000);
    }
    survey_conclude(&made);
    assert_string_equal(made.alarm, "");
    takes(9, "10.0.0.5:1000", "SETNX", "jobs:a", 60000);
    takes(10, "10.0.0.6:1000", "SETNX", "cron:a", 60000);
    survey_conclude(&made);
    assert_non_null(strstr(made.alarm, "further connections on jobs:a"));
    made.calls = -1;
    registered_in(PHASE_DRAIN);
    survey_conclude(&made);
    assert_int_equal(made.phase[PHASE_TOKEN].count, 1);
    assert_non_null(strstr(made.phase[PHASE_TOKEN].item[0].what, "1 SETNX and GETSET"));
}

/* It remembers few keys of a client, but each of the register's counts. */
TEST_WITH(the_key_in_an_alarm_is_the_registers, begin, end) {
    view.reg = (migrate_register){
        .there = true, .readable = true, .phase = 3, .epoch = 4, .keys = "jobs:night*"};
    static const char *const others[] = {"a:x", "b:x", "c:x", "d:x", "jobs:hourly"};
    for (int i = 0; i < 5; i++)
        takes(i, "10.0.0.5:1000", "SETNX", others[i], 60000);
    takes(9, "10.0.0.5:1000", "SETNX", "jobs:nightly", 60000);
    survey_conclude(&made);
    assert_non_null(strstr(made.alarm, "10.0.0.5:1000 on jobs:nightly"));
}

TEST_WITH(an_unfinished_scan_proves_nothing, begin, end) {
    made.whole = false;
    survey_conclude(&made);
    assert_int_equal(made.phase[PHASE_BRIDGE].count, 0);
    assert_int_equal(made.phase[PHASE_TOKEN].count, 1);
    assert_non_null(strstr(made.phase[PHASE_TOKEN].item[0].what, "did not reach all keys"));
}

TEST_WITH(a_register_that_was_not_read_may_be_there, begin, end) {
    made.register_unread = true;
    (void)stamp("jobs:a", 1000, "java");
    survey_conclude(&made);
    assert_false(survey_inits(&made));
    for (int i = 0; i < PHASES; i++)
        assert_false(made.judged[i]);
}

TEST_WITH(a_register_is_judged_by_its_own_keys, begin, end) {
    view.reg = (migrate_register){
        .there = true, .readable = true, .phase = 1, .epoch = 1, .keys = "x:*"};
    (void)stamp("jobs:a", 1000, "java");
    made.registered.whole = true;
    survey_conclude(&made);
    assert_true(made.judged[0] && !made.judged[1] && made.judged[2] && !made.judged[3]);
    assert_int_equal(made.phase[2].count, 0);
}

TEST_WITH(what_is_not_read_is_kept_up_to_a_bound, begin, end) {
    for (int i = 0; i < SURVEY_UNREAD + 5; i++)
        survey_unread(&made, "part %d", i);
    assert_int_equal(made.unreads, SURVEY_UNREAD);
    assert_string_equal(made.unread[0], "part 0");
    assert_string_equal(made.unread[SURVEY_UNREAD - 1], "and more");
}
