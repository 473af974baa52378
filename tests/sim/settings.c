/*
 * A run's settings in words: "hosts=2 off=pause,stale without=3 until=1200 pause=500 cast=tA0tB0jA1".
 */
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fake_redis.h"
#include "sim.h"

#define RESTS 500000 /* one release of two */

typedef struct {
    const char *word;
    size_t at, size;
    int64_t unit;
} setting;

#define SETTING(word, field, unit)                                                                 \
    { word, offsetof(sim_config, field), sizeof(((sim_config *)0)->field), unit }

static const setting settings[] = {
    SETTING("until", until, SIM_MS),
    SETTING("hosts", hosts, 1),
    SETTING("replicas", replicas, 1),
    SETTING("ttl", ttl_ms, 1),
    SETTING("attempt", attempt_ms, 1),
    SETTING("connect", connect_ms, 1),
    SETTING("quiet", quiet_ms, 1),
    SETTING("wait-replicas", wait_replicas, 1),
    SETTING("wait-ms", wait_replicas_ms, 1),
    SETTING("drift-ppm", drift_ppm, 1),
    SETTING("level", level, 1),
    SETTING("delay-us", delay, 1000),
    SETTING("late-us", late, 1000),
    SETTING("server-ppb", server_ppb, 1),
    SETTING("java-ttl", java_ttl_ms, 1),
    SETTING("java-slack", java_slack_ms, 1),
    SETTING("hold", hold_ms, 1),
    SETTING("idle", idle_ms, 1),
    SETTING("one-java-key", one_java_key, 1),
    SETTING("margin", skew_ms, 1),
    SETTING("lag", lag_ms, 1),
    SETTING("own-ttl", own_ttl_ms, 1),
    SETTING("java-writes", java_writes_ms, 1),
    SETTING("java-sleep", java_sleep_ms, 1),
    SETTING("no-eval", no_eval, 1),
    SETTING("no-time", no_time, 1),
    SETTING("by-hand", by_hand, 1),
    SETTING("late-dels", late_dels, 1),
    SETTING("slow-javas", slow_javas, 1),
    SETTING("slow-own", slow_own, 1),
    SETTING("lease", lease_ms, 1),
    SETTING("trace", trace, 1),
    SETTING("by-name", by_name, 1),
    SETTING("switches", switches, 1),
    SETTING("own-clients", own_clients, 1),
    SETTING("fair", fair, 1),
    SETTING("stall", stall, 1),
    SETTING("rests", rests, 1),
    SETTING("own-lease", own_lease_ms, 1),
    SETTING("plan", plan, 1),
    SETTING("first-phase", first_phase, 1),
    SETTING("fallback", fallback, 1),
    SETTING("tool", tool, 1),
    SETTING("outside", outside, 1),
    SETTING("glob", glob, 1),
    SETTING("forgets", forgets, 1),
    SETTING("ahead-us", ahead_us, 1),
    SETTING("goes-back", goes_back, 1),
    SETTING("stays", stays, 1),
    SETTING("ways", ways, 1),
    SETTING("seeds", seeds, 1),
    SETTING("ends-conns", ends_conns, 1),
    SETTING("unfollowed", unfollowed, 1),
    SETTING("forgets-open", forgets_open, 1),
    SETTING("atomic", atomic, 1),
    SETTING("drains", drains, 1),
    SETTING("doubtful", doubtful, 1),
    SETTING("deaf", deaf_ms, 1),
    SETTING("empties", empties, 1),
    SETTING("uphill", uphill, 1),
    SETTING("clears-reign", clears_reign, 1),
    SETTING("hand-over", pause_ms, 1),
    SETTING("voters", voters, 1),
    SETTING("twice", twice, 1),
    SETTING("dead", dead, 1),
    SETTING("in-turn", in_turn, 1),
    SETTING("unused", unused, 1),
    SETTING("members", members, 1),
    SETTING("users", users, 1),
    SETTING("lacks", lacks, 1),
    SETTING("events", events, 1),
    SETTING("cluster", cluster, 1),
    SETTING("one-slot", one_slot, 1),
    SETTING("slots", slots, 1),
    SETTING("touches", touches, 1),
    SETTING("mute", mute, 1),
    SETTING("suspends", suspends, 1),
    SETTING("vmclock", vmclock, 1),
    SETTING("crowds", crowds, 1),
    SETTING("spare", spare_ms, 1),
};

