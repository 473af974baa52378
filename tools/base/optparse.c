/*
 * The parser of options. It knows no command: rows say which options exist and where their values go. Every
 * error is one line that names the option as it was typed, and never repeats a value that
 * might be a secret.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/optparse.h"
#include "base/suggest.h"
#include "base/tool.h"

/* The option that is being parsed, as it was typed, and the rest of its argument. */
typedef struct {
    const opt *row;
    void *values;
    char shown[64];
    const char *value; /* NULL: none yet */
} found;

static int refuse(const opt_tables *tables, const char *what, const char *why) {
    if (tables->who)
        return fail(STATUS_USAGE, "%s: %s: %s", tables->who, what, why);
    return fail(STATUS_USAGE, "%s: %s", what, why);
}

static bool is_option(const opt *row) {
    return row->kind != OPT_HEADING && row->kind != OPT_RARE;
}

static const opt *row_of(const opt *table, char letter, const char *name, size_t name_len) {
    for (const opt *row = table; row && row->name; row++) {
        if (!is_option(row))
            continue;
        if (letter && row->letter == letter)
            return row;
        if (!letter && strlen(row->name) == name_len && memcmp(row->name, name, name_len) == 0)
            return row;
    }
    return NULL;
}

static bool find(const opt_tables *tables, char letter, const char *name, size_t name_len,
                 found *found) {
    for (const opt_filled *at = tables->filled; at->table; at++) {
        found->row = row_of(at->table, letter, name, name_len);
        found->values = at->values;
        if (found->row)
            return true;
    }
    return false;
}

/* Names of options in other tools. One is suggested only where the command has the option. */
static const synonym synonyms[] = {
    {"timeout", "wait"},
    {"wait-timeout", "wait"},
    {"nonblock", "no-wait"},
    {"nb", "no-wait"},
    {"try", "no-wait"},
    {"lifetime", "ttl"},
    {"expire", "ttl"},
    {"expiry", "ttl"},
    {"lease", "ttl"},
    {"lock-timeout", "ttl"},
    {"server", "url"},
    {"host", "url"},
    {"redis", "url"},
    {"uri", "url"},
    {"password", "password-file"},
    {"pass", "password-file"},
    {"cacert", "tls-ca"},
    {"ca", "tls-ca"},
    {"cafile", "tls-ca"},
    {"cert", "tls-cert"},
    {"sni", "tls-name"},
    {"loop", "forever"},
    {"restart", "forever"},
    {"owner", "name"},
    {"interval", "every"},
    {"debug", "verbose"},
    {"quiet-period", "quiet"},
    {"max-hold", "longest-hold"},
    {NULL, NULL},
};

/* The name of the option that was probably meant, or NULL. */
static const char *meant(const opt_tables *tables, const char *name) {
    const char *other = suggest_synonym(synonyms, name);
    suggestion nearest = suggest_begin(name);

    for (const opt_filled *at = tables->filled; at->table; at++) {
        if (other && row_of(at->table, 0, other, strlen(other)))
            return other;
        for (const opt *row = at->table; row->name; row++)
            if (is_option(row))
                suggest_offer(&nearest, row->name);
    }
    return nearest.best;
}

static int unknown(const opt_tables *tables, const char *shown) {
    const char *name = strncmp(shown, "--", 2) == 0 ? meant(tables, shown + 2) : NULL;
    const char *who = tables->who ? tables->who : "";

    if (name)
        return fail(STATUS_USAGE, "%s%sunknown option %s; did you mean --%s?", who,
                    *who ? ": " : "", shown, name);
    return fail(STATUS_USAGE, "%s%sunknown option %s; see: tidelock %s%s--help-all", who,
                *who ? ": " : "", shown, who, *who ? " " : "");
}

static int number(const opt_tables *tables, const found *found, int *ret) {
    char why[64];
    char *end;

    errno = 0;
    long n = strtol(found->value, &end, 10);
    if (end == found->value || *end || errno || n < found->row->min || n > found->row->max) {
        (void)snprintf(why, sizeof why, "a number from %d to %d is needed", found->row->min,
                       found->row->max);
        return refuse(tables, found->shown, why);
    }
    *ret = (int)n;
    return 0;
}

static int choice(const opt_tables *tables, const found *found, int *ret) {
    size_t len = strlen(found->value);
    const char *word = found->row->arg;
    char why[128];

    for (int i = 0;; i++) {
        size_t word_len = strcspn(word, "|");
        if (len == word_len && memcmp(word, found->value, len) == 0) {
            *ret = i;
            return 0;
        }
        if (word[word_len] == '\0')
            break;
        word += word_len + 1;
    }
    (void)snprintf(why, sizeof why, "one of %s is needed", found->row->arg);
    return refuse(tables, found->shown, why);
}

