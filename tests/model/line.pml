/* The waiting line of token locks on one server: join and look, grants in the release and in a look, the message
 * of a grant, lapse, claim, leave.
 *
 * One client waits, holds and gives up in detail, A. Each of its requests can be lost, executed with its answer lost, or
 * late; a message of a grant can be lost or late, up to when it is worth nothing. B stands for all other clients: it
 * joins, returns with its place, leaves, takes without standing in line (and yields, if there is one), holds what it is
 * given for as long as the server keeps K for it, renews, releases, crashes. D is a host with two waiters that is
 * dead, or out of reach, although the server still takes it for a listener.
 *
 * K holds a token, S {token, until, spent, claim, line}; `claim` is the inbox of one who was given the lock and hasn't
 * claimed it. An entry leaves the line when it is given the lock. Whoever isn't heard has left it.
 *
 * Broken on purpose, one guard each:
 *   GRANT_BLIND    K is given although S binds another
 *   NO_SPENT       a join or look of a token that was dropped counts
 *   NO_NOT_AFTER   it counts whenever it arrives
 *   LATE_CLAIM     a look that finds the lock its own prolongs it, however late
 *   PUSH_FULL      the message is worth the lease from its arrival
 *   NO_DOUBT       a look in flight when the message arrives is taken to be over
 *   LEAVE_ONLY     leaving the line doesn't give back a lock that was granted meanwhile
 *   NO_LAPSE       the other entries of an inbox that didn't claim stay in the line
 *   LAPSE_BY_LOOK  they go out only when one in line looks
 *   LAPSE_STAYS    a look doesn't clear `claim` of its own inbox: who came back goes out again
 *   NO_YIELD       who takes without standing in line keeps what it has
 *   NEW_PLACE      who comes back gets a new place
 *   UNBOUND        with TAKES: a take by script leaves S to the first keep
 *   NO_KILL        with TAKES: a SET NX PX in a buffer isn't ended before the drop
 *   NO_CLAIM       over failovers, with replicas to wait for: a message is believed at once
 *   ANY_SERVER     over failovers: a message of the old master counts after a join at the new one
 *   SAID_IN_VAIN   with REPEATS: a grant is said before it is known whether anybody hears it at this server
 * Misfortunes:
 *   HAND_DELETES   somebody deletes K by hand (B then writes S at once)
 *   FAILOVER       a replica that misses the last writes takes over, once. REPLICAS: who takes, renews or claims
 *                  waits for the replica. Without: the replica misses a grant at most, and A joins before the new
 *                  master serves anybody else
 *   REPEATS        a replica that has everything takes over, once, and the old master lives on as a replica of it: A's
 *                  inbox stays there until A notices, and what the new master says is repeated there
 *   LIVE           nothing is lost but messages and connections to the inbox; A looks every POLL ticks
 * TAKES: A begins with SET NX PX, or with a take by script, and joins later.
 * Sizes: Z (0 or 1) buffer for a request whose sender no longer listens; ORPHANS adds the book-keeping of ORPHAN.
 */

/*
 * Lessons (traces/line-...):
 * - grant-blind: K is absent, but S binds a holder whose key was deleted by hand.
 * - push-full: a message is a hold from elsewhere. It counts from the grant on, not from its arrival.
 * - no-claim, any-server: over a failover a message is no more than a lost write. A message of the old master is
 *   nothing to a client that joined at the new one.
 * - said-in-vain: a message cannot be recalled, and a replica repeats it to its own subscribers. So the script first
 *   checks for a subscriber here.
 * - no-spent: soon after a release a look in flight takes K for free. `spent` helps until the next drop; not_after
 *   decides.
 * - no-doubt, no-not-after: such a look is in doubt until its not_after, also for a client that was granted the lock
 *   meanwhile. Two drops later it is in the queue again.
 * - leave-only: a client that leaves may have been granted the lock. It must release it.
 * - late-claim: a look that finds its own lock learns so. Past its not_after it prolongs nothing, since its sender may
 *   be dead.
 * - no-lapse, lapse-by-look: a dead host with several waiters costs one lease, not one each. This must hold in every
 *   script that grants next. K may be held natively by then (S still names the dead one), and a drop or a yield grants
 *   it.
 * - lapse-stays: a waiter whose message was lost and that looks is alive. Its own look must not remove it, or the lock
 *   is idle.
 * - no-yield, new-place: the order.
 * - unbound: a take by script must write S at once. Otherwise a late repetition finds its own K, S silent and others
 *   in the queue, and grants the lock away from its holder.
 * - no-kill: SET NX PX has no not_after, so the old connection is ended before the drop.
 */
#include "time.pml"

