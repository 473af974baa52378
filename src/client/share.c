/*
 * A shared connection: which caller writes, reads and sleeps. A caller may sleep only as the poller; or while
 * there is a poller, or a caller that looks without sleeping, as these will wake it. The last of these that
 * leaves wakes the next caller.
 */
#include "client/share.h"

#include <stdlib.h>

#include "ground/guard.h"
#include "ground/wait.h"

/* Look longer by so much for each caller that shares: its request takes time at the server, and its thread
 * runs before this one looks again. */
#define SPIN_EACH_NS INT64_C(20000)
/* So many queued requests are written at once: a call costs little for each then, and the
 * server would wait. */
#define WRITE_EACH 8
/* So long queued requests wait, at most, for callers that have a reply and have not run since: once one of these has
 * had its reply for READY_NS. A caller with a processor runs sooner; to wait for those would make each batch larger,
 * and leave the server idle. */
#define GATHER_NS INT64_C(100000)
#define READY_NS INT64_C(30000)
#define ENTER_TRIES 4

struct tl_share {
    tl_node *node;
    tl_mutex mutex;
    tl_conn *conn;
    tl_spin spin;
    unsigned looking;     /* callers that look for their replies without sleeping */
    unsigned asked, left; /* requests without a reply; about how many of them are not written */
    tl_mono left_since;   /* when the first of those was queued */
    /* Callers that have a reply and have not run since, the oldest reply first. */
    tl_sharer *ready, **ready_end;
    uint64_t answers, missed; /* replies so far; 1 + their number when a look last timed out */
    tl_sharer *first, **end;  /* sleepers, without the poller */
    tl_sharer *poller;        /* NULL: nobody polls the connection */
    struct pollfd polled;     /* what the poller waits for while it sleeps */
    tl_mono until;            /* until when the poller sleeps */
};

/* ---- replies --------------------------------------------------------------------------------- */

static void answered(void *ctx, const tl_answer *answer) {
    tl_share *share = ctx;
    tl_sharer *sharer = answer->cookie;
    tl__count_answer(&share->node->client->counts, answer);
    share->asked--;
    share->answers++;
    sharer->in_flight--;
    sharer->answered(sharer, answer);
    if (sharer->sleeps)
        tl__waiter_post(sharer->sleeps, TL_WAKE_ANSWERED);
    if (atomic_exchange(&sharer->news, true))
        return;
    sharer->ready_since = answer->received;
    sharer->ready_next = NULL;
    sharer->ready_at = share->ready_end;
    *share->ready_end = sharer;
    share->ready_end = &sharer->ready_next;
}

static void up(void *ctx, const tl_interval *bracket, tl_mono now) {
    tl_share *share = ctx;
    if (tl__node_up(share->node, share->conn, bracket, now))
        tl__keeper_rejudge(&share->node->client->keeper);
}

static bool has_news(tl_share *share, tl_sharer *sharer) {
    if (!atomic_exchange(&sharer->news, false))
        return false;
    *sharer->ready_at = sharer->ready_next;
    if (sharer->ready_next)
        sharer->ready_next->ready_at = sharer->ready_at;
    else
        share->ready_end = sharer->ready_at;
    return true;
}

tl_err tl__share_send(tl_share *share, tl_sharer *sharer, const tl_send *send, tl_mono now) {
    tl_err why = tl__conn_send(share->conn, send, sharer, now);
    sharer->in_flight += why == TL_OK;
    share->asked += why == TL_OK;
    if (share->left == 0)
        share->left_since = now;
    share->left += why == TL_OK;
    return why;
}

/* ---- the connection -------------------------------------------------------------------------- */

/* May this thread drive the connection? Driving may close the descriptor: not while another
 * thread polls it. */
static bool may_drive(const tl_share *share) {
    return !share->poller || !share->poller->sleeps;
}

/* Must the queued requests wait for those of callers that have a reply and have not run since? Such a caller
 * may be on the server's processor: it runs only while the server has nothing to do. Without this the others
 * would keep the server busy, and it would wait for many of their rounds. The wait has a limit: a caller may
 * be stopped, or ask nothing more. */
static bool has_to_gather(const tl_share *share, tl_mono now) {
    bool late = GUARD(gathers_briefly) && tl__ns_until(share->left_since, now) >= GATHER_NS;
    bool falls_behind = share->ready && (tl__ns_until(share->ready->ready_since, now) >= READY_NS ||
                                         !GUARD(gathers_for_stragglers));
    return GUARD(gathers) && falls_behind && share->left > 0 && !late;
}

static void drive(tl_share *share) {
    tl_mono now = tl__mono_now();
    if (has_to_gather(share, now)) {
        tl__conn_read(share->conn, now);
        return;
    }
    tl__conn_drive(share->conn, now);
    share->left = 0;
}

/* Write the queued requests. That neither reads nor closes the connection. */
static void write_left(tl_share *share) {
    if (share->left > 0)
        tl__conn_write(share->conn, tl__mono_now());
    share->left = 0;
}

