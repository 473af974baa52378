/*
 * The findings, as text and as JSON, and the exit status that they mean.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"
#include "doctor/doctor.h"

static int status_for(const doctor_report *report) {
    int status = DOCTOR_FINE;
    for (int i = 0; i < report->count; i++) {
        doctor_level level = report->finding[i].level;
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

/* The nodes that have this finding. */
static void show_places(const doctor_finding *finding, const cluster_survey *survey) {
    const char *before = "         at: ";
    for (unsigned i = 0; survey && i < survey->count; i++)
        if (doctor_is_at(finding, i)) {
            printf("%s%s", before, survey->of[i].label);
            before = ", ";
        }
    if (*before == ',')
        putchar('\n');
}

static int show_text(const doctor_title *title, const doctor_report *report) {
    printf("%s, %s: %s\n", title->server, title->product[0] ? title->product : "unknown version",
           state_name(status_for(report)));
    for (int i = 0; i < report->count; i++) {
        const doctor_finding *finding = &report->finding[i];
        printf("\n%-7s  %s: %s\n", doctor_level_name(finding->level), finding->id, finding->what);
        show_places(finding, title->of);
        printf("         why: %s\n", finding->why);
        printf("         %s: %s\n", finding->level == DOCTOR_UNSEEN ? "to check it" : "fix",
               finding->fix);
    }
    if (report->count == 0)
        printf("\nNo setting that endangers locks was found.\n");
    return fflush(stdout) || ferror(stdout) ? -1 : 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

#define DOCTOR_MEMBERS(M, of)                                                                      \
    M(of, state, "\"fine\", \"warnings\" or \"dangerous\"")                                        \
    M(of, server, "the server")                                                                    \
    M(of, product, "\"Redis\", \"Valkey\", or what else the server calls itself")                  \
    M(of, version, "its version; null when it doesn't report it")                                  \
    M(of, nodes, "of a cluster: an array of objects, see below")                                   \
    M(of, findings, "an array of objects, see below")
MEMBERS(doctor, DOCTOR_MEMBERS);

#define FINDING_MEMBERS(M, of)                                                                     \
    M(of, id, "its name, for programs")                                                            \
    M(of, level, "\"danger\", \"warning\", \"note\", or \"unseen\": it could not be examined")     \
    M(of, what, "what was found")                                                                  \
    M(of, why, "why it endangers locks")                                                           \
    M(of, fix, "what to do")                                                                       \
    M(of, nodes, "of a cluster: the nodes that it is about")
MEMBERS(finding, FINDING_MEMBERS);

#define NODE_MEMBERS(M, of)                                                                        \
    M(of, server, "its address")                                                                   \
    M(of, role, "\"master\" or \"replica\"; null: not known")                                      \
    M(of, version, "its version, or null")
MEMBERS(node, NODE_MEMBERS);

static json_t *places(const doctor_finding *finding, const cluster_survey *survey) {
    json_t *list = json_array();
    for (unsigned i = 0; i < survey->count; i++)
        if (doctor_is_at(finding, i))
            js_append(&list, js_text(survey->of[i].label));
    return list;
}

static json_t *findings(const doctor_report *report, const cluster_survey *survey) {
    json_t *list = json_array();

    for (int i = 0; i < report->count; i++) {
        const doctor_finding *finding = &report->finding[i];
        json_t *json = json_pack("{s:o, s:o, s:o, s:o, s:o}", id_of_finding, js_text(finding->id),
                                 level_of_finding, js_text(doctor_level_name(finding->level)),
                                 what_of_finding, js_text(finding->what), why_of_finding,
                                 js_text(finding->why), fix_of_finding, js_text(finding->fix));
        if (survey)
            js_set(&json, nodes_of_finding, places(finding, survey));
        js_append(&list, json);
    }
    return list;
}

static json_t *version(const char *product) {
    const char *number = strchr(product, ' ');
    return js_text(number ? number + 1 : NULL);
}

static json_t *nodes(const cluster_survey *survey) {
    json_t *list = json_array();

    for (unsigned i = 0; i < survey->count; i++) {
        const cluster_node *node = &survey->of[i];
        if (!node->twice && !node->led_to[0])
            js_append(&list, json_pack("{s:o, s:o, s:o}", server_of_node, js_text(node->label),
                                       role_of_node,
                                       js_text(!node->id[0]   ? NULL
                                               : node->master ? "master"
                                                              : "replica"),
                                       version_of_node, version(node->product)));
    }
    return list;
}

static int show_json(const doctor_title *title, const doctor_report *report) {
    size_t n = strcspn(title->product, " ");
    json_t *json = json_pack("{s:o}", state_of_doctor, js_text(state_name(status_for(report))));

    js_set(&json, server_of_doctor, js_text(title->server));
    js_set(&json, product_of_doctor, n ? js_bytes(title->product, n) : json_null());
    js_set(&json, version_of_doctor, version(title->product));
    if (title->of)
        js_set(&json, nodes_of_doctor, nodes(title->of));
    js_set(&json, findings_of_doctor, findings(report, title->of));
    return js_line(json, STDOUT_FILENO);
}

int doctor_show(const doctor_options *options, const doctor_title *title,
                const doctor_report *report) {
    if (options->json || options->format ? show_json(title, report) : show_text(title, report))
        return fail(STATUS_INTERNAL, "doctor: standard output: %s", strerror(errno));
    return status_for(report);
}
