/*
 * The simple interface: two calls on top of the public header. It must never use anything of a lock that a
 * program could not use.
 */
#include <pthread.h>
#include <string.h>

#include <tidelock/tidelock.h>

static void forget(void *lock) {
    tl_lock_free(lock);
}

tl_lock *tl_acquire(tl_client *client, const char *key, int64_t wait_ms, tl_error *err) {
    tl_err code;
    tl_lock *lock = tl_lock_new(client, key, key ? strlen(key) : 0, NULL, err);
    if (!lock)
        return NULL;
    pthread_cleanup_push(forget, lock); /* the thread may be cancelled while it waits */
    code = tl_lock_acquire(lock, wait_ms, err);
    pthread_cleanup_pop(0);
    if (code == TL_OK)
        return lock;
    tl_lock_free(lock);
    return NULL;
}

tl_err tl_release(tl_lock *lock, tl_error *err) {
    tl_err code = lock ? tl_lock_release(lock, err) : TL_OK;
    tl_lock_free(lock);
    return code;
}
