/*
 * What the doctor says of what a server is able to: its version, scripts, commands, permissions, clocks, connections.
 */
#include "doctor_findings.h"

static void be(int version, const char *product) {
    facts.version = version;
    (void)snprintf(facts.product, sizeof facts.product, "%s", product);
}

/* Nothing is wrong with this one. */
static int set_up(void **state) {
    (void)state;
    memset(&facts, 0, sizeof facts);
    be(DOCTOR_VERSION(7, 0, 15), "Redis 7.0.15");
    facts.protocol = TL_TOKEN;
    facts.script_ok = facts.clock_watched = true;
    facts.now_us = INT64_C(1800000000000000);
    (void)snprintf(facts.user, sizeof facts.user, "locker");
    info("uptime_in_seconds:5000\r\nconnected_clients:3\r\n");
    set(CONFIG_TIMEOUT, "0");
    set(CONFIG_KEEPALIVE, "300");
    set(CONFIG_MAXCLIENTS, "10000");
    set(CONFIG_PROTECTED, "yes");
    set(CONFIG_BIND, "127.0.0.1 -::1");
    set(CONFIG_PORT, "6379");
    return 0;
}

TESTS_WITH(set_up, NULL);

static void check(void) {
    report.count = 0;
    doctor_check_able(&facts, &report);
}

static void advises(const doctor_finding *x, const char *fix) {
    if (!strstr(x->fix, fix))
        fail_msg("no \"%s\" in: %s", fix, x->fix);
}

TEST(nothing_is_found_where_nothing_is_wrong) {
    says_nothing();
}

/* ---- version, scripts, commands -------------------------------------------------------------- */

TEST(what_an_old_version_can_not_do_is_told) {
    be(DOCTOR_VERSION(2, 4, 18), "Redis 2.4.18");
    advises(says("version", DOCTOR_DANGER, "the server is Redis 2.4.18"), "upgrade to 6.0");
    be(DOCTOR_VERSION(3, 0, 7), "Redis 3.0.7");
    says("version", DOCTOR_NOTE, "the server is Redis 3.0.7");
    assert_non_null(strstr(find("the server is")->why, "can't read the clock before they write"));
    be(DOCTOR_VERSION(5, 0, 14), "Redis 5.0.14");
    says("version", DOCTOR_NOTE, "the server is Redis 5.0.14");
    be(DOCTOR_VERSION(6, 0, 0), "Redis 6.0.0");
    check();
    assert_null(find("the server is"));
    be(0, ""); /* it isn't known */
    check();
    assert_null(find("the server is"));
}

TEST(what_came_later_than_the_server_is_told_once) {
    be(DOCTOR_VERSION(2, 6, 17), "Redis 2.6.17");
    const doctor_finding *x = says("commands", DOCTOR_NOTE, "Redis 2.6.17 is from before ");
    assert_non_null(strstr(x->what, "SCAN (2.8)"));
    assert_non_null(strstr(x->what, "WAIT (3.0)"));
    int n = 0;
    for (int i = 0; i < report.count; i++)
        n += strcmp(report.finding[i].id, "commands") == 0;
    assert_int_equal(n, 1);
}

TEST(a_server_that_runs_no_script_gives_no_lock_and_it_is_said_why) {
    static const struct {
        const char *said, *fix;
    } rows[] = {
        {"BUSY Redis is busy running a script", "SCRIPT KILL"},
        {"NOPERM this user has no permissions to run the 'eval' command",
         "ACL SETUSER locker +eval +evalsha"},
        {"ERR unknown command 'EVAL'", "rename-command EVAL"},
        {"ERR This instance has Lua scripting support disabled", "--lua-transaction-mode"},
    };
    facts.script_ok = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)snprintf(facts.script_why, sizeof facts.script_why, "%s", rows[i].said);
        const doctor_finding *x = says_only("scripts", DOCTOR_DANGER, rows[i].said);
        advises(x, rows[i].fix);
    }
    be(DOCTOR_VERSION(2, 4, 18), "Redis 2.4.18"); /* whose version tells that it has none */
    check();
    assert_null(find("runs no script"));
}

