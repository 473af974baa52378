/*
 * The story of a run, told only when it is run again to be told: one line for each thing that
 * happened, of which the last ones are kept.
 */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define LINES 4000  /* kept */
#define SHOWN 80    /* of one key */
#define TRACED 3000 /* with `trace` */

typedef struct {
    sim_ns at;
    int key;
    char who[4];
    char text[200];
} line;

struct sim_story {
    uint64_t count;
    line line[LINES];
};

void sim_story_reset(sim_world *w) {
    if (w->telling && !w->story)
        w->story = malloc(sizeof *w->story);
    if (w->story)
        w->story->count = 0;
    if (w->telling && !w->story)
        abort();
}

void sim_story_free(sim_world *w) {
    free(w->story);
}

void sim_say(sim_world *w, const char *who, int key, const char *format, ...) {
    va_list args;
    line *l = &w->story->line[w->story->count++ % LINES];
    l->at = w->now;
    l->key = key;
    (void)snprintf(l->who, sizeof l->who, "%s", who);
    va_start(args, format);
    (void)vsnprintf(l->text, sizeof l->text, format, args);
    va_end(args);
}

static bool concerns(const sim_world *w, const line *l) {
    return w->failed_key == SIM_ALL || l->key == SIM_ALL || l->key == w->failed_key;
}

void sim_print_story(const sim_world *w, FILE *to) {
    const struct sim_story *s = w->story;
    uint64_t first = s->count > LINES ? s->count - LINES : 0, from = s->count;
    for (int shown = 0; from > first && shown < (w->cfg.trace ? TRACED : SHOWN); from--)
        shown += concerns(w, &s->line[(from - 1) % LINES]);
    if (from > 0)
        (void)fprintf(to, "...\n");
    for (; from < s->count; from++) {
        const line *l = &s->line[from % LINES];
        if (concerns(w, l))
            (void)fprintf(to, "[%9lld.%03lld ms] %-3s %s\n", (long long)(l->at / SIM_MS),
                          (long long)(l->at / 1000 % 1000), l->who, l->text);
    }
}
