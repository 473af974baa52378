/*
 * The fake server's own promises: time, expiry, levels, knobs. That it answers as a real server
 * does is test_differential's matter.
 */
#include "fake_world.h"

TESTS_WITH(setup, teardown);

/* ---- time ------------------------------------------------------------------------------------ */

TEST_ON(a_key_exists_until_its_last_millisecond, fake_world *w) {
    says(w->a, "SET k v PX 100", "+OK");
    says(w->a, "PTTL k", ":100");
    at_ms(w, NOW_MS + 100);
    says(w->a, "GET k", "$v");
    says(w->a, "PTTL k", ":0");
    at_ms(w, NOW_MS + 101);
    says(w->a, "GET k", "nil");
    says(w->a, "PTTL k", ":-2");
    says(w->a, "SETNX k w", ":1");
    says(w->a, "PTTL k", ":-1");
    says(w->a, "SET k v PX 1499", "+OK");
    says(w->a, "TTL k", ":1");
    says(w->a, "SET k v PX 1500", "+OK");
    says(w->a, "TTL k", ":2");
    says(w->a, "PEXPIRE k 1500 GT", ":0");
    says(w->a, "PEXPIRE k 1501 GT", ":1");
    says(w->a, "PEXPIRE k 1501 LT", ":0");
    says(w->a, "PEXPIRE k 0 LT", ":1");
    says(w->a, "EXISTS k", ":0");
}

TEST_ON(which_writes_keep_a_lifetime, fake_world *w) {
    says(w->a, "SET k 1 PX 1000", "+OK");
    says(w->a, "INCR k", ":2");
    says(w->a, "PTTL k", ":1000");
    says(w->a, "SET k 3 KEEPTTL", "+OK");
    says(w->a, "PTTL k", ":1000");
    says(w->a, "GETSET k 4", "$3");
    says(w->a, "PTTL k", ":-1");
    says(w->a, "PEXPIRE k 1000", ":1");
    says(w->a, "SET k 5", "+OK");
    says(w->a, "PTTL k", ":-1");
    says(w->a, "HSET h f v", ":1");
    says(w->a, "PEXPIREAT h 1700000001123", ":1");
    says(w->a, "HSET h g v", ":1");
    says(w->a, "PTTL h", ":1000");
    says(w->a, "PERSIST h", ":1");
    says(w->a, "TTL h", ":-1");
}

TEST_ON(a_clock_that_steps_back_revives_what_nobody_looked_at, fake_world *w) {
    says(w->a, "SET seen v PX 100", "+OK");
    says(w->a, "SET unseen v PX 100", "+OK");
    at_ms(w, NOW_MS + 200);
    says(w->a, "EXISTS seen", ":0");
    at_ms(w, NOW_MS);
    says(w->a, "EXISTS seen", ":0");
    says(w->a, "PTTL unseen", ":100");
    at_ms(w, NOW_MS + 200);
    fake_redis_expire_cycle(w->r);
    at_ms(w, NOW_MS);
    says(w->a, "EXISTS unseen", ":0");
}

TEST_ON(time_is_what_it_was_told, fake_world *w) {
    says(w->a, "TIME", "[$1700000000 $123456]");
    runs(w->a, "local t = redis.call('TIME') return t[1] * 1000000 + t[2]", ":1700000000123456");
    fake_redis_set_started(w->r, NOW_US - 77 * INT64_C(1000000));
    fake_redis_set_run_id(w->r, 0xabc);
    const tl_reply *info = fake_conn_say(w->a, "INFO server");
    assert_non_null(strstr(info->text.p, "redis_version:7.0.15\r\n"));
    assert_non_null(strstr(info->text.p, "uptime_in_seconds:77\r\n"));
    assert_non_null(strstr(info->text.p, "run_id:0000000000000000000000000000000000000abc\r\n"));
}

/* ---- scripts --------------------------------------------------------------------------------- */

TEST_ON(loaded_scripts_go_with_a_flush_and_a_restart, fake_world *w) {
    static const char eval[] = "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0";
    says(w->a, eval, "-NOSCRIPT No matching script. Please use EVAL.");
    tl_bytes load[] = {TL_LITERAL("SCRIPT"), TL_LITERAL("LOAD"), TL_LITERAL("return 1")};
    fake_conn_command(w->a, load, 3);
    says(w->a, eval, ":1");
    says(w->a, "EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0", ":1");
    says(w->a, "SCRIPT FLUSH", "+OK");
    says(w->a, eval, "-NOSCRIPT No matching script. Please use EVAL.");
    fake_conn_command(w->a, load, 3);
    says(w->a, "SET k v", "+OK");
    fake_redis_restart(w->r, true);
    says(w->a, eval, "-NOSCRIPT No matching script. Please use EVAL.");
    says(w->a, "GET k", "$v");
    fake_redis_restart(w->r, false);
    says(w->a, "GET k", "nil");
}

