/* What all the models share: time, claims and the story.
 *
 * Time is counted in whole ticks, and every instant is stored as a distance from
 * the present ("ticks left", "ticks ago", a stamp minus the server's clock), so a
 * tick moves all of them by one. Distances saturate where no rule looks at them any
 * more. Hence the state space is finite without a last tick: a claim that holds
 * here holds in runs of any length.
 *
 * `hour` exists for the story alone: it stands still while Spin searches and
 * advances when run.sh replays a trail with -DSTEP=1. No rule reads it.
 */
#ifndef STEP
#define STEP 0
#endif
short hour = 10 * STEP;

#define WHO(i) ('A' + (i))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* Count down to nothing; count up to a ceiling; let a stamp grow old, down to a floor. */
#define DOWN(x) x = ((x) > 0 -> (x) - 1 : 0)
#define UP(x, top) x = ((x) < (top) -> (x) + 1 : (top))
#define AGE(x, bottom) x = ((x) > (bottom) -> (x) - 1 : (bottom))

/* -DONLY=CLAIM checks one claim alone; otherwise all of them are checked. */
#define NONE 99 /* -DONLY=NONE checks no claim */
#ifndef ONLY
#define ONLY 0
#endif
#define claim(which, truth, text) \
    if \
    :: (ONLY == 0 || ONLY == which) && !(truth) -> printf("[%d] !! ", hour); printf(text); printf("\n"); assert(false) \
    :: else \
    fi

/* -DSEE=EVENT turns the question round: Spin must find a run in which it happens. */
#ifndef SEE
#define SEE 0
#endif
#define seen(which, text) \
    if \
    :: SEE == which -> printf("[%d] ** ", hour); printf(text); printf("\n"); assert(false) \
    :: else \
    fi
