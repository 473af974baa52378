/*
 * Whether a cluster's master still is one, by answers of its replica that the test gives when it likes. The cluster's thread
 * doesn't run: the test drives it, and its clock stands still, so that no question ends for lateness.
 */
#include <limits.h>

#include "peer.h"

#include "client/client.h"
#include "client/cluster_inside.h"
#include "client/keeper_inside.h"

#define MAPS_MS 51     /* the map is asked for no more often */
#define HEDGE_MS 100   /* then the other masters are asked, too */
#define LEARN_MS 10000 /* so old a list of replicas is good for nothing */
#define NEWS_MS 200    /* so long one of them may know nothing of an election */
#define MANY 6         /* masters, so that not all others are asked about one at once */

typedef struct {
    peer other;           /* first; the other master, which tells the map */
    peer replica, second; /* of the master; the second one is listed by tell_two_replicas() */
    uint16_t port;        /* of the master that is asked about */
    tl_client *client;
    tl_mono now;
} nodes;

static void drive(void *near) {
    nodes *n = near;
    n->client->fleet.row->drive(&n->client->fleet, n->now);
}

static tl_cluster *cluster_of(const nodes *n) {
    return n->client->fleet.state;
}

static tl_member *member_at(const nodes *n, uint16_t port) {
    tl_cluster *c = cluster_of(n);
    for (unsigned i = 0; i < atomic_load(&c->count); i++)
        if (tl__member(c, i)->node.endpoint.port == port)
            return tl__member(c, i);
    fail_msg("no node at port %u is known", (unsigned)port);
    return NULL;
}

static unsigned serving(const nodes *n) {
    unsigned from = 0, count = 0;
    while (n->client->fleet.row->next(&n->client->fleet, &from)) {
        count++;
        from++;
    }
    return count;
}

static void tell_map(nodes *n, const char *map) {
    peer_accept(&n->other);
    peer_expect(&n->other, "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n");
    peer_send(&n->other, map);
    while (cluster_of(n)->asking)
        peer_turn(&n->other, tl__mono_now());
}

static void tell_two_masters(nodes *n) {
    char map[512];
    (void)snprintf(
        map, sizeof map,
        "*2\r\n"
        "*4\r\n:0\r\n:8191\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n"
        "*3\r\n:8192\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n",
        (unsigned)n->port, (unsigned)n->replica.port, (unsigned)n->other.port);
    tell_map(n, map);
}

static void tell_next_map(nodes *n, const char *map) {
    tl_cluster *c = cluster_of(n);
    n->now = tl__mono_add_ms(n->now, MAPS_MS);
    atomic_store(&c->knows, member_at(n, n->other.port));
    atomic_store(&c->wanted, true);
    tell_map(n, map);
}

/* By the next map the other has all slots. */
static void tell_that_it_left(nodes *n) {
    char map[256];
    (void)snprintf(map, sizeof map, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n",
                   (unsigned)n->other.port);
    tell_next_map(n, map);
}

static void open_nodes(nodes *n) {
    char url[64];
    peer unused;
    *n = (nodes){.now = tl__mono_now()};
    peer_listen(&n->other);
    peer_listen(&n->replica);
    peer_listen(&n->second);
    peer_listen(&unused);
    n->port = unused.port;
    n->other.drive = n->replica.drive = n->second.drive = drive;
    n->other.near = n->replica.near = n->second.near = n;
    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u", (unsigned)n->other.port);
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = url);
    assert_int_equal(tl_client_open(&options, &n->client, NULL), TL_OK);
    tell_two_masters(n);
    peer_close(&unused);
}

static void close_nodes(nodes *n) {
    tl_client_close(n->client);
    peer_close(&n->other);
    peer_close(&n->replica);
    peer_close(&n->second);
}

/* By the next map the master has the slots from 0 to that, and the other what is left. */
static void tell_split(nodes *n, unsigned last) {
    char map[512];
    (void)snprintf(
        map, sizeof map,
        "*2\r\n"
        "*4\r\n:0\r\n:%u\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n"
        "*3\r\n:%u\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n",
        last, (unsigned)n->port, (unsigned)n->replica.port, last + 1, (unsigned)n->other.port);
    tell_next_map(n, map);
}

static void write_two_replicas(const nodes *n, char map[512]) {
    (void)snprintf(
        map, 512,
        "*2\r\n"
        "*5\r\n:0\r\n:8191\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n"
        "*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n",
        (unsigned)n->port, (unsigned)n->replica.port, (unsigned)n->second.port,
        (unsigned)n->other.port);
}

