/*
 * Who listens to which topic, and what they are told of it. All under the keeper's mutex, but
 * what callers call; nothing here waits.
 */
#include "client/backend.h"
#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/keeper_link.h"
#include "ground/guard.h"
#include "protocol/line.h"

#define INBOX_IDLE_MS 30000 /* the next who waits needn't wait for a subscription */
#define MOVE_AGAIN_MS 5000  /* something may lead subscriptions elsewhere on purpose */

static void post_topic(const tl_link *link, tl_bytes topic, unsigned flags) {
    for (tl_listener *l = link->keeper->listeners; l; l = l->next)
        if (l->link == link && tl__bytes_eq(l->topic, topic))
            l->on_wake(l, flags);
}

/* ---- the inbox ------------------------------------------------------------------------------- */

static tl_bytes inbox_of(const tl_keeper *k) {
    return tl__bytes(k->inbox.name, k->inbox.name_n);
}

/* A grant is for one, and so is that its turn will be soon: in a crowd of threads nobody else is woken. A call to look is
 * for whoever waits for that key. A cluster repeats to all nodes what is told at one, so that nobody knows whose clock a
 * grant goes by: there it is a call to look. */
static void on_message(tl_keeper *k, const tl_link *link, tl_bytes message) {
    tl_bytes key, token;
    tl_grant grant = {.run = tl__wakeup_run(link->wakeup), .arrived = tl__mono_now()};
    tl_line_message kind = tl__line_read(message, &key, &token, &grant);
    for (tl_listener *l = k->listeners; l; l = l->next) {
        if (l->token.n == 0 || l->link != link)
            continue;
        if (GUARD(grant_is_heard) && kind == TL_LINE_GRANT && tl__bytes_eq(l->token, token)) {
            tl__mutex_lock(&k->posts_mutex); /* who is told needn't wait until this is all done */
            l->grant = grant;
            tl__mutex_unlock(&k->posts_mutex);
            l->on_wake(l, link == &k->first ? TL_WAKE_GRANTED : TL_WAKE_WOKEN);
            return;
        }
        if (kind == TL_LINE_NEAR && tl__bytes_eq(l->token, token)) {
            l->on_wake(l, TL_WAKE_NEAR);
            return;
        }
        if (kind == TL_LINE_LOOK && tl__bytes_eq(l->of, key))
            l->on_wake(l, TL_WAKE_WOKEN);
    }
}

static tl_inbox *come_to_inbox(tl_keeper *k, const tl_listener *l) {
    tl_inbox *inbox = &l->link->inbox;
    inbox->listeners++;
    if (!inbox->listens)
        inbox->listens = tl__wakeup_listen(l->link->wakeup, inbox_of(k), tl__mono_now()) == TL_OK;
    return inbox;
}

