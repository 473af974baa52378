/* A master that three Sentinels name, and another that takes over: who may still believe by the former one's word.
 *
 * Server A is the master. At some time the Sentinels come to name B, each by itself, in any order and as slowly as it
 * likes, and none goes back. A isn't told: it may be stopped for any time, and then carries out and answers what lay in its
 * sockets. B knows nothing of A's last writes. It gives nothing until Q ticks after it was first asked, which nobody does
 * before a majority of the Sentinels names it. Clocks are equal here: what their drift takes is the token model's business.
 *
 * One client in detail, which takes at A and keeps its lock there; all others stand ready to take at B.
 *
 *   Q                quiet_ms of all clients
 *   T                the lifetime
 *   WINDOW           a take is sent so long after the question by which A was named, at most
 *   NO_TAKES         the client has the lock from the beginning, and only keeps it
 * Broken on purpose, one guard each:
 *   NO_CONFIRM       a keep counts at once
 *   ASKED_BEFORE     a keep counts if A was named by a question of the last WINDOW ticks before its answer
 *   LATE_TAKE        a take may be sent at any time after A was found to be named
 *   ANY_ONE          one Sentinel's word will do
 *   GOES_BACK        a Sentinel may name A again (assumed not to happen: it keeps its configuration in a file)
 */

/*
 * Lessons (traces/sentinel-...):
 * - no-confirm: a former master that resumes answers what its sockets held. A keep counts only when a question after
 *   the answer names its master again.
 * - late-take: the same of a take. It is sent soon after its master was named, or confirmed like a keep.
 * - short, before-short: quiet_ms must cover T and the time in which a client still believes an answer of the former
 *   master.
 * - any-one: one Sentinel without news of the switch would keep the former master in office.
 * - goes-back: assumed. A Sentinel never names a former master by an older configuration.
 */
#include "time.pml"

#ifndef T
#define T 4
#endif
#ifndef WINDOW
#define WINDOW 1
#endif
#ifndef Q
#define Q (T + WINDOW)
#endif
#ifndef LIMIT
#define LIMIT 3 /* of a request, its answer and what confirms it */
#endif
#ifdef ANY_ONE
#define ENOUGH 1
#else
#define ENOUGH 2
#endif

#define ONE 1 /* nobody else holds the lock while the client believes */

#define BELIEVED 1
#define WOKEN 2
#define REFUSED 3
#define SUCCEEDED 4
#define LATE 5

#define NEVER (LIMIT + T + WINDOW + 2)
#define FAR (NEVER - 1)

mtype = { none, take, keep };

bool names_b[3];  /* a Sentinel's word */
bool other;       /* another holds the lock, at B */
bool touched;     /* B was asked, */
byte quiet;       /* and gives nothing for so long yet */

byte named = NEVER; /* ticks since the last question by which A was named was asked */
bool asks;          /* one is under way, */
byte asked;         /* for so long; */
bool word[3], for_b[3];

mtype op = none;
byte age;       /* since it was sent */
bool answered;  /* by A */
bool confirms;  /* it counts when A is named anew */
bool over;      /* the client follows B */
byte left;      /* the client believes for so long */
bool found;   /* LATE_TAKE: A was found to be named */

#ifdef LATE_TAKE
#define FRESH true
#else
#define FRESH (named <= WINDOW)
#endif
#define COUNT(v) (v[0] + v[1] + v[2])
#define FOR_A ((word[0] && !for_b[0]) + (word[1] && !for_b[1]) + (word[2] && !for_b[2]))
#define FOR_B ((word[0] && for_b[0]) + (word[1] && for_b[1]) + (word[2] && for_b[2]))

inline believe(what)
{
    left = MAX(left, (age < T -> T - age : 0));
    printf("[%d] the client believes for %d: %e\n", hour, left, what);
    seen(BELIEVED, "the client believes");
    claim(ONE, left == 0 || !other, "two hold the lock")
}

inline forget()
{
    op = none; age = 0; answered = false; confirms = false
}

inline ask()
{
    asks = true; asked = 0;
    word[0] = false; word[1] = false; word[2] = false;
    for_b[0] = false; for_b[1] = false; for_b[2] = false
}

proctype client()
{
    do
    /* who is the master? */
    :: d_step { !over && !asks -> ask(); printf("[%d] the client asks the Sentinels\n", hour) }
    :: d_step { asks && FOR_B >= 1 && FOR_A + FOR_B >= ENOUGH ->
           asks = false; over = true; forget(); found = false;
           printf("[%d] the client follows B\n", hour) }
    :: d_step { asks && FOR_A >= ENOUGH ->
           asks = false; named = MIN(named, asked);
           printf("[%d] A was named, as asked %d ago\n", hour, asked) }
#ifndef NO_TAKES
    :: d_step { !over && op == none && left == 0 && named <= WINDOW -> found = true; printf("[%d] the client reaches A\n", hour) }
    :: d_step { !over && op == none && found && FRESH -> op = take; found = false; printf("[%d] it sends a take\n", hour) }
#endif
    :: d_step { !over && op == none && left > 0 -> op = keep; printf("[%d] it sends a keep\n", hour) }
    /* answers */
    :: atomic { op == take && answered && !confirms -> d_step { believe(op); forget() } }
#if defined NO_CONFIRM
    :: atomic { op == keep && answered && !confirms -> d_step { believe(op); forget() } }
#elif defined ASKED_BEFORE
    :: atomic { op == keep && answered && !confirms && named <= WINDOW -> d_step { believe(op); forget() } }
#else
    :: d_step { op == keep && answered && !confirms -> confirms = true; named = NEVER; asks = false; ask();
           printf("[%d] whether A is named is asked anew\n", hour) }
    :: atomic { op == keep && confirms && named < NEVER -> d_step { believe(op); forget() } }
#endif
    od
}

proctype sentinel(byte me)
{
    do
    :: d_step { !names_b[me] -> names_b[me] = true; printf("[%d] Sentinel %d names B\n", hour, me + 1) }
#ifdef GOES_BACK
    :: d_step { names_b[me] -> names_b[me] = false; printf("[%d] Sentinel %d names A again\n", hour, me + 1) }
#endif
    :: d_step { asks && !word[me] -> word[me] = true; for_b[me] = names_b[me];
           printf("[%d] Sentinel %d answers\n", hour, me + 1) }
    od
}

proctype events()
{
    do
    :: d_step { op != none && !answered -> answered = true; printf("[%d] A answers the %e\n", hour, op);
           if :: COUNT(names_b) == 3 -> seen(WOKEN, "A answers when all name B") :: else fi }
    :: d_step { !touched && COUNT(names_b) >= 2 -> touched = true; quiet = Q; printf("[%d] B is asked for a lock, and quiet\n", hour) }
    :: d_step { touched && quiet == 0 && !other -> other = true; printf("[%d] B gives another the lock\n", hour);
           seen(SUCCEEDED, "another has the lock");
           claim(ONE, left == 0, "two hold the lock") }
    :: d_step {
           hour = hour + STEP;
           if
           :: op != none && age >= LIMIT ->
               if :: op == keep && answered -> seen(REFUSED, "a keep that was answered isn't confirmed in time") :: else fi;
               forget()
           :: op != none && age < LIMIT -> age++
           :: else
           fi;
           DOWN(left); DOWN(quiet);
           if :: named < NEVER -> UP(named, FAR) :: else fi;
           if :: asks -> UP(asked, FAR) :: else fi }
    od
}

init
{
    atomic {
#ifdef NO_TAKES
        left = T; named = 0;
#endif
        run client(); run sentinel(0); run sentinel(1); run sentinel(2); run events()
    }
}