static int duration(const opt_tables *tables, const found *found, int64_t *ret) {
    char why[DURATION_WHY];
    char what[128];
    int64_t ms = duration_parse(found->value, why);

    if (ms < 0) {
        (void)snprintf(what, sizeof what, "%s %.40s", found->shown, found->value);
        return refuse(tables, what, why);
    }
    *ret = ms;
    return 0;
}

static int collect(const opt_tables *tables, const found *found, opt_texts *ret) {
    if (ret->count == OPT_TEXTS_MAX)
        return refuse(tables, found->shown, "at most 32 may be given");
    ret->text[ret->count++] = found->value;
    return 0;
}

static bool is_bare(const opt *row) {
    return row->kind == OPT_FLAG || row->kind == OPT_COUNT;
}

/* Its value, if it has one, follows a '='. */
static bool takes_none(const opt *row) {
    return is_bare(row) || row->kind == OPT_EVERY || row->kind == OPT_MAYBE;
}

/* A value in argv, which others see in the list of processes. */
static void wipe(char *value) {
    if (value)
        explicit_bzero(value, strlen(value));
}

static int store(const opt_tables *tables, const found *found) {
    void *at = (char *)found->values + found->row->offset;

    switch (found->row->kind) {
    case OPT_FLAG: *(bool *)at = true; return 0;
    case OPT_COUNT: ++*(int *)at; return 0;
    case OPT_SECRET:
        wipe(*(char **)at);
        *(const char **)at = found->value;
        return 0;
    case OPT_TEXT: *(const char **)at = found->value; return 0;
    case OPT_DURATION: return duration(tables, found, at);
    case OPT_EVERY:
        if (found->value)
            return duration(tables, found, at);
        *(int64_t *)at = found->row->min;
        return 0;
    case OPT_MAYBE: *(const char **)at = found->value ? found->value : ""; return 0;
    case OPT_TEXTS: return collect(tables, found, at);
    case OPT_NUMBER: return number(tables, found, at);
    case OPT_CHOICE: return choice(tables, found, at);
    case OPT_HEADING:
    case OPT_RARE: break;
    }
    return 0;
}

/* Give the option its value: what follows the '=', else the next argument. */
static int finish(const opt_tables *tables, found *found, int argc, char **argv, int *at) {
    char why[160];

    if (is_bare(found->row) && found->value)
        return refuse(tables, found->shown, "it takes no value");
    if (!takes_none(found->row) && !found->value) {
        if (*at + 1 >= argc) {
            (void)snprintf(why, sizeof why, "its value is missing: %s %.40s", found->shown,
                           found->row->arg);
            return refuse(tables, found->shown, why);
        }
        found->value = argv[++*at];
    }
    return store(tables, found);
}

static int long_option(const opt_tables *tables, int argc, char **argv, int *at) {
    const char *name = argv[*at] + 2;
    size_t len = strcspn(name, "=");
    found found = {.value = name[len] ? name + len + 1 : NULL};

    (void)snprintf(found.shown, sizeof found.shown, "--%.*s", len > 40 ? 40 : (int)len, name);
    if (!find(tables, 0, name, len, &found))
        return unknown(tables, found.shown);
    return finish(tables, &found, argc, argv, at);
}

/* One or more letters; the value of one that needs a value is the rest of the argument, if there is any. */
static int letters(const opt_tables *tables, int argc, char **argv, int *at) {
    int status = 0;

    for (const char *p = argv[*at] + 1; *p && status == 0; p++) {
        found found = {.value = NULL};
        (void)snprintf(found.shown, sizeof found.shown, "-%c", *p);
        if (!find(tables, *p, NULL, 0, &found))
            return unknown(tables, found.shown);
        if (!is_bare(found.row) && p[1])
            found.value = p + 1;
        status = finish(tables, &found, argc, argv, at);
        if (!is_bare(found.row))
            break;
    }
    return status;
}

/* "run -- KEY -- COMMAND" is how a key that begins with '-' is given. */
static bool key_follows(const operands *ret, int argc, char **argv, int at) {
    return ret->count == 0 && at + 2 < argc && strcmp(argv[at + 2], "--") == 0;
}

