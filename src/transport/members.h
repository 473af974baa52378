/*
 * The members of an etcd, as a URL names them. Any member can serve; all connections of a client go to the
 * same one until that fails. Any thread. Also the login there: it returns a token, which is a secret.
 */
#pragma once

#include <stdatomic.h>

#include "transport/endpoint.h"
#include "wire/etcd.h"

typedef struct {
    unsigned count;
    atomic_uint at;    /**< index of the one to connect to */
    atomic_uint http1; /**< a bit for each: the last connection found that it speaks no HTTP/2 */
    tl_bytes prefix;
    char prefix_text[TL_SEEDS_PREFIX];
    tl_endpoint endpoint[]; /**< `count` of them */
} tl_members;

/** like: login, files and TLS settings for all members. Its secret and file names must live as long. NULL:
 *  out of memory. */
tl_members *tl__members_new(const tl_endpoint *like, const tl_seeds *seeds);
void tl__members_free(tl_members *members);

/** Member `failed` has failed: connect to the next one from now on, unless another connection has already
 *  moved on. */
void tl__members_pass(tl_members *members, unsigned failed);

/** Is a stream of watches to ask this member by the JSON gateway? A connection for requests asks each time that
 *  it is made, and notes here what it finds. */
bool tl__members_is_http1(const tl_members *members, unsigned which);
void tl__members_set_http1(tl_members *members, unsigned which, bool http1);

/** Encode a login by a function of wire/etcd.h; returns the bytes needed, and writes only if they fit. */
size_t tl__members_ask_token(const tl_endpoint *endpoint, const tl_etcd_via *via,
                             tl_etcd_encoder *encode, char *to, size_t size);
/** Store a copy of the token in a reply. false: it can't be sent in a header, or out of memory. */
bool tl__members_keep_token(tl_bytes *token, tl_bytes answer);
/** Wipe and free the copy. A zeroed token is fine. */
void tl__members_forget_token(tl_bytes *token);
