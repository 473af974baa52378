/*
 * The contract of a step machine.
 *
 * A machine is a plain struct without pointers into itself. It receives an event, with the time as data, and
 * returns what to do next. It reads no clock, does no I/O, allocates nothing and starts no thread. So the
 * blocking driver, the keeper (the renewal thread), the simulator and a test that plays events all run the
 * same code.
 *
 *     step(machine, event, out) -> TL_GO | TL_DETACH | TL_END
 *
 * Rules for the driver:
 *   - Events: the first event is TL_START. Before each step the driver clears `out` with tl__out_clear.
 *   - Sends: the driver sends out->send, if there is one, before the next step, and encodes its commands at
 *     once. Each send gets exactly one TL_REPLY or TL_FAILED with its ticket, FAILED at `by` at the latest.
 *   - Timers: the driver gives TL_TIMER at `until`. Each step sets `until` anew (TL_NEVER: no timer). A timer
 *     may come late or early: the machine looks at `now`. A timer may be late by slack_ns without harm, so
 *     that a driver of many machines can wake once for several.
 *   - Joined sends: a driver of many machines may join their sends into one request, where command.each says
 *     how, and give each machine its items of the reply. If the server rejects the joined request, the driver
 *     sends each one alone, as it was built.
 *   - Listening: out->arm asks the driver to subscribe to `topic`, out->disarm to unsubscribe first. TL_ARMED
 *     says that the subscription is in force (armed) or is not available (not armed). From then on each
 *     message is a TL_WOKEN. If the subscription is lost later, the driver gives TL_ARMED with armed false.
 *   - Watching: `watched` names a key whose changes the machine wants to know, too. Where the server supports
 *     that, TL_WATCHED with armed true says that the next change will be reported. Each change is a
 *     TL_WATCHED again, since a server reports only one change per request. TL_WATCHED with armed false says
 *     that there may have been a change, and that the next one may not be reported.
 *   - Inbox: if `token` is set, the topic is an inbox. A message that grants the lock to this token is a
 *     TL_GRANTED, one that says to look a TL_WOKEN, one that the waiter is now among the first a TL_NEAR.
 *     out->run names the run of the server whose messages count. If the driver listens to another run, for
 *     example to a former master, it subscribes again.
 *   - Changed keys: when the key of a hold may have changed, by any client including this one, the driver
 *     reads it and gives its value in TL_CHANGED. (If the notification itself proves that another client made
 *     the change, the driver gives TL_WOKEN at once.)
 *   - Clocks: the driver merges out->bracket into the anchor of the server that replied.
 *   - Several servers: to a machine of several independent servers (quorum_*.h) each send names one server.
 *     That server executes the requests for one lock in the order of the sends, over one connection. This
 *     includes the sends of later machines for the same lock. A connection with an abandoned request stays
 *     open until that request is answered. Such a machine subscribes on all servers.
 *   - Upkeep: out->kept is passed to the protocol's upkeep, which keeps it.
 *   - Cancelling: TL_CANCEL may come at any time. The machine then ends soon, and says how.
 *   - TL_DETACH: the result is final and the caller may return. The struct lives on in the keeper until
 *     TL_END, to clean up. A step that returns TL_DETACH sends nothing. Requests in flight are abandoned
 *     without a reply, and the keeper goes on with a TL_TIMER at once.
 *   - TL_END and TL_DETACH end all subscriptions.
 *   - A machine ignores an event whose ticket it does not expect.
 *
 * `now` never goes backwards from one event to the next.
 */
#pragma once

#include "protocol/event.h"
#include "protocol/job.h"
#include "protocol/result.h"
#include "protocol/server.h"

/** GO: the machine goes on. DETACH and END: see above. */
typedef enum { TL_GO, TL_DETACH, TL_END } tl_status;

/* ---- what a step returns ----------------------------------------------------------------------- */

#define TL_NOTE_MAX 2
#define TL_MESSAGE_SIZE 200
#define TL_SCRATCH 1024 /**< room for the text of numbers and stamps */

typedef enum { TL_NOTE_AT_RISK, TL_NOTE_HELD, TL_NOTE_LOST } tl_note_kind;

