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
 *   - It sends out->send, if there is one, before the next step: its commands are encoded at once. Each
 *     send gets exactly one TL_REPLY or TL_FAILED with its ticket: FAILED at `by` at the latest.
 *   - It gives TL_TIMER at `until`, which each answer states anew (TL_NEVER: none). A timer may come
 *     late, or early: the machine looks at `now`. Up to slack_ns late is fine: so that a driver of
 *     many machines can wake for several at once.
 *   - A driver of many machines may join their sends into one request, where command.each says how,
 *     and deal out the items of the reply; refused, it sends each by itself, as it was built.
 *   - out->arm asks it to listen for `topic`, and with out->disarm to stop listening before. TL_ARMED
 *     tells when that is in force (armed) or could not be had (not armed); from then on each message
 *     is a TL_WOKEN. When listening is lost later it says TL_ARMED with armed false.
 *   - With `watched` set it asks to be told of changes to that key as well. Where the server can,
 *     TL_WATCHED tells that the next change will be (armed); a change is a TL_WATCHED again, since
 *     what is told once must be asked for anew; and armed false says that there may have been one, and
 *     that the next may not be told.
 *   - With `token` set the topic is an inbox: a message that grants the lock to this token is a TL_GRANTED, one
 *     that says to look a TL_WOKEN, and one that it is among the first by now a TL_NEAR. out->run says which
 *     server is to tell it: listening elsewhere, as at an old master, it begins anew.
 *   - A hold whose key may have been changed by whomever, itself included, is given what it holds now by
 *     TL_CHANGED. (Where it can be told from its own changes, TL_WOKEN says so at once.)
 *   - It merges out->bracket into the anchor of the server that answered.
 *   - To a machine of several independent servers (quorum_*.h) a send names one of them. What is sent to one is carried
 *     out there in the order in which it was asked for, over one connection, also by the machines that follow for the
 *     same lock; a connection with a request that nobody waits for any more is kept until that was answered. What it
 *     asks to listen for it asks of all.
 *   - It has out->kept kept, by the protocol's upkeep.
 *   - TL_CANCEL may come at any time; the machine then ends soon, and says how.
 *   - TL_DETACH: the result is final, the caller may return; the struct lives on in the keeper until
 *     TL_END, to clean up. It comes with no sends; what was outstanding is given up without an
 *     answer, and the keeper goes on with a TL_TIMER at once.
 *   - At TL_END and TL_DETACH listening ends by itself.
 *   - An event for a ticket that is not expected is ignored by the machine.
 *
 * `now` never goes backwards from one event to the next.
 */
#pragma once

#include "protocol/event.h"
#include "protocol/job.h"
#include "protocol/result.h"
#include "protocol/server.h"

/** GO: there is more to come. DETACH and END: see above. */
typedef enum { TL_GO, TL_DETACH, TL_END } tl_status;

/* ---- what a step answers ----------------------------------------------------------------------- */

#define TL_NOTE_MAX 2
#define TL_MESSAGE_SIZE 200
#define TL_SCRATCH 1024 /**< room for the text of numbers and stamps */

typedef enum { TL_NOTE_AT_RISK, TL_NOTE_HELD, TL_NOTE_LOST } tl_note_kind;

/** Something that the lock's owner wants to know. */
typedef struct {
    tl_note_kind kind;
    tl_lost_why why;
    /** By a client whose clock was so far ahead of the server's. */
    bool stolen;
    int64_t thief_ahead_ms;
} tl_note;

typedef struct {
    /** If `sends` is 1. */
    tl_send send;
    uint8_t sends;
    bool arm, disarm;
    /** arm: for this; */
    tl_bytes topic;
    /** changes of this key, too; n 0: of none; */
    tl_bytes watched;
    /** and the topic is an inbox, of this token; n 0: it isn't. */
    tl_bytes token;
    /** arm, an inbox: its messages come in already, as it seems; told if they don't. */
    bool armed;
    /** Not 0: the inbox is to be listened to at this run of the server. */
    uint64_t run;
    tl_mono until;
    /** TIMER may come so much later without harm. */
    int64_t slack_ns;
    /** This reply says that a script has raised the counter of `slot`. */
    bool raised;
    tl_slot_tag slot;
    bool has_bracket;
    tl_interval bracket;
    /** Learned of the server, in the protocol's own terms; 0: nothing. */
    uint8_t level;
    /** A clock is too far off for what was asked, as clock_message tells. */
    bool clock_off;
    char clock_message[TL_MESSAGE_SIZE];
    /** `kept` is to be kept, as number keeps_at of tl_server.kept: by tl_upkeep's keep. */
    bool keeps;
    uint8_t keeps_at;
    tl_kept kept;
    tl_note note[TL_NOTE_MAX];
    uint8_t notes;
    /** A renewal was confirmed; or it wasn't, for the reason that `words` has. */
    bool renewed, missed;
    /** Either: which of several servers it was asked of; else 0. */
    uint8_t renewal_of;
    /** END or DETACH, not OK, and missed: what went wrong, for people; with the errno behind it, or 0. */
    char message[TL_MESSAGE_SIZE];
    int sys_errno;
    /** Where commands keep the text of their numbers. */
    char scratch[TL_SCRATCH];
    uint16_t scratch_used;
} tl_out;

