/* The fence: max(previous + 1, the server's microseconds, the caller's anchored ones).
 *
 * A tick is a microsecond, in which a server executes one take at most. `previous` is in
 * S, and S can be forgotten: it expires after IDLE without a take, and a failover may
 * bring back an older S or none.
 *
 *   FAILOVER       a replica that misses the last writes takes over, its clock behind by
 *                  SKEW, after OUTAGE without takes
 *   AHEAD=n        the caller's estimate of the server's clock may be n ahead (a midpoint);
 *                  otherwise it is the lower edge of its interval, never ahead
 *   NO_CLOCK       the fence is previous + 1 alone
 */

/*
 * Lessons (traces/fence-...):
 * - short: a failover must take longer than the servers' clocks differ.
 * - ahead-short: a caller whose estimate is ahead of the server adds that much to it. So a caller passes the lower
 *   edge of its interval.
 * - no-clock: a counter alone starts again when S has been lost.
 */
#include "time.pml"

#ifndef SKEW
#define SKEW 2
#endif
#ifndef OUTAGE
#define OUTAGE (SKEW + 1)
#endif
#ifndef AHEAD
#define AHEAD 0
#endif
#define BEHIND 2 /* how far the lower edge may be behind */
#define IDLE 6

#define FENCE 1 /* fences strictly increase in the order of taking */

#define FORGOTTEN 1
#define FAILED_OVER 2
#define AGAIN 3

#define LOWEST -9 /* older fences are all alike */
#define NOBODY -10

short S = NOBODY, replica = NOBODY, top = NOBODY; /* fences, minus the present */
byte idle, outage, behind;
bool used, failed_over; /* used: this microsecond had its take */

proctype takes()
{
    short caller;
    do
    :: atomic { !used && outage == 0 ->
           select (caller : 0 - BEHIND .. AHEAD);
           d_step {
#ifdef NO_CLOCK
               S = (S == NOBODY -> LOWEST : S + 1); /* it starts again at the bottom */
#else
               S = MAX(S + 1, MAX(0 - behind, caller));
#endif
               caller = 0; used = true; idle = 0;
               printf("[%d] take -> fence %d\n", hour, hour + S);
               if :: failed_over -> seen(AGAIN, "a fence is given after a failover") :: else fi;
               claim(FENCE, S > top, "the fence did not increase");
               top = S
           } }
    od
}

proctype events()
{
    do
    :: d_step {
           hour = hour + STEP; used = false;
           if :: S != NOBODY -> AGE(S, LOWEST) :: else fi;
           if :: replica != NOBODY -> AGE(replica, LOWEST) :: else fi;
           if :: top != NOBODY -> AGE(top, LOWEST) :: else fi;
           DOWN(outage);
           UP(idle, IDLE);
           if
           :: idle == IDLE && S != NOBODY -> S = NOBODY; printf("[%d] S has expired\n", hour);
               seen(FORGOTTEN, "S expires")
           :: else
           fi }
#ifdef FAILOVER
    :: d_step { !failed_over -> replica = S; printf("[%d] the replica has caught up\n", hour) }
    :: d_step { !failed_over ->
           S = replica; replica = NOBODY; failed_over = true; outage = OUTAGE; behind = SKEW;
           printf("[%d] failover: the new server's clock is %d behind\n", hour, SKEW);
           seen(FAILED_OVER, "a replica takes over") }
#endif
    od
}

init { atomic { run takes(); run events() } }
