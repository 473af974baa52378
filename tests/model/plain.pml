/* Tidelock where the server knows SETNX, GET, GETSET and DEL only (and in `strict`).
 *
 * No script, no sidecar, no TIME: the client's own wall clock, within M, stands in for
 * the server's. It judges with both margins, counts on the shortest life that a racing
 * loser may leave it, takes nothing for its own that wasn't answered, and deletes only
 * after a GET that shows its bytes and while time remains for the DEL to arrive. Its own
 * lifetime may be another than T; but a GETSET writes no shorter stamp than the others do.
 *
 * Broken on purpose, one guard each:
 *   NO_CAP          the deadline ignores that a racing loser may leave an earlier stamp
 *   BYTES_ARE_MINE  after no answer, finding its own bytes in K counts as having it
 *   LATE_DEL_OURS   DEL is sent however little time remains
 *   LAG_OURS=n      our own GETSET may be executed n ticks after our clock was read
 *   SHORT_LOSER     a GETSET writes the own lifetime, however short
 *   ONE_M           a short lifetime spares M once: our clock or the taker's, not both
 *   WAIT=n          a stamp is free n ticks after it ran out (the rule: M + L)
 */

/*
 * Lessons (traces/plain-...):
 * - no-cap, no-wait: as in bridge.pml.
 * - bytes: two clients of one millisecond write the same stamp. So finding its own bytes proves nothing to a client.
 * - late-del: a DEL that may arrive after the deadline deletes the successor's lock.
 * - own-lag: our own GETSET, executed later than L after our clock was read, is a racing loser outside the bound. A
 *   plain server cannot stop it, so the client must not send it late.
 * - short-loser: a GETSET that loses must not leave a stamp shorter than T_legacy, since the winner relies on that. So
 *   an own lifetime below it is for the belief alone.
 * - one-m: such a short lifetime is by our clock and acquired by another's, which may differ by 2M. The cap spares
 *   that only where T is at least T_legacy.
 */
#include "time.pml"

#ifndef NP
#define NP 2 /* tidelock clients */
#endif

#ifndef TP
#define TP T /* lifetime of its own stamps */
#endif
#ifdef SHORT_LOSER
#define MORE 0
#else
#define MORE MAX(0, T - TP) /* what a GETSET adds to them */
#endif
#ifdef ONE_M
#define OWN_SPARED M
#else
#define OWN_SPARED (2 * M)
#endif

#define ONE 1 /* never two holders */

#define HANDOVER 1
#define TAKEOVER 2
#define LOSER 3
#define ORPHANED 4
#define OURS_BY_GETSET 5
#define RELEASED 6

#if NP == 1
#define PLAINS_IN (left[0] > 0)
#else
#define PLAINS_IN ((left[0] > 0) + (left[1] > 0))
#endif
#define HOLDERS (JAVAS_IN + PLAINS_IN)
#define j_robs(me) skip
#ifndef WAIT
#define WAIT (M + L)
#endif
#define OLDEST (WAIT + 2 + M)

byte left[NP];
byte before; /* who released last; only for SEE */

#include "legacy.pml"

#ifndef LAG_OURS
#define LAG_OURS L
#endif
#define DEL_LIMIT 1 /* attempt limit of the DEL */

short p_e[NP], p_v[NP], p_off[NP];
byte p_lag[NP]; /* ticks in which the attempt may yet be executed, less one */
byte p_age[NP]; /* ticks since its clock was read */
bool p_has[NP]; /* it holds, or did: p_e is the stamp it wrote */
byte p_del[NP]; /* ticks in which the DEL may yet be executed, less one */

#ifdef NO_CAP
#define WORTH(me) MAX(0, TP - M - p_age[me])
#else
#define WORTH(me) MAX(0, MIN(TP - OWN_SPARED, T - L - 2 * M) - p_age[me])
#endif
#ifdef LATE_DEL_OURS
#define TIME_FOR_DEL(me) true
#else
#define TIME_FOR_DEL(me) (left[me] > DEL_LIMIT)
#endif
#define JUDGED_FREE(me, v) ((v) + 1 + WAIT < p_off[me]) /* by its own clock */

inline p_forget(me) { p_has[me] = false; p_e[me] = 0; p_v[me] = 0; p_off[me] = 0; p_lag[me] = 0; p_age[me] = 0 }
inline p_enter(me)
{
    left[me] = WORTH(me); p_has[me] = true; p_v[me] = 0; p_off[me] = 0; p_lag[me] = 0; p_age[me] = 0;
    printf("[%d] %c may count on the lock until %d\n", hour, WHO(me), hour + left[me]);
    if :: left[me] > 0 && before != 0 -> seen(HANDOVER, "the lock passes from one client to another") :: else fi;
    claim(ONE, left[me] == 0 || HOLDERS <= 1, "two holders")
}

