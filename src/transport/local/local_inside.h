/*
 * The inside of local:, for its files: local, the search for a server; local_dir, its directory;
 * local_launch, the one place where a process is started.
 *
 * Two locks keep two servers out of one directory. start.lock is held by who is starting one, for as
 * long as that takes. The directory itself is locked by the server, through its standard input, for
 * as long as it lives: whatever becomes of its starter, no second one begins beside it. (That lock
 * also tells those who tidy up /tmp to leave the directory alone.)
 *
 * A third one stands for "one server for each user": the server of the default directory also has a
 * name, an abstract socket address, for as long as it lives. The name stays when the directory has
 * been removed, and is the same for a process that has a /tmp of its own (PrivateTmp= of systemd).
 * It contains which root directory is meant, so that a container has a server of its own.
 * The server of another directory has one too, made of that in which this lies: so a directory that
 * is moved away or removed gets no second server beside the one that others still hold locks of.
 */
#pragma once

#include <sys/un.h>

#include "ground/clock.h"
#include "transport/local/local.h"

#define TL_LOCAL_LOG "redis.log"
#define TL_LOCAL_PID "redis.pid"

/* ---- local_dir.c ------------------------------------------------------------------------------- */

/** The log for appending; when it has grown large it is put aside first. -1 and errno. */
int tl__local_open_log(int dir, int64_t *ret_size);

/** The last line that was logged after the first `from` bytes, without its stamp; "": none. */
void tl__local_last_line(int dir, int64_t from, char *line, size_t size);

/** The name of the directory's server; its size, or 0: it has none. */
socklen_t tl__local_name(const char *path, struct sockaddr_un *ret);

/** Take it. A descriptor that has it until the last copy is closed, or -1 and errno. */
int tl__local_take_name(const struct sockaddr_un *name, socklen_t size);

/** Set the problem of a name that is in use, and return false. */
bool tl__local_hidden(const char *path, tl_local_problem *problem);

/* ---- local_launch.c ---------------------------------------------------------------------------- */

typedef enum {
    TL_LAUNCHED,
    TL_LAUNCH_TAKEN,  /**< another server has the directory */
    TL_LAUNCH_HIDDEN, /**< another server has the name, perhaps only because it is just ending */
    TL_LAUNCH_FAILED  /**< the problem says why */
} tl_launch_result;

/** Start a server in the directory, and return when it is one or could not become one; `by` at the
 *  latest. It is nobody's child, in a session of its own. */
tl_launch_result tl__local_launch(const char *path, int dir, int log, tl_mono by,
                                  tl_local_problem *problem);
