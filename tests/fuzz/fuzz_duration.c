/*
 * Durations and options as people type them. The input is an argument list, with a NUL after each
 * argument; its first byte says which of the ways to parse it are on. The byte 1 stands for a
 * secret, which no message may show when it was the value of a text option.
 */

/*
 * It asserts:
 * - A duration is accepted exactly when it is digits and a unit within 292 years, with the right value. It reads back
 *   from its milliseconds.
 * - Options: values are in range and from the list. Words and command are the list's own arguments in their order.
 * - A refusal is status 64 and one printable line. It never shows the value of a text option, nor of a misspelled one.
 */
#include "fuzz.h"

#include "base/duration.h"
#include "base/optparse.h"
#include "base/tool.h"

#define ARGS_MAX 24
#define TEXT_SIZE 4096
#define SECRET "qZ7secret" /* no other Z is let in */

static char said[4096];
static size_t said_n;

/* In the place of the tool's, which writes to stderr. */
void say_line(const char *line, size_t n) {
    MUST(said_n + n < sizeof said);
    memcpy(said + said_n, line, n);
    said_n += n;
    said[said_n] = '\0';
}

/* ---- durations ------------------------------------------------------------------------------- */

/* Milliseconds in one of `unit`, or 0. */
static double unit_in_ms(const char *unit) {
    static const char *const names[] = {"ms", "s", "m", "h", "d"};
    static const double ms[] = {1, 1e3, 6e4, 36e5, 864e5};
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        if (strcmp(unit, names[i]) == 0)
            return ms[i];
    return 0;
}

static void check_shown(int64_t ms) {
    char shown[DURATION_SHOWN], why[DURATION_WHY], again[32];
    MUST(show_ms(shown, ms) == shown && is_line(shown, sizeof shown));
    (void)snprintf(again, sizeof again, "%lldms", (long long)ms);
    MUST(duration_parse(again, why) == ms);
}

static void check_duration(const char *text) {
    char why[DURATION_WHY];
    size_t digits = strspn(text, "0123456789");
    double unit = unit_in_ms(text + digits), value = unit > 0 ? strtod(text, NULL) * unit : 0;
    memset(why, 0xa5, sizeof why);
    int64_t ms = duration_parse(text, why);
    if (ms < 0) {
        MUST(ms == -1 && why[0] && is_line(why, sizeof why));
        MUST(digits == 0 || unit == 0 || value > 0.999999 * (double)DURATION_MAX_MS);
        return;
    }
    MUST(digits > 0 && unit > 0 && ms <= DURATION_MAX_MS);
    MUST((double)ms >= value * 0.999999 && (double)ms <= value * 1.000001);
    check_shown(ms);
}

/* ---- options --------------------------------------------------------------------------------- */

typedef struct {
    const char *text, *file;
    int64_t ttl_ms, wait_ms, watch_ms;
    int number, word;
    bool flag, other, help;
} values;

#define AT(member) offsetof(values, member)

