/*
 * This host: its name, its boot, and its clock measured against the server's.
 */
#pragma once

#include "base/moment.h"
#include "skew/skew_sample.h"
#include "skew/judge/skew_record.h"

/** The host's name, with '_' for what skew_name_ok refuses. */
void skew_self_name(char name[SKEW_NAME_SIZE]);

/** This process's ID: BOOT-PID. */
void skew_self_id(char id[SKEW_ID_SIZE]);

/** The server's run ID, or "-" if it does not report one. False: link->status and link->message say
 *  why. */
bool skew_self_server(server_link *link, char server[SKEW_SERVER_SIZE]);

/** How long and how often to measure: until there are `samples`, or for_ms have passed and there is
 *  one. */
typedef struct {
    int samples;
    int64_t for_ms, pause_ms;
    /** called between samples, false ends them; may be NULL */
    bool (*go_on)(void *ctx, int64_t done_ms);
    void *ctx;
} skew_effort;

/** Measure; the first request also connects. False: link->status and link->message say why. */
bool skew_self_measure(server_link *link, skew_track *track, const skew_effort *effort,
                       int32_t rate_ppm);

/** Make a record of the track and the kernel's report, as old as the last sample. Only for a track
 *  that is known. */
void skew_self_record(const skew_track *track, const kernel_clock *kernel, const char *server,
                      skew_record *ret);

/** The rate, in ppm, at which this host's clock and the server's may drift apart. */
int32_t skew_self_rate(const kernel_clock *kernel);
