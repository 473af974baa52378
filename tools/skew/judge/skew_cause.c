/*
 * A set of hosts is a cause if it has a host of every pair that is too far apart. So one host of any
 * such pair is left out, then the other, and the rest is searched again: every set of three hosts is
 * reached in at most 15 steps. A step tightens what is measured anew, because a host that is left
 * out may have tightened other gaps. Fewer measurements only widen gaps, so no set is overlooked.
 * The verdict on the rest is the judge's own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ground/guard.h"
#include "skew/judge/skew_cause.h"
#include "skew/judge/skew_gaps.h"
#include "skew/judge/skew_number.h"
#include "skew/judge/skew_reason.h"
#include "skew/judge/skew_worst.h"

#define AGAINST_MOST 200 /* hosts measured against another; the time grows with their third power */

/* ---- which rows are a host ------------------------------------------------------------------- */

/* Is it the host's name, or that with a port? */
static bool is_named(const char *row, const char *host) {
    size_t n = strlen(host);
    return strncasecmp(row, host, n) == 0 && (row[n] == '\0' || row[n] == ':');
}

int skew_cause_host(const skew_result *result, int row) {
    skew_kind kind = result->hosts[row].kind;

    if (kind == SKEW_CLOCK || kind == SKEW_REDIS || !GUARD(cause_takes_all_rows))
        return row;
    for (int i = 0; i < result->host_count; i++)
        if (result->hosts[i].kind == SKEW_CLOCK &&
            is_named(result->hosts[row].name, result->hosts[i].name))
            return i;
    return row;
}

/* ---- the rest ---------------------------------------------------------------------------------- */

typedef struct {
    skew_result *result;
    int *host;       /* of each row: the row that stands for its host */
    skew_host *rest; /* the rows that are not left out */
    int *row, *at;   /* of each of the rest: its row; of each row: its place in the rest, or -1 */
    int left_out[SKEW_CAUSE_MOST], count;
    int smallest; /* size of the smallest sets so far */
    bool failed;
} search;

static bool is_left_out(const search *search, int row) {
    for (int i = 0; i < search->count; i++)
        if (search->host[row] == search->left_out[i])
            return true;
    return false;
}

/* A measurement against a host that is left out is dropped. The one against the server remains. */
static skew_result rest_of(search *search) {
    const skew_result *all = search->result;
    skew_result rest = *all;

    rest.hosts = search->rest;
    rest.host_count = 0;
    rest.pairs_most = 1;
    rest.causes = 0;
    for (int i = 0; i < all->host_count; i++) {
        search->at[i] = is_left_out(search, i) ? -1 : rest.host_count;
        if (search->at[i] < 0)
            continue;
        search->row[rest.host_count] = i;
        rest.hosts[rest.host_count++] = all->hosts[i];
    }
    for (int i = 0; i < rest.host_count; i++)
        if (rest.hosts[i].against > 0 && rest.hosts[i].against <= all->host_count &&
            GUARD(cause_is_renumbered))
            rest.hosts[i].against = search->at[rest.hosts[i].against - 1] + 1;
    return rest;
}

/* ---- the search ------------------------------------------------------------------------------ */

static bool is_set(const int *set, int count, const skew_cause *cause) {
    for (int i = 0; i < count; i++)
        if (set[i] != cause->host[i])
            return false;
    return true;
}

/* Inserts a host, so that equal sets have one order. */
static void insert(int *set, int count, int host) {
    int i = count;
    for (; i > 0 && set[i - 1] > host; i--)
        set[i] = set[i - 1];
    set[i] = host;
}

/* Keeps the set of hosts that are left out, unless a smaller one is known. */
static void keep(search *search) {
    skew_result *result = search->result;

    if (search->count < search->smallest)
        result->causes = 0;
    search->smallest = search->count;
    for (int i = 0; i < result->causes; i++)
        if (is_set(search->left_out, search->count, &result->cause[i]))
            return;
    if (result->causes == SKEW_CAUSES_MOST)
        return;
    skew_cause *cause = &result->cause[result->causes++];
    *cause = (skew_cause){.hosts = search->count};
    memcpy(cause->host, search->left_out, sizeof cause->host);
}

