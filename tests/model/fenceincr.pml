/* Fencing numbers drawn with INCR: a counter F for each slot, and the window in which INCR is believed.
 *
 * Scripts draw max(F + 1, the server's microseconds) and so raise F to the clock. INCR draws F + 1, whatever
 * F is. A tick is a microsecond, in which a server draws one number at most.
 *
 * Two servers, A and B, whose clocks differ by SKEW one way or the other; one of them is the master. Connections to
 * both survive every failover. A number drawn by INCR is believed, when its answer arrives, only if
 *   - this connection carried a script that raised F, and that was sent at most W ago;
 *   - it isn't more than W below the earliest time that the client's anchor allows;
 *   - it is above the fence in S, which keeps and clients of older versions write.
 * Whoever doesn't believe asks again by script. The crowd stands for all other clients: it draws by script.
 *
 *   FAILOVER         the other server takes over after OUTAGE without takes, at any time, any number of times; it may
 *                    miss any number of the last writes
 *   DELETED          somebody deletes F by hand
 *   OLD              a client of an older version, which draws max(S's fence + 1, the clock) and knows no F
 *   BEHIND=n         how far behind the earliest edge of the client's anchor may be
 *   WIDE             the anchor says nothing
 *   BACK=n           both clocks are n ahead of the true time, and are set right once
 * Broken on purpose, one guard each:
 *   NO_WINDOW        a script that was ever sent over this connection will do
 *   FROM_ANSWER      the window counts from the answer to the script
 *   AT_SENDING       the window is looked at when INCR is sent, not when its answer arrives
 *   ANY_CONNECTION   a script over another connection will do
 *   OTHER_SLOT       a script that raised another slot's counter will do
 *   FROM_INCR        an INCR that was believed opens the window anew
 *   NO_EDGE          the number isn't compared with the anchor
 *   NO_S             nor with the fence in S
 *   NO_CLOCK         scripts draw F + 1
 */

/*
 * Lessons (traces/fenceincr-...). INCR reads no clock: its number is as good as the last script that raised F, if it
 * raised this F.
 * - from-answer, at-sending: the window begins when the script was sent, and the script must have been answered. The
 *   answer of INCR must come within the window. Otherwise the number lags by the window and the time in flight.
 * - any-connection, other-slot: a replica that took over has an F without the last writes. Only a script for this slot
 *   over this connection shows that this F was raised.
 * - no-window: a connection that survived A, B, A leads to an F that misses the numbers of B.
 * - from-incr: an INCR raises nothing, so a believed one must not open the window anew.
 * - no-edge: F was deleted or set back by hand within the window.
 * - no-s: a client of an older version draws from S alone. It always draws at least the clock, which no INCR has
 *   passed. So the other direction needs nothing.
 * - no-clock, short: as in fence.pml.
 * - twice: still assumed. Two failovers in a row outlast the window, or the second loses nothing that the first server
 *   gave.
 * - back-failover: still assumed. F is not ahead of the clock, or a failover loses nothing. Clocks that were ahead and
 *   are corrected leave F ahead: numbers still increase (fenceincr-back), but a replica's clock does not make up for
 *   lost writes.
 * With the window no anchor is needed (fenceincr-wide), unless F is deleted.
 */
#include "time.pml"

#ifndef N
#define N 1 /* clients in detail, beside the crowd */
#endif
#ifndef W
#define W 3 /* the window */
#endif
#ifndef SKEW
#define SKEW 1
#endif
#ifndef OUTAGE
#define OUTAGE (SKEW + 1) /* two of them last longer than W */
#endif
#ifndef LIMIT
#define LIMIT 2 /* attempt limit: an answer that comes later ends the connection */
#endif
#ifndef BEHIND
#define BEHIND 1
#endif

#ifdef BACK
#define CORRECTION BACK
#else
#define CORRECTION 0
#endif

#define FENCE 1 /* what is believed strictly increases in the order of drawing */
#define LAG 2   /* and was at most W behind the server's clock when it was drawn */

#define BELIEVED 1
#define FAILED_OVER 2
#define TOO_LATE 3
#define TOO_LOW 4
#define NOT_ABOVE_S 5
#define SURVIVED 6
#define AHEAD 7

#define LOWEST (0 - (W + LIMIT + BEHIND + 2 * SKEW + CORRECTION + 3)) /* older numbers are all alike */
#define NOTHING (LOWEST - 1)
#define NEVER (W + 1)

mtype = { none, script, incr, elsewhere };