/** One step of a machine that a driver can run. */
typedef tl_status (*tl_step)(void *machine, const tl_event *event, tl_out *out);

/** Empty it, without touching the parts that the counts already mark as empty. */
static inline void tl__out_clear(tl_out *out) {
    out->sends = out->notes = 0;
    out->renewed = out->missed = false;
    out->renewal_of = 0;
    out->arm = out->disarm = out->has_bracket = out->keeps = out->clock_off = out->raised = false;
    out->until = TL_NEVER;
    out->slack_ns = 0;
    out->level = 0;
    out->run = 0;
    out->sys_errno = 0;
    out->scratch_used = 0;
    out->message[0] = '\0';
}

/** The next send, empty, with its ticket and limit. */
tl_send *tl__out_send(tl_out *out, uint16_t ticket, tl_mono by);
/** Listen to a topic, without a key and as no inbox. */
void tl__out_listen(tl_out *out, tl_bytes topic);
/** Number as text in out's scratch room. */
tl_bytes tl__out_int(tl_out *out, int64_t v);
/** Two byte strings, one behind the other, in out's scratch room. */
tl_bytes tl__out_copy(tl_out *out, tl_bytes a, tl_bytes b);
/** A moment as the scripts read it, "@" and digits, in out's scratch room. */
tl_bytes tl__out_at(tl_out *out, int64_t us);
/** Keep words for a person: printable, cut to fit. */
void tl__out_message(tl_out *out, tl_bytes message);
/** Put who said so before words that were kept, if it is known: "place: words". */
void tl__out_place(tl_out *out, tl_bytes place);
tl_note *tl__out_note(tl_out *out, tl_note_kind kind, tl_lost_why why);

/** Take the server's time into out's bracket: the TIME at items i and i + 1 of a reply, if it is one. */
void tl__out_time(tl_out *out, const tl_reply *reply, size_t i, const tl_event *event);

void tl__out_server_us(tl_out *out, int64_t server_us, const tl_event *event);

/* ---- protocols: what attempts say -------------------------------------------------------------- */

/** Something of ../compat, which enters all else by constant tables alone: its address, or NULL in a build
 *  without that folder. */
#ifdef TL_COMPAT
#define TL_FROM_COMPAT(x) (&(x))
#else
#define TL_FROM_COMPAT(x) NULL
#endif

#define TL_ATTEMPT_SIZE 256

/** Room for any protocol's attempt. */
typedef union {
    tl_result result;
    char room[TL_ATTEMPT_SIZE];
} tl_attempt;

struct tl_client;

/** What a protocol of ../compat keeps up for all of a client's locks, beside them; its own state is
 *  tl_client.upkeep. All are called by the runtime. */
typedef struct {
    /** As a client is opened. TL_EINVALID, TL_ENOMEM */
    tl_err (*open)(struct tl_client *client, tl_error *err);
    /** What a key belongs to. TL_EINVALID: to nothing that it could. */
    tl_err (*of)(const struct tl_client *client, tl_bytes key, const void **ret, tl_error *err);
    /** out->keeps: keep it. in: with keeper.mutex held. */
    void (*keep)(struct tl_client *client, const tl_out *out, bool in);
    /** Before the keeper is closed; with keeper.mutex held, the last thing that it does; after that. */
    void (*end)(struct tl_client *client);
    void (*leave)(struct tl_client *client);
    void (*free)(struct tl_client *client);
} tl_upkeep;

/** Who can't do without what a server lacks. */
typedef struct {
    /** "tokens need" */
    const char *needs;
    /** What works there if it is EVAL; NULL: nothing does. */
    const char *instead;
} tl_needer;

#ifdef TL_COMPAT
#define TL_INSTEAD "protocol timestamp works there"
#define TL_INSTEAD_LOOK "protocol timestamp can look there"
#else
#define TL_INSTEAD NULL
#define TL_INSTEAD_LOOK NULL
#endif

struct tl_try;

/** A protocol: what its attempts say and what the answers mean; `attempt` makes them. One file, and one
 *  row in protocol/rows. */
