/* The register of the phase, the leases on it, and the tool that moves it.
 *
 * Clients read the register, act by what they read while their lease lasts, and read
 * again. A reading is sent, executed and answered at different times, and its answer may
 * be lost; a client can pause or be cut off for any time, crash and come back. A take lies
 * on its way for any time and carries not_after, the end of the lease. Operators move the
 * register by one step, up or back, with a compare-and-set on the epoch that may itself be
 * in flight for any time.
 *
 * LEASE is what a lease can last at most: the rule's lease less the drift, on the slowest
 * deadline clock allowed. It is also what a tool's wait lasts at least: the lease and the
 * drift, on the fastest. not_after is exact.
 *
 * Epochs are kept as ages, the number of changes since; no rule looks at old ones.
 *
 * Broken on purpose, one guard each:
 *   NO_LEASE       a client goes on by the phase that it read last
 *   FROM_REPLY     the lease counts from the answer instead of the request
 *   NO_NOT_AFTER   the server executes a take whenever it arrives
 *   NO_WAIT        the tool doesn't wait: the clients' records decide alone
 *   NO_COMPARE     the step is written without looking at the epoch
 *   WAIT_FROM_REQUEST  the tool's wait counts from its request, not from the answer
 *   CLIENT_NO_DRIFT, TOOL_NO_DRIFT  one of the two leaves the drift out
 *   FIRST_NO_WAIT  the first step after the beginning waits for the register's lease,
 *                  however long those are that clients without a register have (FALLBACK)
 *   BEGIN_ANYWHERE the register may begin with any phase
 *   NO_WAIT_FIRST  a step is made although the replica may lack the one before
 *   NO_ANEW        the tool's wait goes on when another server answers
 *   GIVEN          with LINE: whoever releases a lock sets it for the next in line, instead of calling him
 * LINE: a client of phase 3 stands in line, where its entry stays whatever becomes of its lease; whoever releases
 * the lock finds it there at any time, and calls.
 * Misfortunes:
 *   FAILOVER       a replica that misses the last change takes over, once
 *   VANISH         somebody deletes the register by hand
 * Sizes: N clients in full detail and, unless NO_FRESH, one that stands for all others; TOOLS
 * operators; RECORDS: a step waits for the clients' records (without it, it doesn't, which
 * allows more); UNBEGUN: at first there is no register and clients fall back on 0 or 1.
 */

/*
 * Lessons (traces/phase-...). The main rule: an epoch's takes end a lease after the next epoch has begun, and the one
 * after that begins no sooner.
 * - no-lease, from-reply, client-no-drift: the lease binds, counts from the request, and is shortened by the drift.
 * - no-not-after: a take of a client that checked its lease in time may be executed much later. A grant to a waiter by
 *   another client's drop must know the end of the waiter's lease too.
 * - line-given: a releasing client may set the lock for a waiter after the phase went back twice: a token where only
 *   stamps may be. So the waiter is notified, and acquires by itself under its current lease.
 * - no-wait: records alone do not suffice. A client is recorded when the server reads, and acts by an older answer
 *   while the newer one is lost. Records are not needed for exclusion (phase has none). They save clients a refusal
 *   and name the client that is behind.
 * - no-compare: two operators that both waited move the register by two.
 * - wait-from-request: the tool counts from the answer, since its request may be older than the epoch that it finds.
 * - tool-no-drift: the tool's clock may be fast, so it waits the lease and the drift.
 * - first-no-wait: clients without a register have leases of their own, perhaps longer than the register's. The first
 *   step waits for the longest of them.
 * - begin-anywhere: those clients may act by 0 or 1, so a register begins there.
 * - vanished: no rule helps. A client that has seen the register refuses, but a new client cannot know that there was
 *   one.
 * - no-wait-first: two steps that no replica has are undone at once, while leases on them last. WAIT before a step
 *   confirms the last one. WAIT after it is too late for clients that read it at once.
 * - no-anew: the number of an undone epoch is given again, to another phase. A tool that did not notice the failover
 *   has waited for nothing.
 */
#include "time.pml"