/** A change that the lock's owner is notified of. */
typedef struct {
    tl_note_kind kind;
    tl_lost_why why;
    /** LOST: a client whose clock was this far ahead of the server's acquired the lock, if its lifetime is T. */
    bool stolen;
    int64_t thief_ahead_ms;
} tl_note;

typedef struct {
    /** Valid if `sends` is 1. */
    tl_send send;
    uint8_t sends;
    bool arm, disarm;
    /** arm: subscribe to this. */
    tl_bytes topic;
    /** arm: report changes of this key, too; n 0: of none. */
    tl_bytes watched;
    /** arm: the topic is an inbox, and this is the waiter's token; n 0: the topic is no inbox. */
    tl_bytes token;
    /** arm, an inbox: the machine believes that its messages already arrive; the driver reports if they
     *  don't. */
    bool armed;
    /** Not 0: subscribe to the inbox at this run of the server. */
    uint64_t run;
    tl_mono until;
    /** TIMER may come this much after `until` without harm. */
    int64_t slack_ns;
    /** This reply proves that a script has raised the fencing counter of `slot`. */
    bool raised;
    tl_slot_tag slot;
    bool has_bracket;
    tl_interval bracket;
    /** The machine learned this of the server, in the protocol's own terms; 0: nothing. */
    uint8_t level;
    /** A clock is too far off for the request; clock_message says which and by how much. */
    bool clock_off;
    char clock_message[TL_MESSAGE_SIZE];
    /** tl_upkeep.keep stores `kept` in tl_server.kept[keeps_at]. */
    bool keeps;
    uint8_t keeps_at;
    tl_kept kept;
    tl_note note[TL_NOTE_MAX];
    uint8_t notes;
    /** A renewal was confirmed; or it was not, for the reason in `message`. */
    bool renewed, missed;
    /** renewed and missed: the index of the server, if there are several; else 0. */
    uint8_t renewal_of;
    /** END or DETACH, not OK, and missed: what failed, for people; sys_errno is the errno behind it, or 0. */
    char message[TL_MESSAGE_SIZE];
    int sys_errno;
    /** Room for the numbers and other texts of the commands. */
    char scratch[TL_SCRATCH];
    uint16_t scratch_used;
} tl_out;

/** One step of a machine that a driver can run. */
typedef tl_status (*tl_step)(void *machine, const tl_event *event, tl_out *out);

/** Clear it. The parts that the counts already mark as empty are not touched. */
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

/** Begin a send: no commands yet, with this ticket and limit. */
tl_send *tl__out_send(tl_out *out, uint16_t ticket, tl_mono by);
/** Subscribe to a topic that is no inbox, and watch no key. */
void tl__out_listen(tl_out *out, tl_bytes topic);
/** For how long, in ms, the lock still has to rest if it is released now; 0: it doesn't rest. */
int64_t tl__job_rest_ms(const tl_job *job, tl_mono now, int32_t drift_ppm);
/** A number as text in out's scratch room. */
tl_bytes tl__out_int(tl_out *out, int64_t v);
/** Two byte strings, concatenated in out's scratch room. */
tl_bytes tl__out_copy(tl_out *out, tl_bytes a, tl_bytes b);
/** A server time in us as the scripts read it ("@" and digits), in out's scratch room. */
tl_bytes tl__out_at(tl_out *out, int64_t us);
/** Set out->message: made printable, cut to fit. */
void tl__out_message(tl_out *out, tl_bytes message);
/** Put the server's address before the message, "ADDRESS: MESSAGE"; nothing if either is empty. */
void tl__out_place(tl_out *out, tl_bytes place);
tl_note *tl__out_note(tl_out *out, tl_note_kind kind, tl_lost_why why);

/** Set out's bracket by the TIME at items i and i + 1 of a reply, if they are one. */
void tl__out_time(tl_out *out, const tl_reply *reply, size_t i, const tl_event *event);

/** Set out's bracket by a server time in us, of the REPLY `event`. */
void tl__out_server_us(tl_out *out, int64_t server_us, const tl_event *event);

/* ---- protocols: what attempts send and read ---------------------------------------------------- */