/* Must the queued requests be written now, rather than wait for more? Yes, if this thread can't drive the
 * connection. Also if the server would be idle, or if so many are queued that it should begin. None is
 * forgotten: a caller drives the connection while it looks, and writes before it sleeps. */
static bool has_to_write(const tl_share *share) {
    if (!may_drive(share))
        return true;
    return !has_to_gather(share, tl__mono_now()) &&
           (share->left >= WRITE_EACH || 2 * share->left > share->asked);
}

/* Must the sleeping poller poll for something else, or wake earlier? */
static bool has_changed(const tl_share *share) {
    return tl__conn_fd(share->conn) != share->polled.fd ||
           (tl__conn_events(share->conn) & ~share->polled.events) != 0 ||
           tl__mono_before(tl__conn_until(share->conn), share->until);
}

/* Wake the poller, if queued requests or their limits have changed what it must wait for. */
static void rouse_poller(tl_share *share) {
    if (share->poller && share->poller->sleeps && has_changed(share))
        tl__waiter_post(share->poller->sleeps, TL_WAKE_ANSWERED);
}

static bool is_poller(tl_share *share, tl_sharer *sharer) {
    if (!share->poller)
        share->poller = sharer;
    return share->poller == sharer;
}

/* The sharer stops being the poller. A caller that looks reads for all. If all sleep, wake the first,
 * which becomes the poller. If that one has its reply by now, it leaves without having become the poller,
 * and wakes the next. */
