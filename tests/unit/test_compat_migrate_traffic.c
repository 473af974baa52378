/*
 * Which legacy clients are still at work, out of what the server counts, lists and monitors: texts that
 * others write.
 */
#include "tests.h"
#include "legacy/migrate_record.h"
#include "legacy/skew_monitor.h"
#include "link/link_open.h"
#include "migrate/migrate_monitor.h"
#include "migrate/migrate_traffic.h"

static int64_t now_ms, answer_ms = 1000;
static int lists;                           /* how often the list of clients was asked for */
static const char *run_id, *reign, *counts; /* what INFO tells; NULL: no answer */

int64_t moment_ms(void) {
    return now_ms;
}

int64_t moment_wall_us(void) {
    return now_ms * 1000;
}

bool link_ask(server_link *l, const char *const *request,
              bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    bool server = request[1] && strcmp(request[1], "server") == 0,
         replication = request[1] && strcmp(request[1], "replication") == 0;
    const char *text = strcmp(request[0], "INFO") != 0 ? NULL
                       : server                        ? run_id
                       : replication                   ? reign
                                                       : counts;
    lists += strcmp(request[0], "CLIENT") == 0;
    now_ms += answer_ms;
    if (!text) {
        l->status = STATUS_UNAVAILABLE;
        return false;
    }
    tl_reply reply = {.type = TL_REPLY_STRING, .text = tl__bytes_of(text)};
    return take(ctx, &reply);
}

bool link_is_named(server_link *l, const server *s) {
    (void)l;
    (void)s;
    return true;
}

static migrate_counts read_counts;

static int64_t calls(const char *info) {
    return migrate_read_counts(tl__bytes_of(info), &read_counts) ? read_counts.calls : -1;
}

TEST(counts_are_those_of_both_commands) {
    static const char head[] = "# Commandstats\r\ncmdstat_eval:calls=3,usec=9\r\n";
    char info[400];
    assert_int_equal(calls(head), 0);
    (void)snprintf(info, sizeof info,
                   "%scmdstat_setnx:calls=40,usec=7,rejected_calls=9\r\ncmdstat_getset:calls=2\r\n",
                   head);
    assert_int_equal(calls(info), 42);
    (void)snprintf(info, sizeof info, "%scmdstat_msetnx:calls=40,usec=7\r\n", head);
    assert_int_equal(calls(info), 0);
    (void)snprintf(info, sizeof info, "%scmdstat_setnx:calls=x,usec=7\r\n", head);
    assert_int_equal(calls(info), -1);
    assert_int_equal(calls("cmdstat_eval:calls=3,usec=9\n"
                           "cmdstat_setnx:usec=7,calls=4,x=1\ncmdstat_getset:calls=1"),
                     5);
    assert_int_equal(calls(""), -1); /* it doesn't count at all */
    assert_int_equal(calls("cmdstat_setnx:calls=4,usec=7\r\n"), -1);
}

TEST(what_the_server_refused_is_counted_apart) {
    static const char from_six[] =
        "cmdstat_eval:calls=3,usec=9,rejected_calls=0,failed_calls=0\r\n";
    char info[400];
    assert_int_equal(calls("cmdstat_eval:calls=3,usec=9\r\n"), 0);
    assert_int_equal(read_counts.refused, -1); /* before 6.2 it isn't known */
    assert_int_equal(calls(from_six), 0);
    assert_int_equal(read_counts.refused, 0);
    (void)snprintf(info, sizeof info,
                   "%scmdstat_setnx:calls=0,usec=0,rejected_calls=4,failed_calls=0\r\n"
                   "cmdstat_getset:calls=2,usec=0,rejected_calls=3,failed_calls=1\r\n"
                   "cmdstat_get:calls=9,usec=0,rejected_calls=8,failed_calls=1\r\n",
                   from_six);
    assert_int_equal(calls(info), 2);
    assert_int_equal(read_counts.refused, 7);
    assert_int_equal(read_counts.all, 3 + 2 + 9);
}

