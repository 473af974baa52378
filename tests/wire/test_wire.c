/*
 * The bytes on the wire, frozen. Each .wire file is a conversation: what a machine must send and
 * what the server answers, to the byte. The machines are fed directly; no socket, no clock.
 * README.md in this folder tells the format. A new .wire file needs no registration.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "renewals.h"

#include "protocol/acquire.h"
#include "protocol/ask.h"
#include "protocol/renew.h"
#include "protocol/settle.h"
#include "transport/resp.h"
#include "wire/keys.h"
#ifdef TL_COMPAT
#include "dialect/dialect.h"
#include "phase/phase.h"
#endif

#define FOLDER "tests/wire"
#define START_NS INT64_C(5000000000000) /* the deadline clock at TIME 0 */
#define LINE_MAX_BYTES 8192
#define SENT_MAX 65536
#define KEY_ROOM 256

typedef struct {
    const char *file;
    int line;
    bool failed;
    FILE *log; /* what a failure says */

    char key[KEY_ROOM], sidecar[KEY_ROOM + TL_SIDECAR_EXTRA], owner[128];
    char line_name[KEY_ROOM + TL_SIDECAR_EXTRA + TL_LINE_EXTRA];
    char inbox[128];
    tl_job job;
    int64_t connect_ms;
    tl_server server;
    tl_mono now, deadline;
    union {
        tl_result result;
        tl_acquisition acquire;
        tl_settle settle;
        tl_renew renew;
        tl_ask ask;
    } machine;
    tl_step step; /* NULL: nothing is running */
    tl_out out;
    tl_status status;

    bool by_text;
    bool native; /* it went in its native form */
    bool in_flight;
    uint16_t ticket;
    uint8_t count; /* replies that are expected */
    tl_mono sent, by;
    char bytes[SENT_MAX]; /* what was sent, `read` of it expected already */
    size_t size, read;
    char other[SENT_MAX]; /* the same, with scripts by text */
    size_t other_size;
    char native_form[SENT_MAX]; /* the same, by a connection that takes its native form */
    size_t native_size;
    uint8_t native_count;

#ifdef TL_COMPAT
    tl_namespaces *names; /* of a client that acts by phases */
#endif
    tl_resp *resp;
    tl_reply reply[TL_COMMANDS_MAX];
    uint8_t got;
} wire;

/* ---- failing --------------------------------------------------------------------------------- */

static void show(FILE *to, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '\r')
            (void)fputs("\\r", to);
        else if (c == '\n')
            (void)fputs("\\n", to);
        else if (c < 32 || c > 126 || c == '\\')
            (void)fprintf(to, "\\x%02x", c);
        else
            (void)fputc(c, to);
    }
}

static void complain(wire *w, const char *what) {
    if (!w->failed)
        (void)fprintf(w->log, "%s:%d: %s\n", w->file, w->line, what);
    w->failed = true;
}

static void complain_bytes(wire *w, const char *want, size_t n) {
    size_t left = w->size - w->read;
    if (!w->failed) {
        (void)fprintf(w->log, "%s:%d: expected \"", w->file, w->line);
        show(w->log, want, n);
        (void)fputs("\", sent ", w->log);
        (void)fputs(left ? "\"" : "nothing more", w->log);
        show(w->log, w->bytes + w->read, left < n + 8 ? left : n + 8);
        (void)fputs(left ? "\"\n" : "\n", w->log);
    }
    w->failed = true;
}

/* ---- text of a line -------------------------------------------------------------------------- */

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* <sha1:NAME>, <text:NAME> and <size:NAME> of a script. */
static const char *placeholder(const char *from, char **to, const char *end) {
    for (int i = 0; i < TL_SCRIPTS; i++) {
        char mark[3][32], size[TL_INT_SIZE];
        tl_bytes name = tl__script_name((tl_script)i), text = tl__script_text((tl_script)i);
        tl_bytes values[3] = {tl__script_sha1((tl_script)i), text,
                              tl__bytes_from_int(size, (int64_t)text.n)};
        static const char *const kinds[3] = {"sha1", "text", "size"};
        for (int k = 0; k < 3; k++) {
            int n = snprintf(mark[k], sizeof mark[k], "<%s:%.*s>", kinds[k], (int)name.n, name.p);
            if (strncmp(from, mark[k], (size_t)n) != 0 || values[k].n > (size_t)(end - *to))
                continue;
            memcpy(*to, values[k].p, values[k].n);
            *to += values[k].n;
            return from + n;
        }
    }
    return NULL;
}

