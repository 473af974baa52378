/*
 * The doctor's facts about a server, and its findings: what endangers locks. Asking (doctor_ask.c) and
 * judging (doctor_check.c, doctor_state.c, both pure) share nothing but these. doctor_commands.c is the
 * table of the commands that tidelock sends; doctor_acl.c prints it as permissions.
 */
#pragma once

#include "base/members.h"
#include "link/link_open.h"
#include "doctor/cluster_survey.h"
#include "ground/vmclock.h"
#include "skew/judge/skew_judge.h"
#include "wire/keys.h"

#define DOCTOR_KEY_MOST 1024

/* ---- facts ----------------------------------------------------------------------------------- */

#define DOCTOR_INFO_SIZE 65536
#define DOCTOR_MESSAGE_SIZE 240
#define DOCTOR_SERVERS 20

/** Parameters that the doctor reads; none is a secret. */
enum {
    CONFIG_APPENDFSYNC,
    CONFIG_BIND,
    CONFIG_KEEPALIVE,
    CONFIG_MAXCLIENTS,
    CONFIG_MAXMEMORY,
    CONFIG_MIN_LAG,
    CONFIG_MIN_REPLICAS,
    CONFIG_NO_FSYNC,
    CONFIG_POLICY,
    CONFIG_PORT,
    CONFIG_PROTECTED,
    CONFIG_SAVE,
    CONFIG_STOP_WRITES,
    CONFIG_TIMEOUT,
    CONFIGS
};
extern const char *const doctor_config_name[CONFIGS];

typedef struct {
    bool known;
    char text[256];
} doctor_setting;

/** Senders of a command, as bits. TOKEN: locks of the token protocol. STAMP: a bridge or timestamps. WATCH:
 *  timestamps without EVAL. STRICT: timestamps with --strict. AUTO: clients that follow the phases of a
 *  migration. LINE: waiters in the server's queue. SENTINEL, CLUSTER: clients that find the server by
 *  Sentinels, or by the nodes of a cluster. NOTIFIED: stamps outside a cluster. LEASE, SLOT: AUTO outside a
 *  cluster, and in one. */
enum {
    DOCTOR_TOKEN = 1,
    DOCTOR_STAMP = 2,
    DOCTOR_WATCH = 4,
    DOCTOR_STRICT = 8,
    DOCTOR_AUTO = 16,
    DOCTOR_LINE = 32,
    DOCTOR_SENTINEL = 64,
    DOCTOR_CLUSTER = 128,
    DOCTOR_NOTIFIED = 256,
    DOCTOR_LEASE = 512,
    DOCTOR_SLOT = 1024
};

typedef enum {
    DOCTOR_NEEDED,
    DOCTOR_BETTER, /**< something works less well without it */
    DOCTOR_OPTION  /**< only an option of the library needs it */
} doctor_use;

/** Commands that tidelock sends, or runs in its scripts. */
typedef struct {
    const char *name, *sub; /**< sub NULL: it has none */
    int since;              /**< 206: from Redis 2.6 on; 0: always */
    unsigned who;
    doctor_use use;
    const char *without; /**< what is wrong without it */
    /** Arguments for ACL DRYRUN, which tests the command without running it; NULL: none. One letter stands
     *  for a name: "K" the key, "S" its sidecar, "L" its queue, "F" the fencing counters, "I" an inbox, "C"
     *  a register's clients, "R" a register in a cluster. */
    const char *const *as;
} doctor_command;
#define DOCTOR_COMMANDS 64 /**< an upper limit of their number */

/** NULL after the last. */
const doctor_command *doctor_command_at(int i);

/** Write the command's name into `to`, as "CLIENT TRACKING", and return `to`. */
#define DOCTOR_COMMAND_SIZE 24
const char *doctor_command_name(const doctor_command *command, char to[DOCTOR_COMMAND_SIZE]);

typedef enum { COMMAND_UNSEEN, COMMAND_OK, COMMAND_MISSING, COMMAND_DENIED } doctor_can;

#define DOCTOR_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))