/* By the next map the master has another replica, too. */
static void tell_two_replicas(nodes *n) {
    char map[512];
    write_two_replicas(n, map);
    tell_next_map(n, map);
}

/* By which slot the replica is asked; and by `end` for how much. */
static unsigned hear(peer *replica, const char *end) {
    char got[512] = "";
    for (size_t at = 0; !strstr(got, end);) {
        ssize_t k = recv(replica->stream, got + at, sizeof got - 1 - at, 0);
        at += k > 0 ? (size_t)k : 0;
        peer_turn(replica, tl__mono_now());
    }
    assert_non_null(strstr(got, "GET\r\n"));
    const char *key = strstr(got, "tidelock:"), *after = key ? strstr(key, "\r\n") : NULL;
    assert_non_null(after);
    return tl__hash_slot(tl__bytes(key, (size_t)(after - key)));
}

/* Somebody wants to know anew: the replica is asked. Returns by which slot. */
static unsigned ask(nodes *n) {
    assert_false(tl__site_is_named(&member_at(n, n->port)->site, tl__mono_now()));
    bool first = n->replica.stream < 0;
    if (first)
        peer_accept(&n->replica);
    return hear(&n->replica, first ? "replication\r\n" : "INFO\r\n");
}

/* history NULL: it wasn't asked for; "": it isn't reported. */
static void say(nodes *n, peer *replica, unsigned epoch, const char *history) {
    char text[512], info[64], told[128] = "";
    (void)snprintf(info, sizeof info, "cluster_my_epoch:%u\r\n", epoch);
    if (history && *history)
        (void)snprintf(told, sizeof told, "role:slave\r\nmaster_replid:%s\r\n", history);
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "-MOVED 0 127.0.0.1:%u\r\n"
                                 "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:0\r\n"
                                 "$%zu\r\n%s\r\n",
                                 (unsigned)n->port, strlen(info), info);
    if (history)
        (void)snprintf(text + at, sizeof text - at, "$%zu\r\n%s\r\n", strlen(told), told);
    peer_send(replica, text);
}

static void await_outcome(nodes *n) {
    while (cluster_of(n)->questions > 0)
        peer_turn(&n->replica, tl__mono_now());
}

static void answer_with(nodes *n, unsigned epoch, const char *history) {
    say(n, &n->replica, epoch, history);
    await_outcome(n);
}

static void answer(nodes *n, unsigned epoch) {
    answer_with(n, epoch, NULL);
}

/* The first question, which asks for the replication id. */
static void ask_first(nodes *n) {
    (void)ask(n);
    answer_with(n, 1, "a0");
}

/* It is asked again, for its replication id. */
static void answer_twice(nodes *n, unsigned epoch, const char *history) {
    say(n, &n->replica, epoch, NULL);
    (void)hear(&n->replica, "replication\r\n");
    answer_with(n, epoch, history);
}

static uint32_t generation(const nodes *n) {
    return atomic_load(&member_at(n, n->port)->site.generation);
}

TEST(a_master_with_another_epoch_and_history_than_before_is_led_to_anew) {
    nodes n;
    open_nodes(&n);
    assert_int_equal(serving(&n), 2);
    uint32_t before = generation(&n);
    ask_first(&n);
    ask(&n);
    answer(&n, 1);
    assert_int_equal(generation(&n), before);
    ask(&n);
    answer_twice(&n, 2, "b0");
    assert_int_equal(generation(&n), before + 1);
    assert_int_equal(serving(&n), 2);
    ask(&n);
    answer(&n, 2);
    assert_int_equal(generation(&n), before + 1);
    close_nodes(&n);
}

/* It was given a slot. */
TEST(a_master_whose_epoch_alone_has_changed_is_still_the_same) {
    nodes n;
    open_nodes(&n);
    uint32_t before = generation(&n);
    ask_first(&n);
    for (unsigned epoch = 2; epoch < 5; epoch++) {
        ask(&n);
        answer_twice(&n, epoch, "a0");
        assert_int_equal(generation(&n), before);
        assert_true(member_at(&n, n.port)->site.named_ns > 0);
    }
    close_nodes(&n);
}

TEST(without_a_history_another_epoch_is_another_reign) {
    nodes n;
    open_nodes(&n);
    uint32_t before = generation(&n);
    ask(&n);
    answer_with(&n, 1, "");
    ask(&n);
    answer(&n, 2);
    assert_int_equal(generation(&n), before + 1);
    close_nodes(&n);
}