static const opt own[] = {
    {'t', "ttl", OPT_DURATION, AT(ttl_ms), "D", "", 0, 0},
    {'w', "wait", OPT_DURATION, AT(wait_ms), "D", "", 0, 0},
    {0, "watch", OPT_EVERY, AT(watch_ms), "[=D]", "", 2000, 0},
    {'n', "no-wait", OPT_FLAG, AT(flag), NULL, "", 0, 0},
    {'E', "exit-code", OPT_NUMBER, AT(number), "N", "", -3, 255},
    {0, "on-lost", OPT_CHOICE, AT(word), "term|kill|continue", "", 0, 0},
    {'v', "verbose", OPT_FLAG, AT(other), NULL, "", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

static const opt global[] = {
    {'u', "url", OPT_TEXT, AT(text), "URL", "", 0, 0},
    {0, "password-file", OPT_TEXT, AT(file), "FILE", "", 0, 0},
    {'h', "help", OPT_FLAG, AT(help), NULL, "", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

typedef struct {
    char text[TEXT_SIZE];
    char *argv[ARGS_MAX + 1], *given[ARGS_MAX + 1]; /* the parser moves pointers about in argv */
    int argc, secrets;
} arguments;

static void split(arguments *a, input *in) {
    size_t n = 0;
    a->argc = a->secrets = 0;
    while (in->n > 0 && a->argc < ARGS_MAX && n + 1 < sizeof a->text) {
        a->argv[a->argc++] = a->text + n;
        for (uint8_t c; in->n > 0 && (c = in_byte(in)) != 0;) {
            if (n + sizeof SECRET + 1 >= sizeof a->text)
                continue;
            if (c == 1) {
                memcpy(a->text + n, SECRET, sizeof SECRET - 1);
                n += sizeof SECRET - 1;
                a->secrets++;
            } else {
                a->text[n++] = (char)(c == 'Z' ? 'z' : c);
            }
        }
        a->text[n++] = '\0';
    }
    a->argv[a->argc] = NULL;
    memcpy(a->given, a->argv, sizeof a->given);
}

/* Which of the arguments given it is; the number of them for none. */
static int place(const arguments *a, const char *arg) {
    int i = 0;
    while (i < a->argc && a->given[i] != arg)
        i++;
    return i;
}

static bool is_part(const arguments *a, const char *text) {
    return !text || (text >= a->text && text < a->text + sizeof a->text);
}

static void check_values(const arguments *a, const values *v) {
    MUST(is_part(a, v->text) && is_part(a, v->file));
    MUST(v->ttl_ms >= -1 && v->ttl_ms <= DURATION_MAX_MS);
    MUST(v->wait_ms >= -1 && v->wait_ms <= DURATION_MAX_MS);
    MUST(v->watch_ms >= -1 && v->watch_ms <= DURATION_MAX_MS);
    MUST(v->number >= -3 && v->number <= 255);
    MUST(v->word >= 0 && v->word <= 2);
}

/* The words are arguments that were given, in their order, and the command is the tail. */
static void check_operands(const arguments *a, const opt_tables *t, const operands *o) {
    int last = -1;
    MUST(o->count >= 0 && o->count <= a->argc);
    for (int i = 0; i < o->count; i++) {
        int at = place(a, o->word[i]);
        MUST(at > last && at < a->argc);
        last = at;
    }
    MUST(!o->command || t->runs);
    if (!o->command)
        return;
    int n = 0;
    while (o->command[n])
        n++;
    MUST(n < a->argc && strcmp(a->given[a->argc - n - 1], "--") == 0);
    for (int i = 0; i < n; i++)
        MUST(o->command[i] == a->given[a->argc - n + i]);
}

/* Is the one secret the value of a text option, or of one that is misspelled: --ulr=SECRET? */
static bool is_hidden(const arguments *a, const values *v) {
    if (a->secrets != 1)
        return false;
    if ((v->text && strstr(v->text, SECRET)) || (v->file && strstr(v->file, SECRET)))
        return true;
    for (int i = 0; i < a->argc; i++) {
        const char *arg = a->given[i], *equals = strchr(arg, '=');
        if (!strstr(arg, SECRET))
            continue;
        bool shown = strncmp(arg, "--ttl", 5) == 0 || strncmp(arg, "--wait", 6) == 0 ||
                     strncmp(arg, "--watch", 7) == 0 ||
                     (i > 0 && a->given[i - 1][0] == '-'); /* it may be a duration */
        return strncmp(arg, "--", 2) == 0 && equals && equals < strstr(arg, SECRET) && !shown;
    }
    return false;
}

static void check_usage(const arguments *a, const values *v, int status) {
    static const char start[] = "tidelock: ";
    MUST(status == STATUS_USAGE);
    MUST(said_n > sizeof start && memcmp(said, start, sizeof start - 1) == 0);
    for (size_t i = 0; i + 1 < said_n; i++)
        MUST((unsigned char)said[i] >= ' ' && said[i] != 0x7f);
    MUST(said[said_n - 1] == '\n');
    MUST(!is_hidden(a, v) || !strstr(said, SECRET));
}

static void check_options(arguments *a, uint8_t how) {
    values v = {.ttl_ms = -1, .wait_ms = -1, .watch_ms = -1};
    opt_tables t = {.who = how & 1 ? "run" : NULL,
                    .filled = {{how & 2 ? own : global, &v}, {how & 2 ? global : NULL, &v}},
                    .stop_at_word = how & 4,
                    .runs = how & 8};
    operands o;
    said_n = 0;
    int status = opt_parse(&t, a->argc, a->argv, &o);
    check_values(a, &v);
    if (status) {
        check_usage(a, &v, status);
        return;
    }
    MUST(said_n == 0);
    MUST(a->argv[a->argc] == NULL);
    check_operands(a, &t, &o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static arguments a;
    char shown[KEY_SHOWN];
    input in = {data, size};
    uint8_t how = in_byte(&in);
    split(&a, &in);
    for (int i = 0; i < a.argc; i++) {
        check_duration(a.argv[i]);
        MUST(show_key(shown, a.argv[i]) == shown && strnlen(shown, sizeof shown) < sizeof shown);
    }
    check_options(&a, how);
    return 0;
}
