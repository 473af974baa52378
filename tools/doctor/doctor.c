/*
 * tidelock doctor: what of a server endangers locks, why, and what mends it. It changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"

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

/* ---- the command ---------------------------------------------------------------------------------------------- */

static int examine(server_link *l, const doctor_options *o, doctor_facts *f, doctor_report *r) {
    char server[TL_HOST_SIZE + 16];
    doctor_title title = {.server = server, .product = f->product};

    if (o->acl)
        return l->conn && doctor_ask_info(l, f) ? doctor_acl(f, o->acl, f->key)
                                                : fail(l->status, "%s", l->message);
    f->unasked = !l->conn;
    if (l->conn && !doctor_ask(l, f))
        return fail(l->status, "%s", l->message);
    doctor_check(f, r);
    (void)snprintf(server, sizeof server, "%s", l->conn ? l->endpoint.label : f->heard.master);
    return doctor_show(o, &title, r);
}

typedef struct {
    doctor_facts facts;
    doctor_report report;
} doctor_work;

static int doctor_function(const server *s, const void *given, const operands *args) {
    const char *key = args->count ? args->word[0] : NULL;
    const doctor_legacy_hooks *legacy = FROM_LEGACY(doctor_legacy);
    const doctor_options *o = given;
    server_link link;

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
    work->facts.key = key;
    if (status == 0 && server_by_etcd(s)) {
        status = doctor_etcd(s, o, key, &work->report);
        free(work);
        return status;
    }
    if (status == 0 && server_by_cluster(s)) {
        status = doctor_cluster(s, o, &work->facts, &work->report);
        free(work);
        return status;
    }
    status = status                   ? status
             : server_by_sentinels(s) ? link_open_by(&link, s, &work->facts.heard)
                                      : link_open(&link, s);
    if (status == 0) {
        server_say_local(s);
        work->facts.db = link.endpoint.db;
        status = examine(&link, o, &work->facts, &work->report);
        link_close(&link);
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
    .args_max = 1,
    .function = doctor_function,
};
