/*
 * `tidelock migrate` in seeded worlds: the files that lead a cluster through the phases, in clusters that fail over,
 * forget, move slots, and don't reply; beside another operator; killed between any two requests. Java starts when
 * the command says so, and not before. Then no lock is a token, nor becomes one. WORLDS=n plays so many worlds,
 * WORLD=n one of them, with its story. timeout: 300
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "world.h"

#define COMMANDS_MOST 9
#define HONEST_MOST 12

bool world_tells;
ssize_t tool_printed(void *cookie, const char *from, size_t n);

void world_tell(const char *format, ...) {
    va_list args;

    if (!world_tells)
        return;
    fprintf(stderr, "%10lld  ", (long long)world.now_ms);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void world_broken(const char *format, ...) {
    va_list args;

    if (world.broken[0])
        return;
    va_start(args, format);
    (void)vsnprintf(world.broken, sizeof world.broken, format, args);
    va_end(args);
    world_tell("BROKEN: %s", world.broken);
}

/* ---- what there is --------------------------------------------------------------------------------- */

static const world_data *data_of(int slot) {
    return &world.node[world.truth[slot].owner].data;
}

static int highest(void) {
    int most = SLOT_ABSENT;
    for (int i = 0; i < TL_SLOTS; i++)
        if (data_of(i)->slot[i].reg.phase > most)
            most = data_of(i)->slot[i].reg.phase;
    return most;
}

static bool all_in(int phase) {
    const world_record *record = &data_of(HOME)->record;
    for (int i = 0; i < TL_SLOTS; i++)
        if (data_of(i)->slot[i].reg.phase != phase)
            return false;
    return record->there && record->phase == phase;
}

/* ---- operators ------------------------------------------------------------------------------------- */

/* Without Java: whoever begins in such a phase says that there is none. */
static int phase_to_begin(void) {
    int most = highest();

    if (most >= PHASE_DRAIN) {
        world.java_may = world.java_runs = false;
        return most;
    }
    return chance(9000) ? PHASE_BRIDGE : PHASE_TIMESTAMP;
}

static int present_phase(void) {
    const world_record *record = &data_of(HOME)->record;
    return record->there && record->phase > highest() ? record->phase : highest();
}

/* Up and down again, mostly. */
static bool goes_up(void) {
    int phase = present_phase();

    if (phase <= PHASE_BRIDGE)
        world.upward = true;
    else if (phase == PHASE_TOKEN || chance(6000))
        world.upward = false;
    return chance(8500) ? world.upward : draw(2);
}

/* Java is stopped before a step to phase 2, but for a mistake. */
static void begin_any(world_tool *tool) {
    bool up = goes_up();

    if (chance(1000)) {
        tool_begin(tool, "status", MIGRATE_NOT_GIVEN);
    } else if (!data_of(HOME)->record.there && chance(9000)) {
        tool_begin(tool, "init", phase_to_begin());
    } else {
        if (up && chance(8500))
            world.java_runs = false;
        tool_begin(tool, up ? "advance" : "rollback", MIGRATE_NOT_GIVEN);
    }
}

static void play_commands(void) {
    int commands = 2 + (int)draw(COMMANDS_MOST);

    for (int i = 0; i < commands && !world.broken[0]; i++) {
        world_run(world.now_ms + draw(chance(2000) ? 20000 : 1000), NULL);
        begin_any(&world.tool[0]);
        if (chance(world.twice)) {
            world_run(world.now_ms + draw(3000), NULL);
            if (!world.tool[1].runs)
                begin_any(&world.tool[1]);
        }
        (void)tool_run(&world.tool[0]);
    }
    if (world.tool[1].runs)
        (void)tool_run(&world.tool[1]);
}

static void take_honest_step(int target) {
    const world_record *record = &data_of(HOME)->record;
    int phase = present_phase();
    bool up = phase < target || (phase == target && target >= PHASE_DRAIN);

    world.java_runs = world.java_runs && !up;
    if (!record->there)
        tool_begin(&world.tool[0], "init", phase >= PHASE_DRAIN ? phase_to_begin() : PHASE_BRIDGE);
    else if (phase == target && phase == PHASE_BRIDGE && record->phase == phase)
        tool_begin(&world.tool[0], "advance", phase);
    else
        tool_begin(&world.tool[0], up ? "advance" : "rollback", MIGRATE_NOT_GIVEN);
}

/* When all faults are over, commands lead where they are meant to lead. */
static void play_honestly(void) {
    int target = 1 + (int)draw(3);

    cluster_heal();
    world.kills = 0;
    world_run(world.now_ms + 12000, NULL);
    world_tell("all is well; phase %d is wanted", target);
    for (int i = 0; i < HONEST_MOST && !world.broken[0]; i++) {
        if (all_in(target) ||
            (target == PHASE_BRIDGE && highest() <= target && data_of(HOME)->record.there &&
             data_of(HOME)->record.phase == target))
            return;
        take_honest_step(target);
        world.steps += tool_run(&world.tool[0]) == 0;
        world_run(world.now_ms + 3000, NULL);
    }
    world_broken("phase %d is not reached by %d commands", target, HONEST_MOST);
}