/* Text with \xHH, \r, \n, \\ and placeholders as bytes; returns how many. */
static size_t unescape(const char *from, char *to, size_t size) {
    char *at = to, *end = to + size;
    while (*from && at < end) {
        const char *next = *from == '<' ? placeholder(from, &at, end) : NULL;
        if (next) {
            from = next;
        } else if (from[0] == '\\' && from[1] == 'x' && hex(from[2]) >= 0 && hex(from[3]) >= 0) {
            *at++ = (char)(hex(from[2]) * 16 + hex(from[3]));
            from += 4;
        } else if (from[0] == '\\' && (from[1] == 'r' || from[1] == 'n' || from[1] == '\\')) {
            *at++ = from[1] == 'r' ? '\r' : from[1] == 'n' ? '\n' : '\\';
            from += 2;
        } else {
            *at++ = *from++;
        }
    }
    return (size_t)(at - to);
}

/* One line of the protocol as bytes: "$4 WAIT" has its data behind its length; the others stand as
 * they are. */
static size_t protocol_line(const char *text, char *to, size_t size) {
    size_t head = strcspn(text, " "), n;
    if (text[0] != '$' || text[head] == '\0') {
        n = unescape(text, to, size - 2);
    } else {
        char word[64];
        (void)snprintf(word, sizeof word, "%.*s\\r\\n", (int)head, text);
        n = unescape(word, to, size - 2);
        n += unescape(text + head + 1, to + n, size - 2 - n);
    }
    to[n++] = '\r';
    to[n++] = '\n';
    return n;
}

/* ---- running the machine --------------------------------------------------------------------- */

static size_t encode(const tl_command *command, uint8_t count, bool by_text, char *to) {
    size_t n = 0;
    for (uint8_t i = 0; i < count; i++)
        n += tl__command_encode(&command[i], by_text, to + n, SENT_MAX - n);
    return n;
}

static void keep_send(wire *w, const tl_send *send) {
    w->in_flight = true;
    w->ticket = send->ticket;
    w->count = send->count;
    w->sent = w->now;
    w->by = send->by;
    w->size = encode(send->command, send->count, w->by_text, w->bytes);
    w->other_size = encode(send->command, send->count, true, w->other);
    w->native = false;
    w->native_count = send->native;
    w->native_size = encode(send->command + send->count, send->native, false, w->native_form);
    w->read = w->got = 0;
    tl__resp_release(w->resp);
}

/* What was proved, for what is asked of the hold later. */
static void keep_hold(wire *w) {
    w->deadline = w->job.hold.believed = w->machine.result.deadline;
    if (w->step == tl__acquire_step) {
        w->job.hold.fence = w->machine.result.acquire.fence;
        w->job.release.rest_since = w->machine.result.acquire.seen;
        w->job.release.rest_since_us = w->machine.result.acquire.seen_us;
    }
    w->job.hold.proof = w->step == tl__renew_step ? w->machine.renew.job.hold.proof
                                                  : w->machine.result.proof;
}

static void step(wire *w, tl_event e) {
    if (!w->step) {
        complain(w, "nothing is running");
        return;
    }
    if (w->read < w->size)
        complain(w, "the script has not expected all that was sent before this");
    e.now = w->now;
    e.server = &w->server;
    tl__out_clear(&w->out);
    w->status = w->step(&w->machine, &e, &w->out);
    w->size = w->read = 0;
    if (w->out.has_bracket)
        (void)tl__anchor_learn(&w->server.anchor, w->out.bracket, w->now, w->server.drift_ppm);
    if (w->out.sends > 0)
        keep_send(w, &w->out.send);
    if (w->out.level)
        w->server.level = w->out.level;
    if (w->machine.result.code == TL_OK && w->machine.result.deadline.ns != 0)
        keep_hold(w);
    if (w->status == TL_END)
        w->step = NULL;
}

