/*
 * Reads and counts the registers of slots. Clients compare their bytes: so text that this program wouldn't
 * write is no register.
 */
#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "migrate/migrate_slots.h"
#include "wire/keys.h"

#define EPOCH_MOST ((INT64_C(1) << 53) - 1)

const char *migrate_slot_key(char buf[MIGRATE_SLOT_KEY_SIZE], const char *name, unsigned slot) {
    tl_slot_tag tag = tl__slot_tag((uint16_t)slot);

    (void)snprintf(buf, MIGRATE_SLOT_KEY_SIZE, "tidelock:phase:slot:{%s}:%s", tag.text, name);
    return buf;
}

const char *migrate_slot_text(char buf[MIGRATE_SLOT_TEXT_SIZE], migrate_slot slot) {
    buf[0] = '\0';
    if (slot.phase >= 0)
        (void)snprintf(buf, MIGRATE_SLOT_TEXT_SIZE, "%d %lld", slot.phase, (long long)slot.epoch);
    return buf;
}

migrate_slot migrate_slot_read(const tl_reply *reply) {
    char again[MIGRATE_SLOT_TEXT_SIZE];
    migrate_slot slot = {.phase = SLOT_ODD};
    tl_bytes text;

    if (reply->type == TL_REPLY_NIL)
        return (migrate_slot){.phase = SLOT_ABSENT};
    if (!tl__reply_text(reply, &text) || text.n < 3 || text.n >= MIGRATE_SLOT_TEXT_SIZE ||
        text.p[0] < '0' || text.p[0] >= '0' + PHASES || text.p[1] != ' ' ||
        !tl__bytes_to_int(tl__bytes(text.p + 2, text.n - 2), &slot.epoch) || slot.epoch < 1 ||
        slot.epoch > EPOCH_MOST)
        return (migrate_slot){.phase = SLOT_ODD};
    slot.phase = text.p[0] - '0';
    bool exact = tl__bytes_eq(text, tl__bytes_of(migrate_slot_text(again, slot)));
    return exact || !GUARD(slot_register_is_exact) ? slot : (migrate_slot){.phase = SLOT_ODD};
}

bool migrate_slot_same(migrate_slot one, migrate_slot other) {
    return one.phase == other.phase && one.epoch == other.epoch;
}

bool migrate_slot_goes_up(migrate_slot is, migrate_slot want) {
    return is.phase < want.phase;
}

/* Also a slot that says the phase already: the write of a tool that has died may still be in flight to it. */
bool migrate_slot_goes_down(migrate_slot is, migrate_slot want) {
    return GUARD(each_slot_is_written) ? !migrate_slot_same(is, want) : is.phase > want.phase;
}

/* ---- all of them ------------------------------------------------------------------------------ */

migrate_tally migrate_tally_of(const migrate_slot *slots) {
    migrate_tally tally = {.absent = 0};

    for (int i = 0; i < TL_SLOTS; i++) {
        migrate_slot slot = slots[i];
        if (slot.phase >= 0)
            tally.in[slot.phase]++;
        else if (slot.phase == SLOT_ABSENT)
            tally.absent++;
        else
            tally.example = i;
        tally.odd += slot.phase == SLOT_ODD;
        tally.unread += slot.phase == SLOT_UNREAD;
        if (slot.phase >= 0 && slot.epoch > tally.top)
            tally.top = slot.epoch;
    }
    return tally;
}

int migrate_tally_most(const migrate_tally *tally) {
    int phase = PHASES - 1;

    while (phase >= 0 && tally->in[phase] == 0)
        phase--;
    return phase;
}

int migrate_tally_in(const migrate_tally *tally, int phase) {
    return (phase < 0 ? 0 : tally->in[phase]) + (phase <= PHASE_BRIDGE ? tally->absent : 0);
}

/* A time. A count would give an epoch twice: a failover forgets the last one, and the write of a tool that has
 * died, which is still in flight, finds what it compares with. If the clock is behind, the part below a second
 * keeps two counts apart. */
int64_t migrate_slot_epoch(int64_t wall_us, const migrate_tally *tally) {
    int64_t beyond = tally->top + 1 + wall_us % 1000000;
    int64_t epoch = wall_us > tally->top && GUARD(slot_epoch_is_a_time) ? wall_us : beyond;
    return epoch <= EPOCH_MOST ? epoch : 0;
}

const char *migrate_tally_list(char buf[MIGRATE_TALLY_SIZE], const migrate_tally *tally) {
    const struct {
        int count;
        const char *what;
    } rows[] = {{tally->in[PHASE_TOKEN], "in phase 3 (token)"},
                {tally->in[PHASE_DRAIN], "in phase 2 (drain)"},
                {tally->in[PHASE_BRIDGE], "in phase 1 (bridge)"},
                {tally->in[PHASE_TIMESTAMP], "in phase 0 (timestamp)"},
                {tally->absent, "without a register, which write stamps"},
                {tally->odd, "with a register that can't be read"},
                {tally->unread, "of which nothing is known"}};
    size_t n = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows && n < MIGRATE_TALLY_SIZE; i++)
        if (rows[i].count > 0)
            n += (size_t)snprintf(buf + n, MIGRATE_TALLY_SIZE - n,
                                  n ? ", %d %s" : "%d of 16384 slots %s", rows[i].count,
                                  rows[i].what);
    return buf;
}
