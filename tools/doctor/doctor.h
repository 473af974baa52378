/*
 * What is asked of a server, and what of the answers endangers locks. Asking (doctor_ask.c) and judging
 * (doctor_check.c, doctor_state.c, both pure) know nothing of each other but these.
 * doctor_commands.c is the table of what is sent, doctor_acl.c prints it as permissions.
 */
#pragma once

#include "link/link_open.h"
#include "doctor/cluster_survey.h"
#include "skew/judge/skew_judge.h"
#include "wire/keys.h"

#define DOCTOR_KEY_MOST 1024

/* ---- facts ----------------------------------------------------------------------------------------- */

#define DOCTOR_INFO_SIZE 65536
#define DOCTOR_MESSAGE_SIZE 240
#define DOCTOR_SERVERS 20

/** Parameters that are asked for; none is a secret. */
enum {
    CONFIG_APPENDFSYNC,
    CONFIG_BIND,
    CONFIG_KEEPALIVE,
    CONFIG_MAXCLIENTS,
    CONFIG_MAXMEMORY,
    CONFIG_MIN_LAG,
    CONFIG_MIN_REPLICAS,
    CONFIG_POLICY,
    CONFIG_PORT,
    CONFIG_PROTECTED,
    CONFIG_SAVE,
    CONFIG_TIMEOUT,
    CONFIGS
};
extern const char *const doctor_config_name[CONFIGS];

typedef struct {
    bool known;
    char text[256];
} doctor_setting;

/** Who sends a command: locks by token, by bridge or timestamp, by timestamp without EVAL, by
 *  timestamp with --strict; who goes by phases; who stands in line; and who finds the server by its Sentinels, or
 *  by the nodes of a cluster. */
enum {
    DOCTOR_TOKEN = 1,
    DOCTOR_STAMP = 2,
    DOCTOR_WATCH = 4,
    DOCTOR_STRICT = 8,
    DOCTOR_AUTO = 16,
    DOCTOR_LINE = 32,
    DOCTOR_SENTINEL = 64,
    DOCTOR_CLUSTER = 128
};

typedef enum {
    DOCTOR_NEEDED,
    DOCTOR_BETTER, /**< something works less well without it */
    DOCTOR_OPTION  /**< only with an option of the library's */
} doctor_use;

/** Commands that tidelock sends, or runs in its scripts. */
typedef struct {
    const char *name, *sub; /**< sub NULL: it has none */
    int since;              /**< 206: from Redis 2.6 on; 0: always */
    unsigned who;
    doctor_use use;
    const char *without; /**< what is wrong then */
    const char *const *
        as; /**< how it is tried, without running it; "K": the key, "S": beside it, "I": an inbox, "C": a register's
                              clients; NULL: alone */
} doctor_command;
#define DOCTOR_COMMANDS 64 /**< no more than that */

/** NULL behind the last. */
const doctor_command *doctor_command_at(int i);

/** "CLIENT TRACKING". Returns to. */
#define DOCTOR_COMMAND_SIZE 24
const char *doctor_command_name(const doctor_command *command, char to[DOCTOR_COMMAND_SIZE]);

typedef enum { COMMAND_UNSEEN, COMMAND_OK, COMMAND_MISSING, COMMAND_DENIED } doctor_can;

#define DOCTOR_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))