static void answer(wire *w, tl_event e) {
    if (!w->in_flight) {
        complain(w, "nothing is under way that could be answered");
        return;
    }
    w->in_flight = false;
    e.asked.ticket = w->ticket;
    e.asked.sent = w->sent;
    e.asked.native = w->native;
    step(w, e);
}

/* ---- what the lines do ----------------------------------------------------------------------- */

static void do_key(wire *w, const char *text) {
    size_t n = unescape(text, w->key, sizeof w->key);
    w->job.key = tl__bytes(w->key, n);
    w->job.sidecar = tl__sidecar(w->sidecar, w->job.key, NULL);
    w->job.line = tl__line(w->line_name, w->job.sidecar);
    w->job.slot = tl__slot_tag(tl__hash_slot(w->job.key));
}

static void do_owner(wire *w, const char *text) {
    (void)snprintf(w->owner, sizeof w->owner, "%s", text);
    w->job.owner = tl__bytes_of(w->owner);
}

static void do_token(wire *w, const char *text) {
    (void)snprintf(w->job.token.text, sizeof w->job.token.text, "%s", text);
}

static int64_t number(wire *w, const char *text) {
    int64_t v = 0;
    if (!tl__bytes_to_int(tl__bytes(text, strcspn(text, " ")), &v))
        complain(w, "a number is needed here");
    return v;
}

#ifdef TL_COMPAT
/* Of the protocols of stamps: with the rules that the options lead to. */
static bool is_stamps(wire *w, const char *text) {
    tl_legacy client = {.protocol = TL_TIMESTAMP};
    client.options.strict = strcmp(text, "strict") == 0;
    if (strcmp(text, "bridge") == 0)
        client.protocol = TL_BRIDGE;
    else if (!client.options.strict && strcmp(text, "timestamp") != 0)
        return false;
    w->job.protocol = tl__protocol_row(client.protocol);
    w->job.acquire.bind = true;
    w->job.ttl_ms = 0;
    if (w->job.protocol->rules(&client, NULL, w->job.key, &w->job.rules, &w->job.ttl_ms, NULL))
        complain(w, "these rules are refused");
    return true;
}

static void do_dialect(wire *w, const char *text) {
    w->job.rules.dialect = tl__dialect_find(tl__bytes_of(text));
    if (!w->job.rules.dialect)
        complain(w, "there is no such dialect");
}

/* It acts by phases, of which PHASE tells. */
static void be_auto(wire *w) {
    const tl_legacy_options options = TL_LEGACY_OPTIONS(0);
    tl_error err;
    if (tl__namespaces_open(&options, w->job.owner, &w->job.token, &w->names, &err))
        abort();
    w->job.protocol = &tl__protocol_auto;
    w->job.rules.of = &w->names->at[0];
    w->job.ttl_ms = 30000;
}

/* The namespace is in this phase, as has just been told, and for so many ms. */
static void do_phase(wire *w, const char *text) {
    const char *second = strchr(text, ' ');
    int64_t lease_ms = second ? number(w, second + 1) : 0;
    tl_lease *lease = (tl_lease *)&w->server.kept[0];
    *lease = (tl_lease){.phase = (int8_t)number(w, text),
                        .epoch = lease->epoch + 1,
                        .lease_ms = (int32_t)lease_ms,
                        .until = tl__mono_add_ms(w->now, lease_ms)};
}

/* Of a cluster, where each slot has a register of the phase. */
static void do_nodes(wire *w, const char *text) {
    (void)text;
    w->job.rules.nodes = true;
    w->job.acquire.bind = true;
}

/* Our own wall clock at TIME 0. */
static void do_wall(wire *w, const char *text) {
    w->server.wall_us = number(w, text) - START_NS / 1000;
}
#else
static bool is_stamps(const wire *w, const char *text) {
    (void)w;
    (void)text;
    return false;
}
#endif

