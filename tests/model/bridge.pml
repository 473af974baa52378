/* The bridge (and the timestamp lock at script level) beside clients of the old rule.
 *
 * K holds a stamp, S {token, value}. A tidelock client judges stamps with both margins,
 * takes by compare-and-set, keeps by compare-and-set to a later stamp, and when it finds
 * a stamp that isn't its own decides whether a racing loser overwrote it or a thief
 * robbed it. Its requests can be lost, answered in vain, or lie in a buffer. Drift is
 * folded in as in token.pml: what the slowest clock loses is what the rules spare.
 *
 * Broken on purpose, one guard each:
 *   NO_CAP         a take's deadline ignores that a racing loser may leave an earlier stamp
 *   CAP_EARLY      the cap is lifted by a keep executed up to L after the take
 *   ONE_WAY        the deadline spares no M
 *   WAIT=n         a stamp is free n ticks after it ran out (the rule: M + L)
 *   NO_S           S doesn't bind
 *   S_ENDS_EARLY   S binds only until S.value - M
 *   FULL_ON_RETRY  an answer counts T, not what K really holds
 *   KEEP_SHORTENS  a late keep may move the stamp back
 *   ALL_OURS       whatever stamp is found counts as a loser's
 *   NO_MIN         a holder that was overwritten doesn't cut its deadline to E' - M
 * One guard more:
 *   UNTIL          S holds, too, the server time until which nobody can rightly have taken
 *                  K; past it the scripts don't take equal bytes in K for our own stamp
 */

/*
 * Lessons (traces/bridge-...):
 * - reclaim: no error. A loser's stamp is recognised and replaced.
 * - robbed, beyond-m: one clock beyond M steals a held lock. The holder notices at its next keep, and names the clock.
 * - all-ours: without the rule the holder would steal the lock back. A host that is always beyond M is always
 *   recognised (bridge-thief-known). Within M no client can steal, so the rule costs nothing there.
 * - thief-gone: the limit of that rule. A thief beyond M has released, and a Java client with a clock behind ours
 *   followed: its stamp looks like a loser's. Beyond M the rule limits the damage and does not undo it.
 * - beyond-l, shorter-java: a loser slower than L, or with a lifetime shorter than T_legacy, undercuts the cap.
 * - late-del: a late legacy DEL lets another Java client in. S cannot help, since Java does not read it.
 * - late-del-no-s: S still keeps tidelock clients apart then (bridge-late-del-own). While every DEL is in time S is
 *   not needed for it (bridge-no-s).
 * - no-cap, cap-early: a take's deadline allows for a loser's stamp until a keep is executed more than L later.
 * - one-way, no-wait: the holder spares M, the taker waits M + L. The wait protects Java jobs that run up to their
 *   stamp (bridge-to-the-end).
 * - full-on-retry, keep-shortens: as in token.pml.
 * - equal-bytes, equal-long: S names us, K equals S.value, and the stamp is a Java client's. Ours was rightly taken
 *   over and released meanwhile, and the new one has the same milliseconds. This needs T within 3M + 2L, or an own T
 *   of nearly twice T_legacy and more. Either such lifetimes are refused, or S also holds the server time until which
 *   no client can rightly have taken K, and equal bytes count as ours until then (bridge-until).
 * More than needed, and harmless: the cut of the deadline to E' - M when overwritten (bridge-no-min), and S binding
 * until S.value + M (bridge-s-early).
 */
#include "time.pml"

#ifndef NB
#define NB 2 /* tidelock clients */
#endif
#ifndef Z
#define Z 0 /* requests in buffers whose senders no longer listen */
#endif
#ifndef LIMIT
#define LIMIT 2 /* attempt limit, as not_after */
#endif

/* claims */
#define ONE 1       /* never two holders, whoever they are */
#define TIDELOCK 2  /* never two tidelock clients inside their validity */
#define STOLEN_BACK 3 /* a tidelock client never takes back a lock that a Java job is in */

/* events that must be possible */
#define HANDOVER 1
#define TAKEOVER 2
#define LOSER 3
#define ORPHANED 4
#define CRASHED_JAVA 5
#define RECLAIM 6
#define ROBBED 7
#define BUSY_BY_S 8
#define LONGER 9

