/*
 * The names of the keys beside a lock's, and Redis Cluster's hash slots.
 */
#include "wire/keys.h"

#define SUFFIX ":tidelock"
#define PREFIX "tidelock:{"

_Static_assert(sizeof PREFIX + sizeof "}" - 2 <= TL_SIDECAR_EXTRA, "room for the name");

static const char *find(const char *from, const char *end, char c) {
    return from < end ? memchr(from, c, (size_t)(end - from)) : NULL;
}

tl_bytes tl__hash_tag(tl_bytes key) {
    const char *end = key.p + key.n;
    const char *open = find(key.p, end, '{');
    const char *close = open ? find(open + 1, end, '}') : NULL;
    if (!close || close == open + 1)
        return key;
    return tl__bytes(open + 1, (size_t)(close - open - 1));
}

static bool has_tag(tl_bytes key) {
    return tl__hash_tag(key).p != key.p;
}

tl_bytes tl__sidecar(char *to, tl_bytes key, bool *ret_same_slot) {
    bool closing = find(key.p, key.p + key.n, '}') != NULL;
    bool after = has_tag(key) || closing;
    size_t n = 0;
    if (!after) {
        memcpy(to, PREFIX, sizeof PREFIX - 1);
        n = sizeof PREFIX - 1;
    }
    memcpy(to + n, key.p, key.n);
    n += key.n;
    const char *tail = after ? SUFFIX : "}";
    memcpy(to + n, tail, strlen(tail));
    if (ret_same_slot)
        *ret_same_slot = has_tag(key) || !closing;
    return tl__bytes(to, n + strlen(tail));
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Add one byte to a CRC16 with the polynomial x^16 + x^12 + x^5 + 1, as the cluster specification defines
 * it. */
static uint16_t crc16_more(uint16_t crc, unsigned char byte) {
    unsigned q = (unsigned)(crc >> 8) ^ byte;
    q ^= q >> 4;
    return (uint16_t)((unsigned)crc << 8 ^ q << 12 ^ q << 5 ^ q);
}

static uint16_t crc16(tl_bytes text) {
    uint16_t crc = 0;
    for (size_t i = 0; i < text.n; i++)
        crc = crc16_more(crc, (unsigned char)text.p[i]);
    return crc;
}

uint16_t tl__hash_slot(tl_bytes key) {
    return crc16(tl__hash_tag(key)) & (TL_SLOTS - 1);
}

static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

static bool is_letter(unsigned byte) {
    return byte - '0' < 10U || byte - 'A' < 26U || byte - 'a' < 26U;
}

/* The CRC that becomes this one when two zero bytes are added: 16 steps back, bit by bit. */
static uint16_t crc16_before(uint16_t crc) {
    for (int i = 0; i < 16; i++)
        crc = (uint16_t)(crc & 1U ? (crc ^ 0x1021U) >> 1 | 0x8000U : crc >> 1);
    return crc;
}

/* Find the first two letters that lead from the CRC `before` to the slot. Four CRCs have the slot's low bits,
 * and exactly one pair of bytes leads to each. */
static bool find_two(const uint16_t four[4], uint16_t before, char *ret) {
    unsigned first = UINT16_MAX;
    for (int i = 0; i < 4; i++) {
        unsigned both = (unsigned)before ^ four[i];
        if (is_letter(both >> 8) && is_letter(both & 255) && both < first)
            first = both;
    }
    ret[0] = (char)(first >> 8);
    ret[1] = (char)(first & 255);
    return first != UINT16_MAX;
}

/* One letter, else two, else three: every slot has a tag of at most three. */
tl_slot_tag tl__slot_tag(uint16_t slot) {
    tl_slot_tag tag = {""};
    uint16_t four[4];
    for (const char *l = letters; *l; l++)
        if ((crc16_more(0, (unsigned char)*l) & (TL_SLOTS - 1)) == slot)
            return (tl_slot_tag){{*l}};
    for (unsigned i = 0; i < 4; i++)
        four[i] = crc16_before((uint16_t)(slot | i * TL_SLOTS));
    if (find_two(four, 0, tag.text))
        return tag;
    for (const char *l = letters; *l; l++) {
        tag.text[0] = *l;
        if (find_two(four, crc16_more(0, (unsigned char)*l), tag.text + 1))
            break;
    }
    return tag;
}

tl_bytes tl__counter(char *to, const tl_slot_tag *tag) {
    static const char prefix[] = "tidelock:fence:{";
    size_t n = strlen(tag->text);
    memcpy(to, prefix, sizeof prefix - 1);
    memcpy(to + sizeof prefix - 1, tag->text, n);
    to[sizeof prefix - 1 + n] = '}';
    return tl__bytes(to, sizeof prefix + n);
}

bool tl__is_counter(tl_bytes key) {
    char name[TL_COUNTER_SIZE];
    if (key.n > sizeof name || !has_tag(key))
        return false;
    tl_slot_tag tag = tl__slot_tag(tl__hash_slot(key));
    return tl__bytes_eq(key, tl__counter(name, &tag));
}

tl_bytes tl__line(char *to, tl_bytes sidecar) {
    static const char suffix[] = ":line";
    memmove(to, sidecar.p, sidecar.n);
    memcpy(to + sidecar.n, suffix, sizeof suffix - 1);
    return tl__bytes(to, sidecar.n + sizeof suffix - 1);
}
