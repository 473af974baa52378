/* K as the legacy clients use it, and the Java rule, bug for bug.
 *
 * Stamps are stored as distances from the server's clock, so K_e > 0 has not run out
 * on the server. A Java host's clock is the server's plus an offset between SLOWEST
 * (-OFF) and OFF, chosen anew for each attempt (a superset of one fixed offset for each host).
 * An attempt reads its clock, then sends SETNX, GET and GETSET one by one; everything
 * it has executed is executed within LAG ticks of the reading.
 *
 * A Java job is inside from the moment the server made it so until it sends DEL, and
 * no rule of its own ends it: the assumption is that the job is over, its DEL executed,
 * when its clock is still SLACK before its stamp.
 *
 *   STEPS     a Java host's clock may be set anew between its take and its DEL, from
 *             one offset within M to another
 *   LATE_DEL  the job ends in time but the DEL may come at any time after
 *   TOKENS    K may hold a token, K_tok, instead of a stamp: K_e are then its ticks to live;
 *             the Java rule throws on reading one, and GETSET overwrites one
 */
#ifndef NJ
#define NJ 2 /* Java clients */
#endif
#ifndef M
#define M 1 /* the margin: the largest offset of a clock that the rules allow for */
#endif
#ifndef L
#define L 1 /* the lag that the rules allow for */
#endif
#ifndef OFF
#define OFF M /* what the clocks really do */
#endif
#ifndef SLOWEST
#define SLOWEST (0 - OFF)
#endif
#ifndef LAG
#define LAG L /* what the attempts really do */
#endif
#ifndef T
#define T 6 /* T_legacy: the lifetime that the rules take the old stamps to have */
#endif
#ifndef TJ
#define TJ T /* what the Java clients really write */
#endif
#ifndef SLACK
#define SLACK (2 * M + L)
#endif

#ifndef OLDEST
#define OLDEST 1
#endif
#define FLOOR (0 - MAX(OLDEST, OFF + 1)) /* no rule tells older stamps apart */

bool K_here;
short K_e;

#if NJ > 0
short j_e[NJ], j_v[NJ], j_off[NJ]; /* the stamp to write, the stamp read, the clock's offset */
byte j_lag[NJ];                    /* ticks in which the attempt may yet be executed, less one */
byte j_in[NJ];                     /* ticks until the job is over; 0: not inside */
#endif
#if NJ == 0
#define JAVAS_IN 0
#elif NJ == 1
#define JAVAS_IN (j_in[0] > 0)
#elif NJ == 2
#define JAVAS_IN ((j_in[0] > 0) + (j_in[1] > 0))
#else
#define JAVAS_IN ((j_in[0] > 0) + (j_in[1] > 0) + (j_in[2] > 0))
#endif

#define JAVA(i) ((i) + 1) /* J1, J2, … in the story */

#if NJ > 0
inline j_forget(me) { j_e[me] = 0; j_v[me] = 0; j_off[me] = 0; j_lag[me] = 0 }

#ifdef STEPS
#define JOB(me) (j_e[me] + M - SLACK)
#else
#define JOB(me) (j_e[me] - j_off[me] - SLACK)
#endif
inline j_enter(me)
{
    j_in[me] = MAX(0, JOB(me)); j_forget(me);
    printf("[%d] J%d is inside until %d at most\n", hour, JAVA(me), hour + j_in[me]);
    claim(ONE, j_in[me] == 0 || HOLDERS <= 1, "two holders")
}

#ifdef TOKENS
#define NO_TOKEN ; K_tok = 0 /* after a write of K */
#define J_READS(v) (K_here && K_tok == 0 && K_e == (v))
#define J_MEETS_OTHER(v) (K_here && (K_tok != 0 || K_e != (v)))
#else
#define NO_TOKEN
#define J_READS(v) (K_here && K_e == (v))
#define J_MEETS_OTHER(v) (K_here && K_e != (v))
#endif

