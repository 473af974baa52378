/*
 * Which node of a cluster is which, by maps that the test gives: nodes go by their ids, however others name them and wherever
 * they come to, and those that are gone are forgotten. The cluster's thread doesn't run: the test drives it.
 */
#include "peer.h"

#include "client/client.h"
#include "client/cluster_inside.h"

#define MAPS_MS 51     /* the map is asked for no more often */
#define LEARN_MS 10001 /* so often replicas are learned of */
#define MANY 400       /* nodes, of which others come with each map */
#define ROUNDS 12      /* so that more come than a client can remember */
#define FORMER_MAX 32  /* remembered though they are gone */

typedef struct {
    peer node; /* first; the one that tells the map, and has the last slots */
    tl_client *client;
    tl_mono now;
    char map[MANY * 200];
    size_t used;
} world;

static tl_cluster *cluster_of(const world *w) {
    return w->client->fleet.state;
}

static void drive(void *near) {
    world *w = near;
    w->client->fleet.row->drive(&w->client->fleet, w->now);
}

static void open_world(world *w) {
    char url[64];
    *w = (world){.now = tl__mono_now()};
    peer_listen(&w->node);
    w->node.drive = drive;
    w->node.near = w;
    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u", (unsigned)w->node.port);
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = url);
    assert_int_equal(tl_client_open(&options, &w->client, NULL), TL_OK);
}

static void close_world(world *w) {
    tl_client_close(w->client);
    peer_close(&w->node);
}

__attribute__((format(printf, 2, 3))) static void add(world *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    w->used += (size_t)vsnprintf(w->map + w->used, sizeof w->map - w->used, format, args);
    va_end(args);
    assert_true(w->used < sizeof w->map);
}

static void begin_map(world *w, unsigned masters) {
    w->used = 0;
    add(w, "*%u\r\n", masters);
}

/* A master with slots from first to last. id, and what else it is called, may be NULL. */
static void add_master(world *w, unsigned first, unsigned last, const char *host, unsigned port,
                       const char *id, const char *what, const char *other) {
    add(w, "*3\r\n:%u\r\n:%u\r\n*%d\r\n$%zu\r\n%s\r\n:%u\r\n", first, last,
        id ? (other ? 4 : 3) : 2, strlen(host), host, port);
    if (id)
        add(w, "$%zu\r\n%s\r\n", strlen(id), id);
    if (id && other)
        add(w, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(what), what, strlen(other), other);
}

/* The one that tells has the rest of the slots. */
static void end_map(world *w, unsigned first) {
    add_master(w, first, 16383, "127.0.0.1", w->node.port, "teller", NULL, NULL);
}

/* It has been asked for by now, or is in this turn. */
static void give_map_by(world *w, peer *node) {
    peer_accept(node);
    peer_expect(node, "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n");
    peer_send(node, w->map);
    while (cluster_of(w)->asking)
        peer_turn(node, tl__mono_now());
}

static void give_map(world *w) {
    give_map_by(w, &w->node);
}

static tl_member *member_of_slot(const world *w, unsigned slot) {
    return (tl_member *)atomic_load(&cluster_of(w)->owner[slot]);
}

static void tell_map(world *w) {
    tl_cluster *c = cluster_of(w);
    w->now = tl__mono_add_ms(w->now, MAPS_MS);
    if (atomic_load(&c->known))
        atomic_store(&c->knows, member_of_slot(w, 16383));
    atomic_store(&c->wanted, true);
    give_map(w);
}

static unsigned serving(const world *w) {
    unsigned from = 0, count = 0;
    while (w->client->fleet.row->next(&w->client->fleet, &from)) {
        count++;
        from++;
    }
    return count;
}

/* One master beside the teller, by what it is told as. */
static tl_member *tell_of(world *w, const char *host, unsigned port, const char *id,
                          const char *what, const char *other) {
    begin_map(w, 2);
    add_master(w, 0, 8191, host, port, id, what, other);
    end_map(w, 8192);
    tell_map(w);
    assert_int_equal(serving(w), 2);
    return member_of_slot(w, 0);
}

