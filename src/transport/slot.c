/*
 * The memory and the order of requests. A slot owns copies of all it needs; nothing of the
 * caller's is touched after tl__slot_fill, and nothing is allocated once the spares are warm.
 */
#include "transport/slot.h"
#include "ground/guard.h"

#include <stddef.h>
#include <stdlib.h>

#define SPARE_MAX 64               /* slots kept for later requests */
#define ROOM_KEEP ((size_t)65536)  /* a slot with more room is not kept */
#define ROOMS_KEEP (2 * ROOM_KEEP) /* nor is one beyond so much of it in all of them */
#define ROOM_FIRST 512             /* enough for most requests in encoded form */

tl_slot *tl__slot_new(tl_slots *slots) {
    tl_slot *s = slots->spare;
    if (!s)
        return calloc(1, sizeof *s);
    slots->spare = s->next;
    slots->spares--;
    slots->rooms -= s->room_size;
    char *room = s->room;
    size_t room_size = s->room_size;
    memset(s, 0, offsetof(tl_slot, command));
    s->room = room;
    s->room_size = room_size;
    s->words = 0;
    return s;
}

static void destroy(tl_slot *s) {
    free(s->room);
    free(s);
}

void tl__slot_free(tl_slots *slots, tl_slot *slot) {
    if (!slot)
        return;
    if (slots->spares >= SPARE_MAX || slot->room_size > ROOM_KEEP ||
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
        tl_slot *s = slots->spare;
        slots->spare = s->next;
        destroy(s);
    }
    slots->spares = 0;
    slots->rooms = 0;
}

/* ---- bytes ------------------------------------------------------------------------------------- */

/* Let the kept commands find their words at the start of the room. */
static void point(tl_slot *s) {
    const char *p = s->room;
    for (size_t i = 0; i < s->count; i++) {
        for (size_t k = 0; k < s->command[i].argc; k++) {
            s->command[i].argv[k].p = p;
            p += s->command[i].argv[k].n;
        }
        s->command[i].more.p = p;
        p += s->command[i].more.n;
    }
}

static bool grow(tl_slot *s, size_t size) {
    if (size <= s->room_size)
        return true;
    size += size / 4;
    char *room = realloc(s->room, size);
    if (!room)
        return false;
    s->room = room;
    s->room_size = size;
    if (s->kept)
        point(s);
    return true;
}

/* Behind what there is. */
static bool encode_one(tl_slot *s, const tl_command *command) {
    size_t at = s->words + s->size;
    size_t n = s->encode(s, command, s->room + at, s->room_size - at);
    if (n > s->room_size - at) {
        if (!grow(s, at + n))
            return false;
        n = s->encode(s, command, s->room + at, n);
    }
    s->size += n;
    return true;
}

/* Encode behind the words that are kept. */
static bool encode(tl_slot *s, const tl_command *command) {
    static const tl_command asking = {
        .form = TL_ARGV, .argc = 1, .argv = {{"ASKING", sizeof "ASKING" - 1}}};
    s->size = s->done = 0;
    for (size_t i = 0; i < s->count; i++) {
        if ((GUARD(asking_before_each) && s->asking && !encode_one(s, &asking)) ||
            !encode_one(s, &command[i]))
            return false;
        s->end[i] = s->size;
    }
    s->bytes = s->room + s->words;
    return true;
}

static void keep_word(tl_slot *s, tl_bytes word) {
    if (word.n)
        memcpy(s->room + s->words, word.p, word.n);
    s->words += word.n;
}

/* Copy commands and their words. */
static bool keep(tl_slot *s, const tl_command *command) {
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        n += command[i].more.n;
        for (size_t k = 0; k < command[i].argc; k++)
            n += command[i].argv[k].n;
    }
    if (!grow(s, n * 2 + ROOM_FIRST))
        return false;
    for (size_t i = 0; i < s->count; i++) {
        s->command[i] = command[i];
        for (size_t k = 0; k < command[i].argc; k++)
            keep_word(s, command[i].argv[k]);
        keep_word(s, command[i].more);
    }
    point(s);
    s->kept = true;
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

/* `unsent` may begin at this one: go on to the first with something to write. */
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
    tl_slot *s = before ? before->next : slots->head;
    if (slots->pin == s)
        slots->pin = NULL;
    if (before)
        before->next = s->next;
    else
        slots->head = s->next;
    if (slots->tail == s)
        slots->tail = before;
    if (slots->unsent == s)
        set_unsent(slots, s->next);
    slots->count--;
    return s;
}

tl_slot *tl__slots_cut_all(tl_slots *slots) {
    tl_slot *list = slots->head;
    slots->head = slots->tail = slots->unsent = NULL;
    slots->pin = NULL;
    slots->count = 0;
    return list;
}

tl_bytes tl__slots_next(const tl_slots *slots, char *buffer, size_t size) {
    const tl_slot *s = slots->unsent;
    tl_bytes first = {s->bytes + s->done, s->size - s->done};
    if (s->pin || !s->next || first.n + s->next->size > size)
        return first;
    size_t n = 0;
    bool last = false;
    for (; s && !last && n + (s->size - s->done) <= size; s = s->next) {
        memcpy(buffer + n, s->bytes + s->done, s->size - s->done);
        n += s->size - s->done;
        last = s->pin != NULL;
    }
    return tl__bytes(buffer, n);
}

void tl__slots_offer(tl_slots *slots, size_t n, tl_mono before) {
    for (tl_slot *s = slots->unsent; s && n > 0; s = s->next) {
        if (tl__slot_unsent(s))
            s->sent = before;
        s->offered = true;
        n -= s->size - s->done < n ? s->size - s->done : n;
    }
}

void tl__slots_written(tl_slots *slots, size_t n, tl_mono before) {
    while (slots->unsent && n > 0) {
        tl_slot *s = slots->unsent;
        size_t part = s->size - s->done < n ? s->size - s->done : n;
        if (tl__slot_unsent(s))
            s->sent = before;
        s->done += part;
        n -= part;
        if (s->done < s->size)
            return;
        if (s->pin)
            slots->pin = s;
        set_unsent(slots, s->next);
    }
}
