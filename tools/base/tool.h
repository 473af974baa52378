/*
 * Shared by all commands: exit statuses, messages, the rows of the command table, and the server that
 * the global options name.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidelock/inspect.h>
#include <tidelock/tidelock.h>

#include "base/members.h"
#include "base/optparse.h"

/** Exit statuses with the same meaning in every command. */
enum {
    STATUS_OK = 0,
    STATUS_USAGE = 64,
    STATUS_UNAVAILABLE = 69,
    STATUS_INTERNAL = 70,
    STATUS_LOST = 74,
    STATUS_BUSY = 75,
    STATUS_REFUSED = 77,
    STATUS_CONFIG = 78,
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128 /**< plus the number of the signal */
};

/* ---- say.c: one line on stderr ------------------------------------------------------------- */

/** "tidelock: " and the message as one line; control bytes become '?'. Blocks as stderr does. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** As say; returns status: `return fail(STATUS_USAGE, ...)`. */
int fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** say_format.c: a line with its prefix and its newline; small enough that a write to a pipe is atomic. Returns
 *  its length. */
#define SAY_LINE_SIZE 1024
size_t say_format(char buf[SAY_LINE_SIZE], const char *format, va_list args);

/** say_late.c: as say, but never waits. The message is written as soon as stderr accepts it, and is
 *  dropped when too many are pending. */
