/*
 * How a connection speaks with a kind of server, a row for each: what it sends and receives, how it logs in, where it goes
 * on to. A connection's files call conn->codec, and ask nowhere which kind it is.
 */
#pragma once

#include "transport/conn.h"
#include "transport/login.h"
#include "transport/slot.h"

struct tl_codec {
    const char *reply;         /**< message: this is no ... */
    const char *unanswered;    /**< message, added: a new connection ended without a reply */
    bool strangers_do_nothing; /**< a server that speaks otherwise has executed no request */
    bool watches;              /**< it tells of changes by a stream of watches, not on channels */

    /** What the codec keeps in the connection, whose limits are set. false: out of memory, with nothing to end. */
    bool (*make)(tl_conn *conn);
    void (*end)(tl_conn *conn);

    /** Before connecting: where to. false: nobody knows, and it is to look again. */
    bool (*lead)(tl_conn *conn);
    /** The connection is over. Is there a place left to be tried at once? NULL: there is only one. */
    bool (*goes_on)(tl_conn *conn);

    /** Forget the former connection's replies, and make conn->login. TL_ENOMEM; TL_EINVALID: it is too long */
    tl_err (*begin)(tl_conn *conn);
    /** As of tl__login_reply. */
    tl_login_outcome (*on_login)(tl_conn *conn, const tl_reply *reply, tl_mono received);

    /** Encode a request, by tl__slot_fill. false: out of memory */
    bool (*fill)(tl_conn *conn, tl_slot *slot, const tl_command *command, uint8_t count);
    /** For tl_slot.encode. */
    size_t (*encode)(const tl_slot *slot, const tl_command *command, char *to, size_t size);
    /** The connection is up: encode one that was queued before as it is said here. The same. */
    bool (*dress)(tl_conn *conn, tl_slot *slot);

    /** Bytes in, which may be changed; then the next reply, as of tl__resp_next, _is_out_of_memory, _words and _release. */
    void (*feed)(tl_conn *conn, char *bytes, size_t n);
    int (*next)(tl_conn *conn, tl_reply *ret);
    bool (*is_out_of_memory)(const tl_conn *conn);
    const char *(*problem)(const tl_conn *conn, tl_bytes heard);
    void (*release)(tl_conn *conn);

    /** A request has its replies, conn->reply. Do they end the connection, as soon as all that was sent is answered?
     *  Message: another ...; NULL: no. */
    const char *(*leaves)(tl_conn *conn, const tl_slot *slot);
    /** Is it, in no queue any more, to be sent again? true: it was queued, or refused. NULL: never. */
    bool (*again)(tl_conn *conn, tl_slot *slot);
};

static inline const tl_codec *tl__codec_of(const tl_conn_limits *limits) {
    return limits->codec ? limits->codec : &tl__codec_resp;
}
