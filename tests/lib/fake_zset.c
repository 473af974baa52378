/*
 * The fake server's commands on sorted sets: a dictionary of members, and the members in order of
 * score, then of bytes.
 */
#include <math.h>
#include <stdlib.h>

#include "fake_inside.h"

static bool at(fake_conn *c, tl_bytes key, bool to_write, fake_object **ret, tl_reply *out) {
    *ret = to_write ? fake__find_write(c->r, c->db, key) : fake__find(c->r, c->db, key);
    if (*ret && (*ret)->type != FAKE_ZSET) {
        fake__wrong_type(out);
        return false;
    }
    return true;
}

static size_t size_of(const fake_object *object) {
    return object ? object->dict.live : 0;
}

static bool before(const fake_rank *a, double score, tl_bytes member) {
    if (a->score != score) {
        return a->score < score;
    }
    size_t n = a->member.n < member.n ? a->member.n : member.n;
    int order = n ? memcmp(a->member.p, member.p, n) : 0;
    return order ? order < 0 : a->member.n < member.n;
}

/* How many of the first n stand before the score and member. */
static size_t place(const fake_object *object, size_t n, double score, tl_bytes member) {
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (before(&object->rank[middle], score, member)) {
            low = middle + 1;
        } else {
            n = middle;
        }
    }
    return low;
}

static void rank_remove(fake_object *object, size_t n, double score, tl_bytes member) {
    size_t i = place(object, n, score, member);
    memmove(&object->rank[i], &object->rank[i + 1], (n - i - 1) * sizeof(fake_rank));
}

/* `n` members are in the order already. */
static void rank_insert(fake_object *object, size_t n, double score, tl_bytes member) {
    if (n == object->rank_room) {
        object->rank_room = n ? n * 2 : 8;
        object->rank = fake__alloc(object->rank, object->rank_room * sizeof(fake_rank));
    }
    size_t i = place(object, n, score, member);
    memmove(&object->rank[i + 1], &object->rank[i], (n - i) * sizeof(fake_rank));
    object->rank[i] = (fake_rank){score, member};
}

static void member_remove(fake_object *object, fake_entry *entry) {
    rank_remove(object, object->dict.live, entry->v.score, fake__key(entry));
    fake__dict_remove(&object->dict, entry);
}

static void drop_if_empty(fake_conn *c, tl_bytes key, const fake_object *object) {
    if (object->dict.live == 0) {
        fake__remove(c->r, c->db, key);
    }
}

/* ---- ZADD ------------------------------------------------------------------------------------ */

typedef struct {
    bool nx, xx, gt, lt, ch, incr;
} zadd_options;

static size_t zadd_parse(const fake_redis *r, const tl_bytes *argv, size_t argc, zadd_options *o) {
    size_t i = 2;
    for (; i < argc; i++) {
        if (fake__is(argv[i], "nx")) {
            o->nx = true;
        } else if (fake__is(argv[i], "xx")) {
            o->xx = true;
        } else if (fake__is(argv[i], "ch")) {
            o->ch = true;
        } else if (fake__is(argv[i], "incr")) {
            o->incr = true;
        } else if (fake__is(argv[i], "gt") && r->level >= FAKE_LEVEL(6, 2, 0)) {
            o->gt = true;
        } else if (fake__is(argv[i], "lt") && r->level >= FAKE_LEVEL(6, 2, 0)) {
            o->lt = true;
        } else {
            break;
        }
    }
    return i;
}

static bool zadd_check(const tl_bytes *argv, size_t argc, size_t first, const zadd_options *o,
                       double *scores, tl_reply *out) {
    size_t n = argc - first;
    if (n == 0 || n % 2) {
        fake__syntax(out);
    } else if (o->nx && o->xx) {
        fake__error(out, "ERR XX and NX options at the same time are not compatible");
    } else if ((o->gt && o->nx) || (o->lt && o->nx) || (o->gt && o->lt)) {
        fake__error(out, "ERR GT, LT, and/or NX options at the same time are not compatible");
    } else if (o->incr && n > 2) {
        fake__error(out, "ERR INCR option supports a single increment-element pair");
    } else {
        for (size_t i = 0; i < n / 2; i++) {
            if (!fake__to_double(argv[first + 2 * i], &scores[i])) {
                fake__error(out, "ERR value is not a valid float");
                return false;
            }
        }
        return true;
    }
    return false;
}

typedef struct {
    int64_t added, changed;
    bool processed, not_a_number;
    double score;
} zadd_outcome;

