/*
 * What a member of an etcd sends over gRPC. However its bytes are cut, the same calls end in the same way, and what is wrong
 * is found wrong.
 *
 * The first byte of the input says what it is: the bytes of a connection on which two calls are in flight, or one reply of
 * the kind that the next byte says.
 */

/*
 * It asserts:
 * - The same calls are answered, refused or neither, however the bytes are cut: with the same codes, texts and messages. A
 *   problem is one line.
 * - Nothing is called refused that the member has answered in part.
 * - A reply has a known shape, and points only into its message.
 */
#include "transport/grpc.h"
#include "transport/grpc_reply.h"

#include "fuzz.h"

static void mix(uint64_t *hash, uint64_t v) {
    *hash = (*hash ^ v) * UINT64_C(0x100000001b3);
}

static void mix_bytes(uint64_t *hash, tl_bytes bytes) {
    mix(hash, bytes.n);
    for (size_t i = 0; i < bytes.n; i++)
        mix(hash, (unsigned char)bytes.p[i]);
}

static void read_reply(const tl_reply *r, unsigned depth, uint64_t *hash) {
    MUST((unsigned)r->type <= TL_REPLY_ARRAY && depth < 8);
    mix(hash, (uint64_t)r->type ^ (uint64_t)r->integer);
    mix_bytes(hash, r->text);
    for (size_t i = 0; r->type == TL_REPLY_ARRAY && i < r->count; i++)
        read_reply(&r->items[i], depth + 1, hash);
}

static tl_grpc_call *call(tl_grpc *grpc, bool stream) {
    const tl_grpc_request request = {.method = tl__etcd_method(TL_ETCD_REVOKE),
                                     .host = TL_LITERAL("h:1"),
                                     .messages = tl__bytes("\0\0\0\0\x02\x08\x01", 7),
                                     .stream = stream};
    return tl__grpc_call(grpc, &request);
}

/* A digest of how the calls end. */
static uint64_t play(tl_grpc *grpc, const uint8_t *p, size_t n, size_t step) {
    uint64_t hash = 1;
    tl_bytes message, output;
    MUST(tl__grpc_reset(grpc) && call(grpc, false) && call(grpc, true));
    while ((output = tl__grpc_output(grpc)).n > 0)
        tl__grpc_wrote(grpc, output.n);
    for (size_t at = 0; at < n && !tl__grpc_problem(grpc); at += step) {
        tl__grpc_feed(grpc, (const char *)p + at, n - at < step ? n - at : step);
        while ((output = tl__grpc_output(grpc)).n > 0)
            tl__grpc_wrote(grpc, output.n);
    }
    const char *problem = tl__grpc_problem(grpc);
    MUST(!problem || (problem[0] && !strchr(problem, '\n')));
    for (tl_grpc_call *one = tl__grpc_calls(grpc); one; one = one->next) {
        bool answered = one->done && one->code >= 0;
        MUST(!one->refused || (one->done && one->n == 0 && !answered));
        mix(&hash, answered ? 1 : one->refused ? 2 : 3);
        if (!answered) /* by a problem or with no code: it may have been executed in any case */
            continue;
        mix(&hash, (uint64_t)one->code);
        mix_bytes(&hash, tl__bytes(one->text, one->text_n));
        while (tl__grpc_take(grpc, one, &message))
            mix_bytes(&hash, message);
    }
    mix(&hash, tl__grpc_is_greeted(grpc));
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tl_reply_room room;
    input in = {data, size};
    uint64_t hash = 0;
    tl_reply reply;
    if (in_byte(&in) % 2) {
        tl_etcd_kind kind = (tl_etcd_kind)(in_byte(&in) % (TL_ETCD_WATCH + 2));
        const char *problem = tl__grpc_read(&room, kind, tl__bytes((const char *)in.p, in.n),
                                            TL_LITERAL("p/"), &reply);
        if (!problem)
            read_reply(&reply, 0, &hash);
        tl__reply_room_free(&room);
        return 0;
    }
    tl_grpc *grpc = tl__grpc_new();
    if (!grpc)
        return 0;
    hash = play(grpc, in.p, in.n, in.n + 1);
    for (size_t step = 1; step < 4; step++)
        MUST(play(grpc, in.p, in.n, step) == hash);
    tl__grpc_free(grpc);
    return 0;
}
