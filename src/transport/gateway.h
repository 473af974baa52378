/*
 * Bytes from etcd's gateway to replies: HTTP by http, JSON by jansson, here alone. In a build without jansson nothing
 * can be read, and tl__gateway_works says so.
 */
#pragma once

#include "wire/etcd.h"
#include "wire/reply.h"

typedef struct tl_gateway tl_gateway;

bool tl__gateway_works(void);

/** NULL: out of memory. prefix: what is taken off the keys; it outlives the gateway. */
tl_gateway *tl__gateway_new(tl_bytes prefix);
void tl__gateway_free(tl_gateway *gateway);
/** Whoever asks has a user, and can log in: what etcd says of requests without one is told as of a login that is over. */
void tl__gateway_logs_in(tl_gateway *gateway, bool does);

/** As of tl_resp: for a new connection; bytes in; */
void tl__gateway_reset(tl_gateway *gateway);
void tl__gateway_feed(tl_gateway *gateway, const char *bytes, size_t n);
/** the next answer, to a request of this kind, valid until the release: 1, 0 or -1; */
int tl__gateway_next(tl_gateway *gateway, tl_etcd_kind kind, tl_reply *ret);
/** or the next message of a stream of TL_ETCD_WATCH, whose end is an ERROR. */
int tl__gateway_message(tl_gateway *gateway, tl_reply *ret);
bool tl__gateway_is_out_of_memory(const tl_gateway *gateway);
const char *tl__gateway_problem(const tl_gateway *gateway);
void tl__gateway_release(tl_gateway *gateway);

/** The server closes the connection behind the last answer. */
bool tl__gateway_closes(const tl_gateway *gateway);

/** For tests: the body of an answer alone. 1, or -1. */
int tl__gateway_read(tl_gateway *gateway, tl_etcd_kind kind, int status, tl_bytes body,
                     tl_reply *ret);
