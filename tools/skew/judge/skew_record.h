/*
 * What an agent publishes of its host: one line of text in the server. Pure.
 *
 * The records stand at {tidelock:agents}:NAME; {tidelock:agents} is a sorted set of the names by
 * the end of their lease, server time in us. One hash slot holds them all. A record whose lease is
 * over is kept for a day: its host is missing, and is neither forgotten nor, if its clock was bad,
 * believed to be well.
 */
#pragma once

#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_track.h"

#define SKEW_INDEX_KEY "{tidelock:agents}"
#define SKEW_KEY_SIZE (sizeof SKEW_INDEX_KEY + SKEW_NAME_SIZE)
#define SKEW_RECORD_SIZE 512
#define SKEW_ID_SIZE 48
#define SKEW_SERVER_SIZE 41
#define SKEW_LEASE 3 /**< times every_ms: two rounds may fail before a host is missing */
#define SKEW_EVERY_MOST_MS INT64_C(3600000)
#define SKEW_REMEMBERED_MS INT64_C(86400000) /**< from the end of the lease on */
#define SKEW_PPM_MOST                                                                              \
    1000000 /**< slew_ppm: so fast or faster, and nothing follows from what was measured */
#define SKEW_NAMES_MOST                                                                            \
    2000 /**< remembered; more than are looked at, so that none goes unnoticed */

typedef struct {
    char
        id[SKEW_ID_SIZE]; /**< BOOT-PID: the boot that the host has lived in since, and the agent */
    int64_t at_us;        /**< the server's clock when it last answered: the age of the evidence */
    tl_interval offset;   /**< us */
    bool has_drift;
    tl_interval drift_ppb;
    int64_t slew_ppm, samples, steps, resumes;
    int64_t
        server_stepped_us; /**< the server's clock when it was last seen to have stepped; 0 never */
    int64_t every_ms;
    bool clash; /**< another agent has been publishing by the same name */
    bool
        unsteady; /**< round after round the clock was where no clock may be: slew_ppm is what it was seen to do */
    char server
        [SKEW_SERVER_SIZE]; /**< whose clock `offset` is from: its run id; "-": it does not tell */
} skew_record;

/** 1 to 64 letters, digits and . _ : - */
bool skew_name_ok(const char *name);

/** The record's key for a name that is fine. */
void skew_record_key(char key[SKEW_KEY_SIZE], const char *name);

/** As text. */
void skew_record_write(char text[SKEW_RECORD_SIZE], const skew_record *record);

/** False when it is anything but what skew_record_write would have written. */
bool skew_record_read(const char *text, size_t n, skew_record *ret);

/** Are the two published from the same boot of a host? */
bool skew_same_boot(const char *id, const char *other);

/** Until when the record is its host's word, on the server's clock in us. */
int64_t skew_record_end_us(const skew_record *record);

/** The server that is asked: which it is, its clock, and when that was last seen to have stepped. */
typedef struct {
    const char *server; /**< as in a record */
    int64_t now_us, stepped_us;
} skew_record_at;

/** What a record says of its host at that moment. Fills all but the name. */
void skew_record_judge(const skew_record *record, const skew_record_at *at, int32_t drift_ppm,
                       skew_host *host);