static void do_protocol(wire *w, const char *text) {
#ifdef TL_COMPAT
    if (strcmp(text, "auto") == 0 && is_stamps(w, "bridge"))
        be_auto(w);
    else
#endif
        if (!is_stamps(w, text))
        complain(w, "there is no such protocol");
}

static void do_bind(wire *w, const char *text) {
    (void)text;
    w->job.acquire.bind = true;
}

static void do_fences(wire *w, const char *text) {
    w->job.fences = (int32_t)number(w, text);
}

/* It may stand in line, and what is said there is heard already. */
static void do_inbox(wire *w, const char *text) {
    size_t n = unescape(text, w->inbox, sizeof w->inbox);
    w->job.queue.inbox = tl__bytes(w->inbox, n);
}

static void do_ttl(wire *w, const char *text) {
    w->job.ttl_ms = number(w, text);
}

static void do_attempt(wire *w, const char *text) {
    w->job.attempt_ms = number(w, text);
}

static void do_replicas(wire *w, const char *text) {
    const char *second = strchr(text, ' ');
    w->job.wait_replicas = (int32_t)number(w, text);
    w->job.wait_replicas_ms = second ? (int32_t)number(w, second + 1) : 0;
}

static void do_fsync(wire *w, const char *text) {
    (void)text;
    w->job.wait_fsync = true;
}

/* The server's clock at TIME 0, known exactly; or "unknown". */
static void do_clock(wire *w, const char *text) {
    w->server.anchor.known = strcmp(text, "unknown") != 0;
    if (!w->server.anchor.known)
        return;
    int64_t offset = number(w, text) - START_NS / 1000;
    w->server.anchor.offset = (tl_interval){offset, offset};
    w->server.anchor.at = (tl_mono){START_NS};
}

static void do_drift(wire *w, const char *text) {
    w->server.drift_ppm = (int32_t)number(w, text);
}

static void do_time(wire *w, const char *text) {
    tl_mono then = tl__mono_add_ms((tl_mono){START_NS}, number(w, text));
    if (tl__mono_before(then, w->now))
        complain(w, "time goes back");
    w->now = then;
}

static void do_acquire(wire *w, const char *text) {
    static const tl_retry retry = {0};
    int64_t wait = strcmp(text, "forever") == 0 ? TL_FOREVER : number(w, text);
    tl__acquire_init(&w->machine.acquire, &w->job, &retry, wait, w->connect_ms, 1);
    if (w->job.queue.inbox.n > 0)
        tl__acquire_armed(&w->machine.acquire);
    w->step = tl__acquire_step;
    step(w, (tl_event){.kind = TL_START});
}

static void do_settle(wire *w, tl_op op) {
    tl__settle_init(&w->machine.settle, &w->job, op, w->deadline, 1);
    w->step = tl__settle_step;
    step(w, (tl_event){.kind = TL_START});
}

static void do_extend(wire *w, const char *text) {
    w->job.ttl_ms = number(w, text);
    do_settle(w, TL_RENEW);
}

static void do_release(wire *w, const char *text) {
    (void)text;
    do_settle(w, TL_RELEASE);
}

/* ms from the acquire on. */
static void do_rest(wire *w, const char *text) {
    w->job.release.rest_ms = number(w, text);
    do_settle(w, TL_RELEASE);
    w->job.release.rest_ms = 0;
}

/* The token was acquired by another process, and adopted now. */
static void do_adopt(wire *w, const char *text) {
    (void)text;
    w->job.release.rest_since = w->now;
    w->job.release.rest_since_us = 0;
    w->deadline = tl__mono_add_ms(w->now, w->job.ttl_ms);
}

static void do_renew(wire *w, const char *text) {
    (void)text;
    renew_begin(&w->machine.renew, &w->job, w->deadline, TL_NEVER, false, 1);
    w->step = tl__renew_step;
    step(w, (tl_event){.kind = TL_START});
}

static void do_ask(wire *w, tl_bytes key) {
    tl__ask_init(&w->machine.ask, key, w->job.line, w->job.attempt_ms, w->connect_ms);
    w->step = tl__ask_step;
    step(w, (tl_event){.kind = TL_START});
}

