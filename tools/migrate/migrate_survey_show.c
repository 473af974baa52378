/*
 * Text and JSON of a survey. Decides only what to show. Each number is of what was seen.
 */
#include <string.h>

#include "ground/glob.h"
#include "migrate/migrate_show.h"
#include "migrate/migrate_survey.h"

#define SHOWN_MOST 20 /* patterns and clients in the text; JSON has all */

/* ---- what was read ------------------------------------------------------------------------------- */

static void show_read(const survey *survey, FILE *out) {
    char took[DURATION_SHOWN], monitor[DURATION_SHOWN], all[40] = "";

    if (survey->keys_all >= 0 && !survey->whole)
        (void)snprintf(all, sizeof all, " of %lld", (long long)survey->keys_all);
    (void)fprintf(out, "survey of %s", survey->server);
    if (survey->masters != 1)
        (void)fprintf(out, ", %d masters", survey->masters);
    (void)fprintf(out, "\n  read %s%lld%s key%s%s%s in %s, %d a second at most",
                  survey->whole ? "all " : "about ", (long long)survey->keys_read, all,
                  migrate_plural(all[0] ? survey->keys_all : survey->keys_read),
                  survey->keys_given ? " for " : "", survey->keys_given ? survey->keys : "",
                  show_ms(took, survey->took_ms), survey->rate);
    if (survey->passes > 1)
        (void)fprintf(out, ", %lld times", (long long)survey->passes);
    if (survey->monitor_ms > 0)
        (void)fprintf(out, "; MONITOR for %s%s\n", show_ms(monitor, survey->monitor_ms),
                      survey->masters > 1 ? " in all, at one master after the other" : "");
    else
        (void)fprintf(out, "; no MONITOR\n");
    for (int i = 0; i < survey->unreads; i++)
        (void)fprintf(out, "  not read: %s\n", survey->unread[i]);
    if (!survey->whole)
        (void)fprintf(out, "  not read: all keys; give more time (--watch) or --rate\n");
}

/* ---- patterns ------------------------------------------------------------------------------------ */

static void show_samples(const char *what, const found_samples *samples, FILE *out) {
    char least[DURATION_SHOWN], most[DURATION_SHOWN];

    if (samples->count > 0)
        (void)fprintf(out, "    %s: %s to %s, in %lld sample%s\n", what,
                      show_ms(least, samples->least_ms), show_ms(most, samples->most_ms),
                      (long long)samples->count, migrate_plural(samples->count));
}

/* "java (or jedis-lock, node-ms, which look the same): 12, such as jobs:a" */
static void show_form(const found_form *form, FILE *out) {
    const char *others = strstr(form->dialects, ", ");
    int first = (int)strcspn(form->dialects, ",");

    (void)fprintf(out, "    dialect %.*s", first, form->dialects);
    if (others)
        (void)fprintf(out, " (or %s: the source decides)", others + 2);
    (void)fprintf(out, ": %lld, such as %s\n", (long long)form->count, form->example);
}

static const char *shown_pattern(char buf[NAMES_PATTERN], const found_family *family) {
    if (!*names_pattern(buf, &family->names))
        (void)snprintf(buf, NAMES_PATTERN, "(names without a common part)");
    return buf;
}

static void show_pattern(const found_family *family, FILE *out) {
    char pattern[NAMES_PATTERN], left[DURATION_SHOWN];
    found_samples lifetimes = found_lifetimes(family);

    (void)fprintf(out, "  %s\n    %lld stamp%s without a sidecar, %lld expired",
                  shown_pattern(pattern, family), (long long)family->stamps,
                  migrate_plural(family->stamps), (long long)family->over);
    if (family->left_most_ms > 0)
        (void)fprintf(out, "; the last ends in %s", show_ms(left, family->left_most_ms));
    if (family->takes)
        (void)fprintf(out, "; %lld SETNX and GETSET", (long long)family->takes);
    if (family->ours || family->tokens)
        (void)fprintf(out, "; %lld stamp%s of tidelock's, %lld token%s", (long long)family->ours,
                      migrate_plural(family->ours), (long long)family->tokens,
                      migrate_plural(family->tokens));
    (void)fputc('\n', out);
    for (int i = 0; i < family->forms; i++)
        show_form(&family->form[i], out);
    if (family->more_forms)
        (void)fprintf(out, "    and more dialects\n");
    if (family->odd)
        (void)fprintf(out, "    odd: %lld value%s: %s\n", (long long)family->odd,
                      migrate_plural(family->odd), family->oddity);
    show_samples("lifetime of a stamp", &lifetimes, out);
    show_samples("held", &family->holds, out);
    show_samples("still held after being found", &family->stays, out);
}

