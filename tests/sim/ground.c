/*
 * src/ground in the simulated world, but for its threads and sockets: the clocks of the host whose thread asks, its
 * descriptors and who waits for them, names, tokens, randomness.
 */
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ground/names.h"
#include "ground/process.h"
#include "ground/random.h"
#include "ground/token.h"
#include "ground/vmclock.h"
#include "ground/wait.h"

#define FD_FIRST 1000 /* no descriptor of the system's; each host has a thousand */

/* ---- clocks -------------------------------------------------------------------------------------- */

/* Stopped between reading the clock and acting on it. */
static void stop_after_reading(sim_world *w, sim_thread *me) {
    if (w->calm || w->mark == 0 || !sim_chance(&w->random, w->cfg.fault[SIM_STALE] / 8))
        return; /* nor is a forked child, where that would be to wait */
    w->stats.stale++;
    sim_host_pause(me->host, w->now + sim_draw_part(w, 0, sim_draw(w, 0, 3) ? 20 : 200));
    (void)sim_thread_block(w, w->now);
}

tl_mono tl__mono_now(void) {
    sim_thread *me = sim_enter();
    sim_world *w = sim_the_world;
    tl_mono now = me->seen = sim_host_clock(w, me->host);
    if (w->cfg.fault[SIM_STALE])
        stop_after_reading(w, me);
    sim_leave();
    return now;
}

tl_wall tl__wall_now(void) {
    sim_world *w = sim_the_world;
    return (tl_wall){sim_clock_read(&w->thread->host->wall, w->now) / 1000};
}

struct timespec tl__monotonic_in(int64_t ns) {
    (void)ns;
    abort(); /* only the system's conditions need that */
}

/* ---- process, names, randomness -------------------------------------------------------------------- */

tl_process tl__process_this(void) {
    const sim_host *h = sim_the_world->thread->host;
    return (tl_process){.host = {h->name}, .pid = 1, .program = "sim"};
}

const volatile unsigned char *tl__process_mark(void) {
    return &sim_the_world->mark;
}

void tl__process_unmark(const volatile unsigned char *mark) {
    (void)mark;
}

const tl_vmclock *tl__vmclock_open(const char *path, const char **ret_why) {
    (void)path;
    *ret_why = "there is none";
    return sim_the_world->cfg.vmclock ? &sim_the_world->thread->host->page : NULL;
}

void tl__vmclock_close(const tl_vmclock *page) {
    (void)page;
}

tl_vmclock_view tl__vmclock_read(const tl_vmclock *page) {
    return (tl_vmclock_view){
        .marker = page->marker, .generation = page->generation, .flags = page->flags};
}

void tl__random_bytes(void *to, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)to)[i] = (unsigned char)(sim_random(&sim_the_world->random) >> 24);
}

tl_token tl__token_draw(void) {
    tl_token token;
    (void)sim_enter();
    (void)sim_token_new(sim_the_world, sim_the_world->thread->host, &token);
    sim_leave();
    return token;
}

uint64_t tl__random_draw(tl_random *random) {
    (void)random;
    return sim_random(&sim_the_world->random);
}

uint64_t tl__random_seed(void) {
    return sim_random(&sim_the_world->random);
}

static int answer_name(uint32_t address, struct addrinfo **ret) {
    struct {
        struct addrinfo info;
        struct sockaddr_in at;
    } *answer = calloc(1, sizeof *answer);
    if (!answer)
        return EAI_MEMORY;
    answer->at.sin_family = AF_INET;
    answer->at.sin_addr.s_addr = address;
    answer->info.ai_addr = (struct sockaddr *)&answer->at;
    answer->info.ai_addrlen = sizeof answer->at;
    *ret = &answer->info;
    return 0;
}

/* The address is that of whoever is master, or of a Sentinel. */
int tl__names_ask(const char *host, const char *service, const struct addrinfo *hints,
                  struct addrinfo **ret) {
    struct in_addr address;
    bool numeric = inet_pton(AF_INET, host, &address) == 1;
    (void)service;
    if (numeric)
        return answer_name(address.s_addr, ret);
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    sim_world *w = sim_the_world;
    (void)sim_enter();
    bool fails = sim_roll(w, SIM_NO_NAME);
    w->stats.lookups++;
    w->stats.lookups_failed += fails;
    sim_ns takes = w->cfg.delay + (sim_roll(w, SIM_SLOW) ? sim_draw_part(w, 0, 300) : 0);
    sim_sleep(w, takes);
    int way = (int)sim_draw(w, 0, 2);
    sim_leave();
    if (fails)
        return way == 0 ? EAI_NONAME : EAI_AGAIN;
    return answer_name(sim_node_named(host), ret);
}

