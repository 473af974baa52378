/*
 * The inside of local:, for its files: local finds the server; local_dir handles its directory; local_launch
 * is the only place where a process is started.
 *
 * Two locks keep two servers out of one directory. A process that starts a server holds start.lock for as
 * long as that takes. The server locks the directory itself, through its standard input, for as long as it
 * lives: so no second server starts, whatever happens to the starter. (That lock also keeps programs that
 * clean up /tmp from touching the directory.)
 *
 * A third one ensures one server for each user. The server of the default directory has a name, an abstract
 * socket address, for as long as it lives. The name stays when the directory has been removed. It is the same
 * for a process with its own /tmp (PrivateTmp= of systemd). It contains the identity of the root directory,
 * so that a container has a server of its own.
 *
 * The server of another directory has a name too, made from the parent directory. So a directory that is
 * moved or removed gets no second server while clients still hold locks of the first.
 */
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "ground/clock.h"
#include "transport/local/local.h"

#define TL_LOCAL_LOG "redis.log"
#define TL_LOCAL_PID "redis.pid"

/* ---- local_dir.c ------------------------------------------------------------------------------- */

/** Open the log for appending; if it has grown large it is renamed first. -1 and errno. */
int tl__local_open_log(int dir, int64_t *ret_size);

/** The last line that was logged after the first `from` bytes, without its timestamp; "": none. */
void tl__local_last_line(int dir, int64_t from, char *line, size_t size);

/** Make the name of the directory's server; returns its size, or 0: it has none. */
socklen_t tl__local_name(const char *path, struct sockaddr_un *ret);

/** Bind the name. Returns a descriptor that keeps it until the last copy is closed, or -1 and errno. */
int tl__local_take_name(const struct sockaddr_un *name, socklen_t size);

/** Set the problem that the name is in use; returns false. */
bool tl__local_hidden(const char *path, tl_local_problem *problem);

/* ---- local_launch.c ---------------------------------------------------------------------------- */

typedef enum {
    TL_LAUNCHED,
    TL_LAUNCH_TAKEN,  /**< another server has locked the directory */
    TL_LAUNCH_HIDDEN, /**< another server has the name, perhaps one that is just ending */
    TL_LAUNCH_FAILED  /**< the problem says why */
} tl_launch_result;

/** Start a server in the directory. Returns when it runs or has failed to start; `by` at the latest. It is no
 *  child of this process, and in a session of its own. */
tl_launch_result tl__local_launch(const char *path, int dir, int log, tl_mono by,
                                  tl_local_problem *problem);
