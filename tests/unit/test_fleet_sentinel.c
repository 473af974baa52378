/*
 * A client beside one Sentinel that the test plays, at one place or two: when another generation begins, and who counts.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client.h"
#include "fake_resp.h"
#include "names_as.h"
#include "peer.h"

#define CONNS 16
#define SAID 1024

static struct {
    peer at; /* its listener */
    struct {
        int fd;
        size_t n;
        char said[SAID];
    } conn[CONNS];
    unsigned conns;
    int epoch, others;
    bool mute_run, mute_id; /* its user may not ask for these */
} sentinel;

static tl_client *client;

/* ---- the Sentinel ---------------------------------------------------------------------------- */

static bool is(tl_bytes word, const char *text) {
    return tl__bytes_eq(word, tl__bytes_of(text));
}

static void say_master(char *to, size_t size) {
    char epoch[16], others[16];
    int e = snprintf(epoch, sizeof epoch, "%d", sentinel.epoch);
    int o = snprintf(others, sizeof others, "%d", sentinel.others);
    (void)snprintf(to, size,
                   "*4\r\n$12\r\nconfig-epoch\r\n$%d\r\n%s\r\n$19\r\nnum-other-sentinels\r\n"
                   "$%d\r\n%s\r\n",
                   e, epoch, o, others);
}

static void answer(int fd, const tl_bytes *argv, size_t argc) {
    char text[256] = "-NOPERM this user has no permissions to run the command\r\n";
    bool asks = is(argv[0], "SENTINEL");
    if (is(argv[0], "INFO") && !sentinel.mute_run)
        (void)snprintf(text, sizeof text, "$14\r\nrun_id:0000001\r\n");
    else if (asks && is(argv[1], "MYID") && !sentinel.mute_id)
        (void)snprintf(text, sizeof text, "$4\r\nfeed\r\n");
    else if (asks && is(argv[1], "MASTER"))
        say_master(text, sizeof text);
    else if (asks && is(argv[1], "GET-MASTER-ADDR-BY-NAME"))
        (void)snprintf(text, sizeof text, "*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n");
    else if (asks && is(argv[1], "SENTINELS"))
        (void)snprintf(text, sizeof text, "*0\r\n");
    else if (is(argv[0], "SUBSCRIBE"))
        (void)snprintf(text, sizeof text,
                       "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    assert_true(argc > 0);
    assert_true(send(fd, text, strlen(text), MSG_NOSIGNAL) > 0 || errno == EPIPE);
}

static void serve_one(unsigned i) {
    static tl_bytes argv[FAKE_RESP_ARGS_MAX];
    size_t argc, used, *n = &sentinel.conn[i].n;
    char *said = sentinel.conn[i].said;
    ssize_t k = recv(sentinel.conn[i].fd, said + *n, SAID - *n, 0);
    *n += k > 0 ? (size_t)k : 0;
    while (fake_resp_read(tl__bytes(said, *n), argv, &argc, &used) == FAKE_RESP_READY) {
        answer(sentinel.conn[i].fd, argv, argc);
        memmove(said, said + used, *n - used);
        *n -= used;
    }
}

static void serve(void) {
    int fd = accept4(sentinel.at.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        assert_true(sentinel.conns < CONNS);
        sentinel.conn[sentinel.conns].n = 0;
        sentinel.conn[sentinel.conns++].fd = fd;
    }
    for (unsigned i = 0; i < sentinel.conns; i++)
        serve_one(i);
}

/* ---- the client ------------------------------------------------------------------------------ */

static tl_site *site(void) {
    return client->node.site;
}

static void open_client(const char *hosts) {
    char url[128];
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = url);
    names_as(names_of_loopback);
    (void)snprintf(url, sizeof url, hosts, sentinel.at.port, sentinel.at.port);
    assert_int_equal(tl_client_open(&options, &client, NULL), TL_OK);
}

