/*
 * The reason of a verdict, and what to do about it. Pure.
 */
#pragma once

#include "skew/judge/skew_judge.h"

/** Each sets the reason, and adds the advice; result->verdict is set before. */
/** pair: the most certain theft */
void skew_say_theft(skew_result *result, const skew_pair *pair);
void skew_say_doubt(skew_result *result, const skew_pair *pair); /**< p: the worst */
void skew_say_close(skew_result *result, const skew_pair *pair); /**< p: the worst */
/** Advise a larger slack if this one can't be SAFE however well the clocks agree. */
void skew_say_pad(skew_result *result);
void skew_say_safe(skew_result *result, const skew_pair *pair); /**< p: the worst */
/** Look at the one cause's hosts, not at the clock of a pair. */
void skew_say_cause(skew_result *result);
/** Add the alarm of this host, the worst one: alone where only alarms keep the verdict from SAFE. */
void skew_say_alarm(skew_result *result, const skew_host *host);
void skew_say_unmeasured(skew_result *result);
/** host: the host that most lacks evidence, or NULL; lacking: how many lack it; hosts: how many are
 *  measured. */
void skew_say_lacking(skew_result *result, const skew_host *host, int lacking, int hosts);
