/*
 * Who is the master. It must never call a master sure that fewer than a majority of distinct Sentinels name.
 */
#include "client/votes.h"
#include "ground/guard.h"

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

/* Only whether two are the same matters. */
void tl__vote_read_id(tl_vote *vote, const tl_reply *reply) {
    tl_bytes text;
    if (tl__reply_text(reply, &text) && text.n > 0)
        vote->id = tl__bytes_hash(0, text);
}

/* ---- judging --------------------------------------------------------------------------------- */

/* What they are told apart by: that which more of them tell. A run and an id can't be compared. */
typedef struct {
    const tl_vote *votes;
    unsigned count;
    bool by_id;
    bool few; /* there are no more places than Sentinels: all are different */
} ballot;

static uint64_t name_of(const ballot *b, unsigned i) {
    return b->by_id ? b->votes[i].id : b->votes[i].run;
}

static bool has_answered(const ballot *b, unsigned i) {
    return b->votes[i].kind != TL_VOTE_NONE;
}

static unsigned known_by(const tl_vote *vote) {
    return vote->kind == TL_VOTE_NAMED ? (unsigned)vote->others + 1 : 0;
}

static ballot ballot_of(const tl_vote *votes, unsigned count) {
    ballot b = {.votes = votes, .count = count};
    unsigned runs = 0, ids = 0, most = 0;
    bool alone = false;
    for (unsigned i = 0; i < count; i++) {
        runs += has_answered(&b, i) && votes[i].run != 0;
        ids += has_answered(&b, i) && votes[i].id != 0;
        alone = alone || (has_answered(&b, i) && votes[i].alone);
        most = known_by(&votes[i]) > most ? known_by(&votes[i]) : most;
    }
    b.by_id = GUARD(told_apart_by_id) && ids > runs;
    b.few = count == 1 || most == 0 || (count <= most && !alone);
    return b;
}

/* The same Sentinel, by another of its addresses, has answered already. */
static bool is_counted(const ballot *b, unsigned i) {
    for (unsigned k = 0; name_of(b, i) != 0 && k < i; k++)
        if (has_answered(b, k) && name_of(b, k) == name_of(b, i))
            return true;
    return false;
}

/* It may be one that has answered by another of its addresses. */
static bool is_nameless(const ballot *b, unsigned i) {
    return GUARD(nameless_has_no_vote) && name_of(b, i) == 0 && !b->few;
}

static bool counts(const ballot *b, unsigned i) {
    return has_answered(b, i) && !is_nameless(b, i) &&
           (!is_counted(b, i) || !GUARD(each_sentinel_once));
}

static bool names(const tl_vote *vote, const tl_vote *master) {
    return vote->kind == TL_VOTE_NAMED && vote->port == master->port &&
           strcmp(vote->host, master->host) == 0;
}

static unsigned count_named(const ballot *b, const tl_vote *master) {
    unsigned count = 0;
    for (unsigned i = 0; i < b->count; i++)
        count += names(&b->votes[i], master) && counts(b, i);
    return count;
}

/* The latest; of several in one epoch the one that most of them name. */
static const tl_vote *latest(const ballot *b) {
    const tl_vote *best = NULL;
    for (unsigned i = 0; i < b->count; i++) {
        const tl_vote *v = &b->votes[i];
        if (v->kind == TL_VOTE_NAMED &&
            (!best || !GUARD(highest_epoch) || v->epoch > best->epoch ||
             (v->epoch == best->epoch && count_named(b, v) > count_named(b, best))))
            best = v;
    }
    return best;
}

tl_verdict tl__votes_judge(const tl_vote *votes, unsigned count, unsigned seeds, unsigned former) {
    const ballot b = ballot_of(votes, count);
    tl_verdict v = {0};
    unsigned named = seeds;
    for (unsigned i = 0; i < count; i++) {
        named -= i < seeds && has_answered(&b, i) && is_counted(&b, i);
        v.answered += counts(&b, i);
        v.unknown += votes[i].kind == TL_VOTE_UNKNOWN && counts(&b, i);
        v.nameless += has_answered(&b, i) && is_nameless(&b, i);
        v.total = known_by(&votes[i]) > v.total ? known_by(&votes[i]) : v.total;
    }
    v.total = named > v.total ? named : v.total;
    v.total = v.answered > v.total ? v.answered : v.total;
    v.total = GUARD(reset_is_no_majority) && former > v.total && v.answered < former / 2 + 1
                  ? former
                  : v.total;
    v.majority = GUARD(sentinel_majority) ? v.total / 2 + 1 : 1;
    v.master = v.answered >= v.majority ? latest(&b) : NULL;
    v.sure = v.master && count_named(&b, v.master) >= v.majority;
    return v;
}