static void turn(tl_mono began) {
    if (tl__ms_until(began, tl__mono_now()) > PEER_WAIT_MS)
        fail_msg("waited for %d ms", PEER_WAIT_MS);
    tl__fleet_drive(&client->fleet, tl__mono_now());
    serve();
    (void)poll(NULL, 0, 1);
}

/* By a question that is asked from now on. */
static void await_named(void) {
    tl_mono began = tl__mono_now();
    while (!tl__site_is_named(site(), began))
        turn(began);
}

static int begin(void **state) {
    (void)state;
    memset(&sentinel, 0, sizeof sentinel);
    peer_listen(&sentinel.at);
    return 0;
}

static int end(void **state) {
    (void)state;
    tl_client_close(client);
    for (unsigned i = 0; i < sentinel.conns; i++)
        close(sentinel.conn[i].fd);
    peer_close(&sentinel.at);
    return 0;
}

TESTS_WITH(begin, end);

/* ---- epochs ---------------------------------------------------------------------------------- */

TEST(the_same_server_in_another_epoch_is_another_generation) {
    sentinel.epoch = 7;
    open_client("redis+sentinel://127.0.0.1:%d/m");
    await_named();
    assert_int_equal(atomic_load(&site()->generation), 1);
    assert_int_equal(site()->spot->epoch, 7);
    await_named();
    assert_int_equal(atomic_load(&site()->generation), 1);
    sentinel.epoch = 9;
    await_named();
    assert_int_equal(atomic_load(&site()->generation), 2);
    assert_int_equal(site()->spot->epoch, 9);
    assert_true(tl__site_has_changed(site(), tl__mono_add_ms(tl__mono_now(), -PEER_WAIT_MS)));
}

/* Nobody knows better: the Sentinels were set up anew. */
TEST(a_lower_epoch_that_all_tell_is_believed) {
    sentinel.epoch = 7;
    open_client("redis+sentinel://127.0.0.1:%d/m");
    await_named();
    sentinel.epoch = 0;
    await_named();
    assert_int_equal(atomic_load(&site()->generation), 2);
    assert_int_equal(site()->spot->epoch, 0);
}

/* ---- who it is ------------------------------------------------------------------------------- */

static void two_places(bool mute_run, bool mute_id, const char *words) {
    char said[TL_SITE_MESSAGE_SIZE];
    tl_mono began = tl__mono_now();
    sentinel.mute_run = mute_run;
    sentinel.mute_id = mute_id;
    sentinel.others = 1; /* of two both are the majority */
    open_client("redis+sentinel://127.0.0.1:%d,also.test:%d/m");
    do {
        (void)tl__site_is_named(site(), began);
        turn(began);
        tl__site_message(site(), said, sizeof said);
    } while (!strstr(said, words));
    assert_false(tl__site_was_named(site(), began));
}

TEST(one_by_two_addresses_is_one_by_its_run) {
    two_places(false, false, "1 of 2 answer");
}

TEST(one_by_two_addresses_is_one_by_its_id) {
    two_places(true, false, "1 of 2 answer");
}

/* Two places, and two Sentinels by its own word: they may be these, for all that is known. */
TEST(those_that_do_not_say_who_they_are_count_while_there_are_no_more_places) {
    sentinel.mute_run = sentinel.mute_id = true;
    sentinel.others = 1;
    open_client("redis+sentinel://127.0.0.1:%d,also.test:%d/m");
    await_named();
}

TEST(with_more_places_than_sentinels_they_do_not) {
    char said[TL_SITE_MESSAGE_SIZE];
    tl_mono began = tl__mono_now();
    sentinel.mute_run = sentinel.mute_id = true;
    open_client("redis+sentinel://127.0.0.1:%d,also.test:%d/m");
    do {
        (void)tl__site_is_named(site(), began);
        turn(began);
        tl__site_message(site(), said, sizeof said);
    } while (!strstr(said, "SENTINEL MYID"));
    assert_false(tl__site_was_named(site(), began));
}
