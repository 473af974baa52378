/*
 * Requests to etcd as protobuf, byte for byte; and its replies, as etcd 3.4 gives them, cut at each byte, and malformed. Each
 * request was compared once with what etcd's own code makes of the gateway's JSON for it.
 */
#include "tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/grpc_reply.h"
#include "wire/etcd.h"
#include "wire/proto.h"

#define SIZED(text) tl__bytes(text, sizeof(text) - 1)

static tl_command say(size_t argc, const char *const *argv) {
    tl_command c = {.form = TL_ARGV, .argc = (uint8_t)argc};
    for (size_t i = 0; i < argc; i++)
        c.argv[i] = tl__bytes_of(argv[i]);
    return c;
}
#define SAY(...)                                                                                   \
    say(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *),                               \
        (const char *const[]){__VA_ARGS__})

/* What stands behind the head, in hexadecimal. */
static const char *encoded(const tl_command *c) {
    static char room[8192], hex[2 * sizeof room];
    const tl_etcd_via via = {.prefix = TL_LITERAL("p/")};
    size_t n = tl__etcd_encode_proto(c, &via, NULL, 0);
    assert_true(n >= TL_GRPC_HEAD && n < sizeof room);
    memset(room, 'x', sizeof room);
    assert_int_equal(tl__etcd_encode_proto(c, &via, room, n), n);
    assert_int_equal(room[n], 'x');
    const char head[] = {0, 0, 0, (char)((n - 5) >> 8), (char)(n - 5)};
    assert_memory_equal(room, head, 5);
    hex[0] = '\0';
    for (size_t i = 5; i < n; i++)
        (void)snprintf(hex + 2 * (i - 5), 3, "%02x", (unsigned char)room[i]);
    /* too little room changes nothing of the count, and nothing behind it */
    memset(room, 'x', sizeof room);
    for (size_t less = 0; less < n; less += 7) {
        assert_int_equal(tl__etcd_encode_proto(c, &via, room, less), n);
        assert_int_equal(room[less], 'x');
    }
    return hex;
}

static tl_command keeps(void) {
    static const char more[] = "$1\r\nk\r\n$4\r\nbeef\r\n$1\r\n7\r\n$1\r\n9\r\n"
                               "$1\r\nl\r\n$4\r\nfeed\r\n$3\r\n300\r\n$1\r\n0\r\n";
    tl_command c = SAY("KEEPS", "77");
    c.more = SIZED(more);
    c.more_argc = 8;
    return c;
}

