/*
 * The local queue. A hash table has, for each key, the lock that is first, and the queue behind it. The nodes
 * are parts of the locks, so an acquire allocates nothing. Two locks must never both be first on one key.
 */
#include "client/gate.h"
#include "ground/guard.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 64
/* For at most so long after an acquire from the server a process passes the hold on among its own locks. */
#define PASS_NS (1000 * TL_NS_PER_MS)

bool tl__gate_init(tl_gate *gate) {
    *gate = (tl_gate){.buckets = BUCKETS};
    gate->bucket = calloc(BUCKETS, sizeof(tl_gate_node *));
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

static tl_gate_node **bucket_of(const tl_gate *gate, uint32_t hash) {
    return &gate->bucket[hash & (gate->buckets - 1)];
}

static tl_gate_node *find(const tl_gate *gate, const tl_gate_node *like) {
    tl_gate_node *node = *bucket_of(gate, like->hash);
    while (node && !(node->hash == like->hash &&
                     (!GUARD(queue_by_whole_key) || tl__bytes_eq(node->key, like->key))))
        node = node->next;
    return node;
}

static void insert(tl_gate *gate, tl_gate_node *node) {
    tl_gate_node **bucket = bucket_of(gate, node->hash);
    node->next = *bucket;
    *bucket = node;
    gate->fronts++;
}

/* Out of memory: the table stays, with longer chains. */
static void grow(tl_gate *gate) {
    tl_gate larger = {.buckets = gate->buckets * 2};
    larger.bucket = calloc(larger.buckets, sizeof(tl_gate_node *));
    if (!larger.bucket)
        return;
    for (size_t i = 0; i < gate->buckets; i++)
        for (tl_gate_node *node = gate->bucket[i], *next; node; node = next) {
            next = node->next;
            insert(&larger, node);
        }
    free(gate->bucket);
    gate->bucket = larger.bucket;
    gate->buckets = larger.buckets;
}

static void come_to_front(tl_gate *gate, tl_gate_node *node) {
    if (gate->fronts >= gate->buckets)
        grow(gate);
    node->state = TL_FRONT;
    node->rank = 0;
    insert(gate, node);
}

static void take_out(tl_gate *gate, tl_gate_node *node) {
    tl_gate_node **at = bucket_of(gate, node->hash);
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    gate->fronts--;
    node->state = TL_OUTSIDE;
    node->next = NULL;
}

/* ---- coming and going ------------------------------------------------------------------------ */

static void append(tl_gate_node *front, tl_gate_node *node, tl_turn *turn) {
    node->state = TL_QUEUED;
    node->turn = turn;
    node->next = NULL;
    if (GUARD(queue_is_kept) && front->last)
        front->last->next = node;
    else
        front->first = node;
    front->last = GUARD(queue_in_order) ? node : front->first;
}

int tl__gate_enter(tl_gate *gate, tl_gate_node *node, tl_turn *turn) {
    tl__mutex_lock(&gate->mutex);
    if (node->state == TL_OUTSIDE) {
        tl_gate_node *front = find(gate, node);
        node->first = node->last = NULL;
        if (!front || !GUARD(one_in_front))
            come_to_front(gate, node);
        else if (turn)
            append(front, node, turn);
    }
    int state = node->state;
    tl__mutex_unlock(&gate->mutex);
    return state;
}

/* `node`, which is first, leaves. The next one becomes first and takes over the queue,
 * perhaps with a hold. */
static void hand_over(tl_gate *gate, tl_gate_node *node, const tl_hold *hold) {
    tl_gate_node *heir = node->first;
    int64_t rank = node->rank;
    take_out(gate, node);
    if (!heir)
        return;
    tl_turn *turn = heir->turn;
    heir->first = GUARD(queue_passes_on) ? heir->next : NULL;
    heir->last = heir->first && GUARD(queue_end_passes_on) ? node->last : NULL;
    node->first = node->last = NULL;
    come_to_front(gate, heir);
    turn->rank = hold ? 0 : rank;
    turn->given = GUARD(passed_is_acquired) && hold != NULL;
    if (hold)
        turn->hold = *hold;
    if (GUARD(turn_notified))
        turn->on_turn(turn);
}

static void leave_queue(tl_gate *gate, tl_gate_node *node) {
    tl_gate_node *front = find(gate, node), *before = NULL;
    for (tl_gate_node *entry = front->first; entry != node; entry = entry->next)
        before = entry;
    if (before)
        before->next = node->next;
    else
        front->first = node->next;
    if (GUARD(new_last_in_queue) && front->last == node)
        front->last = before;
    node->state = TL_OUTSIDE;
    node->next = NULL;
}

bool tl__gate_quit(tl_gate *gate, tl_gate_node *node) {
    tl__mutex_lock(&gate->mutex);
    bool queued = node->state == TL_QUEUED || !GUARD(quits_only_if_queued);
    if (queued)
        leave_queue(gate, node);
    tl__mutex_unlock(&gate->mutex);
    return queued;
}

/* Only the owner of a node brings it in, so a node outside stays outside meanwhile. */
void tl__gate_leave(tl_gate *gate, tl_gate_node *node) {
    if (node->state == TL_OUTSIDE && GUARD(leaves_only_if_first))
        return;
    tl__mutex_lock(&gate->mutex);
    if (node->state == TL_FRONT || !GUARD(leaves_only_if_first))
        hand_over(gate, node, NULL);
    tl__mutex_unlock(&gate->mutex);
}

/* May the hold pass on? With less than half of its lifetime left the next lock would have to
 * renew it at once. */
static bool may_pass(const tl_gate_node *node, const tl_hold *hold, tl_mono now) {
    if (node->state != TL_FRONT || !node->first ||
        (hold->proof.unbound && node->first->turn->by_hand && GUARD(by_hand_is_bound)))
        return false;
    return (tl__ns_until(hold->taken, now) < PASS_NS || !GUARD(passed_for_a_second)) &&
           (!GUARD(passed_in_time) ||
            (tl__ms_until(now, hold->deadline) >= node->first->turn->ttl_ms / 2 &&
             tl__mono_before(now, hold->deadline)));
}

bool tl__gate_pass(tl_gate *gate, tl_gate_node *node, const tl_hold *hold, tl_mono now) {
    if (GUARD(passes_in_reserve) && hold->passes == 0)
        return false;
    tl__mutex_lock(&gate->mutex);
    bool may = may_pass(node, hold, now);
    if (may) {
        tl_hold next = *hold;
        next.passes--;
        next.fence += GUARD(passed_with_next_fence) && next.fence != 0;
        hand_over(gate, node, &next);
    }
    tl__mutex_unlock(&gate->mutex);
    return may;
}

void tl__gate_show(tl_gate *gate, tl_bytes key, void (*see)(tl_gate_node *node)) {
    const tl_gate_node like = {.key = key, .hash = tl__gate_hash(key)};
    tl__mutex_lock(&gate->mutex);
    tl_gate_node *node = find(gate, &like);
    if (node)
        see(node);
    tl__mutex_unlock(&gate->mutex);
}

static bool is_below(tl_bytes key, tl_bytes name) {
    return key.n > name.n + 1 && key.p[name.n] == '/' && memcmp(key.p, name.p, name.n) == 0;
}

bool tl__gate_blocks(tl_gate *gate, const tl_gate_node *node, bool below,
                     bool (*so)(const tl_gate_node *front)) {
    tl__mutex_lock(&gate->mutex);
    const tl_gate_node *front = find(gate, node);
    bool is = front && so(front);
    for (size_t i = 0; GUARD(blocked_below_name) && below && !is && i < gate->buckets; i++)
        for (const tl_gate_node *entry = gate->bucket[i]; entry && !is; entry = entry->next)
            is = is_below(entry->key, node->key) && so(entry);
    tl__mutex_unlock(&gate->mutex);
    return is;
}

bool tl__gate_has_queue(tl_gate *gate, const tl_gate_node *node) {
    tl__mutex_lock(&gate->mutex);
    bool has = node->state == TL_FRONT && node->first;
    tl__mutex_unlock(&gate->mutex);
    return has;
}