void tl__names_free(struct addrinfo *list) {
    free(list);
}

/* ---- descriptors ----------------------------------------------------------------------------------- */

static int first_fd(const sim_host *h) {
    return FD_FIRST * (h->id + 1);
}

sim_fd *sim_fd_at(sim_host *h, int fd) {
    int i = fd - first_fd(h);
    if (i < 0 || i >= SIM_FDS || h->fd[i].kind == SIM_CLOSED) {
        sim_fail(h->w, SIM_ALL, "host %c uses descriptor %d, which isn't open", h->name, fd);
        return NULL;
    }
    return &h->fd[i];
}

int sim_fd_open(sim_host *h, int kind) {
    for (int i = 0; i < SIM_FDS; i++) {
        sim_fd *d = &h->fd[i];
        if (d->kind != SIM_CLOSED)
            continue;
        sim_alarm alarm = d->host ? d->alarm : SIM_ALARM; /* the queue may still know it */
        *d = (sim_fd){.kind = kind, .at = TL_NEVER, .alarm = alarm, .host = h};
        h->fds++;
        return first_fd(h) + i;
    }
    errno = EMFILE;
    return -1;
}

void sim_fd_close(sim_host *h, int fd) {
    sim_fd *d = sim_fd_at(h, fd);
    if (!d)
        return;
    if (d->gather)
        sim_fail(h->w, SIM_ALL, "host %c closes descriptor %d, which stands for another", h->name,
                 fd);
    d->kind = SIM_CLOSED;
    d->alarm.at = SIM_NEVER;
    h->fds--;
}

static bool is_readable(sim_host *h, const sim_fd *d) {
    const sim_socket *s = d->socket;
    switch (d->kind) {
    case SIM_TIMER: return !tl__mono_before(sim_host_clock(h->w, h), d->at);
    case SIM_SOCKET:
        return s->in.n > 0 || s->state == SIM_BROKEN || s->state == SIM_REFUSED || s->ended;
    default: return d->posted;
    }
}

static bool has_readable(sim_host *h, int gather) {
    for (int i = 0; i < SIM_FDS; i++)
        if (h->fd[i].kind != SIM_CLOSED && h->fd[i].gather == gather && is_readable(h, &h->fd[i]))
            return true;
    return false;
}

static short events_of(sim_host *h, const struct pollfd *p) {
    const sim_fd *d = p->fd < 0 ? NULL : sim_fd_at(h, p->fd);
    if (!d)
        return 0;
    bool in = d->kind == SIM_GATHER ? has_readable(h, p->fd) : is_readable(h, d);
    bool out = d->kind == SIM_SOCKET && d->socket->state != SIM_CONNECTING;
    return (short)(p->events & ((in ? POLLIN : 0) | (out ? POLLOUT : 0)));
}

static bool has_event(sim_host *h, const struct pollfd *fds, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (events_of(h, &fds[i]))
            return true;
    return false;
}

void sim_fd_changed(sim_world *w, sim_host *h, int fd) {
    const sim_fd *d = sim_fd_at(h, fd);
    if (d && d->gather)
        sim_fd_changed(w, h, d->gather);
    for (sim_thread *t = h->threads; t; t = t->all) {
        bool waits = false;
        for (unsigned i = 0; t->state == SIM_WAITS && i < t->fd_count; i++)
            waits = waits || t->fds[i].fd == fd;
        if (waits && has_event(h, t->fds, t->fd_count))
            sim_thread_ready(w, t);
    }
}

