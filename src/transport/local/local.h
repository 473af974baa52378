/*
 * The server of local: URLs: a private redis-server of this user, on a socket in a directory that no other
 * user may enter. The first program that needs the server starts it; the server outlives that program. The
 * caller never waits: a thread that can be abandoned does the work.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <tidelock/tidelock.h>

#define TL_LOCAL_SOCKET "redis.sock"
#define TL_LOCAL_DIR_SIZE 97 /**< so that the socket's path fits into a socket address */
#define TL_LOCAL_MESSAGE_SIZE 400

/** The reason why there is no server. TL_EDENIED: the directory can't be trusted. */
typedef struct {
    tl_err code;
    bool late; /**< only the time ran out: an earlier problem may explain more */
    char message[TL_LOCAL_MESSAGE_SIZE];
} tl_local_problem;

/** Set code and message; returns false. */
bool tl__local_failed(tl_local_problem *problem, tl_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** The directory of the URL "local:": /tmp/tidelock-UID, whatever the environment says. `to` has
 *  TL_LOCAL_DIR_SIZE bytes. */
void tl__local_default_dir(char *to);

/**
 * Open the directory if this user owns it and no other user may enter it; with `make`, create it if it
 * doesn't exist. Returns a descriptor, or -1 with the problem, whose code is TL_OK if there is no such
 * directory.
 */
int tl__local_open_dir(const char *path, bool make, tl_local_problem *problem);

/** Could it be opened? false: the problem, as above. */
bool tl__local_may_enter(const char *path, tl_local_problem *problem);

/** Does a server of this directory live, or is one just starting? */
bool tl__local_is_alive(int dir);

/** The pid that the directory's last server wrote down; 0: none. */
int64_t tl__local_pid(int dir);

/** Does a server of this directory live that can't be reached through it, since the directory was moved or
 *  removed? Its name shows that (see local_inside.h). true: the problem is set. */
bool tl__local_is_hidden(const char *path, tl_local_problem *problem);

/** Does the process at the far end of this unix socket belong to this user? */
bool tl__local_is_ours(int fd);

typedef struct tl_local tl_local;

/** Begin to find or start the server. NULL and errno: no memory, descriptor or thread. */
tl_local *tl__local_start(const char *path, int64_t limit_ms);

/** Readable once it is done. */
int tl__local_fd(const tl_local *local);
bool tl__local_done(const tl_local *local);

/** Done: NULL if the server replies on its socket, else the problem. */
const tl_local_problem *tl__local_problem(const tl_local *local);

/** Free it, done or not. A start of a server goes on. NULL is fine. */
void tl__local_free(tl_local *local);
