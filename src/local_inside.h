/*
 * The inside of local:, for its files: local, the search for a server; local_dir, its directory;
 * local_launch, the one place where a process is started.
 *
 * Two locks keep two servers out of one directory. start.lock is held by who is starting one, for as
 * long as that takes. The directory itself is locked by the server, through its standard input, for
 * as long as it lives: whatever becomes of its starter, no second one begins beside it. (That lock
 * also tells those who tidy up /tmp to leave the directory alone.)
 */
#ifndef TL_LOCAL_INSIDE_H
#define TL_LOCAL_INSIDE_H

#include "clock.h"
#include "local.h"

#define TL_LOCAL_LOG "redis.log"
#define TL_LOCAL_PID "redis.pid"

/* ---- local_dir.c ------------------------------------------------------------------------------- */

/** The log for appending; when it has grown large it is put aside first. -1 and errno. */
int tl__local_open_log(int dir, int64_t *ret_size);

/** The last line that was logged after the first `from` bytes, without its stamp; "": none. */
void tl__local_last_line(int dir, int64_t from, char *line, size_t size);

/* ---- local_launch.c ---------------------------------------------------------------------------- */

typedef enum {
    TL_LAUNCHED,
    TL_LAUNCH_TAKEN, /**< another server has the directory */
    TL_LAUNCH_FAILED /**< the problem says why */
} tl_launch_result;

/** Start a server in the directory, and return when it is one or could not become one; `by` at the
 *  latest. It is nobody's child, in a session of its own. */
tl_launch_result tl__local_launch(const char *path, int dir, int log, tl_mono by,
                                  tl_local_problem *problem);

#endif
