/*
 * Finds flaws of a cluster, which forbid a step. A step rests on what all nodes say at one moment: they agree on the owner of each
 * slot, no slot is on its way, and each server that may take over is there and follows.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "migrate/migrate_fleet.h"

/* So far may a server's clock be ahead of that of the host that wrote the registers. */
#define CLOCKS_US 2000000

typedef struct migrate_fleet fleet;

void migrate_add_flaw(fleet *fleet, bool passes, const char *who, const char *todo,
                      const char *what, ...) {
    migrate_blockers *flaws = &fleet->flaws;
    va_list args;

    if (flaws->count == MIGRATE_BLOCKERS) {
        flaws->more++;
        return;
    }
    migrate_blocker *flaw = &flaws->item[flaws->count++];
    *flaw = (migrate_blocker){.passes = passes};
    va_start(args, what);
    (void)vsnprintf(flaw->what, sizeof flaw->what, what, args);
    va_end(args);
    (void)snprintf(flaw->who, sizeof flaw->who, "%s", who);
    (void)snprintf(flaw->todo, sizeof flaw->todo, "%s", todo);
}

fleet_node *migrate_find_node(const fleet *fleet, const char *id) {
    for (unsigned i = 0; i < fleet->count; i++)
        if (id[0] && strcmp(fleet->node[i].id, id) == 0)
            return &fleet->node[i];
    return NULL;
}

bool migrate_is_node(const cluster_node *node) {
    return !node->led_to[0] && !node->twice;
}

/* Whom all nodes call the owner of a slot; NULL: they don't agree, or nobody has it. */
static const char *owner_of(const cluster_survey *survey, unsigned slot) {
    uint16_t owner = TL_NOBODY;
    bool first = true;

    for (unsigned i = 0; i < survey->count; i++) {
        const cluster_node *node = &survey->of[i];
        if (node->status || !migrate_is_node(node) || !node->owner)
            continue;
        if (!first && node->owner[slot] != owner && GUARD(owners_are_agreed))
            return NULL;
        owner = node->owner[slot];
        first = false;
    }
    return owner == TL_NOBODY ? NULL : survey->of[owner].id;
}

static void learn_owners(fleet *fleet, const cluster_survey *survey) {
    int doubt = 0, example = 0;

    for (unsigned slot = 0; slot < TL_SLOTS; slot++) {
        const char *id = owner_of(survey, slot);
        fleet_node *owner = id ? migrate_find_node(fleet, id) : NULL;
        fleet->owner[slot] = owner ? (uint16_t)(owner - fleet->node) : TL_NOBODY;
        if (owner) {
            owner->slots++;
            continue;
        }
        doubt++;
        example = (int)slot;
    }
    if (doubt)
        migrate_add_flaw(
            fleet, true, "the nodes of the cluster", "wait; \"tidelock doctor\" says more",
            doubt == 1 ? "%d slot, %d, has no master that all nodes agree on"
                       : "%d slots, such as %d, have no master that all nodes agree on",
            doubt, example);
}

static void judge_open(fleet *fleet, const cluster_node *node) {
    for (unsigned i = 0; i < node->open && i < NODE_OPEN_MOST && GUARD(no_slot_is_open); i++)
        migrate_add_flaw(fleet, true, node->label, "wait until it has moved, or end the move",
                         "slot %u is being moved %s the node %.40s%s",
                         (unsigned)node->opened[i].slot, node->opened[i].leaves ? "to" : "from",
                         node->opened[i].other,
                         node->open > NODE_OPEN_MOST ? ", and more slots" : "");
}

/* Of a move: a flat list of names and values. Redis repeats an import that has failed, and Valkey none. */
static bool is_over(const tl_reply *move, bool valkey) {
    static const char *const over[] = {"success", "cancelled", "completed", "canceled"};
    tl_bytes name, value, state = {0}, operation = {0};

    for (size_t k = 0; k + 1 < move->count; k += 2)
        if (tl__reply_text(&move->items[k], &name) && tl__reply_text(&move->items[k + 1], &value)) {
            state = tl__bytes_eq(name, TL_LITERAL("state")) ? value : state;
            operation = tl__bytes_eq(name, TL_LITERAL("operation")) ? value : operation;
        }
    for (size_t i = 0; i < sizeof over / sizeof *over; i++)
        if (tl__bytes_eq(state, tl__bytes_of(over[i])))
            return true;
    return tl__bytes_eq(state, TL_LITERAL("failed")) &&
           (valkey || tl__bytes_eq(operation, TL_LITERAL("migrate")));
}

bool migrate_has_moves(const tl_reply *moves, bool valkey) {
    for (size_t i = 0; moves->type == TL_REPLY_ARRAY && i < moves->count; i++)
        if (!is_over(&moves->items[i], valkey))
            return true;
    return false;
}

