/*
 * May a namespace go on, or back? Each thing that is in the way is named, with who and what to do; and
 * what is not in the way of a step doesn't hold it up.
 */
#include "tests.h"
#include "legacy/migrate_record.h"
#include "migrate/migrate_judge.h"

#include <stdlib.h>

#define NOW INT64_C(1763700000000000)
#define EPOCH 5

const char *show_ms(char buf[DURATION_SHOWN], int64_t ms) {
    (void)snprintf(buf, DURATION_SHOWN, "%lld ms", (long long)ms);
    return buf;
}

static migrate_client one;

static migrate_view view(int phase) {
    return (migrate_view){.name = "ns",
                          .now_us = NOW,
                          .client = &one,
                          .reg = {.there = true,
                                  .readable = true,
                                  .phase = phase,
                                  .epoch = EPOCH,
                                  .lease_ms = 30000,
                                  .since_us = NOW - 60000000,
                                  .keys = "*"}};
}

static migrate_view view_with(int phase, int64_t client_epoch, int client_phase) {
    migrate_view v = view(phase);
    one = (migrate_client){.id = "c",
                           .readable = true,
                           .epoch = client_epoch,
                           .phase = client_phase,
                           .lease_ms = 30000,
                           .seen_us = NOW - 3000000,
                           .pid = 7,
                           .host = "db1",
                           .service = "nightly"};
    v.clients = 1;
    return v;
}

static migrate_blockers b;

static int judged(const migrate_view *v, int to, const migrate_locks *l, const migrate_traffic *t) {
    migrate_judge(v, to, l, t, &b);
    for (int i = 0; i < b.count; i++)
        assert_true(b.item[i].what[0] && b.item[i].who[0] && b.item[i].todo[0]);
    return b.count;
}

#define HAS(text, part)                                                                            \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("'%s' lacks '%s'", (text), (part));                                           \
    } while (0)

static const migrate_locks nothing = {.whole = true};

/* ---- steps ------------------------------------------------------------------------------------ */

TEST(one_step_at_a_time) {
    for (int from = 0; from < PHASES; from++) {
        migrate_view v = view(from);
        for (int to = -1; to <= PHASES; to++) {
            bool allowed = to >= 0 && to < PHASES && (to == from + 1 || to == from - 1);
            if ((judged(&v, to, &nothing, NULL) == 0) != allowed)
                fail_msg("from %d to %d", from, to);
        }
    }
}

TEST(there_is_a_register_that_can_be_read) {
    migrate_view v = view(0);
    v.reg.readable = false;
    assert_int_equal(judged(&v, 1, &nothing, NULL), 1);
    HAS(b.item[0].todo, "HGETALL");
    v.reg.there = false;
    assert_int_equal(judged(&v, 1, &nothing, NULL), 1);
    HAS(b.item[0].todo, "migrate init --namespace ns");
}

/* ---- clients ---------------------------------------------------------------------------------- */

TEST(every_live_client_acts_by_the_present_epoch) {
    for (int from = 0; from < PHASES; from++)
        for (int to = 0; to < PHASES; to++)
            for (int64_t epoch = 0; epoch <= EPOCH + 1; epoch++)
                for (int phase = 0; phase < PHASES && abs(from - to) == 1; phase++) {
                    migrate_view v = view_with(from, epoch, phase);
                    bool fine = epoch == EPOCH && phase == from;
                    if ((judged(&v, to, &nothing, NULL) == 0) != fine)
                        fail_msg("%d to %d, a client at epoch %d in %d", from, to, (int)epoch,
                                 phase);
                    one.seen_us = NOW - 90000001; /* it is gone, and forbids nothing */
                    assert_int_equal(judged(&v, to, &nothing, NULL), 0);
                }
}

TEST(a_client_that_is_behind_is_named_and_what_to_do) {
    migrate_view v = view_with(1, EPOCH - 1, 0);
    assert_int_equal(judged(&v, 2, &nothing, NULL), 1);
    HAS(b.item[0].what, "has not confirmed epoch 5: it acts by 4, in phase 0 (timestamp)");
    HAS(b.item[0].who, "nightly on db1 (pid 7), seen 3000 ms ago");
    HAS(b.item[0].todo, "every 10000 ms");
    HAS(b.item[0].todo, "dropped in 87000 ms");
    v = view_with(1, 0, 1);
    assert_int_equal(judged(&v, 2, &nothing, NULL), 1);
    HAS(b.item[0].what, "has not read the register yet, and acts in phase 1 (bridge)");
    v = view_with(1, EPOCH + 1, 2);
    assert_int_equal(judged(&v, 2, &nothing, NULL), 1);
    HAS(b.item[0].what, "later than the register's 5, which was set back");
    v = view_with(1, EPOCH, 0);
    assert_int_equal(judged(&v, 2, &nothing, NULL), 1);
    HAS(b.item[0].what, "acts in phase 0 (timestamp), which is not that of epoch 5");
}

