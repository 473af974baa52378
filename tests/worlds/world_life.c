/*
 * Who writes to the nodes: clients, by the rule of acquire.lua; old Java, which the words of the tool let start; the
 * tool's requests, also those that arrive when it has died. And what must hold.
 */
#include <stdio.h>
#include <string.h>

#include "world.h"

#define TOKEN_MS 8000

/* ---- what must hold ---------------------------------------------------------------------------- */

static bool has_token(const world_cell *cell) {
    return cell->token && world.now_ms < cell->until_ms;
}

/* While Java may run nothing is, nor can become, a token. */
void life_check(void) {
    for (int i = 0; world.java_may && i < TL_SLOTS; i++) {
        const world_node *node = &world.node[world.truth[i].owner];
        const world_cell *cell = &node->data.slot[i];
        if (node->up && cell->reg.phase >= PHASE_DRAIN)
            world_broken("slot %d at node %d says '%d %lld' while Java may run", i,
                         world.truth[i].owner, cell->reg.phase, (long long)cell->reg.epoch);
        if (node->up && has_token(cell))
            world_broken("slot %d at node %d has a token while Java may run", i,
                         world.truth[i].owner);
    }
}

/* An epoch is one run's. */
static void check_epoch(int64_t epoch, int run) {
    int i = 0;

    while (i < world.epochs && world.given[i].epoch != epoch)
        i++;
    if (i == world.epochs && i < EPOCHS_MOST) {
        world.given[i].epoch = epoch;
        world.given[i].run = run;
        world.epochs++;
    } else if (i < world.epochs && world.given[i].run != run)
        world_broken("the epoch %lld was given twice, by runs %d and %d", (long long)epoch,
                     world.given[i].run, run);
}

/* A step up to 2 rests on a watch at all masters in which no Java locked anywhere. */
static void check_watch(const world_ask *ask) {
    if (ask->watched_to - ask->watched_from < WATCH_MS)
        world_broken("run %d goes to phase 2 after a watch of %lld ms", ask->tool_run,
                     (long long)(ask->watched_to - ask->watched_from));
    if (world.java_last >= ask->watched_from && world.java_last <= ask->watched_to)
        world_broken(
            "run %d goes to phase 2, and Java has locked at %lld, in its watch from %lld to %lld",
            ask->tool_run, (long long)world.java_last, (long long)ask->watched_from,
            (long long)ask->watched_to);
}

/* ---- clients and Java -------------------------------------------------------------------------- */

static void put(world_node *node, int slot, world_cell cell) {
    node_write(node, (world_change){.kind = CHANGE_CELL, .slot = slot, .cell = cell});
}

/* Only at the rightful owner: clients believe no other. */
static world_node *owner_of(int slot) {
    world_node *node = &world.node[world.truth[slot].owner];
    return node_serves(node, slot) && node->leaves[slot] == NONE ? node : NULL;
}

static void acquire(void) {
    int slot = (int)draw(TL_SLOTS);
    world_node *node = owner_of(slot);

    if (!node || node->data.slot[slot].reg.phase < PHASE_DRAIN || has_token(&node->data.slot[slot]))
        return;
    world_cell cell = node->data.slot[slot];
    cell.token = true;
    cell.until_ms = world.now_ms + 200 + draw(chance(7000) ? 2000 : TOKEN_MS);
    world.tokens++;
    put(node, slot, cell);
}

static void release(void) {
    int slot = (int)draw(TL_SLOTS);
    world_node *node = owner_of(slot);

    if (!node || !node->data.slot[slot].token)
        return;
    world_cell cell = node->data.slot[slot];
    cell.token = false;
    put(node, slot, cell);
}

static void call_java(void) {
    int slot = (int)draw(TL_SLOTS), at = (int)draw(world.nodes);
    world_node *node = &world.node[world.truth[slot].owner];

    if (chance(300)) /* it believes an old master */
        node = &world.node[at];
    if (!node_serves(node, slot))
        return;
    node->calls++;
    world.calls++;
    world.java_last = world.now_ms;
}

void life_tick(void) {
    if (chance(world.takes))
        acquire();
    if (chance(world.takes / 2))
        release();
    if (world.java_runs && chance(5000))
        call_java();
    life_check();
}

/* ---- the tool's requests ------------------------------------------------------------------------ */

static void say_text(world_tool *tool, tl_reply *ret, tl_reply_type type) {
    *ret = (tl_reply){.type = type, .text = tl__bytes_of(tool->text)};
}

#define REPLY(tool, ret, type, ...)                                                                \
    ((void)snprintf((tool)->text, sizeof(tool)->text, __VA_ARGS__), say_text((tool), (ret), (type)))

static int connected(int of) {
    int count = 0;
    for (int i = 0; i < world.nodes; i++)
        count += world.node[i].up && !world.node[i].master && world.node[i].of == of &&
                 world.node[i].linked;
    return count;
}

