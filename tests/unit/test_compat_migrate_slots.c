/*
 * The registers of a cluster's slots, what of a cluster forbids a step, and when Java may run there: by what all
 * nodes say. In doubt nothing may go on.
 */
#include "tests.h"
#include "migrate/migrate_fleet.h"
#include "migrate/migrate_watches.h"

#include <stdlib.h>
#include <string.h>

#define NOW INT64_C(1763700000000000)

/* ---- one register ------------------------------------------------------------------------------- */

static migrate_slot slot_of(const char *text) {
    tl_reply reply = {.type = TL_REPLY_STRING, .text = tl__bytes_of(text)};
    return migrate_slot_read(&reply);
}

TEST(a_register_is_read_as_it_is_written) {
    char text[MIGRATE_SLOT_TEXT_SIZE], key[MIGRATE_SLOT_KEY_SIZE];
    migrate_slot slot = slot_of("2 1763700000000000");
    assert_int_equal(slot.phase, 2);
    assert_int_equal(slot.epoch, NOW);
    assert_string_equal(migrate_slot_text(text, slot), "2 1763700000000000");
    assert_int_equal(slot_of("0 1").phase, 0);
    assert_int_equal(slot_of("3 9007199254740991").phase, 3);
    tl_reply none = {.type = TL_REPLY_NIL};
    assert_int_equal(migrate_slot_read(&none).phase, SLOT_ABSENT);
    assert_string_equal(migrate_slot_text(text, migrate_slot_read(&none)), "");
    for (unsigned i = 0; i < TL_SLOTS; i++) {
        (void)migrate_slot_key(key, "ns", i);
        assert_int_equal(tl__hash_slot(tl__bytes_of(key)), i);
    }
}