#ifndef Z
#define Z 0
#endif
#ifndef T
#define T 3 /* the lock's lifetime */
#endif
#ifndef G
#define G 2 /* the lease of a grant */
#endif
#ifdef PUSH_FULL
#define PUSH_LATE G
#else
#define PUSH_LATE 0
#endif
#ifndef LIMIT
#define LIMIT 1 /* not_after is that long after the sending */
#endif
#ifndef POLL
#define POLL 2
#endif

/* claims */
#define ONE 1    /* never two clients inside their own validity */
#define LEASE 2  /* what is believed ends no later than what the server keeps */
#define FREE 3   /* what was reported released, or not acquired, is never held again */
#define SHUT 4   /* nor is, even if not reported yet, the token that was dropped last */
#define ORPHAN 5 /* what was given or taken for a client that moved on is free LIMIT + T later */
#define ORDER 6  /* nobody gets the lock before A who came after it, while A listens */
#define GAP 7    /* K isn't absent for longer than POLL while A waits */
#define ONCE 8   /* a dead host is given the lock once */

/* events that must be possible */
#define BY_MESSAGE 1
#define BY_LOOK 2
#define HANDED_ON 3
#define LAPSED 4
#define YIELDED 5
#define RETURNED 6
#define MET 7
#define DOUBTED 8
#define REFUSED 9
#define FAILED_OVER 10
#define SPENT 11
#define MOVED 12

#define OWN (Z + 1)   /* tokens of A that anybody still asks about */
#define GHOST (OWN + 1) /* any other of A's */
#define B (OWN + 2)
#define D1 (OWN + 3)
#define D2 (OWN + 4)
#ifdef LIVE
#define LEN 4 /* entries in line at most */
#else
#define LEN (Z + 3)
#endif
#define INBOX(t) ((t) == 0 -> 0 : ((t) <= GHOST -> 1 : ((t) == B -> 2 : 3)))

mtype = { none, set, take, join, keep, drop };
mtype = { sent, taken, unsettled, busy, refused, kept, gone, dropped };

/* the server */
byte K_tok, K_left;
byte S_tok, S_left, S_spent, S_claim;
bool S_line;
byte q[LEN + 1];     /* the line; 0 after its end */
#ifdef LIVE
bool later[LEN + 1]; /* this entry came after A was given its place */
bool placed, knew;   /* A's token has been given a place; and A knew one */
#endif

/* A, its newest request and the answer */
byte tok, left, unsure; /* as in token.pml */
bool waits, told;       /* told: it knows its place */
#ifdef TAKES
bool joins;             /* it has asked for a place: no more takes */
#define JOINS(x) joins = x
#else
#define JOINS(x) skip
#endif
mtype op = none, ans;
byte age, worth;
bool back;              /* the join names its place */
byte m_tok, m_age;      /* a message of a grant under way, and the ticks since the grant */

/* a request in the buffer */
mtype z_op = none;
byte z_tok, z_na;
bool z_back;

byte b_left; /* B */

/* book-keeping */
#if Z > 0
bool z_done; /* the client of the request in the buffer was told that it is finished */
#define DONE(t) (z_done && z_tok == (t))
#else
#define DONE(t) false
#endif
#ifdef ORPHANS
byte orphan_for; /* ticks in which K is held for nobody, since it was given or taken */
#define NEW_HOLD orphan_for = 0
#else
#define NEW_HOLD skip
#endif
#ifdef LIVE
bool listens;   /* A knows its place, and no message or connection to it was lost since */
byte since, gap; /* ticks since its last look; in which K is absent while it waits */
bool d_had_it;
#define LISTENS(x) listens = x
#define NO_GAP gap = 0
#else
#define NO_GAP skip
#define LISTENS(x) skip
#endif
#ifdef FAILOVER
bool failed_over, m_old, joined, undo; /* undo: the replica misses what was done last, a grant */
byte R_K_tok, R_K_left, R_S_tok, R_S_left, R_spent, R_claim; /* the replica's, or as before the last grant */
#define SERVES(who) (!failed_over || joined || !waits || who)
#else
#define SERVES(who) true
#endif
#ifdef REPEATS
bool moved, inbox_moved; /* there is a new master; and A's inbox is heard there */
bool by_new;             /* who made the answer under way */
byte from;               /* and the last that A has read since it waits: 1 the old, 2 the new */
bool m_old;              /* the message comes over the connection to the old one */
#define IS_HEARD (!moved || inbox_moved)
#define READ from = (by_new -> 2 : 1)
#define NOTHING_READ from = 0
#else
#define IS_HEARD true
#define READ skip
#define NOTHING_READ skip
#endif
#if defined FAILOVER && defined REPLICAS
bool ok;      /* the replica has what A was answered */
bool b_asked; /* B has it at the server, and waits for the replica */
#define B_ASKED b_asked
#define B_ASKS(x) b_asked = x
#define OK(x) ok = x
#define A_CONFIRMED ok
#define B_CONFIRMED (failed_over || R_K_tok == B)
#define LIMIT_TO_REPLICA if :: !failed_over && R_K_left < b_left -> b_left = R_K_left :: else fi
#else
#define OK(x) skip
#define B_ASKED false
#define B_ASKS(x) skip
#define A_CONFIRMED true
#define B_CONFIRMED true
#define LIMIT_TO_REPLICA skip
#endif
byte given, head, i, j; /* scratch */
bool found;