static void do_look(wire *w, const char *text) {
    (void)text;
    do_ask(w, w->job.key);
}

static void do_ping(wire *w, const char *text) {
    (void)text;
    do_ask(w, (tl_bytes){0});
}

static void do_reach(wire *w, const char *text) {
    (void)text;
    if (!w->in_flight || w->count != 0)
        complain(w, "the machine did not ask to reach the server");
    else
        answer(w, (tl_event){.kind = TL_REPLY});
}

static void do_expect(wire *w, const char *text) {
    char want[LINE_MAX_BYTES * 2];
    size_t n = protocol_line(text, want, sizeof want);
    if (w->size - w->read < n || memcmp(w->bytes + w->read, want, n) != 0)
        complain_bytes(w, want, n);
    w->read += w->size - w->read < n ? w->size - w->read : n;
}

static void do_send(wire *w, const char *text) {
    char bytes[LINE_MAX_BYTES * 2];
    if (w->read < w->size)
        complain(w, "the script has not expected all that was sent before this");
    tl__resp_feed(w->resp, bytes, protocol_line(text, bytes, sizeof bytes));
    int got = tl__resp_next(w->resp, &w->reply[w->got]);
    if (got < 0)
        complain(w, tl__resp_message(w->resp));
    if (got <= 0 || ++w->got < w->count)
        return;
    answer(w, (tl_event){.kind = TL_REPLY, .replied = {.reply = w->reply, .count = w->got}});
}

/* The server doesn't know a script: as the connection does, the same request goes by text. */
static void do_noscript(wire *w, const char *text) {
    (void)text;
    if (!w->in_flight || w->count == 0)
        complain(w, "no script is under way");
    memcpy(w->bytes, w->other, w->other_size);
    w->size = w->other_size;
    w->read = 0;
    w->sent = w->now;
}

/* The counter was raised over this connection a moment ago: the request goes in its native form. */
static void do_native(wire *w, const char *text) {
    (void)text;
    if (!w->in_flight || w->native_count == 0)
        complain(w, "the request has no native form");
    memcpy(w->bytes, w->native_form, w->native_size);
    w->size = w->native_size;
    w->count = w->native_count;
    w->native = true;
    w->read = 0;
}

/* And it goes as a script wherever it goes. */
static void do_script(wire *w, const char *text) {
    (void)text;
    if (!w->in_flight || w->native_count != 0)
        complain(w, "the request has a native form");
}

static void do_lost(wire *w, const char *text) {
    answer(w, (tl_event){.kind = TL_FAILED,
                         .failed = {.maybe_sent = true,
                                    .why = TL_EUNAVAILABLE,
                                    .message = tl__bytes_of(*text ? text : "connection lost")}});
}

static void do_refused(wire *w, const char *text) {
    answer(w, (tl_event){.kind = TL_FAILED,
                         .failed = {.why = TL_EUNAVAILABLE,
                                    .message = tl__bytes_of(*text ? text : "connection refused")}});
}

static void do_arm(wire *w, const char *text) {
    char topic[LINE_MAX_BYTES];
    size_t n = unescape(text, topic, sizeof topic);
    if (!w->out.arm || !tl__bytes_eq(w->out.topic, tl__bytes(topic, n)))
        complain(w, "the machine did not ask to listen to this");
}

static void do_armed(wire *w, const char *text) {
    step(w, (tl_event){.kind = TL_ARMED, .armed = strcmp(text, "no") != 0});
}

static void do_woken(wire *w, const char *text) {
    (void)text;
    step(w, (tl_event){.kind = TL_WOKEN});
}

static void do_timer(wire *w, const char *text) {
    (void)text;
    if (tl__mono_before(w->now, w->out.until))
        complain(w, "the machine wants no timer yet");
    step(w, (tl_event){.kind = TL_TIMER});
}

static void do_cancel(wire *w, const char *text) {
    (void)text;
    w->in_flight = false;
    step(w, (tl_event){.kind = TL_CANCEL});
}