/* the servers: 0 is A, 1 is B; numbers are stored minus the present on A's clock */
short F[2] = NOTHING, off[2];
#ifdef OLD
short S[2] = NOTHING;
short last = NOTHING; /* what a client of this version drew last by INCR; its keep writes it to S */
#define SET_S(s, n) S[s] = n; last = NOTHING
#define NOTE(n) last = n
#define ABOVE(n, s) ((n) > S[s])
#define GROW_S GROW(S[0]); GROW(S[1]); GROW(last)
#else
#define SET_S(s, n) skip
#define NOTE(n) skip
#define ABOVE(n, s) true
#define GROW_S skip
#endif
byte master, outage;
bool used; /* this microsecond had its draw */
#ifdef BACK
bool set_right;
#endif

/* connection c of a client leads to server c; since: ticks since the script, NEVER if none counts */
#define CONN(me) (2 * (me) + to[me])
byte since[2 * N] = NEVER;
mtype op[N] = none;
byte to[N], age[N];
bool answered[N], open_then[N]; /* the window, when INCR was sent */
short number[N];
bool fine[N], fresh[N], above[N]; /* of the number, when drawn: above all others; within W of the clock; above S */
#if SEE == 6
byte overs[2 * N]; /* failovers since the script */
#endif

short top = NOTHING; /* the largest number drawn */

#define NAME(s) ('a' + (s)) /* the server, in the story */
#define CLOCK(s) off[s]
#define GROW(x) if :: x != NOTHING -> AGE(x, LOWEST) :: else fi

inline drawn(n)
{
    top = MAX(top, n); used = true
}

/* ---- the server ---- */
inline execute(me, s)
{
    if
    :: op[me] == script ->
#ifdef NO_CLOCK
        F[s] = (F[s] == NOTHING -> LOWEST : F[s] + 1);
#else
        F[s] = MAX(F[s] + 1, CLOCK(s));
#endif
        number[me] = F[s]; SET_S(s, F[s])
    :: op[me] == incr ->
        F[s] = (F[s] == NOTHING -> LOWEST : F[s] + 1);
        number[me] = F[s]; above[me] = ABOVE(F[s], s); NOTE(F[s])
    :: op[me] == elsewhere -> skip
    fi;
    if
    :: op[me] == elsewhere -> printf("[%d] %c: %c's script for another slot\n", hour, NAME(s), WHO(me))
    :: else ->
        fine[me] = number[me] > top; fresh[me] = number[me] >= CLOCK(s) - W;
        printf("[%d] %c (clock %d): %c's %e -> %d\n", hour, NAME(s), hour + CLOCK(s), WHO(me), op[me], hour + number[me]);
        drawn(number[me])
    fi;
    answered[me] = true
}

/* ---- a client ---- */
inline forget(me)
{
    op[me] = none; to[me] = 0; age[me] = 0; answered[me] = false; open_then[me] = false;
    number[me] = 0; fine[me] = false; fresh[me] = false; above[me] = false
}
#ifdef FROM_ANSWER
#define OPENS 0
#else
#define OPENS age[me]
#endif
inline raised(me, ago)
{
    since[CONN(me)] = MIN(since[CONN(me)], ago);
#ifdef ANY_CONNECTION
    since[2 * me] = MIN(since[2 * me], ago); since[2 * me + 1] = MIN(since[2 * me + 1], ago);
#endif
#if SEE == 6
    overs[CONN(me)] = 0;
#endif
}
#if defined NO_WINDOW
#define IN_WINDOW(me) (since[CONN(me)] < NEVER || true)
#define OPEN(me) (since[CONN(me)] < NEVER)
#else
#define OPEN(me) (since[CONN(me)] <= W)
#ifdef AT_SENDING
#define IN_WINDOW(me) open_then[me]
#else
#define IN_WINDOW(me) OPEN(me)
#endif
#endif
#if defined NO_EDGE || defined WIDE
#define ABOVE_EDGE(me, b) true
#else
#define ABOVE_EDGE(me, b) (number[me] >= CLOCK(to[me]) - (b) - W)
#endif
#ifdef NO_S
#define ABOVE_S(me) true
#else
#define ABOVE_S(me) above[me]
#endif

inline judge(me, b)
{
    if
    :: op[me] == script ->
        raised(me, OPENS);
        claim(FENCE, fine[me], "a script's fence did not increase")
    :: op[me] == elsewhere ->
#ifdef OTHER_SLOT
        raised(me, OPENS);
#endif
        skip
    :: op[me] == incr && IN_WINDOW(me) && ABOVE_EDGE(me, b) && ABOVE_S(me) ->
        printf("[%d] %c believes %d\n", hour, WHO(me), hour + number[me]);
        seen(BELIEVED, "a number drawn by INCR is believed");
#ifdef FROM_INCR
        raised(me, OPENS);
#endif
        claim(FENCE, fine[me], "the fence did not increase");
        claim(LAG, fresh[me], "the fence is further behind the clock than the window")
    :: else ->
        printf("[%d] %c doesn't believe %d\n", hour, WHO(me), hour + number[me]);
        if :: !IN_WINDOW(me) -> seen(TOO_LATE, "INCR's answer comes after the window") :: else fi;
        if :: IN_WINDOW(me) && !ABOVE_EDGE(me, b) -> seen(TOO_LOW, "a number is too low for the anchor") :: else fi;
        if :: IN_WINDOW(me) && ABOVE_EDGE(me, b) && !ABOVE_S(me) -> seen(NOT_ABOVE_S, "a number isn't above S's fence") :: else fi
    fi;
    forget(me)
}

