/*
 * Looking at a lock of a majority: one question to each server, by the machine for one server. The lock is
 * held if a majority holds it for the same client; fewer servers exclude nobody for long.
 */
#include "protocol/quorum_look.h"

#include <stdio.h>

#include "ground/guard.h"

#define TICKETS 16 /* tickets for one server's machine, which uses the first few */

void tl__quorum_look_init(tl_quorum_look *look, const tl_ask *ask, unsigned count) {
    *look = (tl_quorum_look){.count = (uint8_t)count};
    for (unsigned i = 0; i < count; i++)
        look->ask[i] = *ask;
}

static bool is_same(const tl_lock_info *a, const tl_lock_info *b) {
    return a->held && b->held && strcmp(a->value, b->value) == 0;
}

/* The remaining lifetime of the majority. */
static int64_t remaining_ms(const tl_quorum_look *look, const tl_lock_info *holder) {
    tl_ballots b = {.count = look->count};
    for (unsigned i = 0; i < look->count; i++) {
        const tl_lock_info *info = &look->ask[i].info;
        bool his = look->answered & 1U << i && is_same(info, holder);
        b.until[i].ns = !his ? 0 : info->remaining_ms < 0 ? INT64_MAX : info->remaining_ms;
    }
    int64_t ms = tl__ballots_deadline(&b).ns;
    return ms == INT64_MAX ? -1 : ms;
}

static unsigned votes_for(const tl_quorum_look *look, const tl_lock_info *holder) {
    unsigned same = 0;
    for (unsigned i = 0; i < look->count; i++)
        same += look->answered & 1U << i && is_same(&look->ask[i].info, holder);
    return same;
}

/* The number of servers that hold it, for any client. They may keep others out until it expires there. */
static unsigned holders(const tl_quorum_look *look) {
    unsigned n = 0;
    for (unsigned i = 0; i < look->count; i++)
        n += look->answered & 1U << i && look->ask[i].info.held;
    return n;
}

/* Choose the reply to report. A reply that a majority agrees with comes first, then the one with the highest
 * fencing number. Without a majority the lock is free, and the report shows what that server noted last. */
static void judge(tl_quorum_look *look) {
    const tl_lock_info *best = &look->ask[__builtin_ctz(look->answered)].info;
    int64_t waiters = -1;
    for (unsigned i = 0; i < look->count; i++) {
        const tl_lock_info *info = &look->ask[i].info;
        if (!(look->answered & 1U << i))
            continue;
        waiters = info->waiters > waiters ? info->waiters : waiters;
        bool held = votes_for(look, info) >= tl__quorum_of(look->count);
        bool was = votes_for(look, best) >= tl__quorum_of(look->count);
        if ((held && !was) || (held == was && info->fence > best->fence))
            best = info;
    }
    look->info = *best;
    look->info.waiters = waiters;
    look->votes = votes_for(look, best);
    if (look->votes >= tl__quorum_of(look->count) || !GUARD(held_by_majority)) {
        look->info.remaining_ms = remaining_ms(look, best);
        if (best->rest_end_ms > 0)
            look->info.rest_end_ms += look->info.remaining_ms - best->remaining_ms;
        return;
    }
    unsigned some = holders(look);
    if (some > 0)
        (void)snprintf(look->info.oddity, sizeof look->info.oddity,
                       "no majority of the %u servers holds it, but %u %s", (unsigned)look->count,
                       some, some == 1 ? "does" : "do");
    look->info.held = look->info.by_tidelock = look->info.rests = false;
    look->info.remaining_ms = -1;
    look->info.protocol = -1;
    look->votes = 0;
}

static tl_status finish(tl_quorum_look *look, tl_out *out) {
    unsigned q = tl__quorum_of(look->count);
    if (tl__quorum_bits(look->answered) >= q) {
        judge(look);
        return TL_END;
    }
    out->sys_errno = look->sys_errno;
    tl__out_message(out, tl__bytes_of(look->message));
    return TL_END;
}

static void ended(tl_quorum_look *look, unsigned i, const tl_out *out) {
    const tl_result *result = &look->ask[i].result;
    if (result->code == TL_OK) {
        look->answered |= (uint8_t)(1U << i);
        return;
    }
    look->failed |= (uint8_t)(1U << i);
    look->result.code = result->code;
    look->sys_errno = out->sys_errno;
    (void)tl__quorum_message(look->message, look->count, out->message);
}

static tl_status step(tl_quorum_look *look, unsigned i, const tl_event *event, tl_out *out) {
    tl_event mine = *event;
    mine.server = &event->servers[i];
    mine.asked.ticket = event->asked.ticket % TICKETS;
    tl_status status = tl__ask_step(&look->ask[i], &mine, out);
    if (out->sends > 0) {
        out->send.ticket = (uint16_t)(out->send.ticket + i * TICKETS);
        out->send.to = (uint8_t)(1U << i);
    }
    if (status == TL_END)
        ended(look, i, out);
    return status;
}

/* A majority of replies is enough, unless they differ. */
static bool is_decided(const tl_quorum_look *look) {
    unsigned all = (1U << look->count) - 1, q = tl__quorum_of(look->count), free = 0;
    if ((look->answered | look->failed) == all || tl__quorum_bits(look->failed) > look->count - q)
        return true;
    for (unsigned i = 0; i < look->count; i++) {
        if (look->answered & 1U << i && votes_for(look, &look->ask[i].info) >= q)
            return true;
        free += look->answered & 1U << i && !look->ask[i].info.held;
    }
    return free >= q;
}

tl_status tl__quorum_look_step(void *machine, const tl_event *event, tl_out *out) {
    tl_quorum_look *look = machine;
    if (event->kind == TL_CANCEL)
        return tl__end_cancelled(look, out);
    unsigned i = event->asked.ticket / TICKETS;
    bool answer = event->kind == TL_REPLY || event->kind == TL_FAILED;
    if (answer && i < look->count && !((look->answered | look->failed) & 1U << i))
        (void)step(look, i, event, out);
    if (is_decided(look)) {
        out->sends = 0;
        out->message[0] = '\0';
        if (tl__quorum_bits(look->answered) >= tl__quorum_of(look->count))
            look->result.code = TL_OK;
        return finish(look, out);
    }
    tl_event start = {.kind = TL_START, .now = event->now, .servers = event->servers};
    if (out->sends == 0 && look->next < look->count)
        (void)step(look, look->next++, &start, out); /* it doesn't end here */
    out->until = look->next < look->count ? event->now : TL_NEVER;
    return TL_GO;
}
