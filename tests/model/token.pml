/* The token protocol on one server.
 *
 * Clients take, keep and drop one lock. Each request can be lost, can be executed
 * and its answer lost, or can lie in a buffer after its sender stopped listening
 * and be executed much later. A client can pause anywhere (it just isn't scheduled),
 * crash, give up, ask again with the same token, extend to a shorter lifetime, or
 * release. Its deadline clock may run slow by DRIFT ticks in a lifetime.
 *
 * Broken on purpose, one guard each:
 *   FULL_ON_RETRY  an answer "already yours" counts T, not what K really has left
 *   FROM_RECEIPT   the deadline counts from the answer instead of the request
 *   NO_DRIFT       the drift of the deadline clock isn't subtracted
 *   KEEP_SHORTENS  a keep sets K's expiry even when that moves it back
 *   KEEP_CREATES   a keep sets K again when it is gone
 *   KEEP_BLIND     a keep matches S only, whatever K holds
 *   DROP_BLIND     a drop deletes K without comparing
 *   NO_NOT_AFTER   take is executed whenever it arrives
 *   REFUSE_FIRST   a late take is refused even when K is its own already
 *   LATE_KEEPS     keep is executed whenever it arrives
 *   NO_SPENT       a token that was dropped can be taken again
 *   NO_S           take looks at K alone
 *   FORGETS=n      S, which binds nobody, is forgotten n ticks after a drop (LIMIT suffices)
 *   TRUST_BUSY     an answer "busy" counts as final even while an unanswered take of
 *                  the same token may still be executed
 *   TRUST_SPENT    so does the answer to a drop, relying on S's `spent` alone
 * Misfortunes:
 *   HAND_DELETES   somebody deletes K by hand
 *   JUMP           the server's clock may leap forward by that many ticks
 *   FAILOVER       a replica that misses the last writes takes over; QUIET: it grants
 *                  nothing until T has passed
 *   PLAIN          one more client that speaks SET NX PX and compare-and-delete only
 * Sizes: N clients in full detail, RIVAL (one more that stands for all the others), Z
 * buffers; SIMPLE leaves out the book-keeping of FREE, WATCH_ORPHANS adds ORPHAN's.
 */

/*
 * Lessons of the counter-examples (traces/token-...):
 * - failover, clock-leap: documented as unsafe. A replica without the acquire grants again; T of silence after the
 *   failover prevents it (token-quiet). A leap of the server's clock expires a lock on which its holder still relies.
 * - from-receipt, full-on-retry, no-drift: the deadline counts from the sending, by the lifetime that K really has
 *   left, less the drift.
 * - keep-shortens: a keep for less that arrives after a keep for more takes the lock from its holder. The holder
 *   cannot prevent that by care while both are in flight.
 * - drop-blind, keep-blind, hand-no-s: a drop compares. A keep compares K and S. A take asks S when K does not exist.
 * - no-not-after, late-orphan: without not_after exclusion holds. But a take succeeds for a client that was refused,
 *   and an orphan appears much later.
 * - keep-orphan, keep-creates: a late keep prolongs the lock of a client that has left. A keep that creates K revives
 *   an expired lock.
 * - trust-busy: a "busy" for the second request says nothing about the first, which may still be executed.
 * - trust-spent: `spent` holds one token, and the next client's drop replaces it. The TIME of the reply decides, and
 *   suffices (token-no-spent). `spent` only avoids most orphans.
 * - spent-short: S must outlast the not_after of all takes of the token that was dropped. Then it may go (spent-goes),
 *   as each late take is refused by the one or the other.
 * - refuse-first: a late repeated take must still learn that the lock is its own. Otherwise a client reports "not
 *   acquired" and holds.
 */
#include "time.pml"

#ifndef N
#define N 1 /* tidelock clients in full detail, 1 or 2 */
#endif
#ifndef Z
#define Z 2 /* requests in buffers whose senders no longer listen */
#endif
#ifndef T
#define T 3 /* the lock's lifetime */
#endif
#define BRIEF 2 /* the shorter lifetime that a holder may extend to */
#ifndef LIMIT
#define LIMIT 2 /* attempt limit: not_after is that long after the sending */
#endif
#define DRIFT 1

