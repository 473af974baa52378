/*
 * Phases: how a fleet is led from stamps to tokens. A namespace has a register in the server,
 * "tidelock:phase:{NAME}", with its phase and an epoch that grows with each change. Each phase gets
 * on with the ones beside it, none with one two steps away; so a client acts by a phase only while it
 * holds a lease on it, and whoever changes the register waits for the leases to end.
 *
 *     0 timestamp   stamps, also on servers without EVAL
 *     1 bridge      stamps with a sidecar; tokens are respected
 *     2 drain       tokens; a stamp is taken when it is free, and a held one of ours turned into a token
 *     3 token       tokens
 */
#pragma once

#include "protocol/attempt.h"

enum { TL_PHASE_NONE = -1, TL_PHASE_TIMESTAMP, TL_PHASE_BRIDGE, TL_PHASE_DRAIN, TL_PHASE_TOKEN };

enum { TL_CLOCKS_FINE, TL_CLOCKS_UNSAFE, TL_CLOCKS_UNREADABLE };

/** Which phase of a migration a namespace is in, as its register told, and until when that counts. */
typedef struct {
    int64_t epoch;    /**< grows with each change; 0: there is no register */
    tl_mono until;    /**< ns 0: nothing is known */
    tl_mono reported; /**< when it was: who asked before may have been answered before, too */
    int32_t lease_ms; /**< how long it counted when it was read */
    int8_t phase;     /**< -1: there is no register */
    uint8_t clocks;   /**< what `tidelock skew` has published of them: TL_CLOCKS_ */
    int32_t worst_ms; /**< TL_CLOCKS_UNSAFE: how far apart they are; -1: not known */
} __attribute__((may_alias)) tl_lease;

_Static_assert(sizeof(tl_lease) <= sizeof(tl_kept), "fits where it is kept");

/** What is known of a namespace's phase, and what has just been read: tl_server.kept and tl_out.kept. */
static inline const tl_lease *tl__lease_of(const tl_server *server, uint8_t index) {
    return (const tl_lease *)&server->kept[index];
}
static inline const tl_lease *tl__lease_read(const tl_out *out) {
    return (const tl_lease *)&out->kept;
}

/** Of what is known of a phase and what has just been read: the newer. */
void tl__lease_merge(tl_lease *known, const tl_lease *read);

#define TL_NAMESPACES_MAX TL_KEPT_MAX /**< of a client */
#define TL_NAMESPACE_MAX 64           /**< bytes of a namespace's name */

/** One of a client's namespaces. */
typedef struct tl_namespace {
    const struct tl_namespaces *all;
    uint8_t index; /**< in tl_server.kept */
    tl_bytes name;
    tl_bytes pattern;            /**< of the names of its locks */
    tl_bytes reg, clients, skew; /**< keys in the server */
} tl_namespace;

/** Those of a client, and what each of their registers is told of it. */
typedef struct tl_namespaces {
    unsigned count;
    int64_t lease_ms; /**< no longer lease than this is wanted */
    uint8_t fallback; /**< the phase to act by where there is no register */
    tl_token id;
    char record[400]; /**< "version host pid service" */
    tl_namespace at[TL_NAMESPACES_MAX];
    char room[];
} tl_namespaces;

/** The namespaces of a client's options. TL_EINVALID, TL_ENOMEM */
tl_err tl__namespaces_open(const tl_legacy_options *options, tl_bytes owner, const tl_token *id,
                           tl_namespaces **ret, tl_error *err);
void tl__namespaces_close(tl_namespaces *all);
/** Whose this key is; NULL: nobody's. */
const tl_namespace *tl__namespace_of(const tl_namespaces *all, tl_bytes key);

/* ---- reading a register ------------------------------------------------------------------------- */

/** Whose phase counts for a lock. */
static inline const tl_namespace *tl__namespace_for(const tl_rules *rules) {
    return rules->of;
}

/** Ask for the phase, registering the client. */
void tl__phase_send(const tl_namespace *ns, uint16_t ticket, tl_mono by, const tl_event *event,
                    tl_out *out);

/** What the answer to a request built at `asked` says, kept in out. TL_OK; else with a message in
 *  out: TL_EDENIED, when the register tells of an older epoch than the server's did before, or has
 *  gone; TL_EUNAVAILABLE, when it may only have been asked before the one that told of the newer;
 *  TL_ESERVER and what tl__refusal says. */
tl_err tl__phase_read(const tl_namespace *ns, tl_mono asked, const tl_event *event, tl_out *out);

/** May be acted by for long enough? Else it should be read anew. */
bool tl__lease_lasts(const tl_lease *lease, tl_mono now);

/* ---- keeping a lease fresh ---------------------------------------------------------------------- */

/** runtime/upkeep.c: wires it up in a client. */
extern const tl_upkeep tl__phase_upkeep;

/** The machine: reads again at each third of the lease. It ends at TL_CANCEL only. */
typedef struct {
    tl_result result; /**< unused */
    const tl_namespace *ns;
    int64_t attempt_ms;
    tl_mono asked; /**< ns 0: nothing is in flight */
    tl_mono next;
    uint64_t random;
    uint32_t failures;
    uint16_t ticket;
    bool leaves; /**< it takes the record away, and ends */
} tl_attend;

void tl__attend_init(void *machine, const tl_namespaces *all, uint8_t index, int64_t attempt_ms,
                     uint64_t seed);
void tl__leave_init(void *machine, const tl_namespaces *all, uint8_t index, int64_t attempt_ms);
tl_status tl__attend_step(void *machine, const tl_event *event, tl_out *out);