static void zadd_one(fake_object *object, const zadd_options *o, double score, tl_bytes member,
                     zadd_outcome *done) {
    fake_entry *entry = fake__dict_find(&object->dict, member);
    if (entry ? o->nx : o->xx) {
        return;
    }
    if (!entry) {
        size_t n = object->dict.live;
        entry = fake__dict_add(&object->dict, member, NULL);
        entry->v.score = score;
        rank_insert(object, n, score, fake__key(entry));
        done->added++;
    } else {
        score += o->incr ? entry->v.score : 0;
        if (isnan(score)) {
            done->not_a_number = true;
            return;
        }
        if ((o->gt && score <= entry->v.score) || (o->lt && score >= entry->v.score)) {
            return;
        }
        if (score != entry->v.score) {
            size_t n = object->dict.live;
            rank_remove(object, n, entry->v.score, member);
            entry->v.score = score;
            rank_insert(object, n - 1, score, fake__key(entry));
            done->changed++;
        }
    }
    done->processed = true;
    done->score = score;
}

FAKE_COMMAND(zadd) {
    zadd_options o = {0};
    zadd_outcome done = {0};
    fake_object *object;
    size_t first = zadd_parse(c->r, argv, argc, &o);
    double *scores = fake__arena_get(&c->arena, argc / 2 * sizeof(double));
    if (!zadd_check(argv, argc, first, &o, scores, out) || !at(c, argv[1], true, &object, out)) {
        return;
    }
    if (!object && !o.xx) {
        object = fake__put(c->r, c->db, argv[1], FAKE_ZSET);
    }
    for (size_t i = 0; object && first + 2 * i < argc; i++) {
        zadd_one(object, &o, scores[i], argv[first + 2 * i + 1], &done);
    }
    if (done.added || done.changed) {
        fake__touched(c->r, c->db, argv[1]);
        fake__event(c->r, FAKE_ON_ZSET, o.incr ? "zincr" : "zadd", c->db, argv[1]);
    }
    if (done.not_a_number) {
        fake__error(out, "ERR resulting score is not a number (NaN)");
    } else if (!o.incr) {
        fake__int(out, done.added + (o.ch ? done.changed : 0));
    } else if (done.processed) {
        fake__double(c, out, done.score);
    } else {
        fake__nil(out);
    }
}

/* ---- taking away ----------------------------------------------------------------------------- */

FAKE_COMMAND(zrem) {
    fake_object *object;
    int64_t n = 0;
    if (!at(c, argv[1], true, &object, out)) {
        return;
    }
    for (size_t i = 2; object && i < argc; i++) {
        fake_entry *entry = fake__dict_find(&object->dict, argv[i]);
        if (entry) {
            member_remove(object, entry);
            n++;
        }
    }
    if (n) {
        fake__touched(c->r, c->db, argv[1]);
        fake__event(c->r, FAKE_ON_ZSET, "zrem", c->db, argv[1]);
        drop_if_empty(c, argv[1], object);
    }
    fake__int(out, n);
}

