/* What a server that was restarted, or a replica that took over, may have forgotten; and `tidelock:reign`, by which the
 * script that gives a lock knows how long this server has been the same.
 *
 * Two servers, of which one is the master at any time. The other one's data are those of the master at some earlier time,
 * as a whole, since what is replicated comes in order. A promotion makes the other one master at one instant (what a former
 * master still answers is sentinel.pml's business), with the data that it has. A restart leaves the data that were saved
 * at some earlier time, or none. A promotion changes the history of replication (master_replid), a restart the run
 * (run_id) of that server. Servers are told apart in R by both, and R is data like the lock's key K: it may be lost, late
 * or old like that. Clocks are equal here, and aren't set.
 *
 * With UNFOLLOWED a server may be master again without having been a replica, as one that hung while the other took over:
 * its run and its history are those of before. Then R also has the epoch in which it is the master, which the Sentinels know.
 *
 * One client in detail; all others (`other`) take whenever the server gives, and believe for as long as it keeps.
 *
 *   T, Q                 the lifetime; quiet_ms
 *   UNFOLLOWED           the former master is made a replica only by getting what the master has
 *   PROMOTIONS, RESTARTS which of them happen (both, in any number, if neither is given)
 * Broken on purpose, one guard each:
 *   RUN_ONLY             R names the run alone
 *   HISTORY_ONLY         R names the history alone
 *   NO_EPOCH             R has no epoch
 *   UPTIME               no R: a server gives nothing for Q after a restart
 *   AT_LOGIN             whether it may give is asked once a connection, not in the script that takes
 *   OWN_COUNTS           who finds his own token at K believes it, whatever R says
 */

/*
 * Lessons (traces/reign-...):
 * - short: a holder may have acquired or renewed at the last moment before the change. So the silence is T, not less.
 * - run-only: a server that was a replica meanwhile is the same process. Its own record from before is old enough.
 * - no-epoch: a master that hung and is master again before it was made a replica has the same run and history. Only
 *   the Sentinels' epoch differs.
 * - history-only: a restart forgets what was not saved, and the replication history stays.
 * - uptime: a replica that takes over has been up for long.
 * - at-login: a connection outlasts two promotions, so the script that grants the lock must ask each time.
 * - own-counts: K may be an older copy. Its token may have been removed since, and another granted the lock. Only a
 *   client that already believes may rely on it, by a keep.
 */
#include "time.pml"

#if !defined PROMOTIONS && !defined RESTARTS
#define PROMOTIONS
#define RESTARTS
#endif
#ifndef T
#define T 3
#endif
#ifndef Q
#define Q T
#endif
#ifndef LIMIT
#define LIMIT 1 /* of a request and its answer */
#endif

#define ONE 1  /* nobody else believes while somebody does */

#define WITHHELD 1
#define BACK 2
#define SUCCEEDED 3
#define FOUND 4

#define NOBODY 0
#define ME 1
#define OTHER 2
#define ORPHAN 3 /* a token that its client has given up */
#define NO_R 2
#define OLD 2 /* so many promotions ago, or more */

typedef Data {
    byte who;  /* at K, */
    byte left; /* for so long yet */
    byte r = NO_R;   /* R: which server wrote it, */
    bool former;     /* in a run that is over, */
#ifdef UNFOLLOWED
    bool moved;      /* and whoever has it now was a replica since; */
#endif
    byte history;    /* so many promotions ago; */
    byte since       /* and so long ago, at most Q */
}

Data live[2];
#ifdef RESTARTS
Data disk; /* of server 0, which alone is restarted */
#endif
bool master;   /* which of them is */
byte up[2];    /* since when, at most Q */
bool asked[2]; /* AT_LOGIN: a connection was told that it may */

mtype = { none, take, keep };
mtype op = none;
byte age;
bool done;     /* it was executed for us, and the answer is on its way */
byte left;     /* the client believes for so long */
byte theirs;   /* another does */

#define M live[master]
#define SAME_RUN (M.r == master && !M.former)
#define SAME_EPOCH (M.r != NO_R && M.history == 0)
#ifdef UNFOLLOWED
#define SAME_HISTORY (M.r != NO_R && !M.moved)
#else
#define SAME_HISTORY SAME_EPOCH
#endif
#if defined UNFOLLOWED && !defined NO_EPOCH
#define KNOWN (SAME_RUN && SAME_HISTORY && SAME_EPOCH)
#elif defined RUN_ONLY
#define KNOWN SAME_RUN
#elif defined HISTORY_ONLY
#define KNOWN SAME_HISTORY
#else
#define KNOWN (SAME_RUN && SAME_HISTORY)
#endif
#if defined UPTIME
#define GIVES (up[master] == Q)
#elif defined AT_LOGIN
#define GIVES (asked[master] || (KNOWN && M.since == Q))
#else
#define GIVES (KNOWN && M.since == Q)
#endif

inline copy(to, from)
{
    to.who = from.who; to.left = from.left; to.r = from.r; to.former = from.former;
    to.history = from.history; to.since = from.since
}

/* Who gets what the master has is its replica. */
inline follow(d)
{
#ifdef UNFOLLOWED
    d.moved = true;
#endif
    skip
}

inline note()
{
    if
    :: KNOWN -> if :: M.since == Q -> asked[master] = true :: else fi
    :: else -> M.r = master; M.former = false; M.history = 0; M.since = 0;
#ifdef UNFOLLOWED
               M.moved = false
#endif
    fi
}

