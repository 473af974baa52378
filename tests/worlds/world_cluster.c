/*
 * The nodes: replication that lags, failovers that lose the tail, old masters that serve for a while, slots that
 * move, and the views that nodes have of all this.
 */
#include <stdlib.h>
#include <string.h>

#include "world.h"

world_state world;

int64_t draw(int64_t below) {
    world.random ^= world.random << 13;
    world.random ^= world.random >> 7;
    world.random ^= world.random << 17;
    return (int64_t)((world.random >> 11) % (uint64_t)below);
}

bool chance(int of_ten_thousand) {
    return draw(10000) < of_ten_thousand;
}

static int index_of(const world_node *node) {
    return (int)(node - world.node);
}

/* ---- replication ------------------------------------------------------------------------------ */

static int new_history(int64_t base) {
    if (world.histories == HISTORIES)
        abort();
    world.history[world.histories].base = base;
    world.history[world.histories].count = 0;
    return world.histories++;
}

static void apply(world_data *data, const world_change *change) {
    if (change->kind == CHANGE_CELL)
        data->slot[change->slot] = change->cell;
    else if (change->kind == CHANGE_RECORD)
        data->record = change->record;
    else if (change->kind == CHANGE_ALL) {
        *data = (world_data){.record = {.there = false}};
        for (int i = 0; i < TL_SLOTS; i++)
            data->slot[i].reg.phase = SLOT_ABSENT;
    }
}

void node_write(world_node *node, world_change change) {
    world_history *history = &world.history[node->history];

    if (history->count == history->room) {
        history->room = history->room ? 2 * history->room : 64;
        history->change = realloc(history->change, (size_t)history->room * sizeof *history->change);
        if (!history->change)
            abort();
    }
    history->change[history->count++] = change;
    apply(&node->data, &change);
    node->offset = history->base + history->count;
}

static bool follows(const world_node *node) {
    const world_node *master = &world.node[node->of < 0 ? 0 : node->of];
    return node->up && !node->master && node->linked && master->up && master->master &&
           node->history == master->history;
}

static void catch_up(world_node *node, int64_t most) {
    const world_node *master = &world.node[node->of];
    const world_history *history = &world.history[node->history];

    while (most-- > 0 && node->offset < master->offset)
        apply(&node->data, &history->change[node->offset++ - history->base]);
}

int replicas_with_all(const world_node *master) {
    int count = 0;
    for (int i = 0; i < world.nodes; i++)
        count += follows(&world.node[i]) && world.node[i].of == index_of(master) &&
                 world.node[i].offset >= master->offset;
    return count;
}

static void link_up(world_node *node) {
    const world_node *master = &world.node[node->of];
    const world_history *history = &world.history[master->history];

    if (!master->up || !master->master || world.now_ms < node->link_at)
        return;
    if (node->history != master->history || node->offset < history->base) {
        node->data = master->data;
        node->history = master->history;
        node->offset = master->offset;
    }
    node->linked = true;
}

/* ---- views ------------------------------------------------------------------------------------- */

bool node_is_reached(const world_node *node) {
    return node->up && world.now_ms >= node->apart_until;
}

bool node_serves(const world_node *node, int slot) {
    return node->up && node->master && node->view[slot].owner == index_of(node) &&
           world.now_ms >= node->up_at;
}

/* Its present master. */
static int successor(int of) {
    for (int i = 0; i < NODES && !world.node[of].master && world.node[of].of != NONE; i++)
        of = world.node[of].of;
    return of;
}

static void close_slots(world_node *node) {
    node->moves = false;
    for (int i = 0; i < TL_SLOTS; i++)
        node->leaves[i] = node->arrives[i] = NONE;
}

static void obey(world_node *node) {
    node->master = node->deposed = false;
    node->linked = false;
    node->link_at = world.now_ms + draw(chance(3000) ? 6000 : 500);
    close_slots(node);
}

/* What it has of a slot that another has now goes. */
static void lose(world_node *node, int slot) {
    world_change empty = {
        .kind = CHANGE_CELL, .slot = slot, .cell = {.reg = {.phase = SLOT_ABSENT}}};

    node_write(node, empty);
    if (slot == HOME)
        node_write(node, (world_change){.kind = CHANGE_RECORD});
}

