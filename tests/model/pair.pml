/* Clients of phases 1, 2 and 3 (bridge, drain, token) on one key, beside the Java rule where it
 * may run. Phase 0 beside 1 is bridge.pml: see README.md.
 *
 * K holds a stamp or a token, S {token, value, until}. A client may be in another phase with
 * each request. Phases 1 and 2 take a stamp that has been free for M + L, by its exact bytes,
 * and 3 leaves it; phase 1 writes stamps, 2 and 3 tokens; a token in K is held until it
 * expires. A keep of phase 2 turns the holder's own stamp into its token, one of phase 1 keeps
 * it; a token stays a token.
 *
 * The register goes round, so that the way back is covered, too:
 *   BEFORE  phase 1 acts beside Java
 *   MIXED   phases 1, 2 and 3 act; no Java client begins, though one may still be inside
 *   BACK    phase 1 acts alone, beside tokens that are left; Java still doesn't begin
 * At most two of the phases act in truth (phase.pml); here they may all, which allows more.
 * From MIXED to BACK the leases of phase 2 end: not_after ends every request with which a
 * token would appear. From BACK to BEFORE a scan finds no token.
 *
 * Broken on purpose, one guard each:
 *   BLIND          a stamp that is judged free is taken whatever K holds by then
 *   WAIT=n         a stamp is free n ticks after it ran out (the rule: M + L)
 *   STEALS         phase 1 takes a token for a stamp that ran out, as some legacy clients do
 *   JAVA_IN_MIXED  Java goes on while phase 2 acts
 *   LATE_TURN      not_after of a keep that turns a stamp into a token is the attempt
 *                  limit alone: it isn't cut to the end of the lease
 *   NO_SCAN        Java begins as soon as the leases are over, beside tokens that are left
 *   NO_S           S doesn't bind
 * NATIVE, the server's own SET NX PX in place of the script, is pairn.pml.
 */

/*
 * Lessons (traces/pair-...):
 * - java-in-drain: the holder of a token does not allow for losers. It need not, once no Java client is left, attempts
 *   in flight included.
 * - late-turn: a keep that turns a stamp into a token counts as a take. Its not_after is the end of the lease too.
 *   Later it would turn a stamp that Java has just read as expired.
 * - steals, blind-no-s: S and the exact bytes each suffice (pair-no-s, pair-blind) among tidelock clients. Without
 *   both a stamp is taken twice. Legacy clients know no S, so they must not read a token as free.
 * - no-wait: as in bridge.pml.
 * Java may even begin beside tokens that are left (pair-no-scan): it throws until they have expired. The scan spares
 * it that.
 */
#include "time.pml"

#ifndef NB
#define NB 2
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#define TOKENS

#define ONE 1 /* never two holders, whoever they are */
#define TIDELOCK 2 /* never two tidelock clients */

#define HANDOVER 1
#define TAKEOVER 2
#define LOSER 3
#define ORPHANED 4
#define TURNED 5
#define FREED 6
#define LEFT 7
#define THROWN 8
#define RECLAIM 9
#define PAST_LEASE 10

#if NB == 1
#define TIDES_IN (left[0] > 0)
#else
#define TIDES_IN ((left[0] > 0) + (left[1] > 0))
#endif
#ifndef WAIT
#define WAIT (M + L)
#endif
#define OLDEST (WAIT + 2)
#define HOLDERS (JAVAS_IN + TIDES_IN)
#define j_robs(me) skip

mtype = { before_, mixed, back };
mtype stage = before_;
#ifdef JAVA_IN_MIXED
#define JAVA_MAY_START (stage != back)
#elif defined NO_SCAN
#define JAVA_MAY_START (stage != mixed)
#else
#define JAVA_MAY_START (stage == before_)
#endif

byte left[NB];
byte before; /* who released last; only for SEE */
byte K_tok;  /* 0: K holds a stamp, K_e; else this token for K_e ticks */

#include "legacy.pml"

#ifdef NATIVE
#define OWN 3
#else
#define OWN 2
#endif
#define OWNER(t) (((t) - 1) / OWN)