static void ended(wire *w, tl_status status, const char *code) {
    char text[128];
    if (w->status == status && strcmp(tl_err_name(w->machine.result.code) + 3, code) == 0)
        return;
    (void)snprintf(text, sizeof text, "expected %s, but it is %s with TL_%s", code,
                   w->status == TL_END      ? "at its end"
                   : w->status == TL_DETACH ? "detached"
                                            : "going on",
                   tl_err_name(w->machine.result.code) + 3);
    complain(w, text);
}

static void do_end(wire *w, const char *text) {
    ended(w, TL_END, text);
}

static void do_detach(wire *w, const char *text) {
    ended(w, TL_DETACH, text);
}

static void is(wire *w, int64_t have, int64_t want) {
    char text[128];
    if (have == want)
        return;
    (void)snprintf(text, sizeof text, "expected %lld, but it is %lld", (long long)want,
                   (long long)have);
    complain(w, text);
}

static int64_t since_us(tl_mono t) {
    return (t.ns - START_NS) / 1000;
}

static void do_deadline(wire *w, const char *text) {
    is(w, since_us(w->machine.result.deadline), number(w, text));
}

static void do_fence(wire *w, const char *text) {
    is(w, (int64_t)w->machine.result.acquire.fence, number(w, text));
}

static void do_by(wire *w, const char *text) {
    is(w, since_us(w->by) / 1000, number(w, text));
}

static const struct {
    const char *name;
    void (*run)(wire *w, const char *text);
} lines[] = {
#ifdef TL_COMPAT
    {"DIALECT", do_dialect},   {"WALL", do_wall},       {"PHASE", do_phase},
    {"NODES", do_nodes},
#endif
    {"KEY", do_key},           {"TOKEN", do_token},     {"OWNER", do_owner},
    {"PROTOCOL", do_protocol}, {"TTL", do_ttl},         {"ATTEMPT", do_attempt},
    {"REPLICAS", do_replicas}, {"FSYNC", do_fsync},     {"CLOCK", do_clock},
    {"DRIFT", do_drift},       {"TIME", do_time},       {"ACQUIRE", do_acquire},
    {"EXTEND", do_extend},     {"RELEASE", do_release}, {"RENEW", do_renew},
    {"LOOK", do_look},         {"PING", do_ping},       {"REACH", do_reach},
    {"EXPECT", do_expect},     {"SEND", do_send},       {"NOSCRIPT", do_noscript},
    {"LOST", do_lost},         {"REFUSED", do_refused}, {"ARM", do_arm},
    {"ARMED", do_armed},       {"WOKEN", do_woken},     {"TIMER", do_timer},
    {"CANCEL", do_cancel},     {"END", do_end},         {"DETACH", do_detach},
    {"DEADLINE", do_deadline}, {"FENCE", do_fence},     {"BY", do_by},
    {"BIND", do_bind},         {"FENCES", do_fences},   {"NATIVE", do_native},
    {"SCRIPT", do_script},     {"INBOX", do_inbox},     {"REST", do_rest},
    {"ADOPT", do_adopt},
};

/* ---- files ----------------------------------------------------------------------------------- */

static void run_line(wire *w, char *line) {
    line[strcspn(line, "\n")] = '\0';
    line += strspn(line, " ");
    if (*line == '\0' || *line == '#')
        return;
    size_t n = strcspn(line, " ");
    const char *text = line[n] ? line + n + 1 : "";
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strlen(lines[i].name) == n && memcmp(lines[i].name, line, n) == 0) {
            lines[i].run(w, text);
            return;
        }
    complain(w, "no such line");
}

static void set_up(wire *w, const char *file, FILE *log) {
    memset(w, 0, sizeof *w);
    w->file = file;
    w->log = log;
    w->now = (tl_mono){START_NS};
    w->server.drift_ppm = 100;
    w->job = (tl_job){.protocol = &tl__protocol_token, .ttl_ms = 30000, .attempt_ms = 2000};
    w->connect_ms = 5000;
    do_key(w, "jobs:nightly");
    do_owner(w, "host 42 demo");
    do_token(w, "00000000-0000-4000-8000-000000000001");
    do_clock(w, "1700000000000000");
    w->resp = tl__resp_new();
    if (!w->resp)
        abort();
}