TEST(each_request_byte_for_byte) {
    const struct {
        tl_command command;
        const char *hex;
    } rows[] = {
        {SAY("GRANT", "1152921504606846976", "30"), "10808080808080808010081e"},
        {SAY("REVOKE", "42"), "082a"},
        {SAY("TTL", "42"), "082a"},
        {SAY("TRY", "k", "beef", "42", "me 1"),
         "0a131a04702f6b2f820404702f6b30100108002800121412120a08702f6b2f6265656612046d6520"
         "31182a1a0c0a0a0a08702f6b2f626565661a140a120a04702f6b2f1204702f6b30300228011801"},
        {SAY("JOIN", "k", "beef", "42", "me 1"),
         "0a101a08702f6b2f6265656610010800280012140a120a04702f6b2f1204702f6b30300228021801"
         "121412120a08702f6b2f6265656612046d652031182a1a0c0a0a0a08702f6b2f62656566"},
        {SAY("LOOK", "k", "beef", "300"), "0a04702f6b2f1204702f6b3068ac02300228021802"},
        {SAY("KEEP", "k", "beef", "300", "42"),
         "0a111a08702f6b2f626565661001080028ac020a101a08702f6b2f6265656610040802402a12170a"
         "150a04702f6b2f1204702f6b3068ac023002280218021210120e0a08702f6b2f626565662801182a"
         "1a0c0a0a0a08702f6b2f626565661a140a120a04702f6b2f1204702f6b30300228011801"},
        {keeps(), "0a101a08702f6b2f626565661002080030090a111a08702f6c2f666565641001080028ac020a101a"
                  "08702f6c2f6665656410040802404d1210120e0a08702f6b2f626565662801184d1210120e0a0870"
                  "2f6c2f666565642801184d1a0c0a0a0a08702f6b2f626565661a0c0a0a0a08702f6c2f66656564"},
        {SAY("FREE", "k", "beef", "300", "42"),
         "0a111a08702f6b2f626565661001080028ac020a101a08702f6b2f6265656610040803402a120c1a"
         "0a0a08702f6b2f62656566"},
        {SAY("REST", "k", "beef", "300", "42", "resting"),
         "0a111a08702f6b2f626565661001080028ac02121712150a08702f6b2f6265656612077265737469"
         "6e67182a1a0c0a0a0a08702f6b2f626565661a140a120a04702f6b2f1204702f6b30300228011801"},
        {SAY("DROP", "k", "beef", "300"),
         "0a111a08702f6b2f626565661001080028ac02120c1a0a0a08702f6b2f626565661a0c0a0a0a0870"
         "2f6b2f626565661a140a120a04702f6b2f1204702f6b30300228011801"},
        {SAY("UNDO", "k", "beef"), "120c1a0a0a08702f6b2f62656566"},
        {SAY("SEE", "k", "2", "3"),
         "12140a120a04702f6b2f1204702f6b3030022801180212160a140a04702f6b2f1204702f6b303002"
         "280118034001"},
        {SAY("SCAN", "300", "100"), "0a02702f1202703060ac023002280118644001"},
        {SAY("AUTH", "me", "sec\"\n\x01ret"), "0a026d651209736563220a01726574"},
        {SAY("STATUS"), ""},
        {SAY("ALARMS"), "0800"},
        {SAY("MEMBERS"), ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(encoded(&rows[i].command), rows[i].hex);
}

TEST(what_is_no_command_has_no_bytes) {
    const tl_command c = SAY("NONSENSE", "42");
    const tl_etcd_via via = {0};
    assert_int_equal(tl__etcd_encode_proto(&c, &via, NULL, 0), 0);
}

TEST(each_watch_is_a_message_of_its_own) {
    static const char expected[] = "\0\0\0\0\x10\x0a\x0e\x0a\x06p/k/be\x18\x07\x28\x00\x38\x01"
                                   "\0\0\0\0\x0e\x0a\x0c\x0a\x04p/l/\x18\x00\x28\x00\x38\x02";
    const tl_etcd_watched watched[] = {{TL_LITERAL("k/be"), 7}, {TL_LITERAL("l/"), 0}};
    const tl_etcd_via via = {.prefix = TL_LITERAL("p/")};
    char room[100];
    size_t n = tl__etcd_encode_watch_proto(watched, 2, &via, room, sizeof room);
    assert_int_equal(n, sizeof expected - 1);
    assert_memory_equal(room, expected, n);
    assert_int_equal(tl__etcd_encode_watch_proto(watched, 2, &via, NULL, 0), n);
}

/* ---- numbers ----------------------------------------------------------------------------------- */

TEST(a_number_is_read_as_it_was_written) {
    static const uint64_t numbers[] = {0, 1, 127, 128, 300, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char room[1 + TL_VARINT_MAX] = {8};
        size_t n = 1 + tl__varint_write(room + 1, numbers[i]);
        tl_bytes message = tl__bytes(room, n);
        tl_proto_field field;
        assert_int_equal(tl__proto_next(&message, &field), 1);
        assert_int_equal(field.number, 1);
        assert_true((uint64_t)field.integer == numbers[i]);
        assert_int_equal(tl__proto_next(&message, &field), 0);
        for (size_t cut = 1; cut < n; cut++) {
            message = tl__bytes(room, cut);
            assert_int_equal(tl__proto_next(&message, &field), -1);
        }
    }
}

TEST(what_is_no_field_is_found) {
    static const struct {
        const char *bytes;
        size_t n;
    } rows[] = {{"\x00\x01", 2}, /* field 0 */
                {"\x0a\x05"
                 "abcd",
                 6},         /* longer than the message */
                {"\x0b", 1}, /* a group */
                {"\x09"
                 "1234567",
                 8}, /* seven of eight bytes */
                {"\x0d"
                 "123",
                 4},                                                  /* three of four */
                {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11}, /* more than 64 bits */
                {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
                {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}}; /* a length of 2^64 - 1 */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tl_bytes message = tl__bytes(rows[i].bytes, rows[i].n);
        tl_proto_field field;
        assert_int_equal(tl__proto_next(&message, &field), -1);
    }
}

/* ---- replies ----------------------------------------------------------------------------------- */

static tl_reply_room room;

static void show(char *to, size_t size, const tl_reply *r) {
    size_t n = strlen(to);
    if (r->type == TL_REPLY_INT)
        (void)snprintf(to + n, size - n, ":%lld", (long long)r->integer);
    else if (r->type == TL_REPLY_ARRAY)
        for (size_t i = 0; i <= r->count; i++) {
            (void)snprintf(to + strlen(to), size - strlen(to),
                           i == 0         ? "["
                           : i < r->count ? " "
                                          : "");
            if (i < r->count)
                show(to, size, &r->items[i]);
            else
                (void)snprintf(to + strlen(to), size - strlen(to), "]");
        }
    else
        (void)snprintf(to + n, size - n, r->type == TL_REPLY_NIL ? "nil" : "%.*s", (int)r->text.n,
                       r->text.p ? r->text.p : "");
}

/* As text; or the problem. */
static const char *read_as(tl_etcd_kind kind, tl_bytes message) {
    static char text[400];
    tl_reply reply;
    const char *problem = tl__grpc_read(&room, kind, message, TL_LITERAL("p/"), &reply);
    text[0] = '\0';
    if (problem)
        (void)snprintf(text, sizeof text, "%s", problem);
    else
        show(text, sizeof text, &reply);
    tl__reply_room_release(&room);
    return text;
}

#define HEADER "\x0a\x06\x08\x05\x10\x06\x18\x07" /* cluster 5, member 6, revision 7 */
#define KEY_VALUE                                                                                  \
    "\x0a\x04"                                                                                     \
    "p/kb"                                                                                         \
    "\x10\x03\x18\x04\x20\x01\x2a\x02"                                                             \
    "me"                                                                                           \
    "\x30\x2a" /* 18 bytes */

TEST(each_reply_is_read) {
    const struct {
        tl_etcd_kind kind;
        tl_bytes message;
        const char *text;
    } rows[] = {
        {TL_ETCD_GRANT, SIZED(HEADER "\x10\x2a\x18\x1e"), ":30"},
        {TL_ETCD_GRANT, SIZED(""), ":0"},
        {TL_ETCD_REVOKE, SIZED(HEADER), "OK"},
        {TL_ETCD_TTL, SIZED(HEADER "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x1e"),
         "[:-1 :30]"},
        {TL_ETCD_TXN, SIZED(HEADER "\x10\x01"), "[:1 :7]"},
        {TL_ETCD_TXN, SIZED(HEADER), "[:0 :7]"},
        {TL_ETCD_TXN, SIZED(HEADER "\x1a\x02\x12\x00\x1a\x18\x0a\x16\x12\x12" KEY_VALUE "\x20\x09"),
         "[:0 :7 nil [:9 [kb me :3 :4 :42]]]"},
        {TL_ETCD_RANGE, SIZED(HEADER "\x12\x12" KEY_VALUE "\x20\x01"),
         "[:1 :7 [:1 [kb me :3 :4 :42]]]"},
        {TL_ETCD_AUTH,
         SIZED(HEADER "\x12\x05"
                      "abc.7"),
         "abc.7"},
        {TL_ETCD_STATUS,
         SIZED(HEADER "\x12\x06"
                      "3.4.23"
                      "\x18\x64\x20\x06\x48\x32\x50\x01"),
         "[3.4.23 :6 :6 :100 :1 :50 :5]"},
        {TL_ETCD_ALARMS, SIZED(HEADER "\x12\x04\x08\x06\x10\x01"), "[[:6 NOSPACE]]"},
        {TL_ETCD_MEMBERS,
         SIZED(HEADER "\x12\x0b\x08\x06\x12\x01"
                      "a"
                      "\x22\x02"
                      "u:"
                      "\x28\x01"),
         "[[:6 a u: :1]]"},
        {TL_ETCD_WATCH, SIZED(HEADER "\x10\x01\x18\x01"), "[:1 :1 :0 :0 :7]"},
        {TL_ETCD_WATCH, SIZED(HEADER "\x10\x02\x5a\x02\x08\x01\x5a\x00"), "[:2 :0 :0 :1 :7]"},
        /* unknown fields, of any kind, are skipped */
        {TL_ETCD_REVOKE,
         SIZED(HEADER "\xa1\x06"
                      "12345678"
                      "\xa5\x06"
                      "1234"
                      "\xa8\x06\x01"),
         "OK"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(read_as(rows[i].kind, rows[i].message), rows[i].text);
}

TEST(what_is_no_reply_is_found) {
    const struct {
        tl_etcd_kind kind;
        tl_bytes message;
        const char *problem;
    } rows[] = {
        {TL_ETCD_NONE, SIZED(HEADER), "a reply to no request"},
        {TL_ETCD_TXN, SIZED(""), "a reply without a header"},
        {TL_ETCD_TXN, SIZED("\x08\x01"), "a field of another type"},
        {TL_ETCD_TXN, SIZED(HEADER "\x12\x00"), "a field of another type"},
        {TL_ETCD_TXN, SIZED(HEADER "\x1a\x05"), "malformed protobuf"},
        {TL_ETCD_RANGE,
         SIZED(HEADER "\x12\x05\x0a\x03"
                      "q/k"),
         "a key that wasn't asked for"},
        {TL_ETCD_RANGE,
         SIZED(HEADER "\x12\x03\x0a\x01"
                      "p"),
         "a key that wasn't asked for"},
        {TL_ETCD_AUTH, SIZED(HEADER "\x10\x05"), "a field of another type"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(read_as(rows[i].kind, rows[i].message), rows[i].problem);
}

/* Six bytes of a key take 288 of memory (less with 32 bits), and a server may send 16 MiB. */
TEST(a_reply_may_take_so_much_memory) {
    static const char key[] = "\x12\x04\x0a\x02p/";
    const size_t n = sizeof key - 1, keys = TL_REPLY_ROOM_MAX / 64;
    const tl_bytes header = SIZED(HEADER);
    char *message = malloc(header.n + keys * n);
    tl_reply reply;
    assert_non_null(message);
    memcpy(message, header.p, header.n);
    for (size_t i = 0; i < keys; i++)
        memcpy(message + header.n + i * n, key, n);
    const char *problem = tl__grpc_read(
        &room, TL_ETCD_RANGE, tl__bytes(message, header.n + keys * n), TL_LITERAL("p/"), &reply);
    assert_string_equal(problem ? problem : "none", TL_REPLY_ROOM_FULL);
    assert_false(room.exhausted);
    tl__reply_room_release(&room);
    problem = tl__grpc_read(&room, TL_ETCD_RANGE, tl__bytes(message, header.n + 1000 * n),
                            TL_LITERAL("p/"), &reply);
    assert_null(problem);
    tl__reply_room_free(&room);
    free(message);
}

/* A part of a reply is none, or has all that it says: never another key, value or number. */
TEST(a_reply_may_be_cut_at_each_byte) {
    const tl_bytes whole = SIZED(HEADER "\x10\x01\x1a\x18\x0a\x16\x12\x12" KEY_VALUE "\x20\x09");
    for (size_t cut = 0; cut < whole.n; cut++) {
        char *copy = malloc(cut + 1); /* so that tools find what is read beyond */
        assert_non_null(copy);
        memcpy(copy, whole.p, cut);
        const char *text = read_as(TL_ETCD_TXN, tl__bytes(copy, cut));
        bool between = cut == 8 || cut == 10;
        assert_string_equal(text, cut == 0   ? "a reply without a header"
                                  : cut == 8 ? "[:0 :7]"
                                  : between  ? "[:1 :7]"
                                             : "malformed protobuf");
        free(copy);
    }
    tl__reply_room_free(&room);
}
