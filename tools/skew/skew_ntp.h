/*
 * NTP from the client's side: the request, the checked reply, and what several replies of one server
 * say about the time that it serves. Pure.
 *
 * The result is the served time minus this host's clock. NTP doesn't say whose time is served: ntpd
 * serves its host's clock, chronyd its estimate of the true time, which may be far from its host's
 * clock.
 */
#pragma once

#include <stddef.h>

#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_track.h"

#define NTP_SIZE 48 /**< bytes of a packet without extensions */
#define NTP_PORT 123
#define NTP_HOST_SIZE 254

/** Write a request whose transmit timestamp is the random number; the reply must repeat it. */
void ntp_ask(uint8_t packet[NTP_SIZE], uint64_t random);

/** The contents of a reply. */
typedef struct {
    int64_t received_us, sent_us; /**< the server's timestamps, since the epoch, rounded down */
    int64_t
        root_us;  /**< its reported distance from the true time: delay/2 + dispersion + precision */
    bool leaping; /**< it announces a leap second */
    bool smeared; /**< its reference says that it smears a leap second */
    int stratum;
} ntp_answer;

typedef enum {
    NTP_FOREIGN, /**< no reply to one of our requests: ignored */
    NTP_UNFIT,   /**< a reply that reports that its time is unreliable */
    NTP_KISS,    /**< the server asks not to be asked again */
    NTP_GOOD
} ntp_kind;

/** Read a packet received while the request with this random number was open. near_us is this
 *  host's clock: a timestamp is read in the one of its 136-year eras that is nearest to it. Not
 *  GOOD: `why` has the reason. */
ntp_kind ntp_read(const uint8_t *packet, size_t n, uint64_t random, int64_t near_us,
                  ntp_answer *ret, char why[SKEW_DETAIL_SIZE]);

/** The measurements of one server. */
typedef struct {
    skew_track track; /**< this host's clock minus the served time */
    int64_t root_us;  /**< the greatest that was reported */
    int answers, stratum;
    bool leaping, smeared;
    bool kissed; /**< never ask again */
    bool over;   /**< ask no further in this round; why has the reason, if any */
    const char *status;
    char why[SKEW_DETAIL_SIZE];
} ntp_source;

/** Read a packet for a request sent at `sent`. True: it was the reply to it, fit or not. */
bool ntp_learn(ntp_source *source, const uint8_t *packet, size_t n, uint64_t random,
               const skew_reading *sent, const skew_reading *received, int32_t rate_ppm);

/** Is the next request due at the reading `now`? It was last asked at asked_at. A watch asks other
 *  hosts' servers no more often than daemons do. near: it is on this machine. */
bool ntp_due(const ntp_source *source, tl_mono asked_at, bool near, const skew_reading *now);

/** Fill a host's row, all but the name, at the reading `now`. own is this host's clock minus the
 *  Redis server's; NULL: unknown. This host is the first of the rows. */
void ntp_judge(const ntp_source *source, const skew_reading *now, const tl_interval *own,
               int32_t rate_ppm, skew_host *host);

/** Split HOST, HOST:PORT, [V6], [V6]:PORT or a bare V6. False: it is none of them. name becomes
 *  HOST:PORT, with brackets for a V6. */
bool ntp_place(const char *text, char host[NTP_HOST_SIZE], uint16_t *ret_port,
               char name[SKEW_NAME_SIZE]);
