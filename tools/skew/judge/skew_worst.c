/*
 * Each holder is compared with the takers, those whose clocks are furthest ahead first. It stops at
 * the first taker whose pair, at most, is neither among the worst nor a theft. The bound of a pair
 * is never below its gap, so a pair that was not looked at would not have been kept.
 */
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "skew/judge/skew_gaps.h"
#include "skew/judge/skew_worst.h"

bool skew_judge_pair(const skew_result *result, int holder, int taker, skew_pair *ret) {
    if (holder == taker || !skew_gaps_comparable(result, holder, taker))
        return false;
    *ret = (skew_pair){
        .holder = holder, .taker = taker, .gap = skew_gaps_between(result, holder, taker)};
    ret->verdict = skew_pair_verdict(result, ret);
    return true;
}

/* ---- the worst of some pairs ------------------------------------------------------------------ */

/* Full, it is a heap: no pair in it is better than the first. */
typedef struct {
    skew_pair *pair;
    size_t count, room, most; /* most: 0 to keep none */
} kept;

static int worse(const void *a, const void *b) {
    const skew_pair *x = a, *y = b;
    if (x->gap.hi != y->gap.hi)
        return x->gap.hi < y->gap.hi ? 1 : -1;
    if (x->holder != y->holder)
        return x->holder - y->holder;
    return x->taker - y->taker;
}

static void sift(kept *kept, size_t at) {
    skew_pair moved = kept->pair[at];

    for (size_t child; (child = 2 * at + 1) < kept->count; at = child) {
        if (child + 1 < kept->count && worse(&kept->pair[child + 1], &kept->pair[child]) > 0)
            child++;
        if (worse(&kept->pair[child], &moved) <= 0)
            break;
        kept->pair[at] = kept->pair[child];
    }
    kept->pair[at] = moved;
}

static bool is_full(const kept *kept) {
    return kept->count == kept->most;
}

static bool make_room(kept *kept) {
    size_t more = kept->room ? 2 * kept->room : 256;

    if (kept->count < kept->room)
        return true;
    more = more < kept->most ? more : kept->most;
    skew_pair *bigger = realloc(kept->pair, more * sizeof *bigger);
    if (!bigger)
        return false;
    kept->pair = bigger;
    kept->room = more;
    return true;
}

static bool keep(kept *kept, const skew_pair *pair) {
    if (is_full(kept)) {
        if (kept->most && worse(pair, &kept->pair[0]) < 0) {
            kept->pair[0] = *pair;
            sift(kept, 0);
        }
        return true;
    }
    if (!make_room(kept))
        return false;
    kept->pair[kept->count++] = *pair;
    for (size_t at = is_full(kept) ? kept->count / 2 : 0; at-- > 0;)
        sift(kept, at);
    return true;
}

/* ---- the search --------------------------------------------------------------------------------- */

typedef struct {
    skew_result *result;
    kept worst, unsafe;
    bool any_theft;
    skew_pair theft; /* the surest: the one with the highest low edge */
} search;

static bool is_surer(const search *search, const skew_pair *pair) {
    int64_t lo = search->theft.gap.lo;
    return !search->any_theft || pair->gap.lo > lo ||
           (pair->gap.lo == lo && worse(pair, &search->theft) < 0);
}

static bool look_at(search *search, int holder, int taker) {
    skew_pair pair;

    if (!skew_judge_pair(search->result, holder, taker, &pair))
        return true;
    if (pair.verdict == SKEW_UNSAFE && is_surer(search, &pair)) {
        search->theft = pair;
        search->any_theft = true;
    }
    return keep(&search->worst, &pair) &&
           (pair.verdict != SKEW_UNSAFE || keep(&search->unsafe, &pair));
}

/* May a pair of this holder be kept whose gap is at most this? Pairs with equal gaps are in the
 * order of their hosts. */