/* A server that doesn't know the question has none. One that denies it to this user may have some. */
bool migrate_has_no_moves(const server_link *link) {
    return link->error &&
           (link->lacks || link->status != STATUS_REFUSED || !GUARD(denied_moves_are_doubt));
}

/* A server that is down may come back and take over, with an old register. */
static void judge_node(fleet *fleet, const fleet_node *node) {
    const fleet_node *master = migrate_find_node(fleet, node->of);

    if (node->status && GUARD(each_server_replies))
        migrate_add_flaw(
            fleet, false, node->label,
            node->status == STATUS_REFUSED
                ? "let this user do it there, too; \"tidelock doctor\" names what is denied"
            : node->id[0]
                ? "make it reply; if it was removed for good, give CLUSTER FORGET to all others"
                : "make it reply; if it was removed for good, take it out of the URL, too",
            node->slots ? "a master can't be asked: %.180s"
                        : "a server that may take over can't be asked: %.180s",
            node->message);
    else if (!node->status && node->moves)
        migrate_add_flaw(fleet, true, node->label, "wait until they have moved, or end the move",
                         "slots are being moved from it or to it");
    else if (!node->status && node->slots && !node->master)
        migrate_add_flaw(fleet, true, node->label, "wait until the nodes agree",
                         "it has slots, and says that it is a replica");
    else if (!node->status && !node->master && (!master || !master->slots || !node->linked))
        migrate_add_flaw(fleet, true, node->label, "wait until it follows, or restart it",
                         "this replica isn't connected to a master that has slots");
}

/* FNV-1a */
static void mix(uint64_t *hash, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        *hash = (*hash ^ at[i]) * UINT64_C(1099511628211);
}

static void identify(fleet *fleet) {
    fleet->identity = UINT64_C(14695981039346656037);
    for (unsigned slot = 0; slot < TL_SLOTS; slot++) {
        const fleet_node *owner = fleet->owner[slot] == TL_NOBODY
                                      ? NULL
                                      : &fleet->node[fleet->owner[slot]];
        if (slot > 0 && fleet->owner[slot] == fleet->owner[slot - 1])
            continue;
        mix(&fleet->identity, &slot, sizeof slot);
        if (!owner)
            continue;
        mix(&fleet->identity, owner->id, strlen(owner->id));
        mix(&fleet->identity, owner->run, strlen(owner->run));
        mix(&fleet->identity, &owner->epoch, sizeof owner->epoch);
    }
}

void migrate_fleet_judge(fleet *fleet, const cluster_survey *survey) {
    if (survey->more)
        migrate_add_flaw(fleet, false, "the cluster", "none: this command can't do it",
                         "it has more than %d nodes", CLUSTER_NODES_MOST);
    learn_owners(fleet, survey);
    for (unsigned i = 0; i < survey->count; i++)
        if (migrate_is_node(&survey->of[i]) && !survey->of[i].status)
            judge_open(fleet, &survey->of[i]);
    for (unsigned i = 0; i < fleet->count; i++)
        judge_node(fleet, &fleet->node[i]);
    identify(fleet);
}

static void add_text(char buf[MIGRATE_LIST_SIZE], const char *label, const char *more) {
    size_t n = strlen(buf);

    if (n < MIGRATE_LIST_SIZE / 2)
        (void)snprintf(buf + n, MIGRATE_LIST_SIZE - n, "%s%s%s", n ? ", " : "", label, more);
    else if (n < MIGRATE_LIST_SIZE - 10 && strcmp(buf + n - 3, "...") != 0)
        (void)snprintf(buf + n, MIGRATE_LIST_SIZE - n, ", ...");
}

const char *migrate_fleet_unsaved(char buf[MIGRATE_LIST_SIZE], const fleet *fleet) {
    buf[0] = '\0';
    for (unsigned i = 0; i < fleet->count; i++)
        if (fleet->node[i].slots && !fleet->node[i].status &&
            fleet->node[i].saved_us < fleet->tally.top + CLOCKS_US)
            add_text(buf, fleet->node[i].label, "");
    return buf;
}

const char *migrate_fleet_later(char buf[MIGRATE_LIST_SIZE], const fleet *fleet, int phase) {
    char text[32];

    buf[0] = '\0';
    for (unsigned i = 0; i < fleet->count; i++) {
        int count = 0;
        for (unsigned slot = 0; slot < TL_SLOTS; slot++)
            count += fleet->owner[slot] == i && fleet->slot[slot].phase > phase;
        (void)snprintf(text, sizeof text, " (%d slot%s)", count, migrate_plural(count));
        if (count > 0)
            add_text(buf, fleet->node[i].label, text);
    }
    return buf;
}

bool migrate_has_all(const fleet_node *replica, const fleet_node *master) {
    return !GUARD(replicas_have_registers) ||
           (!replica->master && replica->linked && replica->offset >= master->offset &&
            strcmp(replica->history, master->history) == 0);
}
