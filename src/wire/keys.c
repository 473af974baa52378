/*
 * The sidecar's name and Redis Cluster's hash slot.
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

/* CRC16, polynomial x^16 + x^12 + x^5 + 1, as the cluster specification has it. */
static uint16_t crc16(tl_bytes text) {
    uint16_t crc = 0;
    for (size_t i = 0; i < text.n; i++) {
        crc = (uint16_t)(crc ^ (uint16_t)((unsigned char)text.p[i] << 8));
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)((crc & 0x8000) ? (crc << 1) ^ 0x1021 : crc << 1);
    }
    return crc;
}

uint16_t tl__hash_slot(tl_bytes key) {
    return crc16(tl__hash_tag(key)) & 16383;
}
