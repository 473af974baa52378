/*
 * Users of a real etcd that change, or are asked for only later, while its tokens are JSON Web Tokens: over connections of before
 * locks are acquired, renewed, waited for and released.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - users changed while tokens are JSON Web Tokens; logins required later, not required, and again: held, acquired,
 *   notified, over old connections.
 */
#include "etcd_faults.h"

typedef struct {
    tl_client *client;
    tl_lock *held, *other, *waits;
} logged_in;

static logged_in log_in(const real_etcd *e) {
    char url[200];
    (void)snprintf(url, sizeof url, "etcd://root:secret@%s", strstr(real_etcd_url(e), "127"));
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = url, .attempt_ms = ENOUGH_MS / 2));
    logged_in l = {c, new_lock(c, "k", 15000), new_lock(c, "other", 15000),
                   new_lock(c, "k", 15000)};
    acquire(l.held, 0);
    return l;
}

/* After a change of users, or of whether there are any: over the connections of before. */
static void assert_goes_on(logged_in *l, bool renews) {
    acquire(l->other, 0);
    assert_int_equal(tl_lock_release(l->other, NULL), TL_OK);
    told = 0;
    assert_int_equal(tl_lock_acquire_async(l->waits, TL_FOREVER, done, NULL, NULL), TL_OK);
    if (renews)
        await_renewal(l->held);
    assert_int_equal(tl_lock_release(l->held, NULL), TL_OK);
    await_told(ENOUGH_MS);
    assert_int_equal(told_code, TL_OK);
    assert_int_equal(tl_lock_release(l->waits, NULL), TL_OK);
    acquire(l->held, 0);
}

static void log_out(logged_in *l) {
    assert_int_equal(tl_lock_release(l->held, NULL), TL_OK);
    tl_lock_free(l->held);
    tl_lock_free(l->other);
    tl_lock_free(l->waits);
    tl_client_close(l->client);
}

TEST(users_that_change_make_everybody_log_in_anew_where_tokens_tell_their_date) {
    real_etcd *e = real_etcd_start_jwt(1);
    assert_non_null(real_etcd_ctl(e, "user add root:secret"));
    assert_non_null(real_etcd_ctl(e, "user grant-role root root"));
    assert_non_null(real_etcd_ctl(e, "auth enable"));
    logged_in l = log_in(e);
    assert_non_null(real_etcd_ctl(e, "--user root:secret user add more:secret"));
    assert_goes_on(&l, true);
    log_out(&l);
    real_etcd_free(e);
}

TEST(users_that_are_asked_for_later_or_no_more_or_again_cost_nobody_a_lock) {
    real_etcd *e = real_etcd_start_jwt(1);
    assert_non_null(real_etcd_ctl(e, "user add root:secret"));
    assert_non_null(real_etcd_ctl(e, "user grant-role root root"));
    logged_in l = log_in(e);
    assert_non_null(real_etcd_ctl(e, "auth enable"));
    assert_goes_on(&l, true);
    assert_non_null(real_etcd_ctl(e, "--user root:secret auth disable"));
    assert_goes_on(&l, false);
    assert_non_null(real_etcd_ctl(e, "auth enable"));
    assert_goes_on(&l, false);
    log_out(&l);
    real_etcd_free(e);
}