typedef struct {
    int protocol; /**< a tl_protocol_id: the one whose permissions and needs count */
    bool strict;
    const char *namespaces;  /**< for protocol auto; NULL: the default */
    char clients[128];       /**< the name of the register's clients */
    char slot_register[128]; /**< the name of a register in a cluster, of any slot */
    long db;
    char info[DOCTOR_INFO_SIZE]; /**< "": INFO was refused; lines end in \r\n */
    char info_why[DOCTOR_MESSAGE_SIZE];
    int version; /**< DOCTOR_VERSION of the Redis that it is or resembles; 0: not known */
    char product[INFO_PRODUCT_SIZE]; /**< "Redis 2.4.18" */
    doctor_setting config[CONFIGS];
    char config_why[DOCTOR_MESSAGE_SIZE]; /**< "": CONFIG GET works */
    bool config_lacks;                    /**< the server has no CONFIG: it is renamed */
    doctor_can present[DOCTOR_COMMANDS], allowed[DOCTOR_COMMANDS];
    char present_why[DOCTOR_MESSAGE_SIZE], allowed_why[DOCTOR_MESSAGE_SIZE];
    char denied[DOCTOR_COMMANDS][DOCTOR_MESSAGE_SIZE]; /**< the server's message */
    const char *key;                                   /**< NULL: no particular key */
    char user[128];   /**< as the server names it, which may be any bytes; "": not known */
    bool no_password; /**< the login has neither user nor password */
    bool script_ok, engineless; /**< engineless: it has EVAL, but no Lua to run a script */
    char script_why[DOCTOR_MESSAGE_SIZE];
    bool clock_watched, clock_stepped;
    char clock_why[DOCTOR_MESSAGE_SIZE];
    int64_t now_us, agents_step_us; /**< the server's clock; when an agent saw it set (0: never) */
    /** Name of the fencing counter of the key's slot; "": it was not read. */
    char counter[TL_COUNTER_SIZE + 1];
    int64_t counted;  /**< its value; 0: there is none yet; -1: it holds no number */
    doctor_can bless; /**< has the server BLESS, which keeps a key from eviction (Redis 8.12)? */
    bool blessed;     /**< the counter is kept from eviction */
    skew_host server[DOCTOR_SERVERS]; /**< other servers' clocks less this server's */
    int servers;
    bool more_servers; /**< there are others, whose clocks are not in `server` */
    char servers_why[DOCTOR_MESSAGE_SIZE];
    server_care care;    /**< the clients' options, as the command line names them */
    int64_t ttl_ms;      /**< the longest lifetime of their locks */
    int64_t once_per_ms; /**< the longest rest of their locks; 0: they don't rest */
    doctor_can flush;    /**< once_per_ms: may this user run FLUSHALL? */
    bool by_sentinels;   /**< clients find the server by Sentinels, whose replies are in `heard` */
    sentinels heard;
    bool by_cluster;   /**< it is a master of the cluster whose nodes the clients' URL names */
    bool moving;       /**< slots are being moved from it or to it */
    int64_t known;     /**< replicas that the cluster's nodes know, unreachable ones included */
    bool unasked;      /**< the Sentinels name no master, so no server was asked */
    int64_t sentinels; /**< Sentinels that listen on the server; 0: none, or not known */
} doctor_facts;

/** Ask which server it is (doctor_ask_info), or for all facts (doctor_ask). Both change nothing. False:
 *  link->status and link->message say why. */
bool doctor_ask_info(server_link *link, doctor_facts *facts);
bool doctor_ask(server_link *link, doctor_facts *facts);

/** Is the server known to be older than that version? */
bool doctor_before(const doctor_facts *facts, int major, int minor, int patch);

/** The kinds of senders (DOCTOR_TOKEN, ...) that there are, by the protocol and by what the server can do. */
unsigned doctor_users(const doctor_facts *facts);

/** The user for a command that is printed: a placeholder if the name is not known, or if a terminal or redis-cli
 *  would not take it as it is. */
const char *doctor_user(const doctor_facts *facts);

/** Are they a valid user and a valid pattern of keys? Returns 0, or the exit status after a message. */
int doctor_acl_check(const char *user, const char *pattern);

/** Print the permissions that the user needs to lock keys of the pattern. Returns the exit status. */
int doctor_acl(const doctor_facts *facts, const char *user, const char *pattern);