/* Others wrote the register: its pattern is shown without bytes that a terminal would act on. */
static const char *shown_keys(char buf[MIGRATE_KEYS_SIZE], const survey *survey) {
    tl__bytes_print(buf, MIGRATE_KEYS_SIZE, tl__bytes_of(survey->view->reg.keys));
    return buf;
}

static void show_patterns(const survey *survey, FILE *out) {
    char took[DURATION_SHOWN], keys[MIGRATE_KEYS_SIZE];
    int count = 0;

    (void)fprintf(out, "\nlegacy locks\n");
    for (int i = 0; i < survey->found.families; i++)
        if (survey_counts(&survey->found.family[i]) && count++ < SHOWN_MOST)
            show_pattern(&survey->found.family[i], out);
    if (count > SHOWN_MOST)
        (void)fprintf(out, "  and %d more pattern%s: --json has all\n", count - SHOWN_MOST,
                      migrate_plural(count - SHOWN_MOST));
    if (count == 0)
        (void)fprintf(
            out,
            "  none was seen in %lld key%s within %s; that doesn't show that there is none%s\n",
            (long long)survey->keys_read, migrate_plural(survey->keys_read),
            show_ms(took, survey->took_ms + survey->monitor_ms),
            survey->monitor_ms ? "" : ": only --monitor sees locks that are held for a moment");
    if (survey->still)
        (void)fprintf(out, "  %lld of a sample kept their stamp throughout\n",
                      (long long)survey->still);
    if (survey->calls >= 0)
        (void)fprintf(out, "  %lld SETNX and GETSET ran meanwhile, of any client on any key\n",
                      (long long)survey->calls);
    if (survey->outside)
        (void)fprintf(out,
                      "  %lld key%s, such as %s, fit no name of the register's keys %s: no step "
                      "looks at them\n",
                      (long long)survey->outside, migrate_plural(survey->outside),
                      survey->outside_key, shown_keys(keys, survey));
}

static void show_other(const found_family *family, FILE *out) {
    (void)fprintf(out, "%lld token%s, %lld stamp%s of tidelock's", (long long)family->tokens,
                  migrate_plural(family->tokens), (long long)family->ours,
                  migrate_plural(family->ours));
    if (family->odd)
        (void)fprintf(out, "; %lld odd, which no client of tidelock shares: %s",
                      (long long)family->odd, family->oddity);
    (void)fputc('\n', out);
}

static void show_others(const survey *survey, FILE *out) {
    char pattern[NAMES_PATTERN];
    int count = 0;

    for (int i = 0; i < survey->found.families; i++) {
        const found_family *family = &survey->found.family[i];
        if (survey_counts(family) || count++ >= SHOWN_MOST)
            continue;
        if (count == 1)
            (void)fprintf(out, "\nother keys\n");
        (void)fprintf(out, "  %s: ", shown_pattern(pattern, family));
        if (found_is_old(family))
            (void)fprintf(out,
                          "%lld time%s, all over for more than an hour: left over by a dead "
                          "service, or no lock%s\n",
                          (long long)family->stamps, migrate_plural(family->stamps),
                          migrate_plural(family->stamps));
        else
            show_other(family, out);
    }
    if (count > SHOWN_MOST)
        (void)fprintf(out, "  and %d more pattern%s: --json has all\n", count - SHOWN_MOST,
                      migrate_plural(count - SHOWN_MOST));
}

/* ---- clients ------------------------------------------------------------------------------------- */

static bool is_same_user(const heard_client *one, const heard_client *other) {
    return strcmp(one->host, other->host) == 0 && strcmp(one->row.name, other->row.name) == 0 &&
           strcmp(one->row.library, other->row.library) == 0 &&
           strcmp(one->row.version, other->row.version) == 0 &&
           strcmp(one->row.user, other->row.user) == 0;
}

/* Connections that differ only in their ports are one user; the first of them stands for all. */
typedef struct {
    const heard_client *first;
    int connections;
    int64_t takes;
} heard_user;