#ifndef N
#define N 1
#endif
#ifndef TOOLS
#define TOOLS 2
#endif
#ifndef LEASE
#define LEASE 2
#endif
#ifndef FALLBACK
#define FALLBACK LEASE /* the lease of a client that found no register */
#endif
#define DRIFT 1
#define VOID (3 * LEASE) /* a record that old holds nothing back */
#define UNKNOWN 4        /* in place of a phase: none */

/* claims */
#define ADJACENT 1 /* takes executed in one tick are of phases at most one apart */

/* events that must be possible */
#define ADVANCED 1
#define WENT_BACK 2
#define BOTH 3
#define REFUSED 4
#define LOST_RACE 5
#define HELD_BACK 6
#define VOIDED 7
#define LAST 8
#define FAILED_OVER 9
#define BEGUN 10
#define CALLED 11

#if defined FAILOVER && defined NO_WAIT_FIRST
#define OLDEST 3 /* a failover undoes fewer changes than that */
#elif defined FAILOVER
#define OLDEST 2
#else
#define OLDEST 1
#endif

/* the server */
byte phase;      /* UNKNOWN: no register */
byte low = UNKNOWN, high; /* phases of the takes executed in this tick */
#ifdef UNBEGUN
bool first;      /* this epoch is the register's first */
#else
#define first false
#endif
#ifdef FAILOVER
byte R_phase, R_age; /* what the replica has, and how many changes ago */
bool failed_over;
#endif

/* a client: its lease, its reading in flight (0 none, 1 sent, 2 executed), its take in flight */
byte ph[N] = UNKNOWN, left[N];
byte ask[N], ask_ph[N], ask_left[N];
byte take[N] = UNKNOWN, not_after[N];
#ifdef LINE
bool stands[N];
#endif
#ifdef RECORDS
byte rec[N], rec_ago[N]; /* 0 none, else age of the epoch that it shows + 1; ticks since */
#endif

/* A tool: the epoch that it knows and for how long, its step in flight. Its readings are answered
 * at once: one that comes late only makes it wait longer. */
bool knows[TOOLS];
short age[TOOLS]; /* changes since; below 0 after a failover: changes undone */
byte at[TOOLS], known[TOOLS];
#ifdef WAIT_FROM_REQUEST
byte asked[TOOLS]; /* ticks since its reading was sent, plus 1 */
#endif
byte step_to[TOOLS] = UNKNOWN;
short step_age[TOOLS];

#define WHO_TOOL(i) ('P' + (i))

#ifdef CLIENT_NO_DRIFT
#define LASTS (LEASE + DRIFT)
#else
#define LASTS LEASE
#endif
#if defined NO_WAIT
#define NEEDED 0
#elif defined TOOL_NO_DRIFT
#define NEEDED (LEASE - DRIFT)
#elif defined UNBEGUN && !defined FIRST_NO_WAIT
#define NEEDED (first -> MAX(LEASE, FALLBACK) : LEASE)
#else
#define NEEDED LEASE
#endif
#ifdef UNBEGUN
#define LONGEST MAX(LEASE, FALLBACK)
#else
#define LONGEST LEASE
#endif
#ifdef NO_COMPARE
#define MATCHES(a) true
#else
#define MATCHES(a) ((a) == 0)
#endif
#if defined FAILOVER && !defined NO_WAIT_FIRST
#define REPLICATED (R_age == 0)
#else
#define REPLICATED true
#endif

inline unknow(me) { knows[me] = false; age[me] = 0; at[me] = 0; known[me] = 0 }
#ifdef NO_COMPARE
#define USELESS(a) false
#else
#define USELESS(a) ((a) >= OLDEST) /* no step of that epoch can be made any more */
#endif
#define stale(me) if :: USELESS(age[me]) -> unknow(me) :: else fi

