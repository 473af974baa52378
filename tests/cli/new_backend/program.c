/*
 * What every kind of server must do, by the public header alone: program URL. It says what is wrong and ends with 1.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <tidelock/inspect.h>
#include <tidelock/tidelock.h>

static int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static atomic_int done;

static void acquired(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock, (void)err;
    *(tl_err *)ctx = code;
    done++;
}

static void nap(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static tl_client *open_client(const char *url) {
    tl_client *client = NULL;
    tl_error err;
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = url);
    if (tl_client_open(&options, &client, &err))
        printf("%s\n", err.message);
    return client;
}

static bool is_held(tl_client *client, const char *key) {
    tl_lock_info info = {.size = sizeof info};
    CHECK(tl_client_look(client, key, strlen(key), &info, NULL) == TL_OK);
    return info.held;
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "";
    tl_client *a = open_client(url), *b = open_client(url);
    if (!a || !b)
        return 1;
    const tl_lock_options renewed = TL_LOCK_OPTIONS(.ttl_ms = 10000);
    const tl_lock_options by_hand = TL_LOCK_OPTIONS(.ttl_ms = 300, .manual_renew = true);
    tl_lock *mine = tl_lock_new(a, "k", 1, &renewed, NULL);
    tl_lock *other = tl_lock_new(b, "k", 1, &by_hand, NULL);
    CHECK(tl_client_ping(a, NULL) == TL_OK);
    CHECK(tl_lock_acquire(mine, 0, NULL) == TL_OK);
    CHECK(is_held(b, "k"));
    CHECK(tl_lock_acquire(other, 0, NULL) == TL_EBUSY);
    CHECK(tl_lock_acquire(other, 100, NULL) != TL_OK);
    for (int64_t left = 10000, now; (now = tl_lock_remaining_ms(mine)) > 0 && now <= left;
         left = now)
        nap(1); /* until it is renewed */
    CHECK(tl_lock_state(mine) == TL_HELD);
    CHECK(tl_lock_extend(mine, 60000, NULL) == TL_OK);
    CHECK(tl_lock_remaining_ms(mine) > 30000);
    uint64_t fence = tl_lock_fence(mine);
    tl_err code = TL_EBUSY;
    CHECK(tl_lock_acquire_async(other, TL_FOREVER, acquired, &code, NULL) == TL_OK);
    nap(50);
    CHECK(done == 0);
    CHECK(tl_lock_release(mine, NULL) == TL_OK);
    while (done < 1)
        nap(1);
    CHECK(code == TL_OK && tl_lock_fence(other) > fence);
    while (tl_lock_state(other) == TL_HELD) /* nobody renews it */
        nap(1);
    while (is_held(a, "k")) /* the server lets it go a moment later */
        nap(1);
    CHECK(tl_lock_release(other, NULL) != TL_OK);
    CHECK(tl_lock_acquire(mine, 0, NULL) == TL_OK);
    CHECK(tl_client_break(b, "k", 1, NULL, NULL) == TL_OK);
    CHECK(tl_lock_extend(mine, 1000, NULL) == TL_EEXPIRED);
    CHECK(tl_lock_acquire_async(other, 0, acquired, &code, NULL) == TL_OK);
    while (done < 2)
        nap(1);
    CHECK(code == TL_OK);
    CHECK(tl_lock_release_async(other, acquired, &code, NULL) == TL_OK);
    while (done < 3)
        nap(1);
    CHECK(code == TL_OK && !is_held(a, "k"));
    tl_lock_free(mine);
    tl_lock_free(other);
    tl_client_close(a);
    tl_client_close(b);
    return failures > 0;
}
