/*
 * Legacy services in Java and tidelock's clients contend for one lock on a real server, and
 * holders are killed: never two at once, no orphan for longer than it takes to expire, and no
 * exception in Java that Java's own kind doesn't bring about. Java's clocks are off by nearly M.
 *
 *   make check ONLY=legacy TORTURE_SECONDS=120 TORTURE_SEED=1        timeout: 900
 */
#include <stdlib.h>
#include <string.h>

#include "legacy.h"
#include "tests.h"

#define WITHOUT(command) "rename-command " command " \"\"\n"
#define NO_EVAL WITHOUT("EVAL") WITHOUT("EVALSHA")

static real_redis *server, *old_server, *older_server;

static int clean_up(void **state) {
    int failed = locks_clean_up(state);
    (void)real_redis_int(server, "FLUSHALL");
    (void)real_redis_int(old_server, "FLUSHALL");
    (void)real_redis_int(older_server, "FLUSHALL");
    return failed;
}

TESTS_WITH(NULL, clean_up);

static void print_verdict(const match *m, const verdict *v) {
    int turns = 0;
    for (int i = 0; i < KINDS; i++)
        turns += v->turns[i];
    print_message("%s: %d turns, %d kills, longest gap %lld ms, %d exceptions, %d lost tokens, "
                  "%d slow, %d expired, %d lags, %d stalls\n",
                  m->key, turns, v->kills, (long long)v->longest_gap_us / 1000, v->exceptions,
                  v->lost_tokens, v->slow, v->expired, v->lags, v->stalls);
}

/* What the last one killed has left is free by the time it must be. */
static void is_free_again(real_redis *at, const char *key) {
    tl_lock *lock = make_lock(
        make_client_with(legacy_client(real_redis_url(at), TL_TIMESTAMP, false)), key, 0);
    ASSERT_RESULT(tl_lock_acquire(lock, FREE_MS + LATE_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

static void contend(real_redis *at, const match *m) {
    verdict v = referee_judge(at, m);
    print_verdict(m, &v);
    assert_int_equal(v.overlaps, 0);
    assert_int_equal(v.refused, 0);
    if (v.lags + v.stalls == 0)
        assert_int_equal(v.lost, 0);
    if (!m->tokens)
        assert_int_equal(v.strange_exceptions, 0);
    assert_true(v.longest_gap_us / 1000 < FREE_MS + LATE_MS);
    is_free_again(at, m->key);
}

/* ---- promises --------------------------------------------------------------------------------- */

TEST(java_and_the_bridge_never_hold_at_once) {
    static const kind posts[] = {JAVA_AHEAD, JAVA_BEHIND, BRIDGE, BRIDGE, KINDS};
    contend(server, &(match){.key = "bridge", .posts = posts});
}

TEST(java_and_timestamp_with_scripts_never_hold_at_once) {
    static const kind posts[] = {JAVA_AHEAD, JAVA_BEHIND, STAMP, STAMP, KINDS};
    contend(server, &(match){.key = "timestamp", .posts = posts});
}

TEST(java_and_strict_never_hold_at_once) {
    static const kind posts[] = {JAVA_AHEAD, JAVA_BEHIND, STRICT, STRICT, KINDS};
    contend(server, &(match){.key = "strict", .posts = posts});
}

TEST(java_and_timestamp_by_watch_never_hold_at_once) {
    static const kind posts[] = {JAVA_AHEAD, JAVA_BEHIND, STAMP, STAMP, STRICT, KINDS};
    contend(old_server, &(match){.key = "watch", .posts = posts});
}

TEST(java_and_timestamp_without_scripts_never_hold_at_once) {
    static const kind posts[] = {JAVA_AHEAD, JAVA_BEHIND, STAMP, STAMP, KINDS};
    contend(older_server, &(match){.key = "plain", .posts = posts});
}

TEST(all_kinds_of_stamps_never_hold_at_once) {
    static const kind posts[] = {JAVA,   JAVA_AHEAD, JAVA_BEHIND, BRIDGE,
                                 BRIDGE, STAMP,      STRICT,      KINDS};
    contend(server, &(match){.key = "all", .posts = posts});
}

TEST(the_drop_in_for_java_never_holds_beside_the_class_or_c) {
    static const kind posts[] = {JAVA_AHEAD, JAVA_BEHIND, DROP_IN, DROP_IN_AHEAD,
                                 BRIDGE,     AUTO,        KINDS};
    contend(server, &(match){.key = "drop-in", .posts = posts});
}

TEST(the_drop_in_for_java_never_holds_beside_tokens_in_their_phase) {
    static const kind posts[] = {DROP_IN, DROP_IN_AHEAD, AUTO, TOKEN, REDIS_PY, KINDS};
    char line[512];
    (void)snprintf(line, sizeof line,
                   "\"$TIDELOCK\" --url '%s' migrate init --keys '*' --lease 1s --phase 3 --yes",
                   real_redis_url(server));
    assert_int_equal(system(line), 0);
    contend(server, &(match){.key = "phase-3", .posts = posts, .tokens = true});
}

TEST(tokens_and_the_bridge_and_java_never_hold_at_once) {
    static const kind posts[] = {REDIS_PY, REDIS_PY, BRIDGE, BRIDGE, JAVA, KINDS};
    contend(server, &(match){.key = "tokens", .posts = posts, .tokens = true});
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return worker_main(argc, argv);
    legacy_need_java();
    legacy_need_faketime();
    server = real_redis_start(NULL);
    old_server = real_redis_start(&(real_redis_options){.config = NO_EVAL});
    older_server = real_redis_start(&(real_redis_options){.config = NO_EVAL WITHOUT("WATCH")});
    return tests_run();
}