static void gossip(world_node *node) {
    for (int i = 0; i < TL_SLOTS; i++)
        if (world.truth[i].epoch > node->view[i].epoch) {
            bool lost = node->view[i].owner == index_of(node) &&
                        world.truth[i].owner != index_of(node);
            node->view[i] = world.truth[i];
            node->leaves[i] = NONE;
            if (lost && node->master && !node->deposed)
                lose(node, i);
        }
    if (!world.move.goes_on || world.move.from != index_of(node) || world.move.stage > 2)
        node->moves = world.move.goes_on && world.move.atomic && world.move.to == index_of(node);
    if (node->deposed)
        obey(node);
    if (!node->master) {
        int of = successor(node->of);
        if (of != node->of) {
            node->of = of;
            node->linked = false;
            node->link_at = world.now_ms + draw(chance(3000) ? 6000 : 500);
        }
    }
    node->gossip_at = world.now_ms + draw(chance(1000) ? 3000 : 200);
}

static void claim(world_node *node, int slot) {
    world.truth[slot] = (world_claim){index_of(node), node->epoch};
    node->view[slot] = world.truth[slot];
}

/* ---- failures ---------------------------------------------------------------------------------- */

static void take_over(world_node *node) {
    int old = node->of;
    world_node *master = &world.node[old];

    world_tell("node %d takes over from %d, %lld changes are lost", index_of(node), old,
               (long long)(node->history == master->history ? master->offset - node->offset : -1));
    world.failovers++;
    node->master = true;
    node->of = NONE;
    node->epoch = ++world.top_epoch;
    node->history = new_history(node->offset);
    for (int i = 0; i < TL_SLOTS; i++)
        if (world.truth[i].owner == old)
            claim(node, i);
    master->deposed = true;
    master->of = index_of(node);
    master->gossip_at = world.now_ms + draw(chance(3000) ? 20000 : 1000);
    for (int i = 0; i < world.nodes; i++)
        if (&world.node[i] != node && !world.node[i].master && world.node[i].of == old)
            world.node[i].linked = world.node[i].linked && draw(2);
    if (world.move.goes_on && (world.move.from == old || world.move.to == old))
        world.move.goes_on = false;
}

static world_node *replica_of(int of) {
    int at = (int)draw(world.nodes);
    for (int i = 0; i < world.nodes; i++) {
        world_node *node = &world.node[(at + i) % world.nodes];
        if (node->up && !node->master && node->of == of && !world.node[of].deposed)
            return node;
    }
    return NULL;
}

static void crash(world_node *node) {
    world_tell("node %d dies", index_of(node));
    node->up = false;
    node->up_at = world.now_ms + 100 + draw(chance(3000) ? 20000 : 3000);
    for (int i = 0; i < world.nodes; i++)
        if (!world.node[i].master && world.node[i].of == index_of(node))
            world.node[i].linked = false;
}

static void restart(world_node *node) {
    static const world_change nothing = {.kind = CHANGE_ALL};

    world_tell("node %d is back", index_of(node));
    node->up = true;
    node->run = ++world.runs;
    node->calls = 0;
    node->linked = false;
    node->link_at = world.now_ms + draw(chance(3000) ? 6000 : 500);
    node->gossip_at = world.now_ms + draw(300);
    close_slots(node);
    if (node->master) { /* it waits before it serves, and hears of a successor */
        node->up_at = world.now_ms + 500;
        node->history = new_history(node->offset);
    }
    if (node->master && !world.persistent)
        node_write(node, nothing);
}

/* It is thought to be dead, and serves on. */
static void depose(world_node *master) {
    world_node *replica = master->up && master->master ? replica_of(index_of(master)) : NULL;
    if (replica)
        take_over(replica);
}

/* CLUSTER FAILOVER */
static void replace(world_node *master) {
    world_node *replica = master->up && master->master ? replica_of(index_of(master)) : NULL;

    if (!replica || !follows(replica))
        return;
    catch_up(replica, INT64_MAX);
    take_over(replica);
    master->gossip_at = world.now_ms;
}

