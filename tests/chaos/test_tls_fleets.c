/*
 * Several servers that all speak TLS: the master that Sentinels name, a cluster, independent servers. A lock is kept, handed on
 * to who waits, and goes on where a server dies; a certificate of another authority is refused at once, whoever shows it.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - a cluster, Sentinels with their master, and independent servers with TLS, one of which dies: locks continue.
 * - a certificate of another authority: EDENIED at once.
 */
#include "arena.h"

#include "real_fleet.h"
#include "transport/tls.h"

#define LIFE_MS SAFE_MS
#define FOLLOW_MS 60000 /* until a failover is over, on a busy machine */
#define KEYS 6

static real_fleet *fleet;

static int set_up(void **state) {
    (void)state;
    if (!tl__tls_built()) {
        print_message("this library is built without TLS\n");
        exit(77);
    }
    return 0;
}

static int tear_down(void **state) {
    int failed = locks_clean_up(state);
    real_fleet_free(fleet);
    fleet = NULL;
    return failed;
}

TESTS_WITH(set_up, tear_down);

static tl_client *client_with_ca(const char *ca) {
    const char *theirs = real_fleet_sentinels(fleet) > 0 ? "spw" : NULL;
    return make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .tls_ca_file = ca,
                                              .sentinel_password = theirs, .quiet_ms = TL_QUIET_OFF,
                                              .attempt_ms = SOON_MS, .connect_ms = FOLLOW_MS));
}

/* `victim` dies, and isn't needed. */
static void keeps_its_promises(real_node *(*victim)(void)) {
    tl_client *client = client_with_ca(real_redis_ca()), *other = client_with_ca(real_redis_ca());
    tl_lock *held[KEYS];
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "tls:%d", i);
        held[i] = make_lock(client, key, LIFE_MS);
        WAIT_FOR(FOLLOW_MS, tl_lock_acquire(held[i], 0, &said) == TL_OK);
    }
    acquiring *waiter = acquiring_begin(make_lock(other, "tls:0", LIFE_MS), TL_FOREVER);
    WAIT_FOR(SOON_MS, renewals_of(client) >= KEYS);
    for (int i = 0; i < KEYS; i++)
        ASSERT_GOES_ON(held[i]);
    uint64_t fence = tl_lock_fence(held[0]);
    assert_false(atomic_load(&waiter->done));
    ASSERT_RESULT(tl_lock_release(held[0], &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    assert_true(tl_lock_fence(waiter->lock) > fence);
    real_node *dead = victim();
    real_redis_kill(dead->redis);
    tl_lock *after = make_lock(other, "tls:after", LIFE_MS);
    WAIT_FOR(FOLLOW_MS, tl_lock_acquire(after, LIFE_MS, &said) == TL_OK);
    ASSERT_RESULT(tl_lock_release(after, &said), TL_OK);
    real_fleet_restart(fleet, dead); /* clients ask as they close */
}

static void refuses_a_stranger(void) {
    char command[600], ca[300];
    const char *dir = real_redis_dir(real_fleet_server(fleet, 0)->redis);
    (void)snprintf(ca, sizeof ca, "%s/stranger.pem", dir);
    (void)snprintf(command, sizeof command,
                   "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
                   "/dev/null -out %s -subj /CN=stranger -days 9 2>/dev/null",
                   ca);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): a test's own line
    tl_lock *lock = make_lock(client_with_ca(ca), "tls:0", LIFE_MS);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, FOLLOW_MS, &said), TL_EDENIED);
    ASSERT_SAID("certificate");
    assert_in_range(clock_ms() - began, 0, FOLLOW_MS / 2);
}

static real_node *master(void) {
    return real_fleet_master(fleet);
}

static real_node *owner(void) {
    return real_fleet_owner(fleet, "tls:after");
}

static real_node *any(void) {
    return real_fleet_server(fleet, 1);
}

TEST(the_master_that_sentinels_name_by_tls) {
    fleet = real_fleet_start_sentinels(
        &(real_fleet_options){.tls = true, .password = "pw", .sentinel_password = "spw"});
    refuses_a_stranger();
    keeps_its_promises(master);
}

TEST(a_cluster_by_tls) {
    fleet = real_fleet_start_cluster(&(real_fleet_options){.tls = true, .password = "pw"});
    refuses_a_stranger();
    keeps_its_promises(owner);
}

TEST(independent_servers_by_tls) {
    fleet = real_fleet_start_servers(3, &(real_fleet_options){.tls = true, .password = "pw"});
    refuses_a_stranger();
    keeps_its_promises(any);
}

int main(void) {
    real_redis_need_tls();
    return tests_run();
}