proctype client(byte me)
{
    byte s, b;
    do
    :: atomic { op[me] == none ->
           select (s : 0 .. 1);
           d_step { to[me] = s; s = 0 }
           if
           :: op[me] = script
           :: OPEN(me) -> op[me] = incr; open_then[me] = true;
#if SEE == 6
               if :: overs[CONN(me)] == 2 -> seen(SURVIVED, "INCR is sent over a connection that survived two failovers") :: else fi
#endif
#ifdef OTHER_SLOT
           :: op[me] = elsewhere
#endif
           fi;
           printf("[%d] %c sends %e to %c\n", hour, WHO(me), op[me], NAME(to[me])) }
    :: d_step { op[me] != none && !answered[me] && to[me] == master && outage == 0 && !used -> execute(me, master) }
    :: atomic { answered[me] ->
           select (b : 0 .. BEHIND);
           d_step { judge(me, b); b = 0 } }
    od
}

/* ---- others ---- */
proctype crowd()
{
    do
    :: d_step { outage == 0 && !used ->
#ifdef NO_CLOCK
           F[master] = (F[master] == NOTHING -> LOWEST : F[master] + 1);
#else
           F[master] = MAX(F[master] + 1, CLOCK(master));
#endif
           SET_S(master, F[master]);
           printf("[%d] %c (clock %d): somebody's script -> %d\n", hour, NAME(master), hour + CLOCK(master), hour + F[master]);
           if :: F[master] > CLOCK(master) + 1 -> seen(AHEAD, "a number is drawn while F is ahead of the clock") :: else fi;
           claim(FENCE, F[master] > top, "a script's fence did not increase");
           drawn(F[master]) }
    od
}

#ifdef OLD
proctype old()
{
    do
    :: d_step { outage == 0 && !used ->
           S[master] = MAX(S[master] + 1, CLOCK(master));
           printf("[%d] %c: an older client draws %d\n", hour, NAME(master), hour + S[master]);
           claim(FENCE, S[master] > top, "an older client's fence did not increase");
           drawn(S[master]) }
    od
}
#endif

#define RESETS(c) since[c] = NEVER
proctype events()
{
    byte i;
    do
    :: d_step {
           hour = hour + STEP; used = false;
           GROW(F[0]); GROW(F[1]); GROW(top); GROW_S;
           DOWN(outage);
           for (i : 0 .. N - 1) {
               if
               :: op[i] != none && age[i] == LIMIT -> RESETS(CONN(i)); forget(i) /* the connection is given up */
               :: op[i] != none && age[i] < LIMIT -> age[i]++;
                   if
                   :: answered[i] && op[i] != elsewhere -> number[i]--
                   :: else
                   fi
               :: else
               fi
           }
#ifndef NO_WINDOW
           for (i : 0 .. 2 * N - 1) { UP(since[i], NEVER) }
#endif
           i = 0 }
#ifdef OLD
    :: d_step { last != NOTHING && outage == 0 && S[master] < last -> S[master] = last; last = NOTHING } /* the first keep */
#endif
#ifdef BACK
    :: d_step { !set_right ->
           set_right = true; off[0] = off[0] - BACK; off[1] = off[1] - BACK;
           printf("[%d] both clocks are set back by %d\n", hour, BACK) }
#endif
#ifdef DELETED
    :: d_step { F[master] != NOTHING -> F[master] = NOTHING; printf("[%d] somebody deletes F\n", hour) }
#endif
#ifdef FAILOVER
    :: d_step { F[1 - master] = F[master];
#ifdef OLD
           S[1 - master] = S[master];
#endif
           printf("[%d] the replica has caught up\n", hour) }
    :: d_step { outage == 0 ->
           master = 1 - master; outage = OUTAGE; NOTE(NOTHING);
           printf("[%d] failover to %c: its clock is %d off\n", hour, NAME(master), off[master] - off[1 - master]);
#if SEE == 6
           for (i : 0 .. 2 * N - 1) { UP(overs[i], 2) }
           i = 0;
#endif
           seen(FAILED_OVER, "the other server takes over") }
#endif
    od
}

init
{
    byte i;
    atomic {
#ifdef FAILOVER
        if
        :: off[1] = SKEW
        :: off[1] = 0 - SKEW
        fi;
#endif
        for (i : 0 .. N - 1) { run client(i) }
        i = 0;
#ifdef OLD
        run old();
#endif
        run crowd();
        run events()
    }
}
