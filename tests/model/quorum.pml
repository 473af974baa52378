/* The fence of a majority: each of three servers draws max(F + 1, what was proposed) with its vote, and the
 * holder's fence is what a majority gave alike, or the greatest, brought up at a majority.
 *
 * Time doesn't matter here, nor does any clock: proposals are whatever they are. A vote may run out at its server at any
 * moment until its client holds the lock; what is counted is what is held then. A hold that is lost ends as a
 * release does, server by server. Numbers are kept less the last holder's fence; what is far below is all alike.
 *
 *   NO_RAISE     the greatest of numbers that differ counts as it is
 *   ANY          a number counts that one server gave
 *   LEAST        of numbers that differ the least is brought up
 *   KEPT_BLIND   a vote that was lost and drawn anew counts with the number it was to be raised to
 *   FORGET       a server restarts empty: F is gone, and no clock makes up for it
 */

/*
 * Lessons (traces/quorum-...):
 * - no-raise: the greatest of different numbers is at one server, and the next majority may be without it.
 * - any, least: a number must be larger than each that an earlier majority may have had. So it is common to a
 *   majority, or the greatest.
 * - kept-blind: a vote that was lost while its number was being raised may have been another holder's meanwhile. Only
 *   a new draw counts.
 * - forget: still assumed. F outlives a restart, or the clocks make up for it and quiet_ms for the lock.
 */
#include "time.pml"

#define Q 2 /* of three servers */
#ifndef P
#define P 1 /* proposals: as far beyond the last fence */
#endif
#define LOWEST -1
#define HIGHEST 2 /* no more is drawn beyond that */
#define NOTHING -9

#define FENCE 1 /* fences strictly increase from holder to holder */

#define ALIKE 1
#define RAISED 2
#define MIXED 3
#define ANEW 4

#define FREE 9

short F0, F1, F2; /* the counters */
byte K[3] = FREE;
short n[6] = NOTHING; /* client * 3 + server: the number of the vote */
short p[2];
byte holder = FREE;

#define DRAW(F, least) F = MAX(F + 1, least)
#define MINE(c, i) (K[i] == c && n[c * 3 + i] != NOTHING)
#define VOTES(c) (MINE(c, 0) + MINE(c, 1) + MINE(c, 2))
#define NUM(c, i) (MINE(c, i) -> n[c * 3 + i] : NOTHING)
#define TOP(c) MAX(NUM(c, 0), MAX(NUM(c, 1), NUM(c, 2)))
#define SAME(c, x) ((NUM(c, 0) == x) + (NUM(c, 1) == x) + (NUM(c, 2) == x))

/* The number that counts, if one does. */
#ifdef ANY
#define NEEDED 1
#else
#define NEEDED Q
#endif
#ifdef NO_RAISE
#define COUNTS(c, x) (x == TOP(c))
#else
#define COUNTS(c, x) (SAME(c, x) >= NEEDED)
#endif
#ifdef LEAST
#define LOW(x) (x == NOTHING -> HIGHEST + 1 : x)
#define GOAL(c) MIN(LOW(NUM(c, 0)), MIN(LOW(NUM(c, 1)), LOW(NUM(c, 2))))
#else
#define GOAL(c) TOP(c)
#endif

/* One server's vote, asked for the first time or again to raise its number. */
#define VOTE(c, i, F) \
    :: d_step { holder != c && K[i] == FREE && n[c * 3 + i] == NOTHING && F < HIGHEST -> \
           DRAW(F, p[c]); K[i] = c; n[c * 3 + i] = F; \
           printf("[%d] server %d votes for %c: %d\n", hour, i, WHO(c), F) }
/* What was held all the time is brought up; what was lost, and is free, is drawn anew. */
#ifdef LEAST
#define TO_RAISE(c, i) (NUM(c, i) > GOAL(c))
#define SET(F, g) F = g
#else
#define TO_RAISE(c, i) (NUM(c, i) < GOAL(c))
#define SET(F, g) DRAW(F, g)
#endif
#ifdef KEPT_BLIND
#define NEW(c, i, F, g) n[c * 3 + i] = g
#else
#define NEW(c, i, F, g) n[c * 3 + i] = F
#endif
#define RAISE(c, i, F) \
    :: d_step { holder != c && VOTES(c) >= Q && MINE(c, i) && TO_RAISE(c, i) && F < HIGHEST -> \
           was = GOAL(c); SET(F, was); n[c * 3 + i] = was; was = 0; \
           printf("[%d] server %d is raised for %c: %d\n", hour, i, WHO(c), n[c * 3 + i]); \
           seen(RAISED, "a number is raised where the vote is held") } \
    :: d_step { holder != c && TOP(c) != NOTHING && K[i] == FREE && n[c * 3 + i] != NOTHING && \
                n[c * 3 + i] < TOP(c) && F < HIGHEST -> \
           was = TOP(c); DRAW(F, was); K[i] = c; NEW(c, i, F, was); was = 0; \
           printf("[%d] server %d votes anew for %c: F %d\n", hour, i, WHO(c), F); \
           seen(ANEW, "a vote that was lost is drawn anew as it is raised") }

