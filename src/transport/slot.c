/*
 * The memory and the order of requests. A slot owns copies of all it needs: it uses nothing of the caller's
 * after tl__slot_fill. Nothing is allocated once there are spares.
 */
#include "transport/slot.h"
#include "ground/guard.h"

#include <stddef.h>
#include <stdlib.h>

#define SPARE_MAX 64               /* spare slots, at most */
#define ROOM_KEEP ((size_t)65536)  /* a slot with more room than this is freed, */
#define ROOMS_KEEP (2 * ROOM_KEEP) /* as is one that would exceed this in all spares */
#define ROOM_FIRST 512             /* enough for most encoded requests */

tl_slot *tl__slot_new(tl_slots *slots) {
    tl_slot *slot = slots->spare;
    if (!slot)
        return calloc(1, sizeof *slot);
    slots->spare = slot->next;
    slots->spares--;
    slots->rooms -= slot->room_size;
    char *room = slot->room;
    size_t room_size = slot->room_size;
    memset(slot, 0, offsetof(tl_slot, command));
    slot->room = room;
    slot->room_size = room_size;
    slot->words = 0;
    return slot;
}

static void destroy(tl_slot *slot) {
    free(slot->room);
    free(slot);
}

void tl__slot_free(tl_slots *slots, tl_slot *slot) {
    if (!slot)
        return;
    /* The text of a script is sent once. A room for it would be kept instead of many usual ones. */
    if (slots->spares >= SPARE_MAX || slot->by_text || slot->room_size > ROOM_KEEP ||
        slots->rooms + slot->room_size > ROOMS_KEEP) {
        destroy(slot);
        return;
    }
    slot->next = slots->spare;
    slots->spare = slot;
    slots->spares++;
    slots->rooms += slot->room_size;
}

void tl__slots_clear(tl_slots *slots) {
    while (slots->spare) {
        tl_slot *slot = slots->spare;
        slots->spare = slot->next;
        destroy(slot);
    }
    slots->spares = 0;
    slots->rooms = 0;
}

/* ---- bytes ------------------------------------------------------------------------------------- */

/* Point the arguments of the stored commands to their copies at the start of the room. */
static void point(tl_slot *slot) {
    const char *p = slot->room;
    for (size_t i = 0; i < slot->count; i++) {
        for (size_t k = 0; k < slot->command[i].argc; k++) {
            slot->command[i].argv[k].p = p;
            p += slot->command[i].argv[k].n;
        }
        slot->command[i].more.p = p;
        p += slot->command[i].more.n;
    }
}

static bool grow(tl_slot *slot, size_t size) {
    if (size <= slot->room_size)
        return true;
    size += size / 4;
    char *room = realloc(slot->room, size);
    if (!room)
        return false;
    slot->room = room;
    slot->room_size = size;
    if (slot->kept)
        point(slot);
    return true;
}

/* Encode a command after those that are there. */
static bool encode_one(tl_slot *slot, const tl_command *command) {
    size_t at = slot->words + slot->size;
    size_t n = slot->encode(slot, command, slot->room + at, slot->room_size - at);
    if (n > slot->room_size - at) {
        if (!grow(slot, at + n))
            return false;
        n = slot->encode(slot, command, slot->room + at, n);
    }
    slot->size += n;
    return true;
}

/* Encode all commands after the stored arguments. */
static bool encode(tl_slot *slot, const tl_command *command) {
    static const tl_command asking = {
        .form = TL_ARGV, .argc = 1, .argv = {{"ASKING", sizeof "ASKING" - 1}}};
    slot->size = slot->done = 0;
    for (size_t i = 0; i < slot->count; i++) {
        if ((GUARD(asking_before_each) && slot->asking && !encode_one(slot, &asking)) ||
            !encode_one(slot, &command[i]))
            return false;
        slot->end[i] = slot->size;
    }
    slot->bytes = slot->room + slot->words;
    return true;
}

static void keep_word(tl_slot *slot, tl_bytes word) {
    if (word.n)
        memcpy(slot->room + slot->words, word.p, word.n);
    slot->words += word.n;
}

