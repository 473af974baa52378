/*
 * The conclusions of a survey, and the commands that follow from them. Pure.
 */
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "ground/guard.h"
#include "migrate/migrate_survey.h"

void survey_unread(survey *survey, const char *format, ...) {
    va_list args;

    if (survey->unreads == SURVEY_UNREAD)
        return;
    char *text = survey->unread[survey->unreads++];
    va_start(args, format);
    (void)vsnprintf(text, sizeof survey->unread[0], format, args);
    va_end(args);
    if (survey->unreads == SURVEY_UNREAD)
        (void)snprintf(text, sizeof survey->unread[0], "and more");
}

bool survey_counts(const found_family *family) {
    return found_is_legacy(family) && !found_is_old(family);
}

static bool is_unregistered(const survey *survey) {
    return !survey->view->reg.there && (!survey->register_unread || !GUARD(unread_register_may_be));
}

bool survey_inits(const survey *survey) {
    return is_unregistered(survey) && survey->view->slots.unread == 0;
}

int survey_slots_phase(const survey *survey) {
    int most = migrate_tally_most(&survey->view->slots);
    return most >= PHASE_DRAIN ? most : -1;
}

/* ---- facts ------------------------------------------------------------------------------------- */

static void add_facts(survey_facts *facts, const found_family *family) {
    found_samples lifetimes = found_lifetimes(family);

    found_join_samples(&facts->lifetimes, &lifetimes);
    found_join_samples(&facts->holds, &family->holds);
    if (family->left_most_ms > facts->left_most_ms)
        facts->left_most_ms = family->left_most_ms;
}

/* ---- phases ------------------------------------------------------------------------------------ */

/* SETNX and GETSET with a stamp on keys of the register, or without one on any key of legacy locks; and by whom. */
static int64_t takes_of(const survey *survey, char who[MIGRATE_LIST_SIZE]) {
    bool registered = survey->view->reg.readable;
    int64_t takes = 0;

    who[0] = '\0';
    for (int i = 0; i <= survey->heard.clients; i++) {
        const heard_client *client = i < survey->heard.clients ? &survey->heard.client[i]
                                                               : &survey->heard.rest;
        int64_t its = registered ? client->registered : client->takes;
        if (its == 0)
            continue;
        takes += its;
        size_t n = strlen(who);
        if (n < MIGRATE_LIST_SIZE / 2)
            (void)snprintf(who + n, MIGRATE_LIST_SIZE - n, "%s%s on %.60s", n ? ", " : "",
                           client->row.address,
                           registered ? client->registered_key : client->key[0]);
    }
    return takes;
}

/* A lock that is held for a moment leaves no stamp to find; its commands show it. A count of the whole server is
 * doubt, unless MONITOR was read all the time. */
static void judge_commands(const survey *survey, migrate_blockers *ret) {
    migrate_blocker blocker = {.passes = false};
    int64_t takes = takes_of(survey, blocker.who);

    if (!GUARD(commands_block_phases) || (takes == 0 && survey->calls <= 0) ||
        ret->count == MIGRATE_BLOCKERS)
        return;
    if (takes > 0)
        (void)snprintf(blocker.what, sizeof blocker.what,
                       "%lld SETNX and GETSET of legacy clients were seen", (long long)takes);
    else
        (void)snprintf(blocker.what, sizeof blocker.what,
                       "SETNX or GETSET ran %lld time%s meanwhile, and it is not known on which "
                       "keys",
                       (long long)survey->calls, migrate_plural(survey->calls));
    if (!blocker.who[0])
        (void)snprintf(blocker.who, sizeof blocker.who, "not known");
    (void)snprintf(blocker.todo, sizeof blocker.todo,
                   "%s, or have the server refuse them: tidelock migrate acl",
                   takes > 0                ? "end these clients"
                   : survey->monitor_ms > 0 ? "MONITOR missed them: read it for longer"
                                            : "find out with --monitor");
    ret->item[ret->count++] = blocker;
}

