/*
 * Each key has one message on its way, the take and the release in turn. The replies come in the order of
 * the messages, and all of them have lines that are known in advance.
 */
#include "raw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/keys.h"

#define TOKEN "6f1c2d52-8a0b-4c57-9d3e-%012d"
#define ROOM 65536
#define LINE_MOST 8 /* of a line, what is compared at most */

enum { TAKE, DROP };

/* How the lines of a reply begin. */
typedef struct {
    int n;
    const char *begins[12];
} lines;

static const lines of_take = {
    12,
    {"+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3", "+OK", ":", "*4", "$-1", "$-1", "$-1", "$-1"}};
static const lines of_drop = {1, {":1"}};

typedef struct {
    char *text[2]; /* TAKE, DROP */
    size_t n[2];
    int next; /* of the two, to be sent */
} slot;

typedef struct {
    redisContext *c;
    int depth, on_way, first, line; /* first: whose reply is awaited, of `order` */
    bool spins;
    const lines *reply[2];
    slot slot[RAW_MOST];
    slot *order[RAW_MOST]; /* a ring */
    size_t begun, queued;  /* bytes of the line that has begun; of what is to be sent */
    char line_text[LINE_MOST], *to_send;
} raw;

/* ---- messages -------------------------------------------------------------------------------- */

static void add(slot *s, int which, char *text, int n) {
    char *all = n < 0 ? NULL : realloc(s->text[which], s->n[which] + (size_t)n);
    if (!all)
        die("raw: no command");
    memcpy(all + s->n[which], text, (size_t)n);
    redisFreeCommand(text);
    s->text[which] = all;
    s->n[which] += (size_t)n;
}

#define ADD(s, which, ...)                                                                         \
    do {                                                                                           \
        char *text_ = NULL;                                                                        \
        int n_ = redisFormatCommand(&text_, __VA_ARGS__);                                          \
        add(s, which, text_, n_);                                                                  \
    } while (0)

void raw_load(redisContext *c, tl_script script) {
    tl_bytes text = tl__script_text(script);
    redisReply *reply = redisCommand(c, "SCRIPT LOAD %b", text.p, text.n);
    if (!reply || reply->type != REDIS_REPLY_STRING)
        die("SCRIPT LOAD: %s", reply ? reply->str : c->errstr);
    freeReplyObject(reply);
}

static void make(slot *s, int number) {
    char key[32], token[40], counter[TL_COUNTER_SIZE];
    char line[sizeof key + TL_SIDECAR_EXTRA + TL_LINE_EXTRA];
    tl_bytes k = {key, (size_t)snprintf(key, sizeof key, "bench:raw:%d", number)};
    bool same;
    tl_bytes beside = tl__sidecar(line, k, &same), waits = tl__line(line, beside);
    tl_slot_tag tag = tl__slot_tag(tl__hash_slot(k));
    tl_bytes counts = tl__counter(counter, &tag);
    tl_bytes sha1 = tl__script_sha1(TL_SCRIPT_RELEASE);
    (void)snprintf(token, sizeof token, TOKEN, number);
    ADD(s, TAKE, "MULTI");
    ADD(s, TAKE, "SET %s %s NX PX 30000", key, token);
    ADD(s, TAKE, "INCR %b", counts.p, counts.n);
    ADD(s, TAKE, "HMGET %b token until fence line", beside.p, beside.n);
    ADD(s, TAKE, "EXEC");
    ADD(s, DROP, "EVALSHA %b 4 %s %b %b %b %s 62000", sha1.p, sha1.n, key, beside.p, beside.n,
        counts.p, counts.n, waits.p, waits.n, token);
}

void *raw_open(void *how) {
    const in_flight *f = how;
    raw *w = calloc(1, sizeof *w);
    size_t most = 1;
    if (!w)
        die("out of memory");
    w->c = bench_connect();
    w->depth = f->depth;
    w->spins = f->r == CROSS || f->r == FREE;
    w->reply[TAKE] = &of_take;
    w->reply[DROP] = &of_drop;
    raw_load(w->c, TL_SCRIPT_RELEASE);
    for (int i = 0; i < f->depth; i++) {
        make(&w->slot[i], i);
        most += w->slot[i].n[TAKE] > w->slot[i].n[DROP] ? w->slot[i].n[TAKE] : w->slot[i].n[DROP];
    }
    w->to_send = malloc(most);
    if (!w->to_send)
        die("out of memory");
    return w;
}

/* ---- sending and reading --------------------------------------------------------------------- */

static void queue(raw *w, slot *s) {
    memcpy(w->to_send + w->queued, s->text[s->next], s->n[s->next]);
    w->queued += s->n[s->next];
    w->order[(w->first + w->on_way++) % RAW_MOST] = s;
}

static void flush(raw *w) {
    for (size_t sent = 0; sent < w->queued;) {
        ssize_t n = send(w->c->fd, w->to_send + sent, w->queued - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            die("raw: %s", strerror(errno));
        sent += n > 0 ? (size_t)n : 0;
    }
    w->queued = 0;
}

static size_t receive(const raw *w, char *to) {
    for (;;) {
        ssize_t n = recv(w->c->fd, to, ROOM, w->spins ? MSG_DONTWAIT : 0);
        if (n > 0)
            return (size_t)n;
        if (n == 0 || (errno != EINTR && !(w->spins && errno == EAGAIN)))
            die("raw: %s", n == 0 ? "the server has gone" : strerror(errno));
    }
}

/* A line has come to its end. Returns whose reply is whole with it, or NULL. */
static slot *end_line(raw *w) {
    slot *s = w->order[w->first];
    const lines *l = w->reply[s->next];
    if (strncmp(w->line_text, l->begins[w->line], strlen(l->begins[w->line])) != 0)
        die("raw: '%s' instead of '%s'", w->line_text, l->begins[w->line]);
    w->begun = 0;
    if (++w->line < l->n)
        return NULL;
    w->line = 0;
    w->first = (w->first + 1) % RAW_MOST;
    w->on_way--;
    return s;
}

/* Returns how many pairs are done with these bytes; each that isn't over goes on. */
static uint64_t read_replies(raw *w, const char *bytes, size_t n, bool over) {
    uint64_t done = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            if (w->begun < LINE_MOST - 1) {
                w->line_text[w->begun++] = bytes[i];
                w->line_text[w->begun] = '\0';
            }
            continue;
        }
        slot *s = end_line(w);
        if (!s)
            continue;
        done += s->next == DROP;
        s->next = !s->next;
        if (!over || s->next == DROP)
            queue(w, s);
    }
    return done;
}

uint64_t raw_run(void *ctx, int64_t until_ns, meter *m) {
    raw *w = ctx;
    uint64_t done = 0;
    char bytes[ROOM];
    (void)m;
    for (int i = 0; i < w->depth; i++)
        queue(w, &w->slot[i]);
    for (flush(w); w->on_way > 0; flush(w)) {
        size_t n = receive(w, bytes);
        done += read_replies(w, bytes, n, now_ns() >= until_ns);
    }
    return done;
}