/* A command has one word, its key: a second word is probably the command that it should run. */
static int second_word(const opt_tables *tables, int argc, char **argv, int at) {
    for (int i = at + 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return 0;
    return fail(STATUS_USAGE, "%s: -- is missing before the command: tidelock %s KEY -- COMMAND",
                tables->who, tables->who);
}

int opt_parse(const opt_tables *tables, int argc, char **argv, operands *ret) {
    bool options = true;

    *ret = (operands){.word = argv};
    for (int i = 0; i < argc; i++) {
        int status = 0;
        if (strcmp(argv[i], "--") == 0 && (options || tables->runs)) {
            if (tables->runs && !key_follows(ret, argc, argv, i)) {
                ret->command = argv + i + 1;
                break;
            }
            options = false;
        } else if (!options || argv[i][0] != '-' || argv[i][1] == '\0') {
            if (tables->stop_at_word) {
                ret->word = argv + i;
                ret->count = argc - i;
                return 0;
            }
            status = tables->runs && ret->count == 1 ? second_word(tables, argc, argv, i) : 0;
            ret->word[ret->count++] = argv[i];
        } else {
            status = argv[i][1] == '-' ? long_option(tables, argc, argv, &i)
                                       : letters(tables, argc, argv, &i);
        }
        if (status)
            return status;
    }
    return 0;
}

#define HELP_AT 30 /* the column where the help of an option begins */

void opt_print(FILE *out, int at, const char *text) {
    int used = at;

    while (*text) {
        int len = (int)strcspn(text, " ");
        if (used > at && used + 1 + len > OPT_COLUMNS) {
            (void)fprintf(out, "\n%*s", at, "");
            used = at;
        }
        used += fprintf(out, "%s%.*s", used > at ? " " : "", len, text);
        text += len;
        text += strspn(text, " ");
    }
    (void)fputc('\n', out);
}

static void help_of(const opt *row, FILE *out) {
    char letter[8] = "    ";
    const char *between = takes_none(row) ? "" : row->arg ? " " : "";

    if (row->letter)
        (void)snprintf(letter, sizeof letter, "-%c, ", row->letter);
    int used = fprintf(out, "  %s--%s%s%s", letter, row->name, between, row->arg ? row->arg : "");
    if (used < HELP_AT)
        (void)fprintf(out, "%*s", HELP_AT - used, "");
    else
        (void)fprintf(out, "\n%*s", HELP_AT, "");
    opt_print(out, HELP_AT, row->help);
}

#define NUMBERS_MOST 10 /* up to so many values are listed one by one */

/* The help's name of the value, without "[=" and "]", as words. */
static void values_of(const opt *row, opt_values_fn more, FILE *out) {
    const char *arg = row->arg ? row->arg : "-";

    if (more && more(row->name, out))
        return;
    if (row->kind == OPT_NUMBER && row->max - row->min < NUMBERS_MOST) {
        for (int n = row->min; n <= row->max; n++)
            (void)fprintf(out, "%s%d", n > row->min ? " " : "", n);
        return;
    }
    for (const char *p = arg; *p; p++)
        if (!strchr("[=]", *p))
            (void)fputc(*p == '|' ? ' ' : *p, out);
}

void opt_lines(const char *command, const opt *table, opt_values_fn more, FILE *out) {
    for (const opt *row = table; row && row->name; row++) {
        if (!is_option(row))
            continue;
        char letter[3] = {'-', row->letter, '\0'};
        (void)fprintf(out, "option\t%s\t%s\t--%s\t%s\t", command, letter, row->name,
                      is_bare(row)      ? "none"
                      : takes_none(row) ? "maybe"
                                        : "needed");
        values_of(row, more, out);
        (void)fprintf(out, "\t%s\n", row->help);
    }
}

void opt_heads(const char *command, const char *part, const opt *table, FILE *out) {
    for (const opt *row = table; row && row->name; row++) {
        char letter[3] = {'-', row->letter, '\0'};
        if (is_option(row))
            (void)fprintf(out, "option\t%s\t%s\t%s\t--%s\t%s\t%s\n", command, part, letter,
                          row->name, row->arg ? row->arg : "-",
                          row->kind == OPT_CHOICE ? "choice" : "-");
    }
}

void opt_help(const opt *table, opt_extent extent, FILE *out) {
    bool begun = false;

    for (const opt *row = table; row && row->name; row++) {
        if (row->kind == OPT_RARE && extent == OPT_COMMON)
            return;
        if (row->kind == OPT_HEADING)
            (void)fprintf(out, "%s%s\n", begun ? "\n" : "", row->help);
        else if (is_option(row))
            help_of(row, out);
        begun = begun || row->kind != OPT_RARE;
    }
}
