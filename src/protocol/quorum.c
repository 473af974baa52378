/*
 * Counting votes: pure arithmetic. It must never count a vote for longer than its server's own reply proves.
 * Nor may it use a fencing number that a majority doesn't have.
 */
#include "protocol/quorum.h"

#include <stdio.h>

#include "ground/assert.h"
#include "ground/guard.h"

#define GRACE_PARTS 4
#define GRACE_LEAST_NS 200000
#define GRACE_MOST_NS 50000000
#define OUTLIER_US INT64_C(43200000000) /* half a day: a clock this far ahead is wrong */

static tl_event of_server(const tl_event *event, unsigned server) {
    TL_ASSERT(event->servers);
    tl_event mine = *event;
    mine.server = &event->servers[server];
    return mine;
}

static tl_status addressed(tl_status status, unsigned server, tl_out *out) {
    if (out->sends > 0)
        out->send.to = (uint8_t)(1U << server);
    return status;
}

tl_status tl__quorum_begin(tl_attempt *attempt, const tl_job *job, tl_op op, uint16_t ticket,
                           tl_mono until, unsigned server, const tl_event *event, tl_out *out) {
    tl_event mine = of_server(event, server);
    return addressed(tl__attempt_begin(attempt, job, op, ticket, until, &mine, out), server, out);
}

tl_status tl__quorum_step(tl_attempt *attempt, const tl_job *job, unsigned server,
                          const tl_event *event, tl_out *out) {
    tl_event mine = of_server(event, server);
    return addressed(tl__attempt_step(attempt, job, &mine, out), server, out);
}

void tl__quorum_ask_again(tl_job *job, const tl_event *event, unsigned count) {
    job->acquire.fence = tl__quorum_proposal(event->servers, count, event->now, job->hold.fence);
    job->fences = 1;
    job->again = true;
    if (!GUARD(holder_is_withheld))
        job->acquire.quiet_ms = 0;
}

/* The largest first. */
static void sort(int64_t *v, unsigned count) {
    for (unsigned i = 1; i < count; i++)
        for (unsigned j = i; j > 0 && v[j] > v[j - 1]; j--) {
            int64_t less = v[j - 1];
            v[j - 1] = v[j];
            v[j] = less;
        }
}

tl_mono tl__ballots_deadline(const tl_ballots *ballots) {
    int64_t sorted[TL_QUORUM_MAX] = {0}; /* the compiler doesn't know that a server is there */
    for (unsigned i = 0; i < ballots->count; i++)
        sorted[i] = ballots->until[i].ns;
    sort(sorted, ballots->count);
    return (tl_mono){sorted[tl__quorum_of(ballots->count) - 1 + !GUARD(majority_suffices) -
                            !GUARD(majority_is_needed)]};
}

tl_ballots tl__ballots_proved(const tl_ballots *ballots, tl_mono disrupted) {
    tl_ballots proved = *ballots;
    for (unsigned i = 0; i < ballots->count; i++)
        if (tl__is_disrupted(ballots->proved[i], disrupted))
            proved.until[i] = (tl_mono){0};
    return proved;
}

tl_mono tl__ballots_since(const tl_ballots *ballots) {
    tl_mono since = {0};
    for (unsigned i = 0; i < ballots->count; i++)
        if (ballots->until[i].ns != 0 &&
            (since.ns == 0 || tl__mono_before(ballots->proved[i], since)))
            since = ballots->proved[i];
    return since;
}

tl_mono tl__quorum_grace(tl_mono began, tl_mono now) {
    int64_t ns = tl__ns_until(began, now) / GRACE_PARTS;
    if (ns < GRACE_LEAST_NS)
        ns = GRACE_LEAST_NS;
    return tl__mono_add_ns(now, ns < GRACE_MOST_NS ? ns : GRACE_MOST_NS);
}

tl_mono tl__quorum_free_at(const tl_mono *free, unsigned count) {
    int64_t sorted[TL_QUORUM_MAX] = {0};
    for (unsigned i = 0; i < count; i++)
        sorted[i] = free[i].ns;
    sort(sorted, count);
    return (tl_mono){sorted[count - tl__quorum_of(count)]};
}

uint64_t tl__quorum_proposal(const tl_server *servers, unsigned count, tl_mono now, uint64_t seen) {
    int64_t edge[TL_QUORUM_MAX], most = GUARD(proposal_beyond_seen) * (int64_t)seen + 1;
    unsigned known = 0;
    for (unsigned i = 0; i < count; i++)
        if (servers[i].anchor.known)
            edge[known++] =
                tl__anchor_server_time(&servers[i].anchor, now, servers[i].drift_ppm).hi;
    sort(edge, known);
    for (unsigned i = 0; i < known; i++)
        if (GUARD(proposal_beyond_clocks) && edge[i] > most &&
            (edge[i] <= edge[known / 2] + OUTLIER_US || !GUARD(wrong_clock_is_ignored)))
            most = edge[i];
    return (uint64_t)most;
}

tl_quorum_fence tl__quorum_fence(const uint64_t *numbers, unsigned count) {
    tl_quorum_fence fence = {0, 0};
    for (unsigned i = 0; i < count; i++) {
        unsigned same = 0;
        for (unsigned j = 0; j < count; j++)
            same += numbers[j] == numbers[i];
        if (numbers[i] > 0 && (same >= tl__quorum_of(count) || !GUARD(number_of_majority)))
            return (tl_quorum_fence){numbers[i], 0};
        if (numbers[i] > fence.number)
            fence.number = numbers[i];
    }
    for (unsigned i = 0; i < count; i++)
        if (numbers[i] > 0 && numbers[i] < fence.number)
            fence.raise |= 1U << i;
    return fence;
}

tl_bytes tl__quorum_message(char to[TL_MESSAGE_SIZE], unsigned count, const char *message) {
    (void)snprintf(to, TL_MESSAGE_SIZE, "no majority of the %u servers: %.150s", count, message);
    return tl__bytes_of(to);
}

unsigned tl__quorum_first(tl_bytes key, unsigned count) {
    return tl__hash_slot(key) % count;
}