#define HOLDERS ((left > 0) + (b_left > 0))

/* ---- the line ---- */
inline stands(t)
{
    found = false;
    for (i : 0 .. LEN - 1) { if :: t != 0 && q[i] == t -> found = true :: else fi }
    i = 0
}
inline cut(k)
{
    for (i : k .. LEN - 1) {
        q[i] = q[i + 1];
#ifdef LIVE
        later[i] = later[i + 1]
#endif
    }
    i = 0
}
inline out(t)
{
    j = 0;
    do
    :: j < LEN && q[j] != t -> j++
    :: else -> break
    od;
    if :: j < LEN -> cut(j) :: else fi;
    j = 0
}
inline out_inbox(x)
{
    j = 0;
    do
    :: j < LEN && q[j] != 0 && INBOX(q[j]) == x ->
        if :: q[j] == tok -> LISTENS(false) :: else fi;
        printf("[%d]    #%d goes out\n", hour, q[j]); seen(LAPSED, "who didn't claim goes out"); cut(j)
    :: j < LEN && q[j] != 0 && INBOX(q[j]) != x -> j++
    :: else -> break
    od;
    j = 0
}
inline enter(t, k, y)
{
    i = LEN;
    do
    :: i > k -> q[i] = q[i - 1];
#ifdef LIVE
        later[i] = later[i - 1];
#endif
        i--
    :: else -> break
    od;
    q[k] = t;
#ifdef LIVE
    later[k] = y;
#endif
    i = 0; assert(q[LEN] == 0); S_line = true
}
inline end()
{
    j = 0;
    do
    :: q[j] != 0 -> j++
    :: else -> break
    od
}
#ifdef LIVE
inline enter_last(t) { end(); enter(t, j, placed); j = 0 }
inline enter_a(t, named)
{
    if
    :: named && placed -> /* before the first who came later */
        j = 0;
        do
        :: q[j] != 0 && !later[j] -> j++
        :: else -> break
        od;
        seen(RETURNED, "who went out returns to its place")
    :: else ->
        if :: !knew -> for (i : 0 .. LEN) { later[i] = false } :: else fi;
        placed = true; end()
    fi;
    enter(t, j, false); j = 0
}
#else
inline enter_last(t) { end(); enter(t, j, 0); j = 0 }
inline enter_a(t, named)
{
    if
    :: named -> enter(t, 0, 0)
    :: else -> enter_last(t)
    fi
}
#endif

/* ---- the scripts ---- */
#ifdef GRANT_BLIND
#define S_BINDS(t) false
#else
#define S_BINDS(t) (S_tok != 0 && S_tok != (t) && S_left > 0)
#endif
#if defined NO_LAPSE
#define LAPSES(asker) false
#elif defined LAPSE_BY_LOOK
#define LAPSES(asker) (asker != 0)
#else
#define LAPSES(asker) true
#endif
#define LAPSE(asker) if :: S_claim != 0 && LAPSES(asker) -> out_inbox(S_claim) :: else fi
#ifdef NO_SPENT
#define IS_SPENT(t) false
#else
#define IS_SPENT(t) (S_spent == (t))
#endif
#ifdef LATE_CLAIM
#define LATE_TO_CLAIM(g) false
#else
#define LATE_TO_CLAIM(g) ((g) >= LIMIT)
#endif
#ifdef NO_NOT_AFTER
#define TOO_LATE(g) false
#else
#define TOO_LATE(g) ((g) >= LIMIT)
#endif
#if defined FAILOVER && !defined REPLICAS
#define GRANTED(t, asker) undo = !failed_over && t == tok && t != asker /* while its message is on its way */
#define HEARD undo = false
inline before()
{
    undo = false;
    if
    :: !failed_over -> R_K_tok = K_tok; R_K_left = K_left; R_S_tok = S_tok; R_S_left = S_left; R_spent = S_spent; R_claim = S_claim
    :: else
    fi
}
#else
#define GRANTED(t, asker) skip
#define HEARD skip
#define before() skip
#endif