mtype = { none, take, keep, drop };
mtype = { taken, busy, kept, other, gone, dropped };

byte S_tok;
bool S_is;    /* S.value is the token, not a stamp */
short S_till; /* it binds until then; of a stamp that is M past it */
#define S_STAMP (S_till - M)
#ifdef NATIVE
#define IS_MINE(t) (K_here && K_tok == (t) || S_tok == (t) && K_here && !S_is && K_tok == 0 && K_e == S_STAMP)
#else
#define IS_MINE(t) (S_tok == (t) && K_here && (S_is && K_tok == (t) || !S_is && K_tok == 0 && K_e == S_STAMP))
#endif
#ifdef NO_S
#define S_BINDS(t) false
#else
#define S_BINDS(t) (S_tok != 0 && S_tok != (t) && (S_till > 0 || !S_is && S_till == 0))
#endif
#define SHOWS_STAMP (K_here && K_tok == 0)
#ifdef BLIND
#define AS_EXPECTED(x) (K_here && K_tok == 0)
#else
#define AS_EXPECTED(x) (K_here && K_tok == 0 && K_e == (x))
#endif

mtype op[NB] = none;
bool with[NB]; /* a take expects a stamp in K, this one; otherwise it expects none */
short val[NB];
bool as[NB];   /* it writes the token; otherwise a stamp */
byte age[NB];  /* ticks since the sending */
byte tok[NB];
bool is[NB];   /* what it holds is a token */
byte cap[NB], since[NB]; /* as in bridge.pml */
byte ok_ago[NB];
#ifdef NATIVE
bool native[NB], past[NB]; /* it is SET NX PX; sent under a lease that has ended */
#define NATIVE_TAKE(me) native[me]
#else
#define NATIVE_TAKE(me) false
#endif

inline tell()
{
    if
    :: SHOWS_STAMP -> printf("K = %d\n", hour + K_e)
    :: K_here && K_tok != 0 -> printf("K = token #%d until %d\n", K_tok, hour + K_e)
    :: else -> printf("K is absent\n")
    fi
}
inline appears()
{
#ifdef PAIRN
    claim(CLEAN, stage != before_, "a token appears although Java may begin")
#else
    skip
#endif
}
inline put(t, a, g)
{
    K_here = true; S_tok = t; S_is = a;
    if
    :: a -> K_tok = t; K_e = T; S_till = T; appears()
    :: else -> K_tok = 0; K_e = T - (g); S_till = T - (g) + M
    fi
}
/* ---- the scripts ---- */
inline script_take(t, w, x, g, how, a, aw, ax)
{
    if
    :: IS_MINE(t) -> a = taken; printf("[%d] server: take #%d: already yours, ", hour, t); tell()
    :: !IS_MINE(t) && g < LIMIT && (!w && !K_here || w && AS_EXPECTED(x)) && !S_BINDS(t) ->
        if :: w && how -> seen(FREED, "a token takes the place of a free stamp") :: else fi;
        put(t, how, g); a = taken; printf("[%d] server: take #%d: taken, ", hour, t); tell()
#ifdef STEALS
    :: !IS_MINE(t) && g < LIMIT && !how && K_here && K_tok != 0 && !S_BINDS(t) ->
        put(t, how, g); a = taken; printf("[%d] server: take #%d over a token: taken, ", hour, t); tell()
#endif
    :: else ->
        a = busy; aw = SHOWS_STAMP; ax = (SHOWS_STAMP -> K_e : 0);
        printf("[%d] server: take #%d: busy, ", hour, t); tell();
        if :: K_here && K_tok != 0 && stage == back -> seen(LEFT, "phase 1 finds a token that is left") :: else fi
    fi
}
#ifdef NATIVE
inline native_take(t, a)
{
    if
    :: !K_here -> /* S is for the client to look at */
        K_here = true; K_tok = t; K_e = T; appears();
        a = (S_BINDS(t) -> gone : taken);
        printf("[%d] server: SET NX PX #%d: OK, ", hour, t); tell()
    :: else -> a = busy; printf("[%d] server: SET NX PX #%d: nil, ", hour, t); tell()
    fi
}
#endif
inline script_keep(t, g, how, a, aw, ax)
{
    if
    :: IS_MINE(t) && g < LIMIT ->
        if
        :: (how -> T : T - (g) + M) > S_till ->
            if :: how && !S_is -> seen(TURNED, "a keep turns a stamp into a token") :: else fi;
            if
            :: how || !S_is -> put(t, how, g)
            :: else -> S_till = T - (g) + M; K_e = MAX(K_e, S_till) /* a token stays one */
            fi
        :: else
        fi;
        a = kept; printf("[%d] server: keep #%d: kept, ", hour, t); tell()
    :: S_tok == t && SHOWS_STAMP && !IS_MINE(t) -> a = other; aw = true; ax = K_e; printf("[%d] server: keep #%d: not yours, ", hour, t); tell()
    :: else -> a = gone; printf("[%d] server: keep #%d: it is gone, or too late\n", hour, t)
    fi
}
inline script_drop(t, a)
{
    if :: IS_MINE(t) -> K_here = false; K_e = 0; K_tok = 0 :: else fi;
    if :: S_tok == t -> S_tok = 0; S_is = false; S_till = 0 :: else fi;
    a = dropped; printf("[%d] server: drop #%d: ", hour, t); tell()
}

