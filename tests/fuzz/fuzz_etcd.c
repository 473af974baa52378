/*
 * Answers of etcd's gateway. However their bytes are cut, the same replies come of them, and what is wrong is found
 * wrong; whatever an answer says, the machine that acquires a lock ends, or goes on asking, and never holds what no transaction
 * has created.
 *
 * The first byte of the input says what it is: the bytes of a connection, the body of one answer, a stream's, or answers to
 * a machine.
 */

/*
 * It asserts:
 * - The same replies, and the same end, however the bytes are cut. A message is one line.
 * - No lock is held that no transaction has created, nor beyond its lifetime.
 */
#include "protocol/etcd_acquire.h"
#include "transport/gateway.h"

#include "fuzz.h"

#define ANSWERS_MAX 8
#define STEPS_MAX 40

static tl_gateway *gateway;

static void read_reply(const tl_reply *r, unsigned depth, uint64_t *hash) {
    MUST((unsigned)r->type <= TL_REPLY_ARRAY && depth < 8);
    *hash = (*hash ^ (uint64_t)r->type ^ (uint64_t)r->integer) * UINT64_C(0x100000001b3);
    for (size_t i = 0; (r->type == TL_REPLY_STRING || r->type == TL_REPLY_ERROR) && i < r->text.n;
         i++)
        *hash = (*hash ^ (unsigned char)r->text.p[i]) * UINT64_C(0x100000001b3);
    for (size_t i = 0; r->type == TL_REPLY_ARRAY && i < r->count; i++)
        read_reply(&r->items[i], depth + 1, hash);
}

/* A digest of all answers, and whether they end in nonsense. */
static uint64_t read_all(const uint8_t *p, size_t n, size_t step, bool stream) {
    uint64_t hash = 1;
    tl_reply r;
    int got = 0;
    tl__gateway_reset(gateway);
    for (size_t at = 0; at < n && got >= 0; at += step) {
        tl__gateway_feed(gateway, (const char *)p + at, n - at < step ? n - at : step);
        while ((got = stream ? tl__gateway_message(gateway, &r)
                             : tl__gateway_next(gateway, TL_ETCD_TXN, &r)) > 0) {
            read_reply(&r, 0, &hash);
            tl__gateway_release(gateway);
            if (stream && r.type == TL_REPLY_ERROR)
                return hash;
        }
    }
    MUST(got >= 0 || is_line(tl__gateway_problem(gateway), 160));
    return got < 0 ? hash * 3 : hash;
}

/* Each line of the input is the body of an answer, or empty: none comes. */
static tl_bytes take_line(input *in) {
    const uint8_t *end = in->n ? memchr(in->p, '\n', in->n) : NULL;
    tl_bytes line = tl__bytes(in->p, end ? (size_t)(end - in->p) : in->n);
    in->p += line.n + (end != NULL);
    in->n -= line.n + (end != NULL);
    return line;
}

static bool created_one(const tl_reply *r) {
    return r->type == TL_REPLY_ARRAY && tl__etcd_revision(r) > 0;
}

static void play(input *in) {
    static tl_etcd_acquisition m;
    const tl_retry retry = {.kind = TL_RETRY_AUTO};
    unsigned how = in_byte(in);
    const tl_job job = {.key = TL_LITERAL("k"),
                        .owner = TL_LITERAL("me"),
                        .ttl_ms = 5000,
                        .attempt_ms = 2000,
                        .acquire = {.rest_ends_wait = how & 2}};
    tl_server server = {.drift_ppm = 100000};
    tl_event e = {.kind = TL_START, .now = {.ns = 1000000000}, .server = &server};
    tl_out out;
    tl_reply r[3]; /* of one step, for the next */
    tl_status status = TL_GO;
    bool answered = false;
    tl__etcd_acquire_init(&m, &job, &retry, how & 1 ? TL_FOREVER : 0, 3000, 7);
    for (int i = 0; i < STEPS_MAX && status == TL_GO; i++) {
        tl__out_clear(&out);
        status = tl__etcd_acquire_step(&m, &e, &out);
        tl__gateway_reset(gateway);
        MUST(out.sends <= 1 && (out.sends == 0 || out.send.count <= 3));
        e = (tl_event){.kind = TL_TIMER, .now = tl__mono_add_ms(e.now, 100), .server = &server};
        e.asked.ticket = out.send.ticket;
        if (status != TL_GO || out.sends == 0)
            continue;
        e.kind = TL_REPLY;
        e.replied = (tl_replied){.reply = r, .count = out.send.count};
        for (unsigned k = 0; k < out.send.count && e.kind == TL_REPLY; k++) {
            tl_bytes line = take_line(in);
            bool read = line.n > 0 && tl__gateway_read(gateway, tl__etcd_kind(&out.send.command[k]),
                                                       200, line, &r[k]) > 0;
            e.kind = read ? TL_REPLY : TL_FAILED;
        }
        if (e.kind == TL_FAILED)
            e.failed = (tl_failure){.maybe_sent = true, .why = TL_EUNAVAILABLE};
        answered = answered || (e.kind == TL_REPLY && e.replied.count > 0 &&
                                created_one(&r[e.replied.count - 1]));
    }
    bool held = status == TL_END && m.result.code == TL_OK;
    MUST(!held || (answered && m.result.acquire.fence > 0 &&
                   tl__mono_before(e.now, tl__mono_add_ms(m.result.deadline, 200))));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    unsigned what = in_byte(&in) % 4;
    tl_reply r = {0};
    if (!tl__gateway_works())
        return 0;
    gateway = tl__gateway_new((tl_bytes){0});
    if (what < 2) {
        uint64_t whole = read_all(in.p, in.n, in.n + 1, what == 1);
        for (size_t step = 1; step < 4; step++)
            MUST(read_all(in.p, in.n, step, what == 1) == whole);
    } else if (what == 2) {
        uint64_t hash = 0;
        tl_etcd_kind kind = (tl_etcd_kind)(in_byte(&in) % (TL_ETCD_WATCH + 2));
        if (tl__gateway_read(gateway, kind, in_byte(&in) % 2 ? 200 : 503, tl__bytes(in.p, in.n),
                             &r) > 0)
            read_reply(&r, 0, &hash);
        tl_bytes message;
        if (r.type == TL_REPLY_ERROR && hash != 0)
            MUST(tl__etcd_error(r.text, &message) <= 16);
    } else {
        play(&in);
    }
    tl__gateway_free(gateway);
    return 0;
}