static void info(int at, world_tool *tool, tl_reply *ret) {
    const world_node *node = &world.node[at];

    REPLY(tool, ret, TL_REPLY_STRING,
          "run_id:%040d\r\nrole:%s\r\nmaster_link_status:%s\r\n%s:%lld\r\nmaster_replid:%040d\r\n"
          "connected_slaves:%d\r\ncluster_enabled:1\r\n",
          node->run, node->master ? "master" : "slave", node->linked ? "up" : "down",
          node->master ? "master_repl_offset" : "slave_repl_offset", (long long)node->offset,
          node->history, connected(at));
}

static void moves(const world_node *node, world_tool *tool, tl_reply *ret) {
    tool->pair[0] = (tl_reply){.type = TL_REPLY_STRING, .text = TL_LITERAL("state")};
    tool->pair[1] = (tl_reply){.type = TL_REPLY_STRING, .text = TL_LITERAL("snapshotting")};
    tool->item[0] = (tl_reply){.type = TL_REPLY_ARRAY, .items = tool->pair, .count = 2};
    *ret = (tl_reply){.type = TL_REPLY_ARRAY, .items = tool->item, .count = node->moves};
}

static size_t put_line(const world_node *viewer, int at, char *to, size_t size) {
    const world_node *node = &world.node[at];
    char of[NODE_ID_SIZE] = "-";

    if (!node->master)
        (void)snprintf(of, sizeof of, "%040d", node->of);
    size_t n = (size_t)snprintf(to, size, "%040d 10.0.0.%d:6379@16379 %s%s %s 0 0 %lld connected",
                                at, at, node == viewer ? "myself," : "",
                                node->master ? "master" : "slave", of, (long long)node->epoch);
    for (int i = 0; i < TL_SLOTS; i++)
        if (viewer->view[i].owner == at)
            n += (size_t)snprintf(to + n, size - n, " %d", i);
    for (int i = 0; i < TL_SLOTS && node == viewer; i++)
        if (node->leaves[i] != NONE)
            n += (size_t)snprintf(to + n, size - n, " [%d->-%040d]", i, node->leaves[i]);
        else if (node->arrives[i] != NONE)
            n += (size_t)snprintf(to + n, size - n, " [%d-<-%040d]", i, node->arrives[i]);
    return n + (size_t)snprintf(to + n, size - n, "\n");
}

static void list_nodes(const world_node *viewer, world_tool *tool, tl_reply *ret) {
    size_t n = 0;

    for (int i = 0; i < world.nodes; i++)
        n += put_line(viewer, i, tool->text + n, sizeof tool->text - n);
    say_text(tool, ret, TL_REPLY_STRING);
}

static int64_t wall_us(void) {
    return INT64_C(1763700000000000) + world.now_ms * 1000;
}

static void put_text(world_tool *tool, int i, const char *text) {
    char *room = tool->text + 40 * i;

    (void)snprintf(room, 40, "%s", text);
    tool->item[i] = (tl_reply){.type = TL_REPLY_STRING, .text = tl__bytes_of(room)};
}

static void put_number(world_tool *tool, int i, int64_t number) {
    char text[40];

    (void)snprintf(text, sizeof text, "%lld", (long long)number);
    put_text(tool, i, text);
}

static void put_array(world_tool *tool, tl_reply *ret, int i, int count) {
    *ret = (tl_reply){.type = TL_REPLY_ARRAY, .items = tool->item + i, .count = (size_t)count};
}

static void put_time(world_tool *tool, int i) {
    put_number(tool, i, wall_us() / 1000000);
    put_number(tool, i + 1, wall_us() % 1000000);
}

static void read_record(const world_node *node, world_tool *tool, tl_reply *ret) {
    static const char *const names[] = {"phase", "epoch", "since", "lease_ms",
                                        "from",  "keys",  "by"};
    const world_record *record = &node->data.record;
    int64_t numbers[] = {record->phase, record->epoch, record->since_us, 30000, record->from};

    for (int i = 0; i < 7; i++) {
        put_text(tool, 10 + 2 * i, names[i]);
        if (i >= 5 || (i == 4 && record->from < 0))
            put_text(tool, 11 + 2 * i, i == 6 ? record->by : i == 5 ? "*" : "");
        else
            put_number(tool, 11 + 2 * i, numbers[i]);
    }
    put_array(tool, &tool->item[0], 10, record->there ? 14 : 0);
    put_array(tool, &tool->item[1], 10, 0);
    put_time(tool, 2);
    put_array(tool, ret, 0, 4);
}

