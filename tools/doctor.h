/*
 * What is asked of a server, and what of the answers endangers locks. Asking (doctor_ask.c) and judging
 * (doctor_check.c, doctor_state.c, both pure) know nothing of each other but these.
 */
#ifndef TIDELOCK_DOCTOR_H
#define TIDELOCK_DOCTOR_H

#include "skew_link.h"
#include "skew_judge.h"

#define DOCTOR_KEY_MOST 1024

/* ---- facts ----------------------------------------------------------------------------------------- */

#define DOCTOR_INFO_SIZE 65536
#define DOCTOR_WORDS_SIZE 240
#define DOCTOR_SERVERS 20

/** Parameters that are asked for; none is a secret. */
enum {
    CONFIG_APPENDFSYNC,
    CONFIG_BIND,
    CONFIG_KEEPALIVE,
    CONFIG_MAXCLIENTS,
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

/** Commands that tidelock sends, or runs in its scripts. */
typedef struct {
    const char *name;
    bool needed;           /**< else something works less well without it */
    const char *without;   /**< what that is */
    const char *const *as; /**< how it is tried, without running it; "K": the key, "S": beside it */
} doctor_command;
#define DOCTOR_COMMANDS 19
extern const doctor_command doctor_commands[DOCTOR_COMMANDS];

typedef enum { COMMAND_UNSEEN, COMMAND_OK, COMMAND_MISSING, COMMAND_DENIED } doctor_can;

typedef struct {
    char info[DOCTOR_INFO_SIZE]; /**< "": denied; lines end in \r\n */
    char info_why[DOCTOR_WORDS_SIZE];
    doctor_setting config[CONFIGS];
    char config_why[DOCTOR_WORDS_SIZE]; /**< "": it could be asked for */
    doctor_can present[DOCTOR_COMMANDS], allowed[DOCTOR_COMMANDS];
    char present_why[DOCTOR_WORDS_SIZE], allowed_why[DOCTOR_WORDS_SIZE];
    char denied[DOCTOR_COMMANDS][DOCTOR_WORDS_SIZE]; /**< what the server said */
    const char *key;                                 /**< NULL: none in particular */
    char user[128];                                  /**< "": not known */
    bool no_password;                                /**< we were let in without one */
    bool script_ok;
    char script_why[DOCTOR_WORDS_SIZE];
    bool clock_watched, clock_stepped;
    char clock_why[DOCTOR_WORDS_SIZE];
    int64_t now_us, agents_step_us;   /**< the server's clock; when an agent saw it set, 0 never */
    skew_host server[DOCTOR_SERVERS]; /**< other servers' clocks less its own */
    int servers;
    char servers_why[DOCTOR_WORDS_SIZE];
} doctor_facts;

/** Ask all of it, and change nothing. False: l->status and l->words say why nothing can be said. */
bool doctor_ask(skew_link *l, doctor_facts *f);

/** A number, or a text, of INFO; false when it is not there. */
bool doctor_info(const doctor_facts *f, const char *name, int64_t *ret);
bool doctor_info_text(const doctor_facts *f, const char *name, char *to, size_t size);

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
} doctor_finding;

#define DOCTOR_FINDINGS                                                                            \
    128 /**< more than there can be: each command twice, each server twice, the rest once */
typedef struct {
    doctor_finding finding[DOCTOR_FINDINGS];
    int count;
} doctor_report;

/** Add one. The next two say why it matters and what mends it, of the one added last. */
void doctor_found(doctor_report *r, const char *id, doctor_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void doctor_why(doctor_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_fix(doctor_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** All of it, worst first. */
void doctor_check(const doctor_facts *f, doctor_report *r);

/** Of doctor_check: what the server may do and what it is able to; its data and its copies. */
void doctor_check_able(const doctor_facts *f, doctor_report *r);
void doctor_check_state(const doctor_facts *f, doctor_report *r);

#endif
