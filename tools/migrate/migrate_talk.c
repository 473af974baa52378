/*
 * Progress and questions on a terminal while a subcommand of migrate runs.
 */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "migrate/migrate.h"

#define PROGRESS_MS 100
#define MOMENT_MS 2000

void migrate_progress(const char *format, ...) {
    static int64_t last_ms = 0;
    int64_t now_ms = moment_ms();
    va_list args;

    if (!isatty(STDERR_FILENO) || (format && last_ms && now_ms - last_ms < PROGRESS_MS))
        return;
    (void)fputs(last_ms ? "\r\033[K" : "", stderr);
    last_ms = format ? now_ms : 0;
    if (format) {
        va_start(args, format);
        (void)vfprintf(stderr, format, args);
        va_end(args);
    }
    (void)fflush(stderr);
}

void migrate_say_wait(const char *word, const char *what, int64_t most_ms) {
    char most[DURATION_SHOWN];

    if (most_ms > MOMENT_MS && !isatty(STDERR_FILENO))
        say("migrate %s: %s, for %s at most", word, what, show_ms(most, most_ms));
}

int migrate_confirm(const migrate_work *work, const char *question) {
    char answer[16];

    if (work->options->yes)
        return 0;
    (void)fprintf(stderr, "%s [y/N] ", question);
    (void)fflush(stderr);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    return fail(STATUS_REFUSED, "migrate %s: nothing is changed", work->word);
}
