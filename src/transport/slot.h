/*
 * A request on a connection, from when it is queued until its reply has come or can't come any
 * more, and the queue of them in the order of sending.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/clock.h"
#include "protocol/protocol.h"

#define TL_SLOT_KEPT 2 /**< commands in a request that can be encoded again */

typedef struct tl_slot {
    struct tl_slot *next;
    void *cookie;
    tl_mono queued, by;
    tl_mono sent;      /**< before its first byte was offered to the stream */
    const char *bytes; /**< the request as sent: `size` of them, `done` written */
    size_t size, done;
    size_t end[TL_COMMANDS_MAX]; /**< of each command, in them */
    uint16_t ticket;
    uint8_t count, got; /**< commands, and replies so far */
    const tl_pin
        *pin; /**< no other is written behind it before it has been answered; NULL: may be */
    uint32_t generation; /**< of the server that it was built for; 0: any */
    bool quiet;          /**< expects no reply */
    bool asking;         /**< ASKING, whose replies count, goes before each command */
    bool native;         /**< in that form: */
    tl_mono raised;      /**< the counter was raised by a request that was sent then */
    bool here;           /**< it goes over this connection only */
    bool confirms;       /**< it asks that the server be named anew */
    bool offered;        /**< TLS: the stream may have taken some of its bytes, unseen */
    bool effect;         /**< an earlier sending may have done something */
    bool given_up;       /**< answered already; what comes of it is thrown away */
    bool by_text;        /**< scripts are sent by their text */
    bool kept;           /**< command holds copies, whose words are in room */
    const void *via;     /**< what `encode` needs beside it */
    /** The bytes of a command; returns how many, and writes only if they fit. */
    size_t (*encode)(const struct tl_slot *slot, const tl_command *command, char *to, size_t size);
    tl_command command[TL_SLOT_KEPT];
    char *room;
    size_t room_size, words;
} tl_slot;

/** The queue. `unsent` is the first that is not wholly written. */
typedef struct {
    tl_slot *head, *tail, *unsent;
    const tl_slot *pin; /**< it has been written, and no other may be */
    size_t count;
    tl_slot *spare;
    size_t spares, rooms; /**< how many, and the bytes of their rooms */
} tl_slots;

/** An empty slot that is in no queue; NULL: out of memory. */
tl_slot *tl__slot_new(tl_slots *slots);

/** Give it back. NULL is fine. */
void tl__slot_free(tl_slots *slots, tl_slot *slot);

/** Encode the commands, by slot->encode. `keeps`, or scripts among them: and keep them, to do so again. false: out of memory, or
 *  more than TL_SLOT_KEPT commands to keep. */
bool tl__slot_fill(tl_slot *slot, const tl_command *command, uint8_t count, bool keeps);

/** How many replies there are: with `asking`, to each command two, of which the second is its own. */
static inline uint8_t tl__slot_replies(const tl_slot *slot) {
    return (uint8_t)(slot->asking ? 2 * slot->count : slot->count);
}

/** Encode one that was kept again, as not sent yet. false: out of memory. */
bool tl__slot_again(tl_slot *slot);

/** Has the stream been given none of its bytes? */
static inline bool tl__slot_unsent(const tl_slot *slot) {
    return slot->done == 0 && !slot->offered;
}

/** Can its next reply have come? To a command that has been wholly written, though what follows it has not. */
static inline bool tl__slot_is_asked(const tl_slot *slot) {
    return slot->done >= slot->end[slot->asking ? slot->got / 2 : slot->got];
}

void tl__slots_put(tl_slots *slots, tl_slot *slot);
/** Before all others, of which nothing has been written. */
void tl__slots_put_first(tl_slots *slots, tl_slot *slot);

/** Take out the one after `before`, or the head for NULL. */
tl_slot *tl__slots_cut(tl_slots *slots, tl_slot *before);

/** Take out all, as a list. */
tl_slot *tl__slots_cut_all(tl_slots *slots);

/** n more bytes, beginning with those of `unsent`, have been written; `before`: the clock then. */
void tl__slots_written(tl_slots *slots, size_t n, tl_mono before);

/** The bytes to write next: of the first unsent slot, or of several gathered in `buffer`. */
tl_bytes tl__slots_next(const tl_slots *slots, char *buffer, size_t size);

/** The stream may take any of these n bytes without saying so. */
void tl__slots_offer(tl_slots *slots, size_t n, tl_mono before);

/** Free the spares; the queue is empty. */
void tl__slots_clear(tl_slots *slots);
