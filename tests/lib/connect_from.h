/*
 * Where this process's connections by TCP come from, as a proxy sees it that parts some of them from others.
 */
#pragma once

/** From now on, in any thread: from 127.0.0.LAST, to whatever is on the loopback; 1: as the system has it. A forked
 *  child goes on so until it says otherwise. */
void connect_from(unsigned last);
