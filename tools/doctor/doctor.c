/*
 * tidelock doctor: what of a server endangers locks, why, and what mends it. It changes nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"
#include "doctor/doctor.h"

enum { FINE, WARNINGS, DANGEROUS };

typedef struct {
    int format;
    const char *acl;
    bool json;
    int64_t ttl_ms;
    server_care care;
} doctor_options;

static const opt options[] = {
    {0, "json", OPT_FLAG, offsetof(doctor_options, json), NULL, "one object in JSON", 0, 0},
    {0, "format", OPT_CHOICE, offsetof(doctor_options, format), "text|json", "json: as --json", 0,
     0},
    {0, "acl", OPT_TEXT, offsetof(doctor_options, acl), "USER",
     "print what USER must be permitted, to lock keys of a pattern", 0, 0},
    {0, "", OPT_HEADING, 0, NULL, "What the clients do, for what a failover can promise them:", 0,
     0},
    {'t', "ttl", OPT_DURATION, offsetof(doctor_options, ttl_ms), "D",
     "the longest lifetime of their locks (30s)", 0, 0},
    SERVER_CARE(offsetof(doctor_options, care)),
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const doctor_options defaults = {.ttl_ms = SERVER_TTL_MS};

static int status_for(const doctor_report *r) {
    int status = FINE;
    for (int i = 0; i < r->count; i++) {
        doctor_level level = r->finding[i].level;
        int it = level == DOCTOR_DANGER ? DANGEROUS : level == DOCTOR_NOTE ? FINE : WARNINGS;
        status = it > status ? it : status;
    }
    return status;
}

static const char *state_name(int status) {
    static const char *const names[] = {"fine", "warnings", "dangerous"};
    return names[status];
}

/* ---- faces --------------------------------------------------------------------------------------------------- */

static int show_text(const char *server, const doctor_facts *f, const doctor_report *r) {
    printf("%s, %s: %s\n", server, f->product[0] ? f->product : "of an unknown version",
           state_name(status_for(r)));
    for (int i = 0; i < r->count; i++) {
        const doctor_finding *x = &r->finding[i];
        printf("\n%-7s  %s: %s\n", doctor_level_name(x->level), x->id, x->what);
        printf("         why: %s\n", x->why);
        printf("         %s: %s\n", x->level == DOCTOR_UNSEEN ? "to see it" : "fix", x->fix);
    }
    if (r->count == 0)
        printf("\nNothing that endangers locks was found.\n");
    return fflush(stdout) || ferror(stdout) ? -1 : 0;
}

static json_t *findings(const doctor_report *r) {
    json_t *list = json_array();

    for (int i = 0; i < r->count; i++) {
        const doctor_finding *x = &r->finding[i];
        js_append(&list, json_pack("{s:o, s:o, s:o, s:o, s:o}", "id", js_text(x->id), "level",
                                   js_text(doctor_level_name(x->level)), "what", js_text(x->what),
                                   "why", js_text(x->why), "fix", js_text(x->fix)));
    }
    return list;
}

static int show_json(const char *server, const doctor_facts *f, const doctor_report *r) {
    const char *version = strchr(f->product, ' ');
    size_t n = strcspn(f->product, " ");
    json_t *j = json_pack("{s:o}", "state", js_text(state_name(status_for(r))));

    js_set(&j, "server", js_text(server));
    js_set(&j, "product", n ? js_bytes(f->product, n) : json_null());
    js_set(&j, "version", js_text(version ? version + 1 : NULL));
    js_set(&j, "findings", findings(r));
    return js_line(j, STDOUT_FILENO);
}

/* ---- the command ---------------------------------------------------------------------------------------------- */

static int examine(skew_link *l, const doctor_options *o, doctor_facts *f, doctor_report *r) {
    char server[TL_HOST_SIZE + 16];

    if (o->acl)
        return l->conn && doctor_ask_info(l, f) ? doctor_acl(f, o->acl, f->key)
                                                : fail(l->status, "%s", l->words);
    f->unasked = !l->conn;
    if (l->conn && !doctor_ask(l, f))
        return fail(l->status, "%s", l->words);
    doctor_check(f, r);
    (void)snprintf(server, sizeof server, "%s", l->conn ? l->endpoint.label : f->heard.master);
    if (o->json || o->format ? show_json(server, f, r) : show_text(server, f, r))
        return fail(STATUS_INTERNAL, "doctor: standard output: %s", strerror(errno));
    return status_for(r);
}

typedef struct {
    doctor_facts facts;
    doctor_report report;
} doctor_work;

static int doctor_function(const server *s, const void *given, const operands *words) {
    const char *key = words->words ? words->word[0] : NULL;
    const doctor_legacy_calls *legacy = FROM_LEGACY(doctor_legacy);
    const doctor_options *o = given;
    skew_link link;

    if (key && (!*key || strlen(key) > DOCTOR_KEY_MOST))
        return fail(STATUS_USAGE, "doctor: KEY: 1 to %d bytes", DOCTOR_KEY_MOST);
    if (o->acl && (o->json || o->format))
        return fail(STATUS_USAGE, "doctor: --acl prints commands for redis-cli, no JSON");
    int status = o->acl ? doctor_acl_check(o->acl, key)
                        : server_care_check("doctor", &o->care, o->ttl_ms);
    if (status)
        return status;
    doctor_work *work = calloc(1, sizeof *work);
    if (!work)
        return fail(STATUS_INTERNAL, "out of memory");
    work->facts.protocol = TL_TOKEN;
    work->facts.care = o->care;
    work->facts.ttl_ms = o->ttl_ms;
    work->facts.by_sentinels = server_by_sentinels(s);
    if (legacy && s->legacy)
        status = legacy->take(s->legacy, &work->facts);
    status = status                   ? status
             : server_by_sentinels(s) ? link_open_by(&link, s, &work->facts.heard)
                                      : link_open(&link, s);
    if (status == 0) {
        server_say_local(s);
        work->facts.key = key;
        work->facts.db = link.endpoint.db;
        status = examine(&link, o, &work->facts, &work->report);
        skew_link_close(&link);
    }
    free(work);
    return status;
}

const command doctor_row = {
    .name = "doctor",
    .usage = "[options] [KEY]",
    .help = "what of a server endangers locks, and what mends it",
    .notes =
        "With the KEY of a lock it also says whether this user may lock it. It changes nothing.\n"
        "With --acl it prints what a user must be permitted to lock keys like KEY: 'jobs:*'.\n"
        "Exit status: 0 fine, 1 warnings, or something could not be looked at, 2 dangerous, "
        "69 server not reached, 77 it lets nobody in.\n",
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .legacy = FROM_LEGACY(doctor_legacy_part),
    .words_max = 1,
    .function = doctor_function,
};
