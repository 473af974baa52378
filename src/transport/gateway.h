/*
 * Turns bytes from etcd's gateway into replies: HTTP by http, JSON by jansson, which only this module uses. A
 * build without jansson can read nothing; then tl__gateway_works is false.
 */
#pragma once

#include "wire/etcd.h"
#include "wire/reply.h"

typedef struct tl_gateway tl_gateway;

bool tl__gateway_works(void);

/** NULL: out of memory. prefix: removed from the keys; it must outlive the gateway. */
tl_gateway *tl__gateway_new(tl_bytes prefix);
void tl__gateway_free(tl_gateway *gateway);
/** The client has a user, and can log in. Then etcd's error for a request without a user is reported as a
 *  login that has expired. */
void tl__gateway_logs_in(tl_gateway *gateway, bool does);

/** As in resp.h: reset for a new connection; feed bytes; */
void tl__gateway_reset(tl_gateway *gateway);
void tl__gateway_feed(tl_gateway *gateway, const char *bytes, size_t n);
/** take the next reply, to a request of this kind, valid until the release: 1, 0 or -1; */
int tl__gateway_next(tl_gateway *gateway, tl_etcd_kind kind, tl_reply *ret);
/** or take the next message of a stream of TL_ETCD_WATCH; the stream's end is an ERROR. */
int tl__gateway_message(tl_gateway *gateway, tl_reply *ret);
bool tl__gateway_is_out_of_memory(const tl_gateway *gateway);
const char *tl__gateway_problem(const tl_gateway *gateway);
void tl__gateway_release(tl_gateway *gateway);

/** Does the server close the connection after the last reply? */
bool tl__gateway_closes(const tl_gateway *gateway);

/** For tests: read a reply's body alone. 1, or -1. */
int tl__gateway_read(tl_gateway *gateway, tl_etcd_kind kind, int status, tl_bytes body,
                     tl_reply *ret);
