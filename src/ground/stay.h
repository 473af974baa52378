/*
 * For code that a thread runs which can't be waited for: a plug-in that has the library in it may be closed meanwhile.
 */
#pragma once

/** What this code was loaded with stays in memory until the process ends, even if the program closes it (dlclose). errno stays. */
void tl__stay_loaded(void);
