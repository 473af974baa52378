/*
 * The choices of a run, as a list: at each of them there is a usual way, 0, and others. A run is told by where it goes
 * another way and which; all with at most so many others are gone through, or some are drawn.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SIM_CHOICES_TEXT 400 /**< room for a run as a text */

typedef struct sim_choices sim_choices;

sim_choices *sim_choices_new(void);
void sim_choices_free(sim_choices *c);

/** Go through all runs that leave the usual way at most so often, beginning with the one that never does. */
void sim_choices_all(sim_choices *c, unsigned most);
/** After each of those: is there another? */
bool sim_choices_more(sim_choices *c);
/** One that leaves it about so often, at places of a run as long as the last one was. */
void sim_choices_draw(sim_choices *c, uint64_t seed, unsigned times);
/** One that goes as a text says; false: it isn't such a text. */
bool sim_choices_read(sim_choices *c, const char *text);

/** Before each run. Nothing is chosen until sim_choices_on. */
void sim_choices_begin(sim_choices *c);
/** From here on it is chosen, or no more. */
void sim_choices_on(sim_choices *c, bool on);
/** Which of `ways`. */
unsigned sim_choices_next(sim_choices *c, unsigned ways);

/** How many choices the run has had, and how often it has left the usual way. */
unsigned sim_choices_count(const sim_choices *c);
unsigned sim_choices_turnings(const sim_choices *c);
/** The run as a text, "12:1 40:2": at which choice which way. */
void sim_choices_print(const sim_choices *c, char to[SIM_CHOICES_TEXT]);
