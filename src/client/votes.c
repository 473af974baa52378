/*
 * Who is the master. It must never call a master sure that fewer than a majority of distinct Sentinels name.
 */
#include "client/votes.h"

#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

/* Of a list of names and values; NULL: it isn't there. */
static const tl_reply *field(const tl_reply *list, const char *name) {
    tl_bytes text, wanted = tl__bytes_of(name);
    for (size_t i = 0; list->type == TL_REPLY_ARRAY && i + 1 < list->count; i += 2)
        if (tl__reply_text(&list->items[i], &text) && tl__bytes_eq(text, wanted))
            return &list->items[i + 1];
    return NULL;
}

static bool number(const tl_reply *reply, int64_t most, int64_t *ret) {
    tl_bytes text;
    return reply && tl__reply_text(reply, &text) && tl__bytes_to_int(text, ret) && *ret >= 0 &&
           *ret <= most;
}

static bool read_port(const tl_reply *reply, uint16_t *ret) {
    int64_t port;
    if (!number(reply, UINT16_MAX, &port) || port == 0)
        return false;
    *ret = (uint16_t)port;
    return true;
}

static bool is_no_such_master(const tl_reply *reply) {
    static const char words[] = "No such master";
    return reply->type == TL_REPLY_NIL ||
           (reply->type == TL_REPLY_ERROR &&
            memmem(reply->text.p, reply->text.n, words, sizeof words - 1));
}

bool tl__vote_read(tl_vote *ret, const tl_reply *master, const tl_reply *address, uint64_t run) {
    int64_t others;
    tl_bytes host;
    *ret = (tl_vote){.run = run};
    if (is_no_such_master(address) || is_no_such_master(master)) {
        ret->kind = TL_VOTE_UNKNOWN;
        return true;
    }
    if (!number(field(master, "config-epoch"), INT64_MAX, &ret->epoch) ||
        !number(field(master, "num-other-sentinels"), INT32_MAX - 1, &others) ||
        !tl__reply_text(tl__reply_item(address, 0), &host) ||
        !read_port(tl__reply_item(address, 1), &ret->port) || host.n == 0 ||
        host.n >= sizeof ret->host || memchr(host.p, '\0', host.n))
        return false;
    memcpy(ret->host, host.p, host.n);
    ret->others = (int32_t)others;
    ret->kind = TL_VOTE_NAMED;
    return true;
}

bool tl__vote_other(const tl_reply *item, tl_bytes *ret_host, uint16_t *ret_port) {
    const tl_reply *host = field(item, "ip"), *port = field(item, "port");
    return host && port && tl__reply_text(host, ret_host) && read_port(port, ret_port);
}

/* ---- judging --------------------------------------------------------------------------------- */

/* The same Sentinel, by another of its addresses, has answered already. */
static bool is_counted(const tl_vote *votes, unsigned i) {
    for (unsigned k = 0; k < i; k++)
        if (votes[k].kind != TL_VOTE_NONE && votes[k].run != 0 && votes[k].run == votes[i].run)
            return true;
    return false;
}

static bool names(const tl_vote *vote, const tl_vote *master) {
    return vote->kind == TL_VOTE_NAMED && vote->port == master->port &&
           strcmp(vote->host, master->host) == 0;
}

static unsigned count_named(const tl_vote *votes, unsigned n, const tl_vote *master) {
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++)
        count += names(&votes[i], master) && !is_counted(votes, i);
    return count;
}

/* The latest; of several in one epoch the one that most of them name. */
static const tl_vote *latest(const tl_vote *votes, unsigned n) {
    const tl_vote *best = NULL;
    for (unsigned i = 0; i < n; i++) {
        const tl_vote *v = &votes[i];
        if (v->kind == TL_VOTE_NAMED &&
            (!best || v->epoch > best->epoch ||
             (v->epoch == best->epoch && count_named(votes, n, v) > count_named(votes, n, best))))
            best = v;
    }
    return best;
}

tl_verdict tl__votes_judge(const tl_vote *votes, unsigned count, unsigned seeds) {
    tl_verdict v = {0};
    unsigned doubles = 0;
    for (unsigned i = 0; i < count; i++) {
        bool answered = votes[i].kind != TL_VOTE_NONE, again = answered && is_counted(votes, i);
        unsigned knows = votes[i].kind == TL_VOTE_NAMED ? (unsigned)votes[i].others + 1 : 0;
        doubles += again;
        v.answered += answered && !again;
        v.unknown += votes[i].kind == TL_VOTE_UNKNOWN && !again;
        v.total = knows > v.total ? knows : v.total;
    }
    seeds -= doubles < seeds ? doubles : seeds;
    v.total = seeds > v.total ? seeds : v.total;
    v.total = v.answered > v.total ? v.answered : v.total;
    v.majority = v.total / 2 + 1;
    v.master = v.answered >= v.majority ? latest(votes, count) : NULL;
    v.sure = v.master && count_named(votes, count, v.master) >= v.majority;
    return v;
}