/* Valkey without its Lua module has EVAL, and runs nothing by it. */
TEST(a_server_without_its_lua_module_is_not_called_old) {
    be(DOCTOR_VERSION(7, 2, 4), "Valkey 9.1.0");
    facts.script_ok = false;
    facts.engineless = true;
    const doctor_finding *x = says_only("scripts", DOCTOR_DANGER,
                                        "the server runs no script: its Lua module is not loaded");
    advises(x, "loadmodule PATH/libvalkeylua.so");
    assert_null(strstr(x->fix, "rename-command"));
#ifdef TL_COMPAT
    advises(x, "or use --protocol timestamp, which works there");
    facts.protocol = TL_TIMESTAMP;
    x = says_only("scripts", DOCTOR_NOTE, "its Lua module is not loaded");
    assert_non_null(strstr(x->why, "locks use WATCH"));
    assert_null(strstr(x->fix, "--protocol timestamp"));
    facts.strict = true; /* which uses no script anywhere */
    says_nothing();
    facts.strict = false;
    facts.by_cluster = true; /* where all locks are scripts */
    x = says_only("scripts", DOCTOR_DANGER, "its Lua module is not loaded");
    facts.protocol = TL_BRIDGE;
    x = says_only("scripts", DOCTOR_DANGER, "its Lua module is not loaded");
    assert_null(strstr(x->fix, "--protocol timestamp"));
#endif
}

/* The number of a command in the table. */
static int number_of(const char *name, const char *sub) {
    const doctor_command *c;
    for (int i = 0; (c = doctor_command_at(i)); i++)
        if (strcmp(c->name, name) == 0 && (sub ? c->sub && strcmp(c->sub, sub) == 0 : !c->sub))
            return i;
    fail_msg("no command %s", name);
    return -1;
}

TEST(a_command_that_is_renamed_is_a_danger_where_locks_need_it) {
    facts.present[number_of("PTTL", NULL)] = COMMAND_MISSING;
    const doctor_finding *x = says_only("commands", DOCTOR_DANGER,
                                        "the server has no PTTL: it is renamed or forbidden");
    assert_string_equal(x->why, "the end of a lock's lifetime stays unknown");
    advises(x, "rename-command PTTL");
    facts.present[number_of("PTTL", NULL)] = COMMAND_OK;
    facts.present[number_of("INCR", NULL)] = COMMAND_MISSING;
    says_only("commands", DOCTOR_WARNING, "the server has no INCR: it is renamed or forbidden");
}

TEST(where_the_version_is_not_known_a_command_may_never_have_been_there) {
    be(0, "");
    facts.present[number_of("PTTL", NULL)] = COMMAND_MISSING;
    const doctor_finding *x = says_only(
        "commands", DOCTOR_DANGER,
        "the server has no PTTL: it is older than Redis 2.6, or the command is renamed");
    advises(x, "upgrade to 2.6 or newer");
    advises(x, "rename-command PTTL");
    facts.present[number_of("PTTL", NULL)] = COMMAND_OK;
    facts.present[number_of("DEL", NULL)] = COMMAND_MISSING; /* which always was */
    says_only("commands", DOCTOR_DANGER, "the server has no DEL: it is renamed");
}

TEST(a_command_that_nobody_here_sends_may_be_missing) {
    facts.present[number_of("CLUSTER", "SLOTS")] = COMMAND_MISSING;
    says_nothing();
    facts.by_cluster = true;
    says_only("commands", DOCTOR_DANGER, "the server has no CLUSTER SLOTS");
}

TEST(commands_that_are_not_told_are_unseen) {
    (void)snprintf(facts.present_why, sizeof facts.present_why, "NOPERM");
    advises(says_only("commands", DOCTOR_UNSEEN, "which commands the server has: NOPERM"),
            "+command");
}

/* ---- permissions ----------------------------------------------------------------------------- */

static void deny(const char *name, const char *sub, const char *said) {
    int i = number_of(name, sub);
    facts.allowed[i] = COMMAND_DENIED;
    (void)snprintf(facts.denied[i], sizeof facts.denied[i], "%s", said);
}

