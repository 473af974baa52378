/* The old rule among Java clients alone: how much slack it needs, and what becomes of it
 * without. legacy.pml holds the rule. */
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
