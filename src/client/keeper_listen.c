/*
 * Who listens to which topic, and what they are told of it. All under the keeper's mutex, but
 * what callers call; nothing here waits.
 */
#include "client/client.h"
#include "client/keeper_inside.h"
#include "protocol/line.h"

#define INBOX_IDLE_MS 30000 /* the next who waits needn't wait for a subscription */
#define MOVE_AGAIN_MS 5000  /* something may lead subscriptions elsewhere on purpose */

static void post_topic(tl_keeper *k, tl_bytes topic, unsigned flags) {
    for (tl_listener *l = k->listeners; l; l = l->next)
        if (tl__bytes_eq(l->topic, topic))
            l->hear(l, flags);
}

/* ---- the inbox ------------------------------------------------------------------------------- */

static tl_bytes inbox_of(const tl_keeper *k) {
    return tl__bytes_of(k->inbox.name);
}

/* A grant is for one; a call to look, and that it will be soon, for whoever waits for that key. */
static void on_message(tl_keeper *k, tl_bytes message) {
    tl_bytes key, token;
    tl_grant grant = {.run = tl__wakeup_run(k->wakeup), .arrived = tl__mono_now()};
    tl_line_message kind = tl__line_read(message, &key, &token, &grant);
    for (tl_listener *l = k->listeners; l; l = l->next) {
        if (l->token.n == 0)
            continue;
        if (kind == TL_LINE_GRANT && tl__bytes_eq(l->token, token)) {
            tl__mutex_lock(&k->posts_mutex); /* who is told needn't wait until this is all done */
            l->grant = grant;
            tl__mutex_unlock(&k->posts_mutex);
            l->hear(l, TL_WAKE_GRANTED);
            return;
        }
        if ((kind == TL_LINE_LOOK || kind == TL_LINE_NEAR) && tl__bytes_eq(l->of, key))
            l->hear(l, kind == TL_LINE_LOOK ? TL_WAKE_WOKEN : TL_WAKE_NEAR);
    }
}

static void listen_to_inbox(tl_keeper *k, tl_listener *l, bool armed) {
    tl_inbox *inbox = &k->inbox;
    inbox->listeners++;
    if (!inbox->listens)
        inbox->listens = tl__wakeup_listen(k->wakeup, inbox_of(k), tl__mono_now()) == TL_OK;
    bool is = inbox->listens && atomic_load(&inbox->armed);
    if (is != armed || !inbox->listens)
        l->hear(l, is ? TL_WAKE_ARMED : TL_WAKE_DISARMED);
}

static void forget_inbox(tl_keeper *k) {
    if (--k->inbox.listeners == 0)
        k->inbox.idle = tl__mono_now();
}

tl_mono tl__keeper_inbox_until(const tl_keeper *k) {
    bool idle = k->inbox.listens && k->inbox.listeners == 0;
    return idle ? tl__mono_add_ms(k->inbox.idle, INBOX_IDLE_MS) : TL_NEVER;
}

void tl__keeper_leave_inbox(tl_keeper *k, tl_mono now) {
    if (tl__mono_before(now, tl__keeper_inbox_until(k)))
        return;
    k->inbox.listens = false;
    atomic_store(&k->inbox.armed, false);
    tl__wakeup_forget(k->wakeup, inbox_of(k), now);
}

/* Who listens to an old master, a replica by now, is told of no error there, and of no grant: the new one finds that
 * nobody listens. */
void tl__keeper_follow_in(tl_keeper *k, uint64_t run) {
    uint64_t heard = tl__wakeup_run(k->wakeup);
    tl_mono now = tl__mono_now(), again = tl__mono_add_ms(k->inbox.moved, MOVE_AGAIN_MS);
    if (heard == 0 || heard == run || (k->inbox.moved.ns != 0 && tl__mono_before(now, again)))
        return;
    k->inbox.moved = now;
    tl__wakeup_leave(k->wakeup);
    tl__keeper_wake(k);
}

void tl__keeper_follow(tl_keeper *k, uint64_t run) {
    tl__keeper_lock(k);
    tl__keeper_follow_in(k, run);
    tl__keeper_unlock(k);
}

/* ---- topics ---------------------------------------------------------------------------------- */

void tl__keeper_on_woken(void *ctx, tl_bytes topic, tl_bytes payload) {
    tl_keeper *k = ctx;
    if (tl__bytes_eq(topic, inbox_of(k))) {
        on_message(k, payload);
        return;
    }
    post_topic(k, topic, TL_WAKE_WOKEN);
    if (k->watching)
        k->watching->event(k, topic, payload);
}

void tl__keeper_on_armed(void *ctx, tl_bytes topic, bool armed) {
    tl_keeper *k = ctx;
    if (tl__bytes_eq(topic, inbox_of(k)))
        atomic_store(&k->inbox.armed, armed);
    post_topic(k, topic, armed ? TL_WAKE_ARMED : TL_WAKE_DISARMED);
    if (k->watching)
        k->watching->events(k, topic, armed);
}

static void listen_to_topic(tl_keeper *k, tl_listener *l, tl_bytes key) {
    if (tl__wakeup_listen(k->wakeup, l->topic, tl__mono_now())) {
        k->listeners = l->next;
        l->topic = (tl_bytes){0};
        l->hear(l, TL_WAKE_DISARMED);
    } else if (key.n > 0) {
        l->key = key;
        k->watching->watch(k, key, &l->hears);
        k->watching->look_for(k, l);
    }
}

void tl__keeper_listen_in(tl_keeper *k, tl_listener *l, tl_bytes topic, tl_bytes key,
                          tl_bytes token, tl_bytes of, bool armed) {
    l->topic = topic; /* before listening: that may call back at once */
    l->token = token;
    l->of = of;
    l->next = k->listeners;
    k->listeners = l;
    if (token.n > 0)
        listen_to_inbox(k, l, armed);
    else
        listen_to_topic(k, l, key);
    tl__keeper_wake(k);
}

static void forget_topic(tl_keeper *k, tl_listener *l) {
    if (l->token.n > 0)
        forget_inbox(k);
    else
        tl__wakeup_forget(k->wakeup, l->topic, tl__mono_now());
    tl__keeper_wake(k);
}

void tl__keeper_forget_in(tl_keeper *k, tl_listener *l) {
    tl_listener **at = &k->listeners;
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at) {
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
        l->hear(l, TL_WAKE_DISARMED); /* it polls instead */
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