/* Some nodes prefer addresses, some host names. Each change of a place ends all that is in flight there. */
TEST(a_node_is_the_same_by_its_address_and_by_its_host_name) {
    world w;
    open_world(&w);
    tl_member *m = tell_of(&w, "127.0.0.2", 7000, "one", NULL, NULL);
    uint32_t generation = atomic_load(&m->site.generation);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(tell_of(&w, "one.example", 7000, "one", "ip", "127.0.0.2"), m);
        assert_ptr_equal(tell_of(&w, "127.0.0.2", 7000, "one", "hostname", "one.example"), m);
    }
    assert_int_equal(atomic_load(&m->site.generation), generation);
    assert_string_equal(m->node.endpoint.host, "127.0.0.2");
    assert_int_equal(atomic_load(&cluster_of(&w)->count), 2);
    close_world(&w);
}

TEST(what_leads_to_another_name_of_a_node_leads_to_that_node) {
    world w;
    open_world(&w);
    tl_member *m = tell_of(&w, "127.0.0.2", 7000, "one", "hostname", "one.example");
    tl_redirect moved = {
        .kind = TL_MOVED, .slot = 9000, .node = {.host = TL_LITERAL("one.example"), .port = 7000}};
    tl_fleet *fleet = &w.client->fleet;
    (void)fleet->row->redirected(fleet, &m->node, &moved);
    assert_ptr_equal(member_of_slot(&w, 9000), m);
    moved.node.port = 7001;
    (void)fleet->row->redirected(fleet, &m->node, &moved);
    assert_ptr_not_equal(member_of_slot(&w, 9000), m);
    close_world(&w);
}

/* It can't be reached by the address: its certificate may tell the host name alone. */
TEST(a_node_that_is_silent_is_asked_by_the_other_name) {
    world w;
    open_world(&w);
    tl_member *m = tell_of(&w, "127.0.0.2", 7000, "one", "hostname", "one.example");
    uint32_t generation = atomic_load(&m->site.generation);
    m->silent = tl__mono_add_ms(tl__mono_now(), -60000);
    tl__node_answered(&m->node, tl__mono_now());
    (void)tell_of(&w, "one.example", 7000, "one", "ip", "127.0.0.2");
    assert_int_equal(atomic_load(&m->site.generation), generation);
    atomic_store(&m->node.heard_ns, m->silent.ns - 1);
    assert_ptr_equal(tell_of(&w, "one.example", 7000, "one", "ip", "127.0.0.2"), m);
    assert_int_equal(atomic_load(&m->site.generation), generation + 1);
    assert_string_equal(m->node.endpoint.host, "one.example");
    close_world(&w);
}

TEST(a_node_that_comes_to_another_place_is_followed_there) {
    world w;
    char label[TL_LABEL_SIZE];
    open_world(&w);
    tl_member *m = tell_of(&w, "127.0.0.2", 7000, "one", "hostname", "one.example");
    uint32_t generation = atomic_load(&m->site.generation);
    assert_ptr_equal(tell_of(&w, "127.0.0.3", 7000, "one", "hostname", "one.example"), m);
    assert_int_equal(atomic_load(&m->site.generation), generation + 1);
    assert_string_equal(m->node.endpoint.host, "127.0.0.3");
    assert_string_equal(tl__node_label(&m->node, label), "127.0.0.3:7000");
    assert_false(tl__member_is_called(m, TL_LITERAL("127.0.0.2"), 7000));
    assert_int_equal(atomic_load(&cluster_of(&w)->count), 2);
    close_world(&w);
}

/* The news goes from node to node: one that hasn't heard it would lead back, and the next forth again. */
TEST(a_node_that_has_moved_is_not_led_back_by_one_that_has_not_heard_it) {
    world w;
    open_world(&w);
    (void)tell_of(&w, "127.0.0.2", 7000, "one", NULL, NULL);
    tl_member *m = tell_of(&w, "127.0.0.3", 7000, "one", NULL, NULL);
    uint32_t generation = atomic_load(&m->site.generation);
    assert_ptr_equal(tell_of(&w, "127.0.0.2", 7000, "one", NULL, NULL), m);
    assert_string_equal(m->node.endpoint.host, "127.0.0.3");
    assert_true(tl__member_is_called(m, TL_LITERAL("127.0.0.3"), 7000));
    assert_int_equal(atomic_load(&m->site.generation), generation);
    m->silent = tl__mono_add_ms(tl__mono_now(),
                                -60000); /* it can't be reached there: so it has gone back */
    (void)tell_of(&w, "127.0.0.2", 7000, "one", NULL, NULL);
    assert_string_equal(m->node.endpoint.host, "127.0.0.2");
    assert_int_equal(atomic_load(&m->site.generation), generation + 1);
    close_world(&w);
}

