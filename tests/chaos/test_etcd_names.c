/*
 * Names of locks on a real etcd, which nest.
 */
#include "etcd_faults.h"

/* Names nest: it would wait for a/b, which nobody else can release. */
TEST(a_program_of_one_thread_is_told_that_it_would_wait_for_itself) {
#if defined(__SANITIZE_THREAD__)
    print_message("SKIP: ThreadSanitizer gives each program another thread\n");
    skip();
#endif
    real_etcd *e = real_etcd_start(1);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e)));
    tl_lock *outer = new_lock(c, "a/b", 60000), *inner = new_lock(c, "a", 60000);
    tl_error err;
    acquire(outer, 0);
    (void)alarm(300); /* it would be for ever */
    assert_int_equal(tl_lock_acquire(inner, TL_FOREVER, &err), TL_EBUSY);
    (void)alarm(0);
    assert_non_null(strstr(err.message, "acquire a: this program holds a lock below its name"));
    assert_int_equal(tl_lock_release(outer, NULL), TL_OK);
    acquire(inner, TL_FOREVER);
    acquire(outer, TL_FOREVER); /* which isn't below */
    assert_int_equal(tl_lock_release(inner, NULL), TL_OK);
    assert_int_equal(tl_lock_release(outer, NULL), TL_OK);
    tl_lock_free(inner);
    tl_lock_free(outer);
    tl_client_close(c);
    real_etcd_free(e);
}
