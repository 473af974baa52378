/*
 * tidelock break: removes a lock that somebody else holds, after asking. It removes the lock that was
 * shown, and no other that may have come meanwhile.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report.h"
#include "tool.h"

enum { STATUS_NOTHING = 1, STATUS_ANOTHER = 2 };

typedef struct {
    bool yes;
    legacy_options legacy;
} break_options;

static const break_options defaults = {.legacy = LEGACY_DEFAULTS};

#define AT(member) offsetof(break_options, member)
static const opt options[] = {
    {'y', "yes", OPT_FLAG, AT(yes), NULL, "don't ask", 0, 0},
    LEGACY_ROWS(AT(legacy)){0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

static bool confirmed(const char *shown, const char *who, const char *end) {
    char answer[16];

    (void)fprintf(stderr, "%s is held by %s, %s.\nWhoever has it may still work. Remove it? [y/N] ",
                  shown, who, end);
    (void)fflush(stderr);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int broke(const server *s, tl_err code, const char *shown, const char *who,
                 const tl_error *err) {
    switch (code) {
    case TL_OK: say("%s: removed; it was held by %s", shown, who); return STATUS_OK;
    case TL_EEXPIRED: return fail(STATUS_NOTHING, "%s: nobody holds it any more", shown);
    case TL_ETAKEN: return fail(STATUS_ANOTHER, "%s: another has it by now; not removed", shown);
    default: return fail_as(s, err);
    }
}

static int break_with(const server *s, tl_client *client, const char *key, bool yes) {
    tl_lock_info info = {.size = sizeof info};
    char shown[KEY_SHOWN], who[HOLDER_SHOWN], end[REPORT_END];
    tl_error err;

    tl_err code = tl_client_look(client, key, strlen(key), &info, &err);
    if (code)
        return fail_as(s, &err);
    (void)show_key(shown, key);
    if (!info.held && !info.value[0])
        return fail(STATUS_NOTHING, "%s: nobody holds it", shown);
    (void)report_who(who, &info);
    (void)report_end(end, &info);
    if (!yes && !confirmed(shown, who, end))
        return fail(STATUS_NOTHING, "%s: not removed", shown);
    code = tl_client_break(client, key, strlen(key), &info, &err);
    return broke(s, code, shown, who, &err);
}

static int break_function(const server *s, const void *given, const operands *words) {
    const break_options *o = given;
    tl_client *client;

    if (!o->yes && !isatty(STDIN_FILENO))
        return fail(STATUS_USAGE, "break: there is nobody to ask: say --yes");
    if (o->legacy.strict)
        return fail(STATUS_USAGE, "break: --strict: what was seen can't be compared without EVAL");
    int status = server_open(s, "break", NULL, &o->legacy, &client);
    if (status)
        return status;
    status = break_with(s, client, words->word[0], o->yes);
    tl_client_close(client);
    return status;
}

const command break_row = {
    .name = "break",
    .usage = "[options] KEY",
    .help = "remove a lock that another holds",
    .notes = "Exit status: 0 removed, 1 nobody held it or the answer was no, 2 the lock changed "
             "hands meanwhile.\n",
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .words_min = 1,
    .words_max = 1,
    .function = break_function,
};
