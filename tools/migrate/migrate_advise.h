/*
 * Which M, L and T to give to clients beside legacy clients, out of what a survey has seen. Pure. A
 * value that was not seen is the default, and says so; no value is below the default's margin because
 * of a few samples.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "migrate/migrate_found.h"

/** The facts that a survey has seen. */
typedef struct {
    int64_t given_ttl_ms;    /**< the lifetime, as the caller says; 0: not given */
    found_samples lifetimes; /**< each stamp's end minus the server's clock as it was written */
    found_samples delays;    /**< from SETNX to GETSET of one attempt */
    found_samples holds;
    int64_t left_most_ms; /**< the most time left of stamps that were there already; -1: none */
    int clocks;           /**< hosts whose clocks were measured narrowly */
    int vague;            /**< hosts whose clocks were not */
    int64_t off_most_us;  /**< of the clocks that were: the largest distance from the server's */
    bool relative;        /**< the lifetime was estimated from the same stamps */
} survey_facts;

#define ADVICE_SIZE 320

typedef struct {
    int64_t skew_ms, delay_ms, ttl_ms; /**< M, L, T */
    char skew_why[ADVICE_SIZE], delay_why[ADVICE_SIZE], ttl_why[ADVICE_SIZE];
    char warning[ADVICE_SIZE]; /**< "" none */
} survey_advice;

void survey_advise(const survey_facts *facts, survey_advice *ret);
