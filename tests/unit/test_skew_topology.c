/*
 * Who belongs to a server, out of INFO and CLUSTER NODES as real servers write them, and out of what none
 * would.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests.h"
#include "skew/judge/skew_topology.h"

static bool has(const redis_places *p, const char *host, int port) {
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->place[i].host, host) == 0 && p->place[i].port == port)
            return true;
    return false;
}
static redis_info *read_info(const char *text) {
    redis_info *r = test_malloc(sizeof *r);
    assert_true(info_read(text, strlen(text), r));
    return r;
}

TEST(a_master_names_its_replicas) {
    redis_info *r = read_info(
        "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:0123abcd\r\n"
        "server_time_usec:1795299412239419\r\n# Replication\r\nrole:master\r\n"
        "connected_slaves:2\r\nslave0:ip=10.0.0.2,port=6380,state=online,offset=1,lag=0\r\n"
        "slave1:ip=fe80::3,port=6379,state=online,offset=1,lag=1\r\nmaster_failover_state:no\r\n"
        "slave_expires_tracked_keys:0\r\nmaster_repl_offset:1\r\n");
    assert_string_equal(r->run_id, "0123abcd");
    assert_true(r->time_us == INT64_C(1795299412239419));
    assert_false(r->sentinel || r->cluster);
    assert_int_equal(r->peers.count, 2);
    assert_true(has(&r->peers, "10.0.0.2", 6380) && has(&r->peers, "fe80::3", 6379));
    test_free(r);
}

TEST(a_replica_names_its_master_and_its_own_replicas) {
    redis_info *r = read_info("redis_version:2.8.0\r\nrole:slave\r\nmaster_host:redis.example\r\n"
                              "master_port:6379\r\nmaster_link_status:up\r\n"
                              "slave0:ip=10.0.0.9,port=6379,state=online\r\n");
    assert_int_equal(r->peers.count, 2);
    assert_true(has(&r->peers, "redis.example", 6379) && has(&r->peers, "10.0.0.9", 6379));
    assert_int_equal(r->time_us, -1);
    assert_string_equal(r->run_id, "");
    test_free(r);
    r = read_info("redis_version:2.6.17\r\nrole:master\r\nconnected_slaves:1\r\n"
                  "slave0:10.0.0.9,6380,online\r\nslave1:10.0.0.9\r\n");
    assert_int_equal(r->peers.count, 1);
    assert_true(has(&r->peers, "10.0.0.9", 6380));
    test_free(r);
}

TEST(a_sentinel_names_whom_it_watches) {
    redis_info *r = read_info(
        "redis_version:7.0.15\r\nredis_mode:sentinel\r\n# Sentinel\r\nsentinel_masters:2\r\n"
        "master0:name=main,status=ok,address=127.0.0.1:6379,slaves=1,sentinels=1\r\n"
        "master1:name=other,status=odown,address=::1:6380,slaves=0,sentinels=1\r\n");
    assert_true(r->sentinel);
    assert_int_equal(r->masters, 2);
    assert_string_equal(r->master, "main");
    assert_true(has(&r->peers, "127.0.0.1", 6379) && has(&r->peers, "::1", 6380));
    test_free(r);
}

TEST(what_is_odd_is_left_out) {
    redis_info *r = test_malloc(sizeof *r);
    assert_false(info_read("", 0, r));
    assert_false(info_read("hello\n", 6, r));
    test_free(r);
    r = read_info("redis_version:1\nslave0:ip=a\nslave1:port=1\nslave2:ip=a,port=0\n"
                  "slave3:ip=a,port=65536\nslave4:ip=,port=1\nslave5:ip=a b,port=1\n"
                  "slave6:ip=a\"b,port=1\nslaves:ip=a,port=1\nmaster_port:1\n"
                  "master0:name=x,address=nowhere\nserver_time_usec:-5\n"
                  "run_id:0123456789012345678901234567890123456789012345678\n");
    assert_int_equal(r->peers.count, 0);
    assert_int_equal(r->masters, 0);
    assert_int_equal(r->time_us, -1);
    assert_string_equal(r->run_id, "");
    test_free(r);
}

TEST(a_cluster_names_its_nodes_but_not_itself) {
    static const char text[] =
        "07c3 127.0.0.1:30004@31004,host4 slave e7d1 0 1426238317239 4 connected\n"
        "67ed 127.0.0.1:30002@31002 master - 0 1426238316232 2 connected 5461-10922\n"
        "e7d1 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460\n"
        "aaaa fe80::7:30005@31005,,shard-id=1 master,fail? - 0 0 1 disconnected\n"
        "bbbb :0@0 master,noaddr - 0 0 1 disconnected\n"
        "cccc 127.0.0.1:30009@31009 handshake - 0 0 0 disconnected\n"
        "dddd 127.0.0.1:30006 slave,fail e7d1 0 0 1 disconnected\n"
        "broken\n";
    redis_places *p = test_calloc(1, sizeof *p);
    nodes_read(text, sizeof text - 1, p);
    assert_int_equal(p->count, 5);
    assert_true(has(p, "127.0.0.1", 30004) && has(p, "127.0.0.1", 30002));
    assert_true(has(p, "fe80::7", 30005) && has(p, "", 0) && has(p, "127.0.0.1", 30006));
    test_free(p);
}

TEST(places_are_bounded_and_told_so) {
    redis_places *p = test_calloc(1, sizeof *p);
    for (int i = 1; i <= PLACES_MAX; i++) {
        places_add(p, "h", 1, (uint16_t)i);
        places_add(p, "h", 1, (uint16_t)i);
    }
    assert_int_equal(p->count, PLACES_MAX);
    assert_false(p->more);
    places_add(p, "h", 1, PLACES_MAX + 1);
    assert_int_equal(p->count, PLACES_MAX);
    assert_true(p->more);
    test_free(p);
}

TEST(a_place_is_a_host_and_a_port) {
    redis_place x;
    assert_true(place_read("[::1]:6379", 10, &x));
    assert_string_equal(x.host, "::1");
    assert_int_equal(x.port, 6379);
    assert_true(place_read("h:1", 3, &x));
    static const char *const bad[] = {"",        ":1",   "h",     "h:",  "h:0",
                                      "h:65536", "h:-1", "a b:1", "[]:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(place_read(bad[i], strlen(bad[i]), &x));
    char longest[TL_HOST_SIZE + 3];
    memset(longest, 'h', sizeof longest);
    memcpy(longest + TL_HOST_SIZE - 1, ":1", 2);
    assert_true(place_read(longest, TL_HOST_SIZE + 1, &x));
    memcpy(longest + TL_HOST_SIZE - 1, "h:1", 3);
    assert_false(place_read(longest, TL_HOST_SIZE + 2, &x));
}
