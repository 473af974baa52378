/*
 * What the shipped command asks of the system beside src/ground, defined anew: signals, standard output and error,
 * whose process it is. And what a run of it must have seen of legacy clients, judged from outside.
 */
#include "world.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/js.h"
#include "base/signals.h"
#include "base/tool.h"
#include "ground/wait.h"

int __real_isatty(int fd);
int __wrap_isatty(int fd);
pid_t __real_getpid(void);
pid_t __wrap_getpid(void);
struct passwd *__real_getpwuid(uid_t id);
struct passwd *__wrap_getpwuid(uid_t id);
int __real_js_line(json_t *value, int fd);
int __wrap_js_line(json_t *value, int fd);
int __real_uname(struct utsname *ret);
int __wrap_uname(struct utsname *ret);

/* The one that the thread which runs belongs to; NULL: none. */
static sim_tool *present(void) {
    return sim_the_world && sim_the_world->thread ? sim_the_world->thread->tool : NULL;
}

/* ---- whose process it is ----------------------------------------------------------------------------- */

int __wrap_isatty(int fd) {
    return present() ? 0 : __real_isatty(fd);
}

/* In containers they are alike. */
pid_t __wrap_getpid(void) {
    return present() ? 1 : __real_getpid();
}

struct passwd *__wrap_getpwuid(uid_t id) {
    static char name[] = "op";
    static struct passwd op = {.pw_name = name};
    return present() ? &op : __real_getpwuid(id);
}

int __wrap_uname(struct utsname *ret) {
    if (!present())
        return __real_uname(ret);
    *ret = (struct utsname){.nodename = {sim_the_world->thread->host->name}};
    return 0;
}

/* ---- tools/base/signals.h ---------------------------------------------------------------------------- */

int signals_begin(signals *s) {
    s->fd = tl__wake_open();
    present()->fd = s->fd;
    return s->fd < 0 ? -1 : 0;
}

void signals_end(signals *s) {
    present()->fd = -1;
    tl__wake_close(s->fd);
}

int signals_next(signals *s) {
    sim_tool *t = present();
    int sig = t->signal;
    if (sig)
        tl__wake_clear(s->fd);
    t->signal = 0;
    return sig;
}

int signals_pause(signals *s, int64_t ms) {
    tl_mono until = tl__mono_add_ms(tl__mono_now(), ms);
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    int sig = signals_next(s);
    while (!sig && tl__mono_before(tl__mono_now(), until)) {
        tl__wait(&p, 1, until);
        sig = signals_next(s);
    }
    return sig;
}

/* What only those that run other programs ask for. */
void signals_restore(const signals *s) {
    (void)s;
    abort();
}

bool signals_ends(const signals *s, int sig) {
    (void)s, (void)sig;
    abort();
}

void signals_stop(int sig) {
    (void)sig;
    abort();
}

int signals_status(int sig) {
    return STATUS_SIGNAL + sig;
}

tl_err signals_acquire(signals *s, tl_lock *lock, int64_t wait_ms, int *ret_signal, tl_error *err) {
    (void)s, (void)lock, (void)wait_ms, (void)ret_signal, (void)err;
    abort();
}

void sim_tool_interrupt(sim_world *w, sim_tool *t) {
    sim_fd *d = t->run && t->fd >= 0 ? sim_fd_at(t->host, t->fd) : NULL;
    if (!d || t->signal)
        return;
    sim_tell(w, t->who, SIM_ALL, "is interrupted");
    w->stats.tool_interrupted++;
    t->signal = SIGINT;
    d->posted = true;
    sim_fd_changed(w, t->host, t->fd);
}

#ifdef TL_COMPAT
static void interrupt(sim_world *w, void *who, uint32_t run) {
    sim_tool *t = who;
    if (t->run == run)
        sim_tool_interrupt(w, t);
}
#endif

/* ---- what it says ------------------------------------------------------------------------------------ */

