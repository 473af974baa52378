/*
 * The plays of test_threads.c.
 */
#pragma once

#include "stage.h"

extern const sim_play sim_plays[];
extern const unsigned sim_play_count;
