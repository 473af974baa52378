/*
 * Faults: something else than a Redis server answers at the place, or nothing does. It is said in
 * its own words, at once or at the limit; and when the server is back the same handles work.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - a web server, a TLS server, SSH, garbage at the address: SERVER; silence: UNAVAILABLE; "it speaks TLS; try
 *   rediss://".
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "arena.h"

#define STRANGERS_MAX 64 /* connections at a time */

/* ---- somebody who listens and says always the same ---------------------------------------------- */

typedef struct {
    const char *name, *says;
    size_t n;
    enum { HEARS_FIRST = 1, HANGS_UP = 2, RESETS = 4 } manners;
    tl_err code;
    const char *words;
} stranger;

static int listener, stop_fd[2], listener_port;
static pthread_t thread;
static const stranger *_Atomic speaker;

/* One caller: it may say something first. */
static void speak(int fd, const stranger *s) {
    char heard[1024];
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if ((s->manners & HEARS_FIRST) && poll(&p, 1, SOON_MS) > 0)
        (void)!recv(fd, heard, sizeof heard, MSG_DONTWAIT);
    if (s->n)
        (void)!send(fd, s->says, s->n, MSG_NOSIGNAL);
    if (s->manners & RESETS)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

static void *listen_and_speak(void *ctx) {
    int open_fd[STRANGERS_MAX] = {0};
    int count = 0;
    struct pollfd p[2] = {{.fd = listener, .events = POLLIN}, {.fd = stop_fd[0], .events = POLLIN}};
    (void)ctx;
    while (poll(p, 2, -1) > 0 && !p[1].revents) {
        const stranger *s = atomic_load(&speaker);
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        speak(fd, s);
        if ((s->manners & (HANGS_UP | RESETS)) || count == STRANGERS_MAX)
            (void)close(fd);
        else
            open_fd[count++] = fd;
    }
    while (count > 0)
        (void)close(open_fd[--count]);
    return NULL;
}

static int meet(void **state) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    if (arena_set_up(state))
        return -1;
    atomic_store(&speaker, (const stranger *)*state);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&in, sizeof in) != 0 ||
        listen(listener, STRANGERS_MAX) != 0 ||
        getsockname(listener, (struct sockaddr *)&in, &size) != 0 || pipe(stop_fd) != 0 ||
        pthread_create(&thread, NULL, listen_and_speak, NULL) != 0)
        return -1;
    listener_port = ntohs(in.sin_port);
    return 0;
}

static int part(void **state) {
    int failed = arena_tear_down(state);
    (void)!write(stop_fd[1], "", 1);
    (void)pthread_join(thread, NULL);
    (void)close(listener);
    (void)close(stop_fd[0]);
    (void)close(stop_fd[1]);
    return failed;
}

/* ---- what is said of them ----------------------------------------------------------------------- */

#define SAYS(text) .says = (text), .n = sizeof(text) - 1
#define NONSENSE TL_ESERVER, "no reply of a Redis server"

