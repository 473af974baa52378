/*
 * How a connection speaks with one kind of server, as a row of functions: what it sends and receives, how it
 * logs in, where it goes on to. The files of a connection call conn->codec; none of them asks for the kind of
 * the server.
 */
#pragma once

#include "transport/conn.h"
#include "transport/login.h"
#include "transport/slot.h"

struct tl_codec {
    const char *reply; /**< for a message: "this is no ..." */
    /** For a message: appended if a new connection ended without a reply */
    const char *unanswered;
    /** A server that replies in another protocol has executed no request */
    bool strangers_do_nothing;
    bool watches; /**< the server notifies by a stream of watches, not on channels */
    bool calls;   /**< by gRPC, if it speaks that */

    /** Set up the codec's state in the connection, whose limits are set. false: out of memory, and there is
     *  nothing for `end` to free. */
    bool (*make)(tl_conn *conn);
    void (*end)(tl_conn *conn);

    /** Choose the server to connect to. false: it is unknown yet; try again later. */
    bool (*lead)(tl_conn *conn);
    /** The connection has ended. Is there another server to try at once? NULL: there is only one. */
    bool (*goes_on)(tl_conn *conn);

    /** Forget the replies of the former connection, and prepare conn->login. TL_ENOMEM; TL_EINVALID: the
     *  login is too long */
    tl_err (*begin)(tl_conn *conn);
    /** As tl__login_reply. */
    tl_login_outcome (*on_login)(tl_conn *conn, const tl_reply *reply, tl_mono received);

    /** Encode a request with tl__slot_fill. false: out of memory */
    bool (*fill)(tl_conn *conn, tl_slot *slot, const tl_command *command, uint8_t count);
    /** For tl_slot.encode. */
    size_t (*encode)(const tl_slot *slot, const tl_command *command, char *to, size_t size);
    /** The connection is up: encode a request that was queued earlier again, if this connection needs other
     *  bytes. false: out of memory */
    bool (*dress)(tl_conn *conn, tl_slot *slot);

    /** Write what can be written of the queued requests, each of which is then wholly written for its slot.
     *  false: the stream broke. NULL: their bytes are written, in the order of the queue. */
    bool (*write)(tl_conn *conn);
    /** Has it more to write? NULL, with `write`: no */
    bool (*has_output)(const tl_conn *conn);

    /** Feed bytes, which may be changed; then take the next reply. As tl__resp_next, _is_out_of_memory,
     *  _message and _release. */
    void (*feed)(tl_conn *conn, char *bytes, size_t n);
    int (*next)(tl_conn *conn, tl_reply *ret);
    bool (*is_out_of_memory)(const tl_conn *conn);
    const char *(*problem)(const tl_conn *conn, tl_bytes heard);
    void (*release)(tl_conn *conn);

    /** All replies to a request are in conn->reply. Must the connection end once everything that was sent has
     *  been answered? Returns the end of a message, "another ..."; NULL: no. */
    const char *(*leaves)(tl_conn *conn, const tl_slot *slot);
    /** Must this request, which is in no queue, be sent again? true: it has been queued, or rejected. NULL:
     *  never. */
    bool (*again)(tl_conn *conn, tl_slot *slot);
};

static inline const tl_codec *tl__codec_of(const tl_conn_limits *limits) {
    return limits->codec ? limits->codec : &tl__codec_resp;
}
