/*
 * Messages: what a request says, kept until it has been executed and answered, and the reply.
 */
#include "world.h"

#include <stdlib.h>

sim_msg *sim_msg_new(sim_world *w) {
    sim_msg *m = w->spare_msg;
    if (m)
        w->spare_msg = m->next;
    else
        m = sim_get(w, sizeof *m);
    m->next = NULL;
    m->who = NULL;
    m->count = 0;
    m->refs = 1;
    m->unsent = true;
    m->given_up = m->by_text = m->effect = false;
    m->sent = (tl_mono){0};
    m->token = 0;
    m->pin = NULL;
    m->session = NULL;
    m->never_after = SIM_NEVER;
    m->lease = (sim_lease){0};
    m->used = m->nodes = 0;
    return m;
}

void sim_msg_let_go(sim_world *w, sim_msg *m) {
    if (--m->refs > 0)
        return;
    sim_session_leave(&m->session);
    m->next = w->spare_msg;
    w->spare_msg = m;
}

static tl_bytes keep(sim_msg *m, tl_bytes b) {
    if (m->used + b.n > SIM_TEXT)
        abort();
    char *to = m->text + m->used;
    memcpy(to, b.p, b.n);
    m->used += (uint32_t)b.n;
    return tl__bytes(to, b.n);
}

void sim_msg_write(sim_msg *m, const tl_send *send) {
    m->ticket = send->ticket;
    m->by = send->by;
    m->count = send->count;
    m->pin = send->pin;
    for (int i = 0; i < send->count; i++) {
        const tl_command *c = &send->command[i];
        sim_order *o = &m->order[i];
        o->is_script = c->form == TL_SCRIPT;
        o->script = c->script;
        o->nkeys = c->nkeys;
        o->argc = c->argc;
        for (int k = 0; k < c->argc; k++)
            o->argv[k] = keep(m, c->argv[k]);
    }
}

static void copy(sim_msg *m, tl_reply *to, const tl_reply *from) {
    *to = *from;
    if (from->type == TL_REPLY_STRING || from->type == TL_REPLY_STATUS ||
        from->type == TL_REPLY_ERROR)
        to->text = keep(m, from->text);
    if (from->type != TL_REPLY_ARRAY)
        return;
    if (m->nodes + from->count > SIM_NODES)
        abort();
    tl_reply *items = &m->node[m->nodes];
    m->nodes += (uint32_t)from->count;
    to->items = items;
    for (size_t i = 0; i < from->count; i++)
        copy(m, &items[i], &from->items[i]);
}

void sim_msg_answer(sim_msg *m, int i, const tl_reply *reply) {
    copy(m, &m->reply[i], reply);
}

/* ---- sessions ---------------------------------------------------------------------------------- */

void sim_session_join(sim_world *w, sim_msg *m, sim_conn *c) {
    if (!c->session) {
        c->session = sim_get(w, sizeof *c->session);
        c->session->at = fake_redis_connect(w->server[c->server].r, NULL, NULL);
        c->session->refs = 1;
    }
    m->session = c->session;
    m->session->refs++;
}

void sim_session_leave(sim_session **session) {
    sim_session *s = *session;
    *session = NULL;
    if (s && --s->refs == 0)
        fake_conn_close(s->at);
}