/* The word before '=' or the end, and what is behind it. */
typedef struct {
    const char *name, *value;
    size_t name_n, value_n;
} word;

static word read_word(const char *p) {
    word w = {.name = p, .name_n = strcspn(p, "= ")};
    if (p[w.name_n] == '=') {
        w.value = p + w.name_n + 1;
        w.value_n = strcspn(w.value, " ");
    }
    return w;
}

static bool is(const word *w, const char *name) {
    return strlen(name) == w->name_n && memcmp(w->name, name, w->name_n) == 0;
}

static bool set_number(sim_config *c, const word *w) {
    int64_t v = w->value ? strtoll(w->value, NULL, 10) : 1;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const setting *s = &settings[i];
        if (!is(w, s->word))
            continue;
        int64_t wide = v * s->unit;
        int32_t narrow = (int32_t)wide;
        bool yes = wide != 0;
        memcpy((char *)c + s->at,
               s->size == 8   ? (void *)&wide
               : s->size == 4 ? (void *)&narrow
                              : (void *)&yes,
               s->size);
        return true;
    }
    return false;
}

static bool set_fault(sim_config *c, const word *w) {
    sim_fault fault = sim_fault_named(w->name, w->name_n);
    if (fault == SIM_FAULT_COUNT || !w->value)
        return false;
    c->fault[fault] = (uint32_t)strtoul(w->value, NULL, 10);
    return true;
}

/* "all", or faults with commas between. */
static bool switch_off(sim_config *c, const word *w) {
    const char *p = w->value, *end = w->value + w->value_n;
    if (w->value_n == 3 && memcmp(p, "all", 3) == 0) {
        memset(c->fault, 0, sizeof c->fault);
        return true;
    }
    while (p < end) {
        size_t n = strcspn(p, ", ");
        sim_fault fault = sim_fault_named(p, n);
        if (fault == SIM_FAULT_COUNT)
            return false;
        c->fault[fault] = 0;
        p += n + (p + n < end);
    }
    return true;
}

static bool remove_actor(sim_config *c, const word *w) {
    int i = (int)strtol(w->value, NULL, 10);
    if (i < 0 || i >= c->actors)
        return false;
    for (c->actors--; i < c->actors; i++)
        c->cast[i] = c->cast[i + 1];
    return true;
}

/* Three letters an actor: what it is (t, p, j, b, s, r, a, o, d; a large letter: with an event loop), its host (A ...), its
 * key (0 ...). */
static bool set_cast(sim_config *c, const word *w) {
    static const char kinds[SIM_KIND_COUNT + 1] = {
        [SIM_TOKEN] = 't',  [SIM_PLAIN] = 'p',    [SIM_JAVA] = 'j',
        [SIM_BRIDGE] = 'b', [SIM_STAMP] = 's',    [SIM_STRICT] = 'r',
        [SIM_AUTO] = 'a',   [SIM_OPERATOR] = 'o', [SIM_DROP_IN] = 'd'};
    c->actors = c->hosts = c->keys = 0;
    c->plain_level = c->no_eval && c->level < FAKE_LEVEL(2, 2, 0);
    for (size_t i = 0; i + 3 <= w->value_n; i += 3) {
        const char *p = w->value + i, *kind = strchr(kinds, tolower((unsigned char)p[0]));
        int host = p[1] - 'A', key = p[2] - '0';
        if (!kind || host < 0 || host >= SIM_HOSTS || key < 0 || key >= SIM_KEYS ||
            c->actors == SIM_ACTORS)
            return false;
        c->cast[c->actors++] = (sim_cast){(uint8_t)(kind - kinds), (uint8_t)host, (uint8_t)key,
                                          isupper((unsigned char)p[0]) != 0};
        c->hosts = host >= c->hosts ? host + 1 : c->hosts;
        c->keys = key >= c->keys ? key + 1 : c->keys;
        c->plain_level = c->plain_level || tolower((unsigned char)*p) == 'r';
    }
    return true;
}

