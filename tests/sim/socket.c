/*
 * src/ground/socket.h in the simulated world: a connection to whoever is master, and the network between. What
 * is sent arrives in order or not at all, at once or in pieces; it may lie in a buffer and be executed long
 * after its connection was closed.
 */
#include "world.h"

#include <errno.h>
#include <stdlib.h>

#include "ground/socket.h"

static void arrived(sim_world *w, void *who, uint32_t n);
static void told(sim_world *w, void *who, uint32_t n);

/* ---- the way ------------------------------------------------------------------------------------- */

static sim_ns way_up(sim_world *w, sim_socket *s) {
    sim_ns at = sim_link_up(w, s->host, &s->fifo_up);
    return s->fifo_up = sim_node_through(w, s, at);
}

static sim_ns way_down(sim_world *w, sim_socket *s) {
    sim_ns at = sim_link_down(w, s->host, &s->fifo_down);
    return s->fifo_down = sim_node_through(w, s, at);
}

/* ---- life ---------------------------------------------------------------------------------------- */

static sim_socket *new_socket(sim_world *w, sim_host *h) {
    sim_socket *s = w->spare_socket;
    if (s) {
        w->spare_socket = s->next;
    } else {
        s = sim_get(w, sizeof *s);
        s->w = w;
        s->all = w->sockets;
        w->sockets = s;
    }
    s->host = h;
    s->boot = h->booted;
    s->refs = 1;
    s->state = SIM_CONNECTING;
    s->dead_up = s->dead_down = s->withheld = s->late = s->dropped = s->listed = s->ended = false;
    s->fifo_up = s->fifo_down = s->blocked = s->closed = 0;
    s->never_after = SIM_NEVER;
    s->multi = s->raw = s->postponed = false;
    s->answered = s->read = s->reported_at = 0;
    s->queued = 0;
    s->up.n = s->input.n = s->out.n = s->down.n = s->in.n = 0;
    return s;
}

void sim_socket_hang_up(sim_socket *s) {
    fake_conn_close(s->session);
    s->session = NULL;
    fake_etcd_close(s->etcd);
    s->etcd = NULL;
}

void sim_socket_let_go(sim_world *w, sim_socket *s) {
    if (--s->refs > 0)
        return;
    sim_socket_hang_up(s);
    s->host = NULL;
    s->next = w->spare_socket;
    w->spare_socket = s;
}

void sim_socket_abandon(sim_world *w, sim_socket *s) {
    s->fd = -1;
    s->dead_up = s->dead_down = true;
    sim_socket_let_go(w, s);
}

/* ---- the end of a connection ----------------------------------------------------------------------- */

static void notice_reset(sim_world *w, void *who, uint32_t tag) {
    sim_socket *s = who;
    (void)tag;
    if (s->fd >= 0) {
        s->state = SIM_BROKEN;
        sim_fd_changed(w, s->host, s->fd);
    }
    sim_socket_let_go(w, s);
}

void sim_socket_reset(sim_world *w, sim_socket *s) {
    s->dead_up = s->dead_down = true;
    if (s->fd < 0)
        return;
    s->refs++;
    sim_put(w, way_down(w, s), SIM_RANK_NET, notice_reset, s, 0);
}

/* In order, behind what is in flight. */
static void closed(sim_world *w, void *who, uint32_t tag) {
    sim_socket *s = who;
    (void)tag;
    if (s->epoch == w->server[s->server].epoch)
        sim_socket_hang_up(s);
    sim_socket_let_go(w, s);
}

static void close_socket(sim_world *w, sim_socket *s) {
    s->fd = -1;
    s->closed = w->now;
    s->late = !s->dropped;
    if (sim_draw(w, 0, 1))
        s->dropped = true;
    s->dead_down = true;
    sim_ns at = s->fifo_up > w->now ? s->fifo_up : w->now;
    sim_put(w, at + sim_link_delay(w, s->host), SIM_RANK_NET, closed, s, 0);
}

/* ---- opening --------------------------------------------------------------------------------------- */

static void decided(sim_world *w, sim_socket *s, bool open) {
    if (s->fd >= 0) {
        s->state = open ? SIM_OPEN : SIM_REFUSED;
        w->stats.refused += !open;
        sim_fd_changed(w, s->host, s->fd);
    }
    sim_socket_let_go(w, s);
}

static void opened(sim_world *w, void *who, uint32_t up) {
    sim_socket *s = who;
    decided(w, s, up && s->epoch == w->server[s->server].epoch);
}

