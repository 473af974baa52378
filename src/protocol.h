/*
 * The contract of a step machine.
 *
 * A machine is a plain struct without pointers into itself. It is told what happened, with the time
 * as data, and answers what to do next. It reads no clock, does no I/O, allocates nothing and starts
 * no thread, so that the blocking driver, the keeper, the simulator and a test that feeds it by hand
 * all run the same code.
 *
 *     step(machine, event, out) -> TL_GO | TL_DETACH | TL_END
 *
 * The driver's part:
 *   - The first event is TL_START. Before each step it clears `out` with tl__out_clear.
 *   - It sends what is in out->send, in order, before the next step: commands are encoded at once.
 *     Each send gets exactly one TL_REPLY or TL_FAILED with its ticket: FAILED at `by` at the latest.
 *   - It gives TL_TIMER at `until`, which each answer states anew (TL_NEVER: none). A timer may come
 *     late, or early: the machine looks at `now`.
 *   - out->arm asks it to listen for `topic`. TL_ARMED tells when that is in force (armed) or could
 *     not be had (not armed); from then on each message is a TL_WOKEN. When listening is lost later
 *     it says TL_ARMED with armed false.
 *   - It merges out->bracket into the anchor of the server that answered.
 *   - TL_CANCEL may come at any time; the machine then ends soon, and says how.
 *   - TL_DETACH: the result is final, the caller may return; the struct lives on in the keeper until
 *     TL_END, to clean up. It comes with no sends; what was outstanding is given up without an
 *     answer, and the keeper goes on with a TL_TIMER at once.
 *   - At TL_END and TL_DETACH listening ends by itself.
 *   - An event for a ticket that is not expected is ignored by the machine.
 *
 * `now` never goes backwards from one event to the next.
 */
#ifndef TL_PROTOCOL_H
#define TL_PROTOCOL_H

#include <tidelock/tidelock.h>

#include "bytes.h"
#include "clock.h"
#include "command.h"
#include "interval.h"
#include "reply.h"
#include "token.h"

#define TL_SEND_MAX 2
#define TL_NOTE_MAX 2
#define TL_SCRATCH 256 /**< room in tl_out for the text of numbers */
#define TL_WORDS_SIZE 160

/** What the driver knows of the server that a machine talks to. */
typedef struct {
    tl_anchor anchor;
    int32_t drift_ppm;
    uint32_t generation; /**< grows with each new connection to a possibly different server */
    tl_mono up_since;    /**< the latest that it can have started; ns 0 when unknown */
} tl_server;

/** Ask for one exchange: `count` commands written together, all answered in one TL_REPLY. With count
 *  0 nothing is sent: the REPLY, with no reply in it, says that the server has been reached, so that
 *  its clock is known where it tells it. */
typedef struct {
    uint16_t ticket;
    uint8_t count;
    tl_mono by; /**< no answer by then: FAILED */
    tl_command command[2];
} tl_send;

typedef enum {
    TL_START,
    TL_REPLY,
    TL_FAILED,
    TL_ARMED,
    TL_WOKEN,
    TL_TIMER,
    TL_CANCEL
} tl_event_kind;

typedef struct {
    tl_event_kind kind;
    tl_mono now;
    const tl_server *server;
    /* REPLY and FAILED */
    uint16_t ticket;
    tl_mono sent;          /**< before the first byte left */
    const tl_reply *reply; /**< REPLY: `count` of them, valid during this call only */
    uint8_t count;
    bool maybe_sent; /**< FAILED: some byte may have reached the server */
    tl_err why;      /**< FAILED: TL_EUNAVAILABLE, TL_EDENIED, … */
    tl_bytes words;  /**< FAILED: what went wrong, in words, for a person */
    bool armed;      /**< ARMED */
} tl_event;

typedef enum { TL_NOTE_AT_RISK, TL_NOTE_HELD, TL_NOTE_LOST } tl_note_kind;

/** Something that the lock's owner wants to know. */
typedef struct {
    tl_note_kind kind;
    tl_lost_why why;
} tl_note;

typedef struct {
    tl_send send[TL_SEND_MAX];
    uint8_t sends;
    bool arm, disarm;
    tl_bytes topic;
    tl_mono until;
    bool has_bracket;
    tl_interval bracket;
    tl_note note[TL_NOTE_MAX];
    uint8_t notes;
    char words[TL_WORDS_SIZE]; /**< END or DETACH, not OK: what went wrong, for a person */
    char scratch[TL_SCRATCH];  /**< where commands keep the text of their numbers */
    uint16_t scratch_used;
} tl_out;