typedef struct {
    int protocol; /**< a tl_protocol_id: whose permissions and needs count */
    bool strict;
    const char *namespaces; /**< of auto; NULL: default */
    char clients[128];      /**< the register's clients */
    long db;
    char info[DOCTOR_INFO_SIZE]; /**< "": denied; lines end in \r\n */
    char info_why[DOCTOR_MESSAGE_SIZE];
    int version; /**< DOCTOR_VERSION of the Redis that it is or is like; 0: not known */
    char product[INFO_PRODUCT_SIZE]; /**< "Redis 2.4.18" */
    doctor_setting config[CONFIGS];
    char config_why[DOCTOR_MESSAGE_SIZE]; /**< "": it could be asked for */
    bool config_lacks;                    /**< CONFIG is renamed */
    doctor_can present[DOCTOR_COMMANDS], allowed[DOCTOR_COMMANDS];
    char present_why[DOCTOR_MESSAGE_SIZE], allowed_why[DOCTOR_MESSAGE_SIZE];
    char denied[DOCTOR_COMMANDS][DOCTOR_MESSAGE_SIZE]; /**< what the server said */
    const char *key;                                   /**< NULL: none in particular */
    char user[128];                                    /**< "": not known */
    bool no_password;                                  /**< we were let in without one */
    bool script_ok;
    char script_why[DOCTOR_MESSAGE_SIZE];
    bool clock_watched, clock_stepped;
    char clock_why[DOCTOR_MESSAGE_SIZE];
    int64_t now_us, agents_step_us; /**< the server's clock; when an agent saw it set, 0 never */
    char counter[TL_COUNTER_SIZE +
                 1]; /**< the fencing counter of the key's slot; "": it wasn't read */
    int64_t counted; /**< its number, 0: there is none yet; -1: it holds no number */
    skew_host server[DOCTOR_SERVERS]; /**< other servers' clocks less its own */
    int servers;
    char servers_why[DOCTOR_MESSAGE_SIZE];
    server_care care;  /**< what the clients do, as we are told, */
    int64_t ttl_ms;    /**< and the longest lifetime of their locks */
    bool by_sentinels; /**< they find the server by its Sentinels, who say this: */
    sentinels heard;
    bool by_cluster;   /**< it is a master of the cluster whose nodes their URL names, */
    bool moving;       /**< from or to which slots are being moved; */
    int64_t known;     /**< replicas that a cluster's nodes know of, also of those that are away */
    bool unasked;      /**< who name none, so that nothing else is known */
    int64_t sentinels; /**< that listen on the server; 0: none, or not known */
} doctor_facts;

/** Ask what the server is; and all of it. Both change nothing. False: link->status and link->message say
 *  why nothing can be said. */
bool doctor_ask_info(server_link *link, doctor_facts *facts);
bool doctor_ask(server_link *link, doctor_facts *facts);

/** Is the server known to be older than that? */
bool doctor_before(const doctor_facts *facts, int major, int minor, int patch);

/** Who of the above acquires locks, by the protocol and by what the server can do. */
unsigned doctor_users(const doctor_facts *facts);

/** Can they be a user and a pattern of keys? Returns 0, or the exit status after a message. */
int doctor_acl_check(const char *user, const char *pattern);

/** Print the permissions that a user of locks needs, for keys of a pattern. Returns the status. */
int doctor_acl(const doctor_facts *facts, const char *user, const char *pattern);

/** A number, or a text, of INFO; false when it is not there. */
bool doctor_info(const doctor_facts *facts, const char *name, int64_t *ret);
bool doctor_info_text(const doctor_facts *facts, const char *name, char *to, size_t size);

/* ---- findings -------------------------------------------------------------------------------------- */

typedef enum {
    DOCTOR_NOTE,    /**< good to know */
    DOCTOR_UNSEEN,  /**< could not be looked at, so it is not known to be fine */
    DOCTOR_WARNING, /**< may cost a lock in bad times */
    DOCTOR_DANGER   /**< locks are lost, stolen or refused */
} doctor_level;

/** "note", "unseen", "warning", "danger". */
const char *doctor_level_name(doctor_level level);

typedef struct {
    const char *id; /**< one word, for machines */
    doctor_level level;
    char what[320], why[320], fix[320];
    uint8_t at[(CLUSTER_NODES_MOST + 7) /
               8]; /**< of a cluster: a bit for each node that it is true of */
} doctor_finding;

#define DOCTOR_FINDINGS                                                                            \
    192 /**< more than there can be: each command twice, each server twice, the rest once */
typedef struct {
    doctor_finding finding[DOCTOR_FINDINGS];
    int count;
} doctor_report;

