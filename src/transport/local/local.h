/*
 * The server of local: URLs: a private redis-server of this user on a socket in a directory that
 * nobody else may enter. It is started when it is first needed, by whoever needs it, and outlives
 * its starter. The asker never waits: the work is done in a thread that can be abandoned.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <tidelock/tidelock.h>

#define TL_LOCAL_SOCKET "redis.sock"
#define TL_LOCAL_DIR_SIZE 97 /**< so that the socket's path fits into a socket address */
#define TL_LOCAL_MESSAGE_SIZE 400

/** Why it can't be had. TL_EDENIED: the directory is not to be trusted. */
typedef struct {
    tl_err code;
    bool late; /**< only time ran out: what an earlier try met may say more */
    char message[TL_LOCAL_MESSAGE_SIZE];
} tl_local_problem;

/** Set both, and return false. */
bool tl__local_failed(tl_local_problem *problem, tl_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** The directory of the URL "local:": /tmp/tidelock-UID, whatever the environment says. `to` has
 *  TL_LOCAL_DIR_SIZE bytes. */
void tl__local_default_dir(char *to);

/**
 * Open the directory if it is one of this user's that nobody else may enter; make it when asked to.
 * A descriptor, or -1 and the problem, whose code is TL_OK when there is no such directory.
 */
int tl__local_open_dir(const char *path, bool make, tl_local_problem *problem);

/** Could it be opened? false: the problem, as above. */
bool tl__local_may_enter(const char *path, tl_local_problem *problem);

/** In the directory: is there a live server, or one that is just starting? */
bool tl__local_is_alive(int dir);

/** The pid that the last server in it wrote down; 0: none. */
int64_t tl__local_pid(int dir);

/** Does a server of this directory live that can't be found through it, as the directory was moved
 *  or removed? Its name tells (see local_inside.h). true: the problem says so. */
bool tl__local_is_hidden(const char *path, tl_local_problem *problem);

/** Is the process at the far end of this unix socket one of this user's? */
bool tl__local_is_ours(int fd);

typedef struct tl_local tl_local;

/** Begin to find or start the server. NULL and errno: no memory, descriptor or thread. */
tl_local *tl__local_start(const char *path, int64_t limit_ms);

/** Readable once it is done. */
int tl__local_fd(const tl_local *local);
bool tl__local_done(const tl_local *local);

/** Done: NULL when the socket answers, or why it does not. */
const tl_local_problem *tl__local_problem(const tl_local *local);

/** Done or not: give it up. A server that is being started goes on starting. NULL is fine. */
void tl__local_free(tl_local *local);
