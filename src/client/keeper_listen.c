/*
 * Listeners, their topics, and how they are notified. All of it is under keeper.mutex, except the functions
 * that callers call. Nothing here blocks.
 */
#include "client/backend.h"
#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/keeper_link.h"
#include "ground/guard.h"
#include "protocol/line.h"

#define INBOX_IDLE_MS 30000 /* stay subscribed without a waiter, for the next one */
#define MOVE_AGAIN_MS 5000  /* between moves: a proxy may lead subscriptions elsewhere on purpose */

static void post_topic(const tl_link *link, tl_bytes topic, unsigned flags) {
    for (tl_listener *listener = link->keeper->listeners; listener; listener = listener->next)
        if (listener->link == link && tl__bytes_eq(listener->topic, topic))
            listener->on_wake(listener, flags);
}

/* ---- the inbox ------------------------------------------------------------------------------- */

/* The inbox is an ordinary channel, not a sharded one, in a cluster and from Redis 7 on too. So PUBLISH goes
 * to all nodes (3.9 us instead of 0.3 on three). The kind of channel could only follow from the version of
 * the node that executes a release. While nodes are upgraded, or a slot moves to a newer node, waiters on the
 * other kind would miss messages. */
static tl_bytes inbox_of(const tl_keeper *keeper) {
    return tl__bytes(keeper->inbox.name, keeper->inbox.name_n);
}

/* A message in the inbox. A grant, or the notice that it is one of the first in the queue (near), is for
 * one token: no other thread is woken. A look message is for all waiters of that key. A cluster repeats a
 * message at all nodes, so that it is not known by which node's clock a grant goes: there a grant counts
 * as a look message. */
static void on_message(tl_keeper *keeper, const tl_link *link, tl_bytes message) {
    tl_bytes key = {0}, token = {0};
    tl_grant grant = {.run = tl__wakeup_run(link->wakeup), .arrived = tl__mono_now()};
    tl_line_message kind = tl__line_read(message, &key, &token, &grant);
    for (tl_listener *listener = keeper->listeners; listener; listener = listener->next) {
        if (listener->token.n == 0 || listener->link != link)
            continue;
        if (GUARD(grant_is_heard) && kind == TL_LINE_GRANT &&
            tl__bytes_eq(listener->token, token)) {
            tl__mutex_lock(&keeper->posts_mutex); /* the waiter need not wait for keeper.mutex */
            listener->grant = grant;
            tl__mutex_unlock(&keeper->posts_mutex);
            listener->on_wake(listener, link == &keeper->first ? TL_WAKE_GRANTED : TL_WAKE_WOKEN);
            return;
        }
        if (kind == TL_LINE_NEAR && tl__bytes_eq(listener->token, token)) {
            listener->on_wake(listener, TL_WAKE_NEAR);
            return;
        }
        if (kind == TL_LINE_LOOK && tl__bytes_eq(listener->of, key))
            listener->on_wake(listener, TL_WAKE_WOKEN);
    }
}

static tl_inbox *come_to_inbox(tl_keeper *keeper, const tl_listener *listener) {
    tl_inbox *inbox = &listener->link->inbox;
    inbox->listeners++;
    if (!inbox->listens)
        inbox->listens = tl__wakeup_listen(listener->link->wakeup, inbox_of(keeper),
                                           tl__mono_now()) == TL_OK;
    return inbox;
}

static void listen_to_inbox(tl_keeper *keeper, tl_listener *listener, bool armed) {
    tl_inbox *inbox = come_to_inbox(keeper, listener);
    bool is = inbox->listens && atomic_load(&inbox->armed);
    if (is != armed || !inbox->listens)
        listener->on_wake(listener, is ? TL_WAKE_ARMED : TL_WAKE_DISARMED);
}

static void forget_inbox(tl_inbox *inbox) {
    inbox->listeners -= GUARD(inbox_listeners_counted);
    if (inbox->listeners == 0)
        inbox->idle = tl__mono_now();
}

tl_mono tl__inbox_until(const tl_inbox *inbox) {
    bool idle = inbox->listens && inbox->listeners == 0;
    return idle ? tl__mono_add_ms(inbox->idle, INBOX_IDLE_MS) : TL_NEVER;
}

void tl__link_leave_inbox(tl_link *link, tl_mono now) {
    if (tl__mono_before(now, tl__inbox_until(&link->inbox)))
        return;
    link->inbox.listens = false;
    atomic_store(&link->inbox.armed, false);
    if (GUARD(idle_inbox_ends))
        tl__wakeup_forget(link->wakeup, inbox_of(link->keeper), now);
}

/* In a cluster the client's first node is only asked while the owner of the key is unknown. Then this is
 * false: the waiter will have to listen at the owner. */
bool tl__keeper_hears(const tl_keeper *keeper, tl_bytes key) {
    tl_node *node = tl__fleet_node(keeper->client, key);
    bool first = node == &keeper->client->node && !keeper->client->backend->slotted;
    const tl_link *link = first ? &keeper->first : atomic_load(&node->link);
    return link && atomic_load(&link->inbox.armed);
}

