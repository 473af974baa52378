/*
 * The members of an etcd, as a URL names them: any of them will do, and all of a client's connections go to the same
 * until that one fails. Any thread. And how one logs in there: for a token, which is a secret.
 */
#pragma once

#include <stdatomic.h>

#include "transport/endpoint.h"
#include "wire/etcd.h"

typedef struct {
    unsigned count;
    atomic_uint at; /**< whom to connect to */
    tl_bytes prefix;
    char prefix_text[TL_SEEDS_PREFIX];
    tl_endpoint endpoint[]; /**< `count` of them */
} tl_members;

/** like: login, files and TLS of each, by its secret and file names, which are needed as long. NULL: out of memory. */
tl_members *tl__members_new(const tl_endpoint *like, const tl_seeds *seeds);
void tl__members_free(tl_members *members);

/** This one has failed: the next is the one to connect to, unless another has said so already. */
void tl__members_pass(tl_members *members, unsigned failed);

/** The bytes of a login; returns how many, and writes only if they fit. */
size_t tl__members_ask_token(const tl_endpoint *endpoint, const tl_etcd_via *via, char *to,
                             size_t size);
/** A copy of what was answered. false: it could be no part of a header, or out of memory. */
bool tl__members_keep_token(tl_bytes *token, tl_bytes answer);
/** Wipe the copy. None (zeroed) is fine. */
void tl__members_forget_token(tl_bytes *token);
