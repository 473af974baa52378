/*
 * The doctor's judgement of a cluster: does each slot have a master that clients reach, does another node
 * take over when the master dies, and do all nodes agree? Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "doctor/doctor.h"

#define LEAST 3 /* masters: with fewer, the loss of one leaves no majority to elect another */
#define APART_WARN_US 100000
#define APART_DANGER_US 1000000
#define LIST_SIZE 120

typedef struct {
    const cluster_survey *survey;
    doctor_report *report;
    uint16_t owner[TL_SLOTS];
    unsigned slots[CLUSTER_NODES_MOST];
} view;

static bool answers(const cluster_node *node) {
    return node->status == 0 && !node->twice;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* If two nodes claim a slot, the later claim (higher epoch) counts. If none does, others may say that a
 * silent node has it. */
void doctor_owners(const cluster_survey *survey, uint16_t ret[TL_SLOTS]) {
    for (unsigned slot = 0; slot < TL_SLOTS; slot++) {
        ret[slot] = TL_NOBODY;
        for (unsigned i = 0; i < survey->count; i++)
            if (answers(&survey->of[i]) && survey->of[i].owner[slot] == i &&
                (ret[slot] == TL_NOBODY ||
                 (GUARD(later_claim_counts) && survey->of[i].epoch > survey->of[ret[slot]].epoch)))
                ret[slot] = (uint16_t)i;
        for (unsigned i = 0; i < survey->count && ret[slot] == TL_NOBODY; i++)
            if (answers(&survey->of[i]) && survey->of[i].owner[slot] != TL_NOBODY &&
                !answers(&survey->of[survey->of[i].owner[slot]]))
                ret[slot] = survey->of[i].owner[slot];
    }
}

/* "0-5460 5462", as much as fits. */
static void list_slots(const view *view, uint16_t owner, char to[LIST_SIZE]) {
    size_t used = 0;
    to[0] = '\0';
    for (unsigned slot = 0; slot < TL_SLOTS && used + 24 < LIST_SIZE; slot++) {
        unsigned first = slot;
        if (view->owner[slot] != owner)
            continue;
        while (slot + 1 < TL_SLOTS && view->owner[slot + 1] == owner)
            slot++;
        int n = slot > first
                    ? snprintf(to + used, LIST_SIZE - used, "%s%u-%u", used ? " " : "", first, slot)
                    : snprintf(to + used, LIST_SIZE - used, "%s%u", used ? " " : "", first);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used + 24 >= LIST_SIZE)
        (void)snprintf(to + used, LIST_SIZE - used, " ...");
}

static doctor_finding *last(const view *view) {
    return &view->report->finding[view->report->count - 1];
}

/* A node for advice that uses "redis-cli --cluster". */
static const char *any_label(const view *view) {
    for (unsigned i = 0; i < view->survey->count; i++)
        if (answers(&view->survey->of[i]))
            return view->survey->of[i].label;
    return "HOST:PORT";
}

static void check_uncovered(const view *view) {
    char list[LIST_SIZE];
    unsigned n = 0;

    for (unsigned slot = 0; slot < TL_SLOTS; slot++)
        n += view->owner[slot] == TL_NOBODY;
    if (n == 0)
        return;
    list_slots(view, TL_NOBODY, list);
    doctor_found(view->report, "cluster", DOCTOR_DANGER, "%u %s no master: %s", n,
                 n == 1 ? "slot has" : "slots have", list);
    doctor_why(view->report, "no lock in such a slot can be acquired, and held ones are lost; with "
                             "cluster-require-full-coverage that is true of all others, too");
    doctor_fix(
        view->report,
        "start the master that had them again, with its nodes.conf; or redis-cli --cluster fix "
        "%.100s --cluster-fix-with-unreachable-masters",
        any_label(view));
}

/* ---- cluster_state --------------------------------------------------------------------------- */

static void check_state(const view *view) {
    bool found = false;

    for (unsigned i = 0; i < view->survey->count; i++) {
        if (!answers(&view->survey->of[i]) || view->survey->of[i].ok)
            continue;
        if (!found) {
            doctor_found(view->report, "cluster", DOCTOR_DANGER,
                         "the cluster is down (cluster_state:fail)");
            doctor_why(view->report,
                       "these nodes refuse all keys (CLUSTERDOWN): no lock can be acquired, "
                       "and held ones are lost");
            doctor_fix(view->report,
                       "a slot has no master, or these nodes don't reach a majority of the "
                       "masters, on their ports and on the cluster bus (port + 10000): see "
                       "the other findings, and CLUSTER NODES on one of them");
        }
        found = true;
        doctor_at(last(view), i);
    }
}

/* ---- nodes that don't reply ------------------------------------------------------------------ */

static void check_stranger(const view *view, const cluster_node *node) {
    doctor_found(view->report, "cluster", DOCTOR_WARNING,
                 "%.150s of the URL is no node of a cluster", node->label);
    doctor_why(view->report, "a client that tries it first loses time");
    doctor_fix(view->report, "remove it from the URL");
}

static void found_silent(const view *view, const cluster_node *node, bool needed,
                         const char *what) {
    doctor_found(view->report, "cluster", needed ? DOCTOR_DANGER : DOCTOR_WARNING, what,
                 node->label,
                 node->message[0] ? node->message : "the cluster does not know its address");
    doctor_why(view->report, "%s",
               needed         ? "locks in its slots can't be acquired, and held ones are lost"
               : !node->id[0] ? "a client that tries it first loses time"
               : node->master
                   ? "it has no slots now; once it has some, locks in them can't be acquired"
                   : "if it takes over, locks in its slots can't be acquired");
}

static void check_led(const view *view, const cluster_node *node) {
    int at = cluster_survey_find(view->survey, node->led_to);
    bool needed = at >= 0 && view->slots[at] > 0;

    doctor_found(view->report, "cluster", needed ? DOCTOR_DANGER : DOCTOR_WARNING,
                 "the cluster sends clients to %.100s for %.60s, where it can't be reached: %.130s",
                 node->label, at >= 0 ? view->survey->of[at].label : node->led_to, node->message);
    doctor_why(view->report, "%s",
               needed ? "locks in its slots can't be acquired, and held ones are lost"
                      : "if it takes over, locks in its slots can't be acquired");
    doctor_fix(view->report, "on that node: cluster-announce-ip, cluster-announce-port and "
                             "cluster-announce-hostname as clients reach it");
}

static void check_silent(const view *view, unsigned i) {
    const cluster_node *node = &view->survey->of[i];
    bool needed = view->slots[i] > 0;

    if (GUARD(refusal_is_no_outage) && node->status == STATUS_REFUSED) {
        found_silent(view, node, needed, "%.100s refuses the login: %.200s");
        doctor_fix(view->report, "%s",
                   doctor_is_of_tls(node->message)
                       ? DOCTOR_TLS_FIX
                       : "use the same users and passwords on every node (requirepass or ACL, and "
                         "masterauth): nodes don't replicate them");
    } else if (!node->id[0]) {
        found_silent(view, node, needed, "%.100s of the URL doesn't respond: %.200s");
        doctor_fix(view->report, "start it, or remove it from the URL");
    } else if (GUARD(hidden_node_found) && node->linked > 0 && !node->failing) {
        found_silent(
            view, node, needed,
            "%.100s, which other nodes are connected to, can't be reached from here: %.200s");
        doctor_fix(
            view->report,
            "start it, if it has just died; else cluster-announce-ip and cluster-announce-port "
            "on it must be what clients reach it by, and the firewall must let them");
    } else {
        found_silent(view, node, needed, "%.100s doesn't answer: %.200s");
        doctor_fix(
            view->report,
            "start it; or, if it was removed for good: CLUSTER FORGET %s on every other node%s",
            node->id,
            needed ? ", after CLUSTER FAILOVER TAKEOVER on a replica of it or redis-cli "
                     "--cluster fix"
                   : "");
    }
}

static void check_answers(const view *view) {
    for (unsigned i = 0; i < view->survey->count; i++) {
        const cluster_node *node = &view->survey->of[i];
        if (node->twice || node->status == 0)
            continue;
        if (GUARD(misled_client_found) && node->led_to[0])
            check_led(view, node);
        else if (GUARD(no_cluster_node_found) && node->stranger)
            check_stranger(view, node);
        else
            check_silent(view, i);
    }
}

static void check_all(const view *view) {
    if (!view->survey->more)
        return;
    doctor_found(view->report, "cluster", DOCTOR_WARNING,
                 "only %d nodes of the cluster were looked at", CLUSTER_NODES_MOST);
    doctor_why(view->report, "it has more, and this report says nothing about them");
    doctor_fix(view->report,
               "redis-cli --cluster check %.150s, and the doctor for each of the others by "
               "its own URL, redis://HOST",
               view->survey->of[0].label);
}

/* A node that no other node knows is of another cluster, or was forgotten. */
static void check_known(const view *view) {
    if (view->survey->answered < 2)
        return;
    for (unsigned i = 0; i < view->survey->count; i++) {
        const cluster_node *node = &view->survey->of[i];
        if (!GUARD(foreign_node_found) || !answers(node) || node->named > 0)
            continue;
        doctor_found(view->report, "cluster", DOCTOR_DANGER,
                     "no other node knows %.150s of the URL", node->label);
        doctor_why(
            view->report,
            "it belongs to another cluster, or this one has forgotten it: a client that uses it "
            "acquires locks that exclude no client of this cluster");
        doctor_fix(view->report,
                   "remove it from the URL; or CLUSTER MEET, if it belongs to this cluster");
    }
}

/* ---- do the nodes agree? --------------------------------------------------------------------- */

static unsigned differences(const view *view, const cluster_node *node, unsigned *ret_first) {
    unsigned n = 0;
    for (unsigned slot = 0; slot < TL_SLOTS; slot++)
        if (node->owner[slot] != view->owner[slot] && n++ == 0)
            *ret_first = slot;
    return n;
}

static const char *label_of(const view *view, uint16_t owner) {
    return owner == TL_NOBODY ? "nobody" : view->survey->of[owner].label;
}

/* Report the first node that names other owners. */
static void check_agreement(const view *view) {
    unsigned first = 0, n;

    for (unsigned i = 0; i < view->survey->count; i++) {
        const cluster_node *node = &view->survey->of[i];
        if (!answers(node) || (node->named == 0 && view->survey->answered > 1) ||
            (n = differences(view, node, &first)) == 0)
            continue;
        doctor_found(view->report, "cluster", DOCTOR_WARNING,
                     "the nodes disagree about %u %s: of slot %u %.80s says that %.80s has it, and "
                     "%.80s does",
                     n, n == 1 ? "slot" : "slots", first, node->label,
                     label_of(view, node->owner[first]), label_of(view, view->owner[first]));
        doctor_why(
            view->report,
            "it redirects clients wrongly, which costs time; if it believes that it owns a slot "
            "itself, it may grant a lock that another node grants too");
        doctor_fix(
            view->report,
            "after a failover or a move this passes in seconds; otherwise check that the nodes "
            "reach each other on the cluster bus (port + 10000), and redis-cli --cluster check "
            "%.100s",
            any_label(view));
        return;
    }
}

/* Does the node that the slot leaves report the same move? Then the node that receives it need not. */
static bool is_notified(const view *view, const open_slot *open, int from) {
    const cluster_node *node = from >= 0 ? &view->survey->of[from] : NULL;
    for (unsigned i = 0; node && answers(node) && i < node->open && i < NODE_OPEN_MOST; i++)
        if (node->opened[i].slot == open->slot && node->opened[i].leaves)
            return !open->leaves;
    return false;
}

static void found_open(const view *view, const cluster_node *node) {
    const open_slot *open = &node->opened[0];
    int other = cluster_survey_find(view->survey, open->other);
    const char *there = other >= 0 ? view->survey->of[other].label : open->other;
    char what[64];

    if (GUARD(move_told_once) && is_notified(view, open, other))
        return;
    (void)snprintf(what, sizeof what, node->open > 1 ? "slots %u and %u more are" : "slot %u is",
                   open->slot, node->open - 1);
    doctor_found(view->report, "cluster", DOCTOR_WARNING, "%s being moved from %.80s to %.80s",
                 what, open->leaves ? node->label : there, open->leaves ? there : node->label);
    doctor_why(
        view->report,
        "until then a lock in it costs several requests, waiters poll, and with quiet_ms no lock "
        "can be acquired");
    doctor_fix(
        view->report,
        "if the move was abandoned: redis-cli --cluster fix %.100s, or CLUSTER SETSLOT %u STABLE "
        "on both",
        any_label(view), open->slot);
}

static void check_open(const view *view) {
    for (unsigned i = 0; i < view->survey->count; i++)
        if (answers(&view->survey->of[i]) && view->survey->of[i].open > 0)
            found_open(view, &view->survey->of[i]);
}

/* ---- who takes over -------------------------------------------------------------------------- */

static unsigned replicas(const view *view, const cluster_node *master) {
    unsigned n = 0;
    for (unsigned i = 0; i < view->survey->count; i++) {
        const cluster_node *node = &view->survey->of[i];
        n += !node->twice && !node->master && !node->failing && node->id[0] &&
             strcmp(node->of, master->id) == 0;
    }
    return n;
}

static void check_replicas(const view *view) {
    bool found = false;

    for (unsigned i = 0; i < view->survey->count; i++) {
        const cluster_node *node = &view->survey->of[i];
        if (view->slots[i] == 0 || !node->id[0] || replicas(view, node) > 0)
            continue;
        if (!found) {
            doctor_found(view->report, "cluster", DOCTOR_WARNING, "a master has no replica");
            doctor_why(
                view->report,
                "when it dies no replica takes over: no lock in its slots can be acquired until it "
                "is back");
            doctor_fix(view->report,
                       "redis-cli --cluster add-node NEW-HOST:PORT %.60s --cluster-slave "
                       "--cluster-master-id %s",
                       any_label(view), node->id);
        }
        found = true;
        doctor_at(last(view), i);
    }
}

static void check_count(const view *view) {
    unsigned n = 0;

    for (unsigned i = 0; i < view->survey->count; i++)
        n += view->slots[i] > 0;
    if (n == 0 || n >= LEAST)
        return;
    doctor_found(view->report, "cluster", DOCTOR_WARNING, "there %s with slots",
                 n == 1 ? "is one master" : "are two masters");
    doctor_why(
        view->report,
        "a failover needs a majority of the masters: when one dies there is no majority, and no "
        "failover");
    doctor_fix(view->report,
               "three masters, on machines of their own (redis-cli --cluster add-node, "
               "rebalance --cluster-use-empty-masters)");
}

static void check_coverage(const view *view) {
    bool found = false, unseen = false;

    for (unsigned i = 0; i < view->survey->count; i++) {
        const cluster_node *node = &view->survey->of[i];
        unseen = unseen || (answers(node) && !node->coverage[0]);
        if (!answers(node) || strcmp(node->coverage, "yes") != 0)
            continue;
        if (!found) {
            doctor_found(view->report, "coverage", DOCTOR_NOTE,
                         "cluster-require-full-coverage is yes");
            doctor_why(
                view->report,
                "one slot without a master, as for a while in each failover, stops the locks of "
                "all other slots");
            doctor_fix(view->report,
                       "CONFIG SET cluster-require-full-coverage no, and CONFIG REWRITE, on "
                       "every node");
        }
        found = true;
        doctor_at(last(view), i);
    }
    if (found || !unseen)
        return;
    doctor_found(view->report, "coverage", DOCTOR_UNSEEN, "cluster-require-full-coverage");
    doctor_why(view->report, "with yes one slot without a master stops the locks of all others");
    doctor_fix(view->report, "run the doctor as a user with +config|get");
}

/* ---- versions and clocks --------------------------------------------------------------------- */

static void check_versions(const view *view) {
    const cluster_node *first = NULL;

    for (unsigned i = 0; i < view->survey->count; i++) {
        const cluster_node *node = &view->survey->of[i];
        if (!answers(node) || !node->product[0])
            continue;
        if (first && strcmp(first->product, node->product) != 0) {
            doctor_found(view->report, "version", DOCTOR_WARNING,
                         "the nodes are of different versions: %.80s is %s, %.80s is %s",
                         first->label, first->product, node->label, node->product);
            doctor_why(
                view->report,
                "after a failover locks lose what the older version lacks: the queue of waiters, "
                "or notifications of changes");
            doctor_fix(view->report,
                       "upgrade all nodes to one version; during an upgrade this is fine");
            return;
        }
        first = first ? first : node;
    }
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The median, which one wrong clock doesn't move. */
static bool find_middle(const cluster_survey *survey, int64_t *ret) {
    int64_t of[CLUSTER_NODES_MOST];
    size_t n = 0;

    for (unsigned i = 0; i < survey->count; i++)
        if (answers(&survey->of[i]) && survey->of[i].track.known)
            of[n++] = (survey->of[i].offset.lo + survey->of[i].offset.hi) / 2;
    if (n < 2)
        return false;
    qsort(of, n, sizeof *of, by_number);
    *ret = of[(n - 1) / 2];
    return true;
}

static void found_apart(const view *view, const cluster_node *node, int64_t off_us, bool ahead) {
    doctor_found(view->report, "cluster-clock",
                 off_us > APART_DANGER_US ? DOCTOR_DANGER : DOCTOR_WARNING,
                 "the clock of %.150s is %lld ms %s most nodes' at least", node->label,
                 (long long)(off_us / 1000), ahead ? "ahead of" : "behind");
    doctor_why(
        view->report, "%s",
        node->master
            ? "locks follow that clock once their slot moves there, or from there: they end too "
              "early, or too late"
        : ahead ? "after a failover that clock ends the locks of its master's slots: too early"
                : "after a failover that clock ends the locks of its master's slots: later than "
                  "promised");
    doctor_fix(view->report, "synchronize all with one time service: chronyc tracking, on each");
}

static void check_clocks(const view *view) {
    int64_t middle = 0;
    bool known = find_middle(view->survey, &middle);

    for (unsigned i = 0; known && i < view->survey->count; i++) {
        const cluster_node *node = &view->survey->of[i];
        if (!answers(node) || !node->track.known)
            continue;
        /* the offset is this host's clock minus the node's */
        int64_t behind = node->offset.lo - middle, ahead = middle - node->offset.hi;
        if (behind > APART_WARN_US)
            found_apart(view, node, behind, false);
        else if (ahead > APART_WARN_US)
            found_apart(view, node, ahead, true);
    }
    for (unsigned i = 0; i < view->survey->count; i++) {
        if (!answers(&view->survey->of[i]) || view->survey->of[i].track.known)
            continue;
        doctor_found(view->report, "cluster-clock", DOCTOR_UNSEEN, "the clock of %.150s",
                     view->survey->of[i].label);
        doctor_why(view->report, "locks in its slots end by it");
        doctor_fix(view->report, "run the doctor as a user with +time, when nobody sets a clock");
    }
}

/* ---- all checks ------------------------------------------------------------------------------ */

void doctor_check_cluster(const cluster_survey *survey, doctor_report *report) {
    view view = {.survey = survey, .report = report};

    doctor_owners(survey, view.owner);
    for (unsigned slot = 0; slot < TL_SLOTS; slot++)
        if (view.owner[slot] != TL_NOBODY)
            view.slots[view.owner[slot]]++;
    check_state(&view);
    check_uncovered(&view);
    check_answers(&view);
    check_all(&view);
    check_known(&view);
    check_agreement(&view);
    check_open(&view);
    check_replicas(&view);
    check_count(&view);
    check_coverage(&view);
    check_versions(&view);
    check_clocks(&view);
}