/** Add one. The next two say why it matters and what mends it, of the one added last. */
void doctor_found(doctor_report *report, const char *id, doctor_level level, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));
void doctor_why(doctor_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_fix(doctor_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** All of it, worst first. */
void doctor_check(const doctor_facts *facts, doctor_report *report);
void doctor_sort(doctor_report *report);

/** It is true of this node, of a cluster's. */
void doctor_at(doctor_finding *finding, unsigned node);
bool doctor_is_at(const doctor_finding *finding, unsigned node);

/* ---- legacy clients ---------------------------------------------------------------------------------- */

/** What tools/legacy adds for their protocols. */
typedef struct {
    /** Check the values of doctor_legacy_part and put them into the facts. Returns 0, or the exit status after a message. */
    int (*take)(const void *options, doctor_facts *f);
    const doctor_command *(*command_at)(int i); /**< NULL behind the last */
    unsigned (*users)(const doctor_facts *f, bool evals);
    /** What the server's age means for such locks. False: the same as for others. */
    bool (*check_age)(const doctor_facts *f, doctor_report *r);
    const char *instead;                                   /**< of what needs scripts */
    void (*put_keys)(const doctor_facts *f, unsigned who); /**< for --acl, beside the locks' */
    void (*put_channels)(const doctor_facts *f, unsigned who, const char *pattern);
} doctor_legacy_hooks;
extern const doctor_legacy_hooks doctor_legacy;
extern const opt_part doctor_legacy_part;

/** What a restart or a failover can promise with such a server and such clients. */
typedef enum {
    DOCTOR_NEVER,   /**< the server keeps all, and nobody takes over */
    DOCTOR_ALWAYS,  /**< all that may take over have confirmed what is held */
    DOCTOR_GENERAL, /**< nothing is given until whatever a former master may answer is over */
    DOCTOR_DEAD,    /**< the same if the former master is dead, or cut off from who holds a lock */
    DOCTOR_FENCE    /**< two may hold a lock at once: the fencing number tells them apart */
} doctor_promise;
doctor_promise doctor_promised(const doctor_facts *facts);

/** A restart forgets what is held, or some of it; or what a snapshot is too old for. */
bool doctor_forgets(const doctor_facts *facts);
bool doctor_may_fail_over(const doctor_facts *facts);
/** What is forgotten in a restart is waited for. */
bool doctor_is_quiet(const doctor_facts *facts);

/** Does min-replicas-to-write stop scripts, too, which acquire and renew locks? */
bool doctor_stops_scripts(const doctor_facts *facts);

/** Of doctor_check: which of these rows it is. */
void doctor_check_failover(const doctor_facts *facts, doctor_report *report);

/** A number of a setting; false: it isn't known. */
bool doctor_number(const doctor_facts *facts, int which, int64_t *ret);

/** Is it a certificate that was refused, rather than a login? message: of a connection. */
bool doctor_is_of_tls(const char *message);
#define DOCTOR_TLS_FIX                                                                             \
    "each certificate must be for the host as it is in the URL, or as it is announced (or for "    \
    "--tls-name, tls_server_name), and both sides' from authorities that the other trusts"

/** What of their Sentinels keeps clients from a master, or keeps a failover from what it should be. */
void doctor_check_sentinels(const sentinels *sentinels, doctor_report *report);

/** What is wrong with a cluster, beside what is with each of its masters. */
void doctor_check_cluster(const cluster_survey *survey, doctor_report *report);
/** Of each slot who has it: number of a node, that says so itself or doesn't answer; TL_NOBODY. */
void doctor_owners(const cluster_survey *survey, uint16_t ret[TL_SLOTS]);

/** Ask each master of a cluster, many at once, and add what is found, once for all of which it is true. as: what the clients
 *  do; login: how nodes let us in. False: no memory. */
bool doctor_check_masters(const cluster_survey *survey, const tl_endpoint *login,
                          const doctor_facts *as, doctor_report *report);

typedef struct {
    int format;
    const char *acl;
    bool json;
    int64_t ttl_ms;
    server_care care;
} doctor_options;

/** The exit statuses, by the worst of what was found. */
enum { DOCTOR_FINE, DOCTOR_WARNINGS, DOCTOR_DANGEROUS };

/** What stands above the findings. of: NULL, or the cluster that they are about. Returns the exit status. */
typedef struct {
    const char *server, *product;
    const cluster_survey *of;
} doctor_title;
int doctor_show(const doctor_options *options, const doctor_title *title,
                const doctor_report *report);

/** The command, of an etcd. */
int doctor_etcd(const server *where, const doctor_options *options, const char *key,
                doctor_report *report);

/** The command with a URL of a cluster. as: what is known of the clients. Returns the exit status. */
int doctor_cluster(const server *where, const doctor_options *options, doctor_facts *as,
                   doctor_report *report);

/** Of doctor_check: what the server may do and what it is able to; its data and its copies. */
void doctor_check_able(const doctor_facts *facts, doctor_report *report);
void doctor_check_state(const doctor_facts *facts, doctor_report *report);
