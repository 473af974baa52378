/*
 * Figures and names as the faces show them. Rounding only ever widens an interval, and never carries an
 * edge over the line that the verdict was made by.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skew_figures.h"

#define END_LEAST 3 /* letters of a name's head, and of its tail, that always stay */

/* ---- figures ------------------------------------------------------------------------------------- */

static int64_t down(int64_t v, int64_t unit) {
    int64_t over = v % unit;
    return over < 0 ? v - over - unit : v - over;
}

static tl_interval outward(tl_interval v, int64_t unit) {
    tl_interval wide = {down(v.lo, unit), -down(-v.hi, unit)};
    return wide;
}

/* Is each edge on the same side of the line as before? */
static bool keeps(tl_interval v, tl_interval rounded, int64_t line) {
    return (v.lo > line) == (rounded.lo > line) && (v.hi > line) == (rounded.hi > line);
}

tl_interval skew_rounded(tl_interval v, int64_t line, int *ret_decimals) {
    int64_t unit = 1;

    *ret_decimals = 3;
    if (v.lo < INT64_MIN / 4 || v.hi > INT64_MAX / 4) /* nothing is known */
        return v;
    while (unit <= (v.hi - v.lo) / 100)
        unit *= 10;
    while (unit > 1 && !keeps(v, outward(v, unit), line))
        unit /= 10;
    for (int64_t u = unit; u > 1 && *ret_decimals > 0; u /= 10)
        (*ret_decimals)--;
    return outward(v, unit);
}

const char *skew_figure(char buf[SKEW_FIGURE_SIZE], int64_t thousandths, int decimals,
                        const char *minus) {
    static const unsigned unit[] = {1000, 100, 10, 1};
    unsigned long long a = (unsigned long long)llabs(thousandths);
    const char *sign = thousandths < 0 ? minus : "+";

    if (decimals == 0)
        (void)snprintf(buf, SKEW_FIGURE_SIZE, "%s%llu", sign, a / 1000);
    else
        (void)snprintf(buf, SKEW_FIGURE_SIZE, "%s%llu.%0*llu", sign, a / 1000, decimals,
                       a % 1000 / unit[decimals]);
    return buf;
}

/* ---- names --------------------------------------------------------------------------------------- */

static bool looks_like(const char *a, const char *b, skew_cut cut) {
    size_t n = strlen(a), m = strlen(b), most = (size_t)cut.most;

    if (n <= most || m <= most)
        return strcmp(a, b) == 0;
    return memcmp(a, b, (size_t)cut.head) == 0 &&
           memcmp(a + n - cut.tail, b + m - cut.tail, (size_t)cut.tail) == 0;
}

static int alike(const skew_result *r, skew_cut cut) {
    int n = 0;
    for (int i = 0; i < r->host_count; i++)
        for (int j = i + 1; j < r->host_count; j++)
            n += strcmp(r->hosts[i].name, r->hosts[j].name) != 0 &&
                 looks_like(r->hosts[i].name, r->hosts[j].name, cut);
    return n;
}

skew_cut skew_cut_names(const skew_result *r, int most, int dots) {
    int letters = most - dots, half = (letters + 1) / 2, fewest = -1;
    skew_cut best = {.most = most, .head = half, .tail = letters - half};

    for (int away = 0; away <= half; away++)
        for (int side = 1; side >= -1; side -= 2) {
            skew_cut cut = {.most = most, .head = half + side * away};
            cut.tail = letters - cut.head;
            if (cut.head < END_LEAST || cut.tail < END_LEAST)
                continue;
            int n = alike(r, cut);
            if (fewest < 0 || n < fewest) {
                fewest = n;
                best = cut;
            }
            if (fewest == 0)
                return best;
        }
    return best;
}

const char *skew_short(char buf[SKEW_SHORT_SIZE], const char *name, skew_cut cut,
                       const char *dots) {
    size_t n = strlen(name);

    if (n <= (size_t)cut.most)
        (void)snprintf(buf, SKEW_SHORT_SIZE, "%s", name);
    else
        (void)snprintf(buf, SKEW_SHORT_SIZE, "%.*s%.8s%s", cut.head, name, dots,
                       name + n - cut.tail);
    return buf;
}