void say_if_free(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** say_late.c: wait until these messages are written, at most ms. */
#define SAY_FOREVER (-1)
void say_drain(int ms);

/** say_line.c: write the line, which ends with its newline, to stderr. */
void say_line(const char *line, size_t len);

/** Size of a key in a message. */
#define KEY_SHOWN 128

/** The key for a message: shortened to fit. Returns buf. */
const char *show_key(char buf[KEY_SHOWN], const char *key);

/** A duration for people, as "250 ms", "1.2 s" or "75 min". Returns buf. */
#define DURATION_SHOWN 32
const char *show_ms(char buf[DURATION_SHOWN], int64_t ms);
/** A time between two moments of a day or more, as "57 min" or "23 h 59 min"; a short one as show_ms. */
const char *show_span(char buf[DURATION_SHOWN], int64_t ms);

/* ---- status.c: what a result of the library means ------------------------------------------ */

/** The exit status for a result for which the command has no status of its own. */
int status_of(tl_err code);

/** The value of "state" in JSON. */
const char *state_of(tl_err code);

/* ---- moment.c: the clock ------------------------------------------------------------------- */

/** Milliseconds on the clock of deadlines: it never steps, and continues during suspend. */
int64_t moment_ms(void);

/** Microseconds since the epoch, on the wall clock. */
int64_t moment_wall_us(void);

/** A timer descriptor on that clock, CLOEXEC and non-blocking; -1 and errno on failure. */
int moment_timer(void);

/** Make the timer readable in so many milliseconds, 0 at once; MOMENT_NEVER disarms it. */
#define MOMENT_NEVER INT64_MAX
void moment_timer_set(int fd, int64_t in_ms);

/* ---- server.c: which server, and how to log in ---------------------------------------------- */

/** TLS options of a rediss:// or etcds:// URL; each may be NULL. */
typedef struct {
    const char *ca, *cert,
        *key;         /**< files: the authorities to trust, this client's certificate and its key */
    const char *name; /**< the name in the server's certificate */
} server_tls;

typedef struct {
    const char *url;           /**< --url, into argv */
    const char *password_file; /**< --password-file */
    const char *sentinel_password_file;
    server_tls tls;
    bool help, help_all, version;
} global_args;

extern const opt global_options[];

/** Protection against a server that restarts or takes over and has forgotten locks: the library's options of these names. */
typedef struct {
    int64_t quiet_ms;  /**< 0: off; SERVER_NO_QUIET: it isn't given */
    int wait_replicas; /**< 0: none */
    bool wait_fsync;
} server_care;

#define SERVER_NO_QUIET (-1)

/** The rows of a command's table for the member `at` of its struct, whose default quiet_ms is SERVER_NO_QUIET. */
#define SERVER_CARE(at)                                                                            \
    {0,                                                                                            \
     "quiet",                                                                                      \
     OPT_DURATION,                                                                                 \
     (at) + offsetof(server_care, quiet_ms),                                                       \
     "D",                                                                                          \
     "acquire no lock until D after the server restarted or took over; at least the longest "      \
     "--ttl of all hosts, and the same on all of them; 0s: off (off; redis+quorum: 30s)",          \
     0,                                                                                            \
     0},                                                                                           \
        SERVER_CONFIRMED(at)
#define SERVER_CONFIRMED(at)                                                                       \
    {0,          "wait-replicas",                                                                  \
     OPT_NUMBER, (at) + offsetof(server_care, wait_replicas),                                      \
     "N",        "an acquisition or a renewal counts once N replicas have it (0)",                 \
     0,          1000},                                                                            \
    {                                                                                              \
        0, "wait-fsync", OPT_FLAG, (at) + offsetof(server_care, wait_fsync), NULL,                 \
            "it counts once the server and these replicas have it on disk", 0, 0                   \
    }

/** Everything that is needed to open a client. */
typedef struct {
    char *url;      /**< NULL: none was given, which usually means local: */
    char *password; /**< NULL: none, except one in the URL */
    char *sentinel_user, *sentinel_password; /**< the login of Sentinels; NULL: none */
    struct server_secret *secret; /**< the files from which passwords are read again; NULL: none */
    bool from_env;                /**< the URL is TIDELOCK_URL */
    server_tls tls;
    const void
        *legacy; /**< the values of the command's options about legacy clients; NULL: it has none */
    bool trace;  /**< report each step of a lock on stderr */
    const server_care *care; /**< NULL: the command has no such options */
} server;

/**
 * Collect the server's URL and password from options, environment and file. Remove the secrets
 * from the places where others might see them: the argument list, the environment, and so the
 * environment of a command that run starts. Returns 0, or the exit status after a message.
 */
int server_find(const global_args *args, server *ret);

/** Report, if no URL was given, that the private server is used, whose locks other hosts don't see. */
void server_say_local(const server *where);

/** For a command that is about several hosts: 0, or the exit status after a message that it needs
 *  a URL. */
int server_need_url(const server *where, const char *who);

/** Open a client for the command `who`, and report it if the server is local: because no URL was given; no
 *  I/O. service may be NULL. Returns 0, or the exit status after a message. */
int server_open(const server *where, const char *who, const char *service, tl_client **ret_client);

/** The name of a protocol for JSON, NULL for -1. */
const char *protocol_name(int protocol);

/** The lifetime of locks. given_ms: the value of --ttl; SERVER_NO_TTL: it isn't given. */
#define SERVER_NO_TTL (-1)
#define SERVER_TTL_MS 30000 /**< of tokens */
int64_t server_ttl_ms(const server *where, int64_t given_ms);

/** Does the care fit this lifetime? Returns 0, or the exit status after a message. */
int server_care_check(const char *who, const server_care *care, int64_t ttl_ms);

/** Does the URL name Sentinels? */
bool server_by_sentinels(const server *where);
/** Nodes of a cluster? */
bool server_by_cluster(const server *where);
/** Independent servers? */
bool server_by_quorum(const server *where);
/** Is it the private server, by its URL? */
bool server_is_local(const server *where);
/** Does the URL name members of an etcd? */
bool server_by_etcd(const server *where);

/** The protocol of the locks: a tl_protocol_id. */
int server_protocol(const server *where);

/** A client's options with the login: password and TLS. */
tl_client_options server_login(const server *where);

/** Wipe the secrets and free. */
void server_forget(server *where);

/** Print the library's message, and the server's version where it lacks something. Returns the exit
 *  status. */
int fail_as(const server *where, const tl_error *err);

/* ---- commands ------------------------------------------------------------------------------- */

/** An exit status of a command. A table ends with a row without both texts. */
typedef struct {
    int status;       /**< STATUS_SIGNAL: all that signals make; STATUS_OF_COMMAND */
    const char *help; /**< in the help; NULL: the help doesn't list it */
    const char *page; /**< in the man page, in its markup; NULL: as in the help */
} status_row;
#define STATUS_OF_COMMAND (-1) /**< whatever the command of run ends with */

typedef struct {
    const char *name;
    const char *usage; /**< the words after the name */
    const char *help;  /**< one line */
    const char
        *notes; /**< the end of the help: paragraphs of one line each, which the help breaks */
    const status_row *statuses; /**< its own, and what it says of those of every command */
    const members_row *members; /**< of its JSON; NULL: it prints none */
    const opt *options;
    const void *defaults;   /**< of the struct that the options fill */
    size_t size;            /**< of that struct */
    const opt_part *legacy; /**< FROM_LEGACY(...), whose values are in the server; NULL: none */
    bool runs;              /**< accepts "-- COMMAND [ARG...]" */
    bool local;             /**< needs no server */
    int args_min, args_max;
    int (*function)(const server *s, const void *options, const operands *args);
} command;

extern const command run_row, alive_row, lock_row, unlock_row, extend_row, check_row, inspect_row,
    break_row, local_row, skew_row, agent_row, doctor_row, migrate_row, bench_row;

/* ---- legacy clients --------------------------------------------------------------------------- */

/**
 * Code for legacy clients only is in tools/legacy and tools/migrate, which a
 * build without compat/ lacks. They add options, commands and functions to the other rooms:
 * FROM_LEGACY(x) is the address of x there; NULL in a build without compat/.
 */
#ifdef TL_COMPAT
#define FROM_LEGACY(x) (&(x))
#else
#define FROM_LEGACY(x) NULL
#endif

/** For the commands that acquire locks; `options`: the values of their options about legacy clients. */
typedef struct {
    /** Put them into the options of a client. Returns 0, or the exit status after a message. */
    int (*apply)(const char *who, const void *options, tl_client_options *client);
    int64_t (*ttl_ms)(const void *options);     /**< the lifetime where -t isn't given */
    int (*protocol)(const void *options);       /**< a tl_protocol_id */
    const char *(*protocol_name)(int protocol); /**< NULL: not a protocol of legacy clients */
    /** The holder of a lock, and the end of its lifetime, for people. False: it isn't a legacy lock. */
    bool (*who)(char *buf, size_t size, const tl_lock_info *info);
    bool (*end)(char *buf, size_t size, const tl_lock_info *info);
    /** Advice for clients that lock by tokens; NULL: it isn't a legacy lock. */
    const char *(*advice)(const tl_lock_info *info);
    const char *full; /**< what happens to them while the server's memory is full */
} legacy_locks_hooks;
extern const legacy_locks_hooks legacy_locks;
extern const opt_part legacy_lock_part, legacy_inspect_part, legacy_break_part;

/** A topic of the help. */
typedef struct {
    const char *name, *about;
    int (*print)(void); /**< returns 0, or the exit status after a message */
    opt_values_fn
        values; /**< the values of options that the topic explains; NULL: there are none */
} help_topic;
extern const help_topic legacy_dialects;