static void listen_to_inbox(tl_keeper *k, tl_listener *l, bool armed) {
    tl_inbox *inbox = come_to_inbox(k, l);
    bool is = inbox->listens && atomic_load(&inbox->armed);
    if (is != armed || !inbox->listens)
        l->on_wake(l, is ? TL_WAKE_ARMED : TL_WAKE_DISARMED);
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

/* Where keys are on several nodes the first one is asked as long as nobody knows which has the key: another, as it will say. */
bool tl__keeper_hears(const tl_keeper *k, tl_bytes key) {
    tl_node *node = tl__fleet_node(k->client, key);
    bool first = node == &k->client->node && !k->client->backend->slotted;
    const tl_link *link = first ? &k->first : atomic_load(&node->link);
    return link && atomic_load(&link->inbox.armed);
}

static void relocate(tl_keeper *k, tl_listener *l);

/* Who listens to an old master, a replica by now, is told of no error there, and of no grant: the new one finds that
 * nobody listens. */
void tl__keeper_follow_in(tl_keeper *k, tl_listener *l, uint64_t run) {
    relocate(k, l);
    tl_link *link = l->link ? l->link : &k->first;
    tl_inbox *inbox = &link->inbox;
    uint64_t heard = tl__wakeup_run(link->wakeup);
    tl_mono now = tl__mono_now(), again = tl__mono_add_ms(inbox->moved, MOVE_AGAIN_MS);
    if (heard == 0 || heard == run || (inbox->moved.ns != 0 && tl__mono_before(now, again)))
        return;
    inbox->moved = now;
    tl__wakeup_leave(link->wakeup);
    tl__keeper_wake(k);
}

void tl__keeper_follow(tl_keeper *k, tl_listener *l, uint64_t run) {
    tl__keeper_lock(k);
    tl__keeper_follow_in(k, l, run);
    tl__keeper_unlock(k);
}

/* ---- topics ---------------------------------------------------------------------------------- */

void tl__keeper_on_woken(void *ctx, tl_bytes topic, tl_bytes payload) {
    const tl_link *link = ctx;
    tl_keeper *k = link->keeper;
    if (tl__bytes_eq(topic, inbox_of(k))) {
        on_message(k, link, payload);
        return;
    }
    post_topic(link, topic, TL_WAKE_WOKEN);
    if (link == &k->first && k->watching)
        k->watching->event(k, topic, payload);
}

void tl__keeper_on_armed(void *ctx, tl_bytes topic, bool armed) {
    tl_link *link = ctx;
    tl_keeper *k = link->keeper;
    if (tl__bytes_eq(topic, inbox_of(k)))
        atomic_store(&link->inbox.armed, armed);
    post_topic(link, topic, armed ? TL_WAKE_ARMED : TL_WAKE_DISARMED);
    if (link == &k->first && k->watching)
        k->watching->events(k, topic, armed);
}

static void listen_to_topic(tl_keeper *k, tl_listener *l, tl_bytes key) {
    if (tl__wakeup_listen(l->link->wakeup, l->topic, tl__mono_now())) {
        k->listeners = l->next;
        l->topic = (tl_bytes){0};
        l->on_wake(l, TL_WAKE_DISARMED);
    } else if (k->watching && key.n > 0) {
        l->key = key;
        k->watching->watch(k, key, &l->hears);
        k->watching->look_for(k, l);
    }
}

/* The node of the lock's key: a topic is named in its slot. Without memory it's the first, where what is told at another is
 * repeated. */
static tl_link *link_for(tl_keeper *k, const tl_listener *l) {
    tl_link *link = tl__keeper_link(k, tl__fleet_node(k->client, l->of.n ? l->of : l->topic));
    return link ? link : &k->first;
}

void tl__keeper_listen_in(tl_keeper *k, tl_listener *l, tl_bytes topic, tl_bytes key,
                          tl_bytes token, tl_bytes of, bool armed) {
    l->topic = topic; /* before listening: that may call back at once */
    l->token = token;
    l->of = of;
    l->link = link_for(k, l);
    l->deaf = false;
    l->next = k->listeners;
    k->listeners = l;
    if (token.n > 0)
        listen_to_inbox(k, l, armed);
    else
        listen_to_topic(k, l, key);
    tl__keeper_wake(k);
}

void tl__keeper_listen_all_in(tl_keeper *k, tl_listener *listeners, tl_bytes topic) {
    const tl_fleet *fleet = &k->client->fleet;
    for (unsigned i = 0; listeners && i < fleet->servers; i++) {
        tl_listener *l = &listeners[i];
        tl_link *link = tl__keeper_link(k, fleet->server[i]);
        if (!link) { /* without memory for that it polls */
            l->on_wake(l, TL_WAKE_DISARMED);
            continue;
        }
        l->topic = topic;
        l->link = link;
        l->deaf = false;
        l->next = k->listeners;
        k->listeners = l;
        listen_to_topic(k, l, (tl_bytes){0});
    }
    tl__keeper_wake(k);
}

void tl__keeper_forget_all_in(tl_keeper *k, tl_listener *listeners) {
    for (unsigned i = 0; listeners && i < k->client->fleet.servers; i++)
        if (listeners[i].topic.n > 0)
            tl__keeper_forget_in(k, &listeners[i]);
}

static void forget_topic(tl_keeper *k, tl_listener *l) {
    if (l->token.n > 0)
        forget_inbox(&l->link->inbox);
    else if (!l->deaf)
        tl__wakeup_forget(l->link->wakeup, l->topic, tl__mono_now());
    tl__keeper_wake(k);
}

/* What was told meanwhile isn't known: it is to look; and again when it is told that messages come in, or that they don't. */
static void relocate(tl_keeper *k, tl_listener *l) {
    tl_link *link = l->topic.n ? link_for(k, l) : l->link;
    if (link == l->link)
        return;
    forget_topic(k, l);
    l->link = link;
    l->deaf = l->token.n == 0 && tl__wakeup_listen(link->wakeup, l->topic, tl__mono_now()) != TL_OK;
    bool hears = l->token.n > 0 ? come_to_inbox(k, l)->listens : !l->deaf;
    l->on_wake(l, hears ? TL_WAKE_WOKEN : TL_WAKE_DISARMED);
}

void tl__keeper_relocate(tl_keeper *k) {
    for (tl_listener *l = k->listeners, *next; l; l = next) {
        next = l->next;
        relocate(k, l);
    }
}

void tl__keeper_forget_in(tl_keeper *k, tl_listener *l) {
    tl_listener **at = &k->listeners;
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at) {
        if (GUARD(forgotten_listener))
            *at = l->next;
        forget_topic(k, l);
    }
    l->topic = l->token = l->of = (tl_bytes){0};
    if (l->look)
        l->look->listener = NULL;
    l->look = NULL;
    l->look_again = false;
    if (l->key.n > 0)
        k->watching->unwatch(k, l->key, &l->hears);
    l->key = (tl_bytes){0};
    l->sure = false;
}