/* Store copies of commands and their arguments. */
static bool keep(tl_slot *slot, const tl_command *command) {
    size_t n = 0;
    for (size_t i = 0; i < slot->count; i++) {
        n += command[i].more.n;
        for (size_t k = 0; k < command[i].argc; k++)
            n += command[i].argv[k].n;
    }
    if (!grow(slot, n * 2 + ROOM_FIRST))
        return false;
    for (size_t i = 0; i < slot->count; i++) {
        slot->command[i] = command[i];
        for (size_t k = 0; k < command[i].argc; k++)
            keep_word(slot, command[i].argv[k]);
        keep_word(slot, command[i].more);
    }
    point(slot);
    slot->kept = true;
    return true;
}

bool tl__slot_fill(tl_slot *slot, const tl_command *command, uint8_t count, bool keeps) {
    slot->count = count;
    for (size_t i = 0; i < count; i++)
        keeps = keeps || command[i].form == TL_SCRIPT;
    if (!keeps)
        return grow(slot, ROOM_FIRST) && encode(slot, command);
    return count <= TL_SLOT_KEPT && keep(slot, command) && encode(slot, slot->command);
}

bool tl__slot_again(tl_slot *slot) {
    slot->offered = false;
    slot->got = 0;
    return encode(slot, slot->command);
}

/* ---- queue ------------------------------------------------------------------------------------- */

/* Set `unsent` to the first slot from here on that has something to write. */
static void set_unsent(tl_slots *slots, tl_slot *slot) {
    while (slot && slot->done == slot->size)
        slot = slot->next;
    slots->unsent = slot;
}

void tl__slots_put(tl_slots *slots, tl_slot *slot) {
    slot->next = NULL;
    if (slots->tail)
        slots->tail->next = slot;
    else
        slots->head = slot;
    slots->tail = slot;
    if (!slots->unsent)
        set_unsent(slots, slot);
    slots->count++;
}

void tl__slots_put_first(tl_slots *slots, tl_slot *slot) {
    slot->next = slots->head;
    slots->head = slot;
    if (!slots->tail)
        slots->tail = slot;
    set_unsent(slots, slot);
    slots->count++;
}

tl_slot *tl__slots_cut(tl_slots *slots, tl_slot *before) {
    tl_slot *slot = before ? before->next : slots->head;
    if (slots->pin == slot)
        slots->pin = NULL;
    if (before)
        before->next = slot->next;
    else
        slots->head = slot->next;
    if (slots->tail == slot)
        slots->tail = before;
    if (slots->unsent == slot)
        set_unsent(slots, slot->next);
    slots->count--;
    return slot;
}

tl_slot *tl__slots_cut_all(tl_slots *slots) {
    tl_slot *list = slots->head;
    slots->head = slots->tail = slots->unsent = NULL;
    slots->pin = NULL;
    slots->count = 0;
    return list;
}

tl_bytes tl__slots_next(const tl_slots *slots, char *buffer, size_t size) {
    const tl_slot *slot = slots->unsent;
    tl_bytes first = {slot->bytes + slot->done, slot->size - slot->done};
    if (slot->pin || !slot->next || first.n + slot->next->size > size)
        return first;
    size_t n = 0;
    bool last = false;
    for (; slot && !last && n + (slot->size - slot->done) <= size; slot = slot->next) {
        memcpy(buffer + n, slot->bytes + slot->done, slot->size - slot->done);
        n += slot->size - slot->done;
        last = slot->pin != NULL;
    }
    return tl__bytes(buffer, n);
}

void tl__slots_offer(tl_slots *slots, size_t n, tl_mono before) {
    for (tl_slot *slot = slots->unsent; slot && n > 0; slot = slot->next) {
        if (tl__slot_unsent(slot))
            slot->sent = before;
        slot->offered = true;
        n -= slot->size - slot->done < n ? slot->size - slot->done : n;
    }
}

void tl__slots_written(tl_slots *slots, size_t n, tl_mono before) {
    while (slots->unsent && n > 0) {
        tl_slot *slot = slots->unsent;
        size_t part = slot->size - slot->done < n ? slot->size - slot->done : n;
        if (tl__slot_unsent(slot))
            slot->sent = before;
        slot->done += part;
        n -= part;
        if (slot->done < slot->size)
            return;
        if (slot->pin)
            slots->pin = slot;
        set_unsent(slots, slot->next);
    }
}
