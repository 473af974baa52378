/*
 * Waiting in line: what a message to an inbox says, how far it may be believed, and when to look by oneself.
 */
#pragma once

#include "protocol/protocol.h"

#define TL_LOOK_AGAIN_MS 5000 /**< look again at least so often, whatever was promised */
#define TL_POLL_MIN_MS 50     /**< where nobody tells */
#define TL_POLL_MAX_MS 250

/** What a message to an inbox is about. */
typedef enum { TL_LINE_NONSENSE, TL_LINE_GRANT, TL_LINE_LOOK, TL_LINE_NEAR } tl_line_message;

/** Read "grant TOKEN FENCE TIME_US LEASE_MS OTHERS KEY", "look KEY" or "near TOKEN KEY"; of a grant all but
 *  `run` and `arrived`. */
tl_line_message tl__line_read(tl_bytes message, tl_bytes *ret_key, tl_bytes *ret_token,
                              tl_grant *ret_grant);

/** May a grant be believed at once, and until when? Only if it comes from the run of the server that was joined
 *  at (`run`), and half of the lease is left by the latest that the server's clock can show; never where nobody
 *  renews it at once, or replicas are to confirm it. */
bool tl__line_believe(const tl_grant *grant, uint64_t run, const tl_job *job, const tl_event *event,
                      tl_mono *ret_deadline);

/** A pause, or less: until the holder's time is up. Waiters for one end don't all come at once. */
int64_t tl__until_hint_ms(tl_mono hint, int64_t pause_ms, tl_mono now, uint64_t *random);

/** For how long to trust in being told, by the answer to a look: the first three mind the end of the holder's time,
 *  and the first of all a holder who announces nothing. `near`: it has become one of them since. */
int64_t tl__line_pause_ms(const tl_acquire_result *r, bool near, tl_mono now, uint64_t *random);