/* ---- the wires ---- */
inline forget(me)
{
    op[me] = none; with[me] = false; val[me] = 0; age[me] = 0; as[me] = false;
#ifdef NATIVE
    native[me] = false; past[me] = false
#endif
}
#define TOKENS_APPEAR (stage == mixed)
inline send(me, what, w, x)
{
    op[me] = what; with[me] = w; val[me] = x; age[me] = 0;
    if
    :: what == drop
    :: what == take
    :: what == keep && !is[me]
    :: what == take && TOKENS_APPEAR -> as[me] = true
    :: what == keep && (TOKENS_APPEAR || is[me]) -> as[me] = true
    fi;
    if
    :: what == drop -> printf("[%d] %c sends drop #%d\n", hour, WHO(me), tok[me])
    :: what != drop && as[me] -> printf("[%d] %c sends %e #%d: a token\n", hour, WHO(me), op[me], tok[me])
    :: what != drop && !as[me] -> printf("[%d] %c sends %e #%d: stamp %d\n", hour, WHO(me), op[me], tok[me], hour + T)
    fi
}
inline abandon(me)
{
    if
    :: op[me] != none -> printf("[%d]    %c's %e #%d is lost\n", hour, WHO(me), op[me], tok[me])
    :: else
    fi;
    forget(me)
}

/* ---- a client ---- */
#ifdef NATIVE
#ifdef CHECKED
#define TRUSTS(me) (!past[me])
#else
#define TRUSTS(me) true
#endif
#define KNOWN(t) (S_tok == (t) || K_tok == (t))
inline fresh(me)
{
    tok[me] = me * OWN + 1;
    do
    :: KNOWN(tok[me]) -> tok[me]++
    :: else -> break
    od
}
inline serve_take(me)
{
    if
    :: native[me] -> native_take(tok[me], said)
    :: else -> script_take(tok[me], with[me], val[me], age[me], as[me], said, shown, stamp)
    fi
}
#else
#define TRUSTS(me) true
#define fresh(me) tok[me] = (S_tok == me * OWN + 1 -> me * OWN + 2 : me * OWN + 1)
#define serve_take(me) script_take(tok[me], with[me], val[me], age[me], as[me], said, shown, stamp)
#endif
#define CAPPED(me) (since[me] <= L)
#define WORTH(me) (K_tok != 0 -> MAX(0, K_e - age[me]) : MAX(0, MIN(K_e - age[me] - M, (CAPPED(me) -> cap[me] : T))))
#define JUDGED_FREE(x) ((x) + 1 + WAIT < 0)
#define A_LOSERS(me, x) (left[me] > 0 && !is[me] && (x) - T <= M - ok_ago[me])

