/*
 * People who migrate with the shipped `tidelock migrate`, as compat/RUNBOOK.md tells them to: they look at its status, end the
 * services that the next phase can't live beside, have it make the step, and start what may run again. What
 * they know of the namespace is what it says; what is theirs to know is which services they have ended (one may be
 * forgotten), that there was a failover, and what their colleagues are about.
 */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/tool.h"

#define STEP_MS 5001 /* so long a step may be in flight when its command has ended */
#define WORD_SIZE 48

typedef struct {
    sim_tool tool;
    bool works; /**< is about a step: nobody lets anything begin */
    bool steps; /**< and its command runs */
    bool on;    /**< it means to advance */
    int64_t epoch;
    char word[SIM_TOOL_WORDS][WORD_SIZE];
    int words;
} migrate_actor;

_Static_assert(sizeof(migrate_actor) <= SIM_ACTOR_STATE, "fits where actors live");

static migrate_actor *self(const sim_actor *a) {
    return (migrate_actor *)(uintptr_t)a->state;
}

/* ---- the command ------------------------------------------------------------------------------------- */

static void say_word(migrate_actor *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say_word(migrate_actor *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(m->word[m->words++], WORD_SIZE, format, args);
    va_end(args);
}

static void say_ms(migrate_actor *m, const char *option, int64_t ms) {
    say_word(m, "%s", option);
    say_word(m, "%lldms", (long long)ms);
}

static migrate_actor *begin_words(sim_actor *a, const char *word) {
    migrate_actor *m = self(a);
    m->words = 0;
    m->tool.watch_ms = 0;
    say_word(m, "%s", word);
    return m;
}

static int run(sim_world *w, sim_actor *a) {
    migrate_actor *m = self(a);
    char *words[SIM_TOOL_WORDS + 1] = {NULL};
    for (int i = 0; i < m->words; i++)
        words[i] = m->word[i];
    m->tool.who = a->name;
    m->tool.patience = sim_draw(w, 0, 19) ? SIM_NEVER
                                          : sim_draw(w, 0, 3 * w->cfg.lease_ms * SIM_MS);
    int status = sim_tool_migrate(w, &m->tool, sim_client_url(w), words);
    w->stats.tool_unreached += status == STATUS_UNAVAILABLE;
    return status;
}

/* ---- what it says ------------------------------------------------------------------------------------ */

typedef struct {
    bool registered, java_may;
    int phase;
    int64_t epoch;
    int again; /**< the register was set back: make it again with this phase; -1: it wasn't */
} view;

/* The number behind these words; -1: they aren't there. */
static int64_t number_behind(const char *text, const char *words) {
    const char *at = strstr(text, words);
    return at ? strtoll(at + strlen(words), NULL, 10) : -1;
}

static bool look(sim_world *w, sim_actor *a, view *ret) {
    migrate_actor *m = begin_words(a, "status");
    say_word(m, "--json");
    if (run(w, a) != STATUS_OK)
        return false;
    const char *text = m->tool.out;
    const char *again = strstr(text, "migrate init --again");
    *ret = (view){.registered = strstr(text, "\"registered\":true") != NULL,
                  .java_may = strstr(text, "\"java\":\"may run\"") != NULL,
                  .phase = (int)number_behind(text, "\"phase\":"),
                  .epoch = number_behind(text, "\"epoch\":"),
                  .again = again ? (int)number_behind(again, "--phase ") : -1};
    if (!ret->registered)
        ret->again = (int)number_behind(text, "--keys PATTERN --phase ");
    return true;
}

/* ---- services ---------------------------------------------------------------------------------------- */

/* Their people see that they have ended. */
static bool have_ended(const sim_world *w, sim_kind kind) {
    for (int i = 0; i < w->cfg.actors; i++) {
        const sim_actor *b = &w->actor[i];
        if (w->cfg.cast[i].kind == kind && b->host->up && !sim_phase_lets(w, b) &&
            (kind == SIM_JAVA ? sim_java_is_busy(b) : !sim_actor_is_idle(b)))
            return false;
    }
    return true;
}

static void end(sim_world *w, sim_kind kind) {
    sim_phase_stop(w, kind);
    while (!w->calm && !w->failed && !have_ended(w, kind))
        sim_rest(w, 10 * SIM_MS);
}

/* What the phase to come can't live beside. */
static void make_way(sim_world *w, int from, int to) {
    if (to == 2 && from == 1) {
        end(w, SIM_JAVA);
        end(w, SIM_BRIDGE);
    } else if (to == 2) {
        end(w, SIM_TOKEN);
    }
}

/* What was sent last may be lost with a failover, and what begins by it too early. */
static bool replicas_have_all(const sim_world *w) {
    for (int i = 0; i <= w->cfg.replicas; i++)
        if (i != w->shard[0].master && w->log_fifo[i] > w->now)
            return false;
    return true;
}

/* After a failover clients may act for a lease by a phase that is lost. */
static bool is_known(const sim_world *w) {
    int64_t most_ms = w->cfg.lease_ms > w->cfg.own_lease_ms ? w->cfg.lease_ms : w->cfg.own_lease_ms;
    sim_ns most = tl__rate_most_ns(most_ms * SIM_MS, w->cfg.drift_ppm);
    return !w->failing_over &&
           (w->shard[0].promoted == 0 || w->now > w->shard[0].promoted + 2 * most);
}

static bool may_begin(const view *v, sim_kind kind, int to) {
    switch (kind) {
    case SIM_JAVA: return v->phase <= 1 && v->java_may && to != 2;
    case SIM_BRIDGE: return v->phase <= 1 && to != 2;
    case SIM_TOKEN: return v->phase == 3 && to != 2;
    default: return false;
    }
}

/* Not while a colleague is about a step, or one may be in flight, or has been made since the namespace was looked at. */
static void let_begin(sim_world *w, const view *v, int to) {
    static const sim_kind kinds[] = {SIM_JAVA, SIM_BRIDGE, SIM_TOKEN};
    sim_migration *m = &w->migration;
    if (m->working > 0 || w->now <= m->steps_until || m->epoch != v->epoch || !is_known(w) ||
        !replicas_have_all(w))
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (m->stopped[kinds[i]] && may_begin(v, kinds[i], to)) {
            sim_tell(w, "", SIM_ALL, "services of kind %d are started again", (int)kinds[i]);
            m->stopped[kinds[i]] = false;
            m->begun = v->epoch;
        }
}

/* ---- steps ------------------------------------------------------------------------------------------- */

static void begin_work(sim_world *w, sim_actor *a) {
    self(a)->works = true;
    w->migration.working++;
}

static void end_work(sim_world *w, sim_actor *a) {
    w->migration.working -= self(a)->works;
    self(a)->works = false;
}

/* What its command has sent may be executed later. */
static void leave_step(sim_world *w) {
    const sim_server *s = &w->server[w->shard[0].master];
    sim_clock slow = sim_clock_from_here(w, &s->wall, -1);
    sim_ns until = sim_clock_when(&slow, sim_clock_read(&s->wall, w->now) + STEP_MS * SIM_MS);
    if (w->migration.steps_until < until)
        w->migration.steps_until = until;
}

static int make(sim_world *w, sim_actor *a) {
    self(a)->steps = true;
    int status = run(w, a);
    self(a)->steps = false;
    if (status != STATUS_OK && !strstr(self(a)->tool.out, ") -> "))
        leave_step(w); /* it doesn't say that it was made */
    return status;
}

static void draw_watch(sim_world *w, migrate_actor *m) {
    int64_t lease_ms = w->cfg.lease_ms, watch_ms = lease_ms;
    switch (sim_draw(w, 0, 5)) {
    case 0: watch_ms = sim_draw(w, 1, lease_ms); break;
    case 1: watch_ms = sim_draw(w, lease_ms, 3 * lease_ms); break;
    case 2: watch_ms = w->cfg.forgets ? lease_ms : 0; break;
    default: break;
    }
    m->tool.watch_ms = watch_ms;
    if (watch_ms != lease_ms)
        say_ms(m, "--watch", watch_ms);
    if (watch_ms == 0)
        say_word(m, "--force");
    switch (sim_draw(w, 0, 3)) {
    case 0: say_ms(m, "--monitor", 0); break;
    case 1: say_ms(m, "--monitor", watch_ms); break;
    case 2: say_ms(m, "--monitor", sim_draw(w, 0, watch_ms)); break;
    default: break;
    }
}

static void step(sim_world *w, sim_actor *a, const view *v, int to) {
    migrate_actor *m = self(a);
    begin_work(w, a);
    make_way(w, v->phase, to);
    (void)begin_words(a, to > v->phase ? "advance" : "rollback");
    say_word(
        m, "--phase"); /* a colleague may have made this step: then it isn't the next one's turn */
    say_word(m, "%d", to);
    say_word(m, "--yes");
    if (v->phase == 1 && to == 2)
        draw_watch(w, m);
    if (sim_draw(w, 0, 2) == 0)
        say_ms(m, "--wait", sim_draw(w, 0, 1) * sim_draw(w, 0, 3 * w->cfg.lease_ms));
    int status = w->calm ? STATUS_UNAVAILABLE : make(w, a);
    end_work(w, a);
    w->stats.tool_steps += status == STATUS_OK;
    w->stats.tool_refused += status == STATUS_REFUSED;
    const char *out = m->tool.out;
    view now = {.registered = true,
                .phase = 1,
                .java_may = true,
                .epoch = out ? number_behind(out, "(bridge), epoch ") : -1};
    if (status == STATUS_OK && to == 1 && strstr(out, "Java may start"))
        let_begin(w, &now, 1);
}

static void init(sim_world *w, sim_actor *a, const view *v) {
    migrate_actor *m = begin_words(a, "init");
    int phase = v->again >= 0 ? v->again : (int)w->cfg.fallback;
    begin_work(w, a);
    w->stats.tool_set_back += v->registered;
    say_word(m, "--keys");
    say_word(m, "%s", sim_config_glob(&w->cfg).keys);
    say_word(m, "--phase");
    say_word(m, "%d", phase);
    if (v->registered)
        say_word(m, "--again");
    else
        say_ms(m, "--lease", w->cfg.lease_ms);
    say_word(m, "--yes");
    w->stats.tool_inits += make(w, a) == STATUS_OK;
    end_work(w, a);
}

static void sweep(sim_world *w, sim_actor *a) {
    migrate_actor *m = begin_words(a, "sweep");
    say_ms(m, "--clock-skew-max", w->cfg.skew_ms);
    say_ms(m, "--legacy-delay-max", w->cfg.lag_ms);
    say_ms(m, "--legacy-ttl-min", w->cfg.java_ttl_ms);
    if (sim_draw(w, 0, 3) == 0)
        say_word(m, "--dry-run");
    w->stats.tool_sweeps += run(w, a) == STATUS_OK;
}

/* ---- its life ---------------------------------------------------------------------------------------- */

static void turn(sim_world *w, sim_actor *a) {
    migrate_actor *m = self(a);
    view v;
    if (!look(w, a, &v) || w->calm)
        return;
    if (v.epoch != m->epoch)
        m->on = sim_draw(w, 0, 9) < 7;
    m->epoch = v.epoch;
    if (!v.registered || v.again >= 0) {
        init(w, a, &v);
        return;
    }
    int to = (int)sim_phase_next(w, v.phase, m->on);
    if (sim_draw(w, 0, 3) == 0)
        to = v.phase; /* it lets it be for now */
    let_begin(w, &v, to);
    if (sim_draw(w, 0, 3) == 0)
        sweep(w, a);
    if (to != v.phase && !w->calm && v.epoch >= w->migration.begun)
        step(w, a, &v, to);
}

static void live(sim_world *w, sim_actor *a) {
    while (!w->calm && !w->failed) {
        sim_rest(w, sim_draw(w, 0, w->cfg.lease_ms * SIM_MS));
        if (!w->calm)
            turn(w, a);
    }
}

static void crash(sim_world *w, sim_actor *a) {
    migrate_actor *m = self(a);
    w->stats.tool_killed += m->tool.run != 0;
    if (m->steps)
        leave_step(w);
    end_work(w, a);
    m->steps = false;
    m->tool.run = 0;
}

static void calm(sim_world *w, sim_actor *a) {
    sim_tool_interrupt(w, &self(a)->tool);
}

const sim_actor_kind sim_actor_migrate = {
    .name = "migrate",
    .size = sizeof(migrate_actor),
    .live = live,
    .crash = crash,
    .calm = calm,
};
