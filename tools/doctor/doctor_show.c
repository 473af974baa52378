/*
 * What was found, for people and as JSON; and the exit status that it means.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"
#include "doctor/doctor.h"

static int status_for(const doctor_report *r) {
    int status = DOCTOR_FINE;
    for (int i = 0; i < r->count; i++) {
        doctor_level level = r->finding[i].level;
        int it = level == DOCTOR_DANGER ? DOCTOR_DANGEROUS
                 : level == DOCTOR_NOTE ? DOCTOR_FINE
                                        : DOCTOR_WARNINGS;
        status = it > status ? it : status;
    }
    return status;
}

static const char *state_name(int status) {
    static const char *const names[] = {"fine", "warnings", "dangerous"};
    return names[status];
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The nodes that it is true of. */
static void show_places(const doctor_finding *x, const cluster_survey *m) {
    const char *before = "         at: ";
    for (unsigned i = 0; m && i < m->count; i++)
        if (doctor_is_at(x, i)) {
            printf("%s%s", before, m->of[i].label);
            before = ", ";
        }
    if (*before == ',')
        putchar('\n');
}

static int show_text(const doctor_title *t, const doctor_report *r) {
    printf("%s, %s: %s\n", t->server, t->product[0] ? t->product : "of an unknown version",
           state_name(status_for(r)));
    for (int i = 0; i < r->count; i++) {
        const doctor_finding *x = &r->finding[i];
        printf("\n%-7s  %s: %s\n", doctor_level_name(x->level), x->id, x->what);
        show_places(x, t->of);
        printf("         why: %s\n", x->why);
        printf("         %s: %s\n", x->level == DOCTOR_UNSEEN ? "to see it" : "fix", x->fix);
    }
    if (r->count == 0)
        printf("\nNothing that endangers locks was found.\n");
    return fflush(stdout) || ferror(stdout) ? -1 : 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *places(const doctor_finding *x, const cluster_survey *m) {
    json_t *list = json_array();
    for (unsigned i = 0; i < m->count; i++)
        if (doctor_is_at(x, i))
            js_append(&list, js_text(m->of[i].label));
    return list;
}

static json_t *findings(const doctor_report *r, const cluster_survey *m) {
    json_t *list = json_array();

    for (int i = 0; i < r->count; i++) {
        const doctor_finding *x = &r->finding[i];
        json_t *j = json_pack("{s:o, s:o, s:o, s:o, s:o}", "id", js_text(x->id), "level",
                              js_text(doctor_level_name(x->level)), "what", js_text(x->what), "why",
                              js_text(x->why), "fix", js_text(x->fix));
        if (m)
            js_set(&j, "nodes", places(x, m));
        js_append(&list, j);
    }
    return list;
}

static json_t *version(const char *product) {
    const char *number = strchr(product, ' ');
    return js_text(number ? number + 1 : NULL);
}

static json_t *nodes(const cluster_survey *m) {
    json_t *list = json_array();

    for (unsigned i = 0; i < m->count; i++) {
        const cluster_node *x = &m->of[i];
        if (!x->twice && !x->led_to[0])
            js_append(&list, json_pack("{s:o, s:o, s:o}", "server", js_text(x->label), "role",
                                       js_text(!x->id[0]   ? NULL
                                               : x->master ? "master"
                                                           : "replica"),
                                       "version", version(x->product)));
    }
    return list;
}

static int show_json(const doctor_title *t, const doctor_report *r) {
    size_t n = strcspn(t->product, " ");
    json_t *j = json_pack("{s:o}", "state", js_text(state_name(status_for(r))));

    js_set(&j, "server", js_text(t->server));
    js_set(&j, "product", n ? js_bytes(t->product, n) : json_null());
    js_set(&j, "version", version(t->product));
    if (t->of)
        js_set(&j, "nodes", nodes(t->of));
    js_set(&j, "findings", findings(r, t->of));
    return js_line(j, STDOUT_FILENO);
}

int doctor_show(const doctor_options *o, const doctor_title *t, const doctor_report *r) {
    if (o->json || o->format ? show_json(t, r) : show_text(t, r))
        return fail(STATUS_INTERNAL, "doctor: standard output: %s", strerror(errno));
    return status_for(r);
}
