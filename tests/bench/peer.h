/*
 * A program of another library's clients, which loop over one lock when they are told to (README.md).
 */
#pragma once

#include <stdint.h>

typedef struct peer peer;

/** Start it, and wait until its n clients have reached the server at that port. */
peer *peer_open(const char *path, int port, int n, int64_t hold_us);
void peer_close(peer *p); /**< NULL is fine */

void peer_begin(peer *p);
void peer_end(peer *p); /**< on return nobody loops */
/** Turns of each client so far; returns how long they have held together, ns. */
double peer_turns(peer *p, double *ret_turns);