/* ---- the server ---- */
inline execute(p)
{
    if :: p < low -> low = p :: else fi;
    if :: p > high -> high = p :: else fi;
    claim(ADJACENT, high - low <= 1, "phases act at once that are two apart");
    if :: high - low == 1 -> seen(BOTH, "two adjacent phases act at once") :: else fi
}
inline older(i) /* everybody's knowledge, when the epoch changes */
{
    for (i : 0 .. TOOLS - 1) {
        if :: knows[i] -> UP(age[i], OLDEST); stale(i) :: else fi;
        if
        :: step_to[i] != UNKNOWN ->
            UP(step_age[i], OLDEST);
            if :: USELESS(step_age[i]) -> step_to[i] = 0 :: else fi
        :: else
        fi
    }
#ifdef RECORDS
    for (i : 0 .. N - 1) { if :: rec[i] != 0 -> rec[i] = 2 :: else fi }
#endif
#ifdef FAILOVER
    if :: !failed_over -> UP(R_age, OLDEST) :: else fi;
#endif
    i = 0
}
#ifdef RECORDS
#if N == 1
#define SHOWN (OK(0))
#else
#define SHOWN (OK(0) && OK(1))
#endif
#define OK(i) (rec[i] <= 1 || rec_ago[i] >= VOID)
#else
#define SHOWN true
#endif

/* ---- a client ---- */
inline forget_ask(me) { ask[me] = 0; ask_ph[me] = 0; ask_left[me] = 0 }
inline forget_take(me) { take[me] = UNKNOWN; not_after[me] = 0 }
#ifdef NO_LEASE
#define MAY_ACT(me) (ph[me] != UNKNOWN)
#define ENDS(me) 1
#else
#define MAY_ACT(me) (left[me] > 0)
#define ENDS(me) left[me]
#endif
#ifdef FROM_REPLY
#define IS_WORTH(me) LASTS
#else
#define IS_WORTH(me) ask_left[me]
#endif

proctype client(byte me)
{
    do
    :: atomic { ask[me] == 0 -> ask[me] = 1; ask_left[me] = MAX(LASTS, LONGEST);
           printf("[%d] %c asks for the phase\n", hour, WHO(me)) }
    :: atomic { ask[me] == 1 -> ask[me] = 2;
           if
           :: phase != UNKNOWN -> ask_ph[me] = phase; ask_left[me] = MAX(0, ask_left[me] - (MAX(LASTS, LONGEST) - LASTS))
           :: phase == UNKNOWN -> ask_ph[me] = 0; ask_left[me] = MAX(0, ask_left[me] - (MAX(LASTS, LONGEST) - FALLBACK))
           :: phase == UNKNOWN -> ask_ph[me] = 1; ask_left[me] = MAX(0, ask_left[me] - (MAX(LASTS, LONGEST) - FALLBACK))
           fi;
#ifdef RECORDS
           rec[me] = 1; rec_ago[me] = 0;
#endif
           if
           :: phase != UNKNOWN -> printf("[%d] server: %c reads phase %d\n", hour, WHO(me), phase)
           :: else -> printf("[%d] server: %c finds no register: phase %d\n", hour, WHO(me), ask_ph[me])
           fi }
    :: atomic { ask[me] == 2 && IS_WORTH(me) > 0 ->
           ph[me] = ask_ph[me]; left[me] = IS_WORTH(me); forget_ask(me);
           printf("[%d] %c may act by phase %d until %d\n", hour, WHO(me), ph[me], hour + left[me]) }
    :: atomic { ask[me] != 0 -> forget_ask(me); printf("[%d]    %c's question or its answer is lost\n", hour, WHO(me)) }
    :: atomic { MAY_ACT(me) && take[me] == UNKNOWN -> take[me] = ph[me]; not_after[me] = ENDS(me);
           printf("[%d] %c sends a take of phase %d\n", hour, WHO(me), ph[me]) }
    :: atomic { take[me] != UNKNOWN ->
           printf("[%d] server: executes %c's take of phase %d\n", hour, WHO(me), take[me]);
           execute(take[me]);
#ifdef LINE
           if
           :: take[me] == 3 -> stands[me] = true /* another has the lock: it waits */
           :: stands[me] = false
           fi;
#endif
           forget_take(me) }
#ifdef LINE
    :: atomic { stands[me] ->
           stands[me] = false;
           if :: left[me] == 0 -> seen(CALLED, "the entry of one whose lease is over has its turn") :: else fi;
#ifdef GIVEN
           printf("[%d] server: a release sets the lock for %c, a token\n", hour, WHO(me));
           execute(3)
#else
           printf("[%d] server: a release calls %c\n", hour, WHO(me)) /* who takes as ever, if he may */
#endif
           }
#endif
    :: atomic { take[me] != UNKNOWN -> forget_take(me) } /* lost */
    :: atomic { ph[me] != UNKNOWN -> printf("[%d] %c crashes, and comes back\n", hour, WHO(me));
           ph[me] = UNKNOWN; left[me] = 0; forget_ask(me) }
    od
}

