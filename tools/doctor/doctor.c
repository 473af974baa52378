/*
 * tidelock doctor: checks a server for settings that endanger locks, and says why and how to fix them. It
 * changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"

static const opt options[] = {
    {0, "json", OPT_FLAG, offsetof(doctor_options, json), NULL, "print one object in JSON", 0, 0},
    {0, "acl", OPT_TEXT, offsetof(doctor_options, acl), "USER",
     "print the permissions that USER needs to lock KEY", 0, 0},
    OPT_RARE_FOLLOW,
    {0, "format", OPT_CHOICE, offsetof(doctor_options, format), "text|json", "json: as --json", 0,
     0},
    {0, "", OPT_HEADING, 0, NULL, "How the clients lock, to judge what a failover can break:", 0,
     0},
    {'t', "ttl", OPT_DURATION, offsetof(doctor_options, ttl_ms), "D",
     "the longest lifetime of their locks (30s)", 0, 0},
    {0, "once-per", OPT_DURATION, offsetof(doctor_options, once_per_ms), "D",
     "they run jobs once per D: check also what ends a rest early", 0, 0},
    SERVER_CARE(offsetof(doctor_options, care)),
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const doctor_options defaults = {.ttl_ms = SERVER_TTL_MS};

/* ---- the command ----------------------------------------------------------------------------- */

static int examine(server_link *link, const doctor_options *options, doctor_facts *facts,
                   doctor_report *report) {
    char server[TL_HOST_SIZE + 16];
    doctor_title title = {.server = server, .product = facts->product};

    if (options->acl)
        return link->conn && doctor_ask_info(link, facts)
                   ? doctor_acl(facts, options->acl, facts->key)
                   : fail(link->status, "%s", link->message);
    facts->unasked = !link->conn;
    if (link->conn && !doctor_ask(link, facts))
        return fail(link->status, "%s", link->message);
    doctor_check(facts, report);
    if (!doctor_is_sentinel(facts))
        doctor_check_host(report);
    doctor_sort(report);
    (void)snprintf(server, sizeof server, "%s",
                   link->conn ? link->endpoint.label : facts->heard.master);
    return doctor_show(options, &title, report);
}

typedef struct {
    doctor_facts facts;
    doctor_report report;
} doctor_work;

static int check_options(const doctor_options *options, const char *key) {
    if (key && (!*key || strlen(key) > DOCTOR_KEY_MOST))
        return fail(STATUS_USAGE, "doctor: KEY: 1 to %d bytes", DOCTOR_KEY_MOST);
    if (options->acl && (options->json || options->format))
        return fail(STATUS_USAGE, "doctor: --acl prints commands for redis-cli, no JSON");
    if (options->once_per_ms > TL_REST_MAX_MS)
        return fail(STATUS_USAGE, "doctor: --once-per: 400d at most");
    return options->acl ? doctor_acl_check(options->acl, key)
                        : server_care_check("doctor", &options->care, options->ttl_ms);
}

static int doctor_function(const server *where, const void *given, const operands *args) {
    const char *key = args->count ? args->word[0] : NULL;
    const doctor_legacy_hooks *legacy = FROM_LEGACY(doctor_legacy);
    const doctor_options *options = given;
    server_link link;

    int status = check_options(options, key);
    if (status)
        return status;
    doctor_work *work = calloc(1, sizeof *work);
    if (!work)
        return fail(STATUS_INTERNAL, "out of memory");
    work->facts.protocol = TL_TOKEN;
    work->facts.care = options->care;
    work->facts.ttl_ms = options->ttl_ms;
    work->facts.once_per_ms = options->once_per_ms;
    work->facts.by_sentinels = server_by_sentinels(where);
    if (legacy && where->legacy)
        status = legacy->take(where->legacy, &work->facts);
    if (status == 0 && options->once_per_ms > 0 && work->facts.strict)
        status = fail(STATUS_USAGE,
                      "doctor: --once-per: not with --strict: nothing can rest there");
    work->facts.key = key;
    if (status == 0 && server_by_etcd(where)) {
        status = doctor_etcd(where, options, key, &work->report);
        free(work);
        return status;
    }
    if (status == 0 && server_by_cluster(where)) {
        status = doctor_cluster(where, options, &work->facts, &work->report);
        free(work);
        return status;
    }
    status = status                       ? status
             : server_by_sentinels(where) ? link_open_by(&link, where, &work->facts.heard)
                                          : link_open(&link, where);
    if (status == 0) {
        server_say_local(where);
        work->facts.db = link.endpoint.db;
        status = examine(&link, options, &work->facts, &work->report);
        link_close(&link);
    }
    free(work);
    return status;
}

const command doctor_row = {
    .name = "doctor",
    .usage = "[options] [KEY]",
    .help = "check a server for settings that endanger locks",
    .notes = "With a KEY it also checks that this user may lock it. It changes nothing.\n"
             "With --acl, KEY may be a pattern: 'jobs:*'.\n",
    .statuses =
        (const status_row[]){
            {DOCTOR_FINE, "fine", "fine, or only notes"},
            {DOCTOR_WARNINGS, "warnings, or a check that could not be made",
             "warnings, or something could not be examined"},
            {DOCTOR_DANGEROUS, "dangerous", NULL},
            {STATUS_REFUSED, "login refused",
             "the server rejects this user altogether, or every command of this user; or it has "
             "no users for *--acl* (before 6.0)"},
            {0, NULL, NULL}},
    .members = (const members_row[]){{"doctor", members_of_doctor},
                                     {"finding", members_of_finding},
                                     {"node", members_of_node},
                                     {NULL, NULL}},
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .legacy = FROM_LEGACY(doctor_legacy_part),
    .args_max = 1,
    .function = doctor_function,
};
