/*
 * The doctor of a cluster: all nodes are asked what they say of it, then each master what is asked of a server, in a thread of
 * its own. What is true of several is told once, with their names.
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
    char message[DOCTOR_MESSAGE_SIZE]; /* why not */
} visit;

static void *ask_one(void *ctx) {
    visit *v = ctx;
    server_link l;

    (void)snprintf(v->message, sizeof v->message, "out of memory");
    if (!link_open_beside(&l, &v->like, v->of->host, v->of->port, false))
        return NULL;
    v->asked = doctor_ask(&l, v->facts);
    (void)snprintf(v->message, sizeof v->message, "%s", v->asked ? "" : l.message);
    link_close(&l);
    return NULL;
}

/* ---- what was found -------------------------------------------------------------------------- */

static bool is_same(const doctor_finding *a, const doctor_finding *b) {
    return strcmp(a->id, b->id) == 0 && a->level == b->level && strcmp(a->what, b->what) == 0 &&
           strcmp(a->why, b->why) == 0 && strcmp(a->fix, b->fix) == 0;
}

/* When there is no more room what is worse is there: each report has it first, and all are added level by level. */
static void add_finding(doctor_report *to, const doctor_finding *x, unsigned node) {
    int i = 0;

    while (i < to->count && !is_same(&to->finding[i], x))
        i++;
    if (i == DOCTOR_FINDINGS)
        return;
    if (i == to->count) {
        to->finding[to->count++] = *x;
        memset(to->finding[i].at, 0, sizeof to->finding[i].at);
    }
    doctor_at(&to->finding[i], node);
}

static void found_unasked(const visit *v, doctor_report *one) {
    one->count = 0;
    doctor_found(one, "cluster", DOCTOR_UNSEEN, "a master could not be asked: %s", v->message);
    doctor_why(one, "what endangers the locks in its slots is not known");
    doctor_fix(one, "again, when it answers");
}

static void add_level(const visit *v, unsigned n, doctor_level level, doctor_report *one,
                      doctor_report *to) {
    for (unsigned i = 0; i < n; i++) {
        if (v[i].asked)
            doctor_check(v[i].facts, one);
        else
            found_unasked(&v[i], one);
        for (int k = 0; k < one->count; k++)
            if (one->finding[k].level == level)
                add_finding(to, &one->finding[k], v[i].which);
    }
}

/* ---- the masters ----------------------------------------------------------------------------- */

/* Also those that are away. */
static int64_t count_replicas(const cluster_survey *m, const cluster_node *master) {
    int64_t n = 0;
    for (unsigned i = 0; i < m->count; i++) {
        const cluster_node *x = &m->of[i];
        n += !x->twice && !x->master && x->id[0] && strcmp(x->of, master->id) == 0;
    }
    return n;
}

/* From it or to it; one end may know alone. */
static bool is_moving(const cluster_survey *m, const cluster_node *x) {
    bool moving = x->open > 0;
    for (unsigned i = 0; i < m->count; i++)
        for (unsigned k = 0; k < m->of[i].open && k < NODE_OPEN_MOST; k++)
            moving = moving || strcmp(m->of[i].opened[k].other, x->id) == 0;
    return moving;
}

static bool make_visit(visit *v, const cluster_survey *m, unsigned which, const tl_endpoint *login,
                       const doctor_facts *as) {
    *v = (visit){.of = &m->of[which], .which = which, .like = {.endpoint = *login}};
    v->facts = malloc(sizeof *v->facts);
    if (!v->facts)
        return false;
    *v->facts = *as;
    v->facts->moving = is_moving(m, v->of);
    v->facts->known = count_replicas(m, v->of);
    return true;
}

static void end_visits(visit *v, unsigned n) {
    for (unsigned i = 0; v && i < n; i++) {
        free(v[i].facts);
        tl__endpoint_wipe(&v[i].like.endpoint);
    }
    free(v);
}

static bool has_slots(const uint16_t owner[TL_SLOTS], unsigned which) {
    for (unsigned slot = 0; slot < TL_SLOTS; slot++)
        if (owner[slot] == which)
            return true;
    return false;
}

