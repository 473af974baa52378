/*
 * The fleets of real servers that other tests use: they start whole, replace a master, keep a slot open, and leave nothing
 * behind.
 */
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock_wait.h"
#include "real_fleet.h"
#include "tests.h"
#include "wire/slots.h"

#define DOWN_MS 4000 /* nobody is replaced because the machine has stopped him for a while */

static real_fleet *fleet;

static int64_t began_ms;

static void print_time(const char *of) {
    print_message("%s: %d ms\n", of, (int)(clock_ms() - began_ms));
    began_ms = clock_ms();
}

static int tear_down(void **state) {
    (void)state;
    real_fleet_free(fleet);
    fleet = NULL;
    return 0;
}

TESTS_WITH(NULL, tear_down);

static void assert_url_begins(const char *with) {
    assert_memory_equal(real_fleet_url(fleet), with, strlen(with));
}

static void write_to(real_node *node, const char *key) {
    redisReply *reply = real_redis_command(node->redis, "SET %s 1", key);
    assert_non_null(reply);
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
}

/* ---- Sentinels ------------------------------------------------------------------------------- */

/* The master, one Sentinel and the clients are on one side, all others on the other. */
TEST(sentinels_replace_a_master_that_is_parted_from_most_of_them) {
    const real_fleet_options options = {.gates = true,
                                        .tls = true,
                                        .down_ms = DOWN_MS,
                                        .password = "pw",
                                        .sentinel_password = "spw"};
    if (!real_redis_speaks_tls())
        skip();
    began_ms = clock_ms();
    fleet = real_fleet_start_sentinels(&options);
    print_time("three Sentinels with gates, TLS and passwords started");
    assert_url_begins("rediss+sentinel://:pw@127.0.0.1:");
    assert_int_equal(real_fleet_sentinels(fleet), 3);
    assert_int_equal(real_fleet_servers(fleet), 3);
    assert_ptr_equal(real_fleet_master(fleet), real_fleet_server(fleet, 0));
    real_node *former = real_fleet_master(fleet), *aside = real_fleet_sentinel(fleet, 2);
    real_fleet_part(fleet, former, 1);
    real_fleet_part(fleet, aside, 1);
    real_fleet_part_clients(fleet, 1);
    print_message("failover of a parted one: %d ms\n", (int)real_fleet_await_master(fleet, former));
    redisReply *named = real_redis_command(aside->redis, "SENTINEL GET-MASTER-ADDR-BY-NAME %s",
                                           REAL_FLEET_NAME);
    assert_int_equal(atoi(named->element[1]->str), former->port); /* it hasn't heard of it */
    freeReplyObject(named);
    write_to(former, "k"); /* it thinks itself the master */
    began_ms = clock_ms();
    real_fleet_heal(fleet);
    print_time("healed");
    /* It has been a replica of the other, though on a busy machine it may be the master anew by now. */
    assert_int_equal(real_redis_int(former->redis, "EXISTS k"), 0);
    former = real_fleet_master(fleet);
    real_fleet_switch(fleet);
    print_time("switched");
    assert_ptr_not_equal(real_fleet_master(fleet), former);
}

/* ---- a cluster ------------------------------------------------------------------------------- */

static tl_redirect expect_error(real_node *node, const char *command, const char *begins_with) {
    redisReply *reply = real_redis_command(node->redis, command);
    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ERROR)
        fail_msg("%s: not refused", command);
    assert_memory_equal(reply->str, begins_with, strlen(begins_with));
    tl_redirect r = tl__redirect_read(tl__bytes(reply->str, reply->len));
    r.node.host = (tl_bytes){0}; /* it goes with the reply */
    freeReplyObject(reply);
    return r;
}

static void expect_redirect(real_node *node, const char *command, tl_redirect_kind kind,
                            const real_node *to) {
    char error[64];
    (void)snprintf(error, sizeof error, "%s 7629 127.0.0.1:%d", kind == TL_ASK ? "ASK" : "MOVED",
                   to->port);
    tl_redirect r = expect_error(node, command, error);
    assert_int_equal(r.kind, kind);
    assert_int_equal(r.slot, 7629);
    assert_int_equal(r.node.port, to->port);
}

