/*
 * NTP packets (RFC 5905) and what they prove. Intervals are rounded outwards. A server that reports
 * that it doesn't know the time proves nothing, however exact its timestamps are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "skew/judge/skew_number.h"
#include "skew/skew_ntp.h"

#define US_PER_S INT64_C(1000000)
#define EPOCH_S INT64_C(2208988800) /* s; from 1900 to 1970 */
#define ERA_S (INT64_C(1) << 32)
#define UNSYNCHRONISED 16            /* this stratum, and any above */
#define ROOT_MOST_US (16 * US_PER_S) /* RFC 5905's MAXDISP: as useless as no time */
#define STALE_S 8192                 /* eight times the longest usual pause between two requests */
#define FUTURE_S 1
#define AGAIN_S 64 /* s; how often daemons ask by default */

#define LEAP_UNKNOWN 3
#define MODE_CLIENT 3
#define MODE_SERVER 4
#define VERSION 4

/* ---- the packet ------------------------------------------------------------------------------ */

static uint64_t number(const uint8_t *p, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

void ntp_ask(uint8_t packet[NTP_SIZE], uint64_t random) {
    memset(packet, 0, NTP_SIZE);
    packet[0] = VERSION << 3 | MODE_CLIENT;
    for (int i = 0; i < 8; i++)
        packet[40 + i] = (uint8_t)(random >> (56 - 8 * i));
}

/* The time of the stamp in the era nearest to near_us; us, rounded down. */
static int64_t unfold(uint64_t stamp, int64_t near_us) {
    int64_t near_s = near_us / US_PER_S - (near_us % US_PER_S < 0);
    uint32_t then = (uint32_t)(stamp >> 32), now = (uint32_t)((near_s + EPOCH_S) & (ERA_S - 1));
    int64_t ahead_s = (int64_t)(int32_t)(then - now);
    int64_t fraction_us = (int64_t)((stamp & 0xffffffff) * (uint64_t)US_PER_S >> 32);
    return tl__add_sat(tl__mul_sat(tl__add_sat(near_s, ahead_s), US_PER_S), fraction_us);
}

/* 16 bits of seconds and 16 of their fraction, rounded up. */
static int64_t short_us(uint64_t v) {
    return (int64_t)((v * (uint64_t)US_PER_S + 0xffff) >> 16);
}

/* 2^log2_s seconds, rounded up to at least a microsecond. */
static int64_t precision_us(int8_t log2_s) {
    int64_t us = US_PER_S;
    if (log2_s >= 5)
        return ROOT_MOST_US;
    for (; log2_s > 0; log2_s--)
        us *= 2;
    for (; log2_s < 0 && us > 1; log2_s++)
        us = (us + 1) / 2;
    return us;
}

static bool is_local(uint64_t reference) {
    return reference >> 8 == 0x7f7f01 || reference == 0x4c4f434c; /* 127.127.1.x, and "LOCL" */
}

static bool is_smeared(uint64_t reference) {
    return reference >> 24 == 254; /* ntpd's mark */
}

static ntp_kind say(char why[SKEW_DETAIL_SIZE], ntp_kind kind, const char *text) {
    (void)snprintf(why, SKEW_DETAIL_SIZE, "%s", text);
    return kind;
}

/* Stratum 0. With a code in its reference it is a kiss of death; without one it is how chronyd
 * reports that it knows no time. */
static ntp_kind kissed(const uint8_t *packet, char why[SKEW_DETAIL_SIZE]) {
    char code[5] = "";
    for (int i = 0; i < 4 && packet[12 + i] >= 'A' && packet[12 + i] <= 'Z'; i++)
        code[i] = (char)packet[12 + i];
    if (!code[0])
        return say(why, NTP_UNFIT, "it reports that it is not synchronised (stratum 0, or leap 3)");
    (void)snprintf(why, SKEW_DETAIL_SIZE, "it rejects requests (kiss of death %s)", code);
    return NTP_KISS;
}

/* The server's report on its own time. */
static ntp_kind fitness(const uint8_t *packet, const ntp_answer *answer, int64_t reference_us,
                        char why[SKEW_DETAIL_SIZE]) {
    if (packet[0] >> 6 == LEAP_UNKNOWN)
        return say(why, NTP_UNFIT, "it says that it is not synchronised (leap 3)");
    if (packet[1] >= UNSYNCHRONISED)
        return say(why, NTP_UNFIT, "it says that it is not synchronised (stratum 16)");
    if (is_local(number(packet + 12, 4)))
        return say(why, NTP_UNFIT, "it follows nothing but its own clock (local)");
    if (number(packet + 8, 4) == 0)
        return say(why, NTP_UNFIT, "it claims to be exact (dispersion 0), as no clock is");
    if (answer->root_us >= ROOT_MOST_US)
        return say(why, NTP_UNFIT, "it says that it may be off by 16 s and more");
    if (number(packet + 16, 8) == 0)
        return say(why, NTP_UNFIT, "its clock was never set");
    if (reference_us > answer->sent_us + FUTURE_S * US_PER_S)
        return say(why, NTP_UNFIT, "its clock was set at a time in the future");
    if (reference_us < answer->sent_us - STALE_S * US_PER_S)
        return say(why, NTP_UNFIT,
                   "it has had no reply from a better clock for over two hours (stale)");
    return NTP_GOOD;
}

ntp_kind ntp_read(const uint8_t *packet, size_t n, uint64_t random, int64_t near_us,
                  ntp_answer *ret, char why[SKEW_DETAIL_SIZE]) {
    *ret = (ntp_answer){.stratum = 0};
    why[0] = '\0';
    if (n < NTP_SIZE)
        return say(why, NTP_FOREIGN, "a packet arrived that is too short for a reply");
    int version = packet[0] >> 3 & 7;
    if ((packet[0] & 7) != MODE_SERVER || version < 3 || version > VERSION)
        return say(why, NTP_FOREIGN, "a packet arrived that is no reply");
    if (GUARD(ntp_repeats_random) && number(packet + 24, 8) != random)
        return say(why, NTP_FOREIGN, "a reply to another request arrived");
    if (packet[1] == 0)
        return kissed(packet, why);
    uint64_t received = number(packet + 32, 8), sent = number(packet + 40, 8);
    if (received == 0 || sent == 0)
        return say(why, NTP_UNFIT, "its reply contains no time");
    *ret = (ntp_answer){
        .received_us = unfold(received, near_us),
        .sent_us = unfold(sent, near_us),
        .root_us = (short_us(number(packet + 4, 4)) + 1) / 2 + short_us(number(packet + 8, 4)) +
                   precision_us((int8_t)packet[3]),
        .leaping = packet[0] >> 6 != 0,
        .smeared = is_smeared(number(packet + 12, 4)),
        .stratum = packet[1],
    };
    if (ret->sent_us < ret->received_us)
        return say(why, NTP_UNFIT, "it replied before the request: its clock was set meanwhile");
    return !GUARD(ntp_server_is_fit)
               ? NTP_GOOD
               : fitness(packet, ret, unfold(number(packet + 16, 8), ret->sent_us), why);
}

/* ---- what replies prove --------------------------------------------------------------------- */

static void end(ntp_source *source, const char *status, const char *why) {
    source->over = true;
    source->status = status;
    if (why != source->why)
        (void)snprintf(source->why, sizeof source->why, "%s", why);
}

static void believe(ntp_source *source, const ntp_answer *answer, const skew_reading *sent,
                    const skew_reading *received, int32_t rate_ppm) {
    skew_learn_two(&source->track, sent, answer->received_us, answer->sent_us, received, rate_ppm);
    if (source->track.server_steps) {
        end(source, "inconsistent",
            "its replies contradict each other: its clock was set, or is wrong");
        return;
    }
    source->answers++;
    source->stratum = answer->stratum;
    source->leaping = source->leaping || answer->leaping;
    source->smeared = source->smeared || answer->smeared;
    if (answer->root_us > source->root_us)
        source->root_us = answer->root_us;
}

bool ntp_learn(ntp_source *source, const uint8_t *packet, size_t n, uint64_t random,
               const skew_reading *sent, const skew_reading *received, int32_t rate_ppm) {
    char why[SKEW_DETAIL_SIZE];
    ntp_answer answer;
    ntp_kind kind = ntp_read(packet, n, random, received->wall_us, &answer, why);

    switch (kind) {
    case NTP_FOREIGN:
        if (source->answers == 0 && !source->over)
            (void)snprintf(source->why, sizeof source->why, "%s", why);
        return false;
    case NTP_UNFIT: end(source, "unsynchronised", why); break;
    case NTP_KISS:
        source->kissed = true;
        end(source, "refused", why);
        break;
    case NTP_GOOD: believe(source, &answer, sent, received, rate_ppm); break;
    }
    return true;
}

bool ntp_due(const ntp_source *source, tl_mono asked_at, bool near, const skew_reading *now) {
    if (GUARD(ntp_kiss_is_obeyed) && source->kissed)
        return false;
    return near || (source->answers && !skew_unbroken(&source->track, now)) ||
           !tl__mono_before(now->after, tl__mono_add_ms(asked_at, AGAIN_S * 1000));
}

/* Is the whole interval within a tenth of `of` from it, on either side of 0? */
static bool is_about(tl_interval i, int64_t of_us) {
    if (i.hi < 0)
        i = (tl_interval){tl__mul_sat(i.hi, -1), tl__mul_sat(i.lo, -1)};
    return i.lo >= of_us - of_us / 10 && i.hi <= of_us + of_us / 10;
}

static const char *oddity(const ntp_source *source, tl_interval off) {
    if (is_about(off, US_PER_S))
        return ": 1 s, a leap second or smear mismatch?";
    if (is_about(off, 4294967))
        return ": 2^32 ns, a fault of its stamps?";
    return source->smeared   ? ": it smears a leap second"
           : source->leaping ? ": a leap second is near"
                             : "";
}

/* Why there is no offset, and one word for it; NULL: there is one. */
static const char *why_not(const ntp_source *source, const skew_reading *now,
                           const tl_interval *own, const char **ret_status) {
    *ret_status = source->status ? source->status : "silent";
    if (source->over || source->answers == 0)
        return source->why[0] ? source->why : "no answer";
    *ret_status = "void";
    if (!source->track.known || !skew_unbroken(&source->track, now))
        return "this host's clock was set after the request";
    *ret_status = "unknown";
    return own ? NULL : "this host's own clock could not be measured";
}

void ntp_judge(const ntp_source *source, const skew_reading *now, const tl_interval *own,
               int32_t rate_ppm, skew_host *host) {
    const char *why = why_not(source, now, own, &host->status);
    char root[SKEW_NUMBER_SIZE];

    host->instrument = "ntp";
    host->kind = SKEW_SERVED;
    host->known = false;
    host->samples = source->answers;
    host->age_ms = -1;
    if (why || !own) {
        (void)snprintf(host->detail, sizeof host->detail, "%s", why ? why : "");
        return;
    }
    /* own clock - served, negated: served - own; then + own - server */
    tl_interval off = skew_offset(&source->track, now->after, rate_ppm);
    off = (tl_interval){tl__add_sat(-off.hi, -source->root_us),
                        tl__add_sat(-off.lo, source->root_us)};
    host->offset = (tl_interval){tl__add_sat(off.lo, own->lo), tl__add_sat(off.hi, own->hi)};
    host->against = 1;
    host->apart = off;
    host->known = true;
    host->status = "ok";
    host->age_ms = tl__ms_until(source->track.at, now->after);
    (void)snprintf(host->detail, sizeof host->detail,
                   "the time that it serves, stratum %d, root distance %s ms%s", source->stratum,
                   skew_up(root, source->root_us, 3), oddity(source, off));
}

/* ---- addresses ------------------------------------------------------------------------------ */

static bool port_of(const char *text, uint16_t *ret) {
    char *end;
    size_t digits = strspn(text, "0123456789");
    unsigned long v = strtoul(text, &end, 10);
    if (digits < 1 || digits > 5 || text[digits] || v < 1 || v > 65535)
        return false;
    *ret = (uint16_t)v;
    return true;
}

#define HOST_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

bool ntp_place(const char *text, char host[NTP_HOST_SIZE], uint16_t *ret_port,
               char name[SKEW_NAME_SIZE]) {
    const char *colon = strchr(text, ':'), *end = text + strlen(text), *port = NULL;
    bool v6 = text[0] == '[' || (colon && strchr(colon + 1, ':'));

    if (text[0] == '[') {
        text++;
        end = strchr(text, ']');
        if (!end || (end[1] && end[1] != ':'))
            return false;
        port = end[1] ? end + 2 : NULL;
    } else if (colon && !v6) {
        end = colon;
        port = colon + 1;
    }
    size_t n = (size_t)(end - text);
    *ret_port = NTP_PORT;
    if (n < 1 || n >= NTP_HOST_SIZE || (port && !port_of(port, ret_port)))
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    if (host[0] == '-' || strspn(host, v6 ? HOST_LETTERS ":%" : HOST_LETTERS) != n)
        return false;
    (void)snprintf(name, SKEW_NAME_SIZE, v6 ? "[%.55s]:%u" : "%.57s:%u", host, (unsigned)*ret_port);
    return true;
}