static void relocate(tl_keeper *keeper, tl_listener *listener);

/* A subscription at a former master, which is a replica now, gets no error and no grants; and the new master
 * finds that the inbox has no subscriber. So leave it. */
void tl__keeper_follow_in(tl_keeper *keeper, tl_listener *listener, uint64_t run) {
    relocate(keeper, listener);
    tl_link *link = listener->link ? listener->link : &keeper->first;
    tl_inbox *inbox = &link->inbox;
    uint64_t heard = tl__wakeup_run(link->wakeup);
    tl_mono now = tl__mono_now(), again = tl__mono_add_ms(inbox->moved, MOVE_AGAIN_MS);
    if (heard == 0 || heard == run || (inbox->moved.ns != 0 && tl__mono_before(now, again)))
        return;
    inbox->moved = now;
    tl__wakeup_leave(link->wakeup);
    tl__keeper_wake(keeper);
}

void tl__keeper_follow(tl_keeper *keeper, tl_listener *listener, uint64_t run) {
    tl__keeper_lock(keeper);
    tl__keeper_follow_in(keeper, listener, run);
    tl__keeper_unlock(keeper);
}

/* ---- topics ---------------------------------------------------------------------------------- */

void tl__keeper_on_woken(void *ctx, tl_bytes topic, tl_bytes payload) {
    const tl_link *link = ctx;
    tl_keeper *keeper = link->keeper;
    if (tl__bytes_eq(topic, inbox_of(keeper))) {
        on_message(keeper, link, payload);
        return;
    }
    post_topic(link, topic, TL_WAKE_WOKEN);
    if (link == &keeper->first && keeper->watching)
        keeper->watching->event(keeper, topic, payload);
}

void tl__keeper_on_armed(void *ctx, tl_bytes topic, bool armed) {
    tl_link *link = ctx;
    tl_keeper *keeper = link->keeper;
    if (tl__bytes_eq(topic, inbox_of(keeper)))
        atomic_store(&link->inbox.armed, armed);
    post_topic(link, topic, armed ? TL_WAKE_ARMED : TL_WAKE_DISARMED);
    if (link == &keeper->first && keeper->watching)
        keeper->watching->events(keeper, topic, armed);
}

static void listen_to_topic(tl_keeper *keeper, tl_listener *listener, tl_bytes key) {
    if (tl__wakeup_listen(listener->link->wakeup, listener->topic, tl__mono_now())) {
        keeper->listeners = listener->next;
        listener->topic = (tl_bytes){0};
        listener->on_wake(listener, TL_WAKE_DISARMED);
    } else if (keeper->watching && key.n > 0) {
        listener->key = key;
        keeper->watching->watch(keeper, key, &listener->hears);
        keeper->watching->look_for(keeper, listener);
    }
}

/* The link to the node of the lock's key; a topic's name is in the key's slot. Without memory: the first
 * node's link, as a cluster repeats messages at all nodes. */
static tl_link *link_for(tl_keeper *keeper, const tl_listener *listener) {
    tl_link *link = tl__keeper_link(
        keeper, tl__fleet_node(keeper->client, listener->of.n ? listener->of : listener->topic));
    return link ? link : &keeper->first;
}

void tl__keeper_listen_in(tl_keeper *keeper, tl_listener *listener, tl_bytes topic, tl_bytes key,
                          tl_bytes token, tl_bytes of, bool armed) {
    listener->topic = topic; /* before listening: that may call back at once */
    listener->token = token;
    listener->of = of;
    listener->link = link_for(keeper, listener);
    listener->deaf = false;
    listener->next = keeper->listeners;
    keeper->listeners = listener;
    if (token.n > 0)
        listen_to_inbox(keeper, listener, armed);
    else
        listen_to_topic(keeper, listener, key);
    tl__keeper_wake(keeper);
}

void tl__keeper_listen_all_in(tl_keeper *keeper, tl_listener *listeners, tl_bytes topic) {
    const tl_fleet *fleet = &keeper->client->fleet;
    for (unsigned i = 0; listeners && i < fleet->servers; i++) {
        tl_listener *listener = &listeners[i];
        tl_link *link = tl__keeper_link(keeper, fleet->server[i]);
        if (!link) { /* no memory: the machine polls this server */
            listener->on_wake(listener, TL_WAKE_DISARMED);
            continue;
        }
        listener->topic = topic;
        listener->link = link;
        listener->deaf = false;
        listener->next = keeper->listeners;
        keeper->listeners = listener;
        listen_to_topic(keeper, listener, (tl_bytes){0});
    }
    tl__keeper_wake(keeper);
}

void tl__keeper_forget_all_in(tl_keeper *keeper, tl_listener *listeners) {
    for (unsigned i = 0; listeners && i < keeper->client->fleet.servers; i++)
        if (listeners[i].topic.n > 0)
            tl__keeper_forget_in(keeper, &listeners[i]);
}

