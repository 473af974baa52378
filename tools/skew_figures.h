/*
 * How every face shows figures and names: no more digits than are known, no more letters than there is
 * room for. Pure.
 */
#ifndef TIDELOCK_SKEW_FIGURES_H
#define TIDELOCK_SKEW_FIGURES_H

#include "skew_judge.h"

/** Both edges rounded outward to a power of ten that is a tenth of the width at most, so that the last
 *  digit shown is one that is known, and the truth stays inside. An edge stays on its side of `line`:
 *  what is not more than that is not shown as more. ret_decimals: how many of the three digits after the
 *  point are left when thousandths are shown as whole ones. */
tl_interval skew_rounded(tl_interval v, int64_t line, int *ret_decimals);

/** Thousandths as a number with so many decimals (0 to 3), with "+" or the given minus before it. */
#define SKEW_FIGURE_SIZE 40
const char *skew_figure(char buf[SKEW_FIGURE_SIZE], int64_t thousandths, int decimals,
                        const char *minus);

/** Where names that are too long are cut: so many letters of the head and of the tail stay. */
typedef struct {
    int most; /**< letters that a name may have, with `dots` for what is left out */
    int head, tail;
} skew_cut;

/** The cut in the middle that leaves the fewest hosts of one name; of several the one nearest to the
 *  middle. most: 8 at least. */
skew_cut skew_cut_names(const skew_result *r, int most, int dots);

/** The name itself, or its head and tail with `dots` between. */
#define SKEW_SHORT_SIZE (SKEW_NAME_SIZE + 16)
const char *skew_short(char buf[SKEW_SHORT_SIZE], const char *name, skew_cut cut, const char *dots);

#endif
