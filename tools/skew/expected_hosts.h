/*
 * Which hosts must be there: by name, by number, and whether this one counts. Pure.
 */
#pragma once

#include "base/optparse.h"
#include "skew/skew_fleet.h"

/** Of the command's options. */
typedef struct {
    opt_texts expect; /**< names, with commas between */
    int min_hosts;    /**< 0: nothing is said */
    bool no_self;     /**< this host acquires no locks */
} expected_hosts;

/** Returns 0, or the exit status after a message. */
int expected_hosts_check(const expected_hosts *expected, const char *self);

/** Of hosts that were measured: this one is in no pair if it acquires no locks, and whoever is
 *  expected and isn't there gets a row. */
void expected_hosts_apply(const expected_hosts *expected, skew_fleet *fleet);