/* To whoever is master, or to the server of that address. An address where nobody answers is silent. */
static void reach_out(sim_world *w, sim_socket *s, const tl_address *to) {
    bool named = sim_is_named(w);
    int node = named ? sim_node_at(w, &to->at) : w->shard[0].master;
    bool silent = named ? sim_node_is_silent(w, node) : w->failing_over;
    const sim_server *server = &w->server[node < SIM_NODES ? node : w->shard[0].master];
    s->server = (uint8_t)(server - w->server);
    s->epoch = server->epoch;
    sim_ns back = way_up(w, s) + sim_link_delay(w, s->host);
    if (back < s->host->cut_down)
        back = s->host->cut_down;
    if (silent)
        return;
    if (server->up)
        sim_server_accept(w, s);
    s->refs++;
    sim_put(w, back, SIM_RANK_NET, opened, s, server->up);
}

int tl__socket_connect(const tl_address *to, int *ret_fd) {
    sim_thread *me = sim_enter();
    sim_world *w = sim_the_world;
    *ret_fd = sim_fd_open(me->host, SIM_SOCKET);
    if (*ret_fd < 0) {
        sim_leave();
        return EMFILE;
    }
    sim_socket *s = new_socket(w, me->host);
    sim_fd_at(me->host, *ret_fd)->socket = s;
    s->fd = *ret_fd;
    s->tool = me->tool;
    s->tool_run = me->tool ? me->tool->run : 0;
    reach_out(w, s, to);
    sim_leave();
    return EINPROGRESS;
}

static sim_socket *socket_at(int fd) {
    const sim_fd *d = sim_fd_at(sim_the_world->thread->host, fd);
    return d ? d->socket : NULL;
}

int tl__socket_connected(int fd) {
    const sim_socket *s = socket_at(fd);
    return !s || s->state == SIM_CONNECTING ? EINPROGRESS
           : s->state == SIM_OPEN           ? 0
           : s->state == SIM_REFUSED        ? ECONNREFUSED
                                            : ECONNRESET;
}

void tl__socket_close(int fd) {
    sim_thread *me = sim_enter();
    sim_socket *s = socket_at(fd);
    sim_fd_close(me->host, fd);
    if (s)
        close_socket(sim_the_world, s);
    sim_leave();
}

void tl__socket_shut(int fd) {
    sim_thread *me = sim_enter();
    sim_socket *s = socket_at(fd);
    if (s) {
        s->state = SIM_BROKEN;
        sim_fd_changed(sim_the_world, me->host, fd);
    }
    sim_leave();
}

/* ---- sending --------------------------------------------------------------------------------------- */

/* What the network does to it: it may vanish with all that follows, or lie about for long. */
static void transmit(sim_world *w, sim_socket *s, const char *from, size_t n) {
    if (sim_roll(w, SIM_RESET)) {
        w->stats.resets++;
        sim_socket_reset(w, s);
        if (sim_draw(w, 0, 1))
            return;
        if (sim_draw(w, 0, 1))
            s->fifo_up = w->now + sim_draw_part(w, 0, 50);
    } else if (sim_roll(w, SIM_LOSE_REQUEST)) {
        s->dead_up = true;
        if (sim_draw(w, 0, 3) == 0)
            sim_socket_reset(w, s);
        w->stats.lost_requests++;
        return;
    } else if (s->dead_up) {
        w->stats.lost_requests++;
        return;
    }
    sim_ns at = way_up(w, s);
    if (sim_roll(w, SIM_STUCK)) {
        w->stats.stuck++;
        at = s->fifo_up += sim_draw_part(w, 0, 300);
    }
    fake_buffer_add(&s->up, from, n);
    s->refs++;
    sim_put(w, at, SIM_RANK_NET, arrived, s, (uint32_t)n);
}

ssize_t tl__socket_send(int fd, const char *from, size_t n) {
    sim_thread *me = sim_enter();
    sim_world *w = sim_the_world;
    (void)me;
    sim_forked_must_not(w);
    sim_thread_may_switch(w, "before it sends");
    sim_socket *s = socket_at(fd);
    if (!s || s->state != SIM_OPEN) {
        errno = s && s->state == SIM_CONNECTING ? EAGAIN : EPIPE;
        sim_leave();
        return -1;
    }
    if (n > 1 && sim_roll(w, SIM_SHORT)) {
        w->stats.shortened++;
        n = (size_t)sim_draw(w, 1, (int64_t)n - 1);
    }
    if (w->cfg.sentinel)
        sim_sentinel_sends(w, s);
    transmit(w, s, from, n);
    sim_thread_may_switch(w, "having sent");
    sim_leave();
    return (ssize_t)n;
}

