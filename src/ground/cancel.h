/*
 * Protects calls against pthread_cancel of the program's thread. A thread cancelled within a call would leave
 * a mutex locked, or a newly acquired lock held. So cancellation is disabled during a call, except where the
 * header says that the call may be cancelled; there it cleans up. This is the only module that handles
 * cancellation.
 */
#pragma once

/** Disable cancellation of this thread. Returns the previous state. */
int tl__cancel_off(void);
/** Restore the previous state; for TL_UNCANCELLED, and around a wait that may be cancelled. */
void tl__cancel_back(const int *was);

/** For the first line of a public function: a cancellation that arrives during the call takes effect after it
 *  has returned. This also covers functions of the program that the call runs. `cancel` holds the previous
 *  state. */
#define TL_UNCANCELLED                                                                             \
    __attribute__((cleanup(tl__cancel_back), unused)) int cancel = tl__cancel_off()

/** Run work(ctx). If the thread is cancelled in it, undo(ctx) runs before the thread ends, and this function
 *  does not return. */
void tl__cancel_guard(void (*work)(void *ctx), void (*undo)(void *ctx), void *ctx);
