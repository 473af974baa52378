/*
 * Ports for the servers of tests.
 *
 * Tests run beside one another. A port that is only looked for, and free at that moment, may belong to another test's
 * server when one's own begins to listen, or to a client's connection. So each port is claimed until the process ends, by
 * a lock on a file that all tests of the user share, and lies below those that the system gives to clients.
 * tests/cli/lib.sh claims in the same way.
 */
#pragma once

/** One of 127.0.0.1 that nothing listens on, this process' own until it ends. Ends the process when there is none. */
int ports_claim(void);