/* claims */
#define ONE 1    /* never two clients inside their own validity */
#define FREE 2   /* what was reported released, or not acquired, is never held again */
#define ORPHAN 3 /* nothing is left of a client LIMIT + T after it moved on */
#define AGAIN 4  /* the token that was dropped last isn't taken again */

/* events that must be possible */
#define HANDOVER 1
#define TAKEOVER 2
#define YOURS 3
#define REFUSED 4
#define SPENT 5
#define NOT_BACK 6
#define LATE_KEEP 7
#define FAILED_OVER 8
#define PLAIN_HELD 9
#define FORGOT 10

#define OWN (Z + 5)         /* tokens of one client before the first can be used again */
#define OWNER(t) (((t) - 1) / OWN)
#define STRANGER (N * OWN + 1) /* the plain client's token */
#define RIVALS (N * OWN + 2)   /* any token of the rival */
#define NT (N * OWN + 3)

mtype = { none, take, keep, drop };
mtype = { sent, taken, busy, kept, gone, dropped };

/* the server */
byte K_tok, K_left;         /* K and its ticks to live */
byte S_tok, S_left, S_spent; /* S_left: ticks to `until` */
#ifdef FAILOVER
byte R_K_tok, R_K_left, R_S_tok, R_S_left, R_spent; /* what the replica has seen */
byte quiet;
bool failed_over;
#endif

/* One line to the server for each client: its newest request and the answer. */
mtype op[N] = none, ans[N];
byte life[N];  /* the lifetime asked for */
byte age[N];   /* ticks since it was sent, until it is executed */
byte worth[N]; /* then: ticks of validity that the answer is worth, running out while it
                  travels; or, to busy and dropped, 1 if nothing can be executed any more */

/* requests in buffers */
mtype z_op[Z + 1] = none;
byte z_tok[Z + 1], z_life[Z + 1], z_na[Z + 1];

/* the clients */
byte tok[N], left[N]; /* present token; ticks of validity left */
byte unsure[N];       /* ticks in which an unanswered take of this token may yet be executed */
byte rival_left, plain_left, plain_age;
bool plain_asked, plain_got;

/* book-keeping of the claims */
#ifdef FORGETS
byte spent_left, last_dropped; /* ticks for which S remembers S_spent; and which token that was */
#endif
bool done[NT];      /* reported as released or not acquired */
#ifdef WATCH_ORPHANS
byte watched, gone_for; /* any one token, and the ticks since its client moved on */
#endif
byte before;        /* who held last; only for SEE */
byte tidy_i;
mtype rival_answer;

#define HELD(i) (left[i] > 0)
#if N == 1
#define HOLDERS (HELD(0) + (rival_left > 0) + (plain_left > 0))
#else
#define HOLDERS (HELD(0) + HELD(1) + (rival_left > 0) + (plain_left > 0))
#endif
#if Z == 0
#define IN_BUFFER(t) false
#define ROOM false
#elif Z == 1
#define IN_BUFFER(t) (z_tok[0] == (t))
#define ROOM (z_op[0] == none)
#else
#define IN_BUFFER(t) (z_tok[0] == (t) || z_tok[1] == (t))
#define ROOM (z_op[0] == none || z_op[1] == none)
#endif
#ifdef FAILOVER
#define ON_REPLICA(t) (R_K_tok == (t) || R_S_tok == (t) || R_spent == (t))
#else
#define ON_REPLICA(t) false
#endif
#ifdef FORGETS
#define LAST_DROPPED(t) (last_dropped == (t))
#else
#define LAST_DROPPED(t) false
#endif
#define KNOWN(t) (K_tok == (t) || S_tok == (t) || S_spent == (t) || IN_BUFFER(t) || ON_REPLICA(t) || LAST_DROPPED(t))

#ifdef WATCH_ORPHANS
#define WATCHED(t) (watched == (t))
#else
#define WATCHED(t) false
#endif