static tl_reply converted(const redisReply *reply, tl_reply *room, size_t *used) {
    tl_reply r = {.type = TL_REPLY_NIL};
    if (reply->type == REDIS_REPLY_INTEGER) {
        r = (tl_reply){.type = TL_REPLY_INT, .integer = reply->integer};
    } else if (reply->type == REDIS_REPLY_STRING) {
        r = (tl_reply){.type = TL_REPLY_STRING, .text = tl__bytes(reply->str, reply->len)};
    } else if (reply->type == REDIS_REPLY_ARRAY) {
        tl_reply *items = room + *used;
        *used += reply->elements;
        for (size_t i = 0; i < reply->elements; i++)
            items[i] = converted(reply->element[i], room, used);
        r = (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = reply->elements};
    }
    return r;
}

/* What the library makes of CLUSTER SLOTS is what the nodes say of themselves. */
static void assert_owner_in_map(const char *key) {
    static tl_slot_map map;
    tl_reply room[200];
    size_t used = 0;
    redisReply *slots = real_redis_command(real_fleet_server(fleet, 5)->redis, "CLUSTER SLOTS");
    assert_non_null(slots);
    tl_reply reply = converted(slots, room, &used);
    assert_true(tl__slot_map_read(&map, &reply));
    assert_int_equal(map.count, 3);
    assert_int_equal(map.served, TL_SLOTS);
    uint16_t node = map.node_of[tl__hash_slot(tl__bytes_of(key))];
    assert_int_equal(map.node[node].port, real_fleet_owner(fleet, key)->port);
    assert_true(tl__bytes_eq(map.node[node].host, TL_LITERAL("127.0.0.1")));
    freeReplyObject(slots);
}

static bool is_at(const real_node *node, const char *command) {
    return real_redis_int(node->redis, command) == 1;
}

static bool is_down(const real_node *node) {
    redisReply *reply = real_redis_command(node->redis, "SET k 2");
    bool is = reply && reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "CLUSTERDOWN");
    freeReplyObject(reply);
    return is;
}

/* {k} is 7629, of the second master. */
static void open_and_close_a_slot(void) {
    real_node *from = real_fleet_owner(fleet, "k"), *to = real_fleet_server(fleet, 0);
    assert_ptr_equal(from, real_fleet_server(fleet, 1));
    assert_owner_in_map("k");
    write_to(from, "k");
    write_to(from, "{k}stays");
    real_fleet_open_slot(fleet, "k", to);
    real_fleet_move_key(fleet, "k");
    expect_redirect(from, "GET k", TL_ASK, to);
    tl_redirect again = expect_error(from, "MGET k {k}stays", "TRYAGAIN");
    assert_int_equal(again.kind, TL_TRY_AGAIN);
    assert_true(is_at(from, "GET {k}stays"));
    assert_ptr_equal(real_fleet_owner(fleet, "k"), from);
    real_fleet_close_slot(fleet);
    assert_ptr_equal(real_fleet_owner(fleet, "k"), to);
    expect_redirect(from, "GET {k}stays", TL_MOVED, to);
    assert_owner_in_map("k");
    assert_true(is_at(to, "GET {k}stays"));
    print_time("a slot moved");
}

static void replace_a_master_twice(void) {
    real_node *former = real_fleet_owner(fleet, "k"), *replica = real_fleet_replica(fleet, former);
    began_ms = clock_ms();
    real_fleet_promote(fleet, replica);
    print_time("a replica promoted");
    assert_ptr_equal(real_fleet_owner(fleet, "k"), replica);
    real_fleet_part(fleet, replica, 1);
    print_message("failover of a parted master: %d ms\n",
                  (int)real_fleet_await_owner(fleet, "k", replica));
    assert_ptr_equal(real_fleet_owner(fleet, "k"), former);
    WAIT_FOR(SOON_MS, is_down(replica));
    assert_false(real_fleet_is_whole(fleet));
    began_ms = clock_ms();
    real_fleet_heal(fleet);
    print_time("healed");
}

TEST(a_cluster_keeps_a_slot_open_and_replaces_a_master) {
    const real_fleet_options options = {.gates = true, .down_ms = DOWN_MS};
    began_ms = clock_ms();
    fleet = real_fleet_start_cluster(&options);
    print_time("a cluster with gates started");
    assert_url_begins("redis+cluster://127.0.0.1:");
    assert_int_equal(real_fleet_servers(fleet), 6);
    open_and_close_a_slot();
    replace_a_master_twice();
}