/* Any other client, at its quickest: it reads, and its take is executed, in one tick. One that is
 * slower can do nothing that it couldn't have done then. It is compared with what a client in
 * full detail did in this tick. */
inline execute_fresh(p)
{
    claim(ADJACENT, low == UNKNOWN || p <= low + 1 && p + 1 >= high, "phases act at once that are two apart");
    if :: low != UNKNOWN && p != low -> seen(BOTH, "two adjacent phases act at once") :: else fi
}
proctype fresh()
{
    do
    :: d_step { phase != UNKNOWN && low != UNKNOWN ->
           printf("[%d] a fresh client's take of phase %d is executed\n", hour, phase); execute_fresh(phase) }
    :: d_step { phase == UNKNOWN && low != UNKNOWN ->
           printf("[%d] a fresh client finds no register: its take of phase 0 is executed\n", hour); execute_fresh(0) }
    :: d_step { phase == UNKNOWN && low != UNKNOWN ->
           printf("[%d] a fresh client finds no register: its take of phase 1 is executed\n", hour); execute_fresh(1) }
    od
}

/* ---- a tool ---- */
inline forget_step(me) { step_to[me] = UNKNOWN; step_age[me] = 0 }
#ifdef WAIT_FROM_REQUEST
#define MAY_READ(me) (asked[me] > 0)
#define SO_FAR(me) (asked[me] - 1)
#else
#define MAY_READ(me) true
#define SO_FAR(me) 0
#endif

proctype tool(byte me)
{
    byte i;
    do
#ifdef WAIT_FROM_REQUEST
    :: atomic { asked[me] == 0 -> asked[me] = 1; printf("[%d] tool %c asks for the phase\n", hour, WHO_TOOL(me)) }
#endif
    :: d_step { phase != UNKNOWN && (!knows[me] || age[me] != 0) && MAY_READ(me) ->
           knows[me] = true; age[me] = 0; at[me] = phase; known[me] = SO_FAR(me);
#ifdef WAIT_FROM_REQUEST
           asked[me] = 0;
#endif
           printf("[%d] tool %c reads phase %d\n", hour, WHO_TOOL(me), phase) }
    :: atomic { knows[me] && step_to[me] == UNKNOWN && known[me] >= NEEDED && !SHOWN -> seen(HELD_BACK, "a record holds a step back") }
    :: atomic { knows[me] && step_to[me] == UNKNOWN && known[me] >= NEEDED && SHOWN && REPLICATED ->
#ifdef RECORDS
           if :: rec[0] > 1 -> seen(VOIDED, "a record is void and holds nothing back") :: else fi;
#endif
           if
           :: at[me] < 3 -> step_to[me] = at[me] + 1
           :: at[me] > 0 -> step_to[me] = at[me] - 1
           fi;
           step_age[me] = age[me];
           printf("[%d] tool %c sends the step from %d to %d\n", hour, WHO_TOOL(me), at[me], step_to[me]);
           unknow(me) } /* to send it again would be nothing else than its being long in flight */
    :: d_step { step_to[me] != UNKNOWN && phase != UNKNOWN && MATCHES(step_age[me]) && REPLICATED ->
           printf("[%d] server: phase %d becomes %d\n", hour, phase, step_to[me]);
           if :: step_to[me] > phase -> seen(ADVANCED, "a step up") :: else -> seen(WENT_BACK, "a step back") fi;
           phase = step_to[me]; forget_step(me); older(i);
#ifdef UNBEGUN
           first = false;
#endif
           if :: phase == 3 -> seen(LAST, "phase 3 is reached") :: else fi }
    :: d_step { step_to[me] != UNKNOWN && phase != UNKNOWN && !MATCHES(step_age[me]) ->
           seen(LOST_RACE, "a step is refused, another was first");
           printf("[%d] server: tool %c's step is refused, the epoch is another\n", hour, WHO_TOOL(me)); forget_step(me) }
    :: d_step { step_to[me] != UNKNOWN -> forget_step(me) } /* lost */
#ifdef UNBEGUN
    :: atomic { phase == UNKNOWN && !first ->
           if
#ifdef BEGIN_ANYWHERE
           :: phase = 2
           :: phase = 3
#endif
           :: phase = 0
           :: phase = 1
           fi;
           first = true;
           printf("[%d] server: tool %c begins the register with phase %d\n", hour, WHO_TOOL(me), phase);
           d_step { older(i) }
           seen(BEGUN, "the register begins") }
#endif
    od
}

