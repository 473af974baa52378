/*
 * The doctor's judgement of a cluster: whether each slot has a master that clients reach, whether another takes over when one
 * dies, and whether all nodes are of one mind. Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "doctor/doctor.h"

#define LEAST 3 /* masters: with fewer, one that is gone leaves no majority to choose another */
#define APART_WARN_US 100000
#define APART_DANGER_US 1000000
#define LIST_SIZE 120

typedef struct {
    const cluster_survey *m;
    doctor_report *r;
    uint16_t owner[TL_SLOTS];
    unsigned slots[CLUSTER_NODES_MOST];
} view;

static bool answers(const cluster_node *x) {
    return x->status == 0 && !x->twice;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Of two that claim one, the later; what nobody claims, others may know to be of one that is silent. */
void doctor_owners(const cluster_survey *m, uint16_t ret[TL_SLOTS]) {
    for (unsigned slot = 0; slot < TL_SLOTS; slot++) {
        ret[slot] = TL_NOBODY;
        for (unsigned i = 0; i < m->count; i++)
            if (answers(&m->of[i]) && m->of[i].owner[slot] == i &&
                (ret[slot] == TL_NOBODY ||
                 (GUARD(later_claim_counts) && m->of[i].epoch > m->of[ret[slot]].epoch)))
                ret[slot] = (uint16_t)i;
        for (unsigned i = 0; i < m->count && ret[slot] == TL_NOBODY; i++)
            if (answers(&m->of[i]) && m->of[i].owner[slot] != TL_NOBODY &&
                !answers(&m->of[m->of[i].owner[slot]]))
                ret[slot] = m->of[i].owner[slot];
    }
}

/* "0-5460 5462", as far as there is room. */
static void list_slots(const view *v, uint16_t owner, char to[LIST_SIZE]) {
    size_t used = 0;
    to[0] = '\0';
    for (unsigned slot = 0; slot < TL_SLOTS && used + 24 < LIST_SIZE; slot++) {
        unsigned first = slot;
        if (v->owner[slot] != owner)
            continue;
        while (slot + 1 < TL_SLOTS && v->owner[slot + 1] == owner)
            slot++;
        int n = slot > first
                    ? snprintf(to + used, LIST_SIZE - used, "%s%u-%u", used ? " " : "", first, slot)
                    : snprintf(to + used, LIST_SIZE - used, "%s%u", used ? " " : "", first);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used + 24 >= LIST_SIZE)
        (void)snprintf(to + used, LIST_SIZE - used, " ...");
}

static doctor_finding *last(const view *v) {
    return &v->r->finding[v->r->count - 1];
}

/* Whom "redis-cli --cluster" is given. */
static const char *any_label(const view *v) {
    for (unsigned i = 0; i < v->m->count; i++)
        if (answers(&v->m->of[i]))
            return v->m->of[i].label;
    return "HOST:PORT";
}

static void check_uncovered(const view *v) {
    char list[LIST_SIZE];
    unsigned n = 0;

    for (unsigned slot = 0; slot < TL_SLOTS; slot++)
        n += v->owner[slot] == TL_NOBODY;
    if (n == 0)
        return;
    list_slots(v, TL_NOBODY, list);
    doctor_found(v->r, "cluster", DOCTOR_DANGER, "%u %s no master: %s", n,
                 n == 1 ? "slot has" : "slots have", list);
    doctor_why(v->r, "no lock in such a slot can be acquired, and held ones are lost; with "
                     "cluster-require-full-coverage that is true of all others, too");
    doctor_fix(v->r,
               "bring the master back that had them, with its nodes.conf; or redis-cli --cluster "
               "fix %.100s --cluster-fix-with-unreachable-masters",
               any_label(v));
}

/* ---- the state that nodes say they are in ------------------------------------------------------ */

static void check_state(const view *v) {
    bool found = false;

    for (unsigned i = 0; i < v->m->count; i++) {
        if (!answers(&v->m->of[i]) || v->m->of[i].ok)
            continue;
        if (!found) {
            doctor_found(v->r, "cluster", DOCTOR_DANGER,
                         "the cluster is down (cluster_state:fail)");
            doctor_why(v->r, "these nodes refuse all keys (CLUSTERDOWN): no lock can be acquired, "
                             "and held ones are lost");
            doctor_fix(v->r, "a slot has no master, or these nodes don't reach a majority of the "
                             "masters, on their ports and on the cluster bus (port + 10000): see "
                             "the other findings, and CLUSTER NODES on one of them");
        }
        found = true;
        doctor_at(last(v), i);
    }
}

/* ---- nodes that don't answer ------------------------------------------------------------------- */

static void check_stranger(const view *v, const cluster_node *x) {
    doctor_found(v->r, "cluster", DOCTOR_WARNING, "%.150s of the URL is no node of a cluster",
                 x->label);
    doctor_why(v->r, "who asks it first loses time");
    doctor_fix(v->r, "take it out of the URL");
}

static void found_silent(const view *v, const cluster_node *x, bool needed, const char *what) {
    doctor_found(v->r, "cluster", needed ? DOCTOR_DANGER : DOCTOR_WARNING, what, x->label,
                 x->message[0] ? x->message : "nobody knows where it is");
    doctor_why(v->r, "%s",
               needed      ? "locks in its slots can't be acquired, and held ones are lost"
               : !x->id[0] ? "who asks it first loses time"
               : x->master ? "it has no slots now; with some, locks in them could not be had"
                           : "if it takes over, locks in its slots can't be had");
}

static void check_led(const view *v, const cluster_node *x) {
    int node = cluster_survey_find(v->m, x->led_to);
    bool needed = node >= 0 && v->slots[node] > 0;

    doctor_found(v->r, "cluster", needed ? DOCTOR_DANGER : DOCTOR_WARNING,
                 "the cluster leads clients to %.100s for %.60s, where it isn't to be had: %.130s",
                 x->label, node >= 0 ? v->m->of[node].label : x->led_to, x->message);
    doctor_why(v->r, "%s",
               needed ? "locks in its slots can't be acquired, and held ones are lost"
                      : "if it takes over, locks in its slots can't be had");
    doctor_fix(v->r, "on that node: cluster-announce-ip, cluster-announce-port and "
                     "cluster-announce-hostname as clients reach it");
}

static void check_silent(const view *v, unsigned i) {
    const cluster_node *x = &v->m->of[i];
    bool needed = v->slots[i] > 0;

    if (GUARD(refusal_is_no_outage) && x->status == STATUS_REFUSED) {
        found_silent(v, x, needed, "%.100s lets nobody in: %.200s");
        doctor_fix(v->r, "%s",
                   doctor_is_of_tls(x->message)
                       ? DOCTOR_TLS_FIX
                       : "the same users and passwords on every node (requirepass or ACL, and "
                         "masterauth): nodes don't tell each other of them");
    } else if (!x->id[0]) {
        found_silent(v, x, needed, "%.100s of the URL doesn't answer: %.200s");
        doctor_fix(v->r, "start it, or take it out of the URL");
    } else if (GUARD(hidden_node_found) && x->linked > 0 && !x->failing) {
        found_silent(
            v, x, needed,
            "%.100s, which other nodes are connected to, can't be reached from here: %.200s");
        doctor_fix(
            v->r,
            "start it, if it has just died; else cluster-announce-ip and cluster-announce-port "
            "on it must be what clients reach it by, and the firewall must let them");
    } else {
        found_silent(v, x, needed, "%.100s doesn't answer: %.200s");
        doctor_fix(v->r,
                   "start it; where it is gone for good: CLUSTER FORGET %s on every other node%s",
                   x->id,
                   needed ? ", after CLUSTER FAILOVER TAKEOVER on a replica of it or redis-cli "
                            "--cluster fix"
                          : "");
    }
}

static void check_answers(const view *v) {
    for (unsigned i = 0; i < v->m->count; i++) {
        const cluster_node *x = &v->m->of[i];
        if (x->twice || x->status == 0)
            continue;
        if (GUARD(misled_client_found) && x->led_to[0])
            check_led(v, x);
        else if (GUARD(no_cluster_node_found) && x->stranger)
            check_stranger(v, x);
        else
            check_silent(v, i);
    }
}

static void check_all(const view *v) {
    if (!v->m->more)
        return;
    doctor_found(v->r, "cluster", DOCTOR_WARNING, "only %d nodes of the cluster were looked at",
                 CLUSTER_NODES_MOST);
    doctor_why(v->r, "it has more: what is wrong with the others is not told here");
    doctor_fix(v->r,
               "redis-cli --cluster check %.150s, and the doctor for each of the others by "
               "its own URL, redis://HOST",
               v->m->of[0].label);
}

/* A node that nobody knows is of another cluster, or was forgotten. */
static void check_known(const view *v) {
    if (v->m->answered < 2)
        return;
    for (unsigned i = 0; i < v->m->count; i++) {
        const cluster_node *x = &v->m->of[i];
        if (!GUARD(foreign_node_found) || !answers(x) || x->named > 0)
            continue;
        doctor_found(v->r, "cluster", DOCTOR_DANGER, "no other node knows %.150s of the URL",
                     x->label);
        doctor_why(v->r, "it is of another cluster, or was forgotten by this one: whoever is led "
                         "by it acquires locks that exclude nobody here");
        doctor_fix(v->r, "take it out of the URL; or CLUSTER MEET, if it belongs here");
    }
}

/* ---- of one mind? ------------------------------------------------------------------------------ */

static unsigned differences(const view *v, const cluster_node *x, unsigned *ret_first) {
    unsigned n = 0;
    for (unsigned slot = 0; slot < TL_SLOTS; slot++)
        if (x->owner[slot] != v->owner[slot] && n++ == 0)
            *ret_first = slot;
    return n;
}

static const char *label_of(const view *v, uint16_t owner) {
    return owner == TL_NOBODY ? "nobody" : v->m->of[owner].label;
}

/* The first that takes others for the owners. */
static void check_agreement(const view *v) {
    unsigned first = 0, n;

    for (unsigned i = 0; i < v->m->count; i++) {
        const cluster_node *x = &v->m->of[i];
        if (!answers(x) || (x->named == 0 && v->m->answered > 1) ||
            (n = differences(v, x, &first)) == 0)
            continue;
        doctor_found(v->r, "cluster", DOCTOR_WARNING,
                     "the nodes disagree about %u %s: of slot %u %.80s says that %.80s has it, and "
                     "%.80s does",
                     n, n == 1 ? "slot" : "slots", first, x->label, label_of(v, x->owner[first]),
                     label_of(v, v->owner[first]));
        doctor_why(v->r, "who asks it is led astray, and loses time; if it thinks that it has a "
                         "slot itself, it may give a lock that another gives too");
        doctor_fix(v->r,
                   "after a failover or a move that passes in seconds; else see that the nodes "
                   "reach each other on the cluster bus (port + 10000), and redis-cli --cluster "
                   "check %.100s",
                   any_label(v));
        return;
    }
}

/* The other end says the same. */
static bool is_told(const view *v, const open_slot *o, int from) {
    const cluster_node *x = from >= 0 ? &v->m->of[from] : NULL;
    for (unsigned i = 0; x && answers(x) && i < x->open && i < NODE_OPEN_MOST; i++)
        if (x->opened[i].slot == o->slot && x->opened[i].leaves)
            return !o->leaves;
    return false;
}

static void found_open(const view *v, const cluster_node *x) {
    const open_slot *o = &x->opened[0];
    int other = cluster_survey_find(v->m, o->other);
    const char *there = other >= 0 ? v->m->of[other].label : o->other;
    char what[64];

    if (GUARD(move_told_once) && is_told(v, o, other))
        return;
    (void)snprintf(what, sizeof what, x->open > 1 ? "slots %u and %u more are" : "slot %u is",
                   o->slot, x->open - 1);
    doctor_found(v->r, "cluster", DOCTOR_WARNING, "%s being moved from %.80s to %.80s", what,
                 o->leaves ? x->label : there, o->leaves ? there : x->label);
    doctor_why(v->r, "until that is done a lock in it costs several requests, who waits asks again "
                     "and again, and with quiet_ms none can be acquired");
    doctor_fix(
        v->r,
        "if nobody is moving it any more: redis-cli --cluster fix %.100s, or CLUSTER SETSLOT "
        "%u STABLE on both",
        any_label(v), o->slot);
}

static void check_open(const view *v) {
    for (unsigned i = 0; i < v->m->count; i++)
        if (answers(&v->m->of[i]) && v->m->of[i].open > 0)
            found_open(v, &v->m->of[i]);
}

/* ---- who takes over ---------------------------------------------------------------------------- */

static unsigned replicas(const view *v, const cluster_node *master) {
    unsigned n = 0;
    for (unsigned i = 0; i < v->m->count; i++) {
        const cluster_node *x = &v->m->of[i];
        n += !x->twice && !x->master && !x->failing && x->id[0] && strcmp(x->of, master->id) == 0;
    }
    return n;
}

static void check_replicas(const view *v) {
    bool found = false;

    for (unsigned i = 0; i < v->m->count; i++) {
        const cluster_node *x = &v->m->of[i];
        if (v->slots[i] == 0 || !x->id[0] || replicas(v, x) > 0)
            continue;
        if (!found) {
            doctor_found(v->r, "cluster", DOCTOR_WARNING, "a master has no replica");
            doctor_why(v->r, "when it dies nobody takes over: no lock in its slots can be acquired "
                             "until it is back");
            doctor_fix(v->r,
                       "redis-cli --cluster add-node NEW-HOST:PORT %.60s --cluster-slave "
                       "--cluster-master-id %s",
                       any_label(v), x->id);
        }
        found = true;
        doctor_at(last(v), i);
    }
}

static void check_count(const view *v) {
    unsigned n = 0;

    for (unsigned i = 0; i < v->m->count; i++)
        n += v->slots[i] > 0;
    if (n == 0 || n >= LEAST)
        return;
    doctor_found(v->r, "cluster", DOCTOR_WARNING, "there %s with slots",
                 n == 1 ? "is one master" : "are two masters");
    doctor_why(v->r, "a majority of the masters chooses who takes over: when one is gone there is "
                     "none, and no failover");
    doctor_fix(v->r, "three masters, on machines of their own (redis-cli --cluster add-node, "
                     "rebalance --cluster-use-empty-masters)");
}

static void check_coverage(const view *v) {
    bool found = false, unseen = false;

    for (unsigned i = 0; i < v->m->count; i++) {
        const cluster_node *x = &v->m->of[i];
        unseen = unseen || (answers(x) && !x->coverage[0]);
        if (!answers(x) || strcmp(x->coverage, "yes") != 0)
            continue;
        if (!found) {
            doctor_found(v->r, "coverage", DOCTOR_NOTE, "cluster-require-full-coverage is yes");
            doctor_why(v->r, "one slot without a master, as in each failover for a while, stops "
                             "the locks of all others");
            doctor_fix(v->r, "CONFIG SET cluster-require-full-coverage no, and CONFIG REWRITE, on "
                             "every node");
        }
        found = true;
        doctor_at(last(v), i);
    }
    if (found || !unseen)
        return;
    doctor_found(v->r, "coverage", DOCTOR_UNSEEN, "cluster-require-full-coverage");
    doctor_why(v->r, "with yes one slot without a master stops the locks of all others");
    doctor_fix(v->r, "run the doctor as a user with +config|get");
}

/* ---- versions and clocks ----------------------------------------------------------------------- */

static void check_versions(const view *v) {
    const cluster_node *first = NULL;

    for (unsigned i = 0; i < v->m->count; i++) {
        const cluster_node *x = &v->m->of[i];
        if (!answers(x) || !x->product[0])
            continue;
        if (first && strcmp(first->product, x->product) != 0) {
            doctor_found(v->r, "version", DOCTOR_WARNING,
                         "the nodes are of different versions: %.80s is %s, %.80s is %s",
                         first->label, first->product, x->label, x->product);
            doctor_why(v->r, "after a failover locks have to do with what the older one can't do: "
                             "a line of those who wait, or to be told of changes");
            doctor_fix(v->r, "bring all nodes to one version; while that is being done it is fine");
            return;
        }
        first = first ? first : x;
    }
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The middle of all, which one clock that is off doesn't move. */
static bool find_middle(const cluster_survey *m, int64_t *ret) {
    int64_t of[CLUSTER_NODES_MOST];
    size_t n = 0;

    for (unsigned i = 0; i < m->count; i++)
        if (answers(&m->of[i]) && m->of[i].track.known)
            of[n++] = (m->of[i].offset.lo + m->of[i].offset.hi) / 2;
    if (n < 2)
        return false;
    qsort(of, n, sizeof *of, by_number);
    *ret = of[(n - 1) / 2];
    return true;
}

static void found_apart(const view *v, const cluster_node *x, int64_t off_us, bool ahead) {
    doctor_found(v->r, "cluster-clock", off_us > APART_DANGER_US ? DOCTOR_DANGER : DOCTOR_WARNING,
                 "the clock of %.150s is %lld ms %s most nodes' at least", x->label,
                 (long long)(off_us / 1000), ahead ? "ahead of" : "behind");
    doctor_why(
        v->r, "%s",
        x->master ? "locks go by it once their slot moves there, or from there: they end too "
                    "early, or too late"
        : ahead   ? "after a failover that clock ends the locks of its master's slots: too early"
                  : "after a failover that clock ends the locks of its master's slots: later "
                    "than was said");
    doctor_fix(v->r, "let one time service steer all: chronyc tracking, on each");
}

static void check_clocks(const view *v) {
    int64_t middle = 0;
    bool known = find_middle(v->m, &middle);

    for (unsigned i = 0; known && i < v->m->count; i++) {
        const cluster_node *x = &v->m->of[i];
        if (!answers(x) || !x->track.known)
            continue;
        /* the offset is this host's clock less the node's */
        int64_t behind = x->offset.lo - middle, ahead = middle - x->offset.hi;
        if (behind > APART_WARN_US)
            found_apart(v, x, behind, false);
        else if (ahead > APART_WARN_US)
            found_apart(v, x, ahead, true);
    }
    for (unsigned i = 0; i < v->m->count; i++) {
        if (!answers(&v->m->of[i]) || v->m->of[i].track.known)
            continue;
        doctor_found(v->r, "cluster-clock", DOCTOR_UNSEEN, "the clock of %.150s",
                     v->m->of[i].label);
        doctor_why(v->r, "locks in its slots end by it");
        doctor_fix(v->r, "run the doctor as a user with +time, when nobody sets a clock");
    }
}

/* ---- all ----------------------------------------------------------------------------------------- */

void doctor_check_cluster(const cluster_survey *m, doctor_report *r) {
    view v = {.m = m, .r = r};

    doctor_owners(m, v.owner);
    for (unsigned slot = 0; slot < TL_SLOTS; slot++)
        if (v.owner[slot] != TL_NOBODY)
            v.slots[v.owner[slot]]++;
    check_state(&v);
    check_uncovered(&v);
    check_answers(&v);
    check_all(&v);
    check_known(&v);
    check_agreement(&v);
    check_open(&v);
    check_replicas(&v);
    check_count(&v);
    check_coverage(&v);
    check_versions(&v);
    check_clocks(&v);
}