inline b_believes()
{
    b_left = K_left; LIMIT_TO_REPLICA; B_ASKS(false);
    printf("[%d] B counts on the lock until %d\n", hour, hour + b_left);
    claim(ONE, HOLDERS <= 1, "two clients inside their validity")
}
inline give(t, asker)
{
    K_tok = t; K_left = G; NEW_HOLD; S_tok = t; S_left = G; S_claim = INBOX(t);
#ifdef LIVE
    claim(ORDER, !(later[0] && waits && listens), "one who came after A has the lock before it");
    if :: t == D1 || t == D2 -> claim(ONCE, !d_had_it, "a dead host is given the lock again"); d_had_it = true :: else fi;
#endif
    cut(0); S_line = q[0] != 0; given = t;
    NO_GAP; GRANTED(t, asker);
    printf("[%d] server: #%d is granted the lock until %d\n", hour, t, hour + G);
    if
    :: t <= OWN ->
        claim(FREE, !DONE(t), "granted to a client that was told it is finished");
        claim(SHUT, t != S_spent, "granted to the token that was dropped last")
    :: else
    fi;
    if
    :: t == tok && t != asker -> m_tok = t; m_age = 0;
#ifdef FAILOVER
        m_old = false
#endif
#ifdef REPEATS
        m_old = !inbox_moved
#endif
    :: t == B && B_CONFIRMED -> b_believes()
    :: t == B && !B_CONFIRMED -> B_ASKS(true)
    :: else
    fi
}
#ifdef SAID_IN_VAIN
#define SAY m_tok = tok; m_age = 0; m_old = true; printf("[%d] server: #%d is granted the lock, which nobody hears here: taken back\n", hour, tok)
#else
#define SAY printf("[%d] server: nobody listens for #%d, which goes out\n", hour, tok)
#endif
inline grant(asker)
{
    given = 0;
    if
    :: S_BINDS(0) -> printf("[%d] server: #%d is bound until %d\n", hour, S_tok, hour + S_left)
    :: else ->
        LAPSE(asker);
#ifdef REPEATS
        if :: q[0] != 0 && q[0] == tok && tok != asker && !IS_HEARD -> SAY; cut(0) :: else fi;
#endif
        if
        :: q[0] != 0 -> head = q[0]; give(head, asker); head = 0
        :: else -> S_tok = 0; S_left = 0; S_claim = 0; S_line = false
        fi
    fi
}
inline script_join(t, g, named, a)
{
    if
    :: IS_SPENT(t) -> a = refused; printf("[%d] server: join #%d refused, it was dropped\n", hour, t); seen(SPENT, "`spent` refuses a look")
    :: !IS_SPENT(t) && K_tok == t && S_tok == t ->
        if :: !LATE_TO_CLAIM(g) -> K_left = MAX(K_left, T); S_left = MAX(S_left, K_left); S_claim = 0 :: else fi;
        a = taken; /* said even past not_after: its sender must know */
        printf("[%d] server: join #%d: yours until %d\n", hour, t, hour + K_left)
    :: !IS_SPENT(t) && !(K_tok == t && S_tok == t) && TOO_LATE(g) ->
        a = refused; printf("[%d] server: join #%d refused, past its not_after\n", hour, t); seen(REFUSED, "a late look is refused")
    :: else ->
        if :: K_tok == t -> K_tok = 0; K_left = 0 :: else fi;
#ifndef LAPSE_STAYS
        if :: S_claim == INBOX(t) -> S_claim = 0 :: else fi;
#endif
        stands(t);
        if :: !found -> enter_a(t, named) :: else fi;
        found = false; a = busy;
        printf("[%d] server: join #%d, #%d is in K, first in line is #%d\n", hour, t, K_tok, q[0]);
        if
        :: K_tok == 0 -> grant(t); if :: given == t -> a = taken; seen(BY_LOOK, "a look finds the lock free") :: else fi; given = 0
        :: else
        fi
    fi
}
#ifdef UNBOUND
#define BIND(t) skip
#else
#define BIND(t) S_tok = t; S_left = K_left; S_claim = 0
#endif
#ifdef TAKES
/* SET NX PX and a look at S. Whatever is unusual is for the script. */
inline native_take(t, a)
{
    if
    :: K_tok == 0 -> K_tok = t; K_left = T; NEW_HOLD; a = (S_BINDS(t) || S_line -> unsettled : taken);
        claim(FREE, !DONE(t), "set for a client that was told it is finished")
    :: else -> a = busy
    fi;
    printf("[%d] server: SET NX PX #%d, #%d is in K\n", hour, t, K_tok)
}
inline script_take(t, g, a)
{
    if
    :: K_tok == t && S_tok == t -> a = taken
    :: !(K_tok == t && S_tok == t) && IS_SPENT(t) -> a = refused
    :: else ->
        a = busy; given = 0;
        if
        :: K_tok == t && (S_BINDS(t) || S_line) -> K_tok = 0; K_left = 0
        :: K_tok == t && !(S_BINDS(t) || S_line) -> BIND(t); a = taken
        :: else
        fi;
        if :: a == busy && S_line && K_tok == 0 && !S_BINDS(t) -> grant(0) :: else fi;
        if
        :: a == busy && given == 0 && K_tok == 0 && !S_BINDS(t) && !TOO_LATE(g) ->
            K_tok = t; K_left = T; NEW_HOLD; BIND(t); a = taken;
            claim(FREE, !DONE(t), "taken for a client that was told it is finished")
        :: else
        fi;
        given = 0
    fi;
    printf("[%d] server: take #%d: %e, #%d is in K\n", hour, t, a, K_tok)
}
#endif
inline script_drop(t)
{
    if :: t <= OWN && K_tok == t && m_tok == t -> seen(MET, "leaving meets a grant") :: else fi;
#ifdef LEAVE_ONLY
    if :: K_tok == t && S_claim == 0 -> K_tok = 0; K_left = 0 :: else fi;
#else
    if :: K_tok == t -> K_tok = 0; K_left = 0 :: else fi;
#endif
    if :: S_tok == t && K_tok == 0 -> S_tok = 0; S_left = 0; S_claim = 0 :: else fi;
    S_spent = (t <= OWN -> t : 0);
    if :: t <= OWN -> out(t) :: else fi;
    printf("[%d] server: drop #%d\n", hour, t);
    if
    :: S_line && K_tok == 0 -> grant(0);
        if :: given != 0 -> seen(HANDED_ON, "a release hands on to the line") :: else fi; given = 0
    :: else
    fi
}
inline script_keep(t, g, a)
{
    if
    :: g < LIMIT && K_tok == t ->
        K_left = MAX(K_left, T); S_tok = t; S_left = K_left; S_claim = 0; a = kept;
        printf("[%d] server: keep #%d: kept until %d\n", hour, t, hour + K_left)
    :: else -> a = gone; printf("[%d] server: keep #%d: not yours, or too late\n", hour, t)
    fi
}
inline serve(o, t, g, named, a)
{
    before();
#ifdef REPEATS
    by_new = moved;
#endif
    if
    :: o == join -> script_join(t, g, named, a)
#ifdef TAKES
    :: o == take -> script_take(t, g, a)
    :: o == set -> native_take(t, a)
#endif
    :: o == keep -> script_keep(t, g, a)
    :: o == drop -> script_drop(t); a = dropped
    fi
}

