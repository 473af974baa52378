/*
 * Ends a watch on a signal, or on q if standard input is a terminal with this process in its
 * foreground. Restores the terminal's settings.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/tool.h"
#include "skew/skew_watch.h"

#define LOOK_MS 60000

/* In the background the terminal belongs to another process group. */
static bool is_ours(void) {
    return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void take_keys(skew_watch *watch) {
    struct termios now;

    if (!watch->keys || !is_ours())
        return;
    now = watch->before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    now.c_cc[VMIN] = 0;
    now.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

int skew_watch_begin(skew_watch *watch) {
    *watch = (skew_watch){.ended_by = 0};
    if (signals_begin(&watch->sigs))
        return fail(STATUS_INTERNAL, "signals: %s", strerror(errno));
    watch->keys = is_ours() && tcgetattr(STDIN_FILENO, &watch->before) == 0;
    take_keys(watch);
    return 0;
}

static bool read_q(void) {
    char key[16];
    ssize_t n = is_ours() ? read(STDIN_FILENO, key, sizeof key) : 0;

    return n > 0 && (memchr(key, 'q', (size_t)n) || memchr(key, 'Q', (size_t)n));
}

bool skew_watch_pause(skew_watch *watch, int64_t ms) {
    int64_t until = moment_ms() + ms;

    for (int64_t left = ms; !watch->ended_by; left = until - moment_ms()) {
        struct pollfd p[] = {
            {.fd = watch->sigs.fd, .events = POLLIN},
            {.fd = watch->keys && is_ours() ? STDIN_FILENO : -1, .events = POLLIN}};
        (void)poll(p, 2, left <= 0 ? 0 : left > LOOK_MS ? LOOK_MS : (int)left);
        if (p[1].revents & POLLIN && read_q())
            watch->ended_by = 'q';
        else if (p[1].revents & ~POLLIN) /* the terminal was closed; SIGHUP ends the watch */
            watch->keys = false;
        if (p[0].revents) {
            int sig = signals_pause(&watch->sigs, 0);
            watch->ended_by = sig ? sig : watch->ended_by;
            take_keys(watch); /* again, in case the process was stopped meanwhile */
        }
        if (left <= 0)
            break;
    }
    return watch->ended_by != 0;
}

int skew_watch_end(skew_watch *watch, int status) {
    if (watch->keys && is_ours())
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &watch->before);
    signals_restore(&watch->sigs);
    signals_end(&watch->sigs);
    if (watch->ended_by == 0 || watch->ended_by == 'q' || watch->ended_by == SIGINT)
        return status;
    return signals_status(watch->ended_by);
}
