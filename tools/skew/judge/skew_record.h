/*
 * An agent's published record of its host: one line of text on the server. Pure.
 *
 * Records have the keys {tidelock:agents}:NAME. {tidelock:agents} is a sorted set of the names,
 * scored by the end of their lease in us of server time. One hash slot holds all of them. An
 * expired record is kept for a day: its host counts as missing. It is not forgotten, and a bad
 * clock does not count as good again.
 */
#pragma once

#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_track.h"

#define SKEW_INDEX_KEY "{tidelock:agents}"
#define SKEW_KEY_SIZE (sizeof SKEW_INDEX_KEY + SKEW_NAME_SIZE)
#define SKEW_RECORD_SIZE 512
#define SKEW_ID_SIZE 48
#define SKEW_SERVER_SIZE 41
#define SKEW_LEASE 3 /**< times every_ms: two rounds may fail before the host is missing */
#define SKEW_EVERY_MOST_MS INT64_C(3600000)
#define SKEW_EVERY_ENDED_MS 1 /**< less than --every allows: the agent has ended its lease */
#define SKEW_REMEMBERED_MS INT64_C(86400000) /**< from the end of the lease */
#define SKEW_PPM_MOST                                                                              \
    1000000 /**< slew_ppm: at this rate or faster the measurements prove nothing */
#define SKEW_NAMES_MOST 10000 /**< names kept; more than are read, so that excess is noticed */

typedef struct {
    char id[SKEW_ID_SIZE]; /**< BOOT-PID: the host's boot, and the agent's process */
    /** a mark behind the ID: readers that don't know it take it for a part of the ID, and ignore it */
    skew_alarm alarm;
    int64_t at_us;      /**< the server's clock in its last reply: dates the evidence */
    tl_interval offset; /**< us */
    bool has_drift;
    tl_interval drift_ppb;
    int64_t slew_ppm, samples, steps, resumes;
    int64_t server_stepped_us; /**< the server's clock at its last step that was noticed; 0 never */
    int64_t every_ms;
    bool clash; /**< another agent publishes under the same name */
    /** the clock repeatedly moved more than a clock can; slew_ppm is its observed rate */
    bool unsteady;
    /** the server that `offset` is measured from: its run ID; "-": not reported */
    char server[SKEW_SERVER_SIZE];
} skew_record;

/** 1 to 64 letters, digits and . _ : - */
bool skew_name_ok(const char *name);

/** The record's key, for a valid name. */
void skew_record_key(char key[SKEW_KEY_SIZE], const char *name);

/** Write the record as text. */
void skew_record_write(char text[SKEW_RECORD_SIZE], const skew_record *record);

/** False: it is not exactly what skew_record_write would have written. */
bool skew_record_read(const char *text, size_t n, skew_record *ret);

/** Were the two published from the same boot of one host? */
bool skew_same_boot(const char *id, const char *other);

/** The end of the record's lease, on the server's clock in us. */
int64_t skew_record_end_us(const skew_record *record);

/** The server: its ID, its clock, and when it was last noticed to have stepped. */
typedef struct {
    const char *server; /**< as in a record */
    int64_t now_us, stepped_us;
} skew_record_at;

/** Judge a record at that moment. Fills all but the name. */
void skew_record_judge(const skew_record *record, const skew_record_at *at, int32_t drift_ppm,
                       skew_host *host);