/** A field of INFO, as a number or as text; false: it isn't there. */
bool doctor_info(const doctor_facts *facts, const char *name, int64_t *ret);
bool doctor_info_text(const doctor_facts *facts, const char *name, char *to, size_t size);

/* ---- findings -------------------------------------------------------------------------------- */

typedef enum {
    DOCTOR_NOTE,    /**< good to know */
    DOCTOR_UNSEEN,  /**< could not be checked, so it is not known to be fine */
    DOCTOR_WARNING, /**< may cost a lock when something fails */
    DOCTOR_DANGER   /**< locks are lost, stolen or refused */
} doctor_level;

/** "note", "unseen", "warning", "danger". */
const char *doctor_level_name(doctor_level level);

typedef struct {
    const char *id; /**< one word, for machines */
    doctor_level level;
    char what[320], why[320], fix[320];
    /** In a cluster: a bit for each node that has this finding. */
    uint8_t at[(CLUSTER_NODES_MOST + 7) / 8];
} doctor_finding;

#define DOCTOR_FINDINGS 192 /**< never more: each command twice, each server twice, the rest once */
typedef struct {
    doctor_finding finding[DOCTOR_FINDINGS];
    int count;
} doctor_report;

/** Add a finding. doctor_why and doctor_fix add to the last finding why it matters and how to fix it. */
void doctor_found(doctor_report *report, const char *id, doctor_level level, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));
void doctor_why(doctor_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_fix(doctor_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Add to the last finding how to make the server run scripts. */
void doctor_fix_scripts(const doctor_facts *facts, doctor_report *report);

/** doctor_check adds all findings for these facts, worst first; doctor_sort sorts them so. */
void doctor_check(const doctor_facts *facts, doctor_report *report);
void doctor_sort(doctor_report *report);

/** Mark a finding as true of this node of a cluster. */
void doctor_at(doctor_finding *finding, unsigned node);
bool doctor_is_at(const doctor_finding *finding, unsigned node);

/* ---- legacy clients -------------------------------------------------------------------------- */

/** The part of tools/legacy: functions for the protocols of legacy clients. */
typedef struct {
    /** Check the values of doctor_legacy_part and copy them into the facts. Returns 0, or the exit status
     *  after a message. */
    int (*take)(const void *options, doctor_facts *f);
    const doctor_command *(*command_at)(int i); /**< NULL after the last */
    unsigned (*users)(const doctor_facts *f, bool evals);
    /** Report what the server's age means for such locks. False: the same as for other locks. */
    bool (*check_age)(const doctor_facts *f, doctor_report *r);
    /** Advice for a server without scripts; "": none. */
    const char *(*instead)(const doctor_facts *f);
    /** For --acl: print keys beside those of the locks, and channels. */
    void (*put_keys)(const doctor_facts *f, unsigned who);
    void (*put_channels)(const doctor_facts *f, unsigned who, const char *pattern);
} doctor_legacy_hooks;
extern const doctor_legacy_hooks doctor_legacy;
extern const opt_part doctor_legacy_part;

/** Promises about a restart or a failover, with such a server and such clients. */
typedef enum {
    DOCTOR_NEVER,  /**< a restart forgets nothing, and there is no failover */
    DOCTOR_ALWAYS, /**< every replica has confirmed what is held: nothing is forgotten */
    /** Nothing is granted until forgotten locks have expired and replies of a former master no longer
     *  count: never two holders. */
    DOCTOR_GENERAL,
    DOCTOR_DEAD, /**< as DOCTOR_GENERAL, if the former master is dead or can't reach a holder */
    DOCTOR_FENCE /**< two may hold a lock at once: only the fencing number distinguishes them */
} doctor_promise;
doctor_promise doctor_promised(const doctor_facts *facts);

/** The policy by which a full server deletes keys, and the limit of its memory; false: not known. */
#define DOCTOR_POLICY_SIZE 64
bool doctor_policy(const doctor_facts *facts, char to[DOCTOR_POLICY_SIZE]);
bool doctor_memory_limit(const doctor_facts *facts, int64_t *ret);
/** May a full server also delete keys that have no lifetime, as fencing counters are? */
bool doctor_evicts_all(const doctor_facts *facts);

/** How many replicas may take over, unreachable ones included. */
int64_t doctor_replicas(const doctor_facts *facts);

/** Does a restart forget locks? Yes if the append-only file is off, or is not synced: never (appendfsync no),
 *  or not at times, and clients don't wait for it. */
bool doctor_forgets(const doctor_facts *facts);
/** Does the server sync its append-only file, but not while a child of it saves, rewrites that file or copies
 *  the data for a replica (no-appendfsync-on-rewrite yes)? */
bool doctor_syncs_late(const doctor_facts *facts);
bool doctor_may_fail_over(const doctor_facts *facts);
/** Is quiet_ms at least the longest lifetime? Then forgotten locks expire before any lock is granted. */
bool doctor_is_quiet(const doctor_facts *facts);

/** Does min-replicas-to-write also stop scripts, which acquire and renew locks? */
bool doctor_stops_scripts(const doctor_facts *facts);

/** The part of doctor_check that reports this promise, and what would lead to a better one. */
void doctor_check_failover(const doctor_facts *facts, doctor_report *report);

/** A setting as a number; false: it isn't known. */
bool doctor_number(const doctor_facts *facts, int which, int64_t *ret);

/** Was a certificate refused, rather than a login? message: that of a connection. */
bool doctor_is_of_tls(const char *message);
#define DOCTOR_TLS_FIX                                                                             \
    "each certificate must be for the host as it is in the URL, or as it is announced (or for "    \
    "--tls-name, tls_server_name), and both sides' from authorities that the other trusts"

/** Report what keeps clients from finding a master by these Sentinels, or keeps a failover from working. */
void doctor_check_sentinels(const sentinels *sentinels, doctor_report *report);

/** Report what is wrong with the cluster as a whole; doctor_check_masters checks each master. */
void doctor_check_cluster(const cluster_survey *survey, doctor_report *report);
/** The owner of each slot, as a node's number: a node that claims it, or one that doesn't reply. TL_NOBODY:
 *  none. */
void doctor_owners(const cluster_survey *survey, uint16_t ret[TL_SLOTS]);

/** Ask each master of a cluster, many at once, and add the findings, each once for all masters that share
 *  it. as: what the clients do; login: login and TLS for all nodes. False: no memory. */
bool doctor_check_masters(const cluster_survey *survey, const tl_endpoint *login,
                          const doctor_facts *as, doctor_report *report);

typedef struct {
    int format;
    const char *acl;
    bool json;
    int64_t ttl_ms, once_per_ms;
    server_care care;
} doctor_options;

/** The exit statuses, by the worst finding. */
enum { DOCTOR_FINE, DOCTOR_WARNINGS, DOCTOR_DANGEROUS };

/** The title above the findings. of: the cluster that they are about, or NULL. doctor_show returns the exit
 *  status. */
typedef struct {
    const char *server, *product;
    const cluster_survey *of;
} doctor_title;
extern const member members_of_doctor[], members_of_finding[], members_of_node[];
int doctor_show(const doctor_options *options, const doctor_title *title,
                const doctor_report *report);

/** tidelock doctor for a URL of etcd. Returns the exit status. */
int doctor_etcd(const server *where, const doctor_options *options, const char *key,
                doctor_report *report);

/** tidelock doctor for a URL of a cluster. as: what is known of the clients. Returns the exit status. */
int doctor_cluster(const server *where, const doctor_options *options, doctor_facts *as,
                   doctor_report *report);

/** Parts of doctor_check: which kind of server it is (kind); what the server permits and can do (able); its data
 *  and its replicas (state); what ends a rest early (rest). */
/** Was a Sentinel asked, instead of a server with locks? */
bool doctor_is_sentinel(const doctor_facts *facts);
/** Report the VMClock of this host. The pure part: view NULL: there is none, and `why` says why. */
void doctor_check_host(doctor_report *report);
void doctor_judge_host(const tl_vmclock_view *view, const char *why, doctor_report *report);
void doctor_check_kind(const doctor_facts *facts, doctor_report *report);
void doctor_check_able(const doctor_facts *facts, doctor_report *report);
void doctor_check_state(const doctor_facts *facts, doctor_report *report);
void doctor_check_rest(const doctor_facts *facts, doctor_report *report);
