/*
 * What of the keys is in reach: a cluster's slots go to another node and come back, and a user may touch some keys
 * only.
 */
#include <stdio.h>

#include "world.h"

#define SLOTS 16384
#define ELSEWHERE "10.0.0.99:6379"
#define NAMES_SIZE 200 /* room for patterns of all keys */

/* ---- a cluster's slots ----------------------------------------------------------------------------- */

/* What has become of the slots. In the last two some keys have left before the others. */
typedef enum { ELSEWHERE_ALL, ON_THE_MOVE, K_HAS_LEFT, S_HAS_LEFT, STAGES } stage;

_Static_assert(SIM_MOVES == STAGES * (1 + SIM_KEYS), "each of them with all keys, or with one");

static stage stage_of(int how) {
    return (stage)((how - 1) % STAGES);
}

/* -1: all keys' */
static int key_of(int how) {
    return (how - 1) / STAGES - 1;
}

static bool concerns(int how, int key) {
    return key_of(how) < 0 || key_of(how) == key;
}

static void leave_keys(sim_world *w, fake_redis *r, int how) {
    char names[NAMES_SIZE] = "";
    size_t n = 0;
    for (int i = 0; i < w->cfg.keys; i++)
        if (concerns(how, i))
            n += (size_t)snprintf(names + n, sizeof names - n, "%s ",
                                  stage_of(how) == K_HAS_LEFT ? w->key[i].name : w->key[i].sidecar);
    fake_redis_leave_keys(r, n > 0 ? names : NULL);
}

static void move_slots(sim_world *w, fake_redis *r, int how) {
    unsigned first = 0, last = SLOTS - 1;
    fake_redis_leave_keys(r, NULL);
    if (how == 0) {
        fake_redis_move_slots(r, 0, 0, FAKE_SLOTS_HERE, NULL);
        return;
    }
    if (key_of(how) >= 0)
        first = last = fake_redis_slot(w->key[key_of(how)].k);
    fake_redis_move_slots(r, first, last,
                          stage_of(how) == ELSEWHERE_ALL ? FAKE_SLOTS_MOVED : FAKE_SLOTS_MIGRATING,
                          ELSEWHERE);
    if (stage_of(how) >= K_HAS_LEFT)
        leave_keys(w, r, how);
}

static void tell_moved(sim_world *w, int how) {
    static const char *const words[STAGES] = {"are at another node", "are on the move",
                                              "are on the move, K first",
                                              "are on the move, S first"};
    int key = how ? key_of(how) : SIM_ALL;
    sim_tell(w, "", SIM_ALL, "the slots of %s %s", key < 0 ? "all keys" : w->key[key].name,
             how ? words[stage_of(how)] : "are here");
}

static void note_reach(sim_world *w);

void sim_slots_move(sim_world *w, int how) {
    if (how && key_of(how) >= w->cfg.keys)
        how = (int)stage_of(how) + 1;
    w->slots = how;
    for (int i = 0; i < sim_servers(w); i++)
        move_slots(w, w->server[i].r, how);
    w->stats.moves += how != 0;
    tell_moved(w, how);
    note_reach(w);
}

int sim_slots_next(sim_world *w) {
    bool goes = w->slots && stage_of(w->slots) != ELSEWHERE_ALL && sim_draw(w, 0, 1);
    return goes ? w->slots - (int)stage_of(w->slots) : 0;
}

/* ---- keys that may not be touched ---------------------------------------------------------------------- */

/* Which: K, S, those of the first lock, those of all others; %R~ and %W~ are for reading and writing alone. */
typedef struct {
    const char *first, *first_s, *other,
        *other_s; /**< what stands before the name; NULL: none of it */
} rule;

static const rule rules[SIM_TOUCHES] = {
    {"", NULL, "", NULL},         /* no sidecar */
    {NULL, "", NULL, ""},         /* sidecars alone */
    {NULL, NULL, "", ""},         /* not the first */
    {"", "", NULL, NULL},         /* only the first */
    {NULL, NULL, NULL, NULL},     /* nothing of theirs */
    {"", "%R~", "", "%R~"},       /* sidecars may be read */
    {"%R~", "", "%R~", ""},       /* keys may be read */
    {"%W~", "%W~", "%W~", "%W~"}, /* all may be written */
};

static void allow(sim_world *w, fake_redis *r, const rule *may) {
    char names[NAMES_SIZE] = "nothing ";
    size_t n = strlen(names);
    for (int i = 0; i < w->cfg.keys; i++) {
        const char *k = i ? may->other : may->first, *s = i ? may->other_s : may->first_s;
        if (k)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s ", k, w->key[i].name);
        if (s)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s ", s, w->key[i].sidecar);
    }
    fake_redis_allow_keys(r, names);
}

void sim_keys_forbid(sim_world *w, int which) {
    static const char *const words[SIM_TOUCHES] = {
        "locks' own keys, but no sidecar, may be touched",
        "sidecars alone may be touched",
        "the first lock's keys are forbidden",
        "only the first lock's keys may be touched",
        "no key may be touched",
        "sidecars may be read alone",
        "locks' own keys may be read alone",
        "keys may be written alone"};
    w->forbids = which;
    for (int i = 0; i < sim_servers(w); i++)
        if (which)
            allow(w, w->server[i].r, &rules[which - 1]);
        else
            fake_redis_allow_keys(w->server[i].r, NULL);
    w->stats.key_denies += which != 0;
    sim_tell(w, "", SIM_ALL, "%s", which ? words[which - 1] : "all keys may be touched");
    note_reach(w);
}

/* ---- who is concerned ---------------------------------------------------------------------------------- */

/* May a holder that has a sidecar renew it? */
static bool is_in_reach(const sim_world *w, int key) {
    const rule *may = w->forbids ? &rules[w->forbids - 1] : NULL;
    const char *k = may ? key ? may->other : may->first : "";
    const char *s = may ? key ? may->other_s : may->first_s : "";
    bool same = w->slots && (concerns(w->slots, key) ||
                             (w->cfg.one_slot && stage_of(w->slots) == ELSEWHERE_ALL));
    bool here = !same || stage_of(w->slots) == ON_THE_MOVE;
    return here && k && s && !*k && !*s;
}

/* It was until now, or will be from now on. */
static void note_reach(sim_world *w) {
    for (int i = 0; i < w->cfg.keys; i++) {
        sim_key *key = &w->key[i];
        bool in = is_in_reach(w, i);
        if (in && key->reached == SIM_NEVER)
            key->reached = w->now;
        else if (!in)
            key->reached = SIM_NEVER;
    }
}

bool sim_in_reach(const sim_world *w, int key, sim_ns since) {
    return w->key[key].reached <= since;
}
