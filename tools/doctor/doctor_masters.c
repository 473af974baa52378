/*
 * The doctor of a cluster. It asks all nodes about the cluster. Then it asks each master what it would ask
 * a single server, in a thread of its own. A finding that several masters share is shown once, with their
 * names.
 */
#include <stdlib.h>
#include <string.h>

#include "base/at_once.h"
#include "doctor/doctor.h"
#include "skew/skew_self.h"

typedef struct {
    const cluster_node *of;
    unsigned which;
    server_link like;
    doctor_facts *facts;
    bool asked;
    char message[DOCTOR_MESSAGE_SIZE]; /* why it wasn't */
} visit;

static void *ask_one(void *ctx) {
    visit *visit = ctx;
    server_link link;

    (void)snprintf(visit->message, sizeof visit->message, "out of memory");
    if (!link_open_beside(&link, &visit->like, visit->of->host, visit->of->port, false))
        return NULL;
    link.endpoint.db = visit->like.endpoint.db; /* as clients log in */
    visit->asked = doctor_ask(&link, visit->facts);
    (void)snprintf(visit->message, sizeof visit->message, "%s", visit->asked ? "" : link.message);
    link_close(&link);
    return NULL;
}

/* ---- findings -------------------------------------------------------------------------------- */

static bool is_same(const doctor_finding *one, const doctor_finding *other) {
    return strcmp(one->id, other->id) == 0 && one->level == other->level &&
           strcmp(one->what, other->what) == 0 && strcmp(one->why, other->why) == 0 &&
           strcmp(one->fix, other->fix) == 0;
}

/* A full report has the worse findings: each master's report begins with them, and they are added level by
 * level. */
static void add_finding(doctor_report *to, const doctor_finding *finding, unsigned node) {
    int i = 0;

    while (i < to->count && !is_same(&to->finding[i], finding))
        i++;
    if (i == DOCTOR_FINDINGS)
        return;
    if (i == to->count) {
        to->finding[to->count++] = *finding;
        memset(to->finding[i].at, 0, sizeof to->finding[i].at);
    }
    doctor_at(&to->finding[i], node);
}

static void found_unasked(const visit *visit, doctor_report *one) {
    one->count = 0;
    doctor_found(one, "cluster", DOCTOR_UNSEEN, "a master did not respond: %s", visit->message);
    doctor_why(one, "the dangers to locks in its slots are not known");
    doctor_fix(one, "run the doctor again when it responds");
}

static void add_level(const visit *visit, unsigned n, doctor_level level, doctor_report *one,
                      doctor_report *to) {
    for (unsigned i = 0; i < n; i++) {
        if (visit[i].asked)
            doctor_check(visit[i].facts, one);
        else
            found_unasked(&visit[i], one);
        for (int k = 0; k < one->count; k++)
            if (one->finding[k].level == level)
                add_finding(to, &one->finding[k], visit[i].which);
    }
}

/* ---- the masters ----------------------------------------------------------------------------- */

/* Unreachable ones included. */
static int64_t count_replicas(const cluster_survey *survey, const cluster_node *master) {
    int64_t n = 0;
    for (unsigned i = 0; i < survey->count; i++) {
        const cluster_node *node = &survey->of[i];
        n += !node->twice && !node->master && node->id[0] && strcmp(node->of, master->id) == 0;
    }
    return n;
}

/* Is a slot being moved from or to this node? Sometimes only one of the two nodes knows. */
static bool is_moving(const cluster_survey *survey, const cluster_node *node) {
    bool moving = node->open > 0;
    for (unsigned i = 0; i < survey->count; i++)
        for (unsigned k = 0; k < survey->of[i].open && k < NODE_OPEN_MOST; k++)
            moving = moving || strcmp(survey->of[i].opened[k].other, node->id) == 0;
    return moving;
}

static bool make_visit(visit *ret, const cluster_survey *survey, unsigned which,
                       const tl_endpoint *login, const doctor_facts *as) {
    *ret = (visit){.of = &survey->of[which], .which = which, .like = {.endpoint = *login}};
    ret->facts = malloc(sizeof *ret->facts);
    if (!ret->facts)
        return false;
    *ret->facts = *as;
    ret->facts->moving = is_moving(survey, ret->of);
    ret->facts->known = count_replicas(survey, ret->of);
    return true;
}

static void end_visits(visit *visit, unsigned n) {
    for (unsigned i = 0; visit && i < n; i++) {
        free(visit[i].facts);
        tl__endpoint_wipe(&visit[i].like.endpoint);
    }
    free(visit);
}