TEST_ON(a_server_without_a_lua_module_runs_no_script, fake_world *w) {
    static const char eval[] = "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0";
    tl_bytes load[] = {TL_LITERAL("SCRIPT"), TL_LITERAL("LOAD"), TL_LITERAL("return 1")};
    fake_conn_command(w->a, load, 3);
    says(w->a, eval, ":1");
    fake_redis_set_engineless(w->r, true);
    says(w->a, eval, "-NOSCRIPT No matching script. Please use EVAL.");
    says(w->a, "EVAL x 0", "-ERR Could not find scripting engine 'lua'");
    says(w->a, "EVAL x 1", "-ERR Number of keys can't be greater than number of args");
    says(w->a, "SCRIPT LOAD x", "-ERR Could not find scripting engine 'lua'");
    fake_redis_set_engineless(w->r, false);
    fake_conn_command(w->a, load, 3);
    says(w->a, eval, ":1");
}

TEST_ON(a_hostile_script_ends_in_an_error, fake_world *w) {
    runs(w->a, "local t = {} t[1] = t return t", "[[[[");
    runs(w->a, "local function f() return f() + 1 end return f()", "-ERR");
    runs(w->a, "return redis.call('GET', ('x'):rep(1e6))", "nil");
    runs(w->a,
         "return redis.call(unpack({'DEL', 'a','b','c','d','e','f','g','h','i','j','k','l',"
         "'m','n','o','p','q','r','s','t','u','v','w','x','y','z','a','b','c','d','e','f','g',"
         "'h','i','j','k','l','m','n','o'}))",
         ":0");
    runs(w->a, "return os", "-ERR user_script:1: Script attempted to access nonexistent global");
    runs(w->a, "_G.x = 1", "-ERR user_script:1: Attempt to modify a readonly table");
    runs(w->a, "return KEYS[1] .. ARGV[1]", "$kv");
}

/* ---- older servers --------------------------------------------------------------------------- */

TEST_ON(before_7_script_errors_have_another_form, fake_world *w) {
    fake_redis_set_level(w->r, FAKE_LEVEL(6, 2, 6));
    says(w->a, "SET k v", "+OK");
    runs(w->a, "return redis.call('INCR', KEYS[1])", "-ERR Error running script (call to f_");
    runs(w->a, "return redis.call('nosuch')", "-ERR Error running script (call to f_");
    runs(w->a, "return redis.pcall('INCR', KEYS[1])", "-ERR value is not an integer");
    says(w->a, "NOSUCH x", "-ERR unknown command `NOSUCH`, with args beginning with: `x`, ");
    fake_redis_set_level(w->r, FAKE_LEVEL(4, 0, 0));
    says(w->a, "NOSUCH x", "-ERR unknown command 'NOSUCH'");
}

TEST_ON(before_5_time_and_then_a_write_is_refused, fake_world *w) {
    static const char time_first[] = "redis.call('TIME') return redis.call('SET', KEYS[1], 'v')";
    static const char write_first[] = "redis.call('SET', KEYS[1], 'v') return #redis.call('TIME')";
    static const char effects[] = "redis.replicate_commands() redis.call('TIME') "
                                  "return redis.call('SET', KEYS[1], 'v')";
    static const char careful[] = "return redis.replicate_commands and 1 or 0";
    runs(w->a, time_first, "+OK");
    fake_redis_set_level(w->r, FAKE_LEVEL(4, 0, 14));
    runs(w->a, time_first, "-ERR Error running script");
    runs(w->a, write_first, ":2");
    runs(w->a, effects, "+OK");
    runs(w->a, "redis.call('DEL', 'k') return redis.replicate_commands()", "nil");
    runs(w->a, careful, ":1");
    fake_redis_set_level(w->r, FAKE_LEVEL(2, 6, 0));
    runs(w->a, time_first, "-ERR Error running script");
    runs(w->a, write_first, ":2");
    runs(w->a, careful, ":0");
    runs(w->a, "redis.call('SET', KEYS[1], 2^53) return redis.call('GET', KEYS[1])",
         "$9.007199254741e+15");
}

