/*
 * A request on a connection, from when it is queued until it has its result; and the queue of requests, in
 * the order of sending.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/clock.h"
#include "protocol/protocol.h"

#define TL_SLOT_KEPT 3 /**< commands of a request that can be encoded again, at most */

typedef struct tl_slot {
    struct tl_slot *next;
    void *cookie;
    tl_mono queued, by;
    tl_mono sent;      /**< the clock before its first byte was offered to the stream */
    const char *bytes; /**< the encoded request: `size` bytes, of which `done` are written */
    size_t size, done;
    size_t end[TL_COMMANDS_MAX]; /**< the end of each command in them */
    uint16_t ticket;
    uint8_t count, got;  /**< commands; replies so far */
    const tl_pin *pin;   /**< others are written only once it is answered; NULL: none */
    uint32_t generation; /**< of the server that it was built for; 0: any */
    bool quiet;          /**< expects no reply */
    bool asking;         /**< each command is preceded by ASKING, which has a reply too */
    bool native;         /**< it was encoded in its native form */
    tl_mono raised;      /**< native: when the request was sent that raised the counter */
    bool here;           /**< it may go over this connection only */
    bool confirms;       /**< it waits until the master is confirmed by a later question */
    bool adopted;        /**< as in tl_send */
    bool offered;        /**< TLS: the stream may have taken some of its bytes without saying so */
    bool effect;         /**< an earlier sending may have had an effect */
    bool given_up;       /**< it has its result; its replies are discarded */
    bool by_text;        /**< scripts are sent by their text */
    bool kept;           /**< command[] holds copies, whose arguments are in room */
    const void *via;     /**< context for `encode` */
    /** Encode a command; returns the bytes needed, and writes only if they fit. */
    size_t (*encode)(const struct tl_slot *slot, const tl_command *command, char *to, size_t size);
    tl_command command[TL_SLOT_KEPT];
    char *room;
    size_t room_size, words;
} tl_slot;

/** The queue. `unsent` is the first request that is not wholly written. */
typedef struct {
    tl_slot *head, *tail, *unsent;
    const tl_slot *pin; /**< it has been written, and no other may be; NULL: none */
    size_t count;
    tl_slot *spare;
    size_t spares, rooms; /**< the number of spares, and the bytes of their rooms */
} tl_slots;

/** An empty slot that is in no queue; NULL: out of memory. */
tl_slot *tl__slot_new(tl_slots *slots);

/** Free a slot, or keep it as a spare. NULL is fine. */
void tl__slot_free(tl_slots *slots, tl_slot *slot);

/** Encode the commands, by slot->encode. With `keeps`, or if one is a script, also store copies of them, so
 *  that they can be encoded again. false: out of memory, or more than TL_SLOT_KEPT commands to store. */
bool tl__slot_fill(tl_slot *slot, const tl_command *command, uint8_t count, bool keeps);

/** The number of replies to expect: with `asking` two for each command, of which the second is the
 *  command's. */
static inline uint8_t tl__slot_replies(const tl_slot *slot) {
    return (uint8_t)(slot->asking ? 2 * slot->count : slot->count);
}

/** Encode the stored commands again, as a request that was not sent. false: out of memory. */
bool tl__slot_again(tl_slot *slot);

/** Has the stream taken none of its bytes? */
static inline bool tl__slot_unsent(const tl_slot *slot) {
    return slot->done == 0 && !slot->offered;
}

/** Can its next reply have arrived? Only if the command is wholly written; the following commands may not
 *  be. */
static inline bool tl__slot_is_asked(const tl_slot *slot) {
    return slot->done >= slot->end[slot->asking ? slot->got / 2 : slot->got];
}

void tl__slots_put(tl_slots *slots, tl_slot *slot);
/** Put it first; nothing may have been written of the others. */
void tl__slots_put_first(tl_slots *slots, tl_slot *slot);

/** Remove the slot after `before`, or the head for NULL. */
tl_slot *tl__slots_cut(tl_slots *slots, tl_slot *before);

/** Remove all, as a list. */
tl_slot *tl__slots_cut_all(tl_slots *slots);

/** Note that n more bytes have been written, beginning with those of `unsent`; `before`: the clock before
 *  that. */
void tl__slots_written(tl_slots *slots, size_t n, tl_mono before);

/** The bytes to write next: of the first unsent slot, or of several, gathered in `buffer`. */
tl_bytes tl__slots_next(const tl_slots *slots, char *buffer, size_t size);

/** Note that the stream may take any of these n bytes without saying so. */
void tl__slots_offer(tl_slots *slots, size_t n, tl_mono before);

/** Free the spares; the queue is empty. */
void tl__slots_clear(tl_slots *slots);