/* ---- independent servers, and what is left of them --------------------------------------------- */

#define SERVERS 5

static void start_five(pid_t *pids) {
    const real_fleet_options options = {.gates = true};
    fleet = real_fleet_start_servers(SERVERS, &options);
    for (int i = 0; i < SERVERS; i++)
        pids[i] = real_redis_pid(real_fleet_server(fleet, i)->redis);
}

static redisContext *ping_from(int side, const real_node *node) {
    real_fleet_stand_on(side);
    redisContext *context = redisConnect("127.0.0.1", node->port);
    real_fleet_stand_on(REAL_FLEET_BOTH);
    int done = 0;
    assert_true(context && !context->err);
    assert_int_equal(redisAppendCommand(context, "PING"), REDIS_OK);
    assert_int_equal(redisBufferWrite(context, &done), REDIS_OK);
    assert_true(done);
    return context;
}

static bool is_answered(const redisContext *context, int bound_ms) {
    struct pollfd fd = {.fd = context->fd, .events = POLLIN};
    return poll(&fd, 1, bound_ms) == 1;
}

TEST(clients_reach_the_servers_on_their_side_and_the_others_later) {
    pid_t pids[SERVERS];
    start_five(pids);
    real_node *far = real_fleet_server(fleet, 0), *near = real_fleet_server(fleet, 1);
    real_fleet_part(fleet, far, 1);
    real_fleet_part_clients(fleet, 1);
    redisContext *waits[] = {ping_from(0, far), ping_from(1, near),
                             ping_from(REAL_FLEET_BOTH, near)};
    redisContext *passes[] = {ping_from(0, near), ping_from(1, far),
                              ping_from(REAL_FLEET_BOTH, far)};
    for (int i = 0; i < 3; i++)
        assert_true(is_answered(passes[i], (int)SOON_MS));
    for (int i = 0; i < 3; i++)
        assert_false(is_answered(waits[i], 0));
    real_fleet_join(fleet);
    assert_true(is_answered(waits[0], (int)SOON_MS) && is_answered(waits[2], (int)SOON_MS));
    assert_false(is_answered(waits[1], 0));
    for (int i = 0; i < 3; i++) {
        redisFree(waits[i]);
        redisFree(passes[i]);
    }
}

TEST(independent_servers_are_emptied_and_leave_nothing_behind) {
    pid_t pids[SERVERS];
    char dir[160];
    began_ms = clock_ms();
    start_five(pids);
    print_time("five servers started");
    assert_url_begins("redis+quorum://127.0.0.1:");
    (void)snprintf(dir, sizeof dir, "%s", real_redis_dir(real_fleet_server(fleet, 4)->redis));
    write_to(real_fleet_server(fleet, 4), "k");
    real_redis_freeze(real_fleet_server(fleet, 0)->redis);
    real_redis_kill(real_fleet_server(fleet, 1)->redis);
    assert_false(real_fleet_is_whole(fleet));
    real_fleet_heal(fleet);
    assert_true(real_fleet_is_whole(fleet));
    assert_int_equal(real_redis_int(real_fleet_server(fleet, 4)->redis, "EXISTS k"), 0);
    real_fleet_free(fleet);
    fleet = NULL;
    for (int i = 0; i < SERVERS; i++)
        assert_int_not_equal(kill(pids[i], 0), 0);
    assert_int_not_equal(access(dir, F_OK), 0);
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *where) {
    (void)stat, (void)kind, (void)where;
    return remove(path);
}

TEST(servers_die_with_a_test_that_is_killed) {
    char dir[] = "/tmp/tidelock-test-XXXXXX";
    pid_t pids[SERVERS];
    int ends[2];
    assert_non_null(mkdtemp(dir));
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* orphans become ours */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)setenv("TMPDIR", dir, 1);
        start_five(pids);
        (void)!write(ends[1], pids, sizeof pids);
        (void)raise(SIGKILL);
    }
    assert_int_equal(read(ends[0], pids, sizeof pids), sizeof pids);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int i = 0; i < SERVERS; i++)
        WAIT_FOR(SOON_MS, waitpid(pids[i], NULL, WNOHANG) == pids[i]);
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_int_equal(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}
