/*
 * Wake-ups from etcd: one stream of watches for all that a client's waiters wait for. A topic is "REVISION KEY": told is
 * the deletion of the key after that revision. For wakeup alone, whose calls these are.
 *
 * A stream can't be added to: where a topic is new the next is opened, with all of them. One that is new there is told of from
 * now on, and its listeners are woken at once if something has happened since its revision; the others from where they were. So
 * nothing is missed meanwhile. It goes to the member that the client's requests go to.
 *
 * A topic that is only seen is patient: it is asked for when it has been one for TL_WATCH_GATHER_MS, together with others, and
 * no sooner than the last time is TL_WATCH_EACH_MS ago for each that there is; there are TL_WATCH_SEEN_MAX at most.
 */
#ifndef TL_WATCH_H
#define TL_WATCH_H

#include "transport/wakeup.h"

#define TL_WATCH_GATHER_MS 500
#define TL_WATCH_EACH_MS 2
#define TL_WATCH_SEEN_MAX 1000

typedef struct tl_watch tl_watch;

/** NULL: out of memory. */
tl_watch *tl__watch_new(const tl_conn_limits *limits, const tl_wakeup_calls *calls);
void tl__watch_free(tl_watch *watch);
tl_err tl__watch_listen(tl_watch *watch, tl_bytes name, tl_mono now);
void tl__watch_seen(tl_watch *watch, tl_bytes name, int64_t revision, tl_mono now);
void tl__watch_forget(tl_watch *watch, tl_bytes name);
bool tl__watch_listens(const tl_watch *watch);
bool tl__watch_up(const tl_watch *watch);
int tl__watch_fd(const tl_watch *watch);
short tl__watch_events(const tl_watch *watch);
tl_mono tl__watch_until(const tl_watch *watch);
void tl__watch_drive(tl_watch *watch, tl_mono now);

#endif
