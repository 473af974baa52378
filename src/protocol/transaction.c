#include "protocol/transaction.h"

tl_command *tl__say(tl_send *send, const char *name, tl_bytes key) {
    tl_command *command = tl__try_command(send);
    tl__try_add(command, tl__bytes_of(name));
    if (key.n > 0)
        tl__try_add(command, key);
    return command;
}

/* EXEC's reply ends a transaction: on closing, only EXEC's reply is an array or nil. */
static bool open_after_exec(const tl_reply *reply, uint8_t count) {
    bool ended = false;
    for (size_t i = 0; i < count; i++)
        ended = ended || reply[i].type == TL_REPLY_ARRAY || reply[i].type == TL_REPLY_NIL;
    return !ended;
}

static bool open_after_multi(const tl_reply *reply, uint8_t count) {
    (void)reply, (void)count;
    return true;
}

/* In either state the server refuses one of these, which does no harm. */
static const tl_command forget[] = {{.argc = 1, .argv = {{"DISCARD", 7}}},
                                    {.argc = 1, .argv = {{"UNWATCH", 7}}}};

const tl_pin tl__pin_opens = {.is_open = open_after_multi, .undo = forget, .undos = 2};
const tl_pin tl__pin_closes = {
    .closes = true, .is_open = open_after_exec, .undo = forget, .undos = 2};

const tl_reply *tl__first_error(const tl_reply *replies, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (replies[i].type == TL_REPLY_ERROR)
            return &replies[i];
    return NULL;
}