#ifdef NO_NOT_AFTER
#define TOO_LATE(g) false
#else
#define TOO_LATE(g) ((g) >= LIMIT)
#endif
#if defined NO_NOT_AFTER || defined LATE_KEEPS
#define OLD T /* after which no answer is worth anything */
#else
#define OLD LIMIT /* after which nothing is executed any more */
#endif
#ifdef FROM_RECEIPT
#define TRAVEL(x) skip
#else
#define TRAVEL(x) DOWN(x)
#endif
#ifdef REFUSE_FIRST
#define REFUSED_FIRST(g) TOO_LATE(g)
#else
#define REFUSED_FIRST(g) false
#endif
#ifdef LATE_KEEPS
#define KEEP_TOO_LATE(g) false
#else
#define KEEP_TOO_LATE(g) ((g) >= LIMIT)
#endif
#ifdef NO_SPENT
#define IS_SPENT(t) false
#else
#define IS_SPENT(t) (S_spent == (t))
#endif
#ifdef NO_S
#define S_ALLOWS(t) true
#else
#define S_ALLOWS(t) (S_tok == 0 || S_tok == (t) || S_left == 0)
#endif
#if defined KEEP_BLIND
#define K_SUITS_KEEP(t) true
#elif defined KEEP_CREATES
#define K_SUITS_KEEP(t) (K_tok == (t) || K_tok == 0)
#else
#define K_SUITS_KEEP(t) (K_tok == (t))
#endif
#ifdef KEEP_SHORTENS
#define KEPT(l) (l)
#define MEANWHILE(x) x = MIN(x, BRIEF) /* a careful client counts on the shorter one at once */
#else
#define MEANWHILE(x) skip
#define KEPT(l) MAX(K_left, l)
#endif
#ifdef QUIET
#define MAY_GRANT (quiet == 0)
#else
#define MAY_GRANT true
#endif

/* ---- the scripts: t the token, l its lifetime, g ticks since it was sent; a the answer ---- */
inline grant(t)
{
    if :: S_tok != 0 && S_tok != t -> seen(TAKEOVER, "an expired lock is taken over") :: else fi;
    K_tok = t; K_left = T; S_tok = t; S_left = T;
#ifdef FORGETS
    claim(AGAIN, t != last_dropped, "the token that was dropped last is taken again");
#endif
    printf("[%d] server: take #%d: taken until %d\n", hour, t, hour + T)
}
inline script_take(t, g, a)
{
    if
    :: S_tok == t && K_tok == t && !REFUSED_FIRST(g) -> /* said even past not_after: it changes nothing, and its sender must know */
        a = taken; printf("[%d] server: take #%d: already yours until %d\n", hour, t, hour + K_left)
    :: else ->
        if
        :: TOO_LATE(g) ->
            a = busy; printf("[%d] server: take #%d refused, past its not_after\n", hour, t);
            seen(REFUSED, "a late take is refused")
        :: !TOO_LATE(g) && IS_SPENT(t) ->
            a = busy; printf("[%d] server: take #%d refused, it was dropped before\n", hour, t);
            seen(SPENT, "a dropped token isn't taken again")
        :: !TOO_LATE(g) && !IS_SPENT(t) && K_tok == 0 && S_ALLOWS(t) && MAY_GRANT ->
            grant(t); a = taken;
            claim(FREE, !done[t], "taken for a client that was told it is finished")
        :: else ->
            a = busy; printf("[%d] server: take #%d: busy, #%d holds\n", hour, t, (K_tok -> K_tok : S_tok))
        fi
    fi
}
inline script_keep(t, l, g, a)
{
    if
    :: !KEEP_TOO_LATE(g) && S_tok == t && K_SUITS_KEEP(t) ->
        if :: K_left > l -> seen(NOT_BACK, "a keep with a shorter lifetime leaves the expiry") :: else fi;
        K_left = KEPT(l);
        K_tok = t; S_left = K_left; a = kept;
        printf("[%d] server: keep #%d: kept until %d\n", hour, t, hour + K_left)
    :: else ->
        a = gone; printf("[%d] server: keep #%d: not yours, or too late\n", hour, t)
    fi
}
inline script_drop(t, a)
{
#ifdef DROP_BLIND
    K_tok = 0; K_left = 0; S_tok = 0; S_left = 0;
#else
    if :: K_tok == t && S_tok == t -> K_tok = 0; K_left = 0 :: else fi;
    if :: S_tok == t -> S_tok = 0; S_left = 0 :: else fi;
#endif
    S_spent = t; a = dropped;
#ifdef FORGETS
    spent_left = FORGETS; last_dropped = (t == RIVALS -> 0 : t);
#endif
    printf("[%d] server: drop #%d: #%d is in K now\n", hour, t, K_tok)
}
inline serve(o, t, l, g, a)
{
    if
    :: o == take -> script_take(t, g, a)
    :: o == keep -> script_keep(t, l, g, a)
    :: o == drop -> script_drop(t, a)
    fi
}

