/*
 * NTP as a client speaks it: the question, the answer read with suspicion, and what several answers of
 * one server say of the time that it serves. Pure.
 *
 * What is measured is the served time less this host's clock. Whose time that is, NTP doesn't tell: ntpd
 * serves its host's clock, chronyd the time as it ought to be, which its host's clock may be far from.
 */
#pragma once

#include <stddef.h>

#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_track.h"

#define NTP_SIZE 48 /**< of a packet without extensions */
#define NTP_PORT 123
#define NTP_HOST_SIZE 254

/** Write a question whose transmit stamp is the random number; the answer must repeat it. */
void ntp_ask(uint8_t packet[NTP_SIZE], uint64_t random);

/** An answer that may be believed. */
typedef struct {
    int64_t received_us, sent_us; /**< the server's stamps, since the epoch, rounded down */
    int64_t
        root_us; /**< its distance from the true time as it says: delay/2 + dispersion + precision */
    bool leaping; /**< it announces a leap second */
    bool smeared; /**< its reference says that it smears one */
    int stratum;
} ntp_answer;

typedef enum {
    NTP_FOREIGN, /**< it answers no question of ours: as if it had not come */
    NTP_UNFIT,   /**< an answer that says that it is no evidence */
    NTP_KISS,    /**< the server doesn't want to be asked */
    NTP_GOOD
} ntp_kind;

/** Read a packet that came while the question with the number was out. near_us is this host's clock: a
 *  stamp is taken for the one of its 136-year eras that is nearest to it. Not GOOD: why. */
ntp_kind ntp_read(const uint8_t *packet, size_t n, uint64_t random, int64_t near_us,
                  ntp_answer *ret, char why[SKEW_DETAIL_SIZE]);

/** What is known of one server. */
typedef struct {
    skew_track track; /**< of this host's clock less the served time */
    int64_t root_us;  /**< the greatest that was told */
    int answers, stratum;
    bool leaping, smeared;
    bool kissed; /**< never ask again */
    bool over;   /**< ask no more for now; why says it, unless the answers are fine and enough */
    const char *status;
    char why[SKEW_DETAIL_SIZE];
} ntp_source;

/** A packet that came for a question sent at `sent`. True: it was an answer to it, fit or not. */
bool ntp_learn(ntp_source *source, const uint8_t *packet, size_t n, uint64_t random,
               const skew_reading *sent, const skew_reading *received, int32_t rate_ppm);

/** Is it to be asked again at the reading `now`, when it was last asked at asked_at? A watch asks no server
 *  of others more often than daemons do; near: it is on this machine. */
bool ntp_due(const ntp_source *source, tl_mono asked_at, bool near, const skew_reading *now);

/** Fill a host's row, all but the name, at the reading `now`. own is this host's clock less the Redis
 *  server's, or NULL when unknown; this host is the first of the rows. */
void ntp_judge(const ntp_source *source, const skew_reading *now, const tl_interval *own,
               int32_t rate_ppm, skew_host *host);

/** Take HOST, HOST:PORT, [V6], [V6]:PORT or a bare V6 apart; false when it is none of them. name becomes
 *  HOST:PORT, with brackets for a V6. */
bool ntp_place(const char *text, char host[NTP_HOST_SIZE], uint16_t *ret_port,
               char name[SKEW_NAME_SIZE]);