/* ---- the wires ---- */
/* A token about which nobody asks any more is one of many. */
#define GONE(x) if :: x != 0 && x <= OWN && x != tok && x != z_tok -> x = GHOST :: else fi
inline tidy()
{
    GONE(K_tok); GONE(S_tok);
    if :: S_spent != 0 && S_spent != tok && S_spent != z_tok -> S_spent = 0 :: else fi;
    if :: S_left == 0 && S_tok != tok && S_tok != z_tok -> S_tok = 0 :: else fi;
    for (j : 0 .. LEN - 1) {
        if :: q[j] != 0 && q[j] <= OWN && q[j] != tok && q[j] != z_tok ->
            stands(GHOST);
            if :: found -> cut(j) :: else -> q[j] = GHOST fi; /* one of them is enough */
            found = false
        :: else
        fi
    }
    j = 0;
#ifdef FAILOVER
    GONE(R_K_tok); GONE(R_S_tok);
    if :: R_spent != 0 && R_spent != tok && R_spent != z_tok -> R_spent = 0 :: else fi;
    if :: R_S_left == 0 && R_S_tok != tok && R_S_tok != z_tok -> R_S_tok = 0 :: else fi;
#endif
    skip
}
inline forget() { op = none; ans = 0; age = 0; worth = 0; back = false; OK(false) }
inline send(what)
{
    forget(); op = what; ans = sent; back = told && what == join;
    printf("[%d] A sends %e #%d\n", hour, what, tok)
}
#if Z > 0
#define FORGET_DONE z_done = false
#else
#define FORGET_DONE skip
#endif
inline clear() { z_op = none; z_tok = 0; z_na = 0; z_back = false; FORGET_DONE; tidy() }
/* Nobody waits for the answer any more. */
inline abandon(doubt)
{
    if :: doubt && (op == join || op == take) && ans == sent -> unsure = MAX(unsure, LIMIT - MIN(age, LIMIT)) :: else fi;
    if
#if Z > 0
    :: ans == sent && z_op == none ->
        z_op = op; z_tok = tok; z_na = (op == drop || op == set -> 0 : LIMIT - MIN(age, LIMIT)); z_back = back;
        printf("[%d]    A's %e #%d lies in a buffer\n", hour, op, tok)
#endif
    :: op != none -> printf("[%d]    A's %e #%d or its answer is lost\n", hour, op, tok)
    :: op == none
    fi;
    forget()
}

