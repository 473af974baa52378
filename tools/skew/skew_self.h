/*
 * This host: its name, its boot, and its clock measured against the server's.
 */
#pragma once

#include "base/moment.h"
#include "skew/skew_sample.h"
#include "skew/judge/skew_record.h"

/** The host's name, with '_' for what skew_name_ok refuses. */
void skew_self_name(char name[SKEW_NAME_SIZE]);

/** BOOT-PID of this process. */
void skew_self_id(char id[SKEW_ID_SIZE]);

/** Which server answers: its run id, or "-" when it does not tell. False: link->status and link->message say why. */
bool skew_self_server(server_link *link, char server[SKEW_SERVER_SIZE]);

/** How long and how often to measure: until `samples` are there, or for_ms have passed with one. */
typedef struct {
    int samples;
    int64_t for_ms, pause_ms;
    bool (*go_on)(void *ctx, int64_t done_ms); /**< asked between samples; may be NULL */
    void *ctx;
} skew_effort;

/** Measure; the first question also connects. False: link->status and link->message say why. */
bool skew_self_measure(server_link *link, skew_track *track, const skew_effort *effort,
                       int32_t rate_ppm);

/** What the track and the kernel say, as a record that is as old as the last sample. Only for a track
 *  that is known. */
void skew_self_record(const skew_track *track, const kernel_clock *kernel, const char *server,
                      skew_record *ret);

/** The rate at which this host's clock and the server's may part. */
int32_t skew_self_rate(const kernel_clock *kernel);
