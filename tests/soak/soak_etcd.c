/*
 * An etcd of three members whose leader is stopped for longer than a lifetime, with requests queued at it, and woken, again and
 * again for SOAK_SECONDS (an hour; at least ROUNDS times): who holds the lock holds it all the time.
 */
#include "etcd_faults.h"
#include "soak.h"

#define SECONDS 3600
#define ROUNDS 50
#define TTL_MS 15000 /* two members may split their votes several times, for 2 s each */

TEST(a_leader_that_is_stopped_and_woken_time_after_time_harms_nobody) {
    real_etcd *e = real_etcd_start(3);
    int64_t end = now_ms() + soak_number("SOAK_SECONDS", SECONDS) * 1000;
    int rounds = 0;
    for (; rounds < ROUNDS || now_ms() < end; rounds++)
        etcd_stop_and_wake_the_leader(e, TTL_MS);
    soak_sum("the leader was stopped and woken %d times", rounds);
    real_etcd_free(e);
}