static void raise_alarm(survey *survey) {
    int phase = migrate_phase_of(survey->view);
    char who[MIGRATE_LIST_SIZE];
    int64_t takes = takes_of(survey, who);

    if (survey->view->reg.readable && phase >= PHASE_DRAIN && takes > 0)
        (void)snprintf(survey->alarm, sizeof survey->alarm,
                       "legacy clients lock keys of namespace %s in phase %d, where none may run: "
                       "%.120s: end them",
                       survey->name, phase, who);
}

/* Before init: could the namespace begin in each phase? */
static void judge_beginning(survey *survey, const migrate_locks *locks) {
    int only = survey_slots_phase(survey);

    for (int phase = 0; phase < PHASES; phase++) {
        if (only >= 0 && phase != only)
            continue;
        migrate_judge_init(survey->view, phase, locks, &survey->phase[phase]);
        if (phase >= PHASE_DRAIN)
            judge_commands(survey, &survey->phase[phase]);
        survey->judged[phase] = true;
    }
}

static void judge_step(survey *survey, int phase) {
    if (phase >= 0 && phase < PHASES) {
        migrate_judge(survey->view, phase, &survey->registered, NULL, &survey->phase[phase]);
        survey->judged[phase] = true;
    }
}

/* The steps back and forward. In a cluster the latter may finish one to the present phase. */
static void judge_steps(survey *survey) {
    int next = migrate_next_phase(survey->view);

    judge_step(survey, migrate_former_phase(survey->view));
    judge_step(survey, next);
    if (next >= PHASE_DRAIN && next < PHASES)
        judge_commands(survey, &survey->phase[next]);
}

void survey_conclude(survey *survey) {
    bool crowded = survey->found.full || survey->found.dropped > 0;
    migrate_locks locks = {.whole = survey->whole, .crowded = crowded};

    survey->registered.crowded = crowded;
    found_join(&survey->found);
    survey->facts.left_most_ms = -1;
    for (int i = 0; i < survey->found.families; i++) {
        const found_family *family = &survey->found.family[i];
        if (!survey_counts(family) && !survey->keys_given)
            continue;
        add_facts(&survey->facts, family);
        found_join_locks(&locks, &family->locks);
    }
    survey->facts.delays = survey->heard.delays;
    survey_advise(&survey->facts, &survey->advice);
    raise_alarm(survey);
    if (survey->view->reg.readable)
        judge_steps(survey);
    else if (is_unregistered(survey))
        judge_beginning(survey, &locks);
}

/* ---- commands ---------------------------------------------------------------------------------- */

static const char *pattern_of(char buf[NAMES_PATTERN], const survey *survey,
                              const found_family *family) {
    if (survey->keys_given || !family)
        (void)snprintf(buf, NAMES_PATTERN, "%s", survey->keys_given ? survey->keys : "");
    else
        (void)names_pattern(buf, &family->names);
    return buf;
}

static int patterns(const survey *survey) {
    int count = 0;

    for (int i = 0; i < survey->found.families; i++)
        count += survey_counts(&survey->found.family[i]);
    return count;
}

/* A name like the pattern: letters and digits, and "-" for what lies between. */
static size_t name_like(char buf[MIGRATE_NAME_MAX + 1], const char *pattern) {
    size_t n = 0;

    for (; *pattern && n < MIGRATE_NAME_MAX - 8; pattern++)
        if (isalnum((unsigned char)*pattern) || (n > 0 && strchr("_.-", *pattern)))
            buf[n++] = *pattern;
        else if (n > 0 && buf[n - 1] != '-')
            buf[n++] = '-';
    while (n > 0 && !isalnum((unsigned char)buf[n - 1]))
        n--;
    buf[n] = '\0';
    return n;
}