/* It may have been a master itself. */
TEST(another_epoch_is_another_reign_if_the_replica_does_not_say_its_history) {
    nodes n;
    open_nodes(&n);
    uint32_t before = generation(&n);
    ask_first(&n);
    ask(&n);
    say(&n, &n.replica, 2, NULL);
    (void)hear(&n.replica, "replication\r\n");
    assert_int_equal(generation(&n), before);
    n.now = tl__mono_add_ms(tl__mono_now(), HEDGE_MS);
    drive(&n);
    assert_int_equal(generation(&n), before + 1);
    close_nodes(&n);
}

/* The one that was not asked before may have been the master in between. */
TEST(another_epoch_is_another_reign_if_a_replica_is_asked_for_the_first_time) {
    nodes n;
    open_nodes(&n);
    uint32_t before = generation(&n);
    ask_first(&n);
    tell_two_replicas(&n);
    ask(&n);
    peer_accept(&n.second);
    (void)hear(&n.second, "replication\r\n");
    say(&n, &n.second, 2, "a0");
    say(&n, &n.replica, 2, NULL);
    (void)hear(&n.replica, "replication\r\n");
    answer_with(&n, 2, "a0");
    assert_int_equal(generation(&n), before + 1);
    close_nodes(&n);
}

/* What is divided by how many serve would be divided by none, if it left more often than it came. */
TEST(a_master_that_left_since_it_was_asked_about_is_not_led_to_by_the_answer) {
    nodes n;
    open_nodes(&n);
    tl_member *m = member_at(&n, n.port);
    ask_first(&n);
    ask(&n);
    tell_that_it_left(&n);
    assert_int_equal(serving(&n), 1);
    assert_true(m->question.open);
    answer_twice(&n, 2, "b0");
    assert_int_equal(atomic_load(&m->site.generation), 0);
    assert_int_equal(serving(&n), 1);
    tell_that_it_left(&n);
    assert_int_equal(atomic_load(&cluster_of(&n)->serving), 1);
    close_nodes(&n);
}

/* A slot that it was given lately the others may know nothing of, nor its replica. One map a world: by the second the
 * other master would be asked, too. */
TEST(a_master_is_asked_about_by_a_slot_that_it_has_had_for_long) {
    static const unsigned last[] = {9000, 16000, 8191, 8000}, by[] = {8191, 8191, 8191, 8000};
    for (int i = 0; i < 4; i++) {
        nodes n;
        open_nodes(&n);
        assert_int_equal(ask(&n), 8191);
        answer_with(&n, 1, "a0");
        tell_split(&n, last[i]);
        assert_int_equal(ask(&n), by[i]);
        answer(&n, 1);
        close_nodes(&n);
    }
}

/* However wrong the count were. */
TEST(a_node_has_some_connections_however_many_serve) {
    static const unsigned counts[] = {0, 1, TL_NODES_MAX, UINT_MAX};
    nodes n;
    open_nodes(&n);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        atomic_store(&cluster_of(&n)->serving, counts[i]);
        assert_in_range(n.client->fleet.row->pooled(&n.client->fleet), TL_POOLED_LEAST,
                        TL_POOLED_MAX);
    }
    close_nodes(&n);
}

/* A voter may not know yet who has won: it is good for what was a while ago. */
TEST(what_other_masters_say_counts_as_of_a_while_before_they_were_asked) {
    nodes n;
    open_nodes(&n);
    tl_member *m = member_at(&n, n.port);
    int maps = n.other.stream;
    char got[512] = "";
    assert_false(tl__site_is_named(&m->site, tl__mono_now()));
    drive(&n); /* the replica is asked, and doesn't answer */
    assert_true(m->question.open);
    n.now = tl__mono_add_ms(tl__mono_now(), HEDGE_MS);
    n.other.stream = -1;
    peer_accept(&n.other);
    for (size_t at = 0; !strstr(got, "GET\r\n");) {
        ssize_t k = recv(n.other.stream, got + at, sizeof got - 1 - at, 0);
        at += k > 0 ? (size_t)k : 0;
        peer_turn(&n.other, tl__mono_now());
    }
    (void)snprintf(got, sizeof got, "-MOVED 0 127.0.0.1:%u\r\n", (unsigned)n.port);
    peer_send(&n.other, got);
    while (cluster_of(&n)->questions > 0)
        peer_turn(&n.other, tl__mono_now());
    tl_mono asked = m->question.began;
    assert_true(tl__site_was_named(&m->site, tl__mono_add_ms(asked, -NEWS_MS)));
    assert_false(tl__site_was_named(&m->site, tl__mono_add_ms(asked, 1 - NEWS_MS)));
    (void)close(maps);
    close_nodes(&n);
}

