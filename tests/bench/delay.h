/*
 * A proxy in a process of its own that hands bytes on after a fixed time, each way, in order. Its
 * CPU time is neither the client's nor the server's.
 */
#ifndef DELAY_H
#define DELAY_H

#include <stdint.h>

/** To a port of 127.0.0.1; from the main thread, while there is no other. Ends with the program. */
void delay_start(int port);
int delay_port(void);
/** Of each byte, one way; 0 in the beginning. Takes effect at once. */
void delay_set(int64_t ns);

#endif
