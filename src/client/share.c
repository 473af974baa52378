/*
 * Who writes, who reads and who sleeps at a shared connection. Nobody may sleep but the poller, or where there is one
 * who will wake him; and a poller that leaves wakes the next.
 */
#include "client/share.h"

#include <stdlib.h>

#include "ground/wait.h"

/* Another's request takes the server a while, and his thread has its turn of the processor before we look again. */
#define SPIN_EACH_NS INT64_C(20000)

struct tl_share {
    tl_node *node;
    tl_mutex mutex;
    tl_conn *conn;
    tl_spin spin;
    tl_sharer *first, **end;     /* who sleep, but for the poller */
    _Atomic(tl_sharer *) poller; /* NULL: nobody watches the connection */
    struct pollfd polled;        /* what the poller waits for, if it sleeps, */
    tl_mono until;               /* and until when */
};

/* ---- answers --------------------------------------------------------------------------------- */

static void answered(void *ctx, const tl_answer *answer) {
    (void)ctx;
    tl_sharer *sharer = answer->cookie;
    sharer->in_flight--;
    sharer->answered(sharer, answer);
    if (sharer->sleeps)
        tl__waiter_post(sharer->sleeps, TL_WAKE_ANSWERED);
    atomic_store(&sharer->news, true);
}

static void up(void *ctx, const tl_interval *bracket, tl_mono now) {
    tl_share *s = ctx;
    if (tl__node_up(s->node, s->conn, bracket, now))
        tl__keeper_rejudge(&s->node->client->keeper);
}

static bool has_news(tl_sharer *sharer) {
    return atomic_exchange(&sharer->news, false);
}

tl_err tl__share_send(tl_share *share, tl_sharer *sharer, const tl_send *send, tl_mono now) {
    tl_err why = tl__conn_send(share->conn, send, sharer, now);
    sharer->in_flight += why == TL_OK;
    return why;
}

/* ---- the poller ------------------------------------------------------------------------------ */

/* Is there more to watch for than the poller, who sleeps, knows of? */
static bool has_changed(const tl_share *s) {
    return tl__conn_fd(s->conn) != s->polled.fd ||
           (tl__conn_events(s->conn) & ~s->polled.events) != 0 ||
           tl__mono_before(tl__conn_until(s->conn), s->until);
}

/* Of what has been left here, and of earlier limits. */
static void rouse_poller(tl_share *s) {
    tl_sharer *poller = atomic_load(&s->poller);
    if (poller && poller->sleeps && has_changed(s))
        tl__waiter_post(poller->sleeps, TL_WAKE_ANSWERED);
}

/* By the poller alone: the descriptor that it waits for must not be closed by another. */
static void drive(tl_share *s) {
    tl__conn_drive(s->conn, tl__mono_now());
}

static bool is_poller(tl_share *s, tl_sharer *sharer) {
    tl_sharer *nobody = NULL;
    return atomic_compare_exchange_strong(&s->poller, &nobody, sharer) || nobody == sharer;
}

/* Whoever looks next takes it over; if all sleep, that is the first of them. He may have his answer by now, and go
 * without having taken it over: then it is for the next. */
