/*
 * Connections and waiters (tl_waiter) that callers borrow from their client. Nothing here blocks, except the
 * wait for a free connection, which has a limit, and tl__waiter_await.
 */
#include <stdlib.h>

#include "client/client.h"
#include "ground/cancel.h"
#include "ground/guard.h"
#include "ground/wait.h"

#define STALE_NS (100 * TL_NS_PER_MS) /* a connection idle for longer is driven before use */

/* ---- connections ----------------------------------------------------------------------------- */

static void pooled_answer(void *ctx, const tl_answer *answer) {
    tl_pooled *pooled = ctx;
    tl__count_answer(&pooled->node->client->counts, answer);
    if (pooled->user)
        pooled->answered(pooled->user, answer);
}

static void pooled_up(void *ctx, const tl_interval *bracket, tl_mono now) {
    tl_pooled *pooled = ctx;
    if (tl__node_up(pooled->node, pooled->conn, bracket, now) && GUARD(login_rejudges))
        tl__keeper_rejudge(&pooled->node->client->keeper);
}

static void free_pooled(tl_pooled *pooled) {
    pooled->user = NULL;
    tl__conn_free(pooled->conn);
    free(pooled);
}

static tl_pooled *new_pooled(tl_node *node) {
    tl_pooled *pooled = calloc(1, sizeof *pooled);
    if (!pooled)
        return NULL;
    tl_conn_limits limits = tl__node_limits(node);
    tl_conn_calls calls = {.answer = pooled_answer, .up = pooled_up, .ctx = pooled};
    pooled->node = node;
    pooled->conn = tl__conn_new(tl__node_face(node), &limits, &calls);
    if (pooled->conn)
        return pooled;
    free(pooled);
    return NULL;
}

static bool is_cancelled(tl_waiter *waiter) {
    return GUARD(cancel_ends_pool_wait) && waiter && atomic_load(&waiter->flags) & TL_WAKE_CANCEL;
}

static unsigned most_of(const tl_node *node) {
    const tl_fleet *fleet = &node->client->fleet;
    return fleet->row->pooled ? fleet->row->pooled(fleet) : TL_POOLED_MAX;
}

/* Wait until a connection is idle or may be made. false: cancelled, or `by` has passed. With
 * client.mutex held. */
static bool await_pooled(tl_node *node, tl_waiter *waiter, tl_mono by) {
    while (!node->pooled && GUARD(pool_limit) && node->pooled_made >= most_of(node))
        if (is_cancelled(waiter) ||
            !tl__cond_wait_by(&node->pooled_freed, &node->client->mutex, by))
            return false;
    return true;
}

tl_pooled *tl__pool_take(tl_node *node, tl_waiter *waiter, tl_mono by, tl_mono now) {
    tl_pooled *pooled = NULL;
    tl__mutex_lock(&node->client->mutex);
    bool may = await_pooled(node, waiter, by);
    if (may && node->pooled) {
        pooled = node->pooled;
        node->pooled = pooled->next;
    } else if (may) {
        node->pooled_made++;
    }
    tl__mutex_unlock(&node->client->mutex);
    if (!may)
        return NULL;
    atomic_fetch_add(&node->borrowed, 1);
    if (pooled) {
        if (tl__ns_until(pooled->idle_since, now) > STALE_NS)
            tl__conn_drive(pooled->conn, now); /* notices a server that hung up */
        return pooled;
    }
    pooled = new_pooled(node);
    if (!pooled) {
        tl__mutex_lock(&node->client->mutex);
        node->pooled_made--;
        tl__mutex_unlock(&node->client->mutex);
        atomic_fetch_sub(&node->borrowed, 1);
    }
    return pooled;
}

void tl__pool_give(tl_pooled *pooled, bool broken) {
    tl_node *node = pooled->node;
    pooled->user = NULL;
    atomic_fetch_sub(&node->borrowed, 1);
    broken = broken || (node->site && tl__site_is_left(node->site));
    if (broken)
        free_pooled(pooled);
    else
        pooled->idle_since = tl__mono_now();
    tl__mutex_lock(&node->client->mutex);
    if (broken) {
        node->pooled_made -= GUARD(broken_not_counted);
    } else {
        pooled->next = node->pooled;
        node->pooled = pooled;
    }
    if (GUARD(pool_wakes_next))
        tl__cond_wake(&node->pooled_freed);
    tl__mutex_unlock(&node->client->mutex);
}

/* An idle connection to a node that serves no keys would only cost a descriptor. */
void tl__pool_shrink_in(tl_node *node) {
    for (tl_pooled *pooled; (pooled = node->pooled);) {
        node->pooled = pooled->next;
        node->pooled_made--;
        free_pooled(pooled);
    }
}