bool doctor_check_masters(const cluster_survey *m, const tl_endpoint *login, const doctor_facts *as,
                          doctor_report *r) {
    visit *v = calloc(CLUSTER_NODES_MOST, sizeof *v);
    doctor_report *one = calloc(1, sizeof *one);
    uint16_t owner[TL_SLOTS];
    unsigned n = 0;
    bool ok = v && one;

    doctor_owners(m, owner);
    for (unsigned i = 0; ok && i < m->count; i++)
        if (m->of[i].status == 0 && !m->of[i].twice && has_slots(owner, i))
            ok = make_visit(&v[n++], m, i, login, as);
    if (ok)
        at_once(ask_one, v, sizeof *v, n);
    for (int level = DOCTOR_DANGER; ok && level >= DOCTOR_NOTE; level--)
        add_level(v, n, (doctor_level)level, one, r);
    end_visits(v, n);
    free(one);
    return ok;
}

/* ---- the command ----------------------------------------------------------------------------- */

static const cluster_node *first_master(const cluster_survey *m) {
    const cluster_node *any = NULL;
    for (unsigned i = 0; i < m->count; i++)
        if (m->of[i].status == 0 && !m->of[i].twice && (!any || (m->of[i].master && !any->master)))
            any = &m->of[i];
    return any;
}

static int put_acl(const cluster_survey *m, const tl_endpoint *login, const doctor_options *o,
                   doctor_facts *as) {
    const cluster_node *x = first_master(m);
    server_link like = {.endpoint = *login}, l;

    if (!link_open_beside(&l, &like, x->host, x->port, false))
        return fail(STATUS_INTERNAL, "out of memory");
    int status = doctor_ask_info(&l, as) ? doctor_acl(as, o->acl, as->key)
                                         : fail(l.status, "%s", l.message);
    link_close(&l);
    tl__endpoint_wipe(&like.endpoint);
    return status;
}

static void put_title(const cluster_survey *m, char *to, size_t size) {
    unsigned masters = 0, replicas = 0;

    for (unsigned i = 0; i < m->count; i++)
        if (m->of[i].id[0] && !m->of[i].twice) {
            masters += m->of[i].master;
            replicas += !m->of[i].master;
        }
    (void)snprintf(to, size, "cluster of %.150s (masters: %u, replicas: %u)",
                   first_master(m)->label, masters, replicas);
}

static int check(const cluster_survey *m, const tl_endpoint *login, const doctor_options *o,
                 const doctor_facts *as, doctor_report *r) {
    char title[TL_HOST_SIZE + 80];
    doctor_title t = {.server = title, .product = first_master(m)->product, .of = m};

    r->count = 0;
    doctor_check_cluster(m, r);
    if (!doctor_check_masters(m, login, as, r))
        return fail(STATUS_INTERNAL, "out of memory");
    doctor_sort(r);
    if (o->json || o->format)
        t.server = first_master(m)->label;
    else
        put_title(m, title, sizeof title);
    return doctor_show(o, &t, r);
}

int doctor_cluster(const server *s, const doctor_options *o, doctor_facts *as, doctor_report *r) {
    tl_endpoint login;
    link_login own;
    tl_seeds seeds;
    cluster_survey m;
    server_link l;
    kernel_clock kernel = moment_kernel();
    char message[240];
    int status = link_places(&l, s, &login, &own, &seeds);

    if (status)
        return fail(status, "%s", l.message);
    as->by_cluster = true;
    if (!cluster_survey_ask(&m, &login, &seeds, skew_self_rate(&kernel)))
        status = fail(STATUS_INTERNAL, "out of memory");
    else if (m.answered == 0 && (status = cluster_survey_trouble(&m, message, sizeof message)))
        status = fail(status, "%s", message);
    else
        status = o->acl ? put_acl(&m, &login, o, as) : check(&m, &login, o, as, r);
    cluster_survey_end(&m);
    tl__endpoint_wipe(&login);
    tl__secret_wipe(&own.secret);
    return status;
}
