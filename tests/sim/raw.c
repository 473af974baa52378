/*
 * A connection of programs that aren't tidelock's: they ask one thing at a time and wait for the answer. In a cluster they
 * go where a node sends them, as each of its clients does.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#include "ground/socket.h"
#include "ground/wait.h"
#include "wire/command.h"

#define TEXT_SIZE 20000 /* of a script, too */
#define HOPS_MAX 5      /* redirections that are followed */

void sim_raw_close(sim_raw *raw) {
    if (raw->fd >= 0)
        tl__socket_close(raw->fd);
    raw->fd = -1;
}

void sim_raw_end(sim_raw *raw) {
    sim_leave();
    sim_raw_close(raw);
    tl__resp_free(raw->resp);
    (void)sim_enter();
    raw->resp = NULL;
}

/* The socket may be closed by now. */
static void hurry(sim_world *w, const sim_raw *raw) {
    sim_fd *d = sim_fd_at(w->thread->host, raw->fd);
    if (!d)
        return;
    d->socket->never_after = raw->never_after;
    d->socket->raw = true;
}

static bool await(const sim_raw *raw, short events, tl_mono by) {
    struct pollfd p = {.fd = raw->fd, .events = events};
    while (!p.revents && tl__mono_before(tl__mono_now(), by))
        tl__wait(&p, 1, by);
    return p.revents != 0;
}

/* Of a cluster's node; else of whoever is the master. */
static tl_address place_of(const sim_raw *raw) {
    tl_address to = {.size = sizeof(struct sockaddr_in)};
    struct sockaddr_in *at = (struct sockaddr_in *)&to.at;
    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(0x0a000001U + raw->node);
    return sim_the_world->cfg.fleet ? to : (tl_address){0};
}

static bool open_raw(sim_raw *raw, tl_mono by) {
    const tl_address to = place_of(raw);
    const sim_fd *d = raw->fd >= 0 ? sim_fd_at(sim_the_world->thread->host, raw->fd) : NULL;
    if (d && d->socket->state == SIM_OPEN)
        return true;
    sim_raw_close(raw); /* it was lost meanwhile */
    raw->opened++;
    (void)tl__socket_connect(&to, &raw->fd);
    if (raw->fd >= 0 && await(raw, POLLOUT, by) && tl__socket_connected(raw->fd) == 0)
        return tl__resp_reset(raw->resp);
    sim_raw_close(raw);
    return false;
}

static bool send_all(sim_raw *raw, const char *text, size_t n, tl_mono by) {
    while (n > 0) {
        ssize_t k = await(raw, POLLOUT, by) ? tl__socket_send(raw->fd, text, n) : -1;
        if (k < 0)
            return false;
        raw->maybe = true;
        text += k;
        n -= (size_t)k;
    }
    return true;
}

static bool read_replies(sim_raw *raw, unsigned count, tl_mono by) {
    char bytes[1024];
    unsigned n = 0;
    while (n < count) {
        int got = tl__resp_next(raw->resp, &raw->reply[n]);
        n += got > 0;
        if (got > 0)
            continue;
        ssize_t k = got == 0 && await(raw, POLLIN, by)
                        ? tl__socket_receive(raw->fd, bytes, sizeof bytes)
                        : -1;
        if (k <= 0)
            return false;
        tl__resp_feed(raw->resp, bytes, (size_t)k);
    }
    return true;
}

static bool says_readonly(const sim_raw *raw, unsigned count) {
    bool says = false;
    for (unsigned i = 0; i < count; i++)
        says = says || (raw->reply[i].type == TL_REPLY_ERROR && raw->reply[i].text.n > 9 &&
                        memcmp(raw->reply[i].text.p, "READONLY ", 9) == 0);
    return says;
}

/* "MOVED 866 10.0.0.3:6379", "ASK ..." */
static bool is_led_on(sim_raw *raw, const tl_reply *said, bool *ret_asking) {
    char text[64];
    if (said->type != TL_REPLY_ERROR || said->text.n >= sizeof text)
        return false;
    memcpy(text, said->text.p, said->text.n);
    text[said->text.n] = '\0';
    const char *at = strstr(text, " 10.0.0.");
    *ret_asking = strncmp(text, "ASK ", 4) == 0;
    if (!at || (!*ret_asking && strncmp(text, "MOVED ", 6) != 0))
        return false;
    raw->node = (uint8_t)(strtol(at + 8, NULL, 10) - 1);
    return true;
}

static bool exchange(sim_world *w, sim_raw *raw, const tl_command *commands, unsigned count,
                     tl_mono by) {
    char text[TEXT_SIZE];
    size_t n = 0;
    tl__resp_release(raw->resp);
    for (unsigned i = 0; i < count; i++)
        n += tl__command_encode(&commands[i], raw->by_text, text + n, sizeof text - n);
    bool ok = n <= sizeof text && open_raw(raw, by);
    if (ok)
        hurry(w, raw);
    ok = ok && send_all(raw, text, n, by) && read_replies(raw, count, by);
    if (!ok)
        sim_raw_close(raw);
    return ok;
}

/* The connection is anew to where it was led; when that node isn't there the next is asked first. */
static bool exchange_with_cluster(sim_world *w, sim_raw *raw, const tl_command *command,
                                  tl_mono by) {
    tl_command both[2] = {{.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("ASKING")}}, *command};
    bool asking = false, ok = true;
    for (unsigned hops = 0; ok && hops < HOPS_MAX; hops++) {
        uint8_t node = raw->node;
        bool asks = asking;
        ok = exchange(w, raw, asks ? both : both + 1, asks ? 2 : 1, by);
        if (ok && asks)
            raw->reply[0] = raw->reply[1];
        if (ok && !is_led_on(raw, &raw->reply[0], &asking))
            return true;
        if (raw->node != node)
            sim_raw_close(raw);
        raw->maybe = raw->maybe && !ok; /* certainly not executed */
    }
    if (!ok)
        raw->node = (uint8_t)((raw->node + 1) % (2 * SIM_SHARDS));
    return false;
}

const tl_reply *sim_raw_ask(sim_world *w, sim_raw *raw, const tl_command *commands, unsigned count,
                            int64_t limit_ms) {
    sim_leave(); /* what a program calls */
    tl_mono now = tl__mono_now(), by = tl__mono_add_ms(now, limit_ms);
    if (!raw->resp)
        raw->resp = tl__resp_new();
    raw->maybe = false;
    if (raw->moved)
        sim_raw_close(raw);
    raw->sent = tl__mono_now();
    bool ok = w->cfg.fleet ? exchange_with_cluster(w, raw, commands, by)
                           : exchange(w, raw, commands, count, by);
    raw->moved = ok && says_readonly(raw, count);
    (void)sim_enter();
    return ok ? raw->reply : NULL;
}