void tl__pool_wake(tl_client *client) {
    tl_fleet *fleet = &client->fleet;
    unsigned at = 0;
    if (GUARD(cancel_wakes_pool))
        tl__cond_wake_all(&client->node.pooled_freed);
    for (tl_node *node; (node = fleet->row->next(fleet, &at)); at++)
        if (node != &client->node)
            tl__cond_wake_all(&node->pooled_freed);
}

/* ---- waiters --------------------------------------------------------------------------------- */

static void on_wake(tl_listener *listener, unsigned flags) {
    tl__waiter_post((tl_waiter *)((char *)listener - offsetof(tl_waiter, listener)), flags);
}

static tl_waiter *new_waiter(void) {
    tl_waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter)
        return NULL;
    waiter->listener.on_wake = on_wake;
    waiter->fd = tl__wake_open();
    if (waiter->fd < 0) {
        free(waiter);
        return NULL;
    }
    tl__mutex_init(&waiter->mutex);
    tl__cond_init(&waiter->posted);
    return waiter;
}

static void free_waiter(tl_waiter *waiter) {
    tl__wake_close(waiter->fd);
    tl__mutex_end(&waiter->mutex);
    tl__cond_end(&waiter->posted);
    free(waiter);
}

tl_waiter *tl__waiter_take(tl_client *client) {
    tl__mutex_lock(&client->mutex);
    tl_waiter *waiter = client->waiters;
    if (waiter)
        client->waiters = waiter->next;
    tl__mutex_unlock(&client->mutex);
    return waiter ? waiter : new_waiter();
}

void tl__waiter_give(tl_client *client, tl_waiter *waiter) {
    if (GUARD(fresh_waiter))
        atomic_store(&waiter->flags, 0);
    tl__mutex_lock(&client->mutex);
    waiter->next = client->waiters;
    client->waiters = waiter;
    tl__mutex_unlock(&client->mutex);
}

void tl__waiter_post(tl_waiter *waiter, unsigned flags) {
    if (atomic_fetch_or(&waiter->flags, flags))
        return; /* the first post has woken the owner, which will find these bits, too */
    tl__mutex_lock(&waiter->mutex);
    bool sleeps = waiter->sleeps;
    tl__mutex_unlock(&waiter->mutex);
    if (sleeps) /* after unlocking: else the owner would wake only to wait for the mutex */
        tl__cond_wake(&waiter->posted);
    else if (GUARD(poller_woken))
        tl__wake_post(waiter->fd);
}

unsigned tl__waiter_posts(tl_waiter *waiter) {
    return atomic_load(&waiter->flags) ? atomic_exchange(&waiter->flags, 0) : 0;
}

static void sleep_until(tl_mono until) {
    while (tl__mono_before(tl__mono_now(), until))
        tl__wait(NULL, 0, until);
}

typedef struct {
    tl_waiter *waiter;
    tl_mono until;
    const int *state; /* the thread's cancellation state; NULL: it is not cancelled */
} nap;

static void wake_up(void *of) {
    tl_waiter *waiter = ((nap *)of)->waiter;
    waiter->sleeps = false;
    tl__mutex_unlock(&waiter->mutex);
}

/* If the thread is cancelled in tl__cond_wait_by, it has the mutex again; wake_up() unlocks it. */
static void sleep_through(void *of) {
    const nap *n = of;
    tl_waiter *waiter = n->waiter;
    tl__mutex_lock(&waiter->mutex);
    waiter->sleeps = GUARD(sleeper_woken);
    if (n->state)
        tl__cancel_back(n->state);
    while ((!GUARD(posts_before_sleep) || !atomic_load(&waiter->flags)) &&
           tl__cond_wait_by(&waiter->posted, &waiter->mutex, n->until))
        ;
    if (n->state)
        (void)tl__cancel_off();
    wake_up(of);
}

void tl__waiter_await(tl_waiter *waiter, tl_mono until, const int *state) {
    nap n = {.waiter = waiter, .until = until, .state = state};
    if (state)
        tl__cancel_guard(sleep_through, wake_up, &n);
    else if (waiter)
        sleep_through(&n);
    else
        sleep_until(until);
}

/* ---- the end ---------------------------------------------------------------------------------- */

void tl__pool_free(tl_node *node) {
    for (tl_pooled *pooled = node->pooled, *next; pooled; pooled = next) {
        next = pooled->next;
        free_pooled(pooled);
    }
}

void tl__waiters_free(tl_client *client) {
    for (tl_waiter *waiter = client->waiters, *next; waiter; waiter = next) {
        next = waiter->next;
        free_waiter(waiter);
    }
}