#if NB == 1
#define TIDES_IN (left[0] > 0)
#else
#define TIDES_IN ((left[0] > 0) + (left[1] > 0))
#endif
#ifndef TB
#define TB T /* lifetime of its own stamps; T is T_legacy here */
#endif
#ifndef WAIT
#define WAIT (M + L)
#endif
#define OLDEST (WAIT + 2) /* ticks after which a stamp has been free for long */
#define HOLDERS (JAVAS_IN + TIDES_IN)
#define j_robs(me) skip

byte left[NB]; /* ticks of validity */
byte before;   /* who released last; only for SEE */

#include "legacy.pml"

#define OWN (Z + 2) /* tokens of one client before the first can be used again */
#define OWNER(t) (((t) - 1) / OWN)

mtype = { none, take, keep, drop };
mtype = { taken, busy, kept, other, gone, dropped };

byte S_tok;
short S_val;
#ifdef UNTIL
byte S_sure, S_since; /* ticks until somebody may rightly have taken K; ticks since the take */
#define IS_MINE(t) (S_tok == (t) && K_here && K_e == S_val && S_sure > 0)
#else
#define IS_MINE(t) (S_tok == (t) && K_here && K_e == S_val)
#endif

/* One request of each client on its way. It is executed at any time or never; its answer
 * arrives at once or never. (An answer that comes late gives the same deadline as one that
 * came at once to a client that did nothing in between, so late ones need no states.) */
mtype op[NB] = none;
bool with[NB]; /* a take expects a stamp in K, this one; otherwise it expects none */
short val[NB];
byte age[NB];  /* ticks since the sending: the stamp to write is TB - age */

byte tok[NB];
byte cap[NB], since[NB]; /* ticks to t1_take + T - L - 2M; ticks since the take was executed */
byte ok_ago[NB];         /* ticks since our last successful take or keep was executed */

mtype z_op[Z + 1] = none;
byte z_tok[Z + 1], z_age[Z + 1];
bool z_with[Z + 1];
short z_val[Z + 1];

#if Z == 0
#define IN_BUFFER(t) false
#define ROOM false
#else
#define IN_BUFFER(t) (z_tok[0] == (t))
#define ROOM (z_op[0] == none)
#endif
#define KNOWN(t) (S_tok == (t) || IN_BUFFER(t))

#ifdef NO_S
#define S_BINDS(t) false
#else
#ifdef S_ENDS_EARLY
#define S_BINDS(t) (S_tok != 0 && S_tok != (t) && S_val - M > 0)
#else
#define S_BINDS(t) (S_tok != 0 && S_tok != (t) && S_val + M >= 0)
#endif
#endif
#ifdef KEEP_SHORTENS
#define KEEP_MOVES(e) true
#else
#define KEEP_MOVES(e) ((e) > K_e)
#endif

#ifdef UNTIL
#define sure_take() S_sure = MAX(S_sure, T - L - 2 * M); S_since = 0
#define sure_keep() S_sure = MAX(S_sure, (S_since > L -> K_e - M : 0))
#define sure_none() S_sure = 0; S_since = 0
#define sure_tick() DOWN(S_sure); if :: S_sure > 0 -> UP(S_since, L + 1) :: else -> S_since = 0 fi
#else
#define sure_take() skip
#define sure_keep() skip
#define sure_none() skip
#define sure_tick() skip
#endif

