/*
 * The parts that the two codecs of etcd share, codec_etcd (JSON) and codec_grpc: which member is asked, and when it is
 * left.
 */
#pragma once

#include "transport/conn_inside.h"

/** As the functions of tl_codec. */
bool tl__etcd_lead(tl_conn *conn);
/** By the JSON gateway. */
bool tl__etcd_lead_gateway(tl_conn *conn);
bool tl__etcd_goes_on(tl_conn *conn);
/** closes: the member ends the connection. */
const char *tl__etcd_leaves(tl_conn *conn, const tl_slot *slot, bool closes);
/** Prepare conn->login for a new connection, without its bytes. */
void tl__etcd_begin_login(tl_conn *conn);
tl_login_outcome tl__etcd_on_login(tl_conn *conn, const tl_reply *reply, tl_mono received);

/** The gateway is asked, since the member spoke no HTTP/2 on the connection before: go back to gRPC for the
 *  next one. */
bool tl__etcd_become_grpc(tl_conn *conn);

/** The kind of the reply that is next. */
tl_etcd_kind tl__etcd_next_kind(const tl_conn *conn);

extern const char tl__etcd_another_member[];
/** Why the connection is left: the member speaks no HTTP/2. The next one leads to it again. */
extern const char tl__etcd_other_protocol[];