/* A token that nobody knows any more is forgotten, so that it can be used again. */
inline tidy()
{
    for (tidy_i : 1 .. N * OWN) {
        if :: !KNOWN(tidy_i) && tok[OWNER(tidy_i)] != tidy_i -> done[tidy_i] = false :: else fi
    }
#ifdef WATCH_ORPHANS
    if :: !KNOWN(watched) -> watched = 0; gone_for = 0 :: else fi;
#endif
    tidy_i = 0
}

/* ---- the wires ---- */
inline send(me, what, l)
{
    op[me] = what; ans[me] = sent; life[me] = l;
    printf("[%d] %c sends %e #%d for %d\n", hour, WHO(me), what, tok[me], l)
}
inline forget(me) { op[me] = none; ans[me] = 0; life[me] = 0; age[me] = 0; worth[me] = 0 }

inline put_aside(k, me)
{
    z_op[k] = op[me]; z_tok[k] = tok[me]; z_life[k] = (op[me] == keep -> life[me] : 0);
    z_na[k] = (op[me] == drop -> 0 : LIMIT - MIN(age[me], LIMIT))
}
inline clear(k)
{
    z_op[k] = none; z_tok[k] = 0; z_life[k] = 0; z_na[k] = 0;
#if Z > 1
    if
    :: k == 0 -> /* the buffers' order means nothing: keep the first one full */
        z_op[0] = z_op[1]; z_tok[0] = z_tok[1]; z_life[0] = z_life[1]; z_na[0] = z_na[1];
        z_op[1] = none; z_tok[1] = 0; z_life[1] = 0; z_na[1] = 0
    :: else
    fi;
#endif
    tidy()
}

/* Nobody waits for the answer any more. The request may be lost, or lie in a buffer. */
inline abandon(me)
{
#ifndef SIMPLE
    if
    :: op[me] == take && ans[me] == sent -> unsure[me] = MAX(unsure[me], LIMIT - MIN(age[me], LIMIT))
    :: else
    fi;
#endif
    if
    :: ans[me] == sent && ROOM ->
        printf("[%d]    %c's %e #%d lies in a buffer\n", hour, WHO(me), op[me], tok[me]);
        if
        :: z_op[0] == none -> put_aside(0, me)
#if Z > 1
        :: z_op[0] != none && z_op[1] == none -> put_aside(1, me)
#endif
        fi
    :: op[me] != none -> printf("[%d]    %c's %e #%d or its answer is lost\n", hour, WHO(me), op[me], tok[me])
    :: op[me] == none
    fi;
    forget(me)
}

/* What an answer is worth at its execution: the deadline of the rules less the present, on the
 * slowest clock allowed. A client with a faster one only stops earlier, as it may anyway. */