proctype client(byte me)
{
    short off;
idle:
    atomic {
        select (off : 0 - M .. M);
        p_off[me] = off; off = 0; p_e[me] = TP + p_off[me]; p_lag[me] = LAG_OURS + 1;
        printf("[%d] %c's clock reads %d: it will write %d\n", hour, WHO(me), hour + p_off[me], hour + p_e[me])
    }
    if
    :: atomic { p_lag[me] > 0 && !K_here ->
           K_here = true; K_e = p_e[me]; printf("[%d] %c  SETNX %d -> 1\n", hour, WHO(me), hour + K_e);
           if
           :: true -> p_enter(me); goto holding
           :: true -> printf("[%d]    the answer is lost\n", hour); goto unanswered
           fi }
    :: atomic { p_lag[me] > 0 && K_here -> printf("[%d] %c  SETNX -> 0\n", hour, WHO(me)) }
    :: atomic { true -> printf("[%d] %c's SETNX is lost\n", hour, WHO(me)); goto unanswered }
    fi;
    if
    :: atomic { p_lag[me] > 0 && K_here ->
           printf("[%d] %c  GET -> %d\n", hour, WHO(me), hour + K_e);
           if
           :: JUDGED_FREE(me, K_e - (p_lag[me] - 1)) -> p_v[me] = K_e
           :: else -> p_forget(me); goto idle
           fi }
    :: atomic { true -> p_forget(me); goto idle }
    fi;
    if
    :: atomic { p_lag[me] > 0 && JUDGED_FREE(me, p_v[me]) ->
           p_e[me] = p_e[me] + MORE;
           if
           :: K_here -> printf("[%d] %c  GETSET %d -> %d\n", hour, WHO(me), hour + p_e[me], hour + K_e)
           :: else -> printf("[%d] %c  GETSET %d -> nil\n", hour, WHO(me), hour + p_e[me])
           fi;
           if
           :: !K_here || K_e == p_v[me] -> /* nothing, or what it judged: it is ours */
               K_here = true; K_e = p_e[me];
               if
               :: true -> seen(OURS_BY_GETSET, "GETSET takes over"); p_enter(me); goto holding
               :: true -> printf("[%d]    the answer is lost\n", hour); goto unanswered
               fi
           :: K_here && K_e != p_v[me] -> K_e = p_e[me]; p_forget(me); goto idle
           fi }
    :: atomic { true -> p_forget(me); goto idle }
    fi;
unanswered: /* not ours: K is another's until it is judged free */
#ifdef BYTES_ARE_MINE
    if
    :: atomic { p_lag[me] > 0 && K_here && K_e == p_e[me] ->
           printf("[%d] %c  GET -> %d, my bytes\n", hour, WHO(me), hour + K_e); p_enter(me); goto holding }
    :: atomic { true -> p_forget(me); goto idle }
    fi;
#else
    atomic { true -> p_forget(me); goto idle }
#endif
holding:
    if
    :: atomic { TIME_FOR_DEL(me) && K_here && K_e == p_e[me] ->
           printf("[%d] %c  GET -> %d, my bytes; it sends DEL\n", hour, WHO(me), hour + K_e);
           left[me] = 0; p_forget(me); p_del[me] = DEL_LIMIT + 1 }
    :: atomic { true -> p_forget(me); left[me] = 0; printf("[%d] %c leaves K to run out\n", hour, WHO(me)); goto idle }
    fi;
    if
    :: atomic { p_del[me] > 0 -> K_here = false; K_e = 0; p_del[me] = 0;
           seen(RELEASED, "K is deleted"); before = (SEE == HANDOVER -> WHO(me) : 0);
           printf("[%d] %c  DEL\n", hour, WHO(me)) }
    :: atomic { true -> p_del[me] = 0; printf("[%d] %c's DEL is lost\n", hour, WHO(me)) }
    fi;
    goto idle
}

proctype clock()
{
    byte i;
    do
    :: d_step {
           hour = hour + STEP;
           legacy_tick();
           for (i : 0 .. NP - 1) {
               if :: p_has[i] -> AGE(p_e[i], FLOOR) :: else fi;
               DOWN(left[i]); DOWN(p_del[i]);
               if
               :: p_lag[i] > 1 -> p_lag[i]--; p_e[i]--; p_age[i]++; AGE(p_v[i], FLOOR)
               :: p_lag[i] == 1 -> p_forget(i)
               :: else
               fi
           }
           i = 0
       }
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. NP - 1) { run client(i) }
#if NJ > 0
        for (i : 0 .. NJ - 1) { run java(i) }
#endif
        i = 0;
        run clock()
    }
}
