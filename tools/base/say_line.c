/*
 * A message as it leaves the process. Apart from say.c, so that a test that defines say_line()
 * itself sees what would have been said.
 */
#include <errno.h>
#include <unistd.h>

#include "base/tool.h"

void say_line(const char *line, size_t len) {
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, line, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* nobody can be told that stderr does not work */
        line += n;
        len -= (size_t)n;
    }
}
