/*
 * Shortening names. They are numbered more often at their ends than in the middle, so that is where
 * the cut is; it moves when two names would become one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skew/show/skew_names.h"
#include "ground/guard.h"

#define CUT ".."
#define WIDTH_LEAST 8

static size_t longest(const skew_result *r) {
    size_t most = 0;
    for (int i = 0; i < r->host_count; i++) {
        size_t n = strlen(r->hosts[i].name);
        most = n > most ? n : most;
    }
    return most;
}

/* An address has no domain. */
static bool is_address(const char *name) {
    const char *last = strrchr(name, '.');
    return strpbrk(name, ":/") || (last && last[1] >= '0' && last[1] <= '9');
}

static bool ends_in(const char *name, const char *suffix) {
    size_t len = strlen(name), n = strlen(suffix);
    return len > n && !is_address(name) && strcmp(name + len - n, suffix) == 0;
}

/* The longest domain that half of the hosts are in at least; NULL: none. */
static const char *common_suffix(const skew_result *r) {
    const char *found = NULL;

    for (int i = 0; i < r->host_count && i <= r->host_count / 2; i++) {
        const char *name = r->hosts[i].name;
        for (const char *dot = strchr(name + 1, '.'); dot && !is_address(name);
             dot = strchr(dot + 1, '.')) {
            int in = 0;
            for (int k = 0; k < r->host_count; k++)
                in += ends_in(r->hosts[k].name, dot);
            if (in > 1 && 2 * in >= r->host_count && (!found || strlen(dot) > strlen(found)))
                found = dot;
        }
    }
    return found;
}

static void shorten(const skew_names *n, int i, char buf[SKEW_NAME_SIZE]) {
    const char *name = n->r->hosts[i].name;
    bool cut = n->suffix && ends_in(name, n->suffix);
    size_t len = strlen(name) - (cut ? strlen(n->suffix) : 0), more = cut ? strlen(CUT) : 0;

    if (n->width == 0 || len + more <= n->width) {
        (void)snprintf(buf, SKEW_NAME_SIZE, "%.*s%s", (int)len, name, cut ? CUT : "");
        return;
    }
    size_t tail = n->width - n->head - strlen(CUT) - more;
    (void)snprintf(buf, SKEW_NAME_SIZE, "%.*s" CUT "%.*s%s", (int)n->head, name, (int)tail,
                   name + len - tail, cut ? CUT : "");
}

typedef struct {
    char shown[SKEW_NAME_SIZE];
    const char *name;
} short_name;

static int by_shown(const void *a, const void *b) {
    return strcmp(((const short_name *)a)->shown, ((const short_name *)b)->shown);
}

static bool are_distinct(const skew_names *n, short_name *all) {
    for (int i = 0; i < n->r->host_count; i++) {
        shorten(n, i, all[i].shown);
        all[i].name = n->r->hosts[i].name;
    }
    qsort(all, (size_t)n->r->host_count, sizeof *all, by_shown);
    for (int i = 1; i < n->r->host_count; i++)
        if (strcmp(all[i].shown, all[i - 1].shown) == 0 &&
            strcmp(all[i].name, all[i - 1].name) != 0)
            return false;
    return true;
}

/* The cut is in the middle, or as near to it as keeps all names apart. */
static bool choose_cut(skew_names *n, short_name *all) {
    size_t room = n->width - strlen(CUT) - (n->suffix ? strlen(CUT) : 0), middle = room / 2;

    for (size_t off = 0; off <= room - middle; off++) {
        n->head = middle + off;
        if (!GUARD(short_names_differ) || are_distinct(n, all))
            return true;
        n->head = middle - off;
        if (off <= middle && are_distinct(n, all))
            return true;
    }
    n->head = middle;
    return false;
}

skew_names skew_names_in(const skew_result *r, int width) {
    skew_names n = {.r = r};

    if (width == 0 || r->host_count == 0 || longest(r) <= (size_t)width)
        return n;
    n.width = width < WIDTH_LEAST ? WIDTH_LEAST : (size_t)width;
    n.suffix = common_suffix(r);
    n.head = (n.width - strlen(CUT)) / 2;
    short_name *all = calloc((size_t)r->host_count, sizeof *all);
    n.alike = !all || !choose_cut(&n, all);
    free(all);
    return n;
}

const char *skew_name_of(const skew_names *n, int i, char buf[SKEW_NAME_SIZE]) {
    char number[16];

    shorten(n, i, buf);
    if (n->alike && strcmp(buf, n->r->hosts[i].name) != 0) {
        size_t digits = (size_t)snprintf(number, sizeof number, "#%d", i + 1), len = strlen(buf);
        (void)snprintf(buf + (len > digits ? len - digits : 0), digits + 1, "%s", number);
    }
    return buf;
}

int skew_names_longest(const skew_names *n, int least) {
    char buf[SKEW_NAME_SIZE];
    int most = least;

    for (int i = 0; i < n->r->host_count; i++) {
        int len = (int)strlen(skew_name_of(n, i, buf));
        most = len > most ? len : most;
    }
    return most;
}