static void look(search *search);

static void look_without(search *search, int row) {
    int before[SKEW_CAUSE_MOST];

    memcpy(before, search->left_out, sizeof before);
    insert(search->left_out, search->count++, search->host[row]);
    look(search);
    memcpy(search->left_out, before, sizeof before);
    search->count--;
}

static void look(search *search) {
    skew_result rest = rest_of(search);
    skew_pair pair = {.holder = -1};
    skew_gaps *gaps = rest.gaps = skew_gaps_begin(&rest);

    search->failed = search->failed || !gaps || !skew_worst_beyond(&rest, &pair);
    skew_gaps_end(gaps);
    if (search->failed)
        return;
    if (pair.holder < 0) {
        keep(search);
    } else if (search->count < search->smallest && search->count < SKEW_CAUSE_MOST) {
        int holder = search->row[pair.holder], taker = search->row[pair.taker];
        look_without(search, holder);
        look_without(search, taker);
    }
}

/* ---- the proof --------------------------------------------------------------------------------- */

/* Judges the hosts without a cause. False: out of memory. */
static bool judge_rest(search *search, skew_cause *cause) {
    memcpy(search->left_out, cause->host, sizeof search->left_out);
    search->count = cause->hosts;
    skew_result rest = rest_of(search);
    bool judged = skew_judge(&rest);

    cause->verdict = rest.verdict;
    cause->alarmed = rest.alarmed;
    cause->any_pair = judged && rest.pair_count > 0;
    cause->worst = cause->any_pair ? rest.pairs[0].gap : (tl_interval){0, 0};
    skew_result_end(&rest);
    return judged;
}

/* Is it proved that the rest is near each other? One clock alone proves nothing, so of more than two
 * clocks no set is a cause that leaves only one. */
static bool is_proved(const skew_result *result, const skew_cause *cause) {
    if (cause->any_pair)
        return !skew_is_beyond(result, cause->worst.hi);
    return result->pairs_total == 2 || !GUARD(cause_leaves_pairs);
}

/* Drops causes without a proof. */
static void prove(search *search) {
    skew_result *result = search->result;
    int causes = result->causes;

    result->causes = 0;
    for (int i = 0; i < causes && !search->failed; i++) {
        skew_cause cause = result->cause[i];
        search->failed = !judge_rest(search, &cause);
        if (!search->failed && is_proved(result, &cause))
            result->cause[result->causes++] = cause;
    }
}

/* ---- the text ---------------------------------------------------------------------------------- */

static void append(skew_result *result, const char *text) {
    size_t n = strlen(result->cause_text);
    (void)snprintf(result->cause_text + n, sizeof result->cause_text - n, "%s", text);
}

static void append_set(skew_result *result, const skew_cause *cause) {
    for (int i = 0; i < cause->hosts; i++) {
        const skew_host *host = &result->hosts[cause->host[i]];
        append(result, i == 0 ? "" : i == cause->hosts - 1 ? " and " : ", ");
        append(result, host->name);
        append(result, host->missing    ? " (missing)"
                       : host->unsteady ? " (its clock runs wrong)"
                                        : "");
    }
}

/* "either a or b is the cause", "2 hosts, such as a and b, are the cause" */
static void append_sets(skew_result *result) {
    const skew_cause *cause = result->cause;
    bool several = cause->hosts > 1;
    char text[64];

    if (result->causes > 2) {
        (void)snprintf(text, sizeof text, "%d hosts, such as ", cause->hosts);
        append(result, text);
    }
    append(result, result->causes == 2 ? "either " : "");
    append_set(result, &cause[0]);
    if (result->causes == 2) {
        append(result, several ? ", or " : " or ");
        append_set(result, &cause[1]);
    }
    append(result, result->causes > 1 && several ? "," : "");
    append(result, several ? " are the cause" : " is the cause");
}