/* The slowest clock allowed, less the drift that the rules subtract: as in token.pml. */
inline settle()
{
    if
    :: ans == taken || ans == kept -> worth = MAX(0, MIN(T, K_left) - age)
    :: ans == dropped -> worth = unsure == 0
    :: else
    fi;
    age = 0; OK(failed_over)
}
#if defined TAKES && !defined NO_KILL
inline kill_first()
{
    if
    :: op == drop && z_op == set && z_tok == tok -> printf("[%d] server: CLIENT KILL of A's old connection\n", hour); clear()
    :: else
    fi
}
#else
#define kill_first() skip
#endif
proctype wire()
{
    do
    :: d_step { ans == sent && SERVES(op == join) -> kill_first(); serve(op, tok, age, back, ans); settle();
#ifdef FAILOVER
           if :: op == join && failed_over -> joined = true :: else fi
#endif
       }
    od
}
#if Z > 0
proctype buffer()
{
    mtype a;
    do
    :: d_step { z_op != none && SERVES(false) ->
           printf("[%d] a late request arrives:\n", hour);
           serve(z_op, z_tok, LIMIT - z_na, z_back, a); clear(); a = 0 }
    :: d_step { z_op != none -> clear() }
    od
}
#endif

/* ---- A ---- */
inline believe(x)
{
    HEARD;
    left = MAX(left, x);
    printf("[%d] A may count on the lock until %d\n", hour, hour + left);
    claim(ONE, HOLDERS <= 1, "two clients inside their validity");
#ifndef NO_LEASE_CLAIM
    claim(LEASE, left == 0 || K_tok == tok && left <= K_left, "A counts on more than it has")
#endif
}
inline move_on()
{
    m_tok = 0; m_age = 0; tok = 0; unsure = 0; told = false; waits = false; JOINS(false); LISTENS(false);
#ifdef LIVE
    for (i : 0 .. LEN) { later[i] = false }
    placed = false; knew = false; i = 0;
#endif
    tidy()
}
inline finish()
{
    stands(tok);
    claim(FREE, K_tok != tok && !found, "reported finished, yet it holds the lock or stands in line");
    found = false;
#if Z > 0
    z_done = z_done || z_tok == tok;
#endif
    move_on()
}
inline vanish() { abandon(false); left = 0; out(tok); move_on() } /* its inbox isn't heard any more */

#ifdef PUSH_FULL
#define WORTH_OF_MESSAGE G
#else
#define WORTH_OF_MESSAGE (G - m_age)
#endif
#ifdef NO_DOUBT
#define DOUBT false
#else
#define DOUBT true
#endif
#if defined REPLICAS && !defined NO_CLAIM
#define CLAIMS_FIRST true
#else
#define CLAIMS_FIRST false
#endif
#if defined FAILOVER && !defined REPLICAS
#ifdef ANY_SERVER
#define OF_THIS_SERVER (!failed_over || joined)
#else
#define OF_THIS_SERVER (!m_old)
#endif
#elif defined REPEATS
#define OF_THIS_SERVER (from == (m_old -> 1 : 2))
#else
#define OF_THIS_SERVER true
#endif
#ifdef LIVE
#define MAY_LOSE false
#define FIRST_LOOK since = 0;
#else
#define MAY_LOSE true
#define FIRST_LOOK
#endif