static void trouble(void) {
    world_node *node = &world.node[draw(world.nodes)];

    if (!node->up)
        return;
    switch (draw(5)) {
    case 0: crash(node); break;
    case 1: node->apart_until = world.now_ms + draw(4000); break;
    case 2: depose(node); break;
    case 3: replace(node); break;
    default: node->linked = node->master && node->linked; break;
    }
}

static void lag(void) {
    world_node *node = &world.node[draw(world.nodes)];
    node->stalled_until = world.now_ms + draw(chance(3000) ? 12000 : 2000);
}

void cluster_spite(void) {
    if (chance(world.spite))
        world.spite_until = world.now_ms + draw(6000);
}

static void flush(void) {
    static const world_change nothing = {.kind = CHANGE_ALL};
    world_node *node = &world.node[draw(world.nodes)];

    if (!node->up || !node->master)
        return;
    world_tell("FLUSHALL at node %d", index_of(node));
    node_write(node, nothing);
}

/* ---- slots that move --------------------------------------------------------------------------- */

static void begin_move(void) {
    world_move *move = &world.move;
    int slot = (int)draw(TL_SLOTS), from = world.truth[slot].owner, to = (int)draw(world.nodes);

    if (from == to || !world.node[to].master || !world.node[to].up || world.node[to].deposed ||
        !node_serves(&world.node[from], slot) || world.node[from].deposed)
        return;
    *move = (world_move){.goes_on = true, .atomic = draw(2), .slot = slot, .from = from, .to = to};
    move->next_at = world.now_ms + draw(1000);
    if (move->atomic)
        world.node[from].moves = world.node[to].moves = true;
    else {
        world.node[to].arrives[slot] = from;
        world.node[from].leaves[slot] = to;
    }
    world_tell("slot %d begins to move from %d to %d%s", slot, from, to,
               move->atomic ? ", atomically" : "");
}

static void carry(world_move *move, bool token) {
    world_node *from = &world.node[move->from], *to = &world.node[move->to];
    world_change here = {
        .kind = CHANGE_CELL, .slot = move->slot, .cell = from->data.slot[move->slot]};
    world_change there = {
        .kind = CHANGE_CELL, .slot = move->slot, .cell = to->data.slot[move->slot]};

    if (token) {
        there.cell.token = here.cell.token, there.cell.until_ms = here.cell.until_ms;
        here.cell.token = false;
    } else {
        there.cell.reg = here.cell.reg;
        here.cell.reg = (migrate_slot){.phase = SLOT_ABSENT};
    }
    node_write(to, there);
    if (!token && move->slot == HOME)
        node_write(to, (world_change){.kind = CHANGE_RECORD, .record = from->data.record});
    if (move->atomic) /* it has all of that until it hears of its new owner */
        return;
    node_write(from, here);
    if (!token && move->slot == HOME)
        node_write(from, (world_change){.kind = CHANGE_RECORD});
}

static void hand_over(world_move *move) {
    world_node *from = &world.node[move->from], *to = &world.node[move->to];

    world.slots_moved++;
    to->epoch = ++world.top_epoch;
    for (int i = 0; i < TL_SLOTS; i++)
        if (world.truth[i].owner == move->to)
            claim(to, i);
    claim(to, move->slot);
    to->arrives[move->slot] = NONE;
    to->moves = false;
    world_tell("slot %d is at node %d", move->slot, move->to);
    move->stage = 3;
    if (!move->atomic || draw(4))
        gossip(from);
    else /* it doesn't hear of that, and serves on */
        from->gossip_at = world.now_ms + draw(1000);
    move->goes_on = false;
}