/* Every host's clock loses so many ppm against the server's, which is more than assumed. */
static bool slow_clocks(sim_config *c, const word *w) {
    c->slow_clock = true;
    for (int i = 0; i < SIM_HOSTS; i++)
        c->host_ppb[i] = c->server_ppb - strtoll(w->value, NULL, 10) * 1000;
    return true;
}

/* Legacy clocks at either edge of what they may be off, or right. With stamps that is from the server's, at
 * whatever rate that runs. */
static bool straighten_walls(sim_config *c, int64_t within_ms) {
    c->wall_off_ms = within_ms;
    for (int i = 0; i < SIM_HOSTS; i++) {
        c->wall_offset_ms[i] = c->wall_offset_ms[i] > 0   ? within_ms
                               : c->wall_offset_ms[i] < 0 ? -within_ms
                                                          : 0;
        c->wall_ppb[i] = c->stamps ? c->server_ppb : 0;
    }
    return true;
}

/* No legacy clock is behind. */
static bool all_ahead(sim_config *c) {
    for (int i = 0; i < SIM_HOSTS; i++)
        c->wall_offset_ms[i] = c->wall_offset_ms[i] < 0 ? -c->wall_offset_ms[i]
                                                        : c->wall_offset_ms[i];
    return true;
}

static bool skew(sim_config *c, int64_t within_ms) {
    c->skew_ms = within_ms;
    return straighten_walls(c, within_ms);
}

/* "migration=tool" by the shipped command, "migration=plain" without it, as after "tame"; else as it is drawn. */
static bool migrate(sim_config *c, const word *w) {
    sim_config_migration(c);
    if (!w->value && !c->tame)
        sim_config_tool_maybe(c);
    else if (w->value && w->value_n == 4 && memcmp(w->value, "tool", 4) == 0)
        sim_config_tool(c);
    else if (w->value)
        return w->value_n == 5 && memcmp(w->value, "plain", 5) == 0;
    return true;
}

/* "cluster-atomic=stamps": those of "cluster-stamps"; "cluster-atomic=phases": of "cluster-phases". */
static bool move_at_once(sim_config *c, const word *w) {
    bool stamps = w->value && w->value_n == 6 && memcmp(w->value, "stamps", 6) == 0,
         phases = w->value && w->value_n == 6 && memcmp(w->value, "phases", 6) == 0;
    if (stamps)
        sim_config_cluster_stamps(c);
    else if (phases)
        sim_config_cluster_phases(c);
    else
        sim_config_cluster(c);
    sim_config_atomic(c);
    return stamps || phases || !w->value;
}

/* Each host's delay in hundredths of the usual one: "100,5,5,20"; the last goes for all that follow. */
static bool set_distances(sim_config *c, const word *w) {
    const char *p = w->value, *end = w->value + w->value_n;
    for (int i = 0; i < SIM_HOSTS; i++) {
        c->near[i] = (int32_t)strtol(p, NULL, 10);
        size_t n = strcspn(p, ", ");
        p += p + n < end ? n + 1 : 0;
        if (c->near[i] < 1 || c->near[i] > 100)
            return false;
    }
    return true;
}

/* A clock's rate, in ppm: a host's by its letter, or the server's ("S"). */
static bool set_rate(sim_config *c, const word *w) {
    int64_t ppb = w->value_n > 1 ? strtoll(w->value + 1, NULL, 10) * 1000 : 0;
    int host = w->value[0] - 'A';
    c->slow_clock = true;
    if (w->value[0] == 'S')
        c->server_ppb = ppb;
    else if (host >= 0 && host < SIM_HOSTS)
        c->host_ppb[host] = ppb;
    else
        return false;
    return true;
}

static bool set_dialect(sim_config *c, const word *w) {
    int64_t number = strtoll(w->value, NULL, 10);
    c->dialect = sim_dialect_is_known(number) ? (int32_t)number : 0;
    return sim_dialect_is_known(number);
}