/* ---- the scripts: w, x the expected stamp; g the request's age; aw, ax the stamp answered ---- */
inline script_take(t, w, x, g, a, aw, ax)
{
    if
    :: IS_MINE(t) ->
        a = taken; printf("[%d] server: take #%d: already yours, K = %d\n", hour, t, hour + K_e)
    :: !IS_MINE(t) && g < LIMIT && w == K_here && (!w || x == K_e) && !S_BINDS(t) ->
        if :: w && (S_tok == 0 || K_e != S_val) -> seen(CRASHED_JAVA, "a Java client's stamp that ran out is taken over") :: else fi;
        K_here = true; K_e = TB - (g); S_tok = t; S_val = K_e; a = taken; sure_take();
        printf("[%d] server: take #%d: taken, K = %d\n", hour, t, hour + K_e)
    :: else ->
        a = busy; aw = K_here; ax = (K_here -> K_e : 0);
        if
        :: K_here -> printf("[%d] server: take #%d: busy, K = %d\n", hour, t, hour + K_e)
        :: else -> printf("[%d] server: take #%d: busy, K is absent\n", hour, t)
        fi;
        if :: !K_here && S_BINDS(t) -> seen(BUSY_BY_S, "S binds although K is gone") :: else fi
    fi
}
inline script_keep(t, g, a, aw, ax)
{
    if
    :: IS_MINE(t) ->
        if :: KEEP_MOVES(TB - (g)) -> K_e = TB - (g); S_val = K_e :: else fi;
        a = kept; sure_keep(); printf("[%d] server: keep #%d: kept, K = %d\n", hour, t, hour + K_e)
    :: S_tok == t && K_here && !IS_MINE(t) ->
        a = other; aw = true; ax = K_e; printf("[%d] server: keep #%d: K = %d isn't yours\n", hour, t, hour + K_e)
    :: else -> a = gone; printf("[%d] server: keep #%d: it is gone\n", hour, t)
    fi
}
inline script_drop(t, a)
{
    if
    :: S_tok == t ->
        if :: IS_MINE(t) -> K_here = false; K_e = 0 :: else fi;
        S_tok = 0; S_val = 0; sure_none()
    :: else
    fi;
    a = dropped;
    if
    :: K_here -> printf("[%d] server: drop #%d: K = %d stays\n", hour, t, hour + K_e)
    :: else -> printf("[%d] server: drop #%d: K is absent\n", hour, t)
    fi
}

/* ---- the wires ---- */
inline forget(me) { op[me] = none; with[me] = false; val[me] = 0; age[me] = 0 }
inline send(me, what, w, x)
{
    op[me] = what; with[me] = w; val[me] = x; age[me] = 0;
    if
    :: what == take && with[me] -> printf("[%d] %c sends take #%d: %d where K is %d\n", hour, WHO(me), tok[me], hour + TB, hour + val[me])
    :: what == take && !with[me] -> printf("[%d] %c sends take #%d: %d where K is absent\n", hour, WHO(me), tok[me], hour + TB)
    :: what == keep -> printf("[%d] %c sends keep #%d: %d\n", hour, WHO(me), tok[me], hour + TB)
    :: else -> printf("[%d] %c sends drop #%d\n", hour, WHO(me), tok[me])
    fi
}
inline abandon(me)
{
    if
    :: op[me] != none && ROOM && (op[me] == drop || age[me] < LIMIT) ->
        printf("[%d]    %c's %e #%d lies in a buffer\n", hour, WHO(me), op[me], tok[me]);
        z_op[0] = op[me]; z_tok[0] = tok[me]; z_with[0] = with[me]; z_val[0] = val[me]; z_age[0] = age[me]
    :: op[me] != none -> printf("[%d]    %c's %e #%d is lost\n", hour, WHO(me), op[me], tok[me])
    :: op[me] == none
    fi;
    forget(me)
}

/* ---- what an answer is worth ---- */
#ifdef FULL_ON_RETRY
#define STAMP_LEFT TB
#else
#define STAMP_LEFT K_e
#endif
#ifdef ONE_WAY
#define SPARED 0
#else
#define SPARED M
#endif
#ifdef NO_CAP
#define CAPPED(me) false
#elif defined CAP_EARLY
#define CAPPED(me) (since[me] < L)
#else
#define CAPPED(me) (since[me] <= L)
#endif
#define WORTH(me) MAX(0, MIN(STAMP_LEFT - age[me] - SPARED, (CAPPED(me) -> cap[me] : TB)))
#define JUDGED_FREE(x) ((x) + 1 + WAIT < 0) /* by the server's TIME in the same answer */
#ifdef ALL_OURS
#define A_LOSERS(me, x) (left[me] > 0)
#else
#define A_LOSERS(me, x) (left[me] > 0 && (x) - T <= M - ok_ago[me])
#endif
#ifdef NO_MIN
#define CUT(x) T
#else
#define CUT(x) MAX(0, (x) - M)
#endif