proctype java(byte me)
{
    short off;
idle:
    atomic {
#ifdef JAVA_MAY_START
        JAVA_MAY_START;
#endif
        select (off : SLOWEST .. OFF);
        j_off[me] = off; off = 0;
        j_e[me] = TJ + j_off[me]; j_lag[me] = LAG + 1;
        printf("[%d] J%d's clock reads %d: it will write %d\n", hour, JAVA(me), hour + j_off[me], hour + j_e[me])
    }
    if
    :: atomic { j_lag[me] > 0 && !K_here ->
           K_here = true; K_e = j_e[me];
           printf("[%d] J%d  SETNX %d -> 1\n", hour, JAVA(me), hour + K_e);
           if :: before != 0 && before != JAVA(me) -> seen(HANDOVER, "the lock passes from one client to another") :: else fi;
           j_enter(me); goto inside }
    :: atomic { j_lag[me] > 0 && K_here -> printf("[%d] J%d  SETNX -> 0\n", hour, JAVA(me)) }
    :: atomic { true -> j_forget(me); goto idle } /* an exception, a time-out */
    fi;
    if
#ifdef TOKENS
    :: atomic { j_lag[me] > 0 && K_here && K_tok != 0 ->
           printf("[%d] J%d  GET -> token #%d: throws\n", hour, JAVA(me), K_tok);
           seen(THROWN, "a Java client reads a token and throws"); j_forget(me); goto idle }
    :: atomic { j_lag[me] > 0 && K_here && K_tok == 0 ->
#else
    :: atomic { j_lag[me] > 0 && K_here ->
#endif
           printf("[%d] J%d  GET -> %d\n", hour, JAVA(me), hour + K_e);
           if
           :: K_e - (j_lag[me] - 1) < j_off[me] -> j_v[me] = K_e
           :: else -> j_forget(me); goto idle /* held, and won't run out within this attempt */
           fi }
    :: atomic { j_lag[me] > 0 && !K_here -> printf("[%d] J%d  GET -> nil: throws\n", hour, JAVA(me)); j_forget(me); goto idle }
    :: atomic { true -> j_forget(me); goto idle }
    fi;
    if /* its clock at the comparison is past what it read; GETSET */
    :: atomic { j_lag[me] > 0 && j_v[me] < j_off[me] && J_READS(j_v[me]) ->
           printf("[%d] J%d  (clock %d) GETSET %d -> %d, as read: won\n", hour, JAVA(me), hour + j_off[me], hour + j_e[me], hour + K_e);
           seen(TAKEOVER, "a stamp that ran out is taken over");
           j_robs(me);
           K_e = j_e[me]; j_enter(me); goto inside }
    :: atomic { j_lag[me] > 0 && j_v[me] < j_off[me] && J_MEETS_OTHER(j_v[me]) ->
           printf("[%d] J%d  (clock %d) GETSET %d -> %d, not as read: lost, but its stamp stays\n", hour, JAVA(me), hour + j_off[me], hour + j_e[me], hour + K_e);
           K_e = j_e[me] NO_TOKEN; j_forget(me);
           seen(LOSER, "a loser overwrites the winner's stamp");
           goto idle }
    :: atomic { j_lag[me] > 0 && j_v[me] < j_off[me] && !K_here ->
           printf("[%d] J%d  GETSET %d -> nil: throws, and leaves an orphan\n", hour, JAVA(me), hour + j_e[me]);
           K_here = true; K_e = j_e[me]; j_forget(me);
           seen(ORPHANED, "a GETSET that finds nothing leaves an orphan");
           goto idle }
    :: atomic { true -> j_forget(me); goto idle }
    fi;
inside:
    if
    :: atomic { j_in[me] > 0 -> j_in[me] = 0; K_here = false; K_e = 0 NO_TOKEN; before = (SEE == HANDOVER -> JAVA(me) : 0);
           printf("[%d] J%d  DEL\n", hour, JAVA(me)) }
#ifdef LATE_DEL
    :: atomic { j_in[me] == 0 ->
           printf("[%d] J%d  DEL, late\n", hour, JAVA(me)); K_here = false; K_e = 0 NO_TOKEN }
#endif
    :: atomic { true -> j_in[me] = 0; printf("[%d] J%d is over, without DEL\n", hour, JAVA(me)) }
    fi;
    goto idle
}
#endif

inline legacy_tick()
{
#ifdef TOKENS
    if
    :: K_here && K_tok != 0 -> K_e--; if :: K_e == 0 -> K_here = false; K_tok = 0 :: else fi
    :: K_here && K_tok == 0 -> AGE(K_e, FLOOR)
    :: else
    fi;
#else
    if :: K_here -> AGE(K_e, FLOOR) :: else fi;
#endif
#if NJ > 0
    for (i : 0 .. NJ - 1) {
        DOWN(j_in[i]);
        if
        :: j_lag[i] > 1 -> j_lag[i]--; j_e[i]--; AGE(j_v[i], FLOOR)
        :: j_lag[i] == 1 -> j_forget(i)
        :: else
        fi
    }
    i = 0
#endif
}
