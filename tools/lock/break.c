/*
 * tidelock break: removes a lock that another client holds, or ends its rest, after a question. It removes
 * only the lock that was shown, not one that was acquired meanwhile. Without --force it removes nothing that
 * looks like no lock, since a mistyped key may hold anything.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/report.h"
#include "base/tool.h"

enum { STATUS_NOTHING = 1, STATUS_ANOTHER = 2 };

typedef struct {
    bool yes, force;
} break_options;

static const break_options defaults = {.yes = false};

#define AT(member) offsetof(break_options, member)
static const opt options[] = {
    {'y', "yes", OPT_FLAG, AT(yes), NULL, "remove it without asking", 0, 0},
    {'f', "force", OPT_FLAG, AT(force), NULL, "also remove a string that looks like no lock", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

/* The key to be removed, as text. The value of a lock is not shown: it is the holder's token. */
typedef struct {
    tl_lock_info info;
    bool is_lock, blocks; /* blocks: on etcd, a key of another kind below the name */
    char key[KEY_SHOWN];
    char holds[HOLDER_SHOWN + sizeof((tl_lock_info *)0)->value]; /* "held by ...", "resting ..." */
    char end[HOLDER_SHOWN + 16]; /* "expires in ...", "last held by ..." */
} victim;

static void describe(victim *victim, const char *key) {
    const tl_lock_info *info = &victim->info;
    char who[HOLDER_SHOWN];

    (void)show_key(victim->key, key);
    if (info->rests)
        (void)snprintf(victim->end, sizeof victim->end, "last held by %s", report_who(who, info));
    else
        (void)report_end(victim->end, info);
    victim->is_lock = info->by_tidelock ||
                      info->protocol >= 0; /* a token, or a stamp of some dialect */
    victim->blocks = report_is_blocked(info);
    if (info->rests)
        (void)report_rest(victim->holds, info);
    else if (victim->is_lock)
        (void)snprintf(victim->holds, sizeof victim->holds, "held by %s", report_who(who, info));
    else if (victim->blocks)
        (void)snprintf(victim->holds, sizeof victim->holds, "%s", info->oddity);
    else
        (void)snprintf(victim->holds, sizeof victim->holds, "\"%s\"%s%s%s", info->value,
                       info->oddity[0] ? " (" : "", info->oddity, info->oddity[0] ? ")" : "");
}

static bool confirmed(const victim *victim) {
    char answer[16];

    if (victim->info.rests)
        (void)fprintf(stderr, "%s is %s, %s.\nEnd its rest? [y/N] ", victim->key, victim->holds,
                      victim->end);
    else if (victim->is_lock)
        (void)fprintf(stderr, "%s is %s, %s.\nThe holder may still be working. Remove it? [y/N] ",
                      victim->key, victim->holds, victim->end);
    else
        (void)fprintf(stderr, "%s is %s, %s.\nThis looks like no lock. Remove it? [y/N] ",
                      victim->key, victim->holds, victim->end);
    (void)fflush(stderr);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int broke(const server *where, tl_err code, const victim *victim, const tl_error *err) {
    switch (code) {
    case TL_OK:
        say(victim->blocks ? "%s: that key was removed; it was %s" : "%s: removed; it was %s",
            victim->key, victim->holds);
        return STATUS_OK;
    case TL_EEXPIRED:
        return fail(STATUS_NOTHING, "%s: it %s", victim->key,
                    victim->info.rests ? "rests no longer" : "is no longer held");
    case TL_ETAKEN:
        return fail(STATUS_ANOTHER, "%s: the holder changed meanwhile; not removed", victim->key);
    default: return fail_as(where, err);
    }
}

static int break_with(const server *where, tl_client *client, const char *key,
                      const break_options *options) {
    victim victim = {.info = {.size = sizeof victim.info}};
    tl_error err;

    tl_err code = tl_client_look(client, key, strlen(key), &victim.info, &err);
    if (code)
        return fail_as(where, &err);
    describe(&victim, key);
    if (!victim.info.held && !victim.info.value[0])
        return fail(STATUS_NOTHING, "%s: nobody holds it", victim.key);
    const char *other = report_other_type(&victim.info);
    if (other)
        return fail(STATUS_USAGE, "%s %s: it is never removed", victim.key, other);
    if (victim.blocks && !options->force)
        return fail(STATUS_USAGE,
                    "%s: not removed, since nobody holds it: it is %s, %s; --force removes that "
                    "key all the same",
                    victim.key, victim.holds, victim.end);
    if (!victim.is_lock && !options->force)
        return fail(STATUS_USAGE,
                    "%s: not removed, since it looks like no lock: %s, %s; --force "
                    "removes it all the same",
                    victim.key, victim.holds, victim.end);
    if (!options->yes && !confirmed(&victim))
        return fail(STATUS_NOTHING, "%s: not removed", victim.key);
    code = tl_client_break(client, key, strlen(key), &victim.info, &err);
    return broke(where, code, &victim, &err);
}

static int break_function(const server *where, const void *given, const operands *args) {
    const break_options *options = given;
    tl_client *client;

    if (!options->yes && !isatty(STDIN_FILENO))
        return fail(STATUS_USAGE, "break: no terminal to ask on: confirm with --yes");
    int status = server_open(where, "break", NULL, &client);
    if (status)
        return status;
    status = break_with(where, client, args->word[0], options);
    tl_client_close(client);
    return status;
}

const command break_row = {
    .name = "break",
    .usage = "[options] KEY",
    .help = "remove a lock that another client holds, or end its rest",
    .statuses =
        (const status_row[]){
            {STATUS_OK, "removed", NULL},
            {STATUS_NOTHING, "it was free or you answered no",
             "nobody held the lock, or the answer was no"},
            {STATUS_ANOTHER, "the holder changed meanwhile",
             "the lock changed hands meanwhile; not removed"},
            {STATUS_USAGE, NULL,
             "wrong usage, or the key holds no lock, or what doesn't look like one"},
            {STATUS_UNAVAILABLE, NULL,
             "the server was not reached; or it did not reply, and the lock may have been removed"},
            {STATUS_REFUSED, NULL, "the server refused, or runs no scripts (EVAL)"},
            {0, NULL, NULL}},
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .legacy = FROM_LEGACY(legacy_break_part),
    .args_min = 1,
    .args_max = 1,
    .function = break_function,
};