#if Z > 0
inline clear() { z_op[0] = none; z_tok[0] = 0; z_age[0] = 0; z_with[0] = false; z_val[0] = 0 }
proctype buffer()
{
    mtype said; bool shown; short stamp;
    do
    :: d_step { z_op[0] != none ->
           printf("[%d] a late request arrives:\n", hour);
           if
           :: z_op[0] == take -> script_take(z_tok[0], z_with[0], z_val[0], z_age[0], said, shown, stamp)
           :: z_op[0] == keep -> script_keep(z_tok[0], z_age[0], said, shown, stamp)
           :: z_op[0] == drop -> script_drop(z_tok[0], said)
           fi;
           clear(); said = 0; shown = false; stamp = 0 }
    :: d_step { z_op[0] != none -> clear() } /* lost */
    od
}
#endif

/* ---- a client ---- */
inline fresh(me)
{
    tok[me] = me * OWN + 1;
    do
    :: KNOWN(tok[me]) -> tok[me]++
    :: else -> break
    od
}
inline believe(me)
{
    left[me] = MAX(left[me], WORTH(me)); ok_ago[me] = 0;
    if :: since[me] > L && left[me] > T - L - 2 * M -> seen(LONGER, "a keep lifts the cap") :: else fi;
    printf("[%d] %c may count on the lock until %d\n", hour, WHO(me), hour + left[me]);
    claim(TIDELOCK, left[me] == 0 || TIDES_IN <= 1, "two tidelock clients inside their validity");
    claim(ONE, left[me] == 0 || HOLDERS <= 1, "two holders");
    if :: left[me] > 0 && before != 0 && before != WHO(me) -> seen(HANDOVER, "the lock passes from one client to another") :: else fi;
    forget(me)
}
inline vanish(me)
{
    abandon(me); left[me] = 0; tok[me] = 0; cap[me] = 0; since[me] = 0; ok_ago[me] = 0
}

