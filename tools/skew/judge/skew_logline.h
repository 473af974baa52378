/*
 * One line of a log, as a result again. Pure but for memory.
 */
#pragma once

#include "base/js.h"
#include "skew/judge/skew_judge.h"

/** The head of a line: when, the verdict, the rule. False, and why, when it is none of ours. */
bool logline_head(const json_t *line, skew_result *result, const char **ret_why);

/** A host of a line, by number from 0. False: there are no more, or it is none of ours, and then *ret_why is
 *  not NULL. */
bool logline_host(const json_t *line, size_t at, skew_host *host, const char **ret_why);

/** By how much the taker's clock was ahead in the worst pair of a line. False: it has no pair. */
bool logline_worst(const json_t *line, tl_interval *ret_gap);

/** All of a line: hosts and pairs are allocated, and freed by logline_end. False: none of ours (why), or
 *  no memory (why is NULL). */
bool logline_all(const json_t *line, skew_result *result, const char **ret_why);
void logline_end(skew_result *result);