#define OLDER(x) x = (x == NOTHING -> x : MAX(LOWEST, x - f))

proctype client(byte c)
{
    short was, f, x;
end:
    do
    VOTE(c, 0, F0)
    VOTE(c, 1, F1)
    VOTE(c, 2, F2)
#ifndef NO_RAISE
    RAISE(c, 0, F0)
    RAISE(c, 1, F1)
    RAISE(c, 2, F2)
#endif
    /* a vote is given back, or runs out, which its client may not know of */
    :: atomic { holder != c && K[0] == c -> K[0] = FREE; if :: n[c * 3] = NOTHING :: skip fi }
    :: d_step { holder != c && K[0] != c && n[c * 3] != NOTHING -> n[c * 3] = NOTHING }
    :: atomic { holder != c && K[1] == c -> K[1] = FREE; if :: n[c * 3 + 1] = NOTHING :: skip fi }
    :: d_step { holder != c && K[1] != c && n[c * 3 + 1] != NOTHING -> n[c * 3 + 1] = NOTHING }
    :: atomic { holder != c && K[2] == c -> K[2] = FREE; if :: n[c * 3 + 2] = NOTHING :: skip fi }
    :: d_step { holder != c && K[2] != c && n[c * 3 + 2] != NOTHING -> n[c * 3 + 2] = NOTHING }
    :: atomic { holder != c && n[c * 3] == NOTHING && n[c * 3 + 1] == NOTHING && n[c * 3 + 2] == NOTHING ->
           select (x : 0 .. P); p[c] = x; x = 0 }
    /* a majority, held at this moment, with a number that counts */
    :: d_step { holder == FREE && VOTES(c) >= Q &&
                (COUNTS(c, NUM(c, 0)) && NUM(c, 0) != NOTHING || COUNTS(c, NUM(c, 1)) && NUM(c, 1) != NOTHING ||
                 COUNTS(c, NUM(c, 2)) && NUM(c, 2) != NOTHING) ->
           if
           :: COUNTS(c, NUM(c, 0)) && NUM(c, 0) != NOTHING -> f = NUM(c, 0)
           :: COUNTS(c, NUM(c, 1)) && NUM(c, 1) != NOTHING -> f = NUM(c, 1)
           :: else -> f = NUM(c, 2)
           fi;
           printf("[%d] %c holds it, fence %d\n", hour, WHO(c), f);
           if :: SAME(c, f) == 3 -> seen(ALIKE, "all gave the same") :: else fi;
           if :: SAME(c, f) == 2 && TOP(c) > f -> seen(MIXED, "a third gave a larger one") :: else fi;
           claim(FENCE, f > 0, "the fence did not increase");
           holder = c; p[c] = 0;
           n[c * 3] = NOTHING; n[c * 3 + 1] = NOTHING; n[c * 3 + 2] = NOTHING;
           OLDER(F0); OLDER(F1); OLDER(F2);
           OLDER(n[0]); OLDER(n[1]); OLDER(n[2]); OLDER(n[3]); OLDER(n[4]); OLDER(n[5]);
           f = 0;
           }
    :: d_step { holder == c -> holder = FREE;
           printf("[%d] %c gives it up\n", hour, WHO(c)) }
    od
}

/* Locks of the same slot draw, too. */
proctype others()
{
end:
    do
    :: d_step { F0 < HIGHEST -> F0++ }
    :: d_step { F1 < HIGHEST -> F1++ }
    :: d_step { F2 < HIGHEST -> F2++ }
#ifdef FORGET
    :: d_step { K[0] == FREE -> F0 = LOWEST; printf("[%d] server 0 has forgotten\n", hour) }
    :: d_step { K[1] == FREE -> F1 = LOWEST; printf("[%d] server 1 has forgotten\n", hour) }
#endif
    od
}

init { atomic { run client(0); run client(1); run others() } }
