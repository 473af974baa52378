/*
 * SHA-1 (FIPS 180-4), for the names of scripts.
 */
#include "fake_inside.h"

static uint32_t turn(uint32_t v, int by) {
    return v << by | v >> (32 - by);
}

static void block(uint32_t h[5], const unsigned char *p) {
    uint32_t w[80];
    for (int i = 0; i < 16; i++, p += 4) {
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    for (int i = 16; i < 80; i++) {
        w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 80; i++) {
        static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        uint32_t f = i < 20   ? (b & c) | (~b & d)
                     : i < 40 ? b ^ c ^ d
                     : i < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        uint32_t next = turn(a, 5) + f + e + k[i / 20] + w[i];
        e = d;
        d = c;
        c = turn(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

void fake__sha1(tl_bytes text, char ret[FAKE_SHA_SIZE]) {
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    unsigned char last[128] = {0};
    size_t at = 0;
    for (; text.n - at >= 64; at += 64) {
        block(h, (const unsigned char *)text.p + at);
    }
    size_t rest = text.n - at, size = rest < 56 ? 64 : 128;
    if (rest) {
        memcpy(last, text.p + at, rest);
    }
    last[rest] = 0x80;
    uint64_t bits = (uint64_t)text.n * 8;
    for (int i = 0; i < 8; i++) {
        last[size - 1 - (size_t)i] = (unsigned char)(bits >> 8 * i);
    }
    block(h, last);
    if (size == 128) {
        block(h, last + 64);
    }
    for (int i = 0; i < 40; i++) {
        ret[i] = "0123456789abcdef"[h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    }
    ret[40] = '\0';
}
