/*
 * The local queue. A table of the locks that are at the front of their key, each with the
 * queue behind it; all of it lies in the locks themselves, and nothing is allocated for an acquire.
 * It must never let two be at the front of one key.
 */
#include "client/gate.h"
#include "ground/guard.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 64
/* For so long, at most, a process keeps passing a lock to its own. */
#define PASS_NS (1000 * TL_NS_PER_MS)

bool tl__gate_init(tl_gate *gate) {
    *gate = (tl_gate){.buckets = BUCKETS};
    gate->bucket = calloc(BUCKETS, sizeof(tl_place *));
    tl__mutex_init(&gate->mutex);
    return gate->bucket != NULL;
}

void tl__gate_end(tl_gate *gate) {
    free(gate->bucket);
    tl__mutex_end(&gate->mutex);
}

uint32_t tl__gate_hash(tl_bytes key) {
    uint64_t h = tl__bytes_hash(0, key);
    return (uint32_t)(h ^ h >> 32);
}

/* ---- the table ------------------------------------------------------------------------------- */

static tl_place **bucket_of(const tl_gate *gate, uint32_t hash) {
    return &gate->bucket[hash & (gate->buckets - 1)];
}

static tl_place *find(const tl_gate *gate, const tl_place *like) {
    tl_place *p = *bucket_of(gate, like->hash);
    while (p && !(p->hash == like->hash &&
                  (!GUARD(queue_by_whole_key) || tl__bytes_eq(p->key, like->key))))
        p = p->next;
    return p;
}

static void insert(tl_gate *gate, tl_place *place) {
    tl_place **bucket = bucket_of(gate, place->hash);
    place->next = *bucket;
    *bucket = place;
    gate->fronts++;
}

/* Out of memory: it goes on with longer chains. */
static void grow(tl_gate *gate) {
    tl_gate larger = {.buckets = gate->buckets * 2};
    larger.bucket = calloc(larger.buckets, sizeof(tl_place *));
    if (!larger.bucket)
        return;
    for (size_t i = 0; i < gate->buckets; i++)
        for (tl_place *p = gate->bucket[i], *next; p; p = next) {
            next = p->next;
            insert(&larger, p);
        }
    free(gate->bucket);
    gate->bucket = larger.bucket;
    gate->buckets = larger.buckets;
}

static void come_to_front(tl_gate *gate, tl_place *place) {
    if (gate->fronts >= gate->buckets)
        grow(gate);
    place->state = TL_FRONT;
    place->place = 0;
    insert(gate, place);
}

static void take_out(tl_gate *gate, tl_place *place) {
    tl_place **at = bucket_of(gate, place->hash);
    while (*at != place)
        at = &(*at)->next;
    *at = place->next;
    gate->fronts--;
    place->state = TL_OUTSIDE;
    place->next = NULL;
}

/* ---- coming and going ------------------------------------------------------------------------ */

static void append(tl_place *front, tl_place *place, tl_turn *turn) {
    place->state = TL_QUEUED;
    place->turn = turn;
    place->next = NULL;
    if (GUARD(queue_is_kept) && front->last)
        front->last->next = place;
    else
        front->first = place;
    front->last = GUARD(queue_in_order) ? place : front->first;
}

int tl__gate_enter(tl_gate *gate, tl_place *place, tl_turn *turn) {
    tl__mutex_lock(&gate->mutex);
    if (place->state == TL_OUTSIDE) {
        tl_place *front = find(gate, place);
        place->first = place->last = NULL;
        if (!front || !GUARD(one_in_front))
            come_to_front(gate, place);
        else if (turn)
            append(front, place, turn);
    }
    int state = place->state;
    tl__mutex_unlock(&gate->mutex);
    return state;
}

