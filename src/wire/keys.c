/*
 * The names beside a lock's, and Redis Cluster's hash slot.
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

/* CRC16, polynomial x^16 + x^12 + x^5 + 1, as the cluster specification has it: with one more byte. */
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

/* The byte behind what has this CRC that makes the slot; 0: no letter does. The low byte of the new CRC comes
 * from that byte alone, in a way that can be turned around. */
static char last_letter(uint16_t slot, uint16_t before) {
    unsigned q = (slot ^ (unsigned)slot << 5) & 255;
    unsigned byte = (q ^ q >> 4) ^ before >> 8;
    bool does = byte != 0 && strchr(letters, (int)byte) &&
                (crc16_more(before, (unsigned char)byte) & (TL_SLOTS - 1)) == slot;
    return (char)(does ? byte : 0);
}

/* Of n letters: each text of n - 1, in order, with the last one that fits. */
static bool find_tag(uint16_t slot, unsigned n, tl_slot_tag *ret) {
    unsigned texts = 1;
    for (unsigned i = 1; i < n; i++)
        texts *= sizeof letters - 1;
    for (unsigned text = 0; text < texts; text++) {
        uint16_t crc = 0;
        unsigned left = text;
        for (unsigned i = n - 1; i-- > 0; left /= sizeof letters - 1)
            ret->text[i] = letters[left % (sizeof letters - 1)];
        for (unsigned i = 0; i + 1 < n; i++)
            crc = crc16_more(crc, (unsigned char)ret->text[i]);
        ret->text[n - 1] = last_letter(slot, crc);
        if (ret->text[n - 1])
            return true;
    }
    return false;
}

tl_slot_tag tl__slot_tag(uint16_t slot) {
    tl_slot_tag tag = {""};
    for (unsigned n = 1; n < sizeof tag.text && !find_tag(slot, n, &tag); n++)
        ;
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
