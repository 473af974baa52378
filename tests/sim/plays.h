/*
 * The plays of test_threads.c.
 */
#ifndef SIM_PLAYS_H
#define SIM_PLAYS_H

#include "stage.h"

extern const sim_play sim_plays[];
extern const unsigned sim_play_count;

#endif