typedef struct tl_protocol {
    const char *name;
    /** Of its attempt, which begins with a tl_try; at most TL_ATTEMPT_SIZE. */
    size_t size;
    /** That a hold of its own is renewed by. */
    tl_protocol_id id;
    /** Ask; or end the attempt where nothing may be asked. */
    tl_status (*send)(struct tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    /** What an answer means, whose first reply is no error. It may ask again. */
    tl_status (*answered)(struct tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    /** NULL, or the same for an error; tl__attempt_refused for those that it doesn't know. */
    tl_status (*refused)(struct tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    /** Who can't do without what it sends. */
    tl_needer who;
    /** NULL, or: is the last reading of the server's clock too old for this? Then TIME first. */
    bool (*outdated)(const struct tl_try *a, const tl_job *job, const tl_event *e);
    /** NULL, or: does what has been asked change nothing, answered or not? */
    bool (*reads)(const struct tl_try *a);
    /** NULL, or: does an attempt that fails now leave something behind in any case? */
    bool (*leaves)(const struct tl_try *a);
    /** NULL, or for a protocol of stamps: what holds for this key (n 0: whatever key), from what
     *  the client's options say and those of the lock (NULL: nothing). Sets *ttl_ms if it is 0, and says
     *  whether it leaves any validity. TL_EINVALID */
    tl_err (*rules)(const tl_legacy *client, const tl_legacy_options *lock, tl_bytes key,
                    tl_rules *ret, int64_t *ttl_ms, tl_error *err);
    /** Why a hold that was acquired without scripts is not extended, in words; NULL: all are. */
    const char *(*never_renewed)(const tl_rules *rules);
    /** NULL: those who wait don't stand in line; or: may they now, at this server, for all we know? */
    bool (*lines)(const tl_server *server, const tl_rules *rules, tl_mono now);
    /** Those in line are called when it is their turn, and acquire the lock: nobody may do it for them. */
    bool called;
    /** S is told of a hold by its first renewal; false: by the acquire. */
    bool binds_late;
    /** It wants tl_server.wall_us. */
    bool reads_wall;
    /** How a holder, or who waits for one, is told at once when K changes; NULL: it isn't. */
    const struct tl_watching *watching;
    /** watching: is this what K held when the hold was proved last? A keep finds out whether it's still ours;
     *  this, whether there is any need for one. */
    bool (*unchanged)(const tl_job *job, tl_bytes value);
    /** NULL: none. */
    const tl_upkeep *upkeep;
} tl_protocol;

extern const tl_protocol tl__protocol_token;
extern const tl_protocol tl__protocol_timestamp, tl__protocol_bridge,
    tl__protocol_auto; /* ../compat */

/** The row of a protocol, or NULL. */
const tl_protocol *tl__protocol_row(tl_protocol_id id);

/* ---- what an error reply means ----------------------------------------------------------------- */

/** An error reply as a result: TL_EDENIED, TL_EUNAVAILABLE, TL_EUNSUPPORTED, TL_ESERVER. */
tl_err tl__refusal(tl_bytes error);
/** A script has touched a key that is on the move to another node of a cluster, or has gone there. */
bool tl__is_not_local(tl_bytes error);
/** A key holds something else than a string, which such a command is for. */
bool tl__is_of_other_type(tl_bytes error);
/** Of an error reply that is TL_EUNSUPPORTED: which command the server lacks, who needs it (NULL:
 *  not said), from which version on it is there, and what works without. */
void tl__lacks(char *to, size_t size, tl_bytes error, const tl_needer *who);

/** Keep what any error reply says, in words that repeat nothing of what the server was sent; if it
 *  is TL_EUNSUPPORTED, those of tl__lacks. */
void tl__out_refusal(tl_out *out, tl_bytes error, const tl_needer *who);

/** Does an error reply say that the server doesn't know the command itself? */
bool tl__is_unknown_command(tl_bytes error);

/** Does an error reply say that another server may be the one to ask by now? Whoever reached this one
 *  by its name should look the name up again. */
bool tl__asks_elsewhere(tl_bytes error);

/** Does it say that this one isn't, and so that certainly nothing of the request was executed? */
bool tl__is_elsewhere(tl_bytes error);

/** Was an error reply raised within a script, so that some of its writes may have been made? */
bool tl__from_script(tl_bytes error);

/* ---- ends, and pauses -------------------------------------------------------------------------- */

/** End a machine that has asked a question: what came of it, and why. */
tl_status tl__end(void *machine, tl_err code, tl_bytes message, tl_out *out);
tl_status tl__end_malformed(void *machine, tl_out *out);
tl_status tl__end_cancelled(void *machine, tl_out *out);
/** By an error reply. */
tl_status tl__end_refused(void *machine, tl_bytes error, const tl_needer *who, tl_out *out);
/** By a FAILED, after which it doesn't ask again. A server that wasn't the one to ask, or may have been asked, is as good
 *  as away. in_doubt: the request may have changed something. */
tl_status tl__end_failed(void *machine, const tl_event *event, bool in_doubt, tl_out *out);

/** A pause before trying again after `failures` (1 or more) in a row: 20 ms doubling to 1 s, at
 *  random between half of it and all. */
int64_t tl__backoff_ms(uint32_t failures, uint64_t *random);

/** The next of a sequence of random numbers (xorshift); *random must not be 0. */
uint64_t tl__random_next(uint64_t *random);

/** Where it begins. */
static inline uint64_t tl__random_begin(uint64_t seed) {
    return seed ? seed : 1;
}

/** One of least..most. */
int64_t tl__random_between(uint64_t *random, int64_t least, int64_t most);
