/*
 * An operator with `tidelock migrate` in a cluster, as config_slots.c says: it writes the register of each
 * slot by comparing it with what it has read.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 40

typedef struct {
    sim_raw raw;
    char is[SIM_KEYS][TEXT]; /**< what the registers hold */
} slots_actor;

_Static_assert(sizeof(slots_actor) <= SIM_ACTOR_STATE, "fits where actors live");

static slots_actor *self(const sim_actor *a) {
    return (slots_actor *)(uintptr_t)a->state;
}

static const char setting[] = "local is = redis.call('GET', KEYS[1]) or '' "
                              "if is ~= ARGV[1] then return is end "
                              "redis.call('SET', KEYS[1], ARGV[2]) return ARGV[2]";

/* ---- what it asks ---------------------------------------------------------------------------------- */

/* NULL: no reply, or an error. */
static const tl_reply *ask(sim_world *w, sim_actor *a, const tl_bytes *argv, uint8_t argc) {
    tl_command c = {.form = TL_ARGV, .argc = argc};
    memcpy(c.argv, argv, argc * sizeof *argv);
    self(a)->raw.never_after = SIM_NEVER;
    const tl_reply *r = sim_raw_ask(w, &self(a)->raw, &c, 1, w->cfg.attempt_ms);
    return r && r->type != TL_REPLY_ERROR ? r : NULL;
}

static bool goes_on(const sim_world *w) {
    return !w->calm && !w->failed;
}

static void pause(sim_world *w) {
    sim_rest(w, sim_draw(w, 1, w->cfg.attempt_ms * SIM_MS));
}

static void read_text(const tl_reply *r, char to[TEXT]) {
    tl_bytes text;
    bool is = tl__reply_text(r, &text);
    (void)snprintf(to, TEXT, "%.*s", is ? (int)text.n : 0, is ? text.p : "");
}

/* false: the run ends. */
static bool read_register(sim_world *w, sim_actor *a, int key) {
    char name[SIM_SLOT_REGISTER];
    const tl_bytes argv[] = {TL_LITERAL("GET"), sim_slot_register(w, key, name)};
    const tl_reply *r = NULL;
    while (!r && goes_on(w)) {
        r = ask(w, a, argv, 2);
        if (r)
            read_text(r, self(a)->is[key]);
        else
            pause(w);
    }
    return r != NULL;
}

static bool read_all(sim_world *w, sim_actor *a) {
    for (int i = 0; i < w->cfg.keys; i++)
        if (!read_register(w, a, i))
            return false;
    return true;
}

/* One try to set it. */
static bool set(sim_world *w, sim_actor *a, int key, const char *to) {
    char name[SIM_SLOT_REGISTER], *is = self(a)->is[key];
    const tl_bytes argv[] = {TL_LITERAL("EVAL"), tl__bytes_of(setting),
                             TL_LITERAL("1"),    sim_slot_register(w, key, name),
                             tl__bytes_of(is),   tl__bytes_of(to)};
    const tl_reply *r = ask(w, a, argv, 6);
    if (r)
        read_text(r, is);
    return r && strcmp(is, to) == 0;
}

/* Have all replicas of the node that has replied last what was written before over this connection? */
static bool has_waited(sim_world *w, sim_actor *a, unsigned opened) {
    char room[2][TL_INT_SIZE];
    const tl_bytes argv[] = {TL_LITERAL("WAIT"), tl__bytes_from_int(room[0], w->cfg.replicas),
                             tl__bytes_from_int(room[1], w->cfg.attempt_ms / 2 + 1)};
    int64_t n = 0;
    const tl_reply *r = ask(w, a, argv, 3);
    return r && tl__reply_int(r, &n) && n >= w->cfg.replicas && self(a)->raw.opened == opened;
}

/* false: the run ends. */
static bool write_register(sim_world *w, sim_actor *a, int key, const char *to, bool waits) {
    while (goes_on(w)) {
        bool done = set(w, a, key, to);
        unsigned opened = self(a)->raw.opened;
        if (done && (!waits || has_waited(w, a, opened)))
            return true;
        pause(w);
    }
    return false;
}

/* ---- steps ----------------------------------------------------------------------------------------- */

/* A time would be as unique. */
static const char *text_for(sim_world *w, int phase, char to[TEXT]) {
    (void)snprintf(to, TEXT, "%d %lld", phase, (long long)++w->migration.top);
    return to;
}

static int phase_of(const sim_world *w, const char *is) {
    return *is ? *is - '0' : w->cfg.fallback;
}

static bool write_all(sim_world *w, sim_actor *a, const char *to, bool waits) {
    for (int i = 0; i < w->cfg.keys; i++) {
        if (!waits && sim_draw(w, 0, 9) == 0)
            return false; /* it leaves the step half-made */
        if (!write_register(w, a, i, to, waits))
            return false;
    }
    return true;
}

static void go_up(sim_world *w, sim_actor *a, int to) {
    char text[TEXT];
    sim_phase_stop(w, SIM_JAVA);
    while (goes_on(w) && !sim_phase_is_rid_of(w, SIM_JAVA))
        sim_rest(w, 10 * SIM_MS);
    if (goes_on(w) && read_all(w, a))
        w->stats.steps_on += write_all(w, a, text_for(w, to, text), false);
}

/* false: the run ends. */
static bool await_no_token(sim_world *w, sim_actor *a, int key) {
    const tl_bytes argv[] = {TL_LITERAL("GET"), w->key[key].k};
    while (goes_on(w)) {
        int64_t stamp;
        const tl_reply *r = ask(w, a, argv, 2);
        tl_bytes text = {0};
        if (r && (!tl__reply_text(r, &text) || sim_dialect_read(w, text, &stamp)))
            return true;
        pause(w);
    }
    return false;
}

static void go_down(sim_world *w, sim_actor *a, int to) {
    char text[TEXT];
    if (!write_all(w, a, text_for(w, to, text), true))
        return;
    for (int i = 0; i < w->cfg.keys; i++)
        if (!await_no_token(w, a, i))
            return;
    if (!write_all(w, a, text, true))
        return;
    sim_tell(w, "", SIM_ALL, "%s says that Java may start", a->name);
    w->stats.steps_back++;
    w->migration.stopped[SIM_JAVA] = false;
}

static void turn(sim_world *w, sim_actor *a) {
    int low = 3, high = 0;
    if (!read_all(w, a))
        return;
    for (int i = 0; i < w->cfg.keys; i++) {
        int phase = phase_of(w, self(a)->is[i]);
        low = phase < low ? phase : low;
        high = phase > high ? phase : high;
    }
    bool down = sim_draw(w, 0, 2) == 0;
    if (down || (high <= 1 && sim_draw(w, 0, 1)))
        go_down(w, a, (int)sim_draw(w, 0, 1));
    else if (low < high && high > 1)
        go_up(w, a, high);
    else
        go_up(w, a, high <= 1 ? 2 : 5 - high);
}

static void live(sim_world *w, sim_actor *a) {
    self(a)->raw.fd = -1;
    while (goes_on(w)) {
        sim_rest(w, sim_draw(w, 0, 2 * w->cfg.ttl_ms * SIM_MS));
        if (goes_on(w))
            turn(w, a);
    }
    sim_raw_end(&self(a)->raw);
}

const sim_actor_kind sim_actor_slots = {
    .name = "slots",
    .size = sizeof(slots_actor),
    .live = live,
};