/* Another's report may be old, the node's own isn't. */
TEST(a_node_that_has_moved_back_is_asked_itself_and_followed) {
    world w;
    peer self;
    open_world(&w);
    peer_listen(&self);
    self.drive = drive;
    self.near = &w;
    tl_member *m = tell_of(&w, "127.0.0.1", 7000, "one", NULL, NULL);
    assert_ptr_equal(tell_of(&w, "127.0.0.1", self.port, "one", NULL, NULL), m);
    assert_ptr_equal(tell_of(&w, "127.0.0.1", 7000, "one", NULL, NULL), m);
    assert_int_equal(m->node.endpoint.port, self.port);
    w.now = tl__mono_add_ms(w.now, MAPS_MS);
    give_map_by(&w, &self);
    assert_int_equal(m->node.endpoint.port, 7000);
    assert_int_equal(serving(&w), 2);
    peer_close(&self);
    close_world(&w);
}

TEST(another_node_at_the_place_of_a_former_one_is_another) {
    world w;
    open_world(&w);
    tl_member *m = tell_of(&w, "127.0.0.2", 7000, "one", NULL, NULL);
    tl_member *next = tell_of(&w, "127.0.0.2", 7000, "two", NULL, NULL);
    assert_ptr_not_equal(next, m);
    assert_int_equal(atomic_load(&m->site.generation), 0);
    assert_true(tl__member_is_called(next, TL_LITERAL("127.0.0.2"), 7000));
    assert_false(tl__member_is_called(m, TL_LITERAL("127.0.0.2"), 7000));
    close_world(&w);
}

TEST(two_nodes_that_change_their_places_are_both_followed) {
    world w;
    open_world(&w);
    for (int i = 0; i < 2; i++) {
        begin_map(&w, 3);
        add_master(&w, 0, 99, i % 2 ? "127.0.0.3" : "127.0.0.2", 7000, "one", NULL, NULL);
        add_master(&w, 100, 199, i % 2 ? "127.0.0.2" : "127.0.0.3", 7000, "two", NULL, NULL);
        end_map(&w, 200);
        tell_map(&w);
        assert_string_equal(member_of_slot(&w, 0)->node.endpoint.host,
                            i % 2 ? "127.0.0.3" : "127.0.0.2");
        assert_string_equal(member_of_slot(&w, 100)->node.endpoint.host,
                            i % 2 ? "127.0.0.2" : "127.0.0.3");
        assert_int_equal(atomic_load(&cluster_of(&w)->count), 3);
    }
    close_world(&w);
}

/* The other master is asked whether m still is one: it says so by a name of m. */
static void ask_about(world *w, tl_member *m, int *stream, const char *name) {
    char got[512] = "", text[128];
    m->again = (tl_mono){0};
    w->now = tl__mono_now();
    assert_false(tl__site_is_named(&m->site, tl__mono_now()));
    w->node.stream = *stream;
    if (*stream < 0)
        peer_accept(&w->node);
    for (size_t at = 0; !strstr(got, "GET\r\n");) {
        ssize_t k = recv(w->node.stream, got + at, sizeof got - 1 - at, 0);
        at += k > 0 ? (size_t)k : 0;
        peer_turn(&w->node, tl__mono_now());
    }
    (void)snprintf(text, sizeof text, "-MOVED 0 %s:7000\r\n", name);
    peer_send(&w->node, text);
    while (cluster_of(w)->questions > 0)
        peer_turn(&w->node, tl__mono_now());
    *stream = w->node.stream;
    w->node.stream = -1;
}