TEST_ON(old_servers_lack_what_they_lacked, fake_world *w) {
    fake_redis_set_level(w->r, FAKE_LEVEL(2, 6, 0));
    says(w->a, "SET k v NX", "-ERR wrong number of arguments for 'set' command");
    says(w->a, "PTTL k", ":-1");
    says(w->a, "PSETEX k 1000 v", "+OK");
    fake_redis_set_level(w->r, FAKE_LEVEL(2, 4, 0));
    says(w->a, "EVAL x 0", "-ERR unknown command 'EVAL'");
    says(w->a, "TIME", "-ERR unknown command 'TIME'");
    says(w->a, "PTTL k", "-ERR unknown command 'PTTL'");
    says(w->a, "TTL k", ":1");
    says(w->a, "WATCH k", "+OK");
    fake_redis_set_level(w->r, FAKE_LEVEL(2, 0, 0));
    says(w->a, "WATCH k", "-ERR unknown command 'WATCH'");
}

TEST_ON(before_2_2_a_write_first_deletes_a_volatile_key, fake_world *w) {
    fake_redis_set_level(w->r, FAKE_LEVEL(2, 0, 0));
    says(w->a, "SET k 5", "+OK");
    says(w->a, "SETNX k 6", ":0");
    says(w->a, "EXPIRE k 100", ":1");
    says(w->a, "EXPIRE k 200", ":0");
    says(w->a, "SETNX k 7", ":1");
    says(w->a, "GET k", "$7");
    says(w->a, "EXPIRE k 100", ":1");
    says(w->a, "INCR k", ":1");
    says(w->a, "EXPIRE k 100", ":1");
    says(w->a, "GETSET k 8", "$1");
    says(w->a, "TTL k", ":-1");
}

/* ---- knobs ----------------------------------------------------------------------------------- */

TEST_ON(denied_commands, fake_world *w) {
    fake_redis_deny(w->r, "EVAL EVALSHA", FAKE_RENAMED);
    says(w->a, "EVALSHA x 0", "-ERR unknown command 'EVALSHA', with args beginning with: 'x' '0' ");
    fake_redis_deny(w->r, "EVALSHA", FAKE_NOPERM);
    says(w->a, "EVALSHA x 0", "-NOPERM this user has no permissions to run the 'evalsha' command");
    fake_redis_deny(w->r, "EVAL EVALSHA", FAKE_ALLOW);
    runs(w->a, "return 1", ":1");
    fake_redis_deny(w->r, "publish", FAKE_RENAMED);
    runs(w->a, "return redis.pcall('PUBLISH', 'c', 'x').err",
         "$ERR Unknown Redis command called from script");
}

TEST_ON(a_script_touches_only_keys_that_it_declares, fake_world *w) {
    static const char undeclared[] = "-ERR script tried accessing undeclared key";
    const tl_bytes get = TL_LITERAL("return redis.call('GET', 'other')");
    const tl_bytes one[] = {TL_LITERAL("EVAL"), get, TL_LITERAL("1"), TL_LITERAL("k")},
                   its[] = {TL_LITERAL("EVAL"), get, TL_LITERAL("1"), TL_LITERAL("other")};
    fake_redis_allow_undeclared(w->r, FAKE_UNDECLARED);
    const tl_reply *r = fake_conn_command(w->a, one, 4);
    assert_int_equal(r->type, TL_REPLY_ERROR);
    assert_true(tl__bytes_starts(r->text, undeclared + 1));
    assert_int_equal(fake_conn_command(w->a, its, 4)->type, TL_REPLY_NIL);
    assert_int_equal(fake_conn_command(w->a, one, 4)->type, TL_REPLY_ERROR);
    says(w->a, "SET other v", "+OK");
    const tl_bytes none[] = {TL_LITERAL("EVAL"), get, TL_LITERAL("0")}; /* it looks for keys */
    assert_int_equal(fake_conn_command(w->a, none, 3)->type, TL_REPLY_STRING);
    fake_redis_allow_undeclared(w->r, "oth*");
    assert_int_equal(fake_conn_command(w->a, one, 4)->type, TL_REPLY_STRING);
    fake_redis_allow_undeclared(w->r, NULL);
    assert_int_equal(fake_conn_command(w->a, one, 4)->type, TL_REPLY_STRING);
}

