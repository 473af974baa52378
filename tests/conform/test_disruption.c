/*
 * Conformance: a virtual machine that was paused, moved or restored, as its VMClock shows. A holder counts on its lock
 * again only after a renewal that began later. This file defines ground/vmclock: the page is a variable.
 */
#include "conform.h"

#include <stdatomic.h>
#include <string.h>

#include "ground/vmclock.h"

#define TTL_MS 30000
#define LONG_MS 600000 /* its renewals are due in minutes */

static tl_vmclock page = {.magic = TL_VMCLOCK_MAGIC,
                          .flags = TL_VMCLOCK_COUNTS,
                          .sequence = 2,
                          .marker = 7,
                          .generation = 3};

const tl_vmclock *tl__vmclock_open(const char *path, const char **ret_why) {
    (void)path;
    *ret_why = NULL;
    return &page;
}

void tl__vmclock_close(const tl_vmclock *mapped) {
    assert_ptr_equal(mapped ? mapped : &page, &page);
}

tl_vmclock_view tl__vmclock_read(const tl_vmclock *mapped) {
    return (tl_vmclock_view){.marker = __atomic_load_n(&mapped->marker, __ATOMIC_ACQUIRE),
                             .generation = __atomic_load_n(&mapped->generation, __ATOMIC_ACQUIRE),
                             .flags = mapped->flags};
}

static void disrupt(void) {
    __atomic_fetch_add(&page.marker, 1, __ATOMIC_RELEASE);
}

static void restore(void) {
    __atomic_fetch_add(&page.generation, 1, __ATOMIC_RELEASE);
    disrupt();
}

static tl_lock *watched(conform *c, tl_client *client, lock_events *events, int64_t ttl_ms) {
    return conform_lock_with(
        c, client, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
}

CONFORM_OF(nothing_remains_until_a_later_renewal_and_then_it_is_held_again, c, CONFORM_RENEWAL) {
    tl_client *client = conform_client(c);
    lock_events *events = make_events();
    tl_lock *lock = watched(c, client, events, LONG_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    for (int i = 0; i < 3; i++) {
        uint64_t renewals = renewals_of(client);
        disrupt();
        WAIT_FOR(SOON_MS, renewals_of(client) > renewals);
        WAIT_FOR(SOON_MS, tl_lock_remaining_ms(lock) > 0);
        assert_int_equal(tl_lock_state(lock), TL_HELD);
    }
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

/* No renewal gets through. */
CONFORM_OF(a_holder_without_a_later_renewal_loses_it, c, CONFORM_RENEWAL | CONFORM_SHORT) {
    proxy *between = conform_proxy(c);
    tl_client *client = conform_client_with(c, TL_CLIENT_OPTIONS(.url = proxy_url(between)));
    lock_events *events = make_events();
    tl_lock *lock = watched(c, client, events, 3000);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    proxy_stop(between);
    disrupt();
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_int_not_equal(tl_lock_state(lock), TL_HELD);
    lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
    assert_int_equal(lost.why, TL_LOST_DISRUPTED);
    assert_non_null(strstr(lost.detail, ": this machine was paused, moved or restored"));
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
}

/* The program renews by itself: the doubt ends by tl_lock_extend. */
CONFORM_OF(without_renewals_an_extension_ends_the_doubt, c, CONFORM_RENEWAL) {
    tl_lock *lock = conform_lock_with(c, conform_client(c),
                                      TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .manual_renew = true));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    disrupt();
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_int_equal(tl_lock_state(lock), TL_AT_RISK);
    ASSERT_RESULT(tl_lock_extend(lock, LASTING_MS, &said), TL_OK);
    assert_true(tl_lock_remaining_ms(lock) > 0);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* Another copy of the machine may go on with it. */
CONFORM_OF(a_restored_machine_loses_it_and_leaves_it_to_the_copy, c, CONFORM_FENCE) {
    tl_client *client = conform_client(c);
    lock_events *events = make_events();
    tl_lock *lock = watched(c, client, events, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    restore();
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_DISRUPTED);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_EEXPIRED);
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY); /* by another token */
}

/* Its token may come from the image, too. */
CONFORM_OF(a_restored_machine_extends_no_lock_of_the_image, c, CONFORM_RENEWAL) {
    tl_lock *holder = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_adopt(lock, tl_lock_token(holder), &said), TL_OK);
    restore();
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_ELOST);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
}

static uint64_t waiting_at(tl_client *client) {
    tl_stats stats = {.size = sizeof stats};
    ASSERT_RESULT(tl_client_stats(client, &stats, &said), TL_OK);
    return stats.waiting_now;
}

/* The other copy may be granted the lock by the same token: to leave the queue would take it away. */
CONFORM_OF(a_restored_machine_ends_its_acquires_and_undoes_nothing, c, CONFORM_SIDECAR) {
    tl_client *client = conform_client(c);
    tl_lock *holder = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, waiting_at(client) == 1);
    restore();
    tl_lock_cancel(lock);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_EUNCERTAIN);
    ASSERT_SAID("a copy of it may hold the lock");
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
}

CONFORM_MAIN
