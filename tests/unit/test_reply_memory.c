/*
 * A reply that there is no memory for is not taken for nonsense of the server's, whoever has none: the reader of bytes, or
 * the arena that a reply is kept in.
 */
#include "conn_world.h"

#define LARGE 20000

static size_t refused_from; /* there is no memory for so much or more; 0: there is */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OWN_HEAP 1
#elif defined(__has_feature)
#define OWN_HEAP (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define OWN_HEAP 0
#endif

#if !OWN_HEAP
/* The C library's own, by the names under which it lets a program put itself before them. */
void *__libc_malloc(size_t n);
void *__libc_realloc(void *p, size_t n);

static bool is_refused(size_t size) {
    return refused_from > 0 && size >= refused_from;
}

void *malloc(size_t size) {
    return is_refused(size) ? NULL : __libc_malloc(size);
}

void *realloc(void *ptr, size_t size) {
    return is_refused(size) ? NULL : __libc_realloc(ptr, size);
}
#endif

/* Sanitizers, valgrind and other C libraries have a malloc of their own. */
static void need_malloc(void) {
    const char *valgrind = getenv("VALGRIND");
    if (OWN_HEAP || (valgrind && strcmp(valgrind, "1") == 0))
        skip();
}

static void send_large(conn_world *w) {
    static char reply[LARGE + 32];
    int n = snprintf(reply, sizeof reply, "$%d\r\n", LARGE);
    memset(reply + n, 'x', LARGE);
    memcpy(reply + n + LARGE, "\r\n", 3);
    peer_send(&w->peer, reply);
}

static void check_failed(conn_world *w) {
    world_await(w, w->seen + 1);
    refused_from = 0;
    seen_failed(w, w->seen - 1, 1, true, TL_ENOMEM, "out of memory for a reply");
    assert_null(strstr(w->log[w->seen - 1].text, "no reply of a Redis server"));
}

static void begin(conn_world *w) {
    need_malloc();
    world_open(w);
    world_serve(w);
    world_ask(w, 1, "GET k");
    peer_expect(&w->peer, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
}

TEST(without_memory_for_the_bytes_of_a_reply_that_is_said) {
    conn_world w;
    begin(&w);
    refused_from = 64;
    send_large(&w);
    check_failed(&w);
    world_close(&w);
}

/* Of an array the bytes are few, and the items many. */
TEST(without_memory_to_keep_a_reply_that_is_said) {
    conn_world w;
    begin(&w);
    refused_from = LARGE;
    peer_send(&w.peer, "*2000\r\n");
    check_failed(&w);
    world_close(&w);
}

/* The connection serves again when there is memory. */
TEST(after_that_the_next_request_is_answered_over_another_connection) {
    conn_world w;
    begin(&w);
    refused_from = 64;
    send_large(&w);
    check_failed(&w);
    world_serve(&w);
    world_close(&w);
}
