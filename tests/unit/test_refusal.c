/*
 * What is made of a server's errors: the command or key that a permission is missing for, in the words of
 * each server since 6.0, and nothing that the server was sent.
 */
#include "protocol/protocol.h"
#include "tests.h"
#include "wire/refusal.h"

#include <stdio.h>
#include <string.h>

#include "wire/script.h"

static void says(const char *error, const char *words) {
    char to[TL_REFUSAL_SIZE];
    tl_bytes said = tl__refusal_message(to, tl__bytes_of(error));
    if (said.n != strlen(words) || memcmp(said.p, words, said.n) != 0)
        fail_msg("%s: \"%.*s\" instead of \"%s\"", error, (int)said.n, said.p, words);
}

#define NO_HMSET "NOPERM: the user may not run 'hmset': the permission +hmset is missing"
#define NO_GET "NOPERM: the user may not run 'get': the permission +get is missing"
#define NO_KEYS                                                                                    \
    "NOPERM: the user may not access one of the keys: a lock needs its own and ~*tidelock*"
#define NO_CHANNELS                                                                                \
    "NOPERM: the user may not access one of the channels: the permission &*tidelock* is missing"

TEST(a_refused_command_is_named_in_the_words_of_each_server) {
    says("NOPERM this user has no permissions to run the 'get' command or its subcommand", NO_GET);
    says("NOPERM this user has no permissions to run the 'get' command", NO_GET);
    says("NOPERM User app has no permissions to run the 'get' command", NO_GET);
    says("NOPERM User app has no permissions to run the 'client|id' command",
         "NOPERM: the user may not run 'client|id': the permission +client|id is missing");
    says("ERR ACL failure in script: User app has no permissions to run the 'get' command", NO_GET);
    says(
        "ERR ACL failure in script: User app has no permissions to run the 'hmset' command script: "
        "0dc37c2bf07690981f113c1beb454be00aca77f1, on @user_script:1.",
        NO_HMSET);
    /* What a script has called with pcall and answers. */
    says("ERR The user executing the script can't run this command or subcommand (get)", NO_GET);
    says(
        "@user_script: 31: The user executing the script can't run this command or subcommand (get)",
        NO_GET);
}

TEST(a_refused_key_or_channel_is_told_as_one) {
    says("NOPERM this user has no permissions to access one of the keys used as arguments",
         NO_KEYS);
    says("NOPERM No permissions to access a key", NO_KEYS);
    says("ERR ACL failure in script: No permissions to access a key script: 12, on @user_script:1.",
         NO_KEYS);
    says("ERR The user executing the script can't access at least one of the keys mentioned in the "
         "command arguments (get)",
         NO_KEYS);
    says("NOPERM this user has no permissions to access one of the channels used as arguments",
         NO_CHANNELS);
    says("NOPERM No permissions to access a channel", NO_CHANNELS);
    says("ERR The user executing the script can't publish to the channel mentioned in the command",
         NO_CHANNELS);
    says("NOPERM in words of tomorrow", "NOPERM: a permission of the user is missing");
}

#define ELSEWHERE ": another node of the cluster has the key: give the URL as redis+cluster://"

TEST(a_key_that_is_at_another_node_is_told_as_that) {
    char error[400];
    says("MOVED 12739 10.0.0.6:6379", "MOVED 12739 10.0.0.6:6379" ELSEWHERE);
    says("ASK 7629 node-2.example:7002", "ASK 7629 node-2.example:7002" ELSEWHERE);
    says("MOVEDNESS", "MOVEDNESS");
    (void)snprintf(error, sizeof error, "MOVED 1 %0300d:6379", 7);
    char to[TL_REFUSAL_SIZE];
    (void)tl__refusal_message(to, tl__bytes_of(error));
    assert_non_null(strstr(to, ELSEWHERE));
}

/* The line of a script with the n-th (from 0) call of the command; 0: there is none. */
static int line_with(tl_script script, const char *call, int n) {
    tl_bytes text = tl__script_text(script);
    int line = 1;
    for (size_t i = 0; i < text.n; i++) {
        line += text.p[i] == '\n';
        if (text.n - i >= strlen(call) && memcmp(text.p + i, call, strlen(call)) == 0 && n-- == 0)
            return line;
    }
    return 0;
}