#ifdef FULL_ON_RETRY
#define LIFE_LEFT(me, pttl) life[me]
#else
#define LIFE_LEFT(me, pttl) MIN(life[me], pttl)
#endif
#ifdef NO_DRIFT
#define SPARED 0
#else
#define SPARED DRIFT
#endif
#define WORTH(me, pttl) MAX(0, LIFE_LEFT(me, pttl) - age[me] - SPARED + DRIFT)
#define CERTAIN(me) (unsure[me] == 0) /* the answer's TIME is past every unanswered take's not_after */
#ifdef TRUST_SPENT
#define DROP_IS_FINAL(me) true
#else
#define DROP_IS_FINAL(me) CERTAIN(me)
#endif
#ifdef TRUST_BUSY
#define BUSY_IS_FINAL(me) true
#else
#define BUSY_IS_FINAL(me) CERTAIN(me)
#endif
inline settle(me)
{
    if
    :: ans[me] == taken || ans[me] == kept -> worth[me] = WORTH(me, K_left)
    :: ans[me] == busy -> worth[me] = BUSY_IS_FINAL(me)
    :: ans[me] == dropped -> worth[me] = DROP_IS_FINAL(me)
    :: else
    fi;
    age[me] = 0; life[me] = 0
}

proctype line(byte me)
{
    do
    :: d_step { ans[me] == sent ->
           serve(op[me], tok[me], life[me], age[me], ans[me]);
           if :: ans[me] == taken && K_left < T && K_left > age[me] -> seen(YOURS, "a second ask finds the lock its own") :: else fi;
           settle(me) }
    od
}

proctype buffer(byte k)
{
    mtype a;
    do
    :: d_step { z_op[k] != none ->
           printf("[%d] a late request arrives:\n", hour);
           serve(z_op[k], z_tok[k], z_life[k], LIMIT - z_na[k], a);
           if :: a == kept -> seen(LATE_KEEP, "a late keep extends the lock") :: else fi;
           clear(k); a = 0 }
    :: d_step { z_op[k] != none -> clear(k) } /* lost */
    od
}

/* ---- a client ---- */
inline fresh(me)
{
    tok[me] = me * OWN + 1;
    do
    :: KNOWN(tok[me]) || WATCHED(tok[me]) -> tok[me]++
    :: else -> break
    od;
    done[tok[me]] = false
}

inline believe(me)
{
    left[me] = MAX(left[me], worth[me]);
    forget(me);
    printf("[%d] %c may count on the lock until %d\n", hour, WHO(me), hour + left[me]);
    claim(ONE, HOLDERS <= 1, "two clients inside their validity");
    if
    :: SEE != 0 && HELD(me) && before != 0 && before != me + 1 -> seen(HANDOVER, "the lock passes from one client to another")
    :: else
    fi
}