static void go_on_moving(void) {
    world_move *move = &world.move;
    world_node *from = &world.node[move->from], *to = &world.node[move->to];

    if (world.now_ms < move->next_at)
        return;
    if (!from->up || !to->up || from->deposed || to->deposed) {
        move->goes_on = false;
        from->leaves[move->slot] = to->arrives[move->slot] = NONE;
        from->moves = to->moves = false;
        return;
    }
    move->next_at = world.now_ms + draw(1000);
    if (move->stage == 0 || move->atomic) {
        bool token = !move->atomic && draw(2);
        carry(move, token);
        if (move->atomic)
            carry(move, true);
        move->stage = token ? 1 : 2;
        if (!move->atomic)
            return;
    } else if (move->stage <= 2) {
        carry(move, move->stage == 2);
    }
    hand_over(move);
}

/* ---- the time ---------------------------------------------------------------------------------- */

static void live(world_node *node) {
    if (!node->up && world.now_ms >= node->up_at)
        restart(node);
    if (!node->up)
        return;
    if (world.now_ms >= node->gossip_at)
        gossip(node);
    if (node->master)
        return;
    if (!follows(node)) {
        node->linked = false;
        link_up(node);
    }
    if (follows(node) && world.now_ms >= node->stalled_until)
        catch_up(node, chance(8000) ? INT64_MAX : draw(20));
}

static void elect(void) {
    for (int i = 0; i < world.nodes; i++) {
        const world_node *node = &world.node[i];
        world_node *replica = !node->up && node->master && chance(200) ? replica_of(i) : NULL;
        if (replica)
            take_over(replica);
    }
}

void cluster_tick(void) {
    for (int i = 0; i < world.nodes; i++)
        live(&world.node[i]);
    if (world.move.goes_on)
        go_on_moving();
    elect();
    if (world.calm)
        return;
    if (chance(world.faults))
        trouble();
    if (chance(world.lags))
        lag();
    if (world.now_ms < world.spite_until && chance(1000))
        depose(&world.node[draw(world.nodes)]);
    if (chance(world.flushes))
        flush();
    if (!world.move.goes_on && chance(world.moves))
        begin_move();
}

static bool has_slots(int node) {
    for (int i = 0; i < TL_SLOTS; i++)
        if (world.truth[i].owner == node)
            return true;
    return false;
}

void cluster_heal(void) {
    world.calm = true;
    world.move.goes_on = false;
    for (int i = 0; i < world.nodes; i++) {
        close_slots(&world.node[i]);
        if (!world.node[i].master && !has_slots(world.node[i].of))
            world.node[i].of = world.truth[draw(TL_SLOTS)].owner;
        world.node[i].up_at = world.node[i].up ? world.node[i].up_at : world.now_ms;
        world.node[i].stalled_until = world.node[i].apart_until = world.node[i].denies_until = 0;
    }
}

static void register_slot(world_data *data, int slot, int phase) {
    data->slot[slot].reg = (migrate_slot){.phase = phase, .epoch = 1};
    if (slot == HOME)
        data->record = (world_record){
            .there = true, .phase = phase, .from = NONE, .epoch = 1, .since_us = 1};
}

static void make_node(int i, int masters, int phase) {
    world_node *node = &world.node[i];
    static const world_change nothing = {.kind = CHANGE_ALL};

    *node = (world_node){.up = true, .master = i < masters, .run = ++world.runs, .linked = true};
    node->of = i < masters ? NONE : i % masters;
    apply(&node->data, &nothing);
    node->history = node->master ? new_history(1) : world.node[node->of].history;
    node->offset = 1;
    node->epoch = node->master ? ++world.top_epoch : 0;
    for (int k = 0; k < TL_SLOTS; k++) {
        node->view[k] = (world_claim){k * masters / TL_SLOTS, 1 + k * masters / TL_SLOTS};
        world.truth[k] = node->view[k];
        node->leaves[k] = node->arrives[k] = NONE;
        if (phase >= 0 && node->view[k].owner == (node->master ? i : node->of))
            register_slot(&node->data, k, phase);
    }
}

void cluster_begin(int phase) {
    int masters = 2 + (int)draw(2);

    world.nodes = masters * (chance(1500) ? 1 : 2 + (int)draw(2));
    for (int i = 0; i < world.nodes; i++)
        make_node(i, masters, phase);
}

void cluster_end(void) {
    for (int i = 0; i < HISTORIES; i++)
        free(world.history[i].change);
}