inline believe(me)
{
    left[me] = MAX(left[me], WORTH(me)); ok_ago[me] = 0; is[me] = K_tok != 0;
    printf("[%d] %c may count on the lock until %d\n", hour, WHO(me), hour + left[me]);
    claim(TIDELOCK, left[me] == 0 || TIDES_IN <= 1, "two tidelock clients inside their validity");
    claim(ONE, left[me] == 0 || HOLDERS <= 1, "two holders");
    if :: left[me] > 0 && before != 0 && before != WHO(me) -> seen(HANDOVER, "the lock passes from one client to another") :: else fi;
    forget(me)
}
inline vanish(me)
{
    abandon(me); left[me] = 0; tok[me] = 0; is[me] = false; cap[me] = 0; since[me] = 0; ok_ago[me] = 0
}

proctype client(byte me)
{
    mtype said; bool shown; short stamp;
idle:
    atomic { fresh(me); send(me, take, false, 0)
#ifdef NATIVE
        ; native[me] = as[me]
#endif
    }
asking:
    if
    :: atomic { op[me] != none ->
           d_step { serve_take(me) }
           if
           :: said == gone || said == taken && !TRUSTS(me) -> said = 0; forget(me); goto cleaning
           :: said == taken && TRUSTS(me) ->
               d_step { since[me] = 0; cap[me] = MAX(0, T - L - 2 * M - age[me]); believe(me); said = 0 }
               if
               :: left[me] > 0 -> goto holding
               :: left[me] == 0 -> goto cleaning
               fi
           :: said == busy && shown && JUDGED_FREE(stamp) -> /* phase 3 goes on below */
               printf("[%d] %c judges %d free\n", hour, WHO(me), hour + stamp);
               send(me, take, true, stamp); said = 0; shown = false; stamp = 0; goto asking
           :: said == busy -> said = 0; shown = false; stamp = 0; vanish(me); goto idle
           :: true -> printf("[%d]    the answer is lost\n", hour); said = 0; shown = false; stamp = 0; forget(me); goto unanswered
           fi }
    :: atomic { true -> abandon(me); goto unanswered }
    fi;
unanswered:
    atomic {
        if
        :: send(me, take, false, 0); goto asking
        :: true -> goto cleaning
        :: true -> printf("[%d] %c crashes\n", hour, WHO(me)); vanish(me); goto idle
        fi
    }
holding:
    if
    :: atomic { left[me] > 0 && op[me] == none -> send(me, keep, false, 0); goto holding }
    :: atomic { left[me] > 0 && op[me] != none ->
           d_step {
               if
               :: op[me] == take -> script_take(tok[me], with[me], val[me], age[me], as[me], said, shown, stamp)
               :: else -> script_keep(tok[me], age[me], as[me], said, shown, stamp)
               fi
           }
           if
           :: said == kept || said == taken ->
               if :: said == taken -> seen(RECLAIM, "a holder recognises a loser's stamp and takes its own back") :: else fi;
               d_step { believe(me); said = 0 } goto holding
           :: shown && A_LOSERS(me, stamp) ->
               left[me] = MIN(left[me], MAX(0, stamp - M));
               printf("[%d] %c: %d is a racing loser's; mine until %d\n", hour, WHO(me), hour + stamp, hour + left[me]);
               send(me, take, true, stamp); said = 0; shown = false; stamp = 0; goto holding
           :: (shown && !A_LOSERS(me, stamp)) || (!shown && (said == gone || said == busy)) ->
               printf("[%d] %c has lost the lock\n", hour, WHO(me));
               said = 0; shown = false; stamp = 0; forget(me); vanish(me); goto idle
           :: true -> printf("[%d]    the answer is lost\n", hour); said = 0; shown = false; stamp = 0; forget(me); goto holding
           fi }
    :: atomic { left[me] > 0 && op[me] != none -> abandon(me); goto holding }
    :: atomic { left[me] == 0 -> vanish(me); goto idle }
    :: atomic { true -> abandon(me); left[me] = 0; before = (SEE == HANDOVER -> WHO(me) : 0); goto cleaning }
    :: atomic { true -> printf("[%d] %c crashes\n", hour, WHO(me)); vanish(me); goto idle }
    fi;
cleaning:
    atomic { cap[me] = 0; since[me] = 0; ok_ago[me] = 0; is[me] = false; send(me, drop, false, 0) }
    if
    :: atomic { true -> script_drop(tok[me], said); said = 0; forget(me); vanish(me); goto idle }
    :: atomic { true -> vanish(me); goto idle }
    fi
}