#define NO_COMMAND "User locker has no permissions to run the command"
#define NO_KEY "User locker has no permissions to access the 'k' key"

TEST(a_command_that_is_denied_counts_by_its_use) {
    deny("PTTL", NULL, NO_COMMAND);
    advises(says_only("permissions", DOCTOR_DANGER, "PTTL: " NO_COMMAND),
            "ACL SETUSER locker +PTTL");
    set_up(NULL);
    deny("INCR", NULL, NO_COMMAND);
    says_only("permissions", DOCTOR_WARNING, "INCR: " NO_COMMAND);
    set_up(NULL);
    facts.by_cluster = true;
    deny("CLUSTER", "INFO", NO_COMMAND);
    advises(says_only("permissions", DOCTOR_WARNING, "CLUSTER INFO: " NO_COMMAND), "+CLUSTER|INFO");
}

TEST(keys_that_are_denied_are_in_doubt_until_a_key_is_given) {
    deny("PTTL", NULL, NO_KEY);
    deny("DEL", NULL, NO_KEY);
    advises(says_only("permissions", DOCTOR_UNSEEN, NO_KEY), "tidelock doctor KEY"); /* once */
    facts.key = "jobs:1";
    check();
    assert_int_equal(report.count, 2);
    advises(says("permissions", DOCTOR_DANGER, NO_KEY),
            "ACL SETUSER locker '~jobs:1' '~tidelock:{jobs:1}*'");
}

/* The server names the user, and what it says comes onto the terminal as part of a command. */
TEST(a_name_that_is_no_plain_word_is_not_printed) {
    static const char *const names[] = {"",    "a\033[2Jb", "a b",    "a\nb",  "a\"b",
                                        "a'b", "a\\b",      "a\177b", "a\200b"};
    deny("PTTL", NULL, NO_COMMAND);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(facts.user, sizeof facts.user, "%s", names[i]);
        assert_string_equal(says("permissions", DOCTOR_DANGER, "PTTL: ")->fix,
                            "ACL SETUSER USER +PTTL");
    }
    (void)snprintf(facts.user, sizeof facts.user, "~app-1.x@b");
    advises(says("permissions", DOCTOR_DANGER, "PTTL: "), "ACL SETUSER ~app-1.x@b +PTTL");
    (void)snprintf(facts.user, sizeof facts.user, "\033]0;x\007");
    deny("PTTL", NULL, NO_KEY);
    facts.key = "jobs:1";
    facts.script_ok = facts.clock_watched = false;
    (void)snprintf(facts.script_why, sizeof facts.script_why, "NOPERM");
    check();
    assert_int_equal(report.count, 3);
    for (int i = 0; i < report.count; i++) {
        advises(&report.finding[i], "ACL SETUSER USER ");
        assert_null(strchr(report.finding[i].fix, '\033'));
    }
}

#ifdef TL_COMPAT
/* Other commands are sent where no client has a lease on a phase. */
TEST(permissions_for_phases_are_others_in_a_cluster) {
    facts.protocol = TL_AUTO;
    facts.key = "jobs:1";
    deny("HGETALL", NULL, NO_KEY);
    advises(says_only("permissions", DOCTOR_DANGER, "HGETALL: " NO_KEY),
            "this command prints them with --acl locker KEY");
    (void)snprintf(facts.user, sizeof facts.user, "\033[2J");
    advises(says_only("permissions", DOCTOR_DANGER, "HGETALL: " NO_KEY),
            "give USER the keys of the phase; this command prints them with --acl USER KEY");
    static const struct {
        const char *name, *sub;
        bool alone, in_cluster;
    } rows[] = {{"HGETALL", NULL, true, false},    {"HSET", NULL, true, true},
                {"HDEL", NULL, true, false},       {"CLIENT", "TRACKING", true, false},
                {"CLUSTER", "SLOTS", false, true}, {"ASKING", NULL, false, true},
                {"ZADD", NULL, true, true},        {"PUBSUB", "NUMSUB", true, true}};
    for (int in_cluster = 0; in_cluster < 2; in_cluster++) {
        facts.by_cluster = in_cluster;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            bool sent = false;
            for (int n = 0; doctor_command_at(n); n++)
                sent = sent ||
                       (strcmp(doctor_command_at(n)->name, rows[i].name) == 0 &&
                        (!rows[i].sub || strcmp(doctor_command_at(n)->sub, rows[i].sub) == 0) &&
                        (doctor_command_at(n)->who & doctor_users(&facts)));
            assert_int_equal(sent, in_cluster ? rows[i].in_cluster : rows[i].alone);
        }
    }
}

