/*
 * Floor 2: questions that change nothing. What the server holds is data from strangers: it is cut,
 * made printable and never trusted.
 */
#include "ask.h"

enum { REACH = 1, QUESTION };

void tl__ask_init(tl_ask *a, tl_bytes key, tl_bytes sidecar, int64_t attempt_ms,
                  int64_t connect_ms) {
    *a = (tl_ask){.key = key, .sidecar = sidecar, .attempt_ms = attempt_ms};
    a->connect_ms = connect_ms;
    a->info.size = sizeof a->info;
}

static tl_status fail(tl_ask *a, tl_err code, tl_bytes words, tl_out *out) {
    a->result.code = code;
    tl__out_words(out, words);
    return TL_END;
}

static tl_status question(tl_ask *a, const tl_event *e, tl_out *out) {
    tl_mono by = tl__mono_add_ms(e->now, a->attempt_ms);
    a->ticket = QUESTION;
    tl_send *send = tl__out_send(out, QUESTION, by);
    tl_command *c = &send->command[send->count++];
    if (a->key.n == 0) {
        *c = (tl_command){.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("TIME")}};
        return TL_GO;
    }
    *c = (tl_command){.form = TL_SCRIPT, .script = TL_SCRIPT_LOOK, .nkeys = 2, .argc = 2};
    c->argv[0] = a->key;
    c->argv[1] = a->sidecar;
    return TL_GO;
}

static int64_t number(const tl_reply *array, size_t i, int64_t otherwise) {
    int64_t v;
    return tl__reply_int(tl__reply_item(array, i), &v) ? v : otherwise;
}

/* "host pid service" */
static void read_owner(tl_lock_info *info, tl_bytes owner) {
    const char *end = owner.p + owner.n;
    const char *first = memchr(owner.p, ' ', owner.n);
    if (!first)
        return;
    const char *second = memchr(first + 1, ' ', (size_t)(end - first - 1));
    if (!second)
        return;
    tl__bytes_print(info->host, sizeof info->host, tl__bytes(owner.p, (size_t)(first - owner.p)));
    (void)tl__bytes_to_int(tl__bytes(first + 1, (size_t)(second - first - 1)), &info->pid);
    tl__bytes_print(info->service, sizeof info->service,
                    tl__bytes(second + 1, (size_t)(end - second - 1)));
}

static void read_sidecar(tl_lock_info *info, const tl_reply *r, tl_bytes value, int64_t now_us) {
    tl_bytes bound, owner;
    int64_t until = number(r, 4, 0), since = number(r, 6, -1);
    if (!tl__reply_text(tl__reply_item(r, 3), &bound) || bound.n == 0)
        return;
    bool absent = !info->held;
    if (absent ? until < now_us : !tl__bytes_eq(bound, value))
        return;
    info->held = info->by_tidelock = true;
    if (absent) { /* K was deleted, but its holder may still work: nobody is let in before that */
        info->remaining_ms = (until - now_us) / 1000 + 1;
        tl__bytes_print(info->value, sizeof info->value, bound);
    }
    info->since_ms = since >= 0 && since <= now_us ? (now_us - since) / 1000 : -1;
    if (tl__reply_text(tl__reply_item(r, 7), &owner))
        read_owner(info, owner);
}

static tl_status looked(tl_ask *a, const tl_event *e, tl_out *out) {
    const tl_reply *r = e->reply;
    tl_lock_info *info = &a->info;
    tl_bytes kind, value = {"", 0};
    int64_t now_us;
    if (!tl__reply_text(tl__reply_item(r, 0), &kind) || !tl__reply_time(r, 8, &now_us))
        return fail(a, TL_ESERVER, TL_LITERAL("the server's answer makes no sense"), out);
    info->held = !tl__bytes_eq(kind, TL_LITERAL("none"));
    bool is_text = tl__reply_text(tl__reply_item(r, 1), &value);
    tl__bytes_print(info->value, sizeof info->value, is_text || !info->held ? value : kind);
    int64_t left = number(r, 2, -1), fence = number(r, 5, 0);
    info->remaining_ms = left >= 0 ? left : -1;
    info->fence = fence > 0 ? (uint64_t)fence : 0;
    info->since_ms = -1;
    read_sidecar(info, r, value, now_us);
    return TL_END;
}

static tl_status answered(tl_ask *a, const tl_event *e, tl_out *out) {
    if (a->ticket == REACH)
        return question(a, e, out);
    if (e->count < 1)
        return fail(a, TL_ESERVER, TL_LITERAL("the server's answer makes no sense"), out);
    if (e->reply->type == TL_REPLY_ERROR)
        return fail(a, tl__refusal(e->reply->text), e->reply->text, out);
    if (a->key.n > 0) {
        tl__out_time(out, e->reply, 8, e);
        return looked(a, e, out);
    }
    tl__out_time(out, e->reply, 0, e);
    if (!out->has_bracket)
        return fail(a, TL_ESERVER, TL_LITERAL("the server's answer makes no sense"), out);
    return TL_END;
}

tl_status tl__ask_step(void *machine, const tl_event *e, tl_out *out) {
    tl_ask *a = machine;
    switch (e->kind) {
    case TL_START:
        a->ticket = REACH;
        tl__out_send(out, REACH, tl__mono_add_ms(e->now, a->connect_ms));
        return TL_GO;
    case TL_REPLY: return e->ticket == a->ticket ? answered(a, e, out) : TL_GO;
    case TL_FAILED:
        return e->ticket == a->ticket
                   ? fail(a, e->maybe_sent ? TL_EUNAVAILABLE : e->why, e->words, out)
                   : TL_GO;
    case TL_CANCEL: return fail(a, TL_ECANCELLED, TL_LITERAL("cancelled"), out);
    default: return TL_GO;
    }
}
