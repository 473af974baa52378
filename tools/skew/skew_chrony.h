/*
 * What chronyd believes of this host's clock: how far it is from the true time, and how sure that is. It
 * says nothing of any other clock, so that it is shown beside the measurement and is in no pair.
 */
#pragma once

#include <stddef.h>

#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_track.h"

typedef struct {
    int64_t system_us;    /**< this host's clock less chronyd's idea of the true time */
    int64_t error_us;     /**< how far that idea may be off: root dispersion + root delay/2 */
    int64_t reference_us; /**< when it last heard of a better clock, since the epoch */
    int64_t interval_us;  /**< between the last two times that it did; 0: unknown */
} chrony_state;

/** Read the line that "chronyc -c tracking" prints, at the moment now_us of this host's clock. False: why,
 *  and ret_status, one word. */
bool chrony_read(const char *text, size_t n, int64_t now_us, chrony_state *ret,
                 const char **ret_status, char why[SKEW_DETAIL_SIZE]);

typedef struct {
    bool known;
    chrony_state state;
    skew_reading at; /**< the line came */
    const char *status;
    char why[SKEW_DETAIL_SIZE];
} chrony_report;

/** Run "chronyc -n -c [-h SOCKET] tracking", for 5 s at most. socket "" is chronyc's own choice. */
void chrony_ask(chrony_report *report, const char *socket);

/** Fill the row of this host, all but the name, at the reading `now`. own is this host's clock less the
 *  Redis server's, or NULL when unknown. */
void chrony_judge(const chrony_report *report, const skew_reading *now, const tl_interval *own,
                  skew_host *host);
