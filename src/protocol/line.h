/*
 * Queuing on the server: what a message to an inbox says, how far a grant may be believed, and when to look
 * without a notification.
 */
#pragma once

#include "protocol/protocol.h"

/** a waiter looks again at least this often, whatever was promised */
#define TL_LOOK_AGAIN_MS 5000
#define TL_POLL_MIN_MS 50 /**< bounds of a random pause where no notifications come */
#define TL_POLL_MAX_MS 250

/** The subject of a message to an inbox. */
typedef enum { TL_LINE_NONSENSE, TL_LINE_GRANT, TL_LINE_LOOK, TL_LINE_NEAR } tl_line_message;

/** Read "grant TOKEN FENCE TIME_US LEASE_MS OTHERS KEY", "look KEY" or "near TOKEN KEY". Of a grant it sets
 *  all members but `run` and `arrived`. */
tl_line_message tl__line_read(tl_bytes message, tl_bytes *ret_key, tl_bytes *ret_token,
                              tl_grant *ret_grant);

/** May a grant be believed at once, and until when? It must come from the run of the server where the waiter
 *  joined (`run`). Half of the lease must be left, by the latest that the server's clock can show. A grant is
 *  never believed where no thread renews the lock at once, or where replicas must confirm it. */
bool tl__line_believe(const tl_grant *grant, uint64_t run, const tl_job *job, const tl_event *event,
                      tl_mono *ret_deadline);

/** The pause, or less: until the holder's expiry (hint). A few random ms keep all waiters from asking at the
 *  same moment. */
int64_t tl__until_hint_ms(tl_mono hint, int64_t pause_ms, tl_mono now, uint64_t *random);

/** How long a waiter relies on notifications, by the reply to a look. The first three waiters watch for the
 *  holder's expiry. The very first also polls behind a holder whose release is not announced. `near`: the
 *  waiter became one of the first three after that look. */
int64_t tl__line_pause_ms(const tl_acquire_result *r, bool near, tl_mono now, uint64_t *random);
