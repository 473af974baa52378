/*
 * One line of a log, as a result again. Pure but for memory.
 */
#ifndef TIDELOCK_SKEW_LOGLINE_H
#define TIDELOCK_SKEW_LOGLINE_H

#include "base/jsonin.h"
#include "skew/judge/skew_judge.h"

/** The head of a line: when, the verdict, the rule. False, and why, when it is none of ours. */
bool logline_head(const json_tree *t, skew_result *r, const char **ret_why);

/** The hosts of a line, one after the other: *at is NULL at first. False: there is none left, or it is none
 *  of ours, and then *ret_why is not NULL. */
bool logline_host(const json_tree *t, const json_value **at, skew_host *h, const char **ret_why);

/** By how much the taker's clock was ahead in the worst pair of a line. False: it has no pair. */
bool logline_worst(const json_tree *t, tl_interval *ret_gap);

/** All of a line: hosts and pairs are allocated, and freed by logline_end. False: none of ours (why), or
 *  no memory (why is NULL). */
bool logline_all(const json_tree *t, skew_result *r, const char **ret_why);
void logline_end(skew_result *r);

#endif
