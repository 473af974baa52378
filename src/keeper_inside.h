/*
 * The inside of the keeper, for its two files: keeper, the thread, and keeper_run, what it runs. All
 * with the mutex held, but where it says otherwise.
 */
#ifndef TL_KEEPER_INSIDE_H
#define TL_KEEPER_INSIDE_H

#include "keeper.h"

/** Have the thread look again, if it doesn't anyway. */
void tl__keeper_wake(tl_keeper *keeper);
/** The same without the mutex. */
void tl__keeper_rouse(tl_keeper *keeper);

/** One step of a task, and what it asks for. The task may be gone afterwards. */
void tl__keeper_run(tl_keeper *keeper, tl_task *task, const tl_event *event);

/** Send what has been joined. */
void tl__keeper_flush(tl_keeper *keeper);

/** Give the tasks what has been posted to them. */
void tl__keeper_run_posts(tl_keeper *keeper);

/* keeper_watch: */

/** Somebody with a key to watch comes or goes. */
void tl__keeper_watch(tl_keeper *keeper);
void tl__keeper_unwatch(tl_keeper *keeper);
/** Read its key, so that the server tells of the next change: after what we have written ourselves. */
void tl__keeper_look(tl_keeper *keeper, const tl_task *task);
/** The same for a listener, who is told when it has been read. */
void tl__keeper_look_for(tl_keeper *keeper, tl_listener *listener);
/** The keeper's connection is new: it must ask again. */
void tl__keeper_watch_anew(tl_keeper *keeper);
/** The server's answer to that. */
void tl__keeper_watch_answer(tl_keeper *keeper, bool watches);
/** For the wake-ups; ctx is the keeper. */
void tl__keeper_on_changed(void *ctx, tl_bytes key);

/* keeper_run: */

/** Listen, with the mutex held. */
void tl__keeper_listen_in(tl_keeper *keeper, tl_listener *listener, tl_bytes topic, tl_bytes key);
void tl__keeper_forget_in(tl_keeper *keeper, tl_listener *listener);
/** Send what is no task's. Its answer goes to tl__keeper_watch_answer for `watch`, to the listener if
 *  there is one, else nowhere. */
void tl__keeper_send_own(tl_keeper *keeper, const tl_send *send, bool watch, tl_listener *listener);

/** For the connection and for the wake-ups; ctx is the keeper. */
void tl__keeper_on_answer(void *ctx, const tl_answer *answer);
void tl__keeper_on_woken(void *ctx, tl_bytes topic, tl_bytes payload);
void tl__keeper_on_armed(void *ctx, tl_bytes topic, bool armed);

/** When the thread has ended, and no mutex is needed any more. */
void tl__keeper_end_tasks(tl_keeper *keeper);
void tl__keeper_free_spares(tl_keeper *keeper);

#endif