typedef enum { TL_GO, TL_DETACH, TL_END } tl_status;

/** Empty it, without touching the parts that the counts already mark as empty. */
static inline void tl__out_clear(tl_out *out) {
    out->sends = out->notes = 0;
    out->arm = out->disarm = out->has_bracket = false;
    out->until = TL_NEVER;
    out->scratch_used = 0;
    out->words[0] = '\0';
}

/* ---- attempts: what a protocol has to say ------------------------------------------------------ */

typedef enum { TL_TAKE, TL_KEEP, TL_DROP } tl_op;

/** What a machine is asked to do. Bytes outlive the machine, detached or not. */
typedef struct {
    const struct tl_protocol *protocol;
    tl_bytes key, sidecar;
    tl_bytes owner; /**< "host pid service", for others to read */
    tl_token token;
    int64_t ttl_ms;
    int64_t attempt_ms;
    int64_t restart_quiet_ms;
    int32_t wait_replicas, wait_replicas_ms;
} tl_job;

/** What came of it; the first member of every machine and of every attempt. */
typedef struct {
    tl_err code;      /**< TAKE: OK, EBUSY. KEEP: OK, ELOST. DROP: OK, EEXPIRED, ETAKEN. All:
                           EUNCERTAIN, EUNAVAILABLE, EDENIED, ESERVER */
    tl_lost_why why;  /**< KEEP, ELOST */
    bool maybe;       /**< not OK: a request may have taken effect, or may yet (EUNCERTAIN), or has
                           (any other code) */
    bool checked;     /**< TAKE, answered: this server refuses requests that come too late */
    bool announced;   /**< TAKE, EBUSY: the holder's release will be announced on the topic */
    tl_mono deadline; /**< TAKE and KEEP, OK: ours until then */
    tl_mono hint;     /**< TAKE, EBUSY: when the holder's time is up as far as is known now;
                           TL_NEVER when it isn't */
    tl_mono harmless; /**< maybe: after this a request still under way is refused by a server that
                           checks; TL_NEVER when it carries no limit */
    uint64_t fence;
} tl_result;

/** One step of a machine that a driver can run. */
typedef tl_status (*tl_step)(void *machine, const tl_event *event, tl_out *out);

#define TL_ATTEMPT_SIZE 96

/** Room for any protocol's attempt. */
typedef union {
    tl_result result;
    char room[TL_ATTEMPT_SIZE];
} tl_attempt;

/** A protocol: how one attempt is made. One file, and one row in protocol_row. */
typedef struct tl_protocol {
    const char *name;
    size_t size; /**< of its attempt, at most TL_ATTEMPT_SIZE */
    /** Make ready. `until`: when the asker will have moved on; it bounds the wait for the answer,
     *  and what a delayed request may still do. `ticket`: its send's. */
    void (*init)(void *attempt, tl_op op, uint16_t ticket, tl_mono until);
    /** One exchange: START leads to a send, its answer to TL_END. The same job each time. */
    tl_status (*step)(void *attempt, const tl_job *job, const tl_event *event, tl_out *out);
} tl_protocol;

extern const tl_protocol tl__protocol_token;

/** The row of a protocol, or NULL. */
const tl_protocol *tl__protocol_row(tl_protocol_id id);

/* ---- for machines: building an answer ---------------------------------------------------------- */

/** The next send, empty, with its ticket and limit. */
tl_send *tl__out_send(tl_out *out, uint16_t ticket, tl_mono by);
/** Number as text in out's scratch room. */
tl_bytes tl__out_int(tl_out *out, int64_t v);
/** Keep words for a person: printable, cut to fit. */
void tl__out_words(tl_out *out, tl_bytes words);
void tl__out_note(tl_out *out, tl_note_kind kind, tl_lost_why why);

/** What an error reply means: TL_EDENIED, TL_EUNAVAILABLE (it may pass) or TL_ESERVER. */
tl_err tl__refusal(tl_bytes error);

/** Was an error reply raised within a script, so that some of its writes may have been made? */
bool tl__from_script(tl_bytes error);

/** Take the TIME at items i and i + 1 of a reply into out's bracket, if it is one. */
void tl__out_time(tl_out *out, const tl_reply *reply, size_t i, const tl_event *event);

/** A pause before trying again after `failures` (1 or more) in a row: 20 ms doubling to 1 s, at
 *  random between half of it and all. */
int64_t tl__backoff_ms(uint32_t failures, uint64_t *random);

/** The next of a sequence of random numbers (xorshift); *random must not be 0. */
uint64_t tl__random_next(uint64_t *random);

#endif