static migrate_traffic listed(const char *list) {
    migrate_traffic t = {.stragglers = 1, .straggler = {{.address = "10.0.0.7:4001"}}};
    migrate_list_clients(tl__bytes_of(list), &t);
    return t;
}

TEST(the_list_hints_at_those_who_say_what_tidelock_never_says) {
    migrate_traffic t = listed("id=1 addr=10.0.0.5:4000 name= age=1 cmd=evalsha user=default\n"
                               "id=2 addr=10.0.0.6:4000 name=web age=1 cmd=get user=default\n"
                               "id=3 addr=10.0.0.7:4001 name=java-7 age=1 cmd=setnx user=default\n"
                               "id=4 addr=10.0.0.8:4000 name= age=1 cmd=getset\n"
                               "id=5 addr=10.0.0.9:4000 name= age=1 cmd=client|list user=default\n"
                               "id=6 name=odd cmd=setnx\n"
                               "nonsense");
    assert_int_equal(t.connections, 3);
    assert_string_equal(
        t.suspects,
        "10.0.0.7:4001 called java-7 as user default, last command setnx; 10.0.0.8:4000, last "
        "command getset");
    assert_string_equal(t.straggler[0].name, "java-7");
    t = listed("");
    assert_int_equal(t.connections, 0);
}