proctype client()
{
idle:
    atomic {
        tok = 1;
        do
        :: z_tok == tok -> tok++
        :: else -> break
        od;
        waits = true; NOTHING_READ; FIRST_LOOK
#ifdef TAKES
        if
        :: send(set)
        :: send(take)
        :: JOINS(true); send(join)
        fi
#else
        send(join)
#endif
    }
waiting:
    if
    :: atomic { op == none -> FIRST_LOOK JOINS(true); send(join); goto waiting }
#ifdef TAKES
    :: atomic { op == none && !joins -> send(take); goto waiting }
    :: atomic { ans == unsettled -> forget(); send(take); goto waiting }
#endif
    :: atomic { ans == taken && A_CONFIRMED ->
           d_step { m_tok = 0; m_age = 0; believe(worth); forget() }
           if
           :: left > 0 -> waits = false; LISTENS(false); goto holding
           :: left == 0 -> goto waiting
           fi }
    :: atomic { ans == busy ->
           d_step {
#ifndef NEW_PLACE
               told = told || op == join;
#endif
               READ;
               forget();
#ifdef LIVE
               knew = true; stands(tok); listens = found || m_tok == tok; found = false
#endif
           }
           goto waiting }
    :: atomic { ans == refused -> forget(); goto waiting }
    :: atomic { m_tok == tok && OF_THIS_SERVER && WORTH_OF_MESSAGE > 0 && !CLAIMS_FIRST ->
           if :: op == join && ans == sent -> seen(DOUBTED, "a message arrives while a look is under way") :: else fi;
#ifdef REPEATS
           if :: !m_old -> seen(MOVED, "the new master's grant is heard from it") :: else fi;
#endif
           printf("[%d] A hears of the grant\n", hour); seen(BY_MESSAGE, "a message of a grant arrives");
           abandon(DOUBT);
           d_step { believe(WORTH_OF_MESSAGE); m_tok = 0; m_age = 0; waits = false; LISTENS(false) }
           send(keep); goto holding }
    :: atomic { m_tok == tok && CLAIMS_FIRST && op != keep -> abandon(DOUBT); m_tok = 0; m_age = 0; send(keep); goto waiting }
    :: atomic { ans == kept && A_CONFIRMED -> d_step { believe(worth); forget() }
           if
           :: left > 0 -> waits = false; goto holding
           :: left == 0 -> goto waiting
           fi }
    :: atomic { ans == gone -> forget(); goto waiting }
    :: atomic { MAY_LOSE && op != none -> abandon(true); goto waiting }
    :: atomic { MAY_LOSE -> printf("[%d] A gives up\n", hour); waits = false; abandon(true); goto cleaning }
    :: atomic { MAY_LOSE -> printf("[%d] A crashes\n", hour); if :: S_claim == 1 -> S_claim = 4 :: else fi; vanish(); goto idle }
    fi;
holding:
    if
    :: atomic { left > 0 && op == none -> send(keep); goto holding }
    :: atomic { left > 0 && ans == kept && A_CONFIRMED -> d_step { believe(worth); forget() } goto holding }
    :: atomic { ans == gone || left == 0 -> printf("[%d] A has lost the lock\n", hour); vanish(); goto idle }
    :: atomic { left > 0 && op != none && MAY_LOSE -> abandon(true); goto holding }
    :: atomic { true -> printf("[%d] A releases\n", hour); abandon(true); left = 0; goto cleaning }
    :: atomic { true -> printf("[%d] A crashes\n", hour); if :: S_claim == 1 -> S_claim = 4 :: else fi; vanish(); goto idle }
    fi;
cleaning:
    atomic { send(drop) }
    if
    :: atomic { ans == dropped ->
           if
           :: worth -> printf("[%d] A: finished for certain\n", hour); forget(); finish(); goto idle
           :: else -> forget(); goto cleaning
           fi }
    :: atomic { MAY_LOSE -> abandon(true); goto cleaning }
    :: atomic { MAY_LOSE -> printf("[%d] A stops cleaning up\n", hour); vanish(); goto idle }
    fi
}

/* ---- B ---- */
#if defined HAND_DELETES
#define S_TOO true
#else
#define S_TOO false
#endif
proctype others()
{
    do
    :: d_step { K_tok == 0 && (S_tok == 0 || S_left == 0) && b_left == 0 && SERVES(false) -> /* without standing in line */
           printf("[%d] B takes\n", hour); before(); given = 0;
#ifndef NO_YIELD
           if :: S_line -> grant(0) :: else fi;
           if :: given != 0 -> seen(YIELDED, "who has taken yields to the line") :: else fi;
#endif
           if
           :: given == 0 ->
#ifdef LIVE
               stands(tok);
               claim(ORDER, !(found && waits && listens), "one who doesn't stand in line has the lock before A");
               found = false;
#endif
               K_tok = B; K_left = T; NO_GAP;
               if :: S_TOO -> S_tok = B; S_left = T; S_claim = 0 :: else fi;
               if :: B_CONFIRMED -> b_believes() :: else -> B_ASKS(true) fi
           :: else
           fi;
           given = 0 }
    :: d_step { b_left == 0 && K_tok != B && SERVES(false) -> stands(B); if :: !found -> enter_last(B); printf("[%d] B stands in line\n", hour) :: else fi; found = false }
    :: d_step { b_left == 0 && K_tok != B && SERVES(false) -> stands(B); if :: !found -> enter(B, 0, false); printf("[%d] B returns to its place\n", hour) :: else fi; found = false }
    :: d_step { q[0] != 0 && SERVES(false) -> out(B); }
    :: d_step { (b_left > 0 || B_ASKED) && K_tok == B && SERVES(false) ->
           before(); S_tok = B; S_left = T; S_claim = 0; K_left = T;
           if :: B_CONFIRMED -> b_believes() :: else fi }
    :: d_step { (b_left > 0 || B_ASKED) && SERVES(false) -> b_left = 0; B_ASKS(false); printf("[%d] B releases\n", hour); before(); script_drop(B); tidy() }
    :: d_step { b_left > 0 || B_ASKED -> b_left = 0; B_ASKS(false); printf("[%d] B crashes\n", hour) }
#ifdef LIVE
    :: d_step { stands(D1); if :: !found -> stands(D2) :: else fi;
           if :: !found -> d_had_it = false; enter_last(D1); enter_last(D2); printf("[%d] two of D stand in line, and D dies\n", hour) :: else fi; found = false }
#endif
    od
}

