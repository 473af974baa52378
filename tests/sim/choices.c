/*
 * A run is told by its turnings: the choices at which it leaves the usual way. All runs with at most so many are gone through
 * depth first: behind the last turning one more, at each place there is; then the last one elsewhere.
 */
#include "choices.h"

#include <stdio.h>
#include <stdlib.h>

#include "random.h"

#define TURNINGS 32 /* of one run */

typedef struct {
    unsigned at, way, ways;
} turning;

struct sim_choices {
    bool on;
    unsigned most;  /* in a run that is one of all */
    unsigned count; /* choices of this run so far */
    unsigned given; /* turnings that this run is to have */
    unsigned gone;  /* and those that it has had */
    turning turn[TURNINGS], went[TURNINGS];
    unsigned length[TURNINGS + 1]; /* of the run that has only so many of them */
    uint64_t random;               /* for turnings whose way is 0: any */
};

sim_choices *sim_choices_new(void) {
    sim_choices *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    return c;
}

void sim_choices_free(sim_choices *c) {
    free(c);
}

/* ---- which run ----------------------------------------------------------------------------------- */

void sim_choices_all(sim_choices *c, unsigned most) {
    c->most = most < TURNINGS ? most : TURNINGS;
    c->given = 0;
}

bool sim_choices_more(sim_choices *c) {
    unsigned n = c->given, behind = n > 0 ? c->turn[n - 1].at + 1 : 0;
    c->length[n] = c->count;
    if (n < c->most && behind < c->count) {
        c->turn[c->given++] = (turning){.at = behind, .way = 1};
        return true;
    }
    for (; c->given > 0; c->given--) {
        turning *last = &c->turn[c->given - 1];
        if (last->way + 1 < last->ways) {
            last->way++;
            return true;
        }
        if (last->at + 1 < c->length[c->given - 1]) {
            *last = (turning){.at = last->at + 1, .way = 1};
            return true;
        }
    }
    return false;
}

static int by_place(const void *a, const void *b) {
    const turning *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

void sim_choices_draw(sim_choices *c, uint64_t seed, unsigned times) {
    c->random = seed;
    c->given = times < TURNINGS ? times : TURNINGS;
    int64_t last = c->count > 0 ? (int64_t)c->count - 1 : 0;
    for (unsigned i = 0; i < c->given; i++)
        c->turn[i] = (turning){.at = (unsigned)sim_between(&c->random, 0, last)};
    qsort(c->turn, c->given, sizeof *c->turn, by_place);
}

bool sim_choices_read(sim_choices *c, const char *text) {
    int used = 0;
    c->given = 0;
    for (; *text; text += used) {
        turning t = {0};
        if (c->given == TURNINGS || sscanf(text, "%u:%u%n", &t.at, &t.way, &used) != 2)
            return false;
        c->turn[c->given++] = t;
        used += text[used] == ' ';
    }
    return true;
}

/* ---- a run --------------------------------------------------------------------------------------- */

void sim_choices_begin(sim_choices *c) {
    c->on = false;
    c->count = c->gone = 0;
}

void sim_choices_on(sim_choices *c, bool on) {
    c->on = on;
}

/* Of a drawn run two turnings may fall on one place. */
static unsigned turn_off(sim_choices *c, turning *t, unsigned ways) {
    unsigned way = t->way ? t->way : 1 + (unsigned)(sim_random(&c->random) % (ways - 1));
    t->ways = ways;
    if (way >= ways)
        way = ways - 1;
    c->went[c->gone++] = (turning){t->at, way, ways};
    return way;
}

unsigned sim_choices_next(sim_choices *c, unsigned ways) {
    if (!c->on || ways < 2)
        return 0;
    unsigned i = c->count++, given = c->gone;
    while (given < c->given && c->turn[given].at < i)
        given++;
    if (given == c->given || c->turn[given].at != i)
        return 0;
    return turn_off(c, &c->turn[given], ways);
}

/* ---- afterwards ---------------------------------------------------------------------------------- */

unsigned sim_choices_count(const sim_choices *c) {
    return c->count;
}

unsigned sim_choices_turnings(const sim_choices *c) {
    return c->gone;
}

void sim_choices_print(const sim_choices *c, char to[SIM_CHOICES_TEXT]) {
    size_t n = 0;
    to[0] = '\0';
    for (unsigned i = 0; i < c->gone && n + 24 < SIM_CHOICES_TEXT; i++)
        n += (size_t)snprintf(to + n, SIM_CHOICES_TEXT - n, "%s%u:%u", i ? " " : "", c->went[i].at,
                              c->went[i].way);
}