/* Why it has not done what it was told. */
static void count_words(sim_stats *s, const char *line) {
    const struct {
        const char *words;
        int64_t *count;
    } all[] = {
        {"another operator was faster", &s->steps_raced},
        {", from where it leads to ", &s->tool_stale},
        {"a client has registered meanwhile", &s->steps_early},
        {"reached the server too late", &s->steps_late},
        {"another server replies than before", &s->steps_elsewhere},
        {"the watch begins again", &s->seen_anew},
        {"the connection was lost; begin again", &s->seen_anew},
        {"changed, so don't repeat it", &s->unconfirmed},
        {"replicas have the present epoch", &s->unconfirmed},
        {"of a legacy client on", &s->tool_named},
        {"it is not known on which keys", &s->tool_doubts},
        {"MONITOR was not read throughout", &s->tool_doubts},
        {"without a sidecar: a legacy client", &s->tool_strays},
        {"that don't follow the phase", &s->tool_strangers},
        {"not confirmed epoch", &s->tool_behind},
        {"Java may not start yet", &s->tool_java_waits},
        {": waiting, for ", &s->tool_waits},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i].count += strstr(line, all[i].words) != NULL;
}

void say_line(const char *line, size_t len) {
    const sim_tool *t = present();
    sim_world *w = sim_the_world;
    char text[256];
    (void)sim_enter();
    (void)snprintf(text, sizeof text, "%.*s", (int)(len > 0 ? len - 1 : 0), line);
    count_words(&w->stats, text);
    sim_tell(w, t ? t->who : "", SIM_ALL, "%s", text);
    sim_leave();
}

/* Without the thread that writes for the real ones. */
void say_if_free(const char *format, ...) {
    char line[SAY_LINE_SIZE];
    va_list args;
    va_start(args, format);
    size_t len = say_format(line, format, args);
    va_end(args);
    say_line(line, len);
}

void say_drain(int ms) {
    (void)ms;
}

static void print(sim_tool *t, const char *from, size_t n) {
    size_t room = SIM_TOOL_OUT - 1 - t->out_n;
    size_t k = n < room ? n : room;
    memcpy(t->out + t->out_n, from, k);
    t->out_n += k;
    t->out[t->out_n] = '\0';
}

static ssize_t printed(void *cookie, const char *from, size_t n) {
    (void)cookie;
    if (present())
        print(present(), from, n);
    return (ssize_t)n;
}

/* To a descriptor of the system's. */
int __wrap_js_line(json_t *value, int fd) {
    if (!present())
        return __real_js_line(value, fd);
    char *text = js_dump(value);
    print(present(), text, strlen(text));
    free(text);
    return 0;
}

static FILE *former;

void sim_tool_begin(const sim_world *w) {
    static FILE *stream;
    if (!w->cfg.tool)
        return;
    if (!stream) {
        tzset(); /* what the system's library keeps of it isn't a process's of ours */
        stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = printed});
        if (!stream)
            abort();
        (void)setvbuf(stream, NULL, _IONBF, 0);
    }
    former = stdout;
    stdout = stream;
}

void sim_tool_end(const sim_world *w) {
    if (w->cfg.tool)
        stdout = former;
}

/* ---- a run ------------------------------------------------------------------------------------------- */

#ifdef TL_COMPAT

/* As tools/main.c calls it. */
static int call(const char *url, int argc, char **argv) {
    char where[64];
    (void)snprintf(where, sizeof where, "%s", url);
    server s = {.url = where};
    operands args;
    void *options = malloc(migrate_row.size);
    memcpy(options, migrate_row.defaults, migrate_row.size);
    opt_tables tables = {.who = migrate_row.name, .filled = {{migrate_row.options, options}}};
    int status = opt_parse(&tables, argc, argv, &args);
    if (status == 0)
        status = migrate_row.function(&s, options, &args);
    free(options);
    return status;
}