TEST(an_unreadable_record_is_doubt) {
    migrate_view v = view_with(1, EPOCH, 1);
    one = (migrate_client){.id = "c", .text = "odd"};
    assert_int_equal(judged(&v, 2, &nothing, NULL), 1);
    HAS(b.item[0].todo, "HDEL tidelock:phase:{ns}:clients c");
    migrate_judge_init(&v, 1, &nothing, &b);
    assert_int_equal(b.count, 1);
}

TEST(more_than_fit_are_counted) {
    migrate_client many[MIGRATE_BLOCKERS + 3];
    migrate_view v = view_with(1, EPOCH - 1, 1);
    v.reg.epoch = 100;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        many[i] = one;
        many[i].epoch = (int64_t)i; /* else they are of one group */
    }
    v.client = many;
    v.clients = MIGRATE_BLOCKERS + 3;
    assert_int_equal(judged(&v, 2, &nothing, NULL), MIGRATE_BLOCKERS);
    assert_int_equal(b.more, 3);
    assert_false(migrate_passes(&b)); /* who knows of the others? */
}

TEST(those_who_act_alike_are_named_together) {
    migrate_client many[85];
    migrate_view v = view_with(1, 0, 1);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        many[i] = one;
        many[i].pid = 100 + (int64_t)i;
    }
    many[84].epoch = EPOCH - 1;
    v.client = many;
    v.clients = 85;
    assert_int_equal(judged(&v, 2, &nothing, NULL), 2);
    HAS(b.item[0].what, "84 clients have not read the register yet, and act in phase 1 (bridge)");
    HAS(b.item[0].who, "(pid 100), seen ");
    HAS(b.item[0].who, " more");
    HAS(b.item[0].todo, "wait: they read the phase every");
    HAS(b.item[1].what, "a client has not confirmed epoch 5: it acts by 4");
    assert_int_equal(b.more, 0);
}

TEST(what_goes_away_by_itself_is_waited_for) {
    migrate_view v = view_with(2, EPOCH - 1, 1);
    assert_int_equal(judged(&v, 3, &nothing, NULL), 1);
    assert_true(migrate_passes(&b)); /* it reads the register, or is dropped */
    v = view_with(2, EPOCH + 1, 2);
    assert_int_equal(judged(&v, 3, &nothing, NULL), 1);
    assert_false(migrate_passes(&b));
    v = view_with(2, EPOCH, 2);
    migrate_locks locks = {.whole = true, .own = {.count = 2, .over = 1}};
    assert_int_equal(judged(&v, 3, &locks, NULL), 1);
    assert_true(migrate_passes(&b)); /* a stamp becomes a token, or ends */
    locks.own.over = 2;
    assert_int_equal(judged(&v, 3, &locks, NULL), 1);
    assert_false(migrate_passes(&b)); /* what is over must be swept */
    locks = (migrate_locks){.whole = true, .own = {.count = 1}, .strays = {.count = 1}};
    assert_int_equal(judged(&v, 3, &locks, NULL), 2);
    assert_false(migrate_passes(&b));
}

TEST(a_beginning_suits_those_who_are_at_work) {
    for (int phase = 0; phase < PHASES; phase++)
        for (int acts = 0; acts < PHASES; acts++) {
            migrate_view v = view_with(0, 0, acts);
            v.reg = (migrate_register){.there = false};
            migrate_judge_init(&v, phase, &nothing, &b);
            assert_int_equal(b.count, abs(phase - acts) > 1);
            one.seen_us = NOW - 90000001;
            migrate_judge_init(&v, phase, &nothing, &b);
            assert_int_equal(b.count, 0);
        }
}

/* ---- locks ------------------------------------------------------------------------------------ */

static tl_lock_info info(int protocol, bool ours, int64_t left_ms) {
    return (tl_lock_info){.size = sizeof(tl_lock_info),
                          .held = true,
                          .protocol = protocol,
                          .by_tidelock = ours,
                          .remaining_ms = protocol == TL_TOKEN ? left_ms : -1,
                          .stamp_left_ms = protocol == TL_TOKEN ? INT64_MIN : left_ms};
}