/* As migrate_change_script. */
static void change_record(world_node *node, const world_ask *ask, world_tool *tool, tl_reply *ret) {
    world_record record = node->data.record;
    const char *word = "done";

    if (ask->epoch ? !record.there || record.epoch != ask->epoch : record.there)
        word = "epoch";
    else if (ask->run != node->run)
        word = "server";
    else if (wall_us() > ask->limit_us)
        word = "late";
    bool done = strcmp(word, "done") == 0;
    put_text(tool, 0, word);
    put_number(tool, 1, done ? ask->epoch + 1 : record.epoch);
    put_number(tool, 2, record.phase);
    put_array(tool, ret, 0, 3);
    if (!done)
        return;
    if (ask->advances && ask->phase == PHASE_DRAIN)
        check_watch(ask);
    if (ask->phase >= PHASE_DRAIN)
        world.java_may = world.java_runs = false;
    record.from = !record.there ? NONE : record.phase == ask->phase ? record.from : record.phase;
    record.there = true;
    record.phase = ask->phase;
    record.epoch = ask->epoch + 1;
    record.since_us = wall_us();
    (void)snprintf(record.by, sizeof record.by, "%s", ask->by);
    world_tell("the record at node %d says phase %d, epoch %lld, by run %d",
               (int)(node - world.node), record.phase, (long long)record.epoch, ask->tool_run);
    node_write(node, (world_change){.kind = CHANGE_RECORD, .record = record});
}

static void set_slot(world_node *node, const world_ask *ask, world_tool *tool, tl_reply *ret) {
    world_cell cell = node->data.slot[ask->slot];
    char is[MIGRATE_SLOT_TEXT_SIZE];

    if (strcmp(migrate_slot_text(is, cell.reg), ask->is) != 0) {
        REPLY(tool, ret, TL_REPLY_STRING, "%s", is);
        return;
    }
    tl_reply want = {.type = TL_REPLY_STRING, .text = tl__bytes_of(ask->want)};
    cell.reg = migrate_slot_read(&want);
    check_epoch(cell.reg.epoch, ask->tool_run);
    put(node, ask->slot, cell);
    REPLY(tool, ret, TL_REPLY_STRING, "%s", ask->want);
}

static void get_slot(const world_node *node, const world_ask *ask, world_tool *tool,
                     tl_reply *ret) {
    char is[MIGRATE_SLOT_TEXT_SIZE];

    REPLY(tool, ret, TL_REPLY_STRING, "%s", migrate_slot_text(is, node->data.slot[ask->slot].reg));
    if (!is[0])
        *ret = (tl_reply){.type = TL_REPLY_NIL};
}

static bool redirects(const world_node *node, const world_ask *ask, world_tool *tool,
                      tl_reply *ret) {
    int slot = ask->slot;

    if (slot == NONE)
        return false;
    bool absent = slot == HOME && ask->kind != ASK_GET && ask->kind != ASK_SET
                      ? !node->data.record.there
                      : node->data.slot[slot].reg.phase == SLOT_ABSENT;
    if (!node_serves(node, slot))
        REPLY(tool, ret, TL_REPLY_ERROR, "MOVED %d 10.0.0.%d:6379", slot, node->view[slot].owner);
    else if (node->leaves[slot] != NONE && absent)
        REPLY(tool, ret, TL_REPLY_ERROR, "ASK %d 10.0.0.%d:6379", slot, node->leaves[slot]);
    else
        return false;
    return true;
}

/* At the node, in one step. False: it is not there. */
bool execute(int at, const world_ask *ask, world_tool *tool, tl_reply *ret) {
    world_node *node = &world.node[at];
    bool writes = ask->kind == ASK_SET || ask->kind == ASK_CHANGE || ask->kind == ASK_TOUCH;

    *ret = (tl_reply){.type = TL_REPLY_STATUS, .text = TL_LITERAL("OK")};
    if (!node->up)
        return false;
    if (redirects(node, ask, tool, ret))
        return true;
    if (writes && world.now_ms < node->denies_until) {
        REPLY(tool, ret, TL_REPLY_ERROR, "NOPERM this user has no permissions to run this");
        return true;
    }
    switch (ask->kind) {
    case ASK_INFO: info(at, tool, ret); break;
    case ASK_MOVES: moves(node, tool, ret); break;
    case ASK_NODES: list_nodes(node, tool, ret); break;
    case ASK_LACKING: REPLY(tool, ret, TL_REPLY_ERROR, "ERR unknown subcommand"); break;
    case ASK_TOUCH: node_write(node, (world_change){.kind = CHANGE_NOTHING}); break;
    case ASK_READ: read_record(node, tool, ret); break;
    case ASK_CHANGE: change_record(node, ask, tool, ret); break;
    case ASK_WAIT:
        *ret = (tl_reply){.type = TL_REPLY_INT, .integer = replicas_with_all(node)};
        break;
    case ASK_TIME:
        put_time(tool, 0);
        put_array(tool, ret, 0, 2);
        break;
    case ASK_ABSENT: *ret = (tl_reply){.type = TL_REPLY_INT, .integer = 0}; break;
    case ASK_GET: get_slot(node, ask, tool, ret); break;
    case ASK_SET: set_slot(node, ask, tool, ret); break;
    case ASK_ONE:
    case ASK_NOTE:
    case ASK_OK: break;
    }
    return true;
}
