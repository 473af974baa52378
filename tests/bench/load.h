/*
 * Work for the server: a process of its own that always has the next commands waiting for it. Its CPU
 * time is neither the client's nor the server's, and it gives way to the client.
 */
#pragma once

/** From the main thread, while there is no other. The server is at work on return. */
void load_start(void);
void load_stop(void);