void tl__wait(struct pollfd *fds, unsigned count, tl_mono until) {
    sim_thread *me = sim_enter();
    sim_world *w = sim_the_world;
    sim_host *h = me->host;
    if (me->held > 0)
        sim_fail(w, SIM_ALL, "a thread of host %c polls with a mutex", h->name);
    sim_thread_may_switch(w, "before it polls");
    if (!has_event(h, fds, count) && tl__mono_before(sim_host_clock(w, h), until)) {
        me->fds = fds;
        me->fd_count = count;
        (void)sim_thread_block(w, sim_host_when(w, h, until));
        me->fd_count = 0;
    }
    for (unsigned i = 0; i < count; i++)
        fds[i].revents = events_of(h, &fds[i]);
    sim_leave();
}

static int open_fd(int kind) {
    sim_thread *me = sim_enter();
    int fd = sim_fd_open(me->host, kind);
    sim_leave();
    return fd;
}

int tl__wake_open(void) {
    return open_fd(SIM_WAKE);
}

int tl__timer_open(void) {
    return open_fd(SIM_TIMER);
}

int tl__gather_open(void) {
    return open_fd(SIM_GATHER);
}

bool tl__gather_add(int gather, int fd) {
    sim_thread *me = sim_enter();
    sim_fd *d = sim_fd_at(me->host, fd);
    if (d)
        d->gather = gather;
    sim_fd_changed(sim_the_world, me->host, fd);
    sim_leave();
    return d != NULL;
}

void tl__gather_drop(int gather, int fd) {
    sim_thread *me = sim_enter();
    sim_fd *d = sim_fd_at(me->host, fd);
    if (d && d->gather == gather)
        d->gather = 0;
    else
        sim_fail(me->host->w, SIM_ALL, "host %c drops descriptor %d, which wasn't added",
                 me->host->name, fd);
    sim_leave();
}

void tl__wake_close(int fd) {
    sim_thread *me = sim_enter();
    sim_fd_close(me->host, fd);
    sim_leave();
}

void tl__wake_post(int fd) {
    sim_thread *me = sim_enter();
    sim_fd *d = sim_fd_at(me->host, fd);
    if (d && !d->posted) {
        d->posted = true;
        sim_fd_changed(sim_the_world, me->host, fd);
    }
    sim_leave();
}

/* A clock that is slewed may still be short of it. */
static void timer_due(sim_world *w, void *who, uint32_t tag) {
    sim_fd *d = who;
    (void)tag;
    if (!sim_alarm_due(&w->queue, &d->alarm, w->now, SIM_RANK_TIMER, timer_due, who) ||
        d->kind != SIM_TIMER)
        return;
    sim_host *h = d->host;
    if (tl__mono_before(sim_host_clock(w, h), d->at))
        sim_alarm_set(&w->queue, &d->alarm, sim_host_when(w, h, d->at), SIM_RANK_TIMER, timer_due,
                      d);
    else
        sim_fd_changed(w, h, first_fd(h) + (int)(d - h->fd));
}

void tl__timer_set(int fd, tl_mono at) {
    sim_thread *me = sim_enter();
    sim_world *w = sim_the_world;
    sim_fd *d = sim_fd_at(me->host, fd);
    if (d && d->at.ns != at.ns) {
        d->at = at;
        sim_ns when = sim_host_when(w, me->host, at);
        if (when == SIM_NEVER)
            d->alarm.at = SIM_NEVER;
        else
            sim_alarm_set(&w->queue, &d->alarm, when, SIM_RANK_TIMER, timer_due, d);
        sim_fd_changed(w, me->host, fd);
    }
    sim_leave();
}

void tl__wake_clear(int fd) {
    sim_thread *me = sim_enter();
    sim_fd *d = sim_fd_at(me->host, fd);
    if (d) {
        d->posted = false;
        if (!tl__mono_before(sim_host_clock(sim_the_world, me->host), d->at))
            d->at = TL_NEVER;
    }
    sim_leave();
}

/* ---- the simulator's own waits ------------------------------------------------------------------------ */

void sim_sleep(sim_world *w, sim_ns ns) {
    sim_ns until = w->now + ns;
    while (w->now < until)
        (void)sim_thread_block(w, until);
}

void sim_rest(sim_world *w, sim_ns ns) {
    sim_ns until = w->now + ns;
    sim_thread *me = w->thread;
    w->rests[w->resting++] = me;
    while (w->now < until && !w->calm)
        (void)sim_thread_block(w, until);
    for (int i = 0; i < w->resting; i++)
        if (w->rests[i] == me)
            w->rests[i] = w->rests[--w->resting];
}
