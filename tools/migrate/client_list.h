/*
 * Reads CLIENT LIST: who is connected, with which library, and what each sent last. A hint for people, never
 * proof: a client may be between two connections, and any client may call itself anything. Pure.
 */
#pragma once

#include "base/tool.h"
#include "transport/conn.h" /* tl_bytes */

/** A connection. A text that the server doesn't report is "". */
typedef struct {
    char address[64];
    char name[64];                 /**< CLIENT SETNAME */
    char library[48], version[32]; /**< CLIENT SETINFO, from 7.2 on */
    char user[64];                 /**< from 6.0 on */
    char command[32]; /**< its last command, in lower case; with subcommand "client|list" */
} client_row;

/** Read the next connection, and take its line from the list. False: the list has ended. */
bool client_list_next(tl_bytes *list, client_row *ret);

/** Can it be a connection of tidelock, of the Java drop-in, or of the server itself, by its last command? Its
 *  library says nothing of that: the drop-in goes over its caller's client. */
bool client_may_be_ours(const client_row *row);

/** Was its last command one by which legacy clients lock: SETNX or GETSET? */
bool client_is_suspect(const client_row *row);

/** "10.0.0.7:4001 called web (jedis 5.1.0) as user app, last command setnx"; without what isn't known. Returns buf. */
#define CLIENT_SHOWN 240
const char *client_show(char buf[CLIENT_SHOWN], const client_row *row);
