/*
 * Waiting for descriptors, and the kinds that a thread waits for beside its sockets: one that other threads
 * make readable, one that becomes readable at an instant, and one that stands for several. The only module that polls.
 *
 * Like each module that asks the system for something it has no state of its own
 * and is reached by its functions alone, so that a program can be linked with another in its place.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "ground/clock.h"

/** Wait until one of the descriptors is ready, as poll does, or until `until`: TL_NEVER, or an instant that
 *  has passed to look only. A descriptor of -1 is never ready. It may return early: look again. */
void tl__wait(struct pollfd *fds, unsigned count, tl_mono until);

/** A descriptor to be woken by; and one to be woken at an instant of the deadline clock. Neither blocks nor
 *  outlives an exec; -1 and errno. */
int tl__wake_open(void);
int tl__timer_open(void);
void tl__wake_close(int fd);

/** A descriptor that is readable as long as one of those is that have been added to it; close it as the others. Neither
 *  blocks nor outlives an exec; -1 and errno. */
int tl__gather_open(void);
/** false: no memory. */
bool tl__gather_add(int gather, int fd);
/** Before that is closed: a forked child may have it open for longer. errno stays. */
void tl__gather_drop(int gather, int fd);

/** Make it readable. Any thread; errno stays. */
void tl__wake_post(int fd);

/** Make a timer readable at `at`, at once if that has passed, or never for TL_NEVER; errno stays. */
void tl__timer_set(int fd, tl_mono at);

/** Either kind: it is not readable any more, until the next post or instant. errno stays. */
void tl__wake_clear(int fd);