static void stop_polling(tl_share *share, tl_sharer *sharer) {
    bool polled = share->poller == sharer;
    if (polled)
        share->poller = NULL;
    if (GUARD(next_poller) && (polled || GUARD(poller_after_next)) && !share->poller &&
        share->looking == 0 && share->first)
        tl__waiter_post(share->first->sleeps, TL_WAKE_ANSWERED);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void yield(tl_share *share) {
    tl__mutex_unlock(&share->mutex);
    tl__thread_yield();
    tl__mutex_lock(&share->mutex);
}

/* Yield the processor, then look for the reply; read for all, unless another thread does. True, with the
 * mutex locked: there is a reply, or the connection is not up, so that looking is no use. */
static bool look(tl_share *share, const tl_sharer *sharer) {
    tl__thread_yield();
    if (atomic_load(&sharer->news)) {
        tl__mutex_lock(&share->mutex);
        return true;
    }
    if (!tl__mutex_try(&share->mutex))
        return false;
    if (may_drive(share))
        drive(share);
    if (atomic_load(&sharer->news) || !tl__conn_up(share->conn))
        return true;
    tl__mutex_unlock(&share->mutex);
    return false;
}

/* Learn whether looking pays. Of callers that looked in vain at the same time only the first counts; and none
 * counts, if others got replies meanwhile. */
static void learn(tl_share *share, bool there, uint64_t since) {
    bool silent = share->answers == since && share->missed != since + 1;
    if (!there && !silent)
        return;
    tl__spin_learn(&share->spin, there);
    share->missed = there ? share->missed : since + 1;
}

/* Look for the reply without sleeping: a near server answers sooner than a thread falls asleep and wakes.
 * True: there is a reply. */
static bool spin(tl_share *share, tl_sharer *sharer, tl_mono until) {
    int64_t limit_ns = tl__conn_up(share->conn) ? tl__spin_ns(&share->spin, 0) : 0;
    if (limit_ns == 0) {
        yield(share); /* so that callers that are about to ask queue their requests, too */
        return has_news(share, sharer);
    }
    limit_ns += SPIN_EACH_NS * (int64_t)atomic_load(&share->node->sharers);
    tl_mono end = tl__mono_min(until, tl__mono_add_ns(tl__mono_now(), limit_ns));
    uint64_t answers = share->answers;
    bool seen, late;
    share->looking++;
    tl__mutex_unlock(&share->mutex);
    do {
        seen = look(share, sharer);
        late = !seen && !tl__mono_before(tl__mono_now(), end);
    } while (!seen && !late);
    if (!seen)
        tl__mutex_lock(&share->mutex);
    share->looking -= GUARD(looks_until_answered);
    bool there = has_news(share, sharer);
    if (there || late)
        learn(share, there, answers);
    return there;
}

static void sleep_as_poller(tl_share *share, tl_sharer *sharer, tl_mono until) {
    tl_waiter *waiter = sharer->sleeps;
    share->polled = (struct pollfd){.fd = tl__conn_fd(share->conn),
                                    .events = tl__conn_events(share->conn)};
    share->until = tl__conn_until(share->conn);
    struct pollfd fds[2] = {share->polled, {.fd = waiter->fd, .events = POLLIN}};
    until = tl__mono_min(until, share->until);
    tl__mutex_unlock(&share->mutex);
    tl__wait(fds, 2, until);
    if (fds[1].revents)
        tl__wake_clear(waiter->fd);
    tl__mutex_lock(&share->mutex);
    sharer->sleeps = NULL; /* before driving, which would wake it */
    drive(share);
}

static void rise(tl_share *share, tl_sharer *sharer) {
    tl_sharer **at = &share->first;
    while (*at != sharer)
        at = &(*at)->behind;
    *at = sharer->behind;
    if (!*at)
        share->end = at;
    sharer->sleeps = NULL;
}

static void sleep_behind(tl_share *share, tl_sharer *sharer, tl_mono until) {
    tl_waiter *waiter = sharer->sleeps;
    sharer->behind = NULL;
    *share->end = sharer;
    share->end = &sharer->behind;
    tl__mutex_unlock(&share->mutex);
    tl__waiter_await(waiter, until, NULL);
    tl__mutex_lock(&share->mutex);
    rise(share, sharer);
}

static void sleep_until(tl_share *share, tl_sharer *sharer, tl_mono until) {
    tl_waiter *own = sharer->waiter, *w = own ? own : tl__waiter_take(share->node->client);
    write_left(share);
    rouse_poller(share);
    if (!w) { /* no memory: look again and again */
        if (may_drive(share))
            drive(share);
        yield(share);
        return;
    }
    sharer->sleeps = w;
    if (is_poller(share, sharer))
        sleep_as_poller(share, sharer, until);
    else
        sleep_behind(share, sharer, until);
    if (!own)
        tl__waiter_give(share->node->client, w);
}

void tl__share_await(tl_share *share, tl_sharer *sharer, tl_mono until) {
    tl_share *shared = share;
    if (has_news(shared, sharer))
        return;
    if (has_to_write(shared))
        write_left(shared);
    rouse_poller(shared);
    if (!spin(shared, sharer, until))
        sleep_until(shared, sharer, until);
}

/* ---- coming and going ------------------------------------------------------------------------ */

static tl_share *make(tl_node *node) {
    tl_share *share = calloc(1, sizeof *share);
    if (!share)
        return NULL;
    tl_conn_limits limits = tl__node_limits(node);
    tl_conn_calls calls = {.answer = answered, .up = up, .ctx = share};
    limits.patience_ms = node->client->attempt_ms;
    share->node = node;
    share->end = &share->first;
    share->ready_end = &share->ready;
    share->conn = tl__conn_new(tl__node_face(node), &limits, &calls);
    if (!share->conn) {
        free(share);
        return NULL;
    }
    tl__mutex_init(&share->mutex);
    return share;
}

/* Are there so many callers at a time that they share? Once they do, they do until there are half as many. */
static bool is_crowded(tl_node *node) {
    unsigned crowd = node->client->crowd;
    unsigned busy = atomic_load(&node->borrowed) + atomic_load(&node->sharers);
    bool shares = atomic_load(&node->shares), may = busy >= (shares ? crowd / 2 : crowd);
    if (may != shares)
        atomic_store(&node->shares, may);
    return may;
}

/* The share of the next caller; callers are spread over groups. While the server executes the requests of one
 * group, another group makes its next requests. */
static _Atomic(tl_share *) *next_share(tl_node *node) {
    unsigned size = node->client->crowd > 1 ? node->client->crowd - 1 : 1; /* without this caller */
    unsigned groups = atomic_load(&node->sharers) / size;
    groups = groups < 1 ? 1 : groups > TL_SHARES_MAX ? TL_SHARES_MAX : groups;
    return &node->share[atomic_fetch_add(&node->turn, 1) % groups];
}

/* Lock the mutex. Another thread has it only for a moment: falling asleep and waking would take longer. */
static void enter(tl_share *share) {
    for (int i = 0; i < ENTER_TRIES; i++) {
        if (tl__mutex_try(&share->mutex))
            return;
        tl__thread_yield();
    }
    tl__mutex_lock(&share->mutex);
}

tl_share *tl__share_enter(tl_node *node) {
    if (!is_crowded(node))
        return NULL;
    _Atomic(tl_share *) *at = next_share(node);
    tl_share *share = atomic_load(at);
    if (!share) {
        tl__mutex_lock(&node->client->mutex);
        share = atomic_load(at);
        if (!share)
            share = make(node);
        atomic_store(at, share);
        tl__mutex_unlock(&node->client->mutex);
    }
    if (!share)
        return NULL;
    atomic_fetch_add(&node->sharers, 1);
    enter(share);
    return share;
}

void tl__share_leave(tl_share *share, tl_sharer *sharer) {
    tl_share *shared = share;
    if (GUARD(forgotten_sharer) && sharer->in_flight > 0)
        tl__conn_forget(shared->conn, sharer);
    shared->asked -= sharer->in_flight;
    if (GUARD(leaver_not_awaited))
        (void)has_news(shared, sharer);
    if (GUARD(poller_leaves))
        stop_polling(shared, sharer);
    tl__mutex_unlock(&shared->mutex);
    atomic_fetch_sub(&shared->node->sharers, 1);
}

tl_node *tl__share_node(const tl_share *share) {
    return share->node;
}

tl_conn *tl__share_conn(const tl_share *share) {
    return share->conn;
}

void tl__share_free(tl_share *share) {
    tl_share *shared = share;
    if (!shared)
        return;
    tl__conn_free(shared->conn);
    tl__mutex_end(&shared->mutex);
    free(shared);
}