#ifdef PAIRN
proctype passer_by()
{
    do
    :: d_step { SHOWS_STAMP && JUDGED_FREE(K_e) && !S_BINDS(0) ->
           K_here = false; K_e = 0;
           printf("[%d] another client takes the free stamp over, and releases\n", hour) }
    od
}
#endif

/* ---- the register, by what its lease makes certain ---- */
#ifdef LATE_TURN
#define TURNS(i) false
#else
#define TURNS(i) (op[i] == keep && !is[i])
#endif
#if NJ == 0
#define NO_JAVA true
#elif NJ == 1
#define NO_JAVA (j_lag[0] == 0)
#else
#define NO_JAVA (j_lag[0] == 0 && j_lag[1] == 0)
#endif
#ifdef JAVA_IN_MIXED
#define NONE_ASKS true
#else
#define NONE_ASKS NO_JAVA
#endif
#ifdef NO_SCAN
#define SCANNED true
#else
#define SCANNED (K_tok == 0)
#endif
proctype register()
{
    byte i;
    do
    :: d_step { stage != mixed && NONE_ASKS -> stage = mixed; printf("[%d] phase 2 acts, too\n", hour) }
    :: d_step { stage == mixed ->
           stage = back; printf("[%d] phase 1 acts, the leases of phase 2 are over\n", hour);
           for (i : 0 .. NB - 1) {
               if
               :: as[i] && (op[i] == take || TURNS(i)) && !NATIVE_TAKE(i) -> printf("[%d]    %c's %e is past its not_after\n", hour, WHO(i), op[i]); forget(i);
                   seen(PAST_LEASE, "a request is refused past the end of its lease")
#ifdef NATIVE
               :: native[i] -> past[i] = true
#endif
               :: else
               fi
           }
           i = 0 }
    :: d_step { stage == back && SCANNED -> stage = before_; printf("[%d] Java may begin\n", hour) }
    od
}

proctype clock()
{
    byte i;
    do
    :: d_step {
           hour = hour + STEP;
           legacy_tick();
           if :: S_tok != 0 -> AGE(S_till, FLOOR) :: else fi;
           for (i : 0 .. NB - 1) {
               DOWN(left[i]); DOWN(cap[i]);
               if :: with[i] -> AGE(val[i], FLOOR) :: else fi;
               if
               :: op[i] == take || op[i] == keep ->
                   age[i]++;
                   if :: age[i] == LIMIT -> forget(i) :: else fi
               :: else
               fi;
               if :: since[i] > 0 || cap[i] > 0 -> UP(since[i], L + 1) :: else fi;
               if :: since[i] > L -> cap[i] = 0 :: else fi;
               if :: left[i] > 0 -> UP(ok_ago[i], T + M) :: else -> ok_ago[i] = 0; cap[i] = 0; since[i] = 0 fi
           }
           i = 0;
           if
           :: S_tok != 0 && S_till < 0 && tok[OWNER(S_tok)] != S_tok -> S_tok = 0; S_is = false; S_till = 0 /* it binds nobody */
           :: else
           fi
       }
    od
}

init
{
    byte i;
    atomic {
        run register();
        for (i : 0 .. NB - 1) { run client(i) }
#ifdef PAIRN
        run passer_by();
#endif
#if NJ > 0
        for (i : 0 .. NJ - 1) { run java(i) }
#endif
        i = 0;
        run clock()
    }
}