static bool change(sim_config *c, const word *w) {
    if (is(w, "straight-walls"))
        return skew(c, 0);
    if (w->value && is(w, "skew"))
        return skew(c, strtoll(w->value, NULL, 10));
    if (w->value && is(w, "walls"))
        return straighten_walls(c, strtoll(w->value, NULL, 10));
    if (is(w, "ahead"))
        return all_ahead(c);
    if (is(w, "tame")) {
        sim_config_tame(c, c->seed);
        return c->tame = true;
    }
    if (is(w, "stamps")) {
        sim_config_stamps(c);
        if (c->tame)
            memset(c->behind_us, 0, sizeof c->behind_us);
        else
            sim_config_stamps_worlds(c);
        return true;
    }
    if (is(w, "sentinel")) {
        sim_config_sentinel(c);
        return true;
    }
    if (is(w, "cluster-fleet")) {
        sim_config_cluster(c);
        return true;
    }
    if (is(w, "cluster-stamps")) {
        sim_config_cluster_stamps(c);
        return true;
    }
    if (is(w, "cluster-phases")) {
        sim_config_cluster_phases(c);
        return true;
    }
    if (is(w, "cluster-atomic"))
        return move_at_once(c, w);
    if (is(w, "quorum")) {
        sim_config_quorum(c);
        return true;
    }
    if (is(w, "etcd")) {
        sim_config_etcd(c);
        return true;
    }
    if (!w->value && is(w, "rests")) {
        c->rests = RESTS;
        return true;
    }
    if (is(w, "same-clocks")) {
        memset(c->behind_us, 0, sizeof c->behind_us);
        return true;
    }
    if (is(w, "migration"))
        return migrate(c, w);
    if (!w->value && is(w, "drop-ins")) {
        sim_config_drop_ins(c);
        return true;
    }
    if (w->value && is(w, "off"))
        return switch_off(c, w);
    if (w->value && is(w, "without"))
        return remove_actor(c, w);
    if (w->value && is(w, "cast"))
        return set_cast(c, w);
    if (w->value && is(w, "distances"))
        return set_distances(c, w);
    if (w->value && is(w, "dialect"))
        return set_dialect(c, w);
    if (w->value && is(w, "rate"))
        return set_rate(c, w);
    if (w->value && is(w, "slow-clocks"))
        return slow_clocks(c, w);
    return set_number(c, w) || set_fault(c, w);
}

static void print_words(FILE *to, const char *title, const char *const words[], size_t n) {
    size_t at = 0;
    (void)fprintf(to, "%s", title);
    for (size_t i = 0; i < n; i++) {
        at += strlen(words[i]) + 1;
        bool begins = i == 0 || at > 100;
        (void)fprintf(to, begins ? "\n  %s" : " %s", words[i]);
        at = begins ? strlen(words[i]) : at;
    }
    (void)fprintf(to, "\n");
}

void sim_print_settings(FILE *to) {
    const char *words[SIM_FAULT_COUNT + sizeof settings / sizeof *settings];
    size_t n = 0;
    (void)fprintf(
        to,
        "CHANGES= kinds of run, and other changes; settings.c says what each does:\n"
        "  stamps migration[=tool|plain] drop-ins sentinel cluster-fleet cluster-stamps\n"
        "  cluster-phases cluster-atomic[=stamps|phases] quorum etcd tame rests\n"
        "  off=FAULT,...|all without=ACTOR cast=tA0jB1 skew=MS walls=MS straight-walls same-clocks\n"
        "  ahead distances=100,5 dialect=N rate=A500|S500 slow-clocks=PPM\n");
    for (; n < SIM_FAULT_COUNT; n++)
        words[n] = sim_fault_word((sim_fault)n);
    print_words(to, "CHANGES= faults, FAULT=N for how often; config.h says what each does:", words,
                n);
    for (n = 0; n < sizeof settings / sizeof *settings; n++)
        words[n] = settings[n].word;
    print_words(to, "CHANGES= numbers, WORD=N; config.h says what each is:", words, n);
}

const char *sim_config_change(sim_config *c, const char *words) {
    for (const char *p = words + strspn(words, " "); *p; p += strspn(p, " ")) {
        word w = read_word(p);
        if (!change(c, &w))
            return p;
        p += strcspn(p, " ");
    }
    return NULL;
}