TEST(any_other_register_is_odd) {
    static const char *const odd[] = {"",
                                      "2",
                                      "2 ",
                                      "2 0",
                                      "4 1",
                                      "2  1",
                                      "2 01",
                                      "2 -",
                                      "2 1 ",
                                      " 2 1",
                                      "2\t1",
                                      "02 1",
                                      "2 +1",
                                      "2 1.0",
                                      "-1 1",
                                      "2 1e3",
                                      "2 9007199254740992"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (slot_of(odd[i]).phase != SLOT_ODD)
            fail_msg("'%s' counts as a register", odd[i]);
    tl_reply number = {.type = TL_REPLY_INT, .integer = 2};
    assert_int_equal(migrate_slot_read(&number).phase, SLOT_ODD);
}

TEST(a_step_down_writes_each_slot_and_a_step_up_those_below) {
    migrate_slot one = {.phase = 1, .epoch = 5}, want = {.phase = 1, .epoch = 9},
                 none = {.phase = SLOT_ABSENT}, two = {.phase = 2, .epoch = 8};
    assert_true(migrate_slot_goes_down(one, want));
    assert_true(migrate_slot_goes_down(none, want));
    assert_true(migrate_slot_goes_down(two, want));
    assert_false(migrate_slot_goes_down(want, want));
    assert_true(migrate_slot_goes_up(one, two) && migrate_slot_goes_up(none, two));
    assert_false(migrate_slot_goes_up(two, two));
}

/* ---- all of them -------------------------------------------------------------------------------- */

static migrate_slot slots[TL_SLOTS];

static migrate_tally all_in(int phase) {
    for (int i = 0; i < TL_SLOTS; i++)
        slots[i] = (migrate_slot){.phase = phase, .epoch = 1000};
    return migrate_tally_of(slots);
}

/* Slots without a register write stamps, as in phase 0 and phase 1, and as before init. */
TEST(slots_without_a_register_are_counted_where_stamps_are_written) {
    migrate_view view = {.by_slots = true, .slots = all_in(SLOT_ABSENT)};
    for (int phase = SLOT_ABSENT; phase < PHASES; phase++)
        assert_int_equal(migrate_tally_in(&view.slots, phase),
                         phase <= PHASE_BRIDGE ? TL_SLOTS : 0);
}

TEST(an_epoch_is_a_time_that_no_register_had) {
    migrate_tally tally = all_in(1);
    assert_int_equal(migrate_slot_epoch(NOW, &tally), NOW);
    tally.top = NOW + 5; /* the clock is behind: two counts from the same epoch differ */
    assert_int_equal(migrate_slot_epoch(NOW + 3, &tally), NOW + 5 + 1 + 3);
    assert_int_not_equal(migrate_slot_epoch(NOW + 3, &tally), migrate_slot_epoch(NOW + 4, &tally));
    tally.top = (INT64_C(1) << 53) - 1;
    assert_int_equal(migrate_slot_epoch(NOW, &tally), 0);
}

static migrate_view view_in(int record, int phase) {
    migrate_view v = {.name = "ns", .now_us = NOW, .by_slots = true};
    v.reg = (migrate_register){.there = true,
                               .readable = true,
                               .phase = record,
                               .from = 2,
                               .epoch = 5,
                               .lease_ms = 30000,
                               .since_us = NOW - 1000,
                               .keys = "*"};
    v.slots = all_in(phase);
    return v;
}

static const migrate_locks nothing = {.whole = true};
static migrate_blockers found;

static int judged(const migrate_view *v, int to, const migrate_locks *locks) {
    migrate_judge(v, to, locks, NULL, &found);
    return found.count;
}

static const char *java(const migrate_view *v, const migrate_locks *locks) {
    static char text[MIGRATE_JAVA_SIZE];
    return migrate_java(text, v, locks);
}

TEST(the_highest_phase_counts_and_java_waits_for_the_last_slot) {
    migrate_view v = view_in(1, 1);
    assert_string_equal(java(&v, &nothing), "may run");
    assert_int_equal(judged(&v, 2, &nothing), 0);
    assert_int_equal(judged(&v, 0, &nothing), 0);
    slots[77].phase = 2; /* the record is older than this slot */
    v.slots = migrate_tally_of(slots);
    assert_int_equal(migrate_phase_of(&v), 2);
    assert_false(migrate_is_whole(&v));
    assert_int_equal(migrate_next_phase(&v), 2);
    assert_true(strstr(java(&v, &nothing), "must not run: old data has come back"));
    v = view_in(2, 2);
    assert_string_equal(java(&v, &nothing), "must not run");
    v = view_in(2, 1); /* going down: the record comes last */
    assert_true(strstr(java(&v, &nothing), "must not run: the step to phase 1 is not finished"));
    assert_int_equal(judged(&v, 1, &nothing), 0);
    assert_int_equal(judged(&v, 2, &nothing), 0);
    assert_int_equal(judged(&v, 3, &nothing), 1);
    v = view_in(1, SLOT_ABSENT);
    assert_true(migrate_is_whole(&v));
    assert_string_equal(java(&v, &nothing), "may run");
    v = view_in(2, 2);
    slots[5].phase = SLOT_ABSENT;
    v.slots = migrate_tally_of(slots);
    assert_int_equal(migrate_next_phase(&v), 2);
}

static migrate_view with_slot(migrate_view view, int phase) {
    slots[7].phase = phase;
    view.slots = migrate_tally_of(slots);
    return view;
}

/* A node has come back with an old dump: what it says of Java contradicts the others. */
TEST(registers_that_contradict_each_other_about_java_want_evidence) {
    static const int lets_java[] = {0, 1, SLOT_ABSENT};
    migrate_view v = view_in(3, 3);
    assert_false(migrate_wants_watch(&v, 3));
    assert_int_equal(migrate_former_phase(&v), 2);
    for (int i = 0; i < 3; i++) {
        v = with_slot(view_in(3, 3), lets_java[i]);
        assert_true(migrate_next_phase(&v) == 3 && migrate_wants_watch(&v, 3));
        assert_int_equal(migrate_former_phase(&v), 1);
        assert_false(migrate_wants_watch(&v, 1));
        assert_int_equal(judged(&v, 1, &nothing), 0);
        migrate_traffic seen = {.counted = true, .calls = 1};
        migrate_judge(&v, 3, &nothing, &seen, &found);
        assert_int_equal(found.count, 1);
    }
    v = with_slot(view_in(1, 1), 3); /* Java runs, and this slot takes tokens */
    assert_true(migrate_wants_watch(&v, 3));
    assert_int_equal(migrate_former_phase(&v), 1);
    v = with_slot(view_in(3, 3), 2); /* nothing says that Java may run */
    assert_false(migrate_wants_watch(&v, 3));
    assert_int_equal(migrate_former_phase(&v), 2);
}

TEST(a_step_that_leads_elsewhere_meanwhile_is_not_the_last) {
    migrate_view v = with_slot(view_in(2, 2), SLOT_ABSENT); /* was whole: a step to 3 had begun */
    assert_int_equal(judged(&v, 3, &nothing), 1);
    assert_true(strstr(found.item[0].todo, "begin again"));
    v = view_in(3, 3);
    assert_int_equal(judged(&v, 4, &nothing), 1);
    assert_true(strstr(found.item[0].what, "is the last"));
}

/* The record was lost in the middle of a step back: the slots are in phase 1, and a token is left. */
TEST(a_record_of_the_bridge_is_not_made_beside_tokens) {
    migrate_view v = view_in(1, 1);
    v.reg = (migrate_register){.there = false};
    migrate_locks locks = {.whole = true, .tokens = {.count = 1}};
    migrate_judge_init(&v, 1, &locks, &found);
    assert_int_equal(found.count, 1);
    migrate_judge_init(&v, 1, &nothing, &found);
    assert_int_equal(found.count, 0);
    migrate_judge_init(&v, 2, &locks, &found);
    assert_int_equal(found.count, 0);
    v.slots = all_in(3);
    assert_int_equal(judged(&v, 1, &locks), 1);
    assert_true(strstr(found.item[0].todo, "--phase 3, where its clients were"));
}

TEST(a_record_that_another_has_left_so_is_no_claim) {
    migrate_view v = view_in(2, 2);
    (void)snprintf(v.reg.by, sizeof v.reg.by, "db1 4711 me");
    assert_true(migrate_is_left_so(&v.reg, 5, 2, "db1 4711 me"));
    assert_false(migrate_is_left_so(&v.reg, 5, 2, "db1 4712 me"));
    assert_false(migrate_is_left_so(&v.reg, 6, 2, "db1 4711 me"));
    assert_false(migrate_is_left_so(&v.reg, 5, 1, "db1 4711 me"));
    v.reg.readable = false;
    assert_false(migrate_is_left_so(&v.reg, 5, 2, "db1 4711 me"));
}

TEST(a_flaw_leaves_open_in_which_phase_all_slots_are) {
    migrate_view v = view_in(1, 1);
    assert_true(migrate_knows_phase(&v));
    v.flaws.count = 1;
    assert_false(migrate_knows_phase(&v));
}

TEST(doubt_about_slots_forbids_steps_and_java) {
    migrate_view v = view_in(1, 1);
    slots[9].phase = SLOT_ODD;
    v.slots = migrate_tally_of(slots);
    assert_true(strstr(java(&v, &nothing), "not known"));
    assert_int_equal(judged(&v, 1, &nothing), 1);
    assert_true(strstr(found.item[0].todo, "DEL tidelock:phase:slot:{"));
    slots[9].phase = SLOT_UNREAD;
    v.slots = migrate_tally_of(slots);
    assert_true(strstr(java(&v, &nothing), "not known"));
    v = view_in(1, 1);
    v.flaws = (migrate_blockers){.count = 1, .item = {{.what = "a flaw", .passes = true}}};
    assert_int_equal(judged(&v, 2, &nothing), 1);
    assert_true(migrate_passes(&found));
    migrate_judge_init(&v, 1, &nothing, &found);
    assert_int_equal(found.count, 1);
}

TEST(stamps_of_tidelock_forbid_no_phase_and_those_of_legacy_clients_do) {
    migrate_view v = view_in(2, 2);
    migrate_locks locks = {.whole = true, .own = {.count = 3}};
    assert_int_equal(judged(&v, 3, &locks), 0);
    locks.strays.count = 1;
    assert_int_equal(judged(&v, 3, &locks), 1);
    v = view_in(1, 1);
    assert_int_equal(judged(&v, 2, &locks), 1);
    tl_lock_info info = {.protocol = TL_BRIDGE, .by_tidelock = true, .stamp_left_ms = 1000};
    locks = (migrate_locks){.whole = true};
    migrate_locks_learn(&locks, &v, "k", 1, &info);
    assert_int_equal(locks.own.count, 1);
    assert_false(migrate_wants_wait(&v));
    locks.tokens.count = 1;
    assert_true(strstr(java(&v, &locks), "not yet"));
}

/* ---- the nodes ---------------------------------------------------------------------------------- */

#define NODES 4 /* two masters, and a replica of each */

static cluster_survey survey;
static cluster_node places[NODES];
static fleet_node nodes[NODES];
static struct migrate_fleet fleet;

static void judge_fleet(void) {
    for (unsigned i = 0; i < NODES; i++)
        nodes[i].slots = 0;
    memset(&fleet, 0, sizeof fleet);
    fleet.node = nodes;
    fleet.count = NODES;
    migrate_fleet_judge(&fleet, &survey);
}

static int set_up(void **state) {
    (void)state;
    memset(places, 0, sizeof places);
    memset(nodes, 0, sizeof nodes);
    survey = (cluster_survey){.of = places, .count = NODES, .answered = NODES};
    for (unsigned i = 0; i < NODES; i++) {
        bool master = i < 2;
        (void)snprintf(places[i].id, sizeof places[i].id, "id%u", i);
        (void)snprintf(places[i].label, sizeof places[i].label, "10.0.0.%u:6379", i);
        places[i].owner = malloc(TL_SLOTS * sizeof *places[i].owner);
        for (unsigned slot = 0; slot < TL_SLOTS; slot++)
            places[i].owner[slot] = slot >= TL_SLOTS / 2;
        nodes[i] = (fleet_node){.master = master, .linked = !master, .epoch = i, .offset = 100};
        memcpy(nodes[i].id, places[i].id, sizeof nodes[i].id);
        memcpy(nodes[i].label, places[i].label, sizeof nodes[i].label);
        (void)snprintf(nodes[i].run, sizeof nodes[i].run, "run%u", i);
        (void)snprintf(nodes[i].history, sizeof nodes[i].history, "history%u", i % 2);
        if (!master)
            (void)snprintf(nodes[i].of, sizeof nodes[i].of, "id%u", i - 2);
    }
    judge_fleet();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        free(places[i].owner);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static void has_flaw(const char *what, bool passes) {
    judge_fleet();
    for (int i = 0; i < fleet.flaws.count; i++)
        if (strstr(fleet.flaws.item[i].what, what) && fleet.flaws.item[i].passes == passes)
            return;
    fail_msg("no flaw says '%s'", what);
}

TEST(a_cluster_in_order_has_no_flaw) {
    judge_fleet();
    assert_int_equal(fleet.flaws.count, 0);
    assert_int_equal(nodes[0].slots, TL_SLOTS / 2);
    assert_int_equal(fleet.owner[0], 0);
    assert_int_equal(fleet.owner[TL_SLOTS - 1], 1);
}

TEST(an_old_master_that_wakes_is_a_flaw) {
    places[2].owner[7] = 2;
    has_flaw("1 slot, 7, has no master that all nodes agree on", true);
    assert_int_equal(fleet.owner[7], TL_NOBODY);
    for (unsigned i = 0; i < NODES; i++)
        places[i].owner[7] = TL_NOBODY;
    has_flaw("1 slot, 7, has", true);
}

TEST(a_slot_on_its_way_is_a_flaw) {
    places[0].open = 1;
    places[0].opened[0] = (open_slot){.slot = 12, .leaves = true, .other = "id1"};
    has_flaw("slot 12 is being moved to the node id1", true);
    places[0].open = 0;
    nodes[1].moves = true;
    has_flaw("slots are being moved", true);
}

/* Does a move with these values count as not over? */
static bool is_moving(const char *operation, const char *state, bool valkey) {
    const tl_reply pairs[] = {{.type = TL_REPLY_STRING, .text = TL_LITERAL("operation")},
                              {.type = TL_REPLY_STRING, .text = tl__bytes_of(operation)},
                              {.type = TL_REPLY_STRING, .text = TL_LITERAL("state")},
                              {.type = TL_REPLY_STRING, .text = tl__bytes_of(state)}};
    const tl_reply move = {.type = TL_REPLY_ARRAY, .items = pairs, .count = 4};
    const tl_reply moves = {.type = TL_REPLY_ARRAY, .items = &move, .count = 1};
    return migrate_has_moves(&moves, valkey);
}

/* The words are those of Valkey 9.1 and of Redis 8.8. The former owner keeps a move that has failed, for ever. */
TEST(a_move_is_over_when_nothing_repeats_it) {
    static const char *const valkey[] = {"snapshotting", "replicating", "failover-granted", "new"};
    for (size_t i = 0; i < sizeof valkey / sizeof *valkey; i++)
        assert_true(is_moving("EXPORT", valkey[i], true));
    assert_false(is_moving("EXPORT", "success", true) || is_moving("IMPORT", "cancelled", true) ||
                 is_moving("IMPORT", "failed", true));
    assert_true(is_moving("import", "accumulate-buffer", false));
    assert_true(is_moving("import", "failed", false));
    assert_true(is_moving("migrate", "handoff", false));
    assert_false(is_moving("migrate", "failed", false) || is_moving("import", "canceled", false) ||
                 is_moving("migrate", "completed", false));
}

TEST(moves_that_may_not_be_listed_are_doubt) {
    server_link link = {.error = true, .status = STATUS_UNAVAILABLE}; /* an unknown subcommand */
    assert_true(migrate_has_no_moves(&link));
    link.status = STATUS_REFUSED; /* no permission */
    assert_false(migrate_has_no_moves(&link));
    link.lacks = true; /* no CLUSTER at all */
    assert_true(migrate_has_no_moves(&link));
    link = (server_link){.status = STATUS_UNAVAILABLE}; /* no reply */
    assert_false(migrate_has_no_moves(&link));
}

TEST(a_silent_seed_that_no_node_knows_is_to_leave_the_url) {
    nodes[3].status = STATUS_UNAVAILABLE;
    judge_fleet();
    assert_true(strstr(fleet.flaws.item[0].todo, "CLUSTER FORGET"));
    nodes[3].id[0] = '\0';
    judge_fleet();
    assert_true(strstr(fleet.flaws.item[0].todo, "take it out of the URL"));
    nodes[3].status = STATUS_REFUSED; /* it does reply */
    judge_fleet();
    assert_true(strstr(fleet.flaws.item[0].todo, "let this user"));
}

TEST(each_server_that_may_take_over_is_there_and_follows) {
    nodes[3].status = STATUS_UNAVAILABLE;
    (void)snprintf(nodes[3].message, sizeof nodes[3].message, "refused");
    has_flaw("a server that may take over can't be asked: refused", false);
    nodes[3].status = 0;
    nodes[1].status = STATUS_UNAVAILABLE;
    has_flaw("a master can't be asked", false);
    nodes[1].status = 0;
    nodes[3].linked = false;
    has_flaw("isn't connected to a master", true);
    nodes[3].linked = true;
    nodes[1].master = false;
    has_flaw("it has slots, and says that it is a replica", true);
}

TEST(the_identity_changes_with_owners_processes_and_epochs) {
    judge_fleet();
    uint64_t before = fleet.identity;
    judge_fleet();
    assert_true(fleet.identity == before);
    nodes[3].epoch++; /* of a replica: no matter */
    judge_fleet();
    assert_true(fleet.identity == before);
    nodes[1].epoch++;
    judge_fleet();
    assert_true(fleet.identity != before);
    nodes[1].epoch--;
    nodes[0].run[0] = 'x';
    judge_fleet();
    assert_true(fleet.identity != before);
    nodes[0].run[0] = 'r';
    for (unsigned i = 0; i < NODES; i++)
        places[i].owner[9] = 1;
    judge_fleet();
    assert_true(fleet.identity != before);
}

TEST(a_replica_has_all_at_its_masters_offset_of_the_same_history) {
    assert_true(migrate_has_all(&nodes[2], &nodes[0]));
    nodes[2].offset = 99;
    assert_false(migrate_has_all(&nodes[2], &nodes[0]));
    nodes[2].offset = 101;
    assert_true(migrate_has_all(&nodes[2], &nodes[0]));
    nodes[2].linked = false;
    assert_false(migrate_has_all(&nodes[2], &nodes[0]));
    nodes[2].linked = true;
    assert_false(migrate_has_all(&nodes[2], &nodes[1])); /* another stream's offset */
    nodes[2].master = true;
    assert_false(migrate_has_all(&nodes[2], &nodes[0]));
}

TEST(a_link_to_another_node_is_of_the_same_database) {
    server_link like = {.endpoint = {.db = 2}}, link;
    assert_true(link_open_same(&link, &like, "127.0.0.1", 1));
    assert_int_equal(link.endpoint.db, 2);
    link_close(&link);
    assert_true(link_open_beside(&link, &like, "127.0.0.1", 1, false)); /* as to a Sentinel */
    assert_int_equal(link.endpoint.db, 0);
    link_close(&link);
}

/* ---- old data ----------------------------------------------------------------------------------- */

TEST(masters_that_would_come_back_with_older_registers_are_named) {
    char buf[MIGRATE_LIST_SIZE];
    judge_fleet();
    for (int i = 0; i < NODES; i++)
        nodes[i].saved_us = FLEET_SAVED;
    fleet.tally.top = NOW;
    assert_string_equal(migrate_fleet_unsaved(buf, &fleet), "");
    nodes[0].saved_us = NOW - 1;
    nodes[1].saved_us = NOW + 1000; /* its clock may be ahead */
    nodes[2].saved_us = 0;          /* a replica */
    assert_string_equal(migrate_fleet_unsaved(buf, &fleet), "10.0.0.0:6379, 10.0.0.1:6379");
    nodes[1].saved_us = NOW + 5000000;
    assert_string_equal(migrate_fleet_unsaved(buf, &fleet), "10.0.0.0:6379");
}

TEST(slots_that_old_data_has_led_to_a_later_phase_are_named) {
    char buf[MIGRATE_LIST_SIZE];
    judge_fleet();
    for (int i = 0; i < TL_SLOTS; i++)
        fleet.slot[i] = (migrate_slot){.phase = PHASE_BRIDGE, .epoch = 9};
    assert_string_equal(migrate_fleet_later(buf, &fleet, PHASE_BRIDGE), "");
    fleet.slot[3].phase = fleet.slot[4].phase = PHASE_DRAIN;
    fleet.slot[TL_SLOTS - 1].phase = PHASE_TOKEN;
    assert_string_equal(migrate_fleet_later(buf, &fleet, PHASE_BRIDGE),
                        "10.0.0.0:6379 (2 slots), 10.0.0.1:6379 (1 slot)");
    assert_string_equal(migrate_fleet_later(buf, &fleet, PHASE_DRAIN), "10.0.0.1:6379 (1 slot)");
}

/* ---- what several masters have seen --------------------------------------------------------------- */

TEST(the_sum_of_several_watches_is_their_worst) {
    migrate_traffic sum, one = {.counted = true,
                                .calls = 2,
                                .accounted = 2,
                                .watch_ms = 500,
                                .monitor_whole = true,
                                .listed = MIGRATE_READ};
    migrate_traffic other = {.counted = true,
                             .calls = 3,
                             .accounted = 0,
                             .watch_ms = 400,
                             .stragglers = 1,
                             .listed = MIGRATE_DENIED};
    migrate_traffic_add(&sum, &one, true);
    migrate_traffic_add(&sum, &other, false);
    assert_int_equal(sum.calls, 5);
    assert_int_equal(sum.accounted, 2);
    assert_int_equal(sum.watch_ms, 400);
    assert_int_equal(sum.stragglers, 1);
    assert_int_equal(sum.listed, MIGRATE_DENIED);
    assert_true(sum.counted && !sum.monitor_whole);
    other.counted = false;
    migrate_traffic_add(&sum, &other, false);
    assert_false(sum.counted);
}

TEST(calls_seen_at_one_master_explain_none_at_another) {
    migrate_traffic sum, one = {.counted = true, .calls = 1, .accounted = 4};
    migrate_traffic other = {.counted = true, .calls = 3, .accounted = 0};
    migrate_traffic_add(&sum, &one, true);
    migrate_traffic_add(&sum, &other, false);
    assert_int_equal(sum.calls - sum.accounted, 3);
}
