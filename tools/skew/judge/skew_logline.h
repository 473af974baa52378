/*
 * Reads one line of a log back into a result. Pure except for memory.
 */
#pragma once

#include "base/js.h"
#include "skew/judge/skew_judge.h"

/** Read the head of a line: time, verdict, rule. False: it is a foreign line; ret_why has the
 *  reason. */
bool logline_head(const json_t *line, skew_result *result, const char **ret_why);

/** Read a host of a line, by index from 0. False: there are no more; or it is a foreign line, and
 *  *ret_why is not NULL. */
bool logline_host(const json_t *line, size_t at, skew_host *host, const char **ret_why);

/** By how much the taker's clock was ahead in the worst pair of a line. False: it has no pair. */
bool logline_worst(const json_t *line, tl_interval *ret_gap);

/** Read all of a line. Hosts and pairs are allocated; logline_end frees them. False: a foreign line
 *  (ret_why has the reason), or no memory (*ret_why is NULL). */
bool logline_all(const json_t *line, skew_result *result, const char **ret_why);
void logline_end(skew_result *result);
