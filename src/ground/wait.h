/*
 * Waiting for descriptors. Beside sockets there are three kinds: a wake-up, which other threads make
 * readable; a timer, which becomes readable at an instant; a gather, which stands for several. The only
 * module that polls.
 *
 * Like each module that calls the system it keeps no state of its own and is used only by its functions: so a
 * program can be linked with a replacement.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "ground/clock.h"

/** Wait as poll does until one of the descriptors is ready, or until `until`: TL_NEVER, or an instant in the
 *  past, which only looks. A descriptor of -1 is never ready. It may return early: check again. */
void tl__wait(struct pollfd *fds, unsigned count, tl_mono until);

/** A wake-up descriptor; and a timer on the deadline clock. Neither blocks nor outlives an exec; -1 and
 *  errno. */
int tl__wake_open(void);
int tl__timer_open(void);
void tl__wake_close(int fd);

/** A descriptor that is readable while one of those added to it is; close it with tl__wake_close. It never
 *  blocks and does not outlive an exec; -1 and errno. */
int tl__gather_open(void);
/** false: no memory. */
bool tl__gather_add(int gather, int fd);
/** Remove fd before it is closed: a forked child may keep it open for longer. Preserves errno. */
void tl__gather_drop(int gather, int fd);

/** Make a wake-up readable. Any thread; preserves errno. */
void tl__wake_post(int fd);

/** Make a timer readable at `at`, at once if that has passed, or never for TL_NEVER; preserves errno. */
void tl__timer_set(int fd, tl_mono at);

/** Make a wake-up or a timer unreadable, until the next post or instant. Preserves errno. */
void tl__wake_clear(int fd);