FAKE_COMMAND(zpopmin) {
    fake_object *object;
    int64_t count = 1;
    if (argc > 3) {
        fake__syntax(out);
        return;
    }
    if (argc == 3 && (!fake__to_int(argv[2], &count) || count < 0)) {
        fake__error(out, "ERR value is out of range, must be positive");
        return;
    }
    if (!at(c, argv[1], true, &object, out)) {
        return;
    }
    size_t n = (uint64_t)count < size_of(object) ? (size_t)count : size_of(object);
    tl_reply *item = fake__array(c, out, 2 * n);
    for (size_t i = 0; i < n; i++) {
        fake_rank least = object->rank[0];
        fake__string(c, item++, least.member);
        fake__double(c, item++, least.score);
        member_remove(object, fake__dict_find(&object->dict, least.member));
    }
    if (n) {
        fake__touched(c->r, c->db, argv[1]);
        fake__event(c->r, FAKE_ON_ZSET, "zpopmin", c->db, argv[1]);
        drop_if_empty(c, argv[1], object);
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

FAKE_COMMAND(zcard) {
    fake_object *object;
    if (at(c, argv[1], false, &object, out)) {
        fake__int(out, (int64_t)size_of(object));
    }
}

FAKE_COMMAND(zscore) {
    fake_object *object;
    if (!at(c, argv[1], false, &object, out)) {
        return;
    }
    const fake_entry *entry = object ? fake__dict_find(&object->dict, argv[2]) : NULL;
    if (entry) {
        fake__double(c, out, entry->v.score);
    } else {
        fake__nil(out);
    }
}

FAKE_COMMAND(zrank) {
    fake_object *object;
    if (!at(c, argv[1], false, &object, out)) {
        return;
    }
    const fake_entry *entry = object ? fake__dict_find(&object->dict, argv[2]) : NULL;
    if (entry) {
        fake__int(out, (int64_t)place(object, object->dict.live, entry->v.score, argv[2]));
    } else {
        fake__nil(out);
    }
}

/* Members first, first + step, … as a reply. */
static void list(fake_conn *c, const fake_object *object, size_t first, int step, size_t n,
                 bool scores, tl_reply *out) {
    tl_reply *item = fake__array(c, out, n * (scores ? 2 : 1));
    for (size_t i = 0; i < n; i++, first += (size_t)step) {
        fake__string(c, item++, object->rank[first].member);
        if (scores) {
            fake__double(c, item++, object->rank[first].score);
        }
    }
}

FAKE_COMMAND(zrange) {
    fake_object *object;
    bool scores = false, reverse = false;
    int64_t start, stop;
    for (size_t i = 4; i < argc; i++) {
        if (fake__is(argv[i], "withscores")) {
            scores = true;
        } else if (fake__is(argv[i], "rev") && c->r->level >= FAKE_LEVEL(6, 2, 0)) {
            reverse = true;
        } else {
            fake__syntax(out);
            return;
        }
    }
    if (!fake__to_int(argv[2], &start) || !fake__to_int(argv[3], &stop)) {
        fake__not_an_integer(out);
        return;
    }
    if (!at(c, argv[1], false, &object, out)) {
        return;
    }
    int64_t size = (int64_t)size_of(object);
    start = start >= 0 ? start : start < -size ? 0 : start + size;
    stop = stop >= 0 ? stop : stop < -size ? -1 : stop + size;
    stop = stop < size ? stop : size - 1;
    size_t n = start > stop ? 0 : (size_t)(stop - start + 1);
    list(c, object, (size_t)(reverse ? size - 1 - start : start), reverse ? -1 : 1, n, scores, out);
}

typedef struct {
    double v;
    bool open;
} bound;

/* Looser than other numbers: strtod's rules, up to a NUL. */
static bool to_bound(tl_bytes text, bound *ret) {
    char copy[256];
    char *end;
    ret->open = text.n && text.p[0] == '(';
    size_t n = text.n - ret->open;
    n = n < sizeof(copy) ? n : sizeof(copy) - 1;
    if (n) {
        memcpy(copy, text.p + ret->open, n);
    }
    copy[n] = '\0';
    ret->v = strtod(copy, &end);
    return *end == '\0' && !isnan(ret->v);
}

typedef struct {
    bound low, high;
} range;

static bool to_range(const tl_bytes *argv, range *ret, tl_reply *out) {
    if (to_bound(argv[2], &ret->low) && to_bound(argv[3], &ret->high)) {
        return true;
    }
    fake__error(out, "ERR min or max is not a float");
    return false;
}

/* How many members are within, and the first of them. */
static size_t within(const fake_object *object, const range *r, size_t *ret_first) {
    size_t size = size_of(object), first = 0;
    while (first < size && (r->low.open ? object->rank[first].score <= r->low.v
                                        : object->rank[first].score < r->low.v)) {
        first++;
    }
    size_t end = first;
    while (end < size && (r->high.open ? object->rank[end].score < r->high.v
                                       : object->rank[end].score <= r->high.v)) {
        end++;
    }
    *ret_first = first;
    return end - first;
}

typedef struct {
    bool scores;
    int64_t offset, limit;
} range_options;

static bool range_parse(const tl_bytes *argv, size_t argc, range_options *o, tl_reply *out) {
    for (size_t i = 4; i < argc; i++) {
        if (fake__is(argv[i], "withscores")) {
            o->scores = true;
        } else if (fake__is(argv[i], "limit") && i + 2 < argc) {
            if (!fake__to_int(argv[i + 1], &o->offset) || !fake__to_int(argv[i + 2], &o->limit)) {
                fake__not_an_integer(out);
                return false;
            }
            i += 2;
        } else {
            fake__syntax(out);
            return false;
        }
    }
    return true;
}

FAKE_COMMAND(zrangebyscore) {
    range_options o = {.limit = -1};
    fake_object *object;
    range r;
    size_t first;
    if (!range_parse(argv, argc, &o, out) || !to_range(argv, &r, out) ||
        !at(c, argv[1], false, &object, out)) {
        return;
    }
    size_t n = within(object, &r, &first);
    size_t skip = o.offset < 0 || (uint64_t)o.offset > n ? n : (size_t)o.offset;
    n -= skip;
    n = o.limit >= 0 && (uint64_t)o.limit < n ? (size_t)o.limit : n;
    list(c, object, first + skip, 1, n, o.scores, out);
}

FAKE_COMMAND(zremrangebyscore) {
    fake_object *object;
    range r;
    size_t first;
    if (!to_range(argv, &r, out) || !at(c, argv[1], true, &object, out)) {
        return;
    }
    size_t n = within(object, &r, &first);
    for (size_t i = 0; i < n; i++) {
        member_remove(object, fake__dict_find(&object->dict, object->rank[first].member));
    }
    if (n) {
        fake__touched(c->r, c->db, argv[1]);
        fake__event(c->r, FAKE_ON_ZSET, "zremrangebyscore", c->db, argv[1]);
        drop_if_empty(c, argv[1], object);
    }
    fake__int(out, (int64_t)n);
}