static bool is_worse(const skew_cause *a, const skew_cause *b) {
    return a->verdict > b->verdict || (a->verdict == b->verdict && a->worst.hi > b->worst.hi);
}

static const skew_cause *worst_of(const skew_result *result) {
    const skew_cause *worst = result->cause;
    for (int i = 1; i < result->causes; i++)
        if (is_worse(&result->cause[i], worst))
            worst = &result->cause[i];
    return worst;
}

/* Writes "app2 is the cause; without it SAFE, worst pair 42 ms". */
static void explain(skew_result *result) {
    const skew_cause *worst = worst_of(result);
    char number[SKEW_NUMBER_SIZE], text[128];
    bool several = worst->hosts > 1, sure = result->causes == 1;

    append_sets(result);
    if (!worst->any_pair) {
        append(result, ": with two clocks nobody can tell which");
        return;
    }
    (void)snprintf(text, sizeof text, "; without %s %s%s, worst pair %s%s ms",
                   sure      ? several ? "them" : "it"
                   : several ? "one of these sets"
                             : "one of them",
                   skew_verdict_name(worst->verdict),
                   worst->verdict == SKEW_SAFE ? ""
                   : worst->alarmed            ? " for a hypervisor's alarm"
                                               : " for lack of evidence",
                   sure ? "" : "at most ", skew_up(number, worst->worst.hi, 0));
    append(result, text);
}

/* ---- all ----------------------------------------------------------------------------------------- */

static int count_against(const skew_result *result) {
    int n = 0;
    for (int i = 0; i < result->host_count; i++)
        n += result->hosts[i].against > 0;
    return n;
}

static int by_hosts(const void *a, const void *b) {
    const int *x = ((const skew_cause *)a)->host, *y = ((const skew_cause *)b)->host;
    int i = 0;

    while (i < SKEW_CAUSE_MOST - 1 && x[i] == y[i])
        i++;
    return x[i] - y[i];
}

static void find(search *search) {
    skew_result *result = search->result;

    for (int i = 0; i < result->host_count; i++)
        search->host[i] = skew_cause_host(result, i);
    look(search);
    bool any = result->causes > 0;
    qsort(result->cause, (size_t)result->causes, sizeof *result->cause, by_hosts);
    prove(search);
    if (result->causes)
        explain(result);
    else if (!any && result->pairs[0].gap.hi > result->rule.slack_us)
        append(result, "more than three hosts are the cause");
    if (result->causes == 1)
        skew_say_cause(result);
}

/* Then the slack is the cause, and no clock. */
static bool is_slack_too_small(const skew_result *result) {
    return skew_is_beyond(result, skew_widening_by(&result->rule, 0));
}

bool skew_cause_find(skew_result *result) {
    size_t n = (unsigned)result->host_count; /* never negative, which gcc can't see */
    search search = {.result = result, .smallest = SKEW_CAUSE_MOST + 1};

    result->causes = 0;
    result->cause_text[0] = '\0';
    if (result->pair_count == 0 || !skew_is_beyond(result, result->pairs[0].gap.hi) ||
        is_slack_too_small(result) || count_against(result) > AGAINST_MOST)
        return true;
    search.host = calloc(3 * n, sizeof *search.host);
    search.rest = calloc(n, sizeof *search.rest);
    search.row = search.host + n;
    search.at = search.row + n;
    search.failed = !search.host || !search.rest;
    if (!search.failed)
        find(&search);
    free(search.host);
    free(search.rest);
    if (search.failed)
        result->causes = 0;
    return !search.failed;
}

bool skew_may_be_cause(const skew_result *result, int host) {
    for (int i = 0; i < result->causes; i++)
        for (int k = 0; k < result->cause[i].hosts; k++)
            if (result->cause[i].host[k] == host)
                return true;
    return false;
}
