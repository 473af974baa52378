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
        json_t *json = json_pack("{s:o, s:o, s:o, s:o, s:o}", "id", js_text(finding->id), "level",
                                 js_text(doctor_level_name(finding->level)), "what",
                                 js_text(finding->what), "why", js_text(finding->why), "fix",
                                 js_text(finding->fix));
        if (survey)
            js_set(&json, "nodes", places(finding, survey));
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
            js_append(&list, json_pack("{s:o, s:o, s:o}", "server", js_text(node->label), "role",
                                       js_text(!node->id[0]   ? NULL
                                               : node->master ? "master"
                                                              : "replica"),
                                       "version", version(node->product)));
    }
    return list;
}

static int show_json(const doctor_title *title, const doctor_report *report) {
    size_t n = strcspn(title->product, " ");
    json_t *json = json_pack("{s:o}", "state", js_text(state_name(status_for(report))));

    js_set(&json, "server", js_text(title->server));
    js_set(&json, "product", n ? js_bytes(title->product, n) : json_null());
    js_set(&json, "version", version(title->product));
    if (title->of)
        js_set(&json, "nodes", nodes(title->of));
    js_set(&json, "findings", findings(report, title->of));
    return js_line(json, STDOUT_FILENO);
}

int doctor_show(const doctor_options *options, const doctor_title *title,
                const doctor_report *report) {
    if (options->json || options->format ? show_json(title, report) : show_text(title, report))
        return fail(STATUS_INTERNAL, "doctor: standard output: %s", strerror(errno));
    return status_for(report);
}