static bool read_user(const survey *survey, int at, heard_user *ret) {
    const heard_client *list = survey->heard.client;

    for (int i = 0; i < at; i++)
        if (is_same_user(&list[i], &list[at]))
            return false;
    *ret = (heard_user){.first = &list[at]};
    for (int i = at; i < survey->heard.clients; i++)
        if (is_same_user(&list[i], &list[at])) {
            ret->connections++;
            ret->takes += list[i].takes;
        }
    return true;
}

/* Calls `each` for the patterns of the keys that a user's connections were seen to lock. */
static void list_patterns(const survey *survey, const heard_user *user,
                          void (*each)(void *ctx, const char *pattern), void *ctx) {
    char pattern[NAMES_PATTERN];

    for (int f = 0; f < survey->found.families; f++) {
        bool fits = false;
        (void)names_pattern(pattern, &survey->found.family[f].names);
        for (int i = 0; i < survey->heard.clients && pattern[0]; i++) {
            const heard_client *client = &survey->heard.client[i];
            for (int k = 0; k < client->keys && is_same_user(client, user->first); k++)
                fits = fits || tl__glob_fits(tl__bytes_of(pattern), tl__bytes_of(client->key[k]));
        }
        if (fits)
            each(ctx, pattern);
    }
}

static void print_pattern(void *ctx, const char *pattern) {
    (void)fprintf(ctx, " %s", pattern);
}

static void show_user(const survey *survey, const heard_user *user, FILE *out) {
    const client_row *row = &user->first->row;

    (void)fprintf(out, "  %s", user->first->host);
    if (row->name[0])
        (void)fprintf(out, " called %s", row->name);
    if (row->library[0])
        (void)fprintf(out, " (%s %s)", row->library, row->version[0] ? row->version : "?");
    if (row->user[0])
        (void)fprintf(out, " as user %s", row->user);
    (void)fprintf(out, ": %d connection%s", user->connections, migrate_plural(user->connections));
    if (row->command[0])
        (void)fprintf(out, ", last command %s", row->command);
    else if (user->takes)
        (void)fprintf(out, ", no longer connected, or not listed");
    if (user->takes) {
        (void)fprintf(out, ", %lld SETNX and GETSET on", (long long)user->takes);
        list_patterns(survey, user, print_pattern, out);
    }
    (void)fputc('\n', out);
}

static void show_users(const survey *survey, FILE *out) {
    heard_user user;
    int count = 0;

    (void)fprintf(out, "\nclients that sent SETNX or GETSET, as legacy clients do\n");
    for (int i = 0; i < survey->heard.clients; i++)
        if (read_user(survey, i, &user) && count++ < SHOWN_MOST)
            show_user(survey, &user, out);
    if (count > SHOWN_MOST || survey->heard.more)
        (void)fprintf(out, "  and more: --json has up to %d connections\n", HEARD_CLIENTS);
    if (count == 0)
        (void)fprintf(out, "  none was seen\n");
    (void)fprintf(out,
                  "  of %lld connection%s %lld last sent a command that tidelock never sends\n",
                  (long long)survey->heard.connections, migrate_plural(survey->heard.connections),
                  (long long)survey->heard.others);
}

/* ---- clocks and values --------------------------------------------------------------------------- */

static void show_clock(const survey *survey, const survey_clock *clock, FILE *out) {
    (void)fprintf(out, "  %s", clock->host);
    if (clock->known)
        (void)fprintf(out, ": %.1f to %.1f ms %s", (double)clock->offset.lo / 1000,
                      (double)clock->offset.hi / 1000,
                      survey->facts.relative ? "off the median host" : "off the server");
    else
        (void)fprintf(out, ": not known");
    if (survey->by_cluster)
        (void)fprintf(out, " %s", clock->server);
    (void)fprintf(out, ", by %lld stamp%s (%s)\n", (long long)clock->stamps,
                  migrate_plural(clock->stamps), clock->detail);
}

static void show_clocks(const survey *survey, FILE *out) {
    (void)fprintf(out, "\nclocks of legacy clients\n");
    for (int i = 0; i < survey->clocks; i++)
        show_clock(survey, &survey->clock[i], out);
    if (survey->clocks == 0)
        (void)fprintf(out, "  %s\n",
                      survey->monitor_ms ? "MONITOR showed no stamp" : "not measured: --monitor D");
}

