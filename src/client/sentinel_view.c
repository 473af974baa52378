/*
 * Which server is the master. A verdict must never be sure unless a majority of distinct
 * Sentinels names that master.
 */
#include "client/sentinel_view.h"
#include "ground/guard.h"

#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

/* The value of a name in a list of names and values; NULL: the list doesn't have it. */
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
    return reply->type == TL_REPLY_NIL ||
           (reply->type == TL_REPLY_ERROR && tl__bytes_has(reply->text, "No such master"));
}

bool tl__sentinel_view_read(tl_sentinel_view *ret, const tl_reply *master, const tl_reply *address,
                            uint64_t run) {
    int64_t others;
    tl_bytes host;
    *ret = (tl_sentinel_view){.run = run};
    if (is_no_such_master(address) || is_no_such_master(master)) {
        ret->kind = TL_VIEW_UNKNOWN;
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
    ret->kind = TL_VIEW_NAMED;
    return true;
}

bool tl__sentinel_view_other(const tl_reply *item, tl_bytes *ret_host, uint16_t *ret_port) {
    const tl_reply *host = field(item, "ip"), *port = field(item, "port");
    return host && port && tl__reply_text(host, ret_host) && read_port(port, ret_port);
}

/* A hash is enough: ids are only compared with each other. */
void tl__sentinel_view_read_id(tl_sentinel_view *view, const tl_reply *reply) {
    tl_bytes text;
    if (tl__reply_text(reply, &text) && text.n > 0)
        view->id = tl__bytes_hash(0, text);
}

/* ---- judging --------------------------------------------------------------------------------- */

/* All views, and the identity that counts: id or run, whichever more Sentinels report. A run can't be
 * compared with an id. */
typedef struct {
    const tl_sentinel_view *views;
    unsigned count;
    bool by_id;
    bool few; /* there are no more addresses than Sentinels: so each is another Sentinel */
} view_set;

static uint64_t name_of(const view_set *set, unsigned i) {
    return set->by_id ? set->views[i].id : set->views[i].run;
}

static bool has_answered(const view_set *set, unsigned i) {
    return set->views[i].kind != TL_VIEW_NONE;
}

static unsigned known_by(const tl_sentinel_view *view) {
    return view->kind == TL_VIEW_NAMED ? (unsigned)view->others + 1 : 0;
}

static view_set set_of(const tl_sentinel_view *views, unsigned count) {
    view_set set = {.views = views, .count = count};
    unsigned runs = 0, ids = 0, most = 0;
    bool alone = false;
    for (unsigned i = 0; i < count; i++) {
        runs += has_answered(&set, i) && views[i].run != 0;
        ids += has_answered(&set, i) && views[i].id != 0;
        alone = alone || (has_answered(&set, i) && views[i].alone);
        most = known_by(&views[i]) > most ? known_by(&views[i]) : most;
    }
    set.by_id = GUARD(told_apart_by_id) && ids > runs;
    set.few = count == 1 || most == 0 || (count <= most && !alone);
    return set;
}

/* Does the same Sentinel count already, by another of its addresses? */
static bool is_counted(const view_set *set, unsigned i) {
    for (unsigned k = 0; name_of(set, i) != 0 && k < i; k++)
        if (has_answered(set, k) && name_of(set, k) == name_of(set, i))
            return true;
    return false;
}

/* Has it no identity, so that it may be one that has answered at another address? */
static bool is_nameless(const view_set *set, unsigned i) {
    return GUARD(nameless_has_no_vote) && name_of(set, i) == 0 && !set->few;
}

static bool counts(const view_set *set, unsigned i) {
    return has_answered(set, i) && !is_nameless(set, i) &&
           (!is_counted(set, i) || !GUARD(each_sentinel_once));
}

static bool names(const tl_sentinel_view *view, const tl_sentinel_view *master) {
    return view->kind == TL_VIEW_NAMED && view->port == master->port &&
           strcmp(view->host, master->host) == 0;
}

static unsigned count_named(const view_set *set, const tl_sentinel_view *master) {
    unsigned count = 0;
    for (unsigned i = 0; i < set->count; i++)
        count += names(&set->views[i], master) && counts(set, i);
    return count;
}

/* The view with the highest epoch; of several in that epoch, the one that most Sentinels name. */
static const tl_sentinel_view *latest(const view_set *set) {
    const tl_sentinel_view *best = NULL;
    for (unsigned i = 0; i < set->count; i++) {
        const tl_sentinel_view *v = &set->views[i];
        if (v->kind == TL_VIEW_NAMED &&
            (!best || !GUARD(highest_epoch) || v->epoch > best->epoch ||
             (v->epoch == best->epoch && count_named(set, v) > count_named(set, best))))
            best = v;
    }
    return best;
}

tl_sentinel_verdict tl__sentinel_views_judge(const tl_sentinel_view *views, unsigned count,
                                             unsigned seeds, unsigned former) {
    const view_set set = set_of(views, count);
    tl_sentinel_verdict v = {0};
    unsigned named = seeds;
    for (unsigned i = 0; i < count; i++) {
        named -= i < seeds && has_answered(&set, i) && is_counted(&set, i);
        v.answered += counts(&set, i);
        v.unknown += views[i].kind == TL_VIEW_UNKNOWN && counts(&set, i);
        v.nameless += has_answered(&set, i) && is_nameless(&set, i);
        v.total = known_by(&views[i]) > v.total ? known_by(&views[i]) : v.total;
    }
    v.total = named > v.total ? named : v.total;
    v.total = v.answered > v.total ? v.answered : v.total;
    v.total = GUARD(reset_is_no_majority) && former > v.total && v.answered < former / 2 + 1
                  ? former
                  : v.total;
    v.majority = GUARD(sentinel_majority) ? v.total / 2 + 1 : 1;
    v.master = v.answered >= v.majority ? latest(&set) : NULL;
    v.sure = v.master && count_named(&set, v.master) >= v.majority;
    return v;
}
