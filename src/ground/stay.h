/*
 * For code in a thread that can't be waited for: the program may meanwhile unload the plug-in that contains
 * the library.
 */
#pragma once

/** Keep the object that contains this code loaded until the process ends, even if the program calls dlclose
 *  for it. Preserves errno. */
void tl__stay_loaded(void);
