/*
 * What the doctor finds, of facts that a test makes up: each of its two pure parts by itself. A test defines check(), which
 * fills `report` from `facts`.
 */
#pragma once

#include <string.h>

#include "doctor/doctor.h"
#include "tests.h"

static doctor_facts facts;
static doctor_report report;

static void check(void);

static inline void info(const char *text) {
    (void)snprintf(facts.info, sizeof facts.info, "%s", text);
}

static inline void set(int which, const char *text) {
    facts.config[which].known = true;
    (void)snprintf(facts.config[which].text, sizeof facts.config[which].text, "%s", text);
}

static inline const doctor_finding *find(const char *what) {
    for (int i = 0; i < report.count; i++)
        if (strstr(report.finding[i].what, what))
            return &report.finding[i];
    return NULL;
}

/* This is found, of this level. */
static inline const doctor_finding *says(const char *id, doctor_level level, const char *what) {
    check();
    const doctor_finding *x = find(what);
    if (!x)
        fail_msg("not found: %s", what);
    assert_string_equal(x->id, id);
    if (x->level != level)
        fail_msg("%s: %s, not %s", what, doctor_level_name(x->level), doctor_level_name(level));
    assert_true(x->why[0] && x->fix[0]);
    return x;
}

/* And nothing else is. */
static inline const doctor_finding *says_only(const char *id, doctor_level level,
                                              const char *what) {
    const doctor_finding *x = says(id, level, what);
    assert_int_equal(report.count, 1);
    return x;
}

static inline void says_nothing(void) {
    check();
    if (report.count > 0)
        fail_msg("%s", report.finding[0].what);
}
