/*
 * Functions that the machines share to read replies and to fill tl_out. Pure, as all of this room.
 */
#include "protocol/protocol.h"

#include <stdio.h>

#include "ground/assert.h"
#include "ground/guard.h"
#include "wire/refusal.h"

#define BACKOFF_MIN_MS 20
#define BACKOFF_MAX_MS 1000
#define PLACE_MAX 100 /* bytes of an address before a message */

tl_send *tl__out_send(tl_out *out, uint16_t ticket, tl_mono by) {
    tl_send *send = &out->send;
    out->sends++; /* a second send would be a mistake, which tests notice */
    send->ticket = ticket;
    send->count = send->native = send->to = 0;
    send->here = send->confirm = send->adopted = send->alone = false;
    send->asking = send->keeps = false;
    send->generation = 0;
    send->pin = NULL;
    send->by = by;
    return send;
}

int64_t tl__job_rest_ms(const tl_job *job, tl_mono now, int32_t drift_ppm) {
    int64_t passed_ns = tl__ns_until(job->release.rest_since, now);
    int64_t least_ns = tl__rate_least_ns(passed_ns, GUARD(rest_with_drift) * drift_ppm);
    int64_t left_ns = job->release.rest_ms * TL_NS_PER_MS - least_ns;
    return left_ns > 0 ? (left_ns - 1) / TL_NS_PER_MS + 1 : 0;
}

void tl__out_listen(tl_out *out, tl_bytes topic) {
    out->arm = true;
    out->armed = false;
    out->topic = topic;
    out->watched = out->token = (tl_bytes){0};
}

tl_bytes tl__out_copy(tl_out *out, tl_bytes a, tl_bytes b) {
    char *to = out->scratch + out->scratch_used;
    if (a.n)
        memcpy(to, a.p, a.n);
    if (b.n)
        memcpy(to + a.n, b.p, b.n);
    out->scratch_used = (uint16_t)(out->scratch_used + a.n + b.n);
    return tl__bytes(to, a.n + b.n);
}

tl_bytes tl__out_int(tl_out *out, int64_t v) {
    char text[TL_INT_SIZE];
    return tl__out_copy(out, tl__bytes_from_int(text, v), (tl_bytes){0});
}

tl_bytes tl__out_at(tl_out *out, int64_t us) {
    char text[TL_INT_SIZE];
    return tl__out_copy(out, TL_LITERAL("@"), tl__bytes_from_int(text, us));
}

void tl__out_message(tl_out *out, tl_bytes message) {
    tl__bytes_print(out->message, sizeof out->message, message);
}

void tl__out_refusal(tl_out *out, tl_bytes error, const tl_needer *who) {
    char message[TL_REFUSAL_SIZE];
    if (tl__refusal(error) == TL_EUNSUPPORTED)
        tl__lacks(out->message, sizeof out->message, error, who);
    else
        tl__out_message(out, tl__refusal_message(message, error));
}

void tl__out_place(tl_out *out, tl_bytes place) {
    char was[sizeof out->message];
    if (place.n == 0 || !out->message[0])
        return;
    memcpy(was, out->message, sizeof was);
    int n = place.n < PLACE_MAX ? (int)place.n : PLACE_MAX;
    (void)snprintf(out->message, sizeof out->message, "%.*s: %s", n, place.p, was);
}

tl_note *tl__out_note(tl_out *out, tl_note_kind kind, tl_lost_why why) {
    out->note[out->notes] = (tl_note){.kind = kind, .why = why};
    return &out->note[out->notes++];
}

void tl__out_time(tl_out *out, const tl_reply *reply, size_t i, const tl_event *event) {
    int64_t server_us;
    if (tl__reply_time(reply, i, &server_us))
        tl__out_server_us(out, server_us, event);
}

void tl__out_server_us(tl_out *out, int64_t server_us, const tl_event *event) {
    TL_ASSERT(event->kind == TL_REPLY);
    out->has_bracket = true;
    out->bracket = tl__bracket(server_us, event->asked.sent, event->now);
}

bool tl__is_unknown_command(tl_bytes error) {
    return !tl__from_script(error) && tl__bytes_has(error, "unknown command");
}

/* Valkey runs scripts by modules, from 9.1 on also Lua's. A server without that one knows EVAL and EVALSHA all
 * the same: EVALSHA finds no script, EVAL no engine. */
bool tl__is_without_engine(tl_bytes error) {
    return !tl__from_script(error) && tl__bytes_has(error, "Could not find scripting engine");
}

bool tl__runs_no_script(tl_bytes error) {
    return tl__is_unknown_command(error) ||
           (GUARD(engine_is_missed) && tl__is_without_engine(error));
}

