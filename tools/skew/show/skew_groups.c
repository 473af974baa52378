/*
 * Joins pairs. A group has one mark, so a line says the same of all its pairs.
 */
#include <stdlib.h>

#include "skew/judge/skew_worst.h"
#include "skew/show/skew_groups.h"

const skew_pair **skew_pairs_in_order(const skew_result *result) {
    const skew_pair **order = calloc(result->pair_count + 1, sizeof *order);
    size_t n = 0;

    for (int unsafe = 1; order && unsafe >= 0; unsafe--)
        for (size_t i = 0; i < result->pair_count; i++)
            if ((result->pairs[i].verdict == SKEW_UNSAFE) == unsafe)
                order[n++] = &result->pairs[i];
    return order;
}

static bool is_in(const skew_result *result, const skew_group *group, const skew_pair *pair) {
    return (group->by_taker ? pair->taker == group->pair->taker
                            : pair->holder == group->pair->holder) &&
           skew_mark(result, pair) == skew_mark(result, group->pair);
}

static bool is_in_any(const skew_result *result, const skew_group *group, int groups,
                      const skew_pair *pair) {
    for (int i = 0; i < groups; i++)
        if (group[i].count > 1 && is_in(result, &group[i], pair))
            return true;
    return false;
}

/* Of a log line only the pairs that it lists are known. */
static int count_listed(const skew_result *result, const skew_group *group, int groups,
                        const skew_group *of) {
    int n = 0;
    for (size_t i = 0; i < result->pair_count; i++)
        n += is_in(result, of, &result->pairs[i]) &&
             !is_in_any(result, group, groups, &result->pairs[i]);
    return n;
}

static int count_all(const skew_result *result, const skew_group *group, int groups,
                     const skew_group *of) {
    int n = 0;
    for (int i = 0; i < result->host_count; i++) {
        skew_pair pair;
        bool judged = of->by_taker ? skew_judge_pair(result, i, of->pair->taker, &pair)
                                   : skew_judge_pair(result, of->pair->holder, i, &pair);
        n += judged && is_in(result, of, &pair) && !is_in_any(result, group, groups, &pair);
    }
    return n;
}

static int count(const skew_result *result, const skew_group *group, int groups,
                 const skew_group *of) {
    return result->gaps ? count_all(result, group, groups, of)
                        : count_listed(result, group, groups, of);
}

/* The larger of the two groups that a pair may begin. */
static skew_group group_of(const skew_result *result, const skew_group *group, int groups,
                           const skew_pair *pair) {
    skew_group by_taker = {.pair = pair, .by_taker = true, .count = 1},
               by_holder = {.pair = pair, .count = 1};

    if (pair->verdict == SKEW_SAFE)
        return by_taker;
    by_taker.count = count(result, group, groups, &by_taker);
    by_holder.count = count(result, group, groups, &by_holder);
    return by_taker.count >= by_holder.count ? by_taker : by_holder;
}

int skew_groups(const skew_result *result, skew_group *group, int most) {
    const skew_pair **order = skew_pairs_in_order(result);
    int groups = 0;

    for (size_t i = 0; order && i < result->pair_count && groups < most; i++)
        if (!is_in_any(result, group, groups, order[i])) {
            group[groups] = group_of(result, group, groups, order[i]);
            groups++;
        }
    free(order);
    return groups;
}
