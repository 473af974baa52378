/*
 * Turns messages of etcd from protobuf into replies, as gateway does from JSON.
 */
#pragma once

#include "transport/reply_room.h"
#include "wire/etcd.h"

/** Read the reply to a request of this kind; without the prefix from its keys. NULL; or the problem:
 *  room->exhausted, or the message is malformed. The reply keeps pointing into the message. */
const char *tl__grpc_read(tl_reply_room *room, tl_etcd_kind kind, tl_bytes message, tl_bytes prefix,
                          tl_reply *ret);
