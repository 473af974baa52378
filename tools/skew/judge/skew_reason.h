/*
 * Why a verdict is what it is, and what to do about it. Pure.
 */
#pragma once

#include "skew/judge/skew_judge.h"

/** Each sets the reason, and adds the advice; result->verdict is set before. */
void skew_say_theft(skew_result *result, const skew_pair *pair); /**< p: the surest */
void skew_say_doubt(skew_result *result, const skew_pair *pair); /**< p: the worst */
void skew_say_close(skew_result *result, const skew_pair *pair); /**< p: the worst */
void skew_say_safe(skew_result *result, const skew_pair *pair);  /**< p: the worst */
void skew_say_unmeasured(skew_result *result);
/** h: the host that lacks evidence most, or NULL; how many do; and how many hosts are measured. */
void skew_say_lacking(skew_result *result, const skew_host *host, int lacking, int hosts);
