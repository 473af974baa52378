/*
 * A proxy in a process of its own that hands bytes on after a fixed time, each way, in order. Its
 * CPU time is neither the client's nor the server's.
 */
#pragma once

#include <stdint.h>

typedef struct delay delay;

/** To a port of 127.0.0.1; from the main thread, while there is no other. Ends with the program, or before. */
delay *delay_start(int port);
void delay_free(delay *d); /**< no-op with NULL */
int delay_port(const delay *d);
/** Of each byte, one way; 0 in the beginning. Takes effect at once. */
void delay_set(delay *d, int64_t ns);