TEST_ON(a_script_that_has_written_is_not_refused_memory, fake_world *w) {
    fake_redis_set_oom(w->r, true);
    says(w->a, "SET k v", "-OOM command not allowed when used memory > 'maxmemory'.");
    says(w->a, "DEL k", ":0");
    runs(w->a, "return redis.call('SET', KEYS[1], 'v')",
         "-OOM command not allowed when used memory > 'maxmemory'. script: ");
    runs(w->a, "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 'v')", "+OK");
}

TEST_ON(a_replica_hides_what_has_expired, fake_world *w) {
    says(w->a, "SET k v PX 100", "+OK");
    fake_redis_set_replica(w->r, true);
    says(w->a, "SET k v", "-READONLY You can't write against a read only replica.");
    at_ms(w, NOW_MS + 200);
    says(w->a, "GET k", "nil");
    says(w->a, "DBSIZE", ":1");
    tl_bytes set[] = {TL_LITERAL("SET"), TL_LITERAL("k"), TL_LITERAL("w")};
    fake_redis_apply(w->r, 0, set, 3);
    says(w->a, "GET k", "$w");
}

TEST_ON(loading_passwords_and_counts, fake_world *w) {
    fake_redis_set_loading(w->r, true);
    says(w->a, "GET k", "-LOADING Redis is loading the dataset in memory");
    says(w->a, "PING", "-LOADING Redis is loading the dataset in memory");
    says(w->a, "SELECT 1", "+OK");
    fake_redis_set_loading(w->r, false);
    fake_redis_set_password(w->r, "secret");
    fake_conn *c = fake_redis_connect(w->r, NULL, NULL);
    says(c, "PING", "-NOAUTH Authentication required.");
    says(c, "AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.");
    says(c, "AUTH secret", "+OK");
    says(c, "PING", "+PONG");
    says(w->a, "PING", "+PONG");
    assert_int_equal(fake_redis_count(w->r, "ping"), 2);
    assert_int_equal(fake_redis_count(w->r, NULL), 8);
    fake_redis_set_replicas(w->r, 2);
    says(c, "WAIT 2 100", ":2");
}

/* ---- transactions and messages --------------------------------------------------------------- */

TEST_ON(watch_sees_writes_of_others_and_expiry, fake_world *w) {
    says(w->a, "SET k v PX 100", "+OK");
    says(w->a, "WATCH k", "+OK");
    says(w->a, "MULTI", "+OK");
    says(w->a, "SET k mine", "+QUEUED");
    says(w->b, "SET other x", "+OK");
    says(w->a, "EXEC", "[+OK]");
    says(w->a, "WATCH k", "+OK");
    says(w->b, "SET k theirs PX 100", "+OK");
    says(w->a, "MULTI", "+OK");
    says(w->a, "SET k mine", "+QUEUED");
    says(w->a, "EXEC", "nil");
    says(w->a, "WATCH k", "+OK");
    at_ms(w, NOW_MS + 200);
    says(w->a, "MULTI", "+OK");
    says(w->a, "SET k mine", "+QUEUED");
    says(w->a, "EXEC", "nil");
    says(w->a, "MULTI", "+OK");
    says(w->a, "NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: ");
    says(w->a, "EXEC", "-EXECABORT Transaction discarded because of previous errors.");
}

static void collect(void *ctx, const tl_reply *reply) {
    char *heard = ctx, text[FAKE_SHOW_SIZE];
    fake_show(reply, text);
    strncat(heard, text, FAKE_SHOW_SIZE - strlen(heard) - 1);
}

TEST_ON(messages_reach_their_subscribers, fake_world *w) {
    char heard[FAKE_SHOW_SIZE] = "";
    fake_conn *c = fake_redis_connect(w->r, &(fake_calls){.push = collect}, heard);
    says(c, "SUBSCRIBE a b", "pushed");
    says(w->a, "PUBLISH a 1", ":1");
    runs(w->a, "return redis.call('PUBLISH', 'b', '2')", ":1");
    says(w->a, "PUBLISH c 3", ":0");
    says(c, "UNSUBSCRIBE a", "pushed");
    says(w->a, "PUBLISH a 4", ":0");
    assert_string_equal(heard, "[$subscribe $a :1][$subscribe $b :2][$message $a $1]"
                               "[$message $b $2][$unsubscribe $a :1]");
    fake_conn_close(c);
    says(w->a, "PUBLISH b 5", ":0");
}

/* ---- clusters and permissions ---------------------------------------------------------------- */