static bool has_slots(const uint16_t owner[TL_SLOTS], unsigned which) {
    for (unsigned slot = 0; slot < TL_SLOTS; slot++)
        if (owner[slot] == which)
            return true;
    return false;
}

bool doctor_check_masters(const cluster_survey *survey, const tl_endpoint *login,
                          const doctor_facts *as, doctor_report *report) {
    visit *visit = calloc(CLUSTER_NODES_MOST, sizeof *visit);
    doctor_report *one = calloc(1, sizeof *one);
    uint16_t owner[TL_SLOTS];
    unsigned n = 0;
    bool ok = visit && one;

    doctor_owners(survey, owner);
    for (unsigned i = 0; ok && i < survey->count; i++)
        if (survey->of[i].status == 0 && !survey->of[i].twice && has_slots(owner, i))
            ok = make_visit(&visit[n++], survey, i, login, as);
    if (ok)
        at_once(ask_one, visit, sizeof *visit, n);
    for (int level = DOCTOR_DANGER; ok && level >= DOCTOR_NOTE; level--)
        add_level(visit, n, (doctor_level)level, one, report);
    end_visits(visit, n);
    free(one);
    return ok;
}

/* ---- the command ----------------------------------------------------------------------------- */

static const cluster_node *first_master(const cluster_survey *survey) {
    const cluster_node *any = NULL;
    for (unsigned i = 0; i < survey->count; i++)
        if (survey->of[i].status == 0 && !survey->of[i].twice &&
            (!any || (survey->of[i].master && !any->master)))
            any = &survey->of[i];
    return any;
}

static int put_acl(const cluster_survey *survey, const tl_endpoint *login,
                   const doctor_options *options, doctor_facts *as) {
    const cluster_node *node = first_master(survey);
    server_link like = {.endpoint = *login}, link;

    if (!link_open_beside(&link, &like, node->host, node->port, false))
        return fail(STATUS_INTERNAL, "out of memory");
    as->db = login->db;
    int status = doctor_ask_info(&link, as) ? doctor_acl(as, options->acl, as->key)
                                            : fail(link.status, "%s", link.message);
    link_close(&link);
    tl__endpoint_wipe(&like.endpoint);
    return status;
}

static void put_title(const cluster_survey *survey, char *to, size_t size) {
    unsigned masters = 0, replicas = 0;

    for (unsigned i = 0; i < survey->count; i++)
        if (survey->of[i].id[0] && !survey->of[i].twice) {
            masters += survey->of[i].master;
            replicas += !survey->of[i].master;
        }
    (void)snprintf(to, size, "cluster of %.150s (masters: %u, replicas: %u)",
                   first_master(survey)->label, masters, replicas);
}

static int check(const cluster_survey *survey, const tl_endpoint *login,
                 const doctor_options *options, const doctor_facts *as, doctor_report *report) {
    char label[TL_HOST_SIZE + 80];
    doctor_title title = {.server = label, .product = first_master(survey)->product, .of = survey};

    report->count = 0;
    doctor_check_cluster(survey, report);
    if (!doctor_check_masters(survey, login, as, report))
        return fail(STATUS_INTERNAL, "out of memory");
    doctor_check_host(report);
    doctor_sort(report);
    if (options->json || options->format)
        title.server = first_master(survey)->label;
    else
        put_title(survey, label, sizeof label);
    return doctor_show(options, &title, report);
}

int doctor_cluster(const server *where, const doctor_options *options, doctor_facts *as,
                   doctor_report *report) {
    tl_endpoint login;
    link_login own;
    tl_seeds seeds;
    cluster_survey survey;
    server_link link;
    kernel_clock kernel = moment_kernel();
    char message[240];
    int status = link_places(&link, where, &login, &own, &seeds);

    if (status)
        return fail(status, "%s", link.message);
    as->by_cluster = true;
    if (!cluster_survey_ask(&survey, &login, &seeds, skew_self_rate(&kernel)))
        status = fail(STATUS_INTERNAL, "out of memory");
    else if (survey.answered == 0 &&
             (status = cluster_survey_trouble(&survey, message, sizeof message)))
        status = fail(status, "%s", message);
    else
        status = options->acl ? put_acl(&survey, &login, options, as)
                              : check(&survey, &login, options, as, report);
    cluster_survey_end(&survey);
    tl__endpoint_wipe(&login);
    tl__secret_wipe(&own.secret);
    return status;
}
