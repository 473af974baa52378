/*
 * The doctor's judgement of a set of Sentinels: do they name a master to clients, and do they begin a
 * failover when they should? Pure.
 */
#include <string.h>

#include "ground/guard.h"
#include "doctor/doctor.h"

#define LEAST 3 /* with fewer, the loss of one leaves no majority */

#define NO_MASTER                                                                                  \
    "clients don't know the master: no lock can be acquired, renewals don't count, and "           \
    "held locks are lost"

bool doctor_is_of_tls(const char *message) {
    return GUARD(tls_is_no_login) && strstr(message, ": TLS: ") != NULL;
}

static void check_answers(const sentinels *sentinels, doctor_report *report) {
    const tl_sentinel_verdict *verdict = &sentinels->verdict;

    if (GUARD(nameless_sentinel_found) && verdict->nameless > 0) {
        doctor_found(
            report, "sentinels",
            verdict->answered < verdict->majority ? DOCTOR_DANGER : DOCTOR_WARNING,
            "%u of the addresses in the URL and from the Sentinels don't say which Sentinel they "
            "are",
            verdict->nameless);
        doctor_why(
            report,
            "their votes don't count: one Sentinel with two addresses must not count twice, and "
            "there are more addresses than Sentinels");
        doctor_fix(
            report,
            "allow the Sentinel user SENTINEL MYID (+sentinel|myid; before 6.2 INFO), or name the "
            "Sentinels in the URL as they announce themselves");
    }
    if (!GUARD(lost_majority_found) || verdict->answered >= verdict->majority ||
        verdict->nameless > 0)
        return;
    doctor_found(report, "sentinels", DOCTOR_DANGER,
                 "no majority of the Sentinels: %u of %u answer", verdict->answered,
                 verdict->total);
    doctor_why(report, NO_MASTER "; and there is no failover");
    doctor_fix(report, "fix those that don't respond: each has a finding of its own");
}

static void check_one(const sentinels *sentinels, unsigned i, doctor_report *report) {
    const sentinel *sentinel = &sentinels->of[i];
    bool all_unknown = sentinels->verdict.unknown == sentinels->verdict.answered;

    if (sentinel->stranger) {
        doctor_found(report, "sentinels", DOCTOR_WARNING, "%.150s of the URL is no Sentinel",
                     sentinel->label);
        doctor_why(report,
                   "it knows no master: without a majority of the Sentinels no lock is acquired");
        doctor_fix(
            report,
            "name only Sentinels (port 26379 by default); a server by itself is redis://HOST");
    } else if (GUARD(refusal_is_no_outage) && sentinel->status == STATUS_REFUSED) {
        doctor_found(report, "sentinels", DOCTOR_WARNING, "a Sentinel refuses the login: %s",
                     sentinel->message);
        doctor_why(
            report,
            "its vote doesn't count: without a majority of the Sentinels no lock is acquired");
        doctor_fix(report, "%s",
                   doctor_is_of_tls(sentinel->message)
                       ? DOCTOR_TLS_FIX
                       : "TIDELOCK_SENTINEL_USER and TIDELOCK_SENTINEL_PASSWORD (sentinel_user, "
                         "sentinel_password) are the Sentinels' login; that in the URL is the "
                         "master's");
    } else if (sentinel->status) {
        doctor_found(report, "sentinels", DOCTOR_WARNING, "a Sentinel doesn't respond: %s",
                     sentinel->message);
        doctor_why(
            report,
            "without a majority of the Sentinels no lock is acquired, and there is no failover");
        doctor_fix(
            report,
            i < sentinels->seeds
                ? "start it, or remove it from the URL"
                : "start it; or, if it was removed for good, SENTINEL RESET %s on the others, one "
                  "after the other",
            sentinels->master);
    } else if (GUARD(unknowing_sentinel_found) && sentinels->view[i].kind == TL_VIEW_UNKNOWN &&
               !all_unknown) {
        doctor_found(report, "sentinels", DOCTOR_WARNING, "the Sentinel %s knows no master %s",
                     sentinel->label, sentinels->master);
        doctor_why(report, "it votes for no master, as if it didn't respond");
        doctor_fix(report, "make it monitor %s as the others do, or remove it from the URL",
                   sentinels->master);
    }
}