static void open_many(nodes *n) {
    char url[64], map[1024];
    peer unused[MANY];
    size_t at = (size_t)snprintf(map, sizeof map, "*%d\r\n", MANY);
    *n = (nodes){.now = tl__mono_now(),
                 .replica = {.listener = -1, .stream = -1},
                 .second = {.listener = -1, .stream = -1}};
    peer_listen(&n->other);
    n->other.drive = drive;
    n->other.near = n;
    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u", (unsigned)n->other.port);
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = url);
    assert_int_equal(tl_client_open(&options, &n->client, NULL), TL_OK);
    for (int i = 0; i < MANY; i++) {
        peer_listen(&unused[i]);
        n->port = i > 0 ? unused[i].port : n->other.port;
        at += (size_t)snprintf(map + at, sizeof map - at,
                               "*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n", i * 2000,
                               i < MANY - 1 ? i * 2000 + 1999 : 16383, (unsigned)n->port);
    }
    tell_map(n, map);
    for (int i = 0; i < MANY; i++)
        peer_close(&unused[i]);
}

/* Some may not answer for long. If the same were asked each time, so few others might never be enough. */
TEST(each_time_another_of_the_masters_is_asked_first) {
    nodes n;
    open_many(&n);
    tl_cluster *c = cluster_of(&n);
    tl_member *m = member_at(&n, n.port);
    assert_int_equal(serving(&n), MANY);
    for (int i = 1; i <= MANY; i++) {
        unsigned asked = 0, most = 0;
        assert_false(tl__site_is_named(&m->site, tl__mono_now()));
        n.now = tl__mono_add_ms(tl__mono_now(), i * 10000); /* beyond the last one's limit */
        drive(&n);
        assert_false(m->question.open);
        for (unsigned k = 0; k < atomic_load(&c->count); k++, most++)
            asked += tl__member(c, k)->used.ns > 0;
        assert_true(i > 1 || asked < most - 1);
    }
    for (unsigned k = 0; k < atomic_load(&c->count); k++)
        assert_true(tl__member(c, k) == m || tl__member(c, k)->used.ns > 0);
    close_nodes(&n);
}

/* Of several nodes: a new connection to one of them tells nothing of the others. */
TEST(a_cluster_that_refuses_keys_of_one_slot_together_is_asked_so_no_more) {
    nodes n;
    open_nodes(&n);
    tl_keeper *k = &n.client->keeper;
    k->apart = true;
    k->apart_run = 1;
    tl__keeper_joins_anew(k);
    assert_true(k->apart);
    close_nodes(&n);
}

/* Nobody asked for the replicas while the client was idle. One that it doesn't know may have come, and taken over. */
TEST(who_was_idle_asks_which_replicas_there_are_before_he_asks_them) {
    nodes n;
    char map[512];
    open_nodes(&n);
    tl_member *m = member_at(&n, n.port);
    ask_first(&n);
    n.now = tl__mono_add_ms(tl__mono_now(), MAPS_MS);
    cluster_of(&n)->listed = tl__mono_add_ms(tl__mono_now(), -LEARN_MS);
    tl_mono asked = tl__mono_now();
    assert_false(tl__site_is_named(&m->site, asked));
    drive(&n);
    assert_false(m->question.open);
    write_two_replicas(&n, map);
    tell_map(&n, map);
    (void)hear(&n.replica, "INFO\r\n");
    peer_accept(&n.second);
    (void)hear(&n.second, "replication\r\n");
    say(&n, &n.second, 1, "a0");
    answer(&n, 1);
    assert_true(tl__site_was_named(&m->site, asked));
    close_nodes(&n);
}

/* It is asked for before it is too old. */
TEST(who_asks_often_waits_for_no_list_of_replicas) {
    nodes n;
    open_nodes(&n);
    ask_first(&n);
    assert_false(cluster_of(&n)->asking);
    n.now = tl__mono_add_ms(tl__mono_now(), MAPS_MS);
    cluster_of(&n)->listed = tl__mono_add_ms(tl__mono_now(), -LEARN_MS / 2);
    tl_mono asked = tl__mono_now();
    (void)ask(&n);
    answer(&n, 1);
    assert_true(tl__site_was_named(&member_at(&n, n.port)->site, asked));
    assert_true(cluster_of(&n)->asking);
    close_nodes(&n);
}
