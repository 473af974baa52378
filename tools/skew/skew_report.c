/*
 * tidelock skew report: reads logs line by line, damaged ones too, and summarises them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "base/tool.h"
#include "skew/skew_sample.h"
#include "skew/show/skew_story.h"
#include "skew/skew_report.h"

#define COMPLAINTS 5 /* messages per file; further ones are only counted */

/* ---- reading ------------------------------------------------------------------------------------ */

typedef struct {
    char *line; /* room for PAST_LINE_MOST + 1 bytes */
    size_t len;
    bool too_long;
    int64_t number, skipped;
} reading;

/* The next line, without its newline; false at the end. */
static bool next_line(FILE *in, reading *reading) {
    int c;

    reading->len = 0;
    reading->too_long = false;
    reading->number++;
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
        if (reading->len == PAST_LINE_MOST)
            reading->too_long = true;
        else
            reading->line[reading->len++] = (char)c;
    }
    return c != EOF || reading->len > 0;
}

static void skip(const char *file, reading *reading, const char *why) {
    if (++reading->skipped <= COMPLAINTS)
        say("%.200s line %lld: %s; skipped", file, (long long)reading->number, why);
}

static bool is_blank(const reading *reading) {
    size_t i = 0;
    while (i < reading->len && strchr(" \t\r", reading->line[i]) && reading->line[i])
        i++;
    return i == reading->len && !reading->too_long;
}

/* False: out of memory. */
static bool read_lines(skew_past *past, const char *file, FILE *in, reading *reading) {
    const char *why;

    while (next_line(in, reading)) {
        if (is_blank(reading))
            continue;
        past_added added = reading->too_long ? PAST_NOT_OURS
                                             : past_add(past, reading->line, reading->len, &why);
        if (added == PAST_NO_MEMORY)
            return false;
        if (added == PAST_NOT_OURS)
            skip(file, reading, reading->too_long ? "it is too long" : why);
    }
    return true;
}

static int read_file(skew_past *past, const char *file, char *room) {
    reading reading = {.line = room};
    bool given = strcmp(file, "-") == 0;
    FILE *in = given ? stdin : fopen(file, "re");

    if (!in)
        return fail(STATUS_CONFIG, "%.200s: %s", file, strerror(errno));
    errno = 0;
    bool memory = read_lines(past, file, in, &reading);
    int why = ferror(in) ? errno : 0;
    if (!given)
        (void)fclose(in);
    past->skipped += reading.skipped;
    if (reading.skipped > COMPLAINTS)
        say("%.200s: %lld lines skipped in all", file, (long long)reading.skipped);
    if (!memory)
        return fail(STATUS_INTERNAL, "out of memory");
    return why ? fail(STATUS_CONFIG, "%.200s: %s", file, strerror(why)) : 0;
}

static int read_files(skew_past *past, char *const *file, int files) {
    char *room = malloc(PAST_LINE_MOST + 1);
    int status = 0;

    if (!room)
        return fail(STATUS_INTERNAL, "out of memory");
    for (int i = 0; i < files && status == 0; i++)
        status = read_file(past, file[i], room);
    free(room);
    return status;
}

/* ---- writing the summary -------------------------------------------------------------------- */

typedef struct {
    const skew_story *story;
    skew_report_format format;
} telling;

static void tell(const void *ctx, FILE *out) {
    static void (*const faces[])(const skew_story *, FILE *) = {story_text, story_json, story_html};
    const telling *telling = ctx;
    faces[telling->format](telling->story, out);
}

static int put(const skew_story *story, skew_report_format format, const char *output) {
    telling telling = {.story = story, .format = format};

    if (output)
        return outfile_replace("--output", output, tell, &telling);
    tell(&telling, stdout);
    if (fflush(stdout) || ferror(stdout))
        return fail(STATUS_INTERNAL, "standard output: %s", strerror(errno));
    return 0;
}

static int tell_story(skew_past *past, skew_report_format format, const char *output,
                      int64_t stale_after_ms) {
    skew_story story = {.past = NULL};

    if (past->runs == 0)
        return fail(SKEW_UNKNOWN,
                    "skew report: the files contain no line of \"tidelock skew --log\"");
    int status = past_settle(past) && story_begin(&story, past)
                     ? 0
                     : fail(STATUS_INTERNAL, "out of memory");
    if (status == 0) {
        story.made_ms = skew_reading_now().wall_us / 1000;
        story.stale_after_ms = stale_after_ms ? stale_after_ms : story.stale_after_ms;
        status = put(&story, format, output);
    }
    story_end(&story);
    return status ? status : (int)past->last.verdict;
}

int skew_report(char *const *file, int files, skew_report_format format, const char *output,
                int64_t stale_after_ms) {
    skew_past past = {.run = NULL};

    if (files == 0)
        return fail(STATUS_USAGE, "skew report: FILE is missing: skew report FILE...");
    int status = read_files(&past, file, files);
    if (status == 0)
        status = tell_story(&past, format, output, stale_after_ms);
    past_end(&past);
    return status;
}
