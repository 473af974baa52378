/* The old rule among Java clients alone: how much slack it needs, and what becomes of it
 * without. legacy.pml holds the rule. */

/*
 * Lessons (traces/java-...). The rule needs slack: a job with its DEL must be over 2M + L before its stamp.
 * - skew-steal: without slack a fast clock takes a lock on which a slow one relies.
 * - race: with equal clocks and no slack the GETSET of a racing loser leaves an earlier stamp than the winner's.
 * - slack: both together. 2M + L - 2 ticks are not enough; 2M + L - 1 are, since the comparison is strict.
 * - late-del: a job that ends late deletes its successor's lock, and a third client acquires it.
 * - orphan: GETSET answers nil. The client throws, its stamp stays, and no client holds.
 * - beyond-m, beyond-l, steps-short: the use of each assumption. A clock that steps within M during a job costs 2M
 *   more.
 */
#include "time.pml"

/* claims */
#define ONE 1 /* never two holders */

/* events that must be possible */
#define HANDOVER 1
#define TAKEOVER 2
#define LOSER 3
#define ORPHANED 4

#define HOLDERS JAVAS_IN
#define j_robs(me) skip

byte before; /* who released last; only for SEE */

#include "legacy.pml"

proctype clock()
{
    byte i;
    do
    :: d_step { hour = hour + STEP; legacy_tick() }
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. NJ - 1) { run java(i) }
        i = 0;
        run clock()
    }
}
