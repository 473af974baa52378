/*
 * Writes a message to stderr. It is not in say.c, so that a test can define say_line()
 * itself and see the messages.
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
            return; /* there is no place to report that stderr fails */
        line += n;
        len -= (size_t)n;
    }
}
