/*
 * The trace's lines: what came, and what it led to. What a reply holds must never stand there.
 */
#include "tests.h"

#include <stdio.h>
#include <string.h>

#include "client/trace.h"

static char line[512];

static void keep(tl_log_level level, const char *text, void *ctx) {
    (void)ctx;
    assert_int_equal(level, TL_LOG_DEBUG);
    (void)snprintf(line, sizeof line, "%s", text);
}

static tl_client client = {
    .log = keep, .trace = true, .node = {.client = &client, .endpoint = {.label = "h:1"}}};
static tl_out out;
static tl_result result;

static tl_mono at_ms(int64_t ms) {
    return (tl_mono){ms * TL_NS_PER_MS};
}

static int set_up(void **state) {
    (void)state;
    tl__out_clear(&out);
    out.send.count = 0;
    result = (tl_result){.code = TL_OK};
    return 0;
}

TESTS_WITH(set_up, NULL);

/* At 1,000 ms. */
static const char *told(tl_event e, tl_status status) {
    tl_machine machine = {.state = &result, .key = TL_LITERAL("jobs"), .does = "acquire"};
    e.now = at_ms(1000);
    tl__trace_step(&client, &client.node, &machine, &e, &out, status);
    return line;
}

static const char *told_start(tl_status status) {
    return told((tl_event){.kind = TL_START}, status);
}

/* The reply came 1.5 ms after what it answers was sent. */
static const char *told_reply(tl_reply reply) {
    tl_mono sent = {at_ms(1000).ns - 1500000};
    return told((tl_event){.kind = TL_REPLY,
                           .asked = {.sent = sent},
                           .replied = {.reply = &reply, .count = 1}},
                TL_GO);
}

static void add_command(tl_bytes name) {
    tl_command *command = &out.send.command[out.send.count++];
    *command = (tl_command){.form = TL_ARGV, .argc = 1};
    command->argv[0] = name;
}

#define WAITS "; waits"

