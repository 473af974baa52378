/*
 * lock, unlock, extend and check: a lock that outlives the process, for scripts. lock prints a token, by
 * which unlock and extend prove that the lock is theirs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"
#include "base/report.h"
#include "base/signals.h"
#include "base/tool.h"
#include "lock/nested.h"
#include "lock/rest.h"

#define NOT_GIVEN (-1)

/* Exit statuses of unlock and extend. */
enum { STATUS_NOT_HELD = 1, STATUS_HELD_BY_ANOTHER = 2 };
/* Exit statuses of check. */
enum { STATUS_FREE = 0, STATUS_HELD = 1 };

typedef struct {
    int64_t ttl_ms, wait_ms, rest_ms;
    int format;
    bool no_wait, fair, json;
    server_care care;
} lock_options;

static const lock_options defaults = {
    .ttl_ms = SERVER_NO_TTL,
    .wait_ms = NOT_GIVEN,
    .rest_ms = REST_NOT_GIVEN,
    .care = {.quiet_ms = SERVER_NO_QUIET},
};

#define AT(member) offsetof(lock_options, member)
static const opt lock_table[] = {
    {'t', "ttl", OPT_DURATION, AT(ttl_ms), "D", "lifetime; nothing renews it but \"extend\" (30s)",
     0, 0},
    {'w', "wait", OPT_DURATION, AT(wait_ms), "D", "wait for the lock at most so long (one try)", 0,
     0},
    {'n', "no-wait", OPT_FLAG, AT(no_wait), NULL, "try once, as without --wait", 0, 0},
    {0, "fair", OPT_FLAG, AT(fair), NULL,
     "with --wait: acquire in the order of arrival at the server", 0, 0},
    {0, "rest", OPT_DURATION, AT(rest_ms), "D",
     "release it at once, but leave it taken until D after the acquire", 0, 0},
    {0, "json", OPT_FLAG, AT(json), NULL, "print one line of JSON", 0, 0},
    OPT_RARE_FOLLOW,
    {0, "format", OPT_CHOICE, AT(format), "text|json", "json: as --json", 0, 0},
    SERVER_CARE(AT(care)),
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const opt extend_table[] = {
    {'t', "ttl", OPT_DURATION, AT(ttl_ms), "D", "the new lifetime, from now", 0, 0},
    OPT_RARE_FOLLOW,
    SERVER_CONFIRMED(AT(care)),
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const opt check_table[] = {
    {0, "json", OPT_FLAG, AT(json), NULL, "print one line of JSON", 0, 0},
    OPT_RARE_FOLLOW,
    {0, "format", OPT_CHOICE, AT(format), "text|json", "json: as --json", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const opt unlock_table[] = {
    {0, "rest", OPT_DURATION, AT(rest_ms), "D", "leave it taken until D after the acquire", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

static bool wants_json(const lock_options *options) {
    return options->json || options->format;
}

static int check_ttl(const char *who, int64_t ttl_ms) {
    if (ttl_ms < TL_TTL_MIN_MS || ttl_ms > TL_TTL_MAX_MS)
        return fail(STATUS_USAGE, "%s: --ttl: a lifetime is 10ms to 1d", who);
    return 0;
}

/* ---- lock ----------------------------------------------------------------------------------- */

static json_t *lock_json(const server *where, const char *key, tl_lock *lock, tl_err code,
                         const tl_lock_info *found) {
    bool acquired = code == TL_OK, rests = found && found->rests, held = acquired && !rests;
    report_lock lock_report = {.key = key,
                               .key_len = strlen(key),
                               .protocol = server_protocol(where),
                               .state = rests ? "resting" : state_of(code),
                               .token = held ? tl_lock_token(lock) : NULL,
                               .fence = acquired ? (int64_t)tl_lock_fence(lock) : -1,
                               .found = found,
                               .remaining_ms = held    ? tl_lock_remaining_ms(lock)
                                               : found ? found->remaining_ms
                                                       : -1,
                               .waiters = -1};
    return report_lock_json(&lock_report);
}

/* A lock is of no use to a caller who does not see its token: if it can't be printed, the lock is
 * released. */
static int print_lock(const server *where, tl_client *client, const char *key, tl_lock *lock,
                      const lock_options *options) {
    int failed = 0;

    if (wants_json(options)) {
        tl_lock_info info = {.size = sizeof info};
        bool looked = tl_client_look(client, key, strlen(key), &info, NULL) == TL_OK;
        failed = js_line(lock_json(where, key, lock, TL_OK, looked ? &info : NULL), STDOUT_FILENO);
    } else {
        printf("%s %llu\n", tl_lock_token(lock), (unsigned long long)tl_lock_fence(lock));
        failed = fflush(stdout);
    }
    if (failed == 0)
        return STATUS_OK;
    int why = errno;
    (void)tl_lock_release(lock, NULL);
    return fail(STATUS_INTERNAL, "lock: standard output: %s; the lock is released", strerror(why));
}

/* The token is spent then, so it isn't printed. */
static int rest_lock(const server *where, tl_client *client, const char *key, tl_lock *lock,
                     const lock_options *options) {
    tl_lock_info info = {.size = sizeof info};
    tl_error err;

    if (tl_lock_rest(lock, options->rest_ms, &err))
        return fail_as(where, &err);
    if (!wants_json(options))
        return STATUS_OK;
    bool looked = tl_client_look(client, key, strlen(key), &info, NULL) == TL_OK;
    if (js_line(lock_json(where, key, lock, TL_OK, looked ? &info : NULL), STDOUT_FILENO))
        return fail(STATUS_INTERNAL, "lock: standard output: %s; the lock rests all the same",
                    strerror(errno));
    return STATUS_OK;
}

static int report_not_acquired(const server *where, tl_client *client, const char *key,
                               tl_lock *lock, const tl_error *err, const lock_options *options) {
    tl_lock_info info = {.size = sizeof info};
    bool busy = err->code == TL_EBUSY || err->code == TL_ETIMEDOUT;

    if (!busy)
        return fail_as(where, err);
    bool looked = tl_client_look(client, key, strlen(key), &info, NULL) == TL_OK && info.held;
    if (wants_json(options)) {
        json_t *json = lock_json(where, key, lock, err->code, looked ? &info : NULL);
        (void)js_line(json, STDOUT_FILENO); /* the exit status says the same */
    }
    report_conflict(key, err, looked ? &info : NULL, false);
    return status_of(err->code);
}

static int lock_with(const server *where, tl_client *client, signals *signals, const char *key,
                     const lock_options *options) {
    tl_lock_options wanted =
        TL_LOCK_OPTIONS(.ttl_ms = server_ttl_ms(where, options->ttl_ms), .manual_renew = true,
                        .fair = options->fair, .rest_ends_wait = options->rest_ms != REST_NOT_GIVEN,
                        .will_rest_ms = options->rest_ms != REST_NOT_GIVEN ? options->rest_ms : 0);
    tl_error err = {.code = TL_OK};
    int sig = 0, status;

    tl_lock *lock = tl_lock_new(client, key, strlen(key), &wanted, &err);
    if (!lock)
        return rest_fail("lock: --rest", &err);
    tl_err code = nested_holds(where, client, key, &err)
                      ? TL_EBUSY
                      : signals_acquire(signals, lock,
                                        options->wait_ms == NOT_GIVEN ? 0 : options->wait_ms, &sig,
                                        &err);
    if (code == TL_OK && options->rest_ms != REST_NOT_GIVEN)
        status = rest_lock(where, client, key, lock, options);
    else if (code == TL_OK)
        status = print_lock(where, client, key, lock, options);
    else if (code == TL_ECANCELLED)
        status = signals_status(sig);
    else
        status = report_not_acquired(where, client, key, lock, &err, options);
    tl_lock_free(lock);
    return status;
}

static int lock_function(const server *where, const void *given, const operands *args) {
    const lock_options *options = given;
    tl_client *client;
    signals sigs;

    int status = check_ttl("lock", server_ttl_ms(where, options->ttl_ms));
    status = status
                 ? status
                 : server_care_check("lock", &options->care, server_ttl_ms(where, options->ttl_ms));
    if (status == 0)
        status = rest_check("lock: --rest", options->rest_ms);
    if (status)
        return status;
    if (options->rest_ms != REST_NOT_GIVEN && options->wait_ms > 0 && !rest_ends_wait(where))
        return fail(STATUS_USAGE, "lock: --rest with --wait needs the token protocol");
    if (options->no_wait && options->wait_ms != NOT_GIVEN)
        return fail(STATUS_USAGE, "lock: --wait and --no-wait exclude each other");
    if (options->fair && (options->wait_ms == NOT_GIVEN || options->wait_ms == 0))
        return fail(STATUS_USAGE, "lock: --fair needs --wait: with one try there is no queue");
    if (options->fair && server_protocol(where) != TL_TOKEN)
        return fail(STATUS_USAGE, "lock: --fair needs the token protocol");
    if (signals_begin(&sigs))
        return fail(STATUS_INTERNAL, "signals: %s", strerror(errno));
    server to = *where;
    to.care = &options->care;
    status = server_open(&to, "lock", NULL, &client);
    if (status == 0) {
        status = lock_with(where, client, &sigs, args->word[0], options);
        tl_client_close(client);
    }
    signals_end(&sigs);
    return status;
}

/* ---- unlock, extend ------------------------------------------------------------------------- */

/* Extend the lock of this key and token (ttl_ms), or let it rest (rest_ms), or release it. */
static tl_err with_token(tl_client *client, char *const *word, int64_t ttl_ms, int64_t rest_ms,
                         tl_error *err) {
    tl_lock_options options = TL_LOCK_OPTIONS(.manual_renew = true);
    tl_err code;

    tl_lock *lock = tl_lock_new(client, word[0], strlen(word[0]), &options, err);
    if (!lock)
        return err->code;
    code = tl_lock_adopt(lock, word[1], err);
    if (code == TL_OK)
        code = ttl_ms        ? tl_lock_extend(lock, ttl_ms, err)
               : rest_ms > 0 ? tl_lock_rest(lock, rest_ms, err)
                             : tl_lock_release(lock, err);
    tl_lock_free(lock);
    return code;
}

static bool does_rest(tl_client *client, const char *key) {
    tl_lock_info info = {.size = sizeof info};

    return tl_client_look(client, key, strlen(key), &info, NULL) == TL_OK && info.rests;
}

static int by_token(const server *where, const char *who, char *const *word, int64_t ttl_ms,
                    int64_t rest_ms) {
    tl_error err = {.code = TL_OK};
    char shown[KEY_SHOWN];
    tl_client *client;

    int status = server_open(where, who, NULL, &client);
    if (status)
        return status;
    tl_err code = with_token(client, word, ttl_ms, rest_ms, &err);
    if (code == TL_EEXPIRED || code == TL_ELOST)
        status = fail(STATUS_NOT_HELD, "%s: no longer held", show_key(shown, word[0]));
    else if (code == TL_ETAKEN && does_rest(client, word[0]))
        status = fail(STATUS_NOT_HELD, "%s: no longer held: it rests", show_key(shown, word[0]));
    else if (code == TL_ETAKEN)
        status = fail(STATUS_HELD_BY_ANOTHER, "%s: held by another client",
                      show_key(shown, word[0]));
    else if (code)
        status = fail_as(where, &err);
    tl_client_close(client);
    return status;
}

static int unlock_function(const server *where, const void *given, const operands *args) {
    const lock_options *options = given;
    int status = rest_check("unlock: --rest", options->rest_ms);

    return status ? status : by_token(where, "unlock", args->word, 0, options->rest_ms);
}

static int extend_function(const server *where, const void *given, const operands *args) {
    const lock_options *options = given;

    if (options->ttl_ms == SERVER_NO_TTL)
        return fail(STATUS_USAGE, "extend: --ttl is missing: say for how long, as --ttl 30s");
    int status = check_ttl("extend", options->ttl_ms);
    server to = *where;
    to.care = &options->care;
    return status ? status : by_token(&to, "extend", args->word, options->ttl_ms, REST_NOT_GIVEN);
}

/* ---- check ---------------------------------------------------------------------------------- */

static int check_as_text(const char *key, const tl_lock_info *info, const report_line *line,
                         const char *advice) {
    const char *other = report_other_type(info);
    char shown[KEY_SHOWN];
    char who[HOLDER_SHOWN];
    char since[DURATION_SHOWN];
    char end[REPORT_END];

    if (other) {
        printf("%s %s; choose another key\n", show_key(shown, key), other);
        return fflush(stdout);
    }

    if (!info->held) {
        printf("free");
        if (info->dialect[0] || info->oddity[0])
            printf(" (%s)",
                   info->oddity[0] ? info->oddity : "the stamp of its last holder has expired");
        printf("\n");
        return fflush(stdout);
    }
    if (info->rests) {
        printf("%s, last held by %s\n", report_rest(end, info), report_who(who, info));
        report_waiting(info, line, "");
        return fflush(stdout);
    }
    if (report_is_blocked(info))
        printf("%s", info->oddity);
    else
        printf("held by %s", report_who(who, info));
    if (info->held_ms >= 0)
        printf(" for %s", show_ms(since, info->held_ms));
    printf(", %s", report_end(end, info));
    if (info->by_tidelock && info->fence)
        printf(", fence %llu", (unsigned long long)info->fence);
    if (info->oddity[0] && !report_is_blocked(info))
        printf(" (%s)", info->oddity);
    printf("\n");
    report_waiting(info, line, "");
    if (advice)
        printf("%s\n", advice);
    return fflush(stdout);
}

#define CHECK_MEMBERS(M, of)                                                                        \
    M(of, advice,                                                                                   \
      "what to do about a stamp that no client with tokens takes over, or about a constant value; " \
      "or null")
MEMBERS(check, CHECK_MEMBERS);

static int check_as_json(const char *key, const tl_lock_info *info, const report_line *line,
                         const char *advice) {
    json_t *json = report_facts(key, strlen(key), info, line);

    js_set(&json, advice_of_check, js_text(advice));
    return js_line(json, STDOUT_FILENO);
}

static int check_function(const server *where, const void *given, const operands *args) {
    const lock_options *options = given;
    tl_lock_info info = {.size = sizeof info};
    report_line line = {.count = 0};
    const char *key = args->word[0];
    tl_error err;
    tl_client *client;

    int status = server_open(where, "check", NULL, &client);
    if (status)
        return status;
    tl_err code = tl_client_look_line(client, key, strlen(key), &info, REPORT_LINE, report_in_line,
                                      &line, &err);
    const char *advice = report_advice(where, &info);
    if (code)
        status = fail_as(where, &err);
    else if (wants_json(options) ? check_as_json(key, &info, &line, advice)
                                 : check_as_text(key, &info, &line, advice))
        status = fail(STATUS_INTERNAL, "check: standard output: %s", strerror(errno));
    else
        status = info.held ? STATUS_HELD : STATUS_FREE;
    tl_client_close(client);
    return status;
}

/* ---- rows ----------------------------------------------------------------------------------- */

const command lock_row = {
    .name = "lock",
    .usage = "[options] KEY",
    .help = "acquire a lock that outlives this command; print token and fence",
    .statuses =
        (const status_row[]){
            {STATUS_OK, "acquired", "acquired, and with *--rest* it rests"},
            {STATUS_BUSY, "another client holds it",
             "another client holds the lock, and it was not acquired in time; it rests; or a *run* "
             "around this command holds it"},
            {STATUS_SIGNAL, NULL, "signal _n_ ended the wait"},
            {0, NULL, NULL}},
    .members = (const members_row[]){{"lock", members_of_lock},
                                     {"holder", members_of_holder},
                                     {NULL, NULL}},
    .options = lock_table,
    .defaults = &defaults,
    .size = sizeof(lock_options),
    .legacy = FROM_LEGACY(legacy_lock_part),
    .args_min = 1,
    .args_max = 1,
    .function = lock_function,
};

const command unlock_row = {
    .name = "unlock",
    .usage = "KEY TOKEN [--rest D]",
    .help = "release a lock that \"lock\" acquired",
    .statuses = (const status_row[]){{STATUS_OK, "released",
                                      "released, and with *--rest* it rests"},
                                     {STATUS_NOT_HELD, "no longer held", NULL},
                                     {STATUS_HELD_BY_ANOTHER, "held by another client", NULL},
                                     {0, NULL, NULL}},
    .options = unlock_table,
    .defaults = &defaults,
    .size = sizeof(lock_options),
    .legacy = FROM_LEGACY(legacy_lock_part),
    .args_min = 2,
    .args_max = 2,
    .function = unlock_function,
};

const command extend_row = {
    .name = "extend",
    .usage = "KEY TOKEN --ttl D",
    .help = "extend the lifetime of a lock that \"lock\" acquired",
    .statuses = (const status_row[]){{STATUS_OK, "extended", NULL},
                                     {STATUS_NOT_HELD, "no longer held", NULL},
                                     {STATUS_HELD_BY_ANOTHER, "held by another client", NULL},
                                     {0, NULL, NULL}},
    .options = extend_table,
    .defaults = &defaults,
    .size = sizeof(lock_options),
    .legacy = FROM_LEGACY(legacy_lock_part),
    .args_min = 2,
    .args_max = 2,
    .function = extend_function,
};

const command check_row = {
    .name = "check",
    .usage = "[options] KEY",
    .help = "report whether a lock is held, and by whom",
    .statuses = (const status_row[]){{STATUS_FREE, "free", NULL},
                                     {STATUS_HELD, "held, or it rests", NULL},
                                     {0, NULL, NULL}},
    .members = (const members_row[]){{"look", members_of_look},
                                     {"waiter", members_of_waiter},
                                     {"check", members_of_check},
                                     {NULL, NULL}},
    .options = check_table,
    .defaults = &defaults,
    .size = sizeof(lock_options),
    .legacy = FROM_LEGACY(legacy_lock_part),
    .args_min = 1,
    .args_max = 1,
    .function = check_function,
};
