/*
 * Locks on a real etcd whose space is used up.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - no space left (NOSPACE): UNAVAILABLE "no space left (NOSPACE)"; LOST by the deadline, free afterwards; release
 *   works.
 */
#include "etcd_faults.h"

/* A renewal is a new lease and a put, and etcd refuses both. */
TEST(without_space_a_lock_is_lost_in_time_and_free_afterwards_and_the_cause_is_told) {
    real_etcd *e = real_etcd_start_small(1, 150000);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e), .attempt_ms = 12000));
    tl_lock *held = new_lock(c, "k", 6000), *released = new_lock(c, "released", 300000),
            *other = new_lock(c, "other", 30000);
    tl_error err;
    acquire(released, 0);
    acquire(held, 0);
    char large[2000] = "put big ";
    size_t n = strlen(large);
    memset(large + n, 'x', sizeof large - n - 1);
    for (int i = 0; i < 200 && real_etcd_ctl(e, large); i++) /* each keeps room in the history */
        ;
    assert_non_null(strstr(real_etcd_ctl(e, "alarm list"), "NOSPACE"));
    tl_err code = TL_EUNCERTAIN; /* of a busy machine, whose answer comes too late */
    for (int64_t end = now_ms() + 2 * ENOUGH_MS; now_ms() < end && code == TL_EUNCERTAIN;)
        code = tl_lock_acquire(other, 0, &err);
    if (code != TL_EUNAVAILABLE)
        fail_msg("%s: %s", tl_err_name(code), err.message);
    assert_non_null(strstr(err.message, "no space left (NOSPACE)"));
    assert_int_equal(tl_lock_release(released, NULL), TL_OK);
    for (int64_t end = now_ms() + ENOUGH_MS; now_ms() < end && tl_lock_state(held) != TL_LOST;)
        pause_ms(20);
    assert_int_equal(tl_lock_state(held), TL_LOST);
    tl_lock_info info = {.size = sizeof info, .held = true};
    for (int64_t end = now_ms() + ENOUGH_MS; now_ms() < end && info.held; pause_ms(50))
        assert_int_equal(tl_client_look(c, "k", 1, &info, NULL), TL_OK);
    assert_false(info.held);
    char compact[64];
    unsigned long long revision = strtoull(
        strstr(real_etcd_ctl(e, "get none -w fields"), "\"Revision\" : ") + 13, NULL, 10);
    (void)snprintf(compact, sizeof compact, "compact %llu", revision);
    assert_non_null(real_etcd_ctl(e, compact));
    assert_non_null(real_etcd_ctl(e, "defrag"));
    assert_non_null(real_etcd_ctl(e, "alarm disarm"));
    acquire(other, ENOUGH_MS);
    assert_int_equal(tl_lock_release(other, NULL), TL_OK);
    tl_lock_free(held);
    tl_lock_free(released);
    tl_lock_free(other);
    tl_client_close(c);
    real_etcd_free(e);
}