static migrate_locks with(tl_lock_info i, const migrate_view *v) {
    migrate_locks l = nothing;
    migrate_locks_learn(&l, v, "jobs:a", 6, &i);
    return l;
}

TEST(what_each_phase_cant_live_beside) {
    migrate_view v = view_with(0, EPOCH, 0);
    tl_lock_info own = info(TL_BRIDGE, true, 9000), stranger = own;
    memcpy(own.host, "db1", 4);
    memcpy(own.service, "nightly", 8);
    own.pid = 7; /* that of the client */
    memcpy(stranger.host, "db9", 4);
    tl_lock_info rests = stranger; /* its client has ended */
    rests.rests = true;
    tl_lock_info odd = info(-1, false, 0);
    odd.stamp_left_ms = INT64_MIN;
    memcpy(odd.oddity, "odd", 4);
    tl_lock_info redisson = odd, constant = odd;
    memcpy(redisson.oddity, "holds a lock of Redisson", 25);
    memcpy(constant.oddity, "a constant: each", 17);
    const struct {
        migrate_locks locks;
        bool forbids[PHASES][PHASES]; /* from, to */
    } all[] = {
        {nothing, {{0}}},
        {with(info(TL_TIMESTAMP, false, 9000), &v), {[1][2] = true, [2][3] = true}},
        {with(info(TL_TIMESTAMP, false, -9000), &v), {[1][2] = true, [2][3] = true}},
        {with(odd, &v), {[1][2] = true, [2][3] = true}},
        {with(redisson, &v), {{0}}},
        {with(constant, &v), {{0}}},
        {with(stranger, &v), {[1][2] = true, [2][3] = true}},
        {with(own, &v), {[2][3] = true}},
        {with(rests, &v), {[2][3] = true}},
        {with(info(TL_BRIDGE, true, -9000), &v), {[2][3] = true}},
        {with(info(TL_TOKEN, true, 9000), &v), {[1][0] = true}},
        {with(info(TL_TOKEN, false, 9000), &v), {[1][0] = true}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int from = 0; from < PHASES; from++)
            for (int to = from - 1; to <= from + 1; to += 2) {
                v.reg.phase = one.phase = from;
                if (to < 0 || to >= PHASES)
                    continue;
                if (judged(&v, to, &all[i].locks, NULL) != all[i].forbids[from][to])
                    fail_msg("number %zu, from %d to %d: %d", i, from, to, b.count);
            }
}

TEST(a_scan_that_was_cut_short_proves_nothing) {
    static const bool forbids[PHASES][PHASES] = {[1][2] = true, [2][3] = true, [1][0] = true};
    migrate_locks cut = {.whole = false};
    for (int from = 0; from < PHASES; from++)
        for (int to = from - 1; to <= from + 1; to += 2) {
            migrate_view v = view(from);
            if (to >= 0 && to < PHASES)
                assert_int_equal(judged(&v, to, &cut, NULL), forbids[from][to]);
        }
}

TEST(stamps_that_are_over_are_to_be_swept) {
    migrate_view v = view(1);
    migrate_locks l = with(info(TL_TIMESTAMP, false, -240000), &v);
    assert_int_equal(judged(&v, 2, &l, NULL), 1);
    HAS(b.item[0].who, "jobs:a (ended 240000 ms ago)");
    HAS(b.item[0].todo, "remove what has expired: tidelock migrate sweep --namespace ns");
    l = with(info(TL_TIMESTAMP, false, 12000), &v);
    assert_int_equal(judged(&v, 2, &l, NULL), 1);
    HAS(b.item[0].who, "jobs:a (ends in 12000 ms)");
    HAS(b.item[0].todo, "end the clients");
}

TEST(of_many_keys_some_are_named_and_each_once) {
    migrate_view v = view(1);
    migrate_locks l = nothing;
    tl_lock_info i = info(TL_TIMESTAMP, false, 12000);
    char key[8], list[MIGRATE_LIST_SIZE];
    for (int n = 0; n < 9; n++) {
        (void)snprintf(key, sizeof key, "k%d", n);
        migrate_locks_learn(&l, &v, key, 2, &i);
        if (n < MIGRATE_EXAMPLES)
            migrate_locks_learn(&l, &v, key, 2, &i);
    }
    assert_int_equal(l.strays.count, 9);
    HAS(migrate_bunch_list(list, &l.strays), "k0 (ends in 12000 ms), k1 ");
    HAS(list, " and 4 more");
}

/* ---- traffic ---------------------------------------------------------------------------------- */

TEST(only_proof_that_nobody_is_left_lets_java_be_left_behind) {
    const struct {
        migrate_traffic t;
        bool blocks;
    } all[] = {
        {{.counted = true}, false},
        {{.counted = true, .calls = 1}, true},
        {{.counted = true, .calls = 7, .accounted = 7}, false}, /* all were seen on other keys */
        {{.counted = true, .calls = 7, .accounted = 6}, true},
        {{.counted = false}, true},
        {{.counted = false, .monitor_ms = 5000}, true},
        {{.counted = false, .monitor_whole = true}, false},
        {{.counted = true, .calls = 9, .monitor_whole = true}, false},
        {{.counted = true, .monitor_whole = true, .stragglers = 1}, true},
        {{.counted = true, .refused = -1}, false}, /* the server doesn't count that */
        {{.counted = true, .refused = 1}, true},   /* it is there, though it can't lock */
        {{.counted = true, .refused = -1, .denials = {.count = 1}}, true},
        {{.counted = true, .monitor_whole = true, .refused = 1},
         true}, /* MONITOR doesn't show it */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        migrate_view v = view(1);
        migrate_traffic t = all[i].t;
        if (t.stragglers)
            t.straggler[0] = (migrate_straggler){"10.0.0.7:40001", "java-7", "SETNX", "jobs:x"};
        if ((judged(&v, 2, &nothing, &t) > 0) != all[i].blocks)
            fail_msg("number %zu: %d", i, b.count);
        v = view(0); /* of no other step */
        assert_int_equal(judged(&v, 1, &nothing, &t), 0);
    }
    migrate_view v = view(1);
    migrate_traffic t = {.stragglers = 1,
                         .straggler = {{"10.0.0.7:40001", "java-7", "SETNX", "jobs:x"}}};
    assert_int_equal(judged(&v, 2, &nothing, &t), 1);
    HAS(b.item[0].what, "SETNX of a legacy client on jobs:x");
    HAS(b.item[0].who, "10.0.0.7:40001 (called java-7)");
    HAS(b.item[0].todo, "tidelock migrate acl");
    t = (migrate_traffic){.counted = true, .refused = 3, .denials = {.who = "user app"}};
    assert_int_equal(judged(&v, 2, &nothing, &t), 1);
    HAS(b.item[0].what, "refused SETNX or GETSET 3 times meanwhile");
    HAS(b.item[0].who, "user app");
}

TEST(all_are_denied_only_where_each_was_read) {
    migrate_permissions all = {.access = MIGRATE_READ, .users = 2, .denied = 2};
    assert_true(migrate_denies_all(&all));
    all.denied = 1;
    assert_false(migrate_denies_all(&all));
    all = (migrate_permissions){.access = MIGRATE_READ};
    assert_false(migrate_denies_all(&all));
    all = (migrate_permissions){.access = MIGRATE_DENIED, .users = 2, .denied = 2};
    assert_false(migrate_denies_all(&all));
}

/* ---- leases ----------------------------------------------------------------------------------- */

TEST(who_is_waited_for) {
    migrate_view v = view(1);
    assert_false(migrate_wants_wait(&v)); /* nobody is there, and nothing has changed for long */
    v.reg.since_us = NOW - 29000000;
    assert_true(migrate_wants_wait(&v));
    v = view_with(1, EPOCH, 1);
    assert_true(migrate_wants_wait(&v));
    assert_int_equal(migrate_longest_lease_ms(&v), 30000);
    one.lease_ms = 45000;
    assert_int_equal(migrate_longest_lease_ms(&v), 45000);
    one.seen_us = NOW - 3 * 45000000 - 1; /* or the server's clock was set forward meanwhile */
    assert_true(migrate_wants_wait(&v));
    assert_int_equal(migrate_longest_lease_ms(&v), 45000);
    one.readable = false;
    assert_true(migrate_wants_wait(&v));
}

/* ---- what went back ------------------------------------------------------------------------------ */

TEST(a_register_that_went_back_is_seen_by_what_clients_know) {
    for (int64_t epoch = 0; epoch <= EPOCH + 1; epoch++) {
        migrate_view v = view_with(1, epoch, 3);
        assert_int_equal(migrate_is_set_back(&v), epoch > EPOCH);
        v.reg = (migrate_register){.there = false};
        assert_int_equal(migrate_is_set_back(&v), epoch > 0);
        assert_int_equal(judged(&v, 1, &nothing, NULL), 1);
        assert_int_equal(strstr(b.item[0].todo, "--phase 3, where its clients were") != NULL,
                         epoch > 0);
        one.seen_us = NOW - 90000001;
        assert_false(migrate_is_set_back(&v));
    }
}

/* ---- whose locks nobody looks at ------------------------------------------------------------------ */

TEST(who_locks_by_another_pattern_is_known) {
    migrate_view v = view_with(1, EPOCH, 1);
    assert_false(migrate_takes_others(&v, &one)); /* it didn't say */
    memcpy(one.keys, "*", 2);
    assert_false(migrate_takes_others(&v, &one));
    memcpy(v.reg.keys, "jobs:*", 7);
    assert_true(migrate_takes_others(&v, &one));
    memcpy(one.keys, "j??bs:*", 8); /* a record is read so */
    memcpy(v.reg.keys,
           "j\xc3\xb6"
           "bs:*",
           8);
    assert_false(migrate_takes_others(&v, &one));
    memcpy(one.keys, "*", 2);
    assert_true(migrate_takes_others(&v, &one));
    one.seen_us = NOW - 90000001;
    assert_false(migrate_takes_others(&v, &one));
}

TEST(a_holder_is_known_by_host_process_and_service) {
    migrate_view v = view_with(1, EPOCH, 1);
    tl_lock_info info = {.size = sizeof info, .pid = 7, .host = "db1", .service = "nightly"};
    assert_true(migrate_knows(&v, &info));
    info.pid = 8;
    assert_false(migrate_knows(&v, &info));
    info.pid = 7;
    memcpy(info.service, "hourly", 7); /* containers on one host: each has a process 7 */
    assert_false(migrate_knows(&v, &info));
    memcpy(info.service, "nightly", 8);
    memcpy(info.host, "db2", 4);
    assert_false(migrate_knows(&v, &info));
}

/* ---- Java ------------------------------------------------------------------------------------- */

static void java_is(const migrate_view *v, const migrate_locks *l, const char *want) {
    char text[MIGRATE_JAVA_SIZE];
    (void)migrate_java(text, v, l);
    if (strncmp(text, want, strlen(want)) != 0)
        fail_msg("'%s' instead of '%s'", text, want);
}

TEST(java_may_run_only_where_that_is_known) {
    const migrate_locks cut = {.whole = false}, token = {.whole = true, .tokens = {.count = 1}};
    for (int phase = 0; phase < PHASES; phase++) {
        migrate_view v = view(phase);
        v.reg.from = PHASE_TOKEN;
        bool stamps = phase < PHASE_DRAIN;
        java_is(&v, &nothing, stamps ? "may run" : "must not run");
        java_is(&v, &token, stamps ? "not yet: 1 key holds" : "must not run");
        java_is(&v, &cut, stamps ? "not known: the scan" : "must not run");
        java_is(&v, NULL, stamps ? "not known: this version of tidelock" : "must not run");
    }
    migrate_view v = view(PHASE_BRIDGE);
    v.reg.from = PHASE_DRAIN;
    v.reg.since_us = NOW - 30000000;
    java_is(&v, &nothing, "not yet: clients may act in phase 2");
    v.reg.since_us = NOW + 30000000; /* the server's clock was set back */
    java_is(&v, &nothing, "not yet: clients may act in phase 2 for another 30001 ms");
    v.reg.since_us = NOW - 30001000;
    java_is(&v, &nothing, "may run");
    migrate_view back = view_with(1, EPOCH + 1, 2); /* a failover has lost the step to 2 */
    java_is(&back, &nothing, "not yet: clients know a later epoch");
    one.seen_us = NOW - 90000001;
    java_is(&back, &nothing, "may run");
    v.reg.readable = false;
    java_is(&v, &nothing, "no register says");
}

/* init makes a register again that a failover has lost, or set back: it doesn't tell of phase 2. */
TEST(java_may_not_run_beside_a_client_that_acts_in_a_phase_of_tokens) {
    for (int phase = 0; phase < PHASES; phase++) {
        migrate_view v = view_with(1, EPOCH - 1, phase);
        v.reg.from = PHASE_BRIDGE;
        one.seen_us = NOW - 30031000;
        java_is(&v, &nothing,
                "may run"); /* its lease has ended, and so it has to read the register first */
        one.seen_us = NOW - 30030000;
        java_is(&v, &nothing,
                phase < PHASE_DRAIN ? "may run"
                : phase == PHASE_DRAIN
                    ? "not yet: nightly on db1 (pid 7) may act in phase 2 for another 1 ms"
                    : "not yet: nightly on db1 (pid 7) may act in phase 3 for another 1 ms");
    }
    migrate_view v = view_with(1, EPOCH, 1);
    one.readable = false;
    java_is(&v, &nothing, "not known: the record of client c can't be read");
}