/* True when all of its lines held. */
static bool run_lines(wire *w, FILE *from) {
    static char line[LINE_MAX_BYTES];
    while (!w->failed && fgets(line, sizeof line, from)) {
        w->line++;
        run_line(w, line);
    }
    if (!w->failed && w->read < w->size)
        complain_bytes(w, "", 0);
    if (!w->failed && w->line == 0)
        complain(w, "an empty file promises nothing");
    tl__resp_free(w->resp);
#ifdef TL_COMPAT
    if (w->names)
        tl__namespaces_close(w->names);
#endif
    return !w->failed;
}

static wire world;

static bool run_file(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", FOLDER, name);
    FILE *from = fopen(path, "r");
    if (!from) {
        perror(path);
        return false;
    }
    set_up(&world, path, stderr);
    bool ok = run_lines(&world, from);
    (void)fclose(from);
    (void)printf("%s %s\n", ok ? "ok  " : "FAIL", path);
    return ok;
}

static int is_script(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
#ifndef TL_COMPAT
    if (strncmp(entry->d_name, "compat_", 7) == 0)
        return 0;
#endif
    return n > 5 && strcmp(entry->d_name + n - 5, ".wire") == 0;
}

static bool run_folder(void) {
    struct dirent **names;
    bool ok = true;
    int n = scandir(FOLDER, &names, is_script, alphasort);
    if (n <= 0) {
        (void)fprintf(stderr, "no %s/x.wire here: run this from the root of the project\n", FOLDER);
        return false;
    }
    for (int i = 0; i < n; i++) {
        ok = run_file(names[i]->d_name) && ok;
        free(names[i]);
    }
    free(names);
    return ok;
}

/* ---- the runner itself must notice ----------------------------------------------------------- */

/* A script that must fail, and the words of its complaint. */
static bool notices(const char *script, const char *words) {
    char said[1024] = "";
    char copy[2048];
    (void)snprintf(copy, sizeof copy, "%s", script);
    FILE *from = fmemopen(copy, strlen(copy), "r"), *log = fmemopen(said, sizeof said, "w");
    if (!from || !log)
        abort();
    set_up(&world, "x.wire", log);
    bool ok = run_lines(&world, from);
    (void)fclose(from);
    (void)fclose(log);
    if (!ok && strstr(said, words))
        return true;
    (void)fprintf(stderr, "the runner did not complain \"%s\" but said \"%s\" of:\n%s", words, said,
                  script);
    return false;
}

static bool runner_notices(void) {
    static const char *const all[][2] = {
        {"RELEASE\nEXPECT *9\nEXPECT $8 EVALSHA\n",
         "x.wire:3: expected \"$8\\r\\nEVALSHA\\r\\n\", sent \"$7\\r\\nEVALSHA\\r\\n"},
        {"RELEASE\n", "x.wire:1: expected \"\", sent \"*9"},
        {"RELEASE\nSEND :1\n", "x.wire:2: the script has not expected all"},
        {"PING\nREACH\nEXPECT *1\nEXPECT $4 TIME\nSEND *1\nSEND :1\nEXPECT +x\n",
         "sent nothing more"},
        {"# x\n\nPINGG\n", "x.wire:3: no such line"},
        {"PING\nREACH\nEXPECT *1\nEXPECT $4 TIME\nSEND ?\n", "x.wire:5: "},
        {"PING\nREACH\nEXPECT *1\nEXPECT $4 TIME\nSEND -NOAUTH x\nEND OK\n",
         "x.wire:6: expected OK, but it is at its end with TL_EDENIED"},
        {"SEND :1\n", "nothing is under way"},
        {"TIMER\n", "nothing is running"},
        {"ACQUIRE 0\nARM x\n", "did not ask to listen"},
        {"TIME 5\nTIME 4\n", "time goes back"},
        {"", "an empty file"},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ok = notices(all[i][0], all[i][1]) && ok;
    return ok;
}

int main(void) {
    bool ok = runner_notices();
    return run_folder() && ok ? 0 : 1;
}
