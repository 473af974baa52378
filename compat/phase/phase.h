/*
 * Phases: how a fleet migrates from stamps to tokens. A namespace has a register on the server,
 * "tidelock:phase:{NAME}", with its phase and an epoch that grows with each change. Neighbouring phases
 * are compatible; phases two steps apart are not. So a client acts by a phase only while it holds a
 * lease on it, and a change of the register waits for the leases to end.
 *
 *    0 timestamp   stamps, also on servers without EVAL
 *    1 bridge      stamps with a sidecar; tokens count as held
 *    2 drain       tokens; a free stamp is acquired, and a renewal turns our stamp into a token
 *    3 token       tokens
 */
#pragma once

#include "protocol/attempt.h"

enum { TL_PHASE_NONE = -1, TL_PHASE_TIMESTAMP, TL_PHASE_BRIDGE, TL_PHASE_DRAIN, TL_PHASE_TOKEN };

enum { TL_CLOCKS_FINE, TL_CLOCKS_UNSAFE, TL_CLOCKS_UNREADABLE };

/** A lease on a namespace's phase: the phase, as its register said, and until when a client may act
 *  by it. */
typedef struct {
    int64_t epoch; /**< grows with each change; 0: there is no register */
    tl_mono until; /**< ns 0: no lease was read yet */
    /** when the reply came: a request sent earlier may have been executed before it */
    tl_mono reported;
    int32_t lease_ms; /**< the lease's length when it was read */
    int8_t phase;     /**< -1: there is no register */
    uint8_t clocks;   /**< TL_CLOCKS_: the verdict that `tidelock skew` published */
    int32_t worst_ms; /**< TL_CLOCKS_UNSAFE: ms between the clocks furthest apart; -1: not known */
} __attribute__((may_alias)) tl_lease;

_Static_assert(sizeof(tl_lease) <= sizeof(tl_kept), "fits where it is kept");

/** The known lease on a namespace's phase (tl_server.kept), and the one just read (tl_out.kept). */
static inline const tl_lease *tl__lease_of(const tl_server *server, uint8_t index) {
    return (const tl_lease *)&server->kept[index];
}
static inline const tl_lease *tl__lease_read(const tl_out *out) {
    return (const tl_lease *)&out->kept;
}

/** Replace `known` by `read` if that is newer. */
void tl__lease_merge(tl_lease *known, const tl_lease *read);

#define TL_NAMESPACES_MAX TL_KEPT_MAX /**< of one client */
#define TL_NAMESPACE_MAX 64           /**< bytes of a namespace's name */

/** One of a client's namespaces. */
typedef struct tl_namespace {
    const struct tl_namespaces *all;
    uint8_t index; /**< in tl_server.kept */
    tl_bytes name;
    tl_bytes pattern;            /**< of the names of its locks */
    tl_bytes reg, clients, skew; /**< keys in the server */
} tl_namespace;

/** A client's namespaces, and the record of the client that each register gets. */
typedef struct tl_namespaces {
    unsigned count;
    int64_t lease_ms; /**< the longest lease that the client asks for */
    uint8_t fallback; /**< the phase to act by without a register */
    tl_token id;
    char record[400]; /**< "version host pid service" */
    tl_namespace at[TL_NAMESPACES_MAX];
    char room[];
} tl_namespaces;

/** Read the namespaces from a client's options. TL_EINVALID, TL_ENOMEM */
tl_err tl__namespaces_open(const tl_legacy_options *options, tl_bytes owner, const tl_token *id,
                           tl_namespaces **ret, tl_error *err);
void tl__namespaces_close(tl_namespaces *all);
/** The namespace of this key; NULL: none. */
const tl_namespace *tl__namespace_of(const tl_namespaces *all, tl_bytes key);

/* ---- reading a register ------------------------------------------------------------------------- */

/** The namespace whose phase a lock follows. */
static inline const tl_namespace *tl__namespace_for(const tl_rules *rules) {
    return rules->of;
}

/** Read the phase from the server, and register the client there. */
void tl__phase_send(const tl_namespace *ns, uint16_t ticket, tl_mono by, const tl_event *event,
                    tl_out *out);

/** Read the reply to a request built at `asked`; out keeps the lease. Otherwise out has a message.
 *  TL_EDENIED: the register has an older epoch than this server reported before, or no longer
 *  exists. TL_EUNAVAILABLE: the same, but the request may have been executed before the one that
 *  reported the newer epoch. TL_ESERVER, and the codes of tl__refusal. */
tl_err tl__phase_read(const tl_namespace *ns, tl_mono asked, const tl_event *event, tl_out *out);

/** Does the lease last long enough to act by it? Otherwise read the phase again. */
bool tl__lease_lasts(const tl_lease *lease, const tl_event *event);

/* ---- in a cluster ------------------------------------------------------------------------------- */

/* Each slot has a register of its own, the string "tidelock:phase:slot:{TAG}:NAME". It holds "PHASE EPOCH",
 * where the epoch is a time that no register had before, or it is absent. An acquire carries what it believes
 * of it. Where the register differs the script changes nothing, and the acquire is sent again by what it learned.
 * So the master that executes an acquire judges its phase, and there is no lease. A belief is one number:
 * four epochs and the phase; 0: there is no register. */

/** The condition of an acquire by that belief, in out's scratch room. */
tl_condition tl__phase_condition(const tl_namespace *ns, const tl_slot_tag *slot, int64_t believes,
                                 tl_out *out);
/** Read what the register holds. false: it can't be read. */
bool tl__phase_believe(tl_bytes reads, int64_t *ret);
/** The phase; -1: there is no register. */
int tl__phase_believed(int64_t believes);
/** The phase to act by, where the register of the lock's slot is believed to say that. */
int tl__phase_in_slot(const tl_namespace *ns, int64_t believes, const tl_lease *known);
/** The latest belief that the client keeps. */
int64_t tl__phase_belief(const tl_lease *lease);
/** out keeps the belief, if it is newer than the client's. */
void tl__phase_keep(const tl_namespace *ns, int64_t believes, const tl_event *event, tl_out *out);
/** The register of this slot can't be read: a message, and TL_ESERVER. */
tl_err tl__phase_unreadable(const tl_namespace *ns, const tl_slot_tag *slot, tl_out *out);

/* ---- keeping a lease fresh ---------------------------------------------------------------------- */

/** runtime/upkeep.c: keeps leases fresh in a client. */
extern const tl_upkeep tl__phase_upkeep;

/** The machine that renews a lease after each third of it. It ends only at TL_CANCEL. */
typedef struct {
    tl_result result; /**< unused */
    const tl_namespace *ns;
    int64_t attempt_ms;
    tl_mono asked; /**< ns 0: no request is in flight */
    tl_mono next;
    uint64_t random;
    uint32_t failures;
    uint16_t ticket;
    bool leaves; /**< it removes the client's record, and ends */
} tl_attend;

void tl__attend_init(void *machine, const tl_namespaces *all, uint8_t index, int64_t attempt_ms,
                     uint64_t seed);
void tl__leave_init(void *machine, const tl_namespaces *all, uint8_t index, int64_t attempt_ms);
tl_status tl__attend_step(void *machine, const tl_event *event, tl_out *out);
