/*
 * Looking at a lock of a majority: one question to each server, by the machine that asks one. Held is what a majority holds
 * for the same; anything less excludes nobody for long.
 */
#include "protocol/quorum_look.h"

#include <stdio.h>

#include "ground/guard.h"

#define TICKETS 16 /* of one server's machine, which uses the first few */

void tl__quorum_look_init(tl_quorum_look *l, const tl_ask *ask, unsigned count) {
    *l = (tl_quorum_look){.count = (uint8_t)count};
    for (unsigned i = 0; i < count; i++)
        l->ask[i] = *ask;
}

static bool is_same(const tl_lock_info *a, const tl_lock_info *b) {
    return a->held && b->held && strcmp(a->value, b->value) == 0;
}

/* As long as a majority of those that hold it does. */
static int64_t remaining_ms(const tl_quorum_look *l, const tl_lock_info *holder) {
    tl_ballots b = {.count = l->count};
    for (unsigned i = 0; i < l->count; i++) {
        const tl_lock_info *info = &l->ask[i].info;
        bool his = l->answered & 1U << i && is_same(info, holder);
        b.until[i].ns = !his ? 0 : info->remaining_ms < 0 ? INT64_MAX : info->remaining_ms;
    }
    int64_t ms = tl__ballots_deadline(&b).ns;
    return ms == INT64_MAX ? -1 : ms;
}

static unsigned votes_for(const tl_quorum_look *l, const tl_lock_info *holder) {
    unsigned same = 0;
    for (unsigned i = 0; i < l->count; i++)
        same += l->answered & 1U << i && is_same(&l->ask[i].info, holder);
    return same;
}

/* Servers that hold it, for whomever: they may keep others out until it expires there. */
static unsigned holders(const tl_quorum_look *l) {
    unsigned n = 0;
    for (unsigned i = 0; i < l->count; i++)
        n += l->answered & 1U << i && l->ask[i].info.held;
    return n;
}

/* Of those that hold it the one that knows most. Nobody: what the last of them noted. */
static void judge(tl_quorum_look *l) {
    const tl_lock_info *best = &l->ask[__builtin_ctz(l->answered)].info;
    int64_t waiters = -1;
    for (unsigned i = 0; i < l->count; i++) {
        const tl_lock_info *info = &l->ask[i].info;
        if (!(l->answered & 1U << i))
            continue;
        waiters = info->waiters > waiters ? info->waiters : waiters;
        bool held = votes_for(l, info) >= tl__quorum_of(l->count);
        bool was = votes_for(l, best) >= tl__quorum_of(l->count);
        if ((held && !was) || (held == was && info->fence > best->fence))
            best = info;
    }
    l->info = *best;
    l->info.waiters = waiters;
    l->votes = votes_for(l, best);
    if (l->votes >= tl__quorum_of(l->count) || !GUARD(held_by_majority)) {
        l->info.remaining_ms = remaining_ms(l, best);
        return;
    }
    unsigned some = holders(l);
    if (some > 0)
        (void)snprintf(l->info.oddity, sizeof l->info.oddity,
                       "no majority of the %u servers holds it, but %u %s", (unsigned)l->count,
                       some, some == 1 ? "does" : "do");
    l->info.held = l->info.by_tidelock = false;
    l->info.remaining_ms = -1;
    l->info.protocol = -1;
    l->votes = 0;
}

static tl_status finish(tl_quorum_look *l, tl_out *out) {
    unsigned q = tl__quorum_of(l->count);
    if (tl__quorum_bits(l->answered) >= q) {
        judge(l);
        return TL_END;
    }
    out->sys_errno = l->sys_errno;
    tl__out_words(out, tl__bytes_of(l->words));
    return TL_END;
}

static void ended(tl_quorum_look *l, unsigned i, const tl_out *out) {
    const tl_result *r = &l->ask[i].result;
    if (r->code == TL_OK) {
        l->answered |= (uint8_t)(1U << i);
        return;
    }
    l->failed |= (uint8_t)(1U << i);
    l->result.code = r->code;
    l->sys_errno = out->sys_errno;
    (void)tl__quorum_message(l->words, l->count, out->words);
}

static tl_status step(tl_quorum_look *l, unsigned i, const tl_event *e, tl_out *out) {
    tl_event mine = *e;
    mine.server = &e->servers[i];
    mine.asked.ticket = e->asked.ticket % TICKETS;
    tl_status status = tl__ask_step(&l->ask[i], &mine, out);
    if (out->sends > 0) {
        out->send.ticket = (uint16_t)(out->send.ticket + i * TICKETS);
        out->send.to = (uint8_t)(1U << i);
    }
    if (status == TL_END)
        ended(l, i, out);
    return status;
}

/* A majority is enough, unless what it says differs. */
static bool is_decided(const tl_quorum_look *l) {
    unsigned all = (1U << l->count) - 1, q = tl__quorum_of(l->count), free = 0;
    if ((l->answered | l->failed) == all || tl__quorum_bits(l->failed) > l->count - q)
        return true;
    for (unsigned i = 0; i < l->count; i++) {
        if (l->answered & 1U << i && votes_for(l, &l->ask[i].info) >= q)
            return true;
        free += l->answered & 1U << i && !l->ask[i].info.held;
    }
    return free >= q;
}

tl_status tl__quorum_look_step(void *machine, const tl_event *e, tl_out *out) {
    tl_quorum_look *l = machine;
    if (e->kind == TL_CANCEL)
        return tl__end_cancelled(l, out);
    unsigned i = e->asked.ticket / TICKETS;
    bool answer = e->kind == TL_REPLY || e->kind == TL_FAILED;
    if (answer && i < l->count && !((l->answered | l->failed) & 1U << i))
        (void)step(l, i, e, out);
    if (is_decided(l)) {
        out->sends = 0;
        out->words[0] = '\0';
        if (tl__quorum_bits(l->answered) >= tl__quorum_of(l->count))
            l->result.code = TL_OK;
        return finish(l, out);
    }
    tl_event start = {.kind = TL_START, .now = e->now, .servers = e->servers};
    if (out->sends == 0 && l->next < l->count)
        (void)step(l, l->next++, &start, out); /* it doesn't end here */
    out->until = l->next < l->count ? e->now : TL_NEVER;
    return TL_GO;
}