/* Before 7.2 the server tells the script and the line. */
TEST(within_a_script_the_command_is_that_of_the_line) {
    static const struct {
        tl_script script;
        const char *call, *name;
    } calls[] = {
        {TL_SCRIPT_ACQUIRE, "call('HMSET'", "hmset"}, {TL_SCRIPT_ACQUIRE, "call('SET'", "set"},
        {TL_SCRIPT_RENEW, "call('PTTL'", "pttl"},     {TL_SCRIPT_RELEASE, "call('DEL'", "del"},
        {TL_SCRIPT_LOOK, "call('TYPE'", "type"},      {TL_SCRIPT_HOLD, "call('TIME'", "time"},
        {TL_SCRIPT_SCAN, "call('SCAN'", "scan"}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char error[300], words[TL_REFUSAL_SIZE];
        tl_bytes sha1 = tl__script_sha1(calls[i].script);
        int line = line_with(calls[i].script, calls[i].call, 0);
        assert_int_not_equal(line, 0);
        (void)snprintf(words, sizeof words,
                       "NOPERM: the user may not run '%s': the permission +%s is missing",
                       calls[i].name, calls[i].name);
        (void)snprintf(error, sizeof error,
                       "ERR The user executing the script can't run this command or subcommand "
                       "script: %.40s, on @user_script:%d.",
                       sha1.p, line);
        says(error, words);
        (void)snprintf(error, sizeof error,
                       "ERR Error running script (call to f_%.40s): @user_script:%d: @user_script: "
                       "%d: The user executing the script can't run this command or subcommand",
                       sha1.p, line, line);
        says(error, words);
    }
    says("ERR The user executing the script can't run this command or subcommand script: "
         "0dc37c2bf07690981f113c1beb454be00aca77f1, on @user_script:1.", /* not ours */
         "NOPERM: a permission of the user is missing");
}

/* In the words of 2.6, 2.8 to 6.2, and 7.0 on; of what a script has called with pcall and answers. */
TEST(a_replica_is_known_by_the_error_of_each_server) {
    static const char *const errors[] = {
        "READONLY You can't write against a read only replica.",
        "-READONLY You can't write against a read only slave.   (set)",
        "@user_script: 15: -READONLY You can't write against a read only slave.   (set)",
        "READONLY You can't write against a read only replica. (set)"};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        assert_true(tl__asks_elsewhere(tl__bytes_of(errors[i])));
        assert_int_equal(tl__refusal(tl__bytes_of(errors[i])), TL_EUNAVAILABLE);
    }
    assert_false(tl__asks_elsewhere(TL_LITERAL("-")));
    assert_false(tl__asks_elsewhere(TL_LITERAL("-ERR no READONLY")));
}

#define BESIDE                                                                                     \
    "WRONGTYPE: a key beside the lock's (tidelock:{KEY}, one that begins so, the register of its " \
    "slot) is of another type and not tidelock's: delete it"

/* Of K a script may find anything; what else has another type is in the way. */
TEST(a_key_of_another_type_is_told_by_what_it_may_be) {
    char error[300];
    (void)snprintf(
        error, sizeof error,
        "WRONGTYPE Operation against a key holding the wrong kind of value script: %.40s, on "
        "@user_script:%d.",
        tl__script_sha1(TL_SCRIPT_ACQUIRE).p, line_with(TL_SCRIPT_ACQUIRE, "call('HMGET'", 0));
    says(error, BESIDE);
    says("WRONGTYPE Operation against a key holding the wrong kind of value script: on "
         "@user_script:31.", /* Valkey 9.1 */
         BESIDE);
    says("WRONGTYPE Operation against a key holding the wrong kind of value",
         "WRONGTYPE Operation against a key holding the wrong kind of value");
}

/* What the lines are good for: of two commands in one the wrong one might be named. */
TEST(no_line_of_a_script_calls_two_commands) {
    for (tl_script s = 0; s < TL_SCRIPTS; s++) {
        tl_bytes text = tl__script_text(s);
        int calls = 0;
        for (size_t i = 0; i + 6 <= text.n; i++) {
            if (text.p[i] == '\n')
                calls = 0;
            else if (memcmp(text.p + i, "call('", 6) == 0 && ++calls == 2)
                fail_msg("%.*s.lua calls two commands in a line: %.*s", (int)tl__script_name(s).n,
                         tl__script_name(s).p, 60, text.p + i - 20);
        }
    }
}

TEST(what_was_sent_is_not_repeated) {
    says("WRONGPASS invalid username-password pair or user is disabled.",
         "WRONGPASS: wrong user or password");
    says("ERR unknown command 'EVALSHA', with args beginning with: '8f' '2' 'NOPERM' 'hunter2' ",
         "ERR unknown command 'EVALSHA'");
    assert_false(tl__is_no_permission(TL_LITERAL(
        "ERR unknown command 'EVALSHA', with args beginning with: 'ACL failure in script' ")));
    /* A name is a name, and no longer than one. */
    says("NOPERM User a has no permissions to run the 'hunter2 is mine' command",
         "NOPERM: a permission of the user is missing");
    says("NOPERM x run the 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz' command",
         "NOPERM: a permission of the user is missing");
}

TEST(other_errors_are_told_as_they_are) {
    says("OOM command not allowed when used memory > 'maxmemory'.",
         "OOM command not allowed when used memory > 'maxmemory'.");
    says("ERR \x1b[31m", "ERR ?[31m");
    says("", "an error without text");
    says(", with args beginning with: 'x'", "an error without text");
    says("NOPERM", "NOPERM: a permission of the user is missing");
    says("NOPERM (", "NOPERM: a permission of the user is missing");
    says("NOPERM )", "NOPERM: a permission of the user is missing");
    says("NOPERM script: ", "NOPERM: a permission of the user is missing");
}
