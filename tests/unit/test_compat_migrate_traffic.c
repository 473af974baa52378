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
static int lists;                   /* how often the list of clients was asked for */
static const char *run_id, *counts; /* what INFO tells; NULL: no answer */

int64_t moment_ms(void) {
    return now_ms;
}

int64_t moment_wall_us(void) {
    return now_ms * 1000;
}

bool link_ask(server_link *l, const char *const *request,
              bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    bool server = request[1] && strcmp(request[1], "server") == 0;
    const char *text = strcmp(request[0], "INFO") != 0 ? NULL : server ? run_id : counts;
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

static int64_t calls(const char *info) {
    return migrate_count_calls(tl__bytes_of(info));
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
    assert_int_equal(calls(""), -1); /* it doesn't count at all */
    assert_int_equal(calls("cmdstat_setnx:calls=4,usec=7\r\n"), -1);
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
    counts = COUNTS("5");
    migrate_watch_begin(&w, m, "*", 0, seen);
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
    lists = 0;
    for (int i = 0; i < 20; i++)
        assert_true(migrate_watch_look(&w));
    answer_ms = 1000;
    assert_in_range(lists, 3, 4); /* in 4.6 s */
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