static void forget_topic(tl_keeper *keeper, tl_listener *listener) {
    if (listener->token.n > 0)
        forget_inbox(&listener->link->inbox);
    else if (!listener->deaf)
        tl__wakeup_forget(listener->link->wakeup, listener->topic, tl__mono_now());
    tl__keeper_wake(keeper);
}

/* Move a listener to the node that has its key now. It may have missed messages, so it is woken to look. It
 * looks again when it is armed or disarmed there. */
static void relocate(tl_keeper *keeper, tl_listener *listener) {
    tl_link *link = listener->topic.n ? link_for(keeper, listener) : listener->link;
    if (link == listener->link)
        return;
    forget_topic(keeper, listener);
    listener->link = link;
    listener->deaf = listener->token.n == 0 &&
                     tl__wakeup_listen(link->wakeup, listener->topic, tl__mono_now()) != TL_OK;
    bool hears = listener->token.n > 0 ? come_to_inbox(keeper, listener)->listens : !listener->deaf;
    listener->on_wake(listener, hears ? TL_WAKE_WOKEN : TL_WAKE_DISARMED);
}

void tl__keeper_relocate(tl_keeper *keeper) {
    for (tl_listener *listener = keeper->listeners, *next; listener; listener = next) {
        next = listener->next;
        relocate(keeper, listener);
    }
}

void tl__keeper_forget_in(tl_keeper *keeper, tl_listener *listener) {
    tl_listener **at = &keeper->listeners;
    while (*at && *at != listener)
        at = &(*at)->next;
    if (*at) {
        if (GUARD(forgotten_listener))
            *at = listener->next;
        forget_topic(keeper, listener);
    }
    listener->topic = listener->token = listener->of = (tl_bytes){0};
    if (listener->look)
        listener->look->listener = NULL;
    listener->look = NULL;
    listener->look_again = false;
    if (listener->key.n > 0)
        keeper->watching->unwatch(keeper, listener->key, &listener->hears);
    listener->key = (tl_bytes){0};
    listener->sure = false;
}

void tl__keeper_listen(tl_keeper *keeper, tl_listener *listener, tl_bytes topic, tl_bytes key,
                       tl_bytes token, tl_bytes of, bool armed) {
    if (tl__keeper_ready(keeper)) {
        listener->on_wake(listener, TL_WAKE_DISARMED); /* the machine polls instead */
        return;
    }
    tl__keeper_lock(keeper);
    tl__keeper_listen_in(keeper, listener, topic, key, token, of, armed);
    tl__keeper_unlock(keeper);
}

void tl__keeper_forget(tl_keeper *keeper, tl_listener *listener) {
    if (listener->topic.n == 0) /* only its owner ever sets it */
        return;
    tl__keeper_lock(keeper);
    tl__keeper_forget_in(keeper, listener);
    tl__keeper_unlock(keeper);
}

tl_grant tl__keeper_grant(tl_keeper *keeper, const tl_listener *listener) {
    tl__mutex_lock(&keeper->posts_mutex);
    tl_grant grant = listener->grant;
    tl__mutex_unlock(&keeper->posts_mutex);
    return grant;
}

/* ---- keys that are held, on etcd --------------------------------------------------------------- */

static void on_deleted(void *ctx, tl_bytes topic, tl_bytes payload) {
    const tl_keeper *keeper = ctx;
    (void)payload;
    keeper->deleted(keeper->client, topic);
}

bool tl__keeper_make_holds(tl_keeper *keeper) {
    /* No `armed` callback: if a deletion is missed, the next renewal finds out. */
    const tl_wakeup_calls calls = {.woken = on_deleted, .ctx = keeper};
    const tl_conn_limits limits = tl__node_limits(&keeper->client->node);
    if (!keeper->holds)
        keeper->holds = tl__wakeup_new(&keeper->client->node.endpoint, &limits,
                                       keeper->client->attempt_ms, &calls);
    return keeper->holds != NULL;
}

struct pollfd tl__keeper_holds_fd(const tl_keeper *keeper) {
    if (!keeper->holds)
        return (struct pollfd){.fd = -1};
    return (struct pollfd){.fd = tl__wakeup_fd(keeper->holds),
                           .events = tl__wakeup_events(keeper->holds)};
}

tl_mono tl__keeper_holds_until(const tl_keeper *keeper) {
    return keeper->holds ? tl__wakeup_until(keeper->holds) : TL_NEVER;
}

void tl__keeper_seen_in(tl_keeper *keeper, tl_bytes topic, int64_t revision,
                        void (*deleted)(tl_client *client, tl_bytes topic)) {
    keeper->deleted = deleted;
    tl__wakeup_seen(keeper->holds, topic, revision, tl__mono_now());
    tl_mono until = tl__wakeup_until(keeper->holds);
    if (tl__mono_before(until, keeper->planned)) {
        keeper->planned = until;
        tl__keeper_wake(keeper);
    }
}

void tl__keeper_unseen_in(tl_keeper *keeper, tl_bytes topic) {
    tl__wakeup_forget(keeper->holds, topic, tl__mono_now());
}