#endif

TEST(permissions_that_are_not_told_are_unseen) {
    (void)snprintf(facts.allowed_why, sizeof facts.allowed_why, "ERR unknown subcommand");
    advises(says_only("permissions", DOCTOR_UNSEEN, "what this user may do"), "+acl|dryrun");
    be(DOCTOR_VERSION(6, 2, 6), "Redis 6.2.6"); /* which has no DRYRUN */
    advises(says_only("permissions", DOCTOR_UNSEEN, "what this user may do"),
            "ACL LOG stays empty");
}

/* ---- clocks ---------------------------------------------------------------------------------- */

TEST(a_clock_that_is_set_is_told) {
    facts.clock_stepped = true;
    advises(says_only("clock", DOCTOR_DANGER, "the server's clock was set while it was watched"),
            "makestep");
    facts.clock_stepped = false;
    facts.agents_step_us = facts.now_us - INT64_C(3600000000);
    says_only("clock", DOCTOR_WARNING, "an agent saw the server's clock being set 3600 s ago");
    facts.agents_step_us = facts.now_us - INT64_C(86400000000); /* a day ago */
    says_nothing();
}

TEST(a_clock_that_is_not_told_is_unseen) {
    facts.clock_watched = false;
    (void)snprintf(facts.clock_why, sizeof facts.clock_why, "NOPERM");
    advises(says_only("clock", DOCTOR_UNSEEN, "the server's clock: NOPERM"),
            "ACL SETUSER locker +time");
    be(DOCTOR_VERSION(5, 0, 14), "Redis 5.0.14");
    advises(says("clock", DOCTOR_UNSEEN, "the server's clock: NOPERM"), "rename-command TIME");
    be(DOCTOR_VERSION(2, 4, 18), "Redis 2.4.18"); /* which has no TIME */
    check();
    assert_null(find("the server's clock"));
}

TEST(a_start_in_the_future_is_a_clock_that_was_set_back) {
    info("uptime_in_seconds:-7\r\n");
    says_only("uptime", DOCTOR_WARNING, "the server says that it started 7 s from now");
}

static void other_clock(bool known, int64_t lo_us, int64_t hi_us) {
    facts.servers = 1;
    facts.server[0] = (skew_host){.known = known, .offset = {lo_us, hi_us}};
    (void)snprintf(facts.server[0].name, sizeof facts.server[0].name, "b:6379");
}

TEST(another_servers_clock_counts_by_what_it_is_off_at_least) {
    other_clock(true, 100000, 300000);
    says_nothing();
    other_clock(true, 100001, 300000);
    says_only("replica-clock", DOCTOR_WARNING, "the clock of b:6379 is 100 ms ahead at least");
    other_clock(true, -900000, -200000);
    says_only("replica-clock", DOCTOR_WARNING, "the clock of b:6379 is 200 ms behind at least");
    other_clock(true, 1000001, 1000002);
    says_only("replica-clock", DOCTOR_DANGER, "the clock of b:6379 is 1000 ms ahead at least");
    other_clock(true, -5000000, 5000000); /* either may be */
    says_nothing();
    other_clock(false, 0, 0);
    says_only("replica-clock", DOCTOR_UNSEEN, "the clock of b:6379");
    facts.servers = 0;
    (void)snprintf(facts.servers_why, sizeof facts.servers_why, "NOPERM");
    says_only("replica-clock", DOCTOR_UNSEEN, "the clocks of other servers: NOPERM");
}