static const stranger strangers[] = {
    {"a web server", SAYS("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
     HEARS_FIRST | HANGS_UP, TL_ESERVER, "it is a web server"},
    {"a server that wants TLS", SAYS("\x15\x03\x01\x00\x02\x02\x46"), HEARS_FIRST | HANGS_UP,
     TL_ESERVER, "speaks TLS; try rediss://"},
    {"a secure shell", SAYS("SSH-2.0-OpenSSH_9.2\r\n"), 0, TL_ESERVER, "secure shell"},
    {"a mail server", SAYS("220 mail.example ESMTP\r\n"), 0, NONSENSE},
    {"memcached", SAYS("ERROR\r\nERROR\r\nERROR\r\n"), HEARS_FIRST, NONSENSE},
    {"zeros", SAYS("\0\0\0\0\0\0\0\0"), 0, NONSENSE},
    {"a length beyond all sense", SAYS("*999999999999\r\n"), HEARS_FIRST, NONSENSE},
    {"another answer", SAYS("+PONG\r\n"), HEARS_FIRST, TL_ESERVER, "malformed reply"},
    {"silence", SAYS(""), 0, TL_EUNAVAILABLE, "no reply to the login"},
    {"somebody who hangs up", SAYS(""), HEARS_FIRST | HANGS_UP, TL_EUNAVAILABLE, "closed"},
    {"somebody who resets", SAYS(""), HEARS_FIRST | RESETS, TL_EUNAVAILABLE, "reset"},
};

static int told_in_words;

/* Of one who is away it isn't told in which way when the limit cuts a login short: but at times it is. */
static void refused_at_gate(const stranger *s, tl_err code) {
    ASSERT_RESULT(code, s->code);
    bool away = s->code == TL_EUNAVAILABLE;
    if (!away ||
        (!strstr(said.message, "no reply to the login") && !strstr(said.message, "no reply in")))
        ASSERT_SAID(s->words);
    told_in_words += strstr(said.message, s->words) != NULL;
    ASSERT_SAID(proxy_url(gate) + strlen("redis://"));
}

static void test_it_is_told_and_the_server_found_when_it_is_back(void **state) {
    const stranger *s = *state;
    const int64_t limit_ms = s->code == TL_ESERVER ? SOON_MS
                                                   : CONNECT_MS; /* who answers is heard */
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = proxy_url(gate), .attempt_ms = SOON_MS, .connect_ms = limit_ms));
    tl_lock *lock = by_hand(client, AGES_MS);
    tl_lock_info info = {.size = sizeof info};
    told_in_words = 0;
    proxy_lead_to(gate, listener_port);
    int64_t began = clock_ms();
    refused_at_gate(s, tl_client_ping(client, &said));
    refused_at_gate(s, tl_client_look(client, KEY, strlen(KEY), &info, &said));
    refused_at_gate(s, tl_lock_acquire(lock, 0, &said));
    ASSERT_TOOK(began, 0, 3 * (limit_ms + ATTEMPT_MS));
    began = clock_ms();
    refused_at_gate(s, tl_lock_acquire(lock, limit_ms + 50, &said));
    ASSERT_TOOK(began, 0, limit_ms + 50);
    for (int i = 0; i < 50 && told_in_words == 0;
         i++) /* a busy machine was too slow for the limit */
        refused_at_gate(s, tl_client_ping(client, &said));
    assert_true(told_in_words > 0);
    acquiring *waiter = acquiring_begin(lock, s->code == TL_EUNAVAILABLE ? 60000 : 0);
    if (s->code != TL_EUNAVAILABLE) /* nothing to wait for */
        refused_at_gate(s, acquiring_end(waiter, SOON_MS));
    proxy_lead_to(gate, real_redis_port(server));
    if (s->code != TL_EUNAVAILABLE)
        waiter = acquiring_begin(lock, SOON_MS);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* A holder's connection breaks, and then it is there: for a while, and for good. */
static tl_lock *watched(lock_events *events, int64_t ttl_ms) {
    tl_lock *lock = make_lock_with(
        hasty_client_at(proxy_url(gate)), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

static void test_a_holder_goes_on_or_is_told_in_time(void **state) {
    lock_events *events = make_events();
    tl_lock *lock = watched(events, SAFE_MS);
    lock_event again;
    (void)state;
    proxy_lead_to(gate, listener_port);
    proxy_reset(gate);
    (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
    proxy_lead_to(gate, real_redis_port(server));
    proxy_reset(gate);
    WAIT_FOR(SOON_MS, lock_events_find(events, 1, TL_HELD, &again));
    assert_belief_is_true(lock);
    release_hastily(lock, KEY);
    events = make_events();
    (void)watched(events, BRIEF_MS);
    proxy_lead_to(gate, listener_port);
    proxy_reset(gate);
    assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_EXPIRED);
    int64_t began = clock_ms();
    assert_free_soon();
    ASSERT_TOOK(began, 0, BRIEF_MS);
}

#if TL_HAVE_TLS
TEST_WITH(a_server_without_tls_is_told_so, arena_set_up, arena_tear_down) {
    char url[64];
    (void)snprintf(url, sizeof url, "rediss%s", proxy_url(gate) + strlen("redis"));
    tl_lock *lock = by_hand(hasty_client_at(url), AGES_MS);
    int64_t began = clock_ms();
    tl_err code = tl_lock_acquire(lock, 300, &said);
    assert_true(code == TL_EUNAVAILABLE || code == TL_ESERVER);
    if (!strstr(said.message,
                "no reply in")) /* it didn't even come to connecting in so short a time */
        ASSERT_SAID("TLS");
    ASSERT_SAID(proxy_url(gate) + strlen("redis://"));
    ASSERT_TOOK(began, 0, 300);
}
#endif

static void meets(const char *name, CMUnitTestFunction run, const stranger *whom) {
    tests_add((tests_entry){.name = name,
                            .run = run,
                            .set_up = meet,
                            .tear_down = part,
                            .state = (void *)(uintptr_t)whom});
}

int main(void) {
    enum { STRANGERS = sizeof strangers / sizeof *strangers };
    static char names[STRANGERS][64];
    static const size_t met_by_holder[] = {0, 8, 10};
    for (size_t i = 0; i < STRANGERS; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s is told", strangers[i].name);
        meets(names[i], test_it_is_told_and_the_server_found_when_it_is_back, &strangers[i]);
    }
    for (size_t i = 0; i < 3; i++)
        meets("a holder meets a stranger", test_a_holder_goes_on_or_is_told_in_time,
              &strangers[met_by_holder[i]]);
    server = real_redis_start(NULL);
    return tests_run();
}