static void tell_call(sim_world *w, const sim_tool *t, char **words) {
    char text[200] = "";
    for (size_t n = 0; *words && n < sizeof text; words++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", *words);
    sim_say(w, t->who, SIM_ALL, "tidelock migrate%s", text);
}

int sim_tool_migrate(sim_world *w, sim_tool *t, const char *url, char **words) {
    sim_thread *me = w->thread;
    int argc = 0;
    while (words[argc])
        argc++;
    if (!t->out)
        t->out = sim_get(w, SIM_TOOL_OUT);
    t->out[0] = '\0';
    t->out_n = 0;
    t->run = (uint32_t)++w->migration.runs;
    t->host = me->host;
    t->fd = -1;
    t->signal = 0;
    t->counts = t->monitor = (sim_tool_look){0};
    if (t->patience != SIM_NEVER)
        sim_put(w, w->now + t->patience, SIM_RANK_ACTOR, interrupt, t, t->run);
    if (w->telling)
        tell_call(w, t, words);
    me->tool = t;
    sim_leave();
    int status = call(url, argc, words);
    (void)sim_enter();
    me->tool = NULL;
    t->run = 0;
    w->stats.tool_runs++;
    sim_tell(w, t->who, SIM_ALL, "it ends with %d: %.150s", status, t->out);
    return status;
}

/* ---- what it must have seen -------------------------------------------------------------------------- */

static bool is_word(tl_bytes a, const char *word) {
    return tl__bytes_eq(a, tl__bytes_of(word));
}

static bool is_legacy(const sim_world *w, const sim_request *m) {
    int key = m->argc > 1 ? sim_key_named(w, m->argv[1]) : -1;
    return key >= 0 && !sim_phase_is_outside(w, key) &&
           (is_word(m->argv[0], "SETNX") || is_word(m->argv[0], "GETSET"));
}

/* The process that has asked, if it is there. */
static sim_tool *asker(const sim_request *m) {
    sim_tool *t = m->socket->tool;
    return t && m->socket->tool_run == t->run ? t : NULL;
}

/* What the server refuses isn't counted there: its memory is full, or that is the operator's will. */
void sim_tool_heard(sim_world *w, const sim_request *m, const tl_reply *reply) {
    sim_tool *t = asker(m);
    if (is_legacy(w, m) && reply && reply->type != TL_REPLY_ERROR)
        w->migration.legacy_shown = w->now;
    bool hears = t && m->socket->fd >= 0 && reply && reply->type != TL_REPLY_ERROR;
    if (!hears || m->argc != 2)
        return;
    sim_tool_look look = {w->now, w->migration.legacy_shown};
    if (is_word(m->argv[0], "INFO") && is_word(m->argv[1], "commandstats")) {
        t->counts = look;
        t->monitor = (sim_tool_look){0};
    } else if (is_word(m->argv[0], "ECHO"))
        t->monitor = look;
}

static bool is_clean(const sim_tool_look *look, sim_ns least) {
    return look->at > 0 && (look->shown == 0 || look->shown <= look->at - least);
}

/* Its watch ends with a look at the counts, or, where an answer with counts was lost or the server has none, with the end of
 * MONITOR, that was read throughout. */
void sim_tool_moved(sim_world *w, const sim_request *m) {
    const sim_tool *t = asker(m);
    sim_ns least = t ? tl__rate_least_ns(t->watch_ms * SIM_MS, w->cfg.drift_ppm) : 0;
    bool by_monitor = least > 0 && !is_clean(&t->counts, least);
    w->stats.tool_by_monitor += by_monitor;
    if (by_monitor && !is_clean(&t->monitor, least))
        sim_fail(w, SIM_ALL, "%s goes to phase 2, though a legacy client was there in its watch",
                 t->who);
    w->stats.tool_unseen += w->cfg.forgets > 0;
}

#else

int sim_tool_migrate(sim_world *w, sim_tool *tool, const char *url, char **words) {
    (void)w, (void)tool, (void)url, (void)words;
    return 0;
}
void sim_tool_heard(sim_world *w, const sim_request *m, const tl_reply *reply) {
    (void)w, (void)m, (void)reply;
}
void sim_tool_moved(sim_world *w, const sim_request *m) {
    (void)w, (void)m;
}

#endif