/** The address of something in ../compat, or NULL in a build without that folder. The rest of the library
 *  reaches ../compat by constant tables alone. */
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

/** State of a protocol in ../compat for all of a client's locks, beside the locks' own state;
 *  tl_client.upkeep points to it. The runtime calls all of these functions. */
typedef struct {
    /** Called when a client is opened. TL_EINVALID, TL_ENOMEM */
    tl_err (*open)(struct tl_client *client, tl_error *err);
    /** Find what a key belongs to (tl_rules.of). TL_EINVALID: the key belongs to nothing known. */
    tl_err (*of)(const struct tl_client *client, tl_bytes key, const void **ret, tl_error *err);
    /** Called if out->keeps: store out->kept. in: keeper.mutex is locked. */
    void (*keep)(struct tl_client *client, const tl_out *out, bool in);
    /** Three stages of closing. end: before the keeper is closed. leave: the keeper's last action, with
     *  keeper.mutex locked. free: after that. */
    void (*end)(struct tl_client *client);
    void (*leave)(struct tl_client *client);
    void (*free)(struct tl_client *client);
} tl_upkeep;

/** For messages: a feature that needs a command which a server lacks. */
typedef struct {
    /** needs: the beginning of the message, such as "tokens need". */
    const char *needs;
    /** instead: the alternative on a server without EVAL; NULL: there is none. */
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

/** A key that must hold these bytes when an acquire is executed; reads.n 0: it must be absent. */
typedef struct {
    tl_bytes key, reads;
} tl_condition;

/** A protocol: what its attempts send and what the replies mean; `attempt` runs them. One file, and one row
 *  in protocol/rows. */
typedef struct tl_protocol {
    const char *name;
    /** Size of its attempt, which begins with a tl_try; at most TL_ATTEMPT_SIZE. */
    size_t size;
    /** The protocol that renews a hold which this one acquired. */
    tl_protocol_id id;
    /** Send the request; or end the attempt where nothing may be sent. */
    tl_status (*send)(struct tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    /** Handle a reply whose first part is no error. It may send again. */
    tl_status (*answered)(struct tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    /** NULL, or handle an error reply. It calls tl__attempt_refused for errors that it doesn't know. */
    tl_status (*refused)(struct tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    /** The feature to name in a message when the server lacks a command. */
    tl_needer who;
    /** NULL, or: is the last reading of the server's clock too old for this request? Then the attempt sends
     *  TIME first. */
    bool (*outdated)(const struct tl_try *a, const tl_job *job, const tl_event *e);
    /** NULL, or: do the requests so far change nothing on the server, whether they are answered or not? */
    bool (*reads)(const struct tl_try *a);
    /** NULL, or: does an attempt that fails now certainly leave something behind? */
    bool (*leaves)(const struct tl_try *a);
    /** NULL, or for a protocol of stamps: compute the rules for this key (n 0: for any key) from the options
     *  of the client and of the lock (NULL: no lock). Sets *ttl_ms if it is 0, and checks that it leaves any
     *  validity. TL_EINVALID */
    tl_err (*rules)(const tl_legacy *client, const tl_legacy_options *lock, tl_bytes key,
                    tl_rules *ret, int64_t *ttl_ms, tl_error *err);
    /** The message why a hold that was acquired without scripts can't be extended; NULL: every hold can
     *  be. */
    const char *(*never_renewed)(const tl_rules *rules);
    /** The message why a lock with these rules can't rest; NULL, or the function is NULL: it can. */
    const char *(*never_rests)(const tl_rules *rules);
    /** NULL: waiters don't queue on the server. Else: may they queue at this server now, as far as is
     *  known? */
    bool (*lines)(const tl_server *server, const tl_rules *rules, tl_mono now);
    /** A release only notifies the first waiter, which then acquires the lock itself; it never grants the
     *  lock to a waiter. */
    bool called;
    /** The first renewal writes the hold into S; false: the acquire does. */
    bool binds_late;
    /** It wants tl_server.wall_us. */
    bool reads_wall;
    /** How holders and waiters are notified at once when K changes; NULL: they aren't. */
    const struct tl_watching *watching;
    /** watching: is `value` what K held when the hold was last proved? If so, no renewal is needed; else a
     *  renewal finds out whether K is still ours. */
    bool (*unchanged)(const tl_job *job, tl_bytes value);
    /** NULL: none. */
    const tl_upkeep *upkeep;
    /** NULL, or for a cluster: the condition of an acquire, in the slot of the lock. */
    tl_condition (*condition)(const struct tl_try *a, const tl_job *job, tl_out *out);
    /** The condition's key holds `reads` instead. Nothing was acquired. */
    tl_status (*differs)(struct tl_try *a, const tl_job *job, tl_bytes reads, const tl_event *e,
                         tl_out *out);
} tl_protocol;

extern const tl_protocol tl__protocol_token;
extern const tl_protocol tl__protocol_timestamp, tl__protocol_bridge,
    tl__protocol_auto; /* ../compat */

/** The row of a protocol; NULL if there is none. */
const tl_protocol *tl__protocol_row(tl_protocol_id id);

/* ---- what an error reply means ----------------------------------------------------------------- */

/** The result code for an error reply: TL_EDENIED, TL_EUNAVAILABLE, TL_EUNSUPPORTED, TL_ESERVER. */
tl_err tl__refusal(tl_bytes error);
/** Does the error say that a script touched a key that is moving, or has moved, to another node of the
 *  cluster? */
bool tl__is_not_local(tl_bytes error);
/** Does the error say that a key is not of type string, as the command requires? */
bool tl__is_of_other_type(tl_bytes error);
/** Write the message for an error that is TL_EUNSUPPORTED. It names the command that the server lacks, the
 *  feature that needs it (who; NULL: not named), the first version of Redis that has it, and the
 *  alternative. */
void tl__lacks(char *to, size_t size, tl_bytes error, const tl_needer *who);

/** Set out->message by an error reply. The message repeats nothing of what the client sent. For
 *  TL_EUNSUPPORTED it is the message of tl__lacks. */
void tl__out_refusal(tl_out *out, tl_bytes error, const tl_needer *who);

/** Does an error reply say that the server doesn't know the command itself? */
bool tl__is_unknown_command(tl_bytes error);
/** Does an error reply say that the server has no Lua to run a script? */
bool tl__is_without_engine(tl_bytes error);
/** Does the reply to a script say that the server runs none: by either of these? */
bool tl__runs_no_script(tl_bytes error);

/** Does an error reply say that another server may be the master by now? A client that connected by a name
 *  should then look up the name again. */
bool tl__asks_elsewhere(tl_bytes error);

/** Does an error reply say that this server is not the master, so that it certainly executed nothing of the
 *  request? */
bool tl__is_elsewhere(tl_bytes error);

/** Did the error occur within a script, so that some of its writes may have been made? */
bool tl__from_script(tl_bytes error);

/* ---- ends, and pauses -------------------------------------------------------------------------- */

/** End a machine that asks a question, with this code and message. */
tl_status tl__end(void *machine, tl_err code, tl_bytes message, tl_out *out);
tl_status tl__end_malformed(void *machine, tl_out *out);
tl_status tl__end_cancelled(void *machine, tl_out *out);
/** End it by an error reply. */
tl_status tl__end_refused(void *machine, tl_bytes error, const tl_needer *who, tl_out *out);
/** End it by a FAILED, if it doesn't ask again. in_doubt: the request may have changed something. A server
 *  that may have received the request, or that is no longer the right one, counts as unavailable. */
tl_status tl__end_failed(void *machine, const tl_event *event, bool in_doubt, tl_out *out);

/** A pause in ms before trying again after `failures` (1 or more) in a row: a random time between half of a
 *  limit and the limit. The limit doubles from 20 ms to 1 s. */
int64_t tl__backoff_ms(uint32_t failures, uint64_t *random);

/** The next of a sequence of random numbers (xorshift); *random must not be 0. */
uint64_t tl__random_next(uint64_t *random);

/** The start of such a sequence, by a seed. */
static inline uint64_t tl__random_begin(uint64_t seed) {
    return seed ? seed : 1;
}

/** A random number of least..most. */
int64_t tl__random_between(uint64_t *random, int64_t least, int64_t most);
