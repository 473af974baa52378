/*
 * chronyd's estimate of this host's clock: how far it is from the true time, and how sure that is.
 * It says nothing about other clocks. So it is shown beside the measurement, and is part of no
 * pair.
 */
#pragma once

#include <stddef.h>

#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_track.h"

typedef struct {
    int64_t system_us;    /**< this host's clock - chronyd's estimate of the true time */
    int64_t error_us;     /**< error of that estimate: root dispersion + root delay/2 */
    int64_t reference_us; /**< its last update from a source, since the epoch */
    int64_t interval_us;  /**< between its last two updates; 0: unknown */
} chrony_state;

/** Read the line of "chronyc -c tracking", printed at now_us of this host's clock. False: `why` has
 *  the reason, and ret_status one word. */
bool chrony_read(const char *text, size_t n, int64_t now_us, chrony_state *ret,
                 const char **ret_status, char why[SKEW_DETAIL_SIZE]);

typedef struct {
    bool known;
    chrony_state state;
    skew_reading at; /**< when the line was read */
    const char *status;
    char why[SKEW_DETAIL_SIZE];
} chrony_report;

/** Run "chronyc -n -c [-h SOCKET] tracking", for 5 s at most. With socket "" chronyc chooses the
 *  socket. */
void chrony_ask(chrony_report *report, const char *socket);

/** The offset wall clock - true time, as chronyd believes. Only for a known report. */
tl_interval chrony_offset(const chrony_report *report, tl_mono now);

/** Fill this host's row, all but the name, at the reading `now`. own is this host's clock minus the
 *  Redis server's; NULL: unknown. */
void chrony_judge(const chrony_report *report, const skew_reading *now, const tl_interval *own,
                  skew_host *host);
