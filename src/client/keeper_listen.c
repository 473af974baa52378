/*
 * Who listens to which topic, and what they are told of it. All under the keeper's mutex, but
 * what callers call; nothing here waits.
 */
#include "client/keeper_inside.h"

static void post_topic(tl_keeper *k, tl_bytes topic, unsigned flags) {
    for (tl_listener *l = k->listeners; l; l = l->next)
        if (tl__bytes_eq(l->topic, topic))
            l->hear(l, flags);
}

void tl__keeper_on_woken(void *ctx, tl_bytes topic, tl_bytes payload) {
    tl_keeper *k = ctx;
    post_topic(k, topic, TL_WAKE_WOKEN);
    if (k->watching)
        k->watching->event(k, topic, payload);
}

void tl__keeper_on_armed(void *ctx, tl_bytes topic, bool armed) {
    tl_keeper *k = ctx;
    post_topic(k, topic, armed ? TL_WAKE_ARMED : TL_WAKE_DISARMED);
    if (k->watching)
        k->watching->events(k, topic, armed);
}

void tl__keeper_listen_in(tl_keeper *k, tl_listener *l, tl_bytes topic, tl_bytes key) {
    l->topic = topic; /* before listening: that may call back at once */
    l->next = k->listeners;
    k->listeners = l;
    if (tl__wakeup_listen(k->wakeup, topic, tl__mono_now())) {
        k->listeners = l->next;
        l->topic = (tl_bytes){0};
        l->hear(l, TL_WAKE_DISARMED);
    } else if (key.n > 0) {
        l->key = key;
        k->watching->watch(k, key, &l->hears);
        k->watching->look_for(k, l);
    }
    tl__keeper_wake(k);
}

void tl__keeper_forget_in(tl_keeper *k, tl_listener *l) {
    tl_listener **at = &k->listeners;
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at) {
        *at = l->next;
        tl__wakeup_forget(k->wakeup, l->topic, tl__mono_now());
        tl__keeper_wake(k);
    }
    l->topic = (tl_bytes){0};
    if (l->look)
        l->look->listener = NULL;
    l->look = NULL;
    l->look_again = false;
    if (l->key.n > 0)
        k->watching->unwatch(k, l->key, &l->hears);
    l->key = (tl_bytes){0};
    l->sure = false;
}

void tl__keeper_listen(tl_keeper *k, tl_listener *l, tl_bytes topic, tl_bytes key) {
    if (tl__keeper_ready(k)) {
        l->hear(l, TL_WAKE_DISARMED); /* it polls instead */
        return;
    }
    tl__keeper_lock(k);
    tl__keeper_listen_in(k, l, topic, key);
    tl__keeper_unlock(k);
}

void tl__keeper_forget(tl_keeper *k, tl_listener *l) {
    if (l->topic.n == 0) /* only its owner ever sets it */
        return;
    tl__keeper_lock(k);
    tl__keeper_forget_in(k, l);
    tl__keeper_unlock(k);
}