TEST_ON(slots_that_are_elsewhere, fake_world *w) {
    static const char moved[] = "-MOVED 7629 127.0.0.1:7002", ask[] = "-ASK 7629 127.0.0.1:7002";
    fake_redis_set_cluster(w->r, true);
    says(w->a, "SET k v", "+OK");
    says(w->a, "SET a v", "+OK");
    assert_int_equal(fake_redis_slot(TL_LITERAL("k")), 7629);
    fake_redis_move_slots(w->r, 7000, 8000, FAKE_SLOTS_MOVED, "127.0.0.1:7002");
    says(w->a, "GET k", moved);
    says(w->a, "GET a", "$v");
    says(w->a, "MGET a k", "-CROSSSLOT Keys in request don't hash to the same slot");
    runs(w->a, "return 1", "-CROSSSLOT");
    says(w->a, "EVAL x 1 k", moved);
    says(w->a, "MULTI", "+OK");
    says(w->a, "SET k v", moved);
    says(w->a, "EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    fake_redis *copy = fake_redis_clone(w->r);
    fake_conn *c = fake_redis_connect(copy, NULL, NULL);
    says(c, "GET k", moved);
    fake_redis_free(copy);
    fake_redis_move_slots(w->r, 7629, 7629, FAKE_SLOTS_MIGRATING, "127.0.0.1:7002");
    says(w->a, "GET k", "$v");
    says(w->a, "GET {k}2", ask);
    says(w->a, "MGET k {k}2", "-TRYAGAIN Multiple keys request during rehashing of slot");
    says(w->a, "SET {k}2 v", ask);
    fake_redis_leave_keys(w->r, "x k");
    says(w->a, "GET k", ask);
    fake_redis_leave_keys(w->r, NULL);
    says(w->a, "GET k", "$v");
    fake_redis_set_level(w->r, FAKE_LEVEL(6, 2, 16));
    says(w->a, "MGET k {k}2", ask);
    fake_redis_move_slots(w->r, 0, 0, FAKE_SLOTS_HERE, NULL);
    says(w->a, "GET {k}2", "nil");
    assert_non_null(strstr(fake_conn_say(w->a, "INFO cluster")->text.p, "cluster_enabled:1\r\n"));
    assert_non_null(strstr(fake_conn_say(w->a, "INFO server")->text.p, "redis_mode:cluster\r\n"));
}

TEST_ON(before_7_permissions_have_other_words, fake_world *w) {
    fake_redis_set_level(w->r, FAKE_LEVEL(6, 2, 16));
    fake_redis_deny(w->r, "GET CLIENT", FAKE_NOPERM);
    fake_redis_allow_channels(w->r, "fine*");
    says(w->a, "GET k",
         "-NOPERM this user has no permissions to run the 'get' command or its subcommand");
    says(w->a, "CLIENT ID",
         "-NOPERM this user has no permissions to run the 'client' command or its subcommand");
    says(w->a, "PUBLISH bad x",
         "-NOPERM this user has no permissions to access one of the channels used as arguments");
    runs(w->a, "return redis.pcall('PUBLISH', 'bad', 'x')",
         "-@user_script: 1: The user executing the script can't publish to the channel");
    fake_redis_set_level(w->r, FAKE_LEVEL(6, 0, 16));
    says(w->a, "PUBLISH bad x", ":0");
    fake_redis_reset(w->r);
    w->a = fake_redis_connect(w->r, NULL, NULL);
    fake_redis_set_level(w->r, FAKE_LEVEL(6, 2, 16));
    says(w->a, "PUBLISH bad x", ":0");
}

/* ---- what an administrator sees -------------------------------------------------------------- */

TEST_ON(a_monitor_is_told_each_command, fake_world *w) {
    char heard[FAKE_SHOW_SIZE] = "";
    fake_conn *c = fake_redis_connect(w->r, &(fake_calls){.push = collect}, heard);
    fake_conn_set_address(w->a, "10.0.0.1:999");
    says(c, "MONITOR", "+OK");
    says(w->a, "SETNX k \"x\n", ":1");
    says(w->a, "NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: ");
    runs(w->b, "return redis.call('GET', KEYS[1])", "$\"x\\x0a");
    assert_string_equal(heard, "+1700000000.123456 [0 10.0.0.1:999] \"SETNX\" \"k\" \"\\\"x\\n\""
                               "+1700000000.123456 [0 127.0.0.1:10002] \"EVAL\" \"return "
                               "redis.call('GET', KEYS[1])\" \"2\" \"k\" \"l\" \"v\""
                               "+1700000000.123456 [0 lua] \"GET\" \"k\"");
    heard[0] = '\0';
    fake_redis_restart(w->r, true);
    says(w->a, "PING", "+PONG");
    assert_string_equal(heard, "");
}

TEST_ON(calls_are_counted_those_of_scripts_too, fake_world *w) {
    says(w->a, "SETNX k v", ":1");
    runs(w->a, "return redis.call('SETNX', KEYS[1], 'v')", ":0");
    const tl_reply *info = fake_conn_say(w->a, "INFO commandstats");
    assert_non_null(strstr(info->text.p, "\r\ncmdstat_setnx:calls=2,usec="));
    assert_non_null(strstr(info->text.p, "\r\ncmdstat_eval:calls=1,usec="));
    assert_null(strstr(info->text.p, "getset"));
    const tl_reply *list = fake_conn_say(w->a, "CLIENT LIST");
    assert_non_null(strstr(list->text.p, "id=1 addr=127.0.0.1:10001 "));
    assert_non_null(strstr(list->text.p, "cmd=client\nid=2 addr=127.0.0.1:10002 "));
}

/* Another is gone at once; who ends itself is answered before. */
TEST_ON(a_connection_is_ended_by_its_number, fake_world *w) {
    char heard[FAKE_SHOW_SIZE] = "";
    fake_conn *c = fake_redis_connect(w->r, &(fake_calls){.push = collect}, heard);
    says(c, "CLIENT ID", ":3");
    assert_null(fake_conn_say(c, "SUBSCRIBE news"));
    says(w->a, "CLIENT KILL ID 3 ADDR 127.0.0.1:1", ":0");
    assert_false(fake_conn_killed(c));
    says(w->a, "CLIENT KILL ID 3", ":1");
    assert_true(fake_conn_killed(c));
    says(w->a, "PUBLISH news x", ":0");
    says(w->a, "CLIENT KILL ID 3", ":0");
    assert_null(strstr(fake_conn_say(w->a, "CLIENT LIST")->text.p, "id=3 "));
    says(w->a, "CLIENT KILL ID 1", ":0");
    says(w->a, "CLIENT KILL ID 1 SKIPME yes", ":0");
    assert_false(fake_conn_closing(w->a));
    says(w->a, "CLIENT KILL ID 1 SKIPME no", ":1");
    assert_true(fake_conn_closing(w->a));
    assert_false(fake_conn_killed(w->a));
    says(w->b, "CLIENT KILL ID", "-ERR No such client");
    says(w->b, "CLIENT KILL", "-ERR wrong number of arguments for 'client|kill' command");
    says(w->b, "CLIENT KILL ID 0", "-ERR client-id should be greater than 0");
    says(w->b, "CLIENT KILL ID x", "-ERR client-id should be greater than 0");
    says(w->b, "CLIENT KILL BOGUS 3", "-ERR syntax error");
    says(w->b, "CLIENT KILL ID 3 SKIPME", "-ERR syntax error");
    says(w->b, "CLIENT KILL 127.0.0.1:10002", "+OK");
    assert_true(fake_conn_closing(w->b));
    fake_conn_close(c);
}

/* Keys that are there all the time are told, whatever comes and goes meanwhile. */
TEST_ON(a_scan_goes_on_where_it_was, fake_world *w) {
    char line[80], cursor[24] = "0";
    bool seen[100] = {false};
    for (int i = 0; i < 100; i++) {
        snprintf(line, sizeof(line), "SET k%d v", i);
        says(w->a, line, "+OK");
    }
    says(w->a, "HSET hash f v", ":1");
    size_t steps = 0, told = 0;
    do {
        snprintf(line, sizeof(line), "SCAN %s MATCH k* COUNT 7 TYPE string", cursor);
        const tl_reply *reply = fake_conn_say(w->a, line);
        snprintf(cursor, sizeof(cursor), "%.*s", (int)reply->items[0].text.n,
                 reply->items[0].text.p);
        for (size_t i = 0; i < reply->items[1].count; i++) {
            int number = atoi(reply->items[1].items[i].text.p + 1);
            told += !seen[number];
            seen[number] = true;
        }
        snprintf(line, sizeof(line), "SET other%zu v", steps++);
        says(w->b, line, "+OK");
    } while (strcmp(cursor, "0") != 0 && steps < 1000);
    assert_int_equal(told, 100);
    assert_in_range(steps, 10, 40);
}