#ifdef VANISH
proctype hand()
{
    byte i;
    d_step { phase = UNKNOWN; older(i); printf("[%d] somebody deletes the register by hand\n", hour) }
}
#endif

#ifdef FAILOVER
proctype replica()
{
    byte i;
    do
    :: d_step { !failed_over && R_age > 0 -> R_phase = phase; R_age = 0; printf("[%d] the replica has caught up\n", hour) }
    :: d_step { !failed_over && R_age < OLDEST ->
           failed_over = true; phase = R_phase;
           printf("[%d] failover: the register shows phase %d\n", hour, phase);
           for (i : 0 .. TOOLS - 1) {
               forget_step(i); /* it went to the old server */
               if :: knows[i] && age[i] < OLDEST -> age[i] = age[i] - R_age :: else fi;
#ifndef NO_ANEW
               unknow(i);
#endif
           }
           for (i : 0 .. N - 1) { forget_take(i); forget_ask(i) }
           R_phase = 0; R_age = 0; i = 0;
           seen(FAILED_OVER, "a replica takes over") }
    od
}
#endif

proctype clock()
{
    byte i;
    do
    :: d_step {
           hour = hour + STEP;
           low = UNKNOWN; high = 0;
           for (i : 0 .. N - 1) {
               if
               :: left[i] > 0 ->
                   left[i]--;
#ifndef NO_LEASE
                   if :: left[i] == 0 -> ph[i] = UNKNOWN :: else fi;
#endif
               :: else
               fi;
               if
               :: ask[i] != 0 ->
#ifndef FROM_REPLY
                   DOWN(ask_left[i]);
                   if :: ask[i] == 2 && ask_left[i] == 0 -> forget_ask(i) :: else fi;
#endif
               :: else
               fi;
#ifndef NO_NOT_AFTER
               if
               :: take[i] != UNKNOWN ->
                   not_after[i]--;
                   if
                   :: not_after[i] == 0 -> forget_take(i); seen(REFUSED, "a take comes past the end of its lease")
                   :: else
                   fi
               :: else
               fi;
#else
               not_after[i] = 0;
#endif
#ifdef RECORDS
               if :: rec[i] != 0 -> UP(rec_ago[i], VOID) :: else fi;
               if :: rec_ago[i] == VOID && SEE != VOIDED -> rec[i] = 0; rec_ago[i] = 0 :: else fi;
#endif
           }
           for (i : 0 .. TOOLS - 1) {
               if :: knows[i] -> UP(known[i], LONGEST) :: else fi;
#ifdef WAIT_FROM_REQUEST
               if :: asked[i] > 0 -> UP(asked[i], LONGEST + 1) :: else fi;
#endif
           }
           i = 0
       }
    od
}

init
{
    byte i;
    atomic {
#ifdef UNBEGUN
        phase = UNKNOWN;
#else
        select (phase : 0 .. 3);
#ifdef FAILOVER
        R_phase = phase;
#endif
#endif
        for (i : 0 .. N - 1) { run client(i) }
        for (i : 0 .. TOOLS - 1) { run tool(i) }
        i = 0;
#ifndef NO_FRESH
        run fresh();
#endif
#ifdef VANISH
        run hand();
#endif
#ifdef FAILOVER
        run replica();
#endif
        run clock()
    }
}