inline move_on(me)
{
#ifdef WATCH_ORPHANS
    if
    :: watched == 0 -> watched = tok[me]
    :: true
    fi;
#endif
    tok[me] = 0; unsure[me] = 0; tidy()
}
/* The client tells its caller for certain that it has nothing, and moves on. */
inline finish(me)
{
#ifndef SIMPLE
    done[tok[me]] = true;
    claim(FREE, K_tok != tok[me], "reported finished, yet still held");
#endif
    move_on(me)
}
/* The client moves on without certainty: crashed, lost the lock, or cleaned up in vain. */
inline vanish(me)
{
    abandon(me); left[me] = 0; move_on(me)
}
proctype client(byte me)
{
idle:
    atomic { fresh(me); send(me, take, T) }
asking:
    if
    :: atomic { ans[me] == taken -> believe(me);
           if
           :: HELD(me) -> goto holding
           :: else -> printf("[%d] %c: too late to be of use\n", hour, WHO(me)); goto cleaning
           fi }
    :: atomic { ans[me] == busy ->
           if
           :: worth[me] -> forget(me); printf("[%d] %c gives up: not acquired\n", hour, WHO(me)); finish(me); goto idle
           :: !worth[me] -> forget(me); goto cleaning
           :: forget(me); send(me, take, T); goto asking
           fi }
    :: atomic { true -> abandon(me);
           if
           :: send(me, take, T); goto asking
           :: printf("[%d] %c gives up: uncertain\n", hour, WHO(me)); goto cleaning
           fi }
    :: atomic { true -> printf("[%d] %c crashes\n", hour, WHO(me)); vanish(me); goto idle }
    fi;
holding:
    if
    :: atomic { HELD(me) && op[me] == none -> send(me, keep, T) ; goto holding }
    :: atomic { HELD(me) && op[me] == none -> send(me, keep, BRIEF); MEANWHILE(left[me]); goto holding }
    :: atomic { HELD(me) && ans[me] == kept -> believe(me); goto holding }
    :: atomic { ans[me] == gone || !HELD(me) -> printf("[%d] %c has lost the lock\n", hour, WHO(me)); vanish(me); goto idle }
    :: atomic { HELD(me) && op[me] != none -> abandon(me); goto holding }
    :: atomic { true -> abandon(me); left[me] = 0; if :: SEE != 0 -> before = me + 1 :: else fi;
           printf("[%d] %c releases\n", hour, WHO(me)); goto cleaning }
    :: atomic { true -> printf("[%d] %c crashes\n", hour, WHO(me)); vanish(me); goto idle }
    fi;
cleaning:
    atomic { send(me, drop, 0) }
    if
    :: atomic { ans[me] == dropped ->
           if
           :: worth[me] -> forget(me); printf("[%d] %c: finished for certain\n", hour, WHO(me)); finish(me); goto idle
           :: else -> forget(me); goto cleaning
           fi }
    :: atomic { true -> abandon(me); goto cleaning }
    :: atomic { true -> printf("[%d] %c stops cleaning up\n", hour, WHO(me)); vanish(me); goto idle }
    fi
}

/* ---- others ---- */
#ifdef RIVAL
/* The rival stands for all the other clients: it holds as soon as the server grants and for
 * as long as the server keeps K for it, extends, releases and crashes when it likes. No
 * client that obeys the rules can hold longer, so what is safe beside it is safe beside them. */
#define RIVAL_TAKES (K_tok == 0 && (S_tok == 0 || S_ALLOWS(0) && S_left == 0) && MAY_GRANT)
proctype rival()
{
    do
    :: d_step { rival_left == 0 && RIVAL_TAKES ->
           grant(RIVALS); rival_left = T;
           printf("[%d] %c takes: counts on the lock until %d\n", hour, WHO(N), hour + rival_left);
           claim(ONE, HOLDERS <= 1, "two clients inside their validity");
           if :: before == 1 -> seen(HANDOVER, "the lock passes from one client to another") :: else fi }
    :: d_step { rival_left > 0 && K_tok == RIVALS && S_tok == RIVALS -> K_left = T; S_left = T; rival_left = T }
    :: d_step { rival_left > 0 -> rival_left = 0; script_drop(RIVALS, rival_answer); rival_answer = 0; tidy();
           printf("[%d] %c releases\n", hour, WHO(N)) }
    :: d_step { rival_left > 0 -> rival_left = 0; printf("[%d] %c crashes\n", hour, WHO(N)) }
    od
}
#endif

#ifdef PLAIN
proctype plain()
{
    do
    :: d_step { !plain_asked && plain_left == 0 -> plain_asked = true; plain_age = 0 }
    :: d_step { plain_asked && !plain_got && K_tok == 0 ->
           K_tok = STRANGER; K_left = T; plain_got = true; printf("[%d] server: SET NX PX by the plain client\n", hour) }
    :: d_step { plain_got -> plain_left = MAX(0, T - plain_age); plain_got = false; plain_asked = false; plain_age = 0;
           printf("[%d] the plain client holds until %d\n", hour, hour + plain_left);
           claim(ONE, HOLDERS <= 1, "two clients inside their validity");
           if :: plain_left > 0 -> seen(PLAIN_HELD, "a plain client holds") :: else fi }
    :: d_step { plain_asked -> plain_asked = false; plain_got = false; plain_age = 0 }
    :: d_step { plain_left > 0 -> plain_left = 0; if :: K_tok == STRANGER -> K_tok = 0; K_left = 0 :: else fi }
    :: d_step { plain_left == 0 && !plain_asked && K_tok == STRANGER -> K_tok = 0; K_left = 0 } /* a late compare-and-delete */
    od
}
#endif

