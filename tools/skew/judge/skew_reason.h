/*
 * Why a verdict is what it is, and what to do about it. Pure.
 */
#ifndef TIDELOCK_SKEW_REASON_H
#define TIDELOCK_SKEW_REASON_H

#include "skew/judge/skew_judge.h"

/** Each sets the reason, and adds the advice; r->verdict is set before. */
void skew_say_theft(skew_result *r, const skew_pair *p); /**< p: the surest */
void skew_say_doubt(skew_result *r, const skew_pair *p); /**< p: the worst */
void skew_say_close(skew_result *r, const skew_pair *p); /**< p: the worst */
void skew_say_safe(skew_result *r, const skew_pair *p);  /**< p: the worst */
void skew_say_unmeasured(skew_result *r);
/** h: the host that lacks evidence most, or NULL; how many do; and how many hosts are measured. */
void skew_say_lacking(skew_result *r, const skew_host *h, int lacking, int hosts);

#endif