static void show_value(const char *name, int64_t ms, const char *why, FILE *out) {
    char shown[DURATION_SHOWN];

    (void)fprintf(out, "  %s %s: %s\n", name, show_ms(shown, ms), why);
}

static void show_advice(const survey *survey, FILE *out) {
    const survey_advice *advice = &survey->advice;

    (void)fprintf(out, "\nproposed for all clients of tidelock (MIGRATION.md, section 4)\n");
    show_value("M", advice->skew_ms, advice->skew_why, out);
    show_value("L", advice->delay_ms, advice->delay_why, out);
    show_value("T", advice->ttl_ms, advice->ttl_why, out);
    if (advice->warning[0])
        (void)fprintf(out, "  warning: %s\n", advice->warning);
}

/* ---- phases and commands ------------------------------------------------------------------------- */

static void show_phases(const survey *survey, FILE *out) {
    const migrate_register *reg = &survey->view->reg;
    char keys[MIGRATE_KEYS_SIZE];
    int phase = migrate_phase_of(survey->view);

    if (survey->register_unread)
        (void)fprintf(out, "\nwhether namespace %s is registered is not known\n", survey->name);
    else if (reg->readable)
        (void)fprintf(out, "\nnamespace %s is in phase %d (%s), keys %s\n", survey->name, phase,
                      migrate_phase_name(phase), shown_keys(keys, survey));
    else if (reg->there)
        (void)fprintf(out, "\nnamespace %s has a register that can't be read\n", survey->name);
    else
        (void)fprintf(out,
                      "\nnamespace %s is not registered; it could begin, by what was seen, in\n",
                      survey->name);
    if (survey->view->by_slots)
        migrate_show_slots(survey->view, out);
    if (survey->alarm[0])
        (void)fprintf(out, "alarm: %s\n", survey->alarm);
    for (int i = 0; i < PHASES; i++)
        if (survey->judged[i])
            migrate_show_blockers(i, &survey->phase[i], out);
    if (!reg->there || phase < PHASE_DRAIN)
        (void)fprintf(out, "  (phases 2 and 3 require that no legacy client runs; no survey can "
                           "show that)\n");
}

static void show_line(const survey *survey, const found_family *family, FILE *out) {
    char line[SURVEY_LINE];

    if (survey_inits(survey) && *survey_init_line(line, survey, family))
        (void)fprintf(out, "  %s\n", line);
    if (*survey_client_line(line, survey, family))
        (void)fprintf(out, "  %s\n", line);
}

static void show_commands(const survey *survey, FILE *out) {
    int count = 0;

    (void)fprintf(out, "\nnext\n");
    if (survey->by_cluster)
        (void)fprintf(out, "  (see RUNBOOK.md, \"In a Redis Cluster\")\n");
    if (survey_inits(survey))
        (void)fprintf(out, "  (check each pattern: it must match all names of the locks, also of "
                           "those that were not seen, and no other)\n");
    if (survey->keys_given)
        show_line(survey, NULL, out);
    for (int i = 0; i < survey->found.families && !survey->keys_given; i++)
        if (survey_counts(&survey->found.family[i]) && count++ < SHOWN_MOST)
            show_line(survey, &survey->found.family[i], out);
    if (!survey->keys_given && count == 0)
        (void)fprintf(
            out,
            "  no pattern to propose: try tidelock migrate survey with --keys PATTERN, or with --monitor 1m\n");
    if (survey->view->reg.there || survey->register_unread)
        (void)fprintf(out, "  tidelock migrate status --namespace %s\n", survey->name);
    if (survey->url_given)
        (void)fprintf(out, "  (with the same --url)\n");
}