/* ---- a world --------------------------------------------------------------------------------------- */

static struct { int64_t said, steps, commands, tokens, calls, failovers, slots_moved; } sum;

static void add_up(void) {
    sum.said += world.said;
    sum.steps += world.steps;
    sum.commands += world.commands;
    sum.tokens += world.tokens;
    sum.calls += world.calls;
    sum.failovers += world.failovers;
    sum.slots_moved += world.slots_moved;
}

static int one_of(int a, int b, int c) {
    int values[] = {a, b, c};
    return values[draw(3)];
}

static void draw_settings(void) {
    world.faults = one_of(0, 10, 50);
    world.lags = one_of(0, 50, 200);
    world.spite = one_of(0, 5000, 10000);
    world.moves = one_of(0, 20, 100);
    world.flushes = one_of(0, 0, 5);
    world.lossy = one_of(0, 2, 20);
    world.takes = one_of(500, 3000, 8000);
    world.kills = one_of(0, 3000, 6000);
    world.twice = one_of(0, 2000, 5000);
    world.persistent = draw(4) > 0;
    world.coarse = draw(5) == 0;
}

static FILE *former;

static void begin_world(uint64_t seed) {
    fiber fibers[TOOLS];
    static FILE *printed;

    if (!printed)
        printed = fopencookie(NULL, "w", (cookie_io_functions_t){.write = tool_printed});
    assert_non_null(printed);
    setvbuf(printed, NULL, _IONBF, 0);
    for (int i = 0; i < TOOLS; i++)
        fibers[i] = world.tool[i].fiber;
    memset(&world, 0, sizeof world);
    for (int i = 0; i < TOOLS; i++)
        world.tool[i].fiber = fibers[i];
    world.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    world.java_last = -1;
    former = stdout;
    stdout = printed;
}

static void end_world(void) {
    tools_end();
    stdout = former;
    cluster_end();
}

/* False: something is broken. */
static bool play(uint64_t seed) {
    begin_world(seed);
    draw_settings();
    int phase = draw(3) ? (int)draw(3) + 1 : SLOT_ABSENT;
    cluster_begin(phase);
    world.java_may = world.java_runs = phase < PHASE_DRAIN;
    play_commands();
    if (!world.broken[0])
        play_honestly();
    end_world();
    add_up();
    return !world.broken[0];
}

static void play_or_fail(uint64_t seed) {
    if (!play(seed))
        fail_msg("WORLD=%llu: %s", (unsigned long long)seed, world.broken);
}

/* One operator's process is stopped behind its last change of the record, and another goes up to phase 2. */
TEST(java_does_not_start_when_another_has_gone_up) {
    begin_world(1);
    cluster_begin(PHASE_DRAIN);
    tool_begin(&world.tool[0], "rollback", MIGRATE_NOT_GIVEN);
    while (data_of(HOME)->record.phase != PHASE_BRIDGE && world.tool[0].runs)
        world_run(world.now_ms + 1, NULL);
    world.tool[0].wake_at += 20000;
    tool_begin(&world.tool[1], "advance", MIGRATE_NOT_GIVEN);
    int up = tool_run(&world.tool[1]), down = tool_run(&world.tool[0]);
    int64_t said = world.said;
    end_world();
    assert_int_equal(up, 0);
    assert_int_equal(down, STATUS_REFUSED);
    assert_int_equal(said, 0);
}

/* Guards that are found late are found here at once, as long as the worlds stay what they are. */
TEST(seeds_that_have_shown_something_hold) {
    static const uint64_t seeds[] = {84, 103, 475, 1119, 17503};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds && !getenv("WORLD"); i++)
        play_or_fail(seeds[i]);
}

TEST(java_runs_beside_no_token_in_every_seeded_world) {
    const char *asked = getenv("WORLDS"), *one = getenv("WORLD");
    uint64_t first = one ? strtoull(one, NULL, 10) : 1;
    uint64_t last = one ? first : asked ? strtoull(asked, NULL, 10) : tests_whole() ? 20000 : 500;

    world_tells = one != NULL;
    for (uint64_t seed = first; seed <= last; seed++)
        play_or_fail(seed);
    print_message(
        "%llu worlds, %lld commands; Java was let start %lld times, locked %lld times; %lld tokens; "
        "%lld failovers, %lld slots moved; %lld honest steps\n",
        (unsigned long long)(last - first + 1), (long long)sum.commands, (long long)sum.said,
        (long long)sum.calls, (long long)sum.tokens, (long long)sum.failovers,
        (long long)sum.slots_moved, (long long)sum.steps);
    assert_true(one || sum.said > (int64_t)last / 2); /* else it proves little */
}