static void stop_polling(tl_share *s, tl_sharer *sharer) {
    (void)atomic_compare_exchange_strong(&s->poller, &sharer, NULL);
    if (!atomic_load(&s->poller) && s->first)
        tl__waiter_post(s->first->sleeps, TL_WAKE_ANSWERED);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void yield(tl_share *s) {
    tl__mutex_unlock(&s->mutex);
    tl__thread_yield();
    tl__mutex_lock(&s->mutex);
}

/* Without the mutex, for which others would have to wait: for as long as another watches. */
static void watch(tl_share *s, tl_sharer *sharer, tl_mono end) {
    tl__mutex_unlock(&s->mutex);
    do
        tl__thread_yield();
    while (!atomic_load(&sharer->news) && atomic_load(&s->poller) &&
           tl__mono_before(tl__mono_now(), end));
    tl__mutex_lock(&s->mutex);
}

/* A near server answers sooner than it takes to fall asleep and be woken. True: so it did. */
static bool spin(tl_share *s, tl_sharer *sharer, tl_mono until) {
    bool polls = is_poller(s, sharer), there = false;
    int64_t limit_ns = polls ? tl__spin_ns(&s->spin, 0) : s->spin.rest > 0 ? 0 : TL_SPIN_NS;
    if (limit_ns == 0)
        return false;
    limit_ns += SPIN_EACH_NS * (int64_t)atomic_load(&s->node->sharers);
    tl_mono end = tl__mono_min(until, tl__mono_add_ns(tl__mono_now(), limit_ns));
    while (!there && tl__mono_before(tl__mono_now(), end) && tl__conn_up(s->conn)) {
        if (polls)
            yield(s);
        else
            watch(s, sharer, end);
        polls = polls || is_poller(s, sharer);
        if (polls)
            drive(s);
        there = has_news(sharer);
    }
    if (polls)
        tl__spin_learn(&s->spin, there);
    return there;
}

static void sleep_as_poller(tl_share *s, tl_sharer *sharer, tl_mono until) {
    tl_waiter *w = sharer->sleeps;
    s->polled = (struct pollfd){.fd = tl__conn_fd(s->conn), .events = tl__conn_events(s->conn)};
    s->until = tl__conn_until(s->conn);
    struct pollfd fds[2] = {s->polled, {.fd = w->fd, .events = POLLIN}};
    until = tl__mono_min(until, s->until);
    tl__mutex_unlock(&s->mutex);
    tl__wait(fds, 2, until);
    if (fds[1].revents)
        tl__waiter_drain(w);
    tl__mutex_lock(&s->mutex);
    sharer->sleeps = NULL; /* before driving, which would wake it */
    drive(s);
}

static void rise(tl_share *s, tl_sharer *sharer) {
    tl_sharer **at = &s->first;
    while (*at != sharer)
        at = &(*at)->behind;
    *at = sharer->behind;
    if (!*at)
        s->end = at;
    sharer->sleeps = NULL;
}

static void sleep_behind(tl_share *s, tl_sharer *sharer, tl_mono until) {
    tl_waiter *w = sharer->sleeps;
    sharer->behind = NULL;
    *s->end = sharer;
    s->end = &sharer->behind;
    tl__mutex_unlock(&s->mutex);
    tl__waiter_await(w, until);
    tl__mutex_lock(&s->mutex);
    rise(s, sharer);
}

static void sleep_until(tl_share *s, tl_sharer *sharer, tl_mono until) {
    tl_waiter *own = sharer->waiter, *w = own ? own : tl__waiter_take(s->node->client);
    if (!w) { /* no memory: look again and again */
        if (is_poller(s, sharer))
            drive(s);
        yield(s);
        return;
    }
    sharer->sleeps = w;
    if (is_poller(s, sharer))
        sleep_as_poller(s, sharer, until);
    else
        sleep_behind(s, sharer, until);
    if (!own)
        tl__waiter_give(s->node->client, w);
}

void tl__share_await(tl_share *share, tl_sharer *sharer, tl_mono until) {
    tl_share *s = share;
    if (has_news(sharer))
        return;
    rouse_poller(s);
    yield(s); /* whoever is about to ask leaves that here, too */
    if (!has_news(sharer) && !spin(s, sharer, until))
        sleep_until(s, sharer, until);
}

/* ---- coming and going ------------------------------------------------------------------------ */

static tl_share *make(tl_node *node) {
    tl_share *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    tl_conn_limits limits = tl__node_limits(node);
    tl_conn_calls calls = {.answer = answered, .up = up, .ctx = s};
    limits.patience_ms = node->client->attempt_ms;
    s->node = node;
    s->end = &s->first;
    s->conn = tl__conn_new(&node->endpoint, &limits, &calls);
    if (!s->conn) {
        free(s);
        return NULL;
    }
    tl__mutex_init(&s->mutex);
    return s;
}

/* Have so many been asking at a time? Until they are half of that. */
static bool is_crowded(tl_node *n) {
    unsigned crowd = n->client->crowd;
    unsigned busy = atomic_load(&n->borrowed) + atomic_load(&n->sharers);
    bool shares = atomic_load(&n->shares), may = busy >= (shares ? crowd / 2 : crowd);
    if (may != shares)
        atomic_store(&n->shares, may);
    return may;
}

/* While the server is at what one group has asked for, another makes its next requests. */
static _Atomic(tl_share *) *next_share(tl_node *n) {
    unsigned size = n->client->crowd > 1 ? n->client->crowd - 1 : 1; /* but who comes */
    unsigned groups = atomic_load(&n->sharers) / size;
    groups = groups < 1 ? 1 : groups > TL_SHARES_MAX ? TL_SHARES_MAX : groups;
    return &n->share[atomic_fetch_add(&n->turn, 1) % groups];
}

tl_share *tl__share_enter(tl_node *node) {
    if (!is_crowded(node))
        return NULL;
    _Atomic(tl_share *) *at = next_share(node);
    tl_share *s = atomic_load(at);
    if (!s) {
        tl__mutex_lock(&node->client->mutex);
        s = atomic_load(at);
        if (!s)
            s = make(node);
        atomic_store(at, s);
        tl__mutex_unlock(&node->client->mutex);
    }
    if (!s)
        return NULL;
    atomic_fetch_add(&node->sharers, 1);
    tl__mutex_lock(&s->mutex);
    return s;
}

void tl__share_leave(tl_share *share, tl_sharer *sharer) {
    tl_share *s = share;
    if (sharer->in_flight > 0)
        tl__conn_forget(s->conn, sharer);
    stop_polling(s, sharer);
    tl__mutex_unlock(&s->mutex);
    atomic_fetch_sub(&s->node->sharers, 1);
}

tl_node *tl__share_node(const tl_share *share) {
    return share->node;
}

tl_conn *tl__share_conn(const tl_share *share) {
    return share->conn;
}

void tl__share_free(tl_share *share) {
    tl_share *s = share;
    if (!s)
        return;
    tl__conn_free(s->conn);
    tl__mutex_end(&s->mutex);
    free(s);
}