/* Has an earlier pattern the same name? */
static bool is_used(const survey *survey, const found_family *family, const char *name) {
    char pattern[NAMES_PATTERN], other[MIGRATE_NAME_MAX + 1];

    for (const found_family *f = survey->found.family; f < family; f++) {
        (void)name_like(other, names_pattern(pattern, &f->names));
        if (survey_counts(f) && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

/* The namespace: as given for one pattern; for several each has a name like its pattern. */
static const char *namespace_of(char buf[MIGRATE_NAME_MAX + 1], const survey *survey,
                                const found_family *family, const char *pattern) {
    if (survey->keys_given || !family || patterns(survey) < 2) {
        (void)snprintf(buf, MIGRATE_NAME_MAX + 1, "%s", survey->name);
        return buf;
    }
    size_t n = name_like(buf, pattern);
    if (n == 0 || is_used(survey, family, buf))
        (void)snprintf(buf + n, MIGRATE_NAME_MAX + 1 - n, "%s%d", n ? "-" : "locks",
                       (int)(family - survey->found.family) + 1);
    return buf;
}

static const char *show_option(char buf[DURATION_SHOWN], int64_t ms) {
    (void)snprintf(buf, DURATION_SHOWN, ms % 1000 ? "%lldms" : "%llds",
                   (long long)(ms % 1000 ? ms : ms / 1000));
    return buf;
}

#define QUOTED (4 * MIGRATE_KEYS_SIZE + 3)

const char *survey_init_line(char buf[SURVEY_LINE], const survey *survey,
                             const found_family *family) {
    char pattern[NAMES_PATTERN], name[MIGRATE_NAME_MAX + 1], quoted[QUOTED];
    int phase = survey_slots_phase(survey);

    buf[0] = '\0';
    (void)pattern_of(pattern, survey, family);
    if (!pattern[0] || strlen(pattern) >= MIGRATE_KEYS_SIZE ||
        !*names_quote(quoted, sizeof quoted, pattern))
        return buf;
    int n = snprintf(buf, SURVEY_LINE,
                     "tidelock migrate init --namespace %s --keys %s --phase %d%s",
                     namespace_of(name, survey, family, pattern), quoted,
                     phase >= 0 ? phase : PHASE_BRIDGE, survey->by_cluster ? "" : " --lease 30s");
    if (n < 0 || n >= SURVEY_LINE)
        buf[0] = '\0';
    return buf;
}

/* The "PATTERN=NAME" of --namespace: a comma of the pattern has a backslash. */
static const char *choice_of(char *buf, size_t size, const char *pattern, const char *name) {
    size_t n = 0;

    for (; *pattern && n + 3 < size; pattern++) {
        if (*pattern == ',')
            buf[n++] = '\\';
        buf[n++] = *pattern;
    }
    (void)snprintf(buf + n, size - n, "=%s", name);
    return buf;
}

static void show_dialect(char *buf, size_t size, const survey *survey, const found_family *family) {
    const found_form *form = family ? found_main_form(family) : NULL;
    char name[sizeof form->dialects];

    (void)snprintf(name, sizeof name, "%s",
                   survey->dialect ? survey->dialect
                   : form          ? form->dialects
                                   : "java");
    name[strcspn(name, ",")] = '\0';
    (void)snprintf(buf, size, "%s%s", strcmp(name, "java") == 0 || !name[0] ? "" : " --dialect ",
                   strcmp(name, "java") == 0 ? "" : name);
}

const char *survey_client_line(char buf[SURVEY_LINE], const survey *survey,
                               const found_family *family) {
    char pattern[NAMES_PATTERN], name[MIGRATE_NAME_MAX + 1], quoted[QUOTED], choice[QUOTED],
        dialect[64], skew[DURATION_SHOWN], delay[DURATION_SHOWN], ttl[DURATION_SHOWN];
    const survey_advice *advice = &survey->advice;

    buf[0] = '\0';
    (void)pattern_of(pattern, survey, family);
    if (!pattern[0] || strlen(pattern) >= MIGRATE_KEYS_SIZE)
        return buf;
    (void)choice_of(choice, sizeof choice, pattern, namespace_of(name, survey, family, pattern));
    if (!*names_quote(quoted, sizeof quoted, choice))
        return buf;
    show_dialect(dialect, sizeof dialect, survey, family);
    int n = snprintf(buf, SURVEY_LINE,
                     "tidelock run --protocol auto --namespace %s%s --clock-skew-max %s "
                     "--legacy-delay-max %s --legacy-ttl-min %s KEY -- COMMAND",
                     quoted, dialect, show_option(skew, advice->skew_ms),
                     show_option(delay, advice->delay_ms), show_option(ttl, advice->ttl_ms));
    if (n < 0 || n >= SURVEY_LINE)
        buf[0] = '\0';
    return buf;
}