bool tl__from_script(tl_bytes error) {
    return tl__bytes_has(error, "@user_script") ||
           (GUARD(script_of_2_6) && tl__bytes_has(error, "Error running script"));
}

static bool is_unknown_in_script(tl_bytes error) {
    return tl__bytes_has(error, "Unknown Redis command") || /* Valkey's: */
           tl__bytes_has(error, "Unknown command called from");
}

/* Is the error's code, its first word, one of these? Below 7.0 a script's error contains the error of its
 * command. An EXECABORT contains the error that ended the transaction. */
static bool has_code(tl_bytes error, const char *const *codes) {
    bool aborts = tl__bytes_starts(error, "EXECABORT");
    bool wrapped = GUARD(code_within_script) && (aborts || tl__from_script(error));
    size_t dash = error.n && error.p[0] == '-'; /* below 2.8, if a script passed the error on */
    tl_bytes rest = tl__bytes(error.p + dash, error.n - dash), code = tl__bytes_take(&rest, ' ');
    for (; *codes; codes++)
        if (tl__bytes_eq(code, tl__bytes_of(*codes)) ||
            (wrapped && tl__bytes_has_word(error, *codes)))
            return true;
    return false;
}

static bool is_code(tl_bytes error, const char *code) {
    const char *const codes[] = {code, NULL};
    return has_code(error, codes);
}

bool tl__is_not_local(tl_bytes error) {
    return tl__bytes_has(error, "a non local key");
}

bool tl__is_of_other_type(tl_bytes error) {
    return tl__bytes_has(error, "wrong kind of value");
}

/* Does the error ask for a login, without the code NOAUTH? Below 6.0 a client that connected before a
 * password was set must log in, too. Then a long request isn't even read: "ERR Protocol error:
 * unauthenticated multibulk length". Still older servers have no code for it. */
static bool is_no_login(tl_bytes error) {
    return tl__bytes_has(error, "Protocol error: unauthenticated ") ||
           tl__bytes_has(error, "ERR operation not permitted");
}

tl_err tl__refusal(tl_bytes error) {
    static const char *const denied[] = {"NOAUTH", "NOPERM", "WRONGPASS", NULL};
    static const char *const passing[] = {"LOADING",    "BUSY",        "MASTERDOWN", "TRYAGAIN",
                                          "OOM",        "CLUSTERDOWN", "READONLY",   "MISCONF",
                                          "UNKILLABLE", "NOREPLICAS",  NULL};
    if (!GUARD(try_again_passes) && is_code(error, "TRYAGAIN"))
        return TL_ESERVER;
    if (!GUARD(permission_is_denied) && tl__is_no_permission(error))
        return TL_ESERVER;
    if (!GUARD(moved_is_lasting) && (is_code(error, "MOVED") || is_code(error, "ASK")))
        return TL_EUNAVAILABLE;
    if (has_code(error, denied) || tl__is_no_permission(error) ||
        (GUARD(login_is_denied) && is_no_login(error)))
        return TL_EDENIED;
    bool full = tl__bytes_has(error, "used memory > 'maxmemory'"); /* below 2.6 without a code */
    bool down = tl__bytes_has(error, "while the cluster is down"); /* of a script without keys */
    if (has_code(error, passing) || full || down || tl__is_not_local(error))
        return TL_EUNAVAILABLE;
    bool lacks = tl__runs_no_script(error) || is_unknown_in_script(error);
    return GUARD(lacking_is_named) && lacks ? TL_EUNSUPPORTED : TL_ESERVER;
}

bool tl__is_of_server(tl_err code) {
    return code == TL_EUNAVAILABLE || code == TL_EELSEWHERE || code == TL_EDENIED ||
           code == TL_ESERVER || code == TL_EUNSUPPORTED;
}

/* ---- ends ------------------------------------------------------------------------------------ */

tl_status tl__end(void *machine, tl_err code, tl_bytes message, tl_out *out) {
    ((tl_result *)machine)->code = code;
    tl__out_message(out, message);
    return TL_END;
}

tl_status tl__end_malformed(void *machine, tl_out *out) {
    return tl__end(machine, TL_ESERVER, TL_LITERAL("malformed reply from the server"), out);
}

tl_status tl__end_cancelled(void *machine, tl_out *out) {
    return tl__end(machine, TL_ECANCELLED, TL_LITERAL("cancelled"), out);
}

tl_status tl__end_refused(void *machine, tl_bytes error, const tl_needer *who, tl_out *out) {
    ((tl_result *)machine)->code = tl__refusal(error);
    tl__out_refusal(out, error, who);
    return TL_END;
}