proctype client(byte me)
{
    mtype said; bool shown; short stamp; /* the answer, and the stamp in it */
idle:
    atomic { fresh(me); send(me, take, false, 0) }
asking:
    if
    :: atomic { op[me] != none ->
           d_step { script_take(tok[me], with[me], val[me], age[me], said, shown, stamp) }
           if
           :: said == taken ->
               d_step {
                   since[me] = 0; cap[me] = MAX(0, T - L - 2 * M - age[me]);
                   believe(me); said = 0
               }
               if
               :: left[me] > 0 -> goto holding
               :: left[me] == 0 -> printf("[%d] %c: too late to be of use\n", hour, WHO(me)); goto cleaning
               fi
           :: said == busy && shown && JUDGED_FREE(stamp) ->
               printf("[%d] %c judges %d free\n", hour, WHO(me), hour + stamp);
               send(me, take, true, stamp); said = 0; shown = false; stamp = 0; goto asking
           :: said == busy && !shown && !S_BINDS(tok[me]) -> send(me, take, false, 0); said = 0; goto asking
           :: said == busy -> said = 0; shown = false; stamp = 0; forget(me); vanish(me); goto idle
           :: true -> printf("[%d]    the answer is lost\n", hour); said = 0; shown = false; stamp = 0; forget(me); goto unanswered
           fi }
    :: atomic { true -> abandon(me); goto unanswered }
    fi;
unanswered:
    atomic {
        if
        :: send(me, take, false, 0); goto asking
        :: true -> printf("[%d] %c gives up: uncertain\n", hour, WHO(me)); goto cleaning
        :: true -> printf("[%d] %c crashes\n", hour, WHO(me)); vanish(me); goto idle
        fi
    }
holding:
    if
    :: atomic { left[me] > 0 && op[me] == none -> send(me, keep, false, 0); goto holding }
    :: atomic { left[me] > 0 && op[me] != none ->
           d_step {
               if
               :: op[me] == take -> script_take(tok[me], with[me], val[me], age[me], said, shown, stamp);
                   if :: said == taken -> claim(STOLEN_BACK, JAVAS_IN == 0, "taken back from a Java job that is inside") :: else fi
               :: else -> script_keep(tok[me], age[me], said, shown, stamp)
               fi
           }
           if
           :: said == kept || said == taken ->
               if :: said == taken -> seen(RECLAIM, "a holder recognises a loser's stamp and takes its own back") :: else fi;
               d_step { believe(me); said = 0 } goto holding
           :: shown && A_LOSERS(me, stamp) ->
               left[me] = MIN(left[me], CUT(stamp));
               printf("[%d] %c: %d is a racing loser's; mine until %d\n", hour, WHO(me), hour + stamp, hour + left[me]);
               send(me, take, true, stamp); said = 0; shown = false; stamp = 0; goto holding
           :: shown && !A_LOSERS(me, stamp) ->
               seen(ROBBED, "a holder finds that it was robbed");
               left[me] = 0;
               printf("[%d] %c: robbed by a client whose clock read %d\n", hour, WHO(me), hour + stamp - T);
               said = 0; shown = false; stamp = 0; forget(me); goto cleaning
           :: !shown && (said == gone || said == busy) -> printf("[%d] %c has lost the lock\n", hour, WHO(me)); said = 0; forget(me); vanish(me); goto idle
           :: true -> printf("[%d]    the answer is lost\n", hour); said = 0; shown = false; stamp = 0; forget(me); goto holding
           fi }
    :: atomic { left[me] > 0 && op[me] != none -> abandon(me); goto holding }
    :: atomic { left[me] == 0 -> printf("[%d] %c has lost the lock\n", hour, WHO(me)); vanish(me); goto idle }
    :: atomic { true -> abandon(me); left[me] = 0; before = (SEE == HANDOVER -> WHO(me) : 0);
           printf("[%d] %c releases\n", hour, WHO(me)); goto cleaning }
    :: atomic { true -> printf("[%d] %c crashes\n", hour, WHO(me)); vanish(me); goto idle }
    fi;
cleaning:
    atomic { cap[me] = 0; since[me] = 0; ok_ago[me] = 0; send(me, drop, false, 0) }
    if
    :: atomic { true -> script_drop(tok[me], said); said = 0; forget(me); vanish(me); goto idle }
    :: atomic { true -> vanish(me); goto idle }
    fi
}

proctype clock()
{
    byte i;
    do
    :: d_step {
           hour = hour + STEP;
           legacy_tick();
           sure_tick();
           if :: S_tok != 0 -> AGE(S_val, FLOOR) :: else fi;
           for (i : 0 .. NB - 1) {
               DOWN(left[i]); DOWN(cap[i]);
               if :: with[i] -> AGE(val[i], FLOOR) :: else fi;
               if
               :: op[i] == take || op[i] == keep ->
                   age[i]++;
                   if :: age[i] == LIMIT -> forget(i) :: else fi /* past not_after: as good as lost */
               :: else
               fi;
               if :: since[i] > 0 || cap[i] > 0 -> UP(since[i], L + 1) :: else fi;
               if :: since[i] > L -> cap[i] = 0 :: else fi;
               if :: left[i] > 0 -> UP(ok_ago[i], TB + M) :: else -> ok_ago[i] = 0; cap[i] = 0; since[i] = 0 fi
           }
           if
           :: S_tok != 0 && S_val + M < 0 && tok[OWNER(S_tok)] != S_tok && !IN_BUFFER(S_tok) ->
               S_tok = 0; S_val = 0; sure_none() /* it binds nobody any more */
           :: else
           fi;
#if Z > 0
           if :: z_with[0] -> AGE(z_val[0], FLOOR) :: else fi;
           if
           :: z_op[0] == take || z_op[0] == keep ->
               z_age[0]++;
               if :: z_age[0] >= LIMIT -> clear() :: else fi /* past not_after: it can do nothing */
           :: else
           fi;
#endif
           i = 0
       }
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. NB - 1) { run client(i) }
#if NJ > 0
        for (i : 0 .. NJ - 1) { run java(i) }
#endif
        i = 0;
#if Z > 0
        run buffer();
#endif
        run clock()
    }
}