proctype misfortunes()
{
    do
    :: d_step { m_tok != 0 -> m_tok = 0; m_age = 0; LISTENS(false); printf("[%d]    the message is lost\n", hour) }
    :: d_step { q[0] != 0 -> stands(tok); /* its connection is gone when somebody is given the lock */
           if :: found -> out(tok); LISTENS(false); printf("[%d]    A's inbox isn't heard: #%d goes out\n", hour, tok) :: else fi; found = false }
#ifdef HAND_DELETES
    :: d_step { K_tok != 0 -> K_tok = 0; K_left = 0; printf("[%d] somebody deletes K by hand\n", hour) }
#endif
#ifdef REPEATS
    :: d_step { !moved -> moved = true; printf("[%d] failover: A's inbox stays at the old master, a replica now\n", hour) }
    :: d_step { moved && !inbox_moved -> inbox_moved = true; m_tok = 0; m_age = 0; printf("[%d] A's inbox is heard at the new master\n", hour) }
#endif
#ifdef FAILOVER
#ifdef REPLICAS
    :: d_step { !failed_over ->
           R_K_tok = K_tok; R_K_left = K_left; R_S_tok = S_tok; R_S_left = S_left; R_spent = S_spent; R_claim = S_claim;
           if :: ans == taken || ans == kept -> OK(true) :: else fi;
           printf("[%d] the replica has caught up\n", hour) }
#endif
    :: d_step { !failed_over ->
           failed_over = true; m_old = m_tok != 0;
#ifndef REPLICAS
           if :: undo ->
#endif
           K_tok = R_K_tok; K_left = R_K_left; S_tok = R_S_tok; S_left = R_S_left; S_spent = R_spent; S_claim = R_claim;
#ifndef REPLICAS
           undo = false :: else fi;
#endif
           R_K_tok = 0; R_K_left = 0; R_S_tok = 0; R_S_left = 0; R_spent = 0; R_claim = 0;
           S_line = q[0] != 0;
           printf("[%d] failover: #%d is in K now\n", hour, K_tok); seen(FAILED_OVER, "a replica takes over") }
#endif
    od
}

#ifdef LIVE
#define QUIET (op == none && !(waits && since >= POLL))
#else
#define QUIET true
#endif
proctype clock()
{
    do
    :: d_step { QUIET ->
           hour = hour + STEP;
           DOWN(K_left); DOWN(S_left); if :: K_left == 0 -> K_tok = 0 :: else fi;
           DOWN(left); DOWN(unsure); DOWN(b_left);
           if
           :: ans == sent && op != drop -> UP(age, LIMIT)
           :: ans == taken || ans == kept -> DOWN(worth)
           :: else
           fi;
           if
           :: m_tok != 0 -> m_age++;
               if :: m_age == G + PUSH_LATE -> m_tok = 0; m_age = 0; LISTENS(false) :: else fi
           :: else
           fi;
#if Z > 0
           DOWN(z_na);
           if :: z_op == keep && z_na == 0 -> clear() :: else fi;
#endif
#ifdef FAILOVER
           DOWN(R_K_left); DOWN(R_S_left); if :: R_K_left == 0 -> R_K_tok = 0 :: else fi;
#endif
#ifdef LIVE
           if :: waits -> UP(since, POLL) :: else -> since = 0 fi;
           if :: waits && K_tok == 0 -> gap++ :: else -> gap = 0 fi;
           claim(GAP, gap <= POLL, "the lock lies idle while A waits");
#endif
#ifdef ORPHANS
           if :: K_tok != 0 && K_tok <= GHOST && K_tok != tok -> orphan_for++ :: else -> NEW_HOLD fi;
           claim(ORPHAN, orphan_for < LIMIT + T, "an orphan outlives LIMIT + T");
#endif
           tidy() }
    od
}

init
{
    atomic {
        run client(); run wire(); run others(); run misfortunes();
#if Z > 0
        run buffer();
#endif
        run clock()
    }
}
