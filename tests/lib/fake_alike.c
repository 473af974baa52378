/*
 * Replies of two servers compared, with what may differ: the time that has passed, and the order
 * that Redis does not promise.
 */
#include "fake_alike.h"

static bool near(int64_t a, int64_t b, int64_t tolerance) {
    int64_t low = a < b ? a : b, high = a < b ? b : a;
    return low == high || (low > 50 && high - low <= tolerance);
}

/* Seconds, milliseconds or microseconds since the epoch, as text. */
static bool near_instants(tl_bytes a, tl_bytes b) {
    int64_t x, y;
    if ((a.n != 10 && a.n < 13) || !tl__bytes_to_int(a, &x) || !tl__bytes_to_int(b, &y)) {
        return false;
    }
    if (a.n == 10) {
        return near(x, y, FAKE_ALIKE_LATE_MS / 1000);
    }
    return near(x, y, a.n > 15 ? FAKE_ALIKE_LATE_MS * 1000 : FAKE_ALIKE_LATE_MS);
}

static bool same_int(fake_likeness like, int64_t a, int64_t b) {
    return a == b || (like == FAKE_LIKE_SECONDS && near(a, b, FAKE_ALIKE_LATE_MS / 1000)) ||
           (like == FAKE_LIKE_TIMES && near(a, b, FAKE_ALIKE_LATE_MS));
}

static bool same_group(const fake_alikeness *how, const tl_reply *a, const tl_reply *b, size_t n) {
    size_t i = 0;
    while (i < n && fake_alike(how, &a[i], &b[i])) {
        i++;
    }
    return i == n;
}

/* The same groups of n items, in any order. */
static bool same_groups(const fake_alikeness *how, const tl_reply *a, const tl_reply *b, size_t n) {
    bool used[FAKE_ALIKE_ITEMS_MAX] = {false};
    if (a->count > FAKE_ALIKE_ITEMS_MAX || a->count % n) {
        return false;
    }
    for (size_t i = 0; i < a->count; i += n) {
        size_t j = 0;
        while (j < b->count && (used[j] || !same_group(how, &a->items[i], &b->items[j], n))) {
            j += n;
        }
        if (j >= b->count) {
            return false;
        }
        used[j] = true;
    }
    return true;
}

static bool same_array(const fake_alikeness *how, const tl_reply *a, const tl_reply *b) {
    fake_alikeness item = {.like = how->like};
    if (a->count != b->count) {
        return false;
    }
    if (how->like == FAKE_LIKE_ANY_ORDER || how->like == FAKE_LIKE_ANY_PAIRS) {
        item.like = FAKE_LIKE_TIMES;
        return same_groups(&item, a, b, how->like == FAKE_LIKE_ANY_PAIRS ? 2 : 1);
    }
    for (size_t i = 0; i < a->count; i++) {
        item.like = i < how->count ? how->items[i] : how->like;
        if (!fake_alike(&item, &a->items[i], &b->items[i])) {
            return false;
        }
    }
    return true;
}

bool fake_alike(const fake_alikeness *how, const tl_reply *a, const tl_reply *b) {
    if (a->type != b->type) {
        return false;
    }
    switch (a->type) {
    case TL_REPLY_NIL: break;
    case TL_REPLY_INT: return same_int(how->like, a->integer, b->integer);
    case TL_REPLY_STRING:
        return tl__bytes_eq(a->text, b->text) ||
               (how->like == FAKE_LIKE_TIMES && near_instants(a->text, b->text));
    case TL_REPLY_STATUS: return tl__bytes_eq(a->text, b->text);
    case TL_REPLY_ERROR: return tl__bytes_eq(a->text, b->text);
    case TL_REPLY_ARRAY: return same_array(how, a, b);
    }
    return true;
}