void tl__keeper_listen(tl_keeper *k, tl_listener *l, tl_bytes topic, tl_bytes key, tl_bytes token,
                       tl_bytes of, bool armed) {
    if (tl__keeper_ready(k)) {
        l->on_wake(l, TL_WAKE_DISARMED); /* it polls instead */
        return;
    }
    tl__keeper_lock(k);
    tl__keeper_listen_in(k, l, topic, key, token, of, armed);
    tl__keeper_unlock(k);
}

void tl__keeper_forget(tl_keeper *k, tl_listener *l) {
    if (l->topic.n == 0) /* only its owner ever sets it */
        return;
    tl__keeper_lock(k);
    tl__keeper_forget_in(k, l);
    tl__keeper_unlock(k);
}

tl_grant tl__keeper_grant(tl_keeper *k, const tl_listener *l) {
    tl__mutex_lock(&k->posts_mutex);
    tl_grant grant = l->grant;
    tl__mutex_unlock(&k->posts_mutex);
    return grant;
}

/* ---- keys that are held, on etcd --------------------------------------------------------------- */

static void on_deleted(void *ctx, tl_bytes topic, tl_bytes payload) {
    const tl_keeper *k = ctx;
    (void)payload;
    k->deleted(k->client, topic);
}

bool tl__keeper_make_holds(tl_keeper *k) {
    /* Whether a deletion is noticed or not, the renewals find out. */
    const tl_wakeup_calls calls = {.woken = on_deleted, .ctx = k};
    const tl_conn_limits limits = tl__node_limits(&k->client->node);
    if (!k->holds)
        k->holds = tl__wakeup_new(&k->client->node.endpoint, &limits, k->client->attempt_ms,
                                  &calls);
    return k->holds != NULL;
}

struct pollfd tl__keeper_holds_fd(const tl_keeper *k) {
    if (!k->holds)
        return (struct pollfd){.fd = -1};
    return (struct pollfd){.fd = tl__wakeup_fd(k->holds), .events = tl__wakeup_events(k->holds)};
}

tl_mono tl__keeper_holds_until(const tl_keeper *k) {
    return k->holds ? tl__wakeup_until(k->holds) : TL_NEVER;
}

void tl__keeper_seen_in(tl_keeper *k, tl_bytes topic, int64_t revision,
                        void (*deleted)(tl_client *client, tl_bytes topic)) {
    k->deleted = deleted;
    tl__wakeup_seen(k->holds, topic, revision, tl__mono_now());
    tl_mono until = tl__wakeup_until(k->holds);
    if (tl__mono_before(until, k->planned)) {
        k->planned = until;
        tl__keeper_wake(k);
    }
}

void tl__keeper_unseen_in(tl_keeper *k, tl_bytes topic) {
    tl__wakeup_forget(k->holds, topic, tl__mono_now());
}
