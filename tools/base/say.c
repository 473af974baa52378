/*
 * Messages for people: one line on stderr, after the pending messages of say_late.c.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/tool.h"

void say(const char *format, ...) {
    char buf[SAY_LINE_SIZE];
    va_list args;

    va_start(args, format);
    size_t len = say_format(buf, format, args);
    va_end(args);
    say_drain(SAY_FOREVER);
    say_line(buf, len);
}

int fail(int status, const char *format, ...) {
    char buf[SAY_LINE_SIZE];
    va_list args;

    va_start(args, format);
    size_t len = say_format(buf, format, args);
    va_end(args);
    say_drain(SAY_FOREVER);
    say_line(buf, len);
    return status;
}

const char *show_key(char buf[KEY_SHOWN], const char *key) {
    size_t len = strlen(key);

    if (len < KEY_SHOWN)
        (void)snprintf(buf, KEY_SHOWN, "%s", key);
    else
        (void)snprintf(buf, KEY_SHOWN, "%.*s... (%zu bytes)", KEY_SHOWN - 40, key, len);
    return buf;
}

const char *show_ms(char buf[DURATION_SHOWN], int64_t ms) {
    if (ms < 1000)
        (void)snprintf(buf, DURATION_SHOWN, "%lld ms", (long long)ms);
    else if (ms < 100000)
        (void)snprintf(buf, DURATION_SHOWN, "%lld.%lld s", (long long)(ms / 1000),
                       (long long)(ms % 1000 / 100));
    else if (ms < INT64_C(100) * 60000)
        (void)snprintf(buf, DURATION_SHOWN, "%lld s", (long long)(ms / 1000));
    else if (ms < INT64_C(100) * 3600000)
        (void)snprintf(buf, DURATION_SHOWN, "%lld min", (long long)(ms / 60000));
    else
        (void)snprintf(buf, DURATION_SHOWN, "%lld d", (long long)(ms / 86400000));
    return buf;
}

const char *show_span(char buf[DURATION_SHOWN], int64_t ms) {
    long long min = ms / 60000, h = min / 60, d = h / 24;

    if (ms < 100000)
        return show_ms(buf, ms);
    if (min < 100)
        (void)snprintf(buf, DURATION_SHOWN, "%lld min", min);
    else if (h < 48)
        (void)snprintf(buf, DURATION_SHOWN, "%lld h %lld min", h, min % 60);
    else
        (void)snprintf(buf, DURATION_SHOWN, "%lld d %lld h", d, h % 24);
    return buf;
}
