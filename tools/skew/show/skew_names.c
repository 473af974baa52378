/*
 * Shortens names. They have numbers at their ends more often than in the middle, so the cut is in
 * the middle. It moves if two names would become the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skew/show/skew_names.h"
#include "ground/guard.h"

#define CUT ".."
#define WIDTH_LEAST 8

static size_t longest(const skew_result *result) {
    size_t most = 0;
    for (int i = 0; i < result->host_count; i++) {
        size_t n = strlen(result->hosts[i].name);
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

static int from_the_end(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    size_t i = strlen(x), k = strlen(y);

    while (i > 0 && k > 0 && x[i - 1] == y[k - 1]) {
        i--;
        k--;
    }
    return i == 0 || k == 0 ? (i > 0) - (k > 0) : (unsigned char)x[i - 1] - (unsigned char)y[k - 1];
}

/* The longest domain of a name that at least half of the hosts share; NULL: none. */
static const char *shared_of(const skew_result *result, const char *name) {
    for (const char *dot = strchr(name + 1, '.'); dot; dot = strchr(dot + 1, '.')) {
        int in = 0;
        for (int i = 0; i < result->host_count; i++)
            in += ends_in(result->hosts[i].name, dot);
        if (in > 1 && 2 * in >= result->host_count)
            return dot;
    }
    return NULL;
}

/* The longest domain that at least half of the hosts share; NULL: none. Sorted from their ends,
 * names of a domain are neighbours: half of them include one in the middle. */
static const char *common_suffix(const skew_result *result) {
    size_t n = (size_t)result->host_count;
    const char **name = calloc(n + 1, sizeof *name), *found = NULL;

    for (size_t i = 0; name && i < n; i++)
        name[i] = result->hosts[i].name;
    if (name)
        qsort(name, n, sizeof *name, from_the_end);
    for (size_t i = (n - 1) / 2; name && i <= n / 2; i++) {
        const char *shared = shared_of(result, name[i]);
        if (shared && (!found || strlen(shared) > strlen(found)))
            found = shared;
    }
    free(name);
    return found;
}

static void shorten(const skew_names *names, int i, char buf[SKEW_NAME_SIZE]) {
    const char *name = names->result->hosts[i].name;
    bool cut = names->suffix && ends_in(name, names->suffix);
    size_t len = strlen(name) - (cut ? strlen(names->suffix) : 0), more = cut ? strlen(CUT) : 0;

    if (names->width == 0 || len + more <= names->width) {
        (void)snprintf(buf, SKEW_NAME_SIZE, "%.*s%s", (int)len, name, cut ? CUT : "");
        return;
    }
    size_t tail = names->width - names->head - strlen(CUT) - more;
    (void)snprintf(buf, SKEW_NAME_SIZE, "%.*s" CUT "%.*s%s", (int)names->head, name, (int)tail,
                   name + len - tail, cut ? CUT : "");
}

typedef struct {
    char shown[SKEW_NAME_SIZE];
    const char *name;
} short_name;

static int by_shown(const void *a, const void *b) {
    return strcmp(((const short_name *)a)->shown, ((const short_name *)b)->shown);
}

static bool are_distinct(const skew_names *names, short_name *all) {
    for (int i = 0; i < names->result->host_count; i++) {
        shorten(names, i, all[i].shown);
        all[i].name = names->result->hosts[i].name;
    }
    qsort(all, (size_t)names->result->host_count, sizeof *all, by_shown);
    for (int i = 1; i < names->result->host_count; i++)
        if (strcmp(all[i].shown, all[i - 1].shown) == 0 &&
            strcmp(all[i].name, all[i - 1].name) != 0)
            return false;
    return true;
}

/* Chooses a cut in the middle, or as near to it as keeps all names distinct. */
static bool choose_cut(skew_names *names, short_name *all) {
    size_t room = names->width - strlen(CUT) - (names->suffix ? strlen(CUT) : 0), middle = room / 2;

    for (size_t off = 0; off <= room - middle; off++) {
        names->head = middle + off;
        if (!GUARD(short_names_differ) || are_distinct(names, all))
            return true;
        names->head = middle - off;
        if (off <= middle && are_distinct(names, all))
            return true;
    }
    names->head = middle;
    return false;
}

skew_names skew_names_in(const skew_result *result, int width) {
    skew_names names = {.result = result};

    if (width == 0 || result->host_count == 0 || longest(result) <= (size_t)width)
        return names;
    names.width = width < WIDTH_LEAST ? WIDTH_LEAST : (size_t)width;
    names.suffix = common_suffix(result);
    names.head = (names.width - strlen(CUT)) / 2;
    short_name *all = calloc((size_t)result->host_count, sizeof *all);
    names.alike = !all || !choose_cut(&names, all);
    free(all);
    return names;
}

const char *skew_name_of(const skew_names *names, int i, char buf[SKEW_NAME_SIZE]) {
    char number[16];

    shorten(names, i, buf);
    if (names->alike && strcmp(buf, names->result->hosts[i].name) != 0) {
        size_t digits = (size_t)snprintf(number, sizeof number, "#%d", i + 1), len = strlen(buf);
        (void)snprintf(buf + (len > digits ? len - digits : 0), digits + 1, "%s", number);
    }
    return buf;
}

int skew_names_longest(const skew_names *names, int least) {
    char buf[SKEW_NAME_SIZE];
    int most = least;

    for (int i = 0; i < names->result->host_count; i++) {
        int len = (int)strlen(skew_name_of(names, i, buf));
        most = len > most ? len : most;
    }
    return most;
}