TEST(a_straggler_is_who_uses_our_keys_once_each) {
    migrate_traffic t = {.calls = 0};
    migrate_monitor x = {.seen = &t, .keys = "jobs:*", .marker = "mark 1"};
    static const char *const lines[] = {
        "1763700000.000001 [0 10.0.0.7:4001] \"SETNX\" \"jobs:x\" \"1763700060000\"",
        "1763700000.000002 [0 10.0.0.7:4001] \"getset\" \"jobs:x\" \"1763700060000\"",
        "1763700000.000003 [0 10.0.0.8:4001] \"SETNX\" \"elsewhere\" \"1\"",
        "1763700000.000004 [0 10.0.0.8:4001] \"GET\" \"jobs:x\"",
        "1763700000.000005 [0 lua] \"setnx\" \"jobs:y\" \"1\"",
        "1763700000.000006 [0 unix:/run/r.sock] \"SETNX\" \"jobs:z\" \"1\"",
        "1763700000.000007 [0 10.0.0.8:4001] \"ECHO\" \"mark 2\"",
        "1763700000.000008 [0 10.0.0.8:4001] \"SETNX\"",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        migrate_monitor_line(&x, tl__bytes_of(lines[i]));
    assert_false(x.failed || x.marked);
    assert_int_equal(t.stragglers, 3);
    assert_string_equal(t.straggler[0].address, "10.0.0.7:4001");
    assert_string_equal(t.straggler[0].command, "SETNX");
    assert_string_equal(t.straggler[0].key, "jobs:x");
    assert_string_equal(t.straggler[1].address, "a script");
    assert_string_equal(t.straggler[2].address, "a client of the unix socket");
    migrate_monitor_line(&x, TL_LITERAL("1763700000.000009 [0 10.0.0.8:4001] \"ECHO\" \"mark 1\""));
    assert_true(x.marked && !x.failed);
    migrate_monitor_line(&x, TL_LITERAL("nonsense"));
    assert_true(x.failed); /* what was missed proves nothing */
    assert_true(t.monitor_why[0]);
}

TEST(a_key_too_long_to_be_seen_whole_may_be_ours) {
    char line[900];
    migrate_traffic t = {.calls = 0};
    migrate_monitor x = {.seen = &t, .keys = "*end"};
    (void)snprintf(line, sizeof line,
                   "1763700000.000001 [0 10.0.0.7:4001] \"SETNX\" \"%0700d\" \"1\"", 7);
    migrate_monitor_line(&x, tl__bytes_of(line));
    assert_int_equal(t.stragglers, 1);
}

TEST(more_than_fit_are_counted) {
    char line[200];
    migrate_traffic t = {.calls = 0};
    migrate_monitor x = {.seen = &t, .keys = "*"};
    for (int i = 0; i < MIGRATE_STRAGGLERS + 3; i++) {
        (void)snprintf(line, sizeof line, "1763700000.000001 [0 10.0.0.7:%d] \"SETNX\" \"k\" \"1\"",
                       4000 + i);
        migrate_monitor_line(&x, tl__bytes_of(line));
    }
    assert_int_equal(t.stragglers, MIGRATE_STRAGGLERS);
    assert_int_equal(t.more_stragglers, 3);
}

#define COUNTS(setnx) "cmdstat_eval:calls=3\r\ncmdstat_setnx:calls=" setnx "\r\n"

static migrate_watch begun(migrate_link *m, migrate_traffic *seen) {
    migrate_watch w;
    now_ms = 0;
    run_id = "run_id:aa\r\n";
    reign = "role:master\r\nmaster_replid:11\r\n";
    counts = COUNTS("5");
    migrate_watch_begin(&w, m, "jobs:*", 0, 0, seen);
    return w;
}

/* Who comes before the first look at the counts is in none of them. */
TEST(a_watch_lasts_from_its_first_look) {
    migrate_link m = {.replicas = 0};
    migrate_traffic seen;
    migrate_watch w = begun(&m, &seen);
    assert_true(seen.counted);
    assert_true(w.began_ms >= 2000);
}

TEST(the_same_server_has_counted_on_while_the_connection_was_lost) {
    migrate_link m = {.replicas = 0};
    migrate_traffic seen;
    migrate_watch w = begun(&m, &seen);
    int64_t began_ms = w.began_ms;
    m.link.ups++;
    counts = COUNTS("7");
    assert_true(migrate_watch_look(&w));
    assert_int_equal(seen.calls, 2);
    assert_int_equal(w.began_ms, began_ms);
    assert_true(migrate_watch_end(&w));
}

/* It may have lost what a legacy client did just before, and have counted as much by chance. */
TEST(counts_of_another_server_are_watched_anew) {
    static const char *const others[] = {"run_id:bb\r\n", NULL, "nothing"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        migrate_link m = {.replicas = 0};
        migrate_traffic seen;
        migrate_watch w = begun(&m, &seen);
        int64_t began_ms = w.began_ms;
        m.link.ups++;
        run_id = others[i];
        assert_false(migrate_watch_look(&w));
        assert_true(w.began_ms > began_ms);
        assert_int_equal(seen.calls, 0);
        m.link.ups++;
        run_id = "run_id:cc\r\n";
        assert_false(migrate_watch_end(&w));
    }
}

/* The list costs the server more the more clients there are. */
TEST(the_list_is_read_once_a_second) {
    migrate_link m = {.replicas = 0};
    migrate_traffic seen;
    answer_ms = 200;
    migrate_watch w = begun(&m, &seen);
    int64_t began_ms = now_ms;
    lists = 0;
    for (int i = 0; i < 20; i++)
        assert_true(migrate_watch_look(&w));
    answer_ms = 1000;
    assert_in_range(lists, 3, (now_ms - began_ms) / 1000);
}

/* Its name is in the list only while it is connected. */
TEST(the_list_is_read_at_once_for_a_straggler) {
    migrate_link m = {.replicas = 0};
    migrate_traffic seen;
    answer_ms = 1;
    migrate_watch w = begun(&m, &seen);
    lists = 0;
    assert_true(migrate_watch_look(&w));
    assert_int_equal(lists, 0);
    seen.straggler[seen.stragglers++] = (migrate_straggler){.address = "10.0.0.7:4001"};
    assert_true(migrate_watch_look(&w) && migrate_watch_look(&w));
    answer_ms = 1000;
    assert_int_equal(lists, 1);
}

/* What came before it was seen by nobody. */
TEST(monitor_that_begins_in_doubt_does_not_stand_for_the_whole_watch) {
    migrate_link m = {.link.endpoint = {.host = "127.0.0.1", .port = 1}}; /* where nobody listens */
    migrate_traffic seen;
    migrate_watch w = begun(&m, &seen);
    w.doubt_ms = 1000;
    w.throughout = true;
    assert_true(migrate_watch_look(&w));
    assert_true(w.throughout);
    counts = COUNTS("6");
    assert_true(migrate_watch_look(&w));
    assert_string_not_equal(seen.monitor_why, "");
    assert_false(w.throughout);
}

/* The same number of calls as before may be as many again. */
TEST(counts_that_were_reset_prove_nothing) {
    migrate_link m = {.replicas = 0};
    migrate_traffic seen;
    migrate_watch w = begun(&m, &seen);
    counts = "cmdstat_eval:calls=2\r\ncmdstat_setnx:calls=5\r\n";
    assert_true(migrate_watch_look(&w));
    assert_true(seen.reset && !seen.counted);
    w = begun(&m, &seen);
    counts = COUNTS("4");
    assert_true(migrate_watch_look(&w));
    assert_false(seen.counted);
}

#define REFUSALS(setnx)                                                                            \
    "cmdstat_eval:calls=3,rejected_calls=0\r\ncmdstat_setnx:calls=5,rejected_calls=" setnx "\r\n"

TEST(what_is_refused_during_the_watch_is_counted) {
    migrate_link m = {.replicas = 0};
    migrate_traffic seen;
    (void)begun(&m, &seen);
    assert_int_equal(seen.refused, -1);
    migrate_watch w;
    counts = REFUSALS("2");
    migrate_watch_begin(&w, &m, "jobs:*", 0, 0, &seen);
    assert_int_equal(seen.refused, 0);
    counts = REFUSALS("4");
    assert_true(migrate_watch_look(&w));
    assert_int_equal(seen.refused, 2);
    assert_int_equal(seen.calls, 0);
}

/* ---- ACL LOG ---------------------------------------------------------------------------------- */

typedef struct {
    int64_t count;
    const char *reason, *object, *age, *client;
} entry;

#define TEXT(value) ((tl_reply){.type = TL_REPLY_STRING, .text = tl__bytes_of(value)})

static migrate_denials denied(const entry *entries, size_t count, int64_t since_ms) {
    static tl_reply items[8][12], log[8];
    migrate_denials ret;
    for (size_t i = 0; i < count; i++) {
        const tl_reply members[] = {
            TEXT("count"),       {.type = TL_REPLY_INT, .integer = entries[i].count},
            TEXT("reason"),      TEXT(entries[i].reason),
            TEXT("object"),      TEXT(entries[i].object),
            TEXT("username"),    TEXT("app"),
            TEXT("age-seconds"), TEXT(entries[i].age),
            TEXT("client-info"), TEXT(entries[i].client)};
        memcpy(items[i], members, sizeof members);
        log[i] = (tl_reply){.type = TL_REPLY_ARRAY, .items = items[i], .count = 12};
    }
    const tl_reply all = {.type = TL_REPLY_ARRAY, .items = log, .count = count};
    migrate_read_denials(&all, "jobs:*", since_ms, &ret);
    return ret;
}

#define JEDIS "id=8 addr=10.0.0.7:4001 name=web cmd=setnx user=app lib-name=jedis lib-ver=5.1.0"

TEST(a_denial_names_the_user_and_the_client) {
    const entry one[] = {{3, "command", "setnx", "2.500", JEDIS}};
    migrate_denials log = denied(one, 1, 3000);
    assert_int_equal(log.count, 3);
    assert_int_equal(log.age_ms, 2500);
    if (!strstr(log.who, "user app") || !strstr(log.who, "10.0.0.7:4001 called web (jedis 5.1.0)"))
        fail_msg("%s", log.who);
}

TEST(only_denials_of_legacy_commands_within_the_watch_count) {
    const struct {
        entry entry;
        int64_t since_ms, count;
    } all[] = {
        {{1, "command", "setnx", "2.500", JEDIS}, 2500, 1},
        {{1, "command", "setnx", "2.501", JEDIS}, 2500, 0}, /* before the watch */
        {{1, "command", "setnx", "9000000", JEDIS}, INT64_MAX, 1},
        {{1, "command", "setnx", "2.5", JEDIS}, 2499, 0},
        {{1, "command", "setnx", "2.5", JEDIS}, 2500, 1},
        {{1, "command", "setnx", "1.2050000000000001", JEDIS}, 1204, 0},
        {{1, "command", "getset", "0", ""}, 1, 1},
        {{1, "command", "setnx", "-3.000", JEDIS}, 1, 1}, /* the server's clock was set back */
        {{1, "command", "setnx", "odd", JEDIS}, 1, 1},
        {{0, "command", "setnx", "0.000", JEDIS}, 1, 1},
        {{1, "command", "msetnx", "0.000", JEDIS}, 1, 0},
        {{1, "command", "get", "0.000", JEDIS}, 1, 0},
        {{1, "key", "jobs:x", "0.000", JEDIS}, 1, 1},
        {{1, "key", "other:x", "0.000", JEDIS}, 1, 0},
        {{1, "key", "jobs:x", "0.000", "addr=a:1 cmd=get"}, 1, 0},
        {{1, "auth", "setnx", "0.000", JEDIS}, 1, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (denied(&all[i].entry, 1, all[i].since_ms).count != all[i].count)
            fail_msg("number %zu", i);
    const tl_reply odd[] = {{.type = TL_REPLY_NIL}, TEXT("reason")};
    const tl_reply log = {.type = TL_REPLY_ARRAY, .items = odd, .count = 2};
    migrate_denials none;
    migrate_read_denials(&log, "*", 1, &none);
    assert_int_equal(none.count, 0);
}

TEST(many_denials_are_counted_and_some_named) {
    entry many[8];
    char client[8][80];
    for (int i = 0; i < 8; i++) {
        (void)snprintf(client[i], sizeof client[i], "addr=10.0.0.%d:4001 name= cmd=setnx", i);
        many[i] = (entry){2, "command", "setnx", i == 5 ? "1.000" : "7.000", client[i]};
    }
    migrate_denials log = denied(many, 8, 10000);
    assert_int_equal(log.count, 16);
    assert_int_equal(log.age_ms, 1000);
    assert_non_null(strstr(log.who, "10.0.0.0:4001"));
}

/* A server that was a replica meanwhile has counted only what its master had it execute. */
TEST(a_server_that_was_a_replica_in_between_is_watched_anew) {
    static const char *const others[] = {"role:master\r\nmaster_replid:22\r\n",
                                         "role:slave\r\nmaster_replid:11\r\n", NULL};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        migrate_link m = {.replicas = 0};
        migrate_traffic seen;
        migrate_watch w = begun(&m, &seen);
        int64_t began_ms = w.began_ms;
        reign = others[i];
        assert_false(migrate_watch_look(&w));
        assert_true(w.began_ms > began_ms);
        w = begun(&m, &seen);
        reign = others[i];
        assert_false(migrate_watch_end(&w));
    }
    migrate_link m = {.replicas = 0};
    migrate_traffic seen;
    migrate_watch w = begun(&m, &seen);
    assert_true(migrate_watch_look(&w) && migrate_watch_end(&w));
    (void)begun(&m, &seen);
    reign = NULL; /* it may not be read at all */
    migrate_watch_begin(&w, &m, "jobs:*", 0, 0, &seen);
    assert_true(migrate_watch_look(&w) && migrate_watch_end(&w));
}
