/*
 * The doctor's judgement of a set of Sentinels: whether they lead anybody to a master, and begin a failover when they
 * should. Pure.
 */
#include <string.h>

#include "ground/guard.h"
#include "doctor/doctor.h"

#define LEAST 3 /* with fewer, one that is gone leaves no majority */

#define NO_MASTER                                                                                  \
    "nobody knows which server to ask: no lock can be acquired, renewals don't count, and held "   \
    "locks are lost"

bool doctor_is_of_tls(const char *message) {
    return GUARD(tls_is_no_login) && strstr(message, ": TLS: ") != NULL;
}

static void check_answers(const sentinels *s, doctor_report *r) {
    const tl_sentinel_verdict *v = &s->verdict;

    if (GUARD(nameless_sentinel_found) && v->nameless > 0) {
        doctor_found(
            r, "sentinels", v->answered < v->majority ? DOCTOR_DANGER : DOCTOR_WARNING,
            "%u of the places that the URL and the Sentinels name don't say which Sentinel "
            "is there",
            v->nameless);
        doctor_why(r, "their word doesn't count: one Sentinel by two addresses must not count "
                      "twice, and there are more addresses than Sentinels");
        doctor_fix(
            r,
            "allow the Sentinel user SENTINEL MYID (+sentinel|myid; before 6.2 INFO), or name the "
            "Sentinels in the URL as they announce themselves");
    }
    if (!GUARD(lost_majority_found) || v->answered >= v->majority || v->nameless > 0)
        return;
    doctor_found(r, "sentinels", DOCTOR_DANGER, "no majority of the Sentinels: %u of %u answer",
                 v->answered, v->total);
    doctor_why(r, NO_MASTER "; nor is there a failover");
    doctor_fix(r, "see to those that don't answer: each is told of by itself");
}

static void check_one(const sentinels *s, unsigned i, doctor_report *r) {
    const sentinel *x = &s->of[i];
    bool all_unknown = s->verdict.unknown == s->verdict.answered;

    if (x->stranger) {
        doctor_found(r, "sentinels", DOCTOR_WARNING, "%.150s of the URL is no Sentinel", x->label);
        doctor_why(r, "it knows no master: with fewer than a majority no lock is acquired");
        doctor_fix(r, "name the Sentinels alone (port 26379, unless told otherwise); a server by "
                      "itself is redis://HOST");
    } else if (GUARD(refusal_is_no_outage) && x->status == STATUS_REFUSED) {
        doctor_found(r, "sentinels", DOCTOR_WARNING, "a Sentinel lets nobody in: %s", x->message);
        doctor_why(r, "its word doesn't count: with fewer than a majority no lock is acquired");
        doctor_fix(r, "%s",
                   doctor_is_of_tls(x->message)
                       ? DOCTOR_TLS_FIX
                       : "TIDELOCK_SENTINEL_USER and TIDELOCK_SENTINEL_PASSWORD (sentinel_user, "
                         "sentinel_password) are the Sentinels' login; that in the URL is the "
                         "master's");
    } else if (x->status) {
        doctor_found(r, "sentinels", DOCTOR_WARNING, "a Sentinel doesn't answer: %s", x->message);
        doctor_why(r, "with fewer than a majority no lock is acquired, and there is no failover");
        doctor_fix(r,
                   i < s->seeds ? "start it, or take it out of the URL"
                                : "start it; or, where it is gone for good, SENTINEL RESET %s "
                                  "on the others, one after the other",
                   s->master);
    } else if (GUARD(unknowing_sentinel_found) && s->view[i].kind == TL_VIEW_UNKNOWN &&
               !all_unknown) {
        doctor_found(r, "sentinels", DOCTOR_WARNING, "the Sentinel %s knows no master %s", x->label,
                     s->master);
        doctor_why(r, "its word counts for no master, as if it didn't answer");
        doctor_fix(r, "have it watch %s as the others do, or take it out of the URL", s->master);
    }
}

static void check_name(const sentinels *s, doctor_report *r) {
    if (!GUARD(unknown_name_found) || s->verdict.answered == 0 ||
        s->verdict.unknown < s->verdict.answered)
        return;
    doctor_found(r, "sentinels", DOCTOR_DANGER, "the Sentinels know no master %s", s->master);
    doctor_why(r, "no lock can be acquired");
    doctor_fix(r, "check the name in the URL: SENTINEL MASTERS, asked of one of them, lists those "
                  "that there are");
}

static bool names(const tl_sentinel_view *v, const tl_sentinel_view *master) {
    return v->kind == TL_VIEW_NAMED && v->port == master->port &&
           strcmp(v->host, master->host) == 0;
}

/* The first that names another than the one that counts. */
static void check_agreement(const sentinels *s, doctor_report *r) {
    const tl_sentinel_view *m = s->verdict.master;

    for (unsigned i = 0; m && i < s->count; i++) {
        const tl_sentinel_view *v = &s->view[i];
        if (!GUARD(split_sentinels_found) || v->kind != TL_VIEW_NAMED || names(v, m))
            continue;
        doctor_found(
            r, "sentinels", s->verdict.sure ? DOCTOR_WARNING : DOCTOR_DANGER,
            "the Sentinels disagree: %s names %.80s:%u, and the latest configuration is of "
            "%.80s:%u",
            s->of[i].label, v->host, (unsigned)v->port, m->host, (unsigned)m->port);
        doctor_why(r, "%s",
                   s->verdict.sure ? "it hasn't heard of the last failover, and misleads whoever "
                                     "asks it alone"
                                   : NO_MASTER);
        doctor_fix(r,
                   "in a failover that passes in seconds; else see that the Sentinels reach each "
                   "other, and that sentinel announce-ip is the same seen from everywhere");
        return;
    }
}

static void check_quorum(const sentinels *s, doctor_report *r) {
    const tl_sentinel_verdict *v = &s->verdict;

    for (unsigned i = 0; i < s->count; i++) {
        int64_t quorum = s->of[i].quorum;
        if (!GUARD(odd_quorum_found) || quorum <= 0 ||
            (quorum >= v->majority && quorum <= v->total))
            continue;
        doctor_found(r, "sentinels", DOCTOR_WARNING, "the quorum of %s is %lld of %u Sentinels, %s",
                     s->of[i].label, (long long)quorum, v->total,
                     quorum > v->total ? "more than there are" : "less than a majority");
        doctor_why(r,
                   quorum > v->total
                       ? "there is never a failover: without the master no lock can be acquired"
                       : "a failover begins as soon as so few don't reach the master, though all "
                         "others do: each can cost locks that are held");
        doctor_fix(r, "SENTINEL SET %s quorum %u, on each of them", s->master, v->majority);
        return;
    }
}

static void check_count(const sentinels *s, doctor_report *r) {
    if (!GUARD(few_sentinels_found) || s->verdict.answered == 0 || s->verdict.total >= LEAST)
        return;
    doctor_found(r, "sentinels", DOCTOR_WARNING, "there %s",
                 s->verdict.total == 1 ? "is one Sentinel" : "are two Sentinels");
    doctor_why(r, "when one is gone there is no majority: no failover, and no lock");
    doctor_fix(r, "run three, on machines of their own");
}

void doctor_check_sentinels(const sentinels *s, doctor_report *r) {
    check_answers(s, r);
    check_name(s, r);
    for (unsigned i = 0; i < s->count; i++)
        check_one(s, i, r);
    check_agreement(s, r);
    check_quorum(s, r);
    check_count(s, r);
}
