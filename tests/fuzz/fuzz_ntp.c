/*
 * A packet that anybody may have sent, beside what an honest reader of RFC 5905 would say: believed only
 * when it answers our question and its server claims a time, and then never to more than it proves.
 * The input is 8 bytes of this host's clock, a byte that says what to mend in the packet, and the packet.
 */

/*
 * Given a packet, repaired in places, and this host's clock. It asserts:
 * - A packet is believed only with our number in it, from a server that claims to be synchronised by another. Stamps
 *   mean what RFC 5905 says, in the nearest era. The interval is never narrower than the server's own distance.
 * - A message is one line. A place reads back from its name.
 */
#include "fuzz.h"

#include "skew/judge/skew_track.h"
#include "skew/skew_ntp.h"

#define RANDOM UINT64_C(0x5eedf00d12345678)
#define RATE 200

static skew_reading at(int64_t boot_us, int64_t wall_us) {
    tl_mono t = {boot_us * 1000};
    return skew_read(t, wall_us, boot_us * 1000, t);
}

static uint64_t field(const uint8_t *p, int at, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v * 256 + p[at + i];
    return v;
}

/* Stamps count seconds in 32 bits and their fraction in 32. */
static void must_mean(int64_t us, uint64_t stamp) {
    int64_t s = us >= 0 ? us / 1000000 : -((-us + 999999) / 1000000);
    uint64_t rest = (uint64_t)(us - s * 1000000);
    MUST((uint32_t)(s + INT64_C(2208988800)) == (uint32_t)(stamp >> 32));
    MUST(rest == (stamp & 0xffffffff) * 15625 / 67108864);
}

static void must_be_fit(const uint8_t *p, size_t n, const ntp_answer *a, int64_t near_us) {
    MUST(n >= 48 && (p[0] & 7) == 4 && field(p, 24, 8) == RANDOM);
    MUST(p[0] >> 6 != 3 && p[1] >= 1 && p[1] <= 15);
    MUST(field(p, 12, 3) != 0x7f7f01 && memcmp(p + 12, "LOCL", 4) != 0);
    MUST(field(p, 8, 4) != 0 && field(p, 16, 8) != 0);
    must_mean(a->received_us, field(p, 32, 8));
    must_mean(a->sent_us, field(p, 40, 8));
    MUST(a->sent_us >= a->received_us);
    MUST(llabs(a->received_us - near_us) <= (INT64_C(1) << 31) * 1000000 + 1000000);
    int64_t least = (int64_t)(field(p, 4, 4) * 1000000 / 131072 + field(p, 8, 4) * 1000000 / 65536);
    MUST(a->root_us >= least && a->root_us < 16000000);
}

static void judge(const uint8_t *p, size_t n, int64_t near_us) {
    skew_reading sent = at(0, near_us), received = at(3000, near_us + 3000),
                 now = at(9000, near_us + 9000);
    tl_interval own = {-7, 8};
    ntp_source s = {.answers = 0};
    skew_host h = {.known = true};

    bool ours = ntp_learn(&s, p, n, RANDOM, &sent, &received, RATE);
    ntp_judge(&s, &now, &own, RATE, &h);
    MUST(h.instrument && h.status && is_line(h.detail, sizeof h.detail) && h.detail[0]);
    MUST(h.known == (ours && !s.over) && h.known == (strcmp(h.status, "ok") == 0));
    if (h.known)
        MUST(h.offset.hi - h.offset.lo >= 2 * s.root_us + 15);
}

static void mend(uint8_t *p, uint8_t what) {
    if (what & 1)
        p[0] = (uint8_t)((p[0] & 0xc0) | 0x24);
    if (what & 2)
        for (int i = 0; i < 8; i++)
            p[24 + i] = (uint8_t)(RANDOM >> (56 - 8 * i));
    if (what & 4)
        memcpy(p + 40, p + 32, 8);
    if (what & 8)
        memcpy(p + 16, p + 32, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    uint8_t p[200] = {0};
    uint64_t clock = 0;
    char why[SKEW_DETAIL_SIZE];
    ntp_answer a;

    for (int i = 0; i < 8; i++)
        clock = clock << 8 | in_byte(&in);
    int64_t near_us = (int64_t)(clock & ((UINT64_C(1) << 54) - 1)) - (INT64_C(1) << 53);
    uint8_t what = in_byte(&in);
    size_t n = in.n < sizeof p ? in.n : sizeof p;
    memcpy(p, in.p, n);
    mend(p, what);
    ntp_kind kind = ntp_read(p, n, RANDOM, near_us, &a, why);
    MUST(is_line(why, sizeof why) && (kind == NTP_GOOD) == (why[0] == '\0'));
    if (kind == NTP_GOOD)
        must_be_fit(p, n, &a, near_us);
    if (kind == NTP_KISS)
        MUST(p[1] == 0 && p[12] >= 'A' && field(p, 24, 8) == RANDOM);
    judge(p, n, near_us);

    char text[201], host[NTP_HOST_SIZE], name[SKEW_NAME_SIZE];
    uint16_t port;
    memcpy(text, in.p, n);
    text[n] = '\0';
    if (ntp_place(text, host, &port, name)) {
        char again[NTP_HOST_SIZE], again_name[SKEW_NAME_SIZE];
        MUST(port > 0 && is_line(name, sizeof name) && strlen(host) > 0);
        MUST(!strpbrk(name, "\"\\|{}, "));
        if (strlen(host) < 50) {
            MUST(ntp_place(name, again, &port, again_name));
            MUST(strcmp(host, again) == 0 && strcmp(name, again_name) == 0);
        }
    }
    return 0;
}