/* Whoever has never been heard of may have taken its place: but the one that names it knows who that is. */
TEST(a_master_that_another_names_as_nobody_has_yet_is_looked_up_there) {
    world w;
    int stream = -1;
    open_world(&w);
    tl_cluster *c = cluster_of(&w);
    tl_member *m = tell_of(&w, "127.0.0.2", 7000, "one", NULL, NULL);
    peer_drop(&w.node);
    ask_about(&w, m, &stream, "one.example");
    assert_false(tl__site_was_named(&m->site, (tl_mono){1}));
    assert_true(atomic_load(&c->wanted) || c->asking);
    begin_map(&w, 2);
    add_master(&w, 0, 8191, "one.example", 7000, "one", "ip", "127.0.0.2");
    end_map(&w, 8192);
    w.now = tl__mono_add_ms(w.now, 2 * MAPS_MS);
    give_map(&w);
    peer_drop(&w.node);
    ask_about(&w, m, &stream, "one.example");
    assert_true(tl__site_was_named(&m->site, (tl_mono){1}));
    ask_about(&w, m, &stream, "two.example");
    assert_true(c->wanted || c->asking);
    (void)close(stream);
    close_world(&w);
}

/* A client follows a cluster whose nodes are replaced again and again, for as long as it lives. */
static void replace_all(world *w, int round, bool ids) {
    char host[32], id[32];
    begin_map(w, MANY + 1);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(host, sizeof host, "127.%d.%u.%u", 1 + round, i / 200, 1 + i % 200);
        (void)snprintf(id, sizeof id, "node-%d-%u", round, i);
        add_master(w, i, i, host, 7000, ids ? id : NULL, NULL, NULL);
    }
    end_map(w, MANY);
    tell_map(w);
    assert_int_equal(serving(w), MANY + 1);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(host, sizeof host, "127.%d.%u.%u", 1 + round, i / 200, 1 + i % 200);
        assert_non_null(member_of_slot(w, i));
        assert_string_equal(member_of_slot(w, i)->node.endpoint.host, host);
        assert_int_not_equal(atomic_load(&member_of_slot(w, i)->site.generation), 0);
    }
}

static void replace_often(bool ids) {
    static world w;
    open_world(&w);
    replace_all(&w, 0, ids);
    tl_member *used = member_of_slot(&w, 0);
    uint32_t last = used->site.last;
    atomic_fetch_add(&used->node.borrowed, 1);
    for (int i = 1; i < ROUNDS; i++)
        replace_all(&w, i, ids);
    assert_in_range(atomic_load(&cluster_of(&w)->count), 0, 2 * MANY + FORMER_MAX);
    assert_false(used->is_free); /* somebody has a connection there */
    assert_int_equal(used->site.last, last);
    assert_int_equal(atomic_load(&used->site.generation), 0);
    atomic_fetch_sub(&used->node.borrowed, 1);
    for (int i = ROUNDS; i < ROUNDS + 2; i++)
        replace_all(&w, i, ids);
    assert_true(used->is_free || used->site.last > last);
    close_world(&w);
}

TEST(nodes_that_are_gone_are_forgotten_unless_something_uses_them) {
    replace_often(true);
}

TEST(places_of_nodes_without_ids_are_forgotten_alike) {
    replace_often(false);
}

/* By the last map it is asked too few: the slots of the nodes that a client uses may never move. */
TEST(a_cluster_that_has_grown_asks_as_many_masters_as_elect_in_it) {
    world w;
    open_world(&w);
    tl_cluster *c = cluster_of(&w);
    (void)tell_of(&w, "127.0.0.2", 7000, "one", NULL, NULL);
    assert_int_equal(c->masters, 2);
    w.now = tl__mono_add_ms(tl__mono_now(), LEARN_MS);
    c->learns = true; /* somebody asks about a master, and it is time to learn of replicas */
    begin_map(&w, 7);
    add_master(&w, 0, 8191, "127.0.0.2", 7000, "one", NULL, NULL);
    for (unsigned i = 0; i < 5; i++) {
        char id[2] = {(char)('a' + i), '\0'};
        add_master(&w, 8192 + i, 8192 + i, "127.0.0.3", 7000 + i, id, NULL, NULL);
    }
    end_map(&w, 8192 + 5);
    give_map(&w);
    assert_int_equal(c->masters, 7);
    assert_int_equal(serving(&w), 2);
    w.now = tl__mono_add_ms(w.now, MAPS_MS); /* the whole is asked for */
    atomic_store(&c->knows, member_of_slot(&w, 16383));
    give_map(&w);
    assert_int_equal(serving(&w), 7);
    close_world(&w);
}
