/*
 * Conformance: looking at a key tells who holds it, and touches nothing.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "conform.h"

#define TTL_MS 30000
#define REST_MS 3600000

static tl_lock_info look(conform *c, tl_client *client) {
    tl_lock_info info;
    memset(&info, 0x5a, sizeof info);
    info.size = sizeof info;
    ASSERT_RESULT(tl_client_look(client, c->key, strlen(c->key), &info, &said), TL_OK);
    assert_int_equal(info.size, sizeof info);
    return info;
}

CONFORM(a_free_key_is_held_by_nobody, c) {
    tl_lock_info info = look(c, conform_client(c));
    assert_false(info.held);
    assert_false(info.by_tidelock);
    assert_int_equal(info.fence, 0);
    assert_int_equal(info.pid, 0);
    assert_int_equal(info.remaining_ms, -1);
    assert_int_equal(info.held_ms, -1);
    assert_string_equal(info.value, "");
    assert_string_equal(info.host, "");
    assert_string_equal(info.service, "");
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
}

CONFORM_OF(a_held_key_tells_of_its_holder, c, CONFORM_FENCE | CONFORM_GARBAGE) {
    struct utsname names;
    tl_client *client = conform_client_with(c, TL_CLIENT_OPTIONS(.service = "night shift"));
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    assert_int_equal(uname(&names), 0);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK); /* as the first renewal does */
    tl_lock_info info = look(c, conform_client(c));
    assert_true(info.held && info.by_tidelock);
    assert_in_range(info.remaining_ms, TTL_MS / 2, TTL_MS);
    assert_in_range(info.held_ms, 0, clock_ms() - began + 1);
    assert_true(info.fence == tl_lock_fence(lock));
    assert_int_equal(info.pid, getpid());
    assert_string_equal(info.host, names.nodename);
    assert_string_equal(info.service, "night shift");
    assert_true(info.value[0] != '\0');
}

CONFORM_OF(a_released_key_remembers_its_last_fence, c, CONFORM_FENCE | CONFORM_SCRIPTS) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK); /* as the first renewal does */
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    tl_lock_info info = look(c, conform_client(c));
    assert_false(info.held);
    assert_false(info.by_tidelock);
    assert_true(info.fence == tl_lock_fence(lock));
    assert_string_equal(info.host, "");
    assert_int_equal(info.pid, 0);
}

CONFORM_OF(a_resting_key_tells_of_its_last_holder_and_of_its_end, c, CONFORM_REST | CONFORM_FENCE) {
    tl_client *client = conform_client_with(c, TL_CLIENT_OPTIONS(.service = "night shift"));
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    const int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_rest(lock, REST_MS, &said), TL_OK);
    const int64_t now_ms = conform_int(
        c, "EVAL %s 0", "local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000");
    tl_lock_info info = look(c, conform_client(c));
    assert_true(info.held && info.rests && info.by_tidelock);
    assert_in_range(info.remaining_ms, REST_MS / 2, 2 * REST_MS);
    assert_in_range(info.rest_end_ms, now_ms + REST_MS / 2, now_ms + 2 * REST_MS);
    assert_in_range(info.rested_ms, 0, clock_ms() - began + 1);
    assert_int_equal(info.held_ms, -1);
    assert_true(info.fence == tl_lock_fence(lock));
    assert_int_equal(info.pid, getpid());
    assert_string_equal(info.service, "night shift");
    assert_string_equal(info.oddity, "");
    ASSERT_RESULT(tl_client_break(client, c->key, strlen(c->key), &info, &said), TL_OK);
    info = look(c, conform_client(c));
    assert_false(info.held || info.rests);
}