static bool may_be_kept(const search *search, int holder, int64_t most) {
    const skew_pair *last = search->worst.pair;

    return !is_full(&search->worst) ||
           (GUARD(thefts_beyond_the_worst) && most > search->result->rule.slack_us) ||
           most > last->gap.hi || (most == last->gap.hi && holder <= last->holder);
}

static bool look_at_holder(search *search, const skew_reach *holder, const skew_reach *takers,
                           int n) {
    for (int i = 0; i < n; i++) {
        if (takers[i].host == holder->host)
            continue;
        if (!may_be_kept(search, holder->host, skew_gaps_most(search->result, holder, &takers[i])))
            return true;
        if (!look_at(search, holder->host, takers[i].host))
            return false;
    }
    return true;
}

/* All of one sort: the known hosts, or the relative ones. */
static bool look_at_all(search *search, bool relative, skew_reach *holders, skew_reach *takers) {
    int n = skew_gaps_reach(search->result, relative, false, holders);

    (void)skew_gaps_reach(search->result, relative, true, takers);
    search->result->pairs_total += n ? (size_t)n * (size_t)(n - 1) : 0;
    for (int i = 0; i < n; i++)
        if (!look_at_holder(search, &holders[i], takers, n))
            return false;
    return true;
}

/* Adds the thefts to the worst pairs, each pair once. */
static bool merge(search *search) {
    kept *all = &search->worst;
    size_t most = all->count + search->unsafe.count + 1, n = 0;
    skew_pair *pairs = realloc(all->pair, most * sizeof *pairs);

    if (!pairs)
        return false;
    all->pair = pairs;
    if (search->unsafe.count)
        memcpy(pairs + all->count, search->unsafe.pair, search->unsafe.count * sizeof *pairs);
    all->count += search->unsafe.count;
    if (search->any_theft)
        pairs[all->count++] = search->theft;
    qsort(pairs, all->count, sizeof *pairs, worse);
    for (size_t i = 0; i < all->count; i++)
        if (i == 0 || worse(&pairs[n - 1], &pairs[i]) != 0)
            pairs[n++] = pairs[i];
    all->count = n;
    return true;
}

bool skew_worst_find(skew_result *result) {
    size_t hosts = (size_t)result->host_count,
           most = result->pairs_most ? result->pairs_most : SKEW_PAIRS_MOST;
    bool all = hosts == 0 || most / hosts >= hosts; /* then the thefts are among them */
    search search = {.result = result, .worst = {.most = most}, .unsafe = {.most = all ? 0 : most}};
    skew_reach *reach = calloc(2 * hosts + 1, sizeof *reach);
    bool found = reach && look_at_all(&search, false, reach, reach + hosts) &&
                 look_at_all(&search, true, reach, reach + hosts) && merge(&search);

    free(reach);
    free(search.unsafe.pair);
    result->pairs = search.worst.pair;
    result->pair_count = found ? search.worst.count : 0;
    return found;
}

/* ---- any that is too large ---------------------------------------------------------------------- */

static bool find_beyond(const skew_result *result, const skew_reach *holders,
                        const skew_reach *takers, int n, skew_pair *ret) {
    for (int i = 0; i < n; i++)
        for (int k = 0;
             k < n && skew_is_beyond(result, skew_gaps_most(result, &holders[i], &takers[k])); k++)
            if (skew_judge_pair(result, holders[i].host, takers[k].host, ret) &&
                skew_is_beyond(result, ret->gap.hi))
                return true;
    return false;
}

bool skew_worst_beyond(const skew_result *result, skew_pair *ret) {
    size_t hosts = (size_t)result->host_count;
    skew_reach *holders = calloc(2 * hosts + 1, sizeof *holders), *takers = holders + hosts;
    skew_pair pair;
    bool found = false;

    for (int relative = 0; holders && !found && relative <= 1; relative++) {
        int n = skew_gaps_reach(result, relative, false, holders);
        (void)skew_gaps_reach(result, relative, true, takers);
        found = find_beyond(result, holders, takers, n, &pair);
    }
    if (found)
        *ret = pair;
    free(holders);
    return holders != NULL;
}
