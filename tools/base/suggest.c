/*
 * The nearest name. In two to four characters one typing error is accepted, in up to eight two, in more three. With more
 * errors than that a suggestion would be a guess.
 */
#include "base/suggest.h"

#include <string.h>

static int least(int a, int b, int c) {
    int d = a < b ? a : b;

    return d < c ? d : c;
}

static size_t length(const char *word) {
    return strnlen(word, SUGGEST_WORD_MAX);
}

int suggest_distance(const char *a, const char *b) {
    /* rows of the matrix: before[j] and above[j] belong to the two characters of a before the present one */
    int before[SUGGEST_WORD_MAX + 1], above[SUGGEST_WORD_MAX + 1], here[SUGGEST_WORD_MAX + 1];
    size_t a_len = length(a), b_len = length(b);

    for (size_t j = 0; j <= b_len; j++)
        before[j] = above[j] = (int)j;
    for (size_t i = 1; i <= a_len; i++) {
        here[0] = (int)i;
        for (size_t j = 1; j <= b_len; j++) {
            here[j] = least(above[j] + 1, here[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                here[j] = least(here[j], before[j - 2] + 1, here[j]);
        }
        memcpy(before, above, (b_len + 1) * sizeof above[0]);
        memcpy(above, here, (b_len + 1) * sizeof here[0]);
    }
    return above[b_len];
}

/* ---- the nearest one --------------------------------------------------------------------------- */

#define PREFIX_MIN 3 /* so many first characters of a name count as one error */

static int errors_accepted(size_t len) {
    if (len < 2 || len >= SUGGEST_WORD_MAX)
        return 0;
    return len <= 4 ? 1 : len <= 8 ? 2 : 3;
}

suggestion suggest_begin(const char *typed) {
    int accepted = errors_accepted(length(typed));

    return (suggestion){.typed = typed, .distance = accepted ? accepted + 1 : 0};
}

void suggest_offer(suggestion *s, const char *name) {
    size_t len = length(s->typed);
    int distance = suggest_distance(s->typed, name);

    if (distance > 1 && len >= PREFIX_MIN && strncmp(s->typed, name, len) == 0)
        distance = 1;
    if (distance >= s->distance)
        return;
    s->distance = distance;
    s->best = name;
}

const char *suggest_synonym(const synonym *table, const char *word) {
    for (; table->word; table++)
        if (strcmp(table->word, word) == 0)
            return table->name;
    return NULL;
}
