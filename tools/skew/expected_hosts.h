/*
 * Which hosts are required: by name, by number, and whether this host counts. Pure.
 */
#pragma once

#include "base/optparse.h"
#include "skew/skew_fleet.h"

/** From the command's options. */
typedef struct {
    opt_texts expect; /**< names, with commas between */
    int min_hosts;    /**< 0: not given */
    bool no_self;     /**< this host acquires no locks */
} expected_hosts;

/** Returns 0, or the exit status after a message. */
int expected_hosts_check(const expected_hosts *expected, const char *self);

/** Apply the options to the measured hosts. With no_self this host is part of no pair. Each
 *  expected host that is missing gets a row. */
void expected_hosts_apply(const expected_hosts *expected, skew_fleet *fleet);