tl_status tl__end_failed(void *machine, const tl_event *event, bool in_doubt, tl_out *out) {
    TL_ASSERT(event->kind == TL_FAILED);
    bool reported = event->failed.why == TL_EDENIED || event->failed.why == TL_ENOMEM;
    bool passes = (event->failed.maybe_sent && !reported) || event->failed.why == TL_EELSEWHERE;
    tl_err code = in_doubt && event->failed.maybe_sent ? TL_EUNCERTAIN
                  : passes                             ? TL_EUNAVAILABLE
                                                       : event->failed.why;
    out->sys_errno = event->failed.sys_errno;
    return tl__end(machine, code, event->failed.message, out);
}

/* ---- what a server lacks --------------------------------------------------------------------- */

/* The command's name in the error, in quotation marks or, with some versions, in backquotes. */
static tl_bytes unknown_name(tl_bytes error) {
    size_t from = 0;
    while (from < error.n && error.p[from] != '\'' && error.p[from] != '`')
        from++;
    if (from == error.n)
        return TL_LITERAL("such command");
    const char *name = error.p + from + 1, *end = memchr(name, error.p[from], error.n - from - 1);
    return tl__bytes(name, end ? (size_t)(end - name) : 0);
}

/* The version of Redis that introduced a command; NULL: this server would have it. One that repeats the
 * arguments of an unknown command is at least 4.0: what is older is renamed there, or forbidden. */
static const char *since(tl_bytes name, tl_bytes error) {
    static const struct {
        const char *name, *version;
    } rows[] = {{"EVAL", "2.6"},    {"EVALSHA", "2.6"}, {"PEXPIRE", "2.6"}, {"PSETEX", "2.6"},
                {"PTTL", "2.6"},    {"SCAN", "2.8"},    {"TIME", "2.6"},    {"WAIT", "3.0"},
                {"WAITAOF", "7.2"}, {"WATCH", "2.2"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (tl__bytes_eq(name, tl__bytes_of(rows[i].name)))
            return tl__bytes_has(error, ", with args") && rows[i].version[0] < '4'
                       ? NULL
                       : rows[i].version;
    return NULL;
}

static bool is_eval(tl_bytes name) {
    return tl__bytes_eq(name, TL_LITERAL("EVAL")) || tl__bytes_eq(name, TL_LITERAL("EVALSHA"));
}

/* Write what the server has not, who needs it, why that is so, and what serves instead. */
static void say_lacking(char *to, size_t size, tl_bytes name, const tl_needer *who,
                        const char *why) {
    bool instead = who && who->instead && is_eval(name);
    (void)snprintf(to, size, "the server has no %.*s%s%s: %s%s%s", (int)name.n, name.p,
                   who ? ", which " : "", who ? who->needs : "", why, instead ? "; " : "",
                   instead ? who->instead : "");
}

void tl__lacks(char *to, size_t size, tl_bytes error, const tl_needer *who) {
    char name[32], why[64] = "it is renamed or forbidden there";
    if (tl__is_without_engine(error)) {
        say_lacking(to, size, TL_LITERAL("EVAL"), who,
                    "its Lua module is not loaded (loadmodule PATH/libvalkeylua.so)");
        return;
    }
    if (!tl__is_unknown_command(error)) {
        (void)snprintf(to, size,
                       "a script needs a command that the server lacks, or has renamed: "
                       "`tidelock doctor` finds out which");
        return;
    }
    tl__bytes_print(name, sizeof name, unknown_name(error));
    const char *version = since(tl__bytes_of(name), error);
    if (version)
        (void)snprintf(why, sizeof why, "Redis %s or newer, not renamed", version);
    say_lacking(to, size, tl__bytes_of(name), who, why);
}

bool tl__is_elsewhere(tl_bytes error) {
    static const char *const codes[] = {"READONLY", "MASTERDOWN", NULL};
    return has_code(error, codes);
}

bool tl__asks_elsewhere(tl_bytes error) {
    /* A replica; a replica without its master; a server that has just restarted; a master that its replicas
     * left. */
    static const char *const codes[] = {"READONLY", "MASTERDOWN", "LOADING", "NOREPLICAS", NULL};
    return has_code(error, codes);
}

uint64_t tl__random_next(uint64_t *random) {
    uint64_t x = *random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *random = x;
}

int64_t tl__random_between(uint64_t *random, int64_t least, int64_t most) {
    return least + (int64_t)(tl__random_next(random) % (uint64_t)(most - least + 1));
}

int64_t tl__backoff_ms(uint32_t failures, uint64_t *random) {
    uint32_t doublings = failures > 6 ? 6 : failures - 1;
    int64_t most = (int64_t)BACKOFF_MIN_MS << doublings;
    if (most > BACKOFF_MAX_MS)
        most = BACKOFF_MAX_MS;
    return tl__random_between(random, most / 2, most);
}