/* Is it executed at all? What was sent before the client closed may be, long afterwards. */
static bool is_lost(sim_world *w, sim_socket *s) {
    const sim_server *server = &w->server[s->server];
    if (s->epoch != server->epoch || !server->up || (!s->session && !s->etcd) || s->withheld ||
        (s->fd < 0 && s->dropped))
        return true;
    if (w->now > s->never_after) { /* against what is assumed: it and what follows never come */
        w->stats.kept_away++;
        w->calm_all_along = false;
        s->withheld = s->dead_up = s->dead_down = true;
        return true;
    }
    if (s->fd < 0) {
        w->stats.late++;
        sim_tell(w, "", SIM_ALL, "a request of a connection that is closed is executed");
    }
    return false;
}

static void execute(sim_world *w, sim_socket *s) {
    sim_server_execute(w, s);
    sim_sockets_answer(w);
}

static void arrived(sim_world *w, void *who, uint32_t n) {
    sim_socket *s = who;
    if (is_lost(w, s)) {
        fake_buffer_cut(&s->up, n);
        sim_socket_let_go(w, s);
        return;
    }
    sim_ns free_at = w->server[s->server].busy_until;
    if (s->blocked > free_at)
        free_at = s->blocked;
    if (w->now < free_at) {
        sim_put_off(w, free_at, arrived, s, n);
        return;
    }
    fake_buffer_add(&s->input, s->up.p, n);
    fake_buffer_cut(&s->up, n);
    execute(w, s);
    sim_socket_let_go(w, s);
}

void sim_socket_resume(sim_world *w, void *who, uint32_t unused) {
    sim_socket *s = who;
    sim_ns free_at = w->server[s->server].busy_until;
    (void)unused;
    if (!s->postponed)
        return;
    if (w->now < free_at) {
        sim_put_off(w, free_at, sim_socket_resume, s, 0);
        return;
    }
    s->postponed = false;
    if (!is_lost(w, s))
        execute(w, s);
    sim_socket_let_go(w, s);
}

/* ---- answers ----------------------------------------------------------------------------------------- */

static bool is_lost_on_its_way(sim_world *w, sim_socket *s) {
    if (s->fd < 0 || s->dead_down || s->epoch != w->server[s->server].epoch)
        return true;
    if (!sim_roll(w, SIM_LOSE_REPLY))
        return false;
    w->stats.lost_replies++;
    s->dead_down = true;
    if (sim_draw(w, 0, 3) == 0)
        sim_socket_reset(w, s);
    return true;
}

static void leave_server(sim_world *w, void *who, uint32_t n) {
    sim_socket *s = who;
    if (is_lost_on_its_way(w, s)) {
        s->down.n -= n; /* behind what has left before */
        sim_socket_let_go(w, s);
        return;
    }
    sim_put(w, way_down(w, s), SIM_RANK_NET, told, s, n);
}

/* With a WAIT in it the answer comes later, and the server reads no more from this client. */
void sim_sockets_answer(sim_world *w) {
    for (unsigned i = 0; i < w->answer_count; i++) {
        sim_socket *s = w->answers[i];
        uint32_t n = (uint32_t)s->out.n;
        s->listed = false;
        fake_buffer_add(&s->down, s->out.p, n);
        s->out.n = 0;
        if (s->blocked > w->now)
            sim_put(w, s->blocked - 1, SIM_RANK_NET, leave_server, s, n);
        else
            leave_server(w, s, n);
    }
    w->answer_count = 0;
}

static void told(sim_world *w, void *who, uint32_t n) {
    sim_socket *s = who;
    if (s->fd >= 0 && s->state == SIM_OPEN) {
        fake_buffer_add(&s->in, s->down.p, n);
        sim_fd_changed(w, s->host, s->fd);
    }
    fake_buffer_cut(&s->down, n);
    sim_socket_let_go(w, s);
}

ssize_t tl__socket_receive(int fd, char *to, size_t room) {
    (void)sim_enter();
    sim_world *w = sim_the_world;
    sim_thread_may_switch(w, "before it receives");
    sim_socket *s = socket_at(fd);
    size_t n = !s ? 0 : s->in.n < room ? s->in.n : room;
    if (n > 1 && sim_roll(w, SIM_SHORT)) {
        w->stats.shortened++;
        n = (size_t)sim_draw(w, 1, (int64_t)n - 1);
    }
    if (n > 0) {
        memcpy(to, s->in.p, n);
        fake_buffer_cut(&s->in, n);
        s->read += n;
        if (s->reported_at && s->read >= s->reported_at)
            sim_sentinel_read(w, s);
    } else {
        bool open = s && (s->state == SIM_OPEN || s->state == SIM_CONNECTING);
        errno = open ? EAGAIN : ECONNRESET;
    }
    bool ended = n == 0 && s && s->ended && errno == EAGAIN;
    sim_leave();
    return n > 0 ? (ssize_t)n : ended ? 0 : -1;
}
