/*
 * Turns a server's error into a message. A name is taken from an error only if it can be nothing but a
 * command's. Servers before 7.2 don't say which command of a script was rejected, but in which line. So each
 * line of our scripts calls one command at most.
 */
#include "wire/refusal.h"

#include <stdio.h>

#include "ground/guard.h"
#include "wire/script.h"

#define NAME_MAX 32 /* bytes of a command's name with its subcommand */
#define SHA1_SIZE 40

/* A server that doesn't know a command repeats its arguments after this text. */
tl_bytes tl__refusal_own(tl_bytes error) {
    return tl__bytes_before(error, ", with args");
}

/* ---- which command ------------------------------------------------------------------------------ */

static bool is_of_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '|' ||
           c == '-' || c == '_' || c == '.';
}

/* The name at the start of the text, if `end` follows it; else n is 0. */
static tl_bytes name_at(tl_bytes text, char end) {
    size_t n = 0;
    while (n < text.n && n <= NAME_MAX && is_of_name(text.p[n]))
        n++;
    return n < text.n && n <= NAME_MAX && text.p[n] == end ? tl__bytes(text.p, n) : (tl_bytes){0};
}

static tl_bytes line_of(tl_bytes text, int64_t number) {
    for (; number > 1 && text.n > 0; number--)
        (void)tl__bytes_take(&text, '\n');
    return tl__bytes_take(&text, '\n');
}

static tl_bytes digits_at(tl_bytes text) {
    size_t n = 0;
    while (n < text.n && text.p[n] >= '0' && text.p[n] <= '9')
        n++;
    return tl__bytes(text.p, n);
}

/* "... script: SHA1, on @user_script:LINE."
 * before 7.0: "... (call to f_SHA1): @user_script:LINE: ..." */
static tl_bytes called_in_script(tl_bytes error) {
    tl_bytes sha1 = tl__bytes_after(error, " script: ");
    int64_t line;
    if (!sha1.p)
        sha1 = tl__bytes_after(error, "(call to f_");
    if (sha1.n < SHA1_SIZE ||
        !tl__bytes_to_int(digits_at(tl__bytes_after(sha1, "@user_script:")), &line))
        return (tl_bytes){0};
    for (tl_script s = 0; s < TL_SCRIPTS; s++)
        if (memcmp(sha1.p, tl__script_sha1(s).p, SHA1_SIZE) == 0)
            return name_at(tl__bytes_after(line_of(tl__script_text(s), line), "call('"), '\'');
    return (tl_bytes){0};
}

/* Did a line of our scripts raise it? Valkey 9.1 names the line, and no script. */
static bool is_raised(tl_bytes error) {
    return called_in_script(error).n > 0 || tl__bytes_has(error, " script: on @user_script:");
}

/* The command in the reply of a script that called it with pcall: "... (COMMAND)". */
static tl_bytes called_at_end(tl_bytes error) {
    size_t open = error.n;
    while (open > 0 && error.p[open - 1] != '(')
        open--;
    tl_bytes name = name_at(tl__bytes(error.p + open, error.n - open), ')');
    return open > 0 && open + name.n + 1 == error.n ? name : (tl_bytes){0};
}

static tl_bytes command_in(tl_bytes error) {
    /* servers from 6.0 on; in scripts from 7.2 on */
    tl_bytes name = name_at(tl__bytes_after(error, " run the '"), '\'');
    if (GUARD(command_in_script) && name.n == 0)
        name = called_in_script(error);
    return name.n ? name : called_at_end(error);
}

/* ---- the message -------------------------------------------------------------------------------- */

tl_bytes tl__refusal_of_command(char to[TL_REFUSAL_SIZE], tl_bytes command) {
    char name[NAME_MAX + 1];
    size_t n = command.n < NAME_MAX ? command.n : NAME_MAX;
    for (size_t i = 0; i < n; i++) /* in lower case, as in ACL rules */
        name[i] = (char)(command.p[i] | (command.p[i] >= 'A' && command.p[i] <= 'Z' ? 0x20 : 0));
    name[n] = '\0';
    (void)snprintf(to, TL_REFUSAL_SIZE,
                   "NOPERM: the user may not run '%s': the permission +%s is missing", name, name);
    return tl__bytes_of(to);
}

static tl_bytes of_permission(char to[TL_REFUSAL_SIZE], tl_bytes error) {
    tl_bytes command = command_in(error);
    const char *message = "a permission of the user is missing";
    if (tl__bytes_has(error, "channel"))
        message =
            "the user may not access one of the channels: the permission &*tidelock* is missing";
    else if (GUARD(keys_are_named) && tl__bytes_has(error, " key"))
        message = "the user may not access one of the keys: a lock needs its own and ~*tidelock*";
    else if (command.n > 0)
        return tl__refusal_of_command(to, command);
    (void)snprintf(to, TL_REFUSAL_SIZE, "NOPERM: %s", message);
    return tl__bytes_of(to);
}

bool tl__is_no_permission(tl_bytes error) {
    tl_bytes own = tl__refusal_own(error);
    return tl__bytes_starts(own, "NOPERM") ||
           tl__bytes_has(own, "The user executing the script can't ") ||
           tl__bytes_has(own, "ACL failure in script");
}

/* The node of a cluster names the node that has the key, or will soon. A name is cut, so that the rest of the
 * message fits. */
static tl_bytes of_elsewhere(char to[TL_REFUSAL_SIZE], tl_bytes error) {
    char node[TL_REFUSAL_SIZE / 2];
    tl__bytes_print(node, sizeof node, error);
    (void)snprintf(to, TL_REFUSAL_SIZE,
                   "%s: another node of the cluster has the key: give the URL as redis+cluster://",
                   node);
    return tl__bytes_of(to);
}

tl_bytes tl__refusal_message(char to[TL_REFUSAL_SIZE], tl_bytes error) {
    if (tl__is_no_permission(error))
        return of_permission(to, error);
    if (tl__bytes_starts(error, "MOVED ") || tl__bytes_starts(error, "ASK "))
        return of_elsewhere(to, error);
    tl_bytes message = tl__refusal_own(error);
    if (tl__bytes_has(error, "wrong kind of value") && is_raised(error))
        message = TL_LITERAL(
            "WRONGTYPE: a key beside the lock's (tidelock:{KEY}, one that begins so, the register of "
            "its slot) is of another type and not tidelock's: delete it");
    if (tl__bytes_has(error, "a non local key"))
        message = TL_LITERAL("a key's slot has no master, or is being moved");
    if (tl__bytes_has(error, "while the cluster is down"))
        message = TL_LITERAL("CLUSTERDOWN: the cluster is down");
    if (tl__bytes_starts(error, "WRONGPASS"))
        message = TL_LITERAL("WRONGPASS: wrong user or password");
    if (tl__bytes_has(error, "Protocol error: unauthenticated ") ||
        tl__bytes_has(error, "ERR operation not permitted"))
        message = TL_LITERAL("NOAUTH: the server asks for a password");
    if (message.n == 0)
        message = TL_LITERAL("an error without text");
    tl__bytes_print(to, TL_REFUSAL_SIZE, message);
    return tl__bytes_of(to);
}