static void check_name(const sentinels *sentinels, doctor_report *report) {
    if (!GUARD(unknown_name_found) || sentinels->verdict.answered == 0 ||
        sentinels->verdict.unknown < sentinels->verdict.answered)
        return;
    doctor_found(report, "sentinels", DOCTOR_DANGER, "the Sentinels know no master %s",
                 sentinels->master);
    doctor_why(report, "no lock can be acquired");
    doctor_fix(report,
               "check the name in the URL: SENTINEL MASTERS on one of them lists the masters");
}

static bool names(const tl_sentinel_view *view, const tl_sentinel_view *master) {
    return view->kind == TL_VIEW_NAMED && view->port == master->port &&
           strcmp(view->host, master->host) == 0;
}

/* Report the first Sentinel that names another master than the one that counts. */
static void check_agreement(const sentinels *sentinels, doctor_report *report) {
    const tl_sentinel_view *master = sentinels->verdict.master;

    for (unsigned i = 0; master && i < sentinels->count; i++) {
        const tl_sentinel_view *view = &sentinels->view[i];
        if (!GUARD(split_sentinels_found) || view->kind != TL_VIEW_NAMED || names(view, master))
            continue;
        doctor_found(
            report, "sentinels", sentinels->verdict.sure ? DOCTOR_WARNING : DOCTOR_DANGER,
            "the Sentinels disagree: %s names %.80s:%u, and the latest configuration is of "
            "%.80s:%u",
            sentinels->of[i].label, view->host, (unsigned)view->port, master->host,
            (unsigned)master->port);
        doctor_why(
            report, "%s",
            sentinels->verdict.sure
                ? "it doesn't know of the last failover, and misleads a client that asks no other "
                  "Sentinel"
                : NO_MASTER);
        doctor_fix(
            report,
            "in a failover this passes in seconds; otherwise check that the Sentinels reach each "
            "other, and that their sentinel announce-ip is the same from everywhere");
        return;
    }
}

static void check_quorum(const sentinels *sentinels, doctor_report *report) {
    const tl_sentinel_verdict *verdict = &sentinels->verdict;

    for (unsigned i = 0; i < sentinels->count; i++) {
        int64_t quorum = sentinels->of[i].quorum;
        if (!GUARD(odd_quorum_found) || quorum <= 0 ||
            (quorum >= verdict->majority && quorum <= verdict->total))
            continue;
        doctor_found(report, "sentinels", DOCTOR_WARNING,
                     "the quorum of %s is %lld of %u Sentinels, %s", sentinels->of[i].label,
                     (long long)quorum, verdict->total,
                     quorum > verdict->total ? "more than there are" : "less than a majority");
        doctor_why(
            report,
            quorum > verdict->total
                ? "a failover never happens: without the master no lock can be acquired"
                : "a failover begins as soon as so few Sentinels can't reach the master, even if "
                  "all others can: each failover can lose held locks");
        doctor_fix(report, "SENTINEL SET %s quorum %u, on each of them", sentinels->master,
                   verdict->majority);
        return;
    }
}

static void check_count(const sentinels *sentinels, doctor_report *report) {
    if (!GUARD(few_sentinels_found) || sentinels->verdict.answered == 0 ||
        sentinels->verdict.total >= LEAST)
        return;
    doctor_found(report, "sentinels", DOCTOR_WARNING, "there %s",
                 sentinels->verdict.total == 1 ? "is one Sentinel" : "are two Sentinels");
    doctor_why(report, "when one dies there is no majority: no failover, and no lock");
    doctor_fix(report, "run three, on machines of their own");
}

void doctor_check_sentinels(const sentinels *sentinels, doctor_report *report) {
    check_answers(sentinels, report);
    check_name(sentinels, report);
    for (unsigned i = 0; i < sentinels->count; i++)
        check_one(sentinels, i, report);
    check_agreement(sentinels, report);
    check_quorum(sentinels, report);
    check_count(sentinels, report);
}