void survey_show(const survey *survey, FILE *out) {
    show_read(survey, out);
    show_patterns(survey, out);
    show_others(survey, out);
    show_users(survey, out);
    show_clocks(survey, out);
    show_advice(survey, out);
    show_phases(survey, out);
    show_commands(survey, out);
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

#define SURVEY_MEMBERS(M, of)                                                                      \
    M(of, server, "the server, or \"a cluster\"")                                                  \
    M(of, masters, "how many masters were read")                                                   \
    M(of, namespace, "the namespace")                                                              \
    M(of, registered, "true: it has a register; null: not known")                                  \
    M(of, keys, "the pattern of the keys that were read")                                          \
    M(of, keys_read, "about how many keys were read, of all names")                                \
    M(of, keys_all, "how many keys there are, or null")                                            \
    M(of, all_keys, "true: all keys were read")                                                    \
    M(of, passes, "how often all keys were read")                                                  \
    M(of, took_ms, "how long keys were read")                                                      \
    M(of, monitor_ms, "how long MONITOR was read")                                                 \
    M(of, not_read, "an array of texts: what could not be read, and why")
MEMBERS(survey, SURVEY_MEMBERS);

#define SURVEYED_MEMBERS(M, of)                                                                    \
    M(of, setnx_getset_calls, "SETNX and GETSET of all clients meanwhile, or null")                \
    M(of, patterns, "an array of objects, see below")                                              \
    M(of, outside, "keys of legacy clients that the register's pattern doesn't match")             \
    M(of, users, "clients that sent SETNX or GETSET: an array of objects, see below")              \
    M(of, connections, "how many connections there were at the last look")                         \
    M(of, other_connections, "of these, those that last sent what tidelock doesn't")               \
    M(of, clocks, "an array of objects, see below")                                                \
    M(of, clock_skew_max, "the proposed M: an object, see below")                                  \
    M(of, legacy_delay_max, "the proposed L, likewise")                                            \
    M(of, legacy_ttl_min, "the proposed T, likewise")                                              \
    M(of, warning, "what these values can't cover, or null")                                       \
    M(of, alarm, "legacy clients that lock in a phase where none may run, or null")                \
    M(of, slots, "of a cluster: an object, as in *status*; else null")                             \
    M(of, phases, "the phases that are next, or in which it could begin: as _next_ of *status*")
MEMBERS(surveyed, SURVEYED_MEMBERS);

#define PATTERN_MEMBERS(M, of)                                                                     \
    M(of, pattern, "a glob of the names; null: they have nothing in common")                       \
    M(of, legacy, "true: locks of legacy clients, and not only old ones")                          \
    M(of, stamps, "keys with a stamp without a sidecar")                                           \
    M(of, over, "of these, expired ones")                                                          \
    M(of, old, "of these, those that expired more than an hour ago")                               \
    M(of, odd, "keys with an odd value, which is no lock that can be shared")                      \
    M(of, oddity, "what is odd about the first, or null")                                          \
    M(of, own_stamps, "keys with a stamp of tidelock's")                                           \
    M(of, tokens, "keys with a token")                                                             \
    M(of, takes, "SETNX and GETSET with a stamp, read from MONITOR")                               \
    M(of, forms, "forms of stamps: an array of objects, see below")                                \
    M(of, left_most_ms, "the most time left at first sight, or null")                              \
    M(of, lifetimes, "of stamps that were seen as they were written: null, or an object")          \
    M(of, holds, "how long locks were held, likewise")                                             \
    M(of, stays, "how long locks were held after they were found, likewise")                       \
    M(of, init, "the command to type, or null")                                                    \
    M(of, run, "a command with the options of clients, or null")
MEMBERS(pattern, PATTERN_MEMBERS);

#define FORM_MEMBERS(M, of)                                                                        \
    M(of, dialects, "the dialects that write such stamps; the first is the guess")                 \
    M(of, count, "how many keys")                                                                  \
    M(of, example, "one of them")
MEMBERS(form, FORM_MEMBERS);

#define SAMPLES_MEMBERS(M, of)                                                                     \
    M(of, count, "how many samples")                                                               \
    M(of, least_ms, "the shortest was at least so long")                                           \
    M(of, most_ms, "the longest was at most so long")
MEMBERS(samples, SAMPLES_MEMBERS);

#define USER_MEMBERS(M, of)                                                                        \
    M(of, host, "its address")                                                                     \
    M(of, name, "its name, or null")                                                               \
    M(of, library, "its library, or null")                                                         \
    M(of, version, "the library's version, or null")                                               \
    M(of, user, "its user of the server, or null")                                                 \
    M(of, connections, "how many of its connections were seen to do so")                           \
    M(of, command, "the last command of one of them, or null")                                     \
    M(of, takes, "SETNX and GETSET with a stamp, read from MONITOR")                               \
    M(of, patterns, "of the keys in these: an array of texts")
MEMBERS(user, USER_MEMBERS);

#define OFFSET_MEMBERS(M, of)                                                                      \
    M(of, host, "the host")                                                                        \
    M(of, server, "the server that saw its stamps")                                                \
    M(of, offset_ms, "its clock minus the server's: null, or _lo_ and _hi_")                       \
    M(of, relative, "true: minus the median host's, as the lifetime is not known")                 \
    M(of, stamps, "how many stamps")                                                               \
    M(of, detail, "how that was found, or why not")
MEMBERS(offset, OFFSET_MEMBERS);

#define SUGGESTION_MEMBERS(M, of)                                                                  \
    M(of, ms, "the value")                                                                         \
    M(of, reason, "why this value")
MEMBERS(suggestion, SUGGESTION_MEMBERS);

static json_t *text_json(const char *text) {
    return js_text(text[0] ? text : NULL);
}

static json_t *samples_json(const found_samples *samples) {
    if (samples->count == 0)
        return json_null();
    return json_pack("{s:I, s:I, s:I}", count_of_samples, (json_int_t)samples->count,
                     least_ms_of_samples, (json_int_t)samples->least_ms, most_ms_of_samples,
                     (json_int_t)samples->most_ms);
}

static json_t *dialects_json(const char *names) {
    json_t *list = json_array();

    for (tl_bytes rest = tl__bytes_of(names); rest.p && rest.n > 0;) {
        tl_bytes name = tl__bytes_take(&rest, ',');
        while (name.n > 0 && name.p[0] == ' ')
            name = tl__bytes(name.p + 1, name.n - 1);
        js_append(&list, js_bytes(name.p, name.n));
    }
    return list;
}

static json_t *forms_json(const found_family *family) {
    json_t *list = json_array();

    for (int i = 0; i < family->forms; i++)
        js_append(&list, json_pack("{s:o, s:I, s:o}", dialects_of_form,
                                   dialects_json(family->form[i].dialects), count_of_form,
                                   (json_int_t)family->form[i].count, example_of_form,
                                   js_text(family->form[i].example)));
    return list;
}

static json_t *pattern_json(const survey *survey, const found_family *family) {
    char pattern[NAMES_PATTERN], line[SURVEY_LINE];
    found_samples lifetimes = found_lifetimes(family);
    bool counts = survey_counts(family);
    bool inits = counts && survey_inits(survey);
    json_t *json = json_pack("{s:o, s:b}", pattern_of_pattern,
                             text_json(names_pattern(pattern, &family->names)), legacy_of_pattern,
                             counts);

    js_set(&json, stamps_of_pattern, json_integer(family->stamps));
    js_set(&json, over_of_pattern, json_integer(family->over));
    js_set(&json, old_of_pattern, json_integer(family->old));
    js_set(&json, odd_of_pattern, json_integer(family->odd));
    js_set(&json, oddity_of_pattern, text_json(family->oddity));
    js_set(&json, own_stamps_of_pattern, json_integer(family->ours));
    js_set(&json, tokens_of_pattern, json_integer(family->tokens));
    js_set(&json, takes_of_pattern, json_integer(family->takes));
    js_set(&json, forms_of_pattern, forms_json(family));
    js_set(&json, left_most_ms_of_pattern, js_known(family->left_most_ms));
    js_set(&json, lifetimes_of_pattern, samples_json(&lifetimes));
    js_set(&json, holds_of_pattern, samples_json(&family->holds));
    js_set(&json, stays_of_pattern, samples_json(&family->stays));
    js_set(&json, init_of_pattern, text_json(inits ? survey_init_line(line, survey, family) : ""));
    js_set(&json, run_of_pattern,
           text_json(counts ? survey_client_line(line, survey, family) : ""));
    return json;
}

static void append_pattern(void *ctx, const char *pattern) {
    js_append(ctx, js_text(pattern));
}

static json_t *user_json(const survey *survey, const heard_user *user) {
    const client_row *row = &user->first->row;
    json_t *patterns = json_array();
    json_t *json = json_pack("{s:o}", host_of_user, js_text(user->first->host));

    list_patterns(survey, user, append_pattern, &patterns);
    js_set(&json, name_of_user, text_json(row->name));
    js_set(&json, library_of_user, text_json(row->library));
    js_set(&json, version_of_user, text_json(row->version));
    js_set(&json, user_of_user, text_json(row->user));
    js_set(&json, connections_of_user, json_integer(user->connections));
    js_set(&json, command_of_user, text_json(row->command));
    js_set(&json, takes_of_user, json_integer(user->takes));
    js_set(&json, patterns_of_user, patterns);
    return json;
}

static json_t *users_json(const survey *survey) {
    json_t *list = json_array();
    heard_user user;

    for (int i = 0; i < survey->heard.clients; i++)
        if (read_user(survey, i, &user))
            js_append(&list, user_json(survey, &user));
    return list;
}

static json_t *clocks_json(const survey *survey) {
    json_t *list = json_array();

    for (int i = 0; i < survey->clocks; i++) {
        const survey_clock *clock = &survey->clock[i];
        json_t *json = json_pack("{s:o, s:o}", host_of_offset, js_text(clock->host),
                                 server_of_offset, js_text(clock->server));
        js_set(&json, offset_ms_of_offset, js_interval(clock->known, clock->offset));
        js_set(&json, relative_of_offset, json_boolean(survey->facts.relative));
        js_set(&json, stamps_of_offset, json_integer(clock->stamps));
        js_set(&json, detail_of_offset, js_text(clock->detail));
        js_append(&list, json);
    }
    return list;
}

static json_t *suggestion_json(int64_t ms, const char *reason) {
    return json_pack("{s:I, s:o}", ms_of_suggestion, (json_int_t)ms, reason_of_suggestion,
                     js_text(reason));
}

static json_t *patterns_json(const survey *survey) {
    json_t *list = json_array();

    for (int i = 0; i < survey->found.families; i++)
        js_append(&list, pattern_json(survey, &survey->found.family[i]));
    return list;
}

static json_t *unread_json(const survey *survey) {
    json_t *list = json_array();

    for (int i = 0; i < survey->unreads; i++)
        js_append(&list, js_text(survey->unread[i]));
    return list;
}

static json_t *phases_json(const survey *survey) {
    json_t *list = json_array();

    for (int i = 0; i < PHASES; i++)
        if (survey->judged[i])
            js_append(&list, migrate_step_json(i, &survey->phase[i]));
    return list;
}

json_t *survey_json(const survey *survey) {
    const survey_advice *advice = &survey->advice;
    json_t *json = json_pack("{s:o, s:i}", server_of_survey, js_text(survey->server),
                             masters_of_survey, survey->masters);

    js_set(&json, namespace_of_survey, js_text(survey->name));
    js_set(&json, registered_of_survey,
           survey->register_unread ? json_null() : json_boolean(survey->view->reg.there));
    js_set(&json, keys_of_survey, js_text(survey->keys));
    js_set(&json, keys_read_of_survey, json_integer(survey->keys_read));
    js_set(&json, keys_all_of_survey, js_known(survey->keys_all));
    js_set(&json, all_keys_of_survey, json_boolean(survey->whole));
    js_set(&json, passes_of_survey, json_integer(survey->passes));
    js_set(&json, took_ms_of_survey, json_integer(survey->took_ms));
    js_set(&json, monitor_ms_of_survey, json_integer(survey->monitor_ms));
    js_set(&json, not_read_of_survey, unread_json(survey));
    js_set(&json, setnx_getset_calls_of_surveyed, js_known(survey->calls));
    js_set(&json, patterns_of_surveyed, patterns_json(survey));
    js_set(&json, outside_of_surveyed, json_integer(survey->outside));
    js_set(&json, users_of_surveyed, users_json(survey));
    js_set(&json, connections_of_surveyed, json_integer(survey->heard.connections));
    js_set(&json, other_connections_of_surveyed, json_integer(survey->heard.others));
    js_set(&json, clocks_of_surveyed, clocks_json(survey));
    js_set(&json, clock_skew_max_of_surveyed, suggestion_json(advice->skew_ms, advice->skew_why));
    js_set(&json, legacy_delay_max_of_surveyed,
           suggestion_json(advice->delay_ms, advice->delay_why));
    js_set(&json, legacy_ttl_min_of_surveyed, suggestion_json(advice->ttl_ms, advice->ttl_why));
    js_set(&json, warning_of_surveyed, text_json(advice->warning));
    js_set(&json, alarm_of_surveyed, text_json(survey->alarm));
    js_set(&json, slots_of_surveyed, migrate_slots_json(survey->view));
    js_set(&json, phases_of_surveyed, phases_json(survey));
    return json;
}