inline give_to(someone)
{
    M.who = someone; M.left = T
}

inline believe()
{
    left = MAX(left, (age < T -> T - age : 0));
    printf("[%d] the client believes for %d: %e\n", hour, left, op);
    op = none; age = 0; done = false;
    claim(ONE, left == 0 || theirs == 0, "two hold the lock")
}

inline disown(d)
{
    if :: d.who == ME -> d.who = ORPHAN :: else fi
}

inline new_token()
{
    disown(live[0]); disown(live[1]);
#ifdef RESTARTS
    disown(disk);
#endif
    op = none; age = 0; done = false
}

proctype client()
{
    do
    :: d_step { op == none && left == 0 -> new_token(); op = take; printf("[%d] the client sends a take\n", hour) }
    :: d_step { op == take && age > 0 -> age = 0; done = false; printf("[%d] it sends the take again\n", hour) }
    :: d_step { op == none && left > 0 -> op = keep; printf("[%d] it sends a keep\n", hour) }
    :: d_step { op == take && left == 0 -> new_token(); printf("[%d] it gives the take up\n", hour) }
    :: d_step { left > 0 -> left = 0; if :: M.who == ME -> M.who = NOBODY; M.left = 0 :: else fi;
           new_token(); printf("[%d] it releases the lock\n", hour) }
    :: atomic { done -> believe() }
    od
}

proctype server()
{
    do
    :: d_step { op == take && !done ->
           note();
           if
#ifdef OWN_COUNTS
           :: M.who == ME -> done = true; printf("[%d] the master finds it his already\n", hour)
           :: M.who != ME && !GIVES ->
#else
           :: M.who == ME && GIVES -> done = true; M.left = T; seen(FOUND, "a repeated take finds itself the holder")
           :: !GIVES ->
#endif
               seen(WITHHELD, "a lock is withheld")
           :: M.who == NOBODY && GIVES -> give_to(ME); done = true; printf("[%d] the master gives him the lock\n", hour)
           :: else
           fi }
    :: d_step { op == keep && !done && M.who == ME -> M.left = T; done = true; printf("[%d] the master keeps it\n", hour) }
    od
}

proctype others()
{
    do
    :: d_step { !KNOWN || M.since == Q -> note();
           if
           :: M.who == NOBODY && GIVES -> give_to(OTHER);
               printf("[%d] the master gives another the lock\n", hour);
               seen(SUCCEEDED, "another has the lock");
               claim(ONE, left == 0 && theirs == 0, "two hold the lock");
               theirs = T
           :: else
           fi }
    :: d_step { theirs > 0 && M.who == OTHER -> theirs = T; M.left = T; printf("[%d] the other keeps it\n", hour) }
    :: d_step { theirs > 0 -> theirs = 0; if :: M.who == OTHER -> M.who = NOBODY; M.left = 0 :: else fi;
           printf("[%d] the other releases it\n", hour) }
    :: d_step { M.who != NOBODY && !done && left == 0 && theirs == 0 -> M.who = NOBODY; M.left = 0;
           printf("[%d] somebody removes the lock, whose holder does not know of it\n", hour) }
    od
}

inline tick_of(d)
{
    DOWN(d.left);
    if :: d.left == 0 -> d.who = NOBODY :: else fi;
    if :: d.r != NO_R -> UP(d.since, Q) :: else fi
}

inline promoted(d)
{
    if :: d.r != NO_R -> UP(d.history, OLD) :: else fi
}

inline restarted(d)
{
    if :: d.r == 0 -> d.former = true :: else fi
}

proctype events()
{
    do
    :: d_step { copy(live[1 - master], M); follow(live[1 - master]); printf("[%d] the replica has all that the master has\n", hour) }
#ifdef PROMOTIONS
    :: d_step { true -> master = 1 - master; printf("[%d] server %d is master\n", hour, master);
           if :: M.r == master && !M.former && M.since == Q -> seen(BACK, "a server is master again") :: else fi;
           promoted(live[0]); promoted(live[1]);
#ifdef RESTARTS
           promoted(disk)
#endif
           }
#endif
#ifdef RESTARTS
    :: d_step { master == 0 -> copy(disk, M); printf("[%d] the master saves its data\n", hour) }
    :: d_step { master == 0 -> copy(M, disk); up[0] = 0; asked[0] = false;
           restarted(live[0]); restarted(live[1]); restarted(disk);
           printf("[%d] the master is restarted\n", hour) }
#endif
    :: d_step {
           hour = hour + STEP;
           tick_of(live[0]); tick_of(live[1]);
#ifdef RESTARTS
           tick_of(disk);
#endif
           UP(up[0], Q); UP(up[1], Q);
           DOWN(left); DOWN(theirs);
           if
           :: op == keep && left == 0 -> new_token(); printf("[%d] the client has lost the lock\n", hour)
           :: op == keep && left > 0 && age >= LIMIT -> op = none; age = 0; done = false
           :: op == take && age >= LIMIT -> new_token()
           :: op == take && age < LIMIT || op == keep && left > 0 && age < LIMIT -> age++
           :: else
           fi }
    od
}

init
{
    atomic { up[0] = Q; up[1] = Q; run client(); run server(); run others(); run events() }
}