TEST(clocks_beyond_those_that_are_compared_are_unseen) {
    other_clock(true, 0, 0);
    facts.more_servers = true;
    advises(says_only("replica-clock", DOCTOR_UNSEEN,
                      "the clocks of other servers: there are more than 1"),
            "tidelock skew");
}

/* ---- the fencing counter --------------------------------------------------------------------- */

TEST(a_counter_without_a_next_number_is_a_danger) {
    (void)snprintf(facts.counter, sizeof facts.counter, "tidelock:fence:{1}");
    facts.counted = -1;
    says_only("fence", DOCTOR_DANGER, "tidelock:fence:{1} holds no number");
    facts.counted = INT64_C(1) << 53;
    says_only("fence", DOCTOR_DANGER, "is at 2^53");
    facts.counted = (INT64_C(1) << 53) - 1;
    says_only("fence", DOCTOR_DANGER, "is at 2^53");
}

TEST(a_counter_ahead_of_the_clock_is_told_by_how_much) {
    static const struct {
        int64_t s;
        const char *shown; /* NULL: nothing is said */
    } rows[] = {{10, NULL}, {11, "11 s"}, {7199, "7199 s"}, {7200, "2 h"}, {172800, "2 days"}};
    (void)snprintf(facts.counter, sizeof facts.counter, "tidelock:fence:{1}");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char what[64];
        facts.counted = facts.now_us + rows[i].s * 1000000;
        (void)snprintf(what, sizeof what, "is %s ahead of the server's clock", rows[i].shown);
        if (rows[i].shown)
            says_only("fence", DOCTOR_WARNING, what);
        else
            says_nothing();
    }
    facts.counted = 0; /* there is none yet */
    says_nothing();
}

/* ---- connections ----------------------------------------------------------------------------- */

TEST(connections_that_are_closed_or_never_are_told) {
    set(CONFIG_TIMEOUT, "60");
    says_only("timeout", DOCTOR_WARNING, "the server closes connections that are idle for 60 s");
    set(CONFIG_TIMEOUT, "0");
    set(CONFIG_KEEPALIVE, "0");
    says_only("tcp-keepalive", DOCTOR_WARNING, "never checks whether a silent client still exists");
}

TEST(few_connections_that_are_left_are_told) {
    static const struct {
        const char *now, *most;
        int level; /* -1: nothing */
    } rows[] = {{"80", "100", -1},
                {"81", "100", DOCTOR_WARNING},
                {"95", "100", DOCTOR_WARNING},
                {"96", "100", DOCTOR_DANGER},
                {"3", "64", -1},
                {"3", "63", DOCTOR_WARNING},
                {"3", "0", -1}}; /* before 2.6: no limit */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)snprintf(facts.info, sizeof facts.info, "connected_clients:%s\r\n", rows[i].now);
        set(CONFIG_MAXCLIENTS, rows[i].most);
        if (rows[i].level >= 0)
            says_only("maxclients", (doctor_level)rows[i].level, "connections");
        else
            says_nothing();
    }
    facts.config[CONFIG_MAXCLIENTS].known = false; /* INFO tells it, too, from 7.0 on */
    info("connected_clients:96\r\nmaxclients:100\r\n");
    says_only("maxclients", DOCTOR_DANGER, "96 of 100 connections are in use");
}

TEST(a_server_that_lets_everybody_in_is_told) {
    static const char *const open[] = {"", "*", "0.0.0.0", "::", "* -::*", "127.0.0.1 ::"};
    facts.no_password = true;
    set(CONFIG_PROTECTED, "no");
    says_nothing(); /* it listens on this machine alone */
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        set(CONFIG_BIND, open[i]);
        says_only("protected", DOCTOR_WARNING, "port 6379 accepts every client without a password");
    }
    set(CONFIG_PROTECTED, "yes");
    says_nothing();
    set(CONFIG_PROTECTED, "no");
    set(CONFIG_PORT, "0");
    says_nothing();
    set(CONFIG_PORT, "6379");
    facts.no_password = false;
    says_nothing();
}