/* The one at the front goes; the first behind it takes over the queue. */
static void hand_over(tl_gate *gate, tl_place *place, const tl_hold *hold) {
    tl_place *heir = place->first;
    int64_t line_place = place->place;
    take_out(gate, place);
    if (!heir)
        return;
    tl_turn *turn = heir->turn;
    heir->first = GUARD(queue_passes_on) ? heir->next : NULL;
    heir->last = heir->first && GUARD(queue_end_passes_on) ? place->last : NULL;
    place->first = place->last = NULL;
    come_to_front(gate, heir);
    turn->place = hold ? 0 : line_place;
    turn->given = GUARD(passed_is_acquired) && hold != NULL;
    if (hold)
        turn->hold = *hold;
    if (GUARD(turn_notified))
        turn->on_turn(turn);
}

static void leave_queue(tl_gate *gate, tl_place *place) {
    tl_place *front = find(gate, place), *before = NULL;
    for (tl_place *p = front->first; p != place; p = p->next)
        before = p;
    if (before)
        before->next = place->next;
    else
        front->first = place->next;
    if (GUARD(new_last_in_queue) && front->last == place)
        front->last = before;
    place->state = TL_OUTSIDE;
    place->next = NULL;
}

bool tl__gate_quit(tl_gate *gate, tl_place *place) {
    tl__mutex_lock(&gate->mutex);
    bool queued = place->state == TL_QUEUED || !GUARD(quits_only_if_queued);
    if (queued)
        leave_queue(gate, place);
    tl__mutex_unlock(&gate->mutex);
    return queued;
}

void tl__gate_leave(tl_gate *gate, tl_place *place) {
    tl__mutex_lock(&gate->mutex);
    if (place->state == TL_FRONT || !GUARD(leaves_only_if_first))
        hand_over(gate, place, NULL);
    tl__mutex_unlock(&gate->mutex);
}

/* With less than half of what it wants the next would have to renew at once. */
static bool may_pass(const tl_place *place, const tl_hold *hold, tl_mono now) {
    if (place->state != TL_FRONT || !place->first ||
        (GUARD(passes_in_reserve) && hold->passes == 0))
        return false;
    return (tl__ns_until(hold->taken, now) < PASS_NS || !GUARD(passed_for_a_second)) &&
           (!GUARD(passed_in_time) ||
            (tl__ms_until(now, hold->deadline) >= place->first->turn->ttl_ms / 2 &&
             tl__mono_before(now, hold->deadline)));
}

bool tl__gate_pass(tl_gate *gate, tl_place *place, const tl_hold *hold, tl_mono now) {
    tl__mutex_lock(&gate->mutex);
    bool may = may_pass(place, hold, now);
    if (may) {
        tl_hold next = *hold;
        next.passes--;
        next.fence += GUARD(passed_with_next_fence) && next.fence != 0;
        hand_over(gate, place, &next);
    }
    tl__mutex_unlock(&gate->mutex);
    return may;
}

void tl__gate_show(tl_gate *gate, tl_bytes key, void (*see)(tl_place *place)) {
    const tl_place like = {.key = key, .hash = tl__gate_hash(key)};
    tl__mutex_lock(&gate->mutex);
    tl_place *place = find(gate, &like);
    if (place)
        see(place);
    tl__mutex_unlock(&gate->mutex);
}

static bool is_below(tl_bytes key, tl_bytes name) {
    return key.n > name.n + 1 && key.p[name.n] == '/' && memcmp(key.p, name.p, name.n) == 0;
}

bool tl__gate_blocks(tl_gate *gate, const tl_place *place, bool below,
                     bool (*so)(const tl_place *front)) {
    tl__mutex_lock(&gate->mutex);
    const tl_place *front = find(gate, place);
    bool is = front && so(front);
    for (size_t i = 0; GUARD(blocked_below_name) && below && !is && i < gate->buckets; i++)
        for (const tl_place *p = gate->bucket[i]; p && !is; p = p->next)
            is = is_below(p->key, place->key) && so(p);
    tl__mutex_unlock(&gate->mutex);
    return is;
}

bool tl__gate_has_queue(tl_gate *gate, const tl_place *place) {
    tl__mutex_lock(&gate->mutex);
    bool has = place->state == TL_FRONT && place->first;
    tl__mutex_unlock(&gate->mutex);
    return has;
}
