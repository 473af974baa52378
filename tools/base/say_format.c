/*
 * Formats a message as one line in one buffer, so that lines of several processes don't mix. Control bytes from a server
 * or a user are replaced, so that they can't reach the terminal.
 */
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/tool.h"

size_t say_format(char buf[SAY_LINE_SIZE], const char *format, va_list args) {
    static const char prefix[] = "tidelock: ";
    size_t len = sizeof prefix - 1;

    memcpy(buf, prefix, len);
    int more = vsnprintf(buf + len, SAY_LINE_SIZE - len - 1, format, args);
    if (more > 0)
        len += (size_t)more < SAY_LINE_SIZE - len - 1 ? (size_t)more : SAY_LINE_SIZE - len - 2;
    len = printable(buf, buf, len);
    buf[len++] = '\n';
    return len;
}