TEST(an_event_is_named) {
    static const tl_reply value = {.type = TL_REPLY_STRING, .text = {"v", 1}};
    static const struct {
        tl_event event;
        const char *words;
    } rows[] = {
        {{.kind = TL_START}, "begins"},
        {{.kind = TL_ARMED, .armed = true}, "subscribed"},
        {{.kind = TL_ARMED}, "no longer subscribed"},
        {{.kind = TL_CHANGED, .value = &value}, "the key was read after a change"},
        {{.kind = TL_WATCHED, .armed = true}, "the key's next change will be notified"},
        {{.kind = TL_WATCHED}, "the key may have changed"},
        {{.kind = TL_WOKEN}, "notified"},
        {{.kind = TL_TIMER}, "time is up"},
        {{.kind = TL_CANCEL}, "cancelled"},
        {{.kind = TL_REPLY}, "the server is reached"},
        {{.kind = TL_FAILED, .failed = {.message = {"h:1: \nno", 8}}}, "no reply: h:1: ?no"},
        {{.kind = TL_FAILED, .failed = {.maybe_sent = true, .message = {"reset", 5}}},
         "no reply, though the server may have acted: reset"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[128];
        (void)snprintf(expected, sizeof expected, "h:1: acquire jobs: %s" WAITS, rows[i].words);
        assert_string_equal(told(rows[i].event, TL_GO), expected);
    }
}

TEST(of_a_reply_its_kind_is_told_and_nothing_that_it_holds) {
    static const tl_reply one = {.type = TL_REPLY_INT, .integer = 1},
                          many = {.type = TL_REPLY_INT, .integer = 1700000000},
                          token = {.type = TL_REPLY_STRING, .text = {"secret", 6}};
    const tl_reply first[] = {one, token}, inner = {TL_REPLY_ARRAY, .items = first, .count = 2},
                   third[] = {many, many, inner}, neither[] = {token, token};
    const struct {
        tl_reply reply;
        const char *words;
    } rows[] = {{{.type = TL_REPLY_NIL}, "nil"},
                {many, "1700000000"},
                {token, "6 bytes"},
                {{.type = TL_REPLY_STATUS, .text = {"OK", 2}}, "2 bytes"},
                {inner, "status 1"},
                {{.type = TL_REPLY_ARRAY, .items = third, .count = 3}, "status 1"},
                {{.type = TL_REPLY_ARRAY, .items = neither, .count = 2}, "2 items"},
                {{.type = TL_REPLY_ERROR, .text = {"ERR\tno", 6}}, "an error, ERR?no"},
                {{.type = TL_REPLY_ERROR, .text = TL_LITERAL("ERR x, with args beginning: secret")},
                 "an error, ERR x"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[128];
        (void)snprintf(expected, sizeof expected,
                       "h:1: acquire jobs: reply after 1.500 ms: %s" WAITS, rows[i].words);
        assert_string_equal(told_reply(rows[i].reply), expected);
    }
}

TEST(what_is_sent_is_named_with_its_limit) {
    out.sends = 1;
    out.send = (tl_send){.by = at_ms(3000)};
    assert_string_equal(told_start(TL_GO),
                        "h:1: acquire jobs: begins; reaches for the server, within 2000 ms");
    out.send.confirm = true;
    out.send.by = TL_NEVER;
    assert_string_equal(told_start(TL_GO), "h:1: acquire jobs: begins; has the master confirmed");
    add_command(TL_LITERAL("SET"));
    assert_string_equal(told_start(TL_GO), "h:1: acquire jobs: begins; sends SET");
    add_command(TL_LITERAL("WAIT"));
    out.send.command[0] = (tl_command){.form = TL_SCRIPT, .script = TL_SCRIPT_RENEW};
    assert_string_equal(told_start(TL_GO), "h:1: acquire jobs: begins; sends renew and WAIT");
    add_command(TL_LITERAL("EXEC"));
    add_command(TL_LITERAL("GET"));
    assert_string_equal(told_start(TL_GO), "h:1: acquire jobs: begins; sends renew and WAIT");
}

TEST(a_wait_and_what_it_is_for_are_told) {
    out.until = at_ms(1025);
    out.arm = true;
    tl__out_message(&out, TL_LITERAL("another holds it"));
    assert_string_equal(told_start(TL_GO), "h:1: acquire jobs: begins; subscribes, waits for at "
                                           "most 25 ms: another holds it");
}

TEST(an_end_is_told_with_its_deadline_or_its_code) {
    result = (tl_result){.code = TL_OK, .deadline = at_ms(31000), .acquire = {.fence = 7}};
    assert_string_equal(told_start(TL_END), "h:1: acquire jobs: begins; OK, for 30000 ms, fence 7");
    result.op = TL_RENEW;
    assert_string_equal(told_start(TL_END), "h:1: acquire jobs: begins; OK, for 30000 ms");
    result.deadline = at_ms(0);
    assert_string_equal(told_start(TL_END), "h:1: acquire jobs: begins; TL_OK");
    result.code = TL_ETIMEDOUT;
    assert_string_equal(told_start(TL_DETACH), "h:1: acquire jobs: begins; TL_ETIMEDOUT, and goes "
                                               "on to undo what may have been done");
}

TEST(the_owners_notes_come_first) {
    (void)tl__out_note(&out, TL_NOTE_HELD, TL_NOT_LOST);
    (void)tl__out_note(&out, TL_NOTE_LOST, TL_LOST_GONE);
    result.code = TL_ELOST;
    assert_string_equal(told_start(TL_END),
                        "h:1: acquire jobs: begins; HELD again, LOST, TL_ELOST");
    out.notes = 0;
    (void)tl__out_note(&out, TL_NOTE_AT_RISK, TL_NOT_LOST);
    assert_string_equal(told_start(TL_GO), "h:1: acquire jobs: begins; AT_RISK, waits");
}

TEST(what_is_too_long_is_cut) {
    char text[600];
    tl_reply error = {.type = TL_REPLY_ERROR, .text = {text, sizeof text}};
    memset(text, 'e', sizeof text);
    assert_int_equal(strlen(told_reply(error)),
                     strlen("h:1: acquire jobs: ") + 239 + strlen(WAITS));
    out.sends = 1;
    out.send = (tl_send){.by = TL_NEVER};
    add_command(tl__bytes(text, 64));
    tl__out_message(&out, tl__bytes(text, sizeof text));
    const char *sends = strstr(told_start(TL_GO), "sends ");
    assert_int_equal(strlen(sends), 239);
}

TEST(without_a_step_it_is_told_what_happens) {
    tl__trace(&client, TL_LITERAL("jobs"), "release", "passed on");
    assert_string_equal(line, "h:1: release jobs: passed on");
    tl__trace(&client, TL_LITERAL(""), "scan", "ended");
    assert_string_equal(line, "h:1: scan: ended");
    line[0] = '\0';
    client.trace = false;
    tl__trace(&client, TL_LITERAL("jobs"), "release", "passed on");
    client.trace = true;
    assert_string_equal(line, "");
}
