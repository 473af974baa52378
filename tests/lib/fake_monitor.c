/*
 * MONITOR: each command as it is executed, told to who has asked for it. From 7.0 on it is told once it
 * is done, before that when it begins; a script is told before what it does.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_inside.h"

typedef struct {
    fake_text text;
} line;

static void add(line *l, tl_bytes more) {
    if (l->text.n + more.n > l->text.room) {
        l->text.room = (l->text.n + more.n) * 2;
        l->text.p = fake__alloc(l->text.p, l->text.room);
    }
    if (more.n) {
        memcpy(l->text.p + l->text.n, more.p, more.n);
    }
    l->text.n += more.n;
}

static void add_quoted(line *l, tl_bytes word) {
    static const char special[] = "\n\r\t\a\b\\\"", letters[] = "nrtab\\\"";
    add(l, TL_LITERAL(" \""));
    for (size_t i = 0; i < word.n; i++) {
        char text[8] = {word.p[i]};
        const char *at = word.p[i] ? strchr(special, word.p[i]) : NULL;
        if (at) {
            snprintf(text, sizeof(text), "\\%c", letters[at - special]);
        } else if (word.p[i] < ' ' || word.p[i] > '~') {
            snprintf(text, sizeof(text), "\\x%02x", (unsigned)(unsigned char)word.p[i]);
        }
        add(l, tl__bytes_of(text));
    }
    add(l, TL_LITERAL("\""));
}

void fake__monitor_tell(fake_conn *c, const fake_said *said) {
    const fake_redis *r = c->r;
    line l = {0};
    char head[120];
    bool secret = said->row->run == fake__auth && said->argc <= 3; /* more are refused before */
    int n = snprintf(head, sizeof(head), "%lld.%06lld [%d %s]", (long long)(r->now_us / 1000000),
                     (long long)(r->now_us % 1000000), c->db, r->in_script ? "lua" : c->address);
    add(&l, tl__bytes(head, (size_t)n));
    for (size_t i = 0; i < said->argc; i++) {
        add_quoted(&l, secret && i ? TL_LITERAL("(redacted)") : said->argv[i]);
    }
    tl_reply told = {.type = TL_REPLY_STATUS, .text = fake__text(&l.text)};
    for (fake_conn *to = r->conns; to; to = to->next) {
        if (to->monitor && to->calls.push) {
            to->calls.push(to->ctx, &told);
        }
    }
    fake__text_free(&l.text);
}

/* What is never told: the administrator's commands, and before 7.0 passwords. */
bool fake__monitor_shows(const fake_redis *r, const fake_row *row, const tl_bytes *argv) {
    bool kill = row->run == fake__client && fake__is(argv[1], "kill");
    return r->monitors && row->run != fake__config && row->run != fake__monitor && !kill &&
           (row->run != fake__auth || r->level >= FAKE_LEVEL(7, 0, 0));
}

bool fake__monitor_before(const fake_redis *r, const fake_row *row) {
    return row->run == fake__eval || row->run == fake__evalsha ||
           (r->level < FAKE_LEVEL(7, 0, 0) && row->run != fake__exec);
}

FAKE_COMMAND(monitor) {
    c->r->monitors += !c->monitor;
    c->silent = c->monitor;
    c->monitor = true;
    fake__ok(out);
}

void fake__monitor_forget(fake_conn *c) {
    c->r->monitors -= c->monitor;
    c->monitor = false;
}

void fake_conn_set_address(fake_conn *c, const char *address) {
    snprintf(c->address, sizeof(c->address), "%s", address);
}
