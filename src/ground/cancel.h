/*
 * pthread_cancel of a thread of the program's, while it is within a call. A mutex that such a thread has would stay locked,
 * and a lock that it has just acquired would stay held: so a call isn't cancelled, but where it says that it may be, and then
 * it cleans up. The only module that knows of it.
 */
#pragma once

/** Nothing cancels this thread from now on. Returns what was in force before. */
int tl__cancel_off(void);
/** What was in force before is so again; for TL_UNCANCELLED, and around a wait that may be cancelled. */
void tl__cancel_back(const int *was);

/** For the first line of a public function: a cancellation that comes meanwhile waits until it has returned. It may call
 *  functions of the program's, too. `cancel` is what was in force. */
#define TL_UNCANCELLED                                                                             \
    __attribute__((cleanup(tl__cancel_back), unused)) int cancel = tl__cancel_off()

/** work(ctx); should the thread be cancelled in it, undo(ctx) runs before the thread ends, and the caller isn't
 *  returned to. */
void tl__cancel_guard(void (*work)(void *ctx), void (*undo)(void *ctx), void *ctx);