#ifdef FAILOVER
proctype replica()
{
    do
    :: d_step { !failed_over ->
           R_K_tok = K_tok; R_K_left = K_left; R_S_tok = S_tok; R_S_left = S_left; R_spent = S_spent;
           printf("[%d] the replica has caught up\n", hour) }
    :: d_step { !failed_over ->
           K_tok = R_K_tok; K_left = R_K_left; S_tok = R_S_tok; S_left = R_S_left; S_spent = R_spent;
           R_K_tok = 0; R_K_left = 0; R_S_tok = 0; R_S_left = 0; R_spent = 0;
           failed_over = true;
#ifdef QUIET
           quiet = T;
#endif
           printf("[%d] failover: #%d is in K now\n", hour, K_tok);
           seen(FAILED_OVER, "a replica takes over") }
    od
}
#endif

#ifdef HAND_DELETES
proctype hand()
{
    do
    :: d_step { K_tok != 0 -> K_tok = 0; K_left = 0; printf("[%d] somebody deletes K by hand\n", hour) }
    od
}
#endif

inline past_not_after(k)
{
    DOWN(z_na[k]);
    if
    :: z_na[k] == 0 && (z_op[k] == take && TOO_LATE(LIMIT) || z_op[k] == keep && KEEP_TOO_LATE(LIMIT)) ->
        clear(k) /* it can do nothing any more */
    :: else
    fi
}
inline server_tick()
{
    DOWN(K_left); DOWN(S_left);
    if :: K_left == 0 -> K_tok = 0 :: else fi;
#ifdef FORGETS
    DOWN(spent_left);
    if
    :: spent_left == 0 && S_tok == 0 && S_spent != 0 -> S_spent = 0;
        printf("[%d] S has expired\n", hour); seen(FORGOT, "S of a released lock expires")
    :: else
    fi;
#endif
#if Z > 1
    past_not_after(1);
#endif
#if Z > 0
    past_not_after(0);
#endif
    tidy()
}

proctype clock()
{
    byte i;
    do
    :: d_step {
           hour = hour + STEP;
           server_tick();
           for (i : 0 .. N - 1) {
               DOWN(left[i]); DOWN(unsure[i]);
               if
               :: ans[i] == sent && op[i] != drop -> UP(age[i], OLD)
               :: ans[i] == taken || ans[i] == kept -> TRAVEL(worth[i])
               :: else
               fi
           }
           DOWN(rival_left);
#ifdef PLAIN
           DOWN(plain_left);
           if :: plain_asked -> UP(plain_age, T) :: else fi;
#endif
#ifdef FAILOVER
           DOWN(R_K_left); DOWN(R_S_left); DOWN(quiet);
           if :: R_K_left == 0 -> R_K_tok = 0 :: else fi;
#endif
           i = 0;
#ifdef WATCH_ORPHANS
           if :: watched != 0 -> UP(gone_for, LIMIT + T) :: else fi;
           claim(ORPHAN, watched == 0 || K_tok != watched || gone_for < LIMIT + T, "an orphan outlives LIMIT + T")
#endif
       }
#ifdef JUMP
    :: d_step { server_tick(); K_left = MAX(0, K_left - (JUMP - 1)); S_left = MAX(0, S_left - (JUMP - 1));
           if :: K_left == 0 -> K_tok = 0 :: else fi;
           printf("[%d] the server's clock leaps forward by %d\n", hour, JUMP) }
#endif
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. N - 1) { run client(i); run line(i) }
        i = 0;
#if Z > 0
        run buffer(0);
#endif
#if Z > 1
        run buffer(1);
#endif
#ifdef RIVAL
        run rival();
#endif
#ifdef PLAIN
        run plain();
#endif
#ifdef FAILOVER
        run replica();
#endif
#ifdef HAND_DELETES
        run hand();
#endif
        run clock()
    }
}
