/*
 * tidelock skew report: reads logs line by line, whatever became of them, and tells what they say.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "base/tool.h"
#include "skew/skew_sample.h"
#include "skew/show/skew_story.h"
#include "skew/skew_report.h"

#define COMPLAINTS 5 /* a file; more are counted */

/* ---- reading ------------------------------------------------------------------------------------ */

typedef struct {
    char *line; /* PAST_LINE_MOST + 1 of room */
    size_t len;
    bool too_long;
    int64_t number, skipped;
} reading;

/* The next line, without its newline; false at the end. */
static bool next_line(FILE *in, reading *r) {
    int c;

    r->len = 0;
    r->too_long = false;
    r->number++;
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
        if (r->len == PAST_LINE_MOST)
            r->too_long = true;
        else
            r->line[r->len++] = (char)c;
    }
    return c != EOF || r->len > 0;
}

static void skip(const char *file, reading *r, const char *why) {
    if (++r->skipped <= COMPLAINTS)
        say("%.200s line %lld: %s; skipped", file, (long long)r->number, why);
}

static bool is_blank(const reading *r) {
    size_t i = 0;
    while (i < r->len && strchr(" \t\r", r->line[i]) && r->line[i])
        i++;
    return i == r->len && !r->too_long;
}

/* False: no memory. */
static bool read_lines(skew_past *p, const char *file, FILE *in, reading *r) {
    const char *why;

    while (next_line(in, r)) {
        if (is_blank(r))
            continue;
        past_added added = r->too_long ? PAST_NOT_OURS : past_add(p, r->line, r->len, &why);
        if (added == PAST_NO_MEMORY)
            return false;
        if (added == PAST_NOT_OURS)
            skip(file, r, r->too_long ? "it is too long" : why);
    }
    return true;
}

static int read_file(skew_past *p, const char *file, char *room) {
    reading r = {.line = room};
    bool given = strcmp(file, "-") == 0;
    FILE *in = given ? stdin : fopen(file, "re");

    if (!in)
        return fail(STATUS_CONFIG, "%.200s: %s", file, strerror(errno));
    errno = 0;
    bool memory = read_lines(p, file, in, &r);
    int why = ferror(in) ? errno : 0;
    if (!given)
        (void)fclose(in);
    p->skipped += r.skipped;
    if (r.skipped > COMPLAINTS)
        say("%.200s: %lld lines skipped in all", file, (long long)r.skipped);
    if (!memory)
        return fail(STATUS_INTERNAL, "out of memory");
    return why ? fail(STATUS_CONFIG, "%.200s: %s", file, strerror(why)) : 0;
}

static int read_files(skew_past *p, char *const *file, int files) {
    char *room = malloc(PAST_LINE_MOST + 1);
    int status = 0;

    if (!room)
        return fail(STATUS_INTERNAL, "out of memory");
    for (int i = 0; i < files && status == 0; i++)
        status = read_file(p, file[i], room);
    free(room);
    return status;
}

/* ---- telling ------------------------------------------------------------------------------------ */

typedef struct {
    const skew_story *story;
    skew_report_format format;
} telling;

static void tell(const void *ctx, FILE *out) {
    static void (*const faces[])(const skew_story *, FILE *) = {story_text, story_json, story_html};
    const telling *t = ctx;
    faces[t->format](t->story, out);
}

static int put(const skew_story *s, skew_report_format format, const char *output) {
    telling t = {.story = s, .format = format};

    if (output)
        return outfile_replace("--output", output, tell, &t);
    tell(&t, stdout);
    if (fflush(stdout) || ferror(stdout))
        return fail(STATUS_INTERNAL, "standard output: %s", strerror(errno));
    return 0;
}

static int tell_story(skew_past *p, skew_report_format format, const char *output,
                      int64_t stale_after_ms) {
    skew_story s = {.past = NULL};

    if (p->runs == 0)
        return fail(SKEW_UNKNOWN, "skew report: no line of \"tidelock skew --log\" is in there");
    int status = past_settle(p) && story_begin(&s, p) ? 0 : fail(STATUS_INTERNAL, "out of memory");
    if (status == 0) {
        s.made_ms = skew_reading_now().wall_us / 1000;
        s.stale_after_ms = stale_after_ms ? stale_after_ms : s.stale_after_ms;
        status = put(&s, format, output);
    }
    story_end(&s);
    return status ? status : (int)p->last.verdict;
}

int skew_report(char *const *file, int files, skew_report_format format, const char *output,
                int64_t stale_after_ms) {
    skew_past p = {.run = NULL};

    if (files == 0)
        return fail(STATUS_USAGE, "skew report: FILE is missing: skew report FILE...");
    int status = read_files(&p, file, files);
    if (status == 0)
        status = tell_story(&p, format, output, stale_after_ms);
    past_end(&p);
    return status;
}