CONFORM_OF(looking_changes_nothing, c, CONFORM_RENEWAL) {
    tl_lock *lock = conform_lock_with(c, conform_client(c),
                                      TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    long long before = conform_int(c, "PTTL %s", c->key);
    tl_client *client = conform_client(c);
    for (int i = 0; i < 10; i++)
        (void)look(c, client);
    assert_true(conform_int(c, "PTTL %s", c->key) <= before);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM_OF(a_foreign_lock_is_shown_as_such, c, CONFORM_SCRIPTS) {
    tl_client *client = conform_client(c);
    conform_do(c, "SET %s foreign-token PX 20000", c->key);
    tl_lock_info info = look(c, client);
    assert_true(info.held);
    assert_false(info.by_tidelock);
    assert_string_equal(info.value, "foreign-token");
    if (c->row->strict) /* their commands tell no lifetime */
        assert_int_equal(info.remaining_ms, -1);
    else
        assert_in_range(info.remaining_ms, 1, 20000);
    assert_string_equal(info.host, "");
    assert_int_equal(info.pid, 0);
    assert_int_equal(info.held_ms, -1);
    conform_do(c, "PERSIST %s", c->key);
    assert_int_equal(look(c, client).remaining_ms, -1);
}

CONFORM(a_foreign_lock_after_ours_is_not_called_ours, c) {
    tl_lock *lock = conform_lock_with(c, conform_client(c),
                                      TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    conform_do(c, "SET %s thief PX 20000", c->key);
    tl_lock_info info = look(c, conform_client(c));
    assert_true(info.held);
    assert_false(info.by_tidelock);
    assert_string_equal(info.value, "thief");
    assert_string_equal(info.host, "");
}

CONFORM(hostile_text_is_cut_and_made_printable, c) {
    tl_client *client = conform_client(c);
    char text[300];
    memset(text, 'v', sizeof text);
    memcpy(text, "\033[31m\r\n\0x", 9);
    conform_do(c, "SET %s %b", c->key, text, sizeof text);
    tl_lock_info info = look(c, client);
    assert_int_equal(strnlen(info.value, sizeof info.value), sizeof info.value - 1);
    for (const char *p = info.value; *p; p++)
        assert_in_range(*p, ' ', '~');
    assert_memory_equal(info.value, "?[31m???x", 9);
}

CONFORM_OF(a_key_of_another_type_is_held, c, CONFORM_SCRIPTS) {
    conform_do(c, "HSET %s field value", c->key);
    tl_lock_info info = look(c, conform_client(c));
    assert_true(info.held);
    assert_false(info.by_tidelock);
    assert_string_equal(info.value, c->row->strict ? "another type" : "hash");
    assert_string_equal(info.oddity, c->row->strict ? "holds a value of another type, not a lock"
                                                    : "holds a hash, not a lock");
    tl_lock *lock = conform_lock_with(c, conform_client(c), TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
    assert_int_equal(conform_int(c, "HLEN %s", c->key), 1);
}

CONFORM_OF(a_deleted_key_is_held_while_its_holder_may_work, c, CONFORM_FENCE | CONFORM_SCRIPTS) {
    const int64_t ttl_ms = clock_patient_ms(6000);
    tl_client *client = conform_client(c);
    proxy *p = conform_proxy(c);
    tl_client *behind = conform_client_with(c,
                                            TL_CLIENT_OPTIONS(.url = proxy_url(p), .service = "x"));
    tl_lock *lock = conform_lock_with(c, behind,
                                      TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .manual_renew = true));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    proxy_stop(p); /* its holder is told nothing of it */
    conform_do(c, "DEL %s", c->key);
    tl_lock_info info = look(c, client);
    assert_true(info.held && info.by_tidelock);
    assert_in_range(info.remaining_ms, 1, ttl_ms + 1);
    assert_string_equal(info.service, "x");
    WAIT_FOR(SOON_MS, !look(c, client).held);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    proxy_heal(p);
}

CONFORM(looking_needs_a_key_and_a_size, c) {
    tl_client *client = conform_client(c);
    tl_lock_info info = {.size = sizeof info};
    ASSERT_RESULT(tl_client_look(client, "", 0, &info, &said), TL_EINVALID);
    ASSERT_SAID("key");
    ASSERT_RESULT(tl_client_look(client, NULL, 3, &info, &said), TL_EINVALID);
    static char long_key[TL_KEY_MAX + 1];
    ASSERT_RESULT(tl_client_look(client, long_key, sizeof long_key, &info, &said), TL_EINVALID);
    ASSERT_RESULT(tl_client_look(client, long_key, TL_KEY_MAX, &info, &said), TL_OK);
    info.size = 0;
    ASSERT_RESULT(tl_client_look(client, "k", 1, &info, &said), TL_EINVALID);
    ASSERT_SAID("size");
}

CONFORM(an_older_programs_smaller_info_is_not_overrun, c) {
    union {
        tl_lock_info info;
        unsigned char bytes[sizeof(tl_lock_info)];
    } u;
    const size_t size = offsetof(tl_lock_info, value);
    memset(&u, 0x5a, sizeof u);
    u.info.size = size;
    conform_do(c, "SET %s foreign", c->key);
    ASSERT_RESULT(tl_client_look(conform_client(c), c->key, strlen(c->key), &u.info, &said), TL_OK);
    assert_true(u.info.held);
    assert_int_equal(u.info.size, size);
    for (size_t i = size; i < sizeof u; i++)
        assert_int_equal(u.bytes[i], 0x5a);
}

CONFORM_MAIN
