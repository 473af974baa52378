/*
 * What the tests of the fake server share: a server with two connections, and a way to say what it
 * must answer.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "fake_redis.h"
#include "fake_show.h"
#include "tests.h"

#define NOW_US INT64_C(1700000000123456)
#define NOW_MS (NOW_US / 1000)

typedef struct {
    fake_redis *r;
    fake_conn *a, *b;
} fake_world;

/* ---- helpers --------------------------------------------------------------------------------- */

static inline void says(fake_conn *c, const char *line, const char *expected) {
    char text[FAKE_SHOW_SIZE];
    fake_show(fake_conn_say(c, line), text);
    if (strcmp(text, expected) != 0) {
        fail_msg("%s\n  answers  %s\n  expected %s", line, text, expected);
    }
}

/* The script, with keys k and l, answers this. */
static inline void runs(fake_conn *c, const char *script, const char *expected) {
    char text[FAKE_SHOW_SIZE];
    tl_bytes argv[] = {TL_LITERAL("EVAL"), tl__bytes_of(script), TL_LITERAL("2"),
                       TL_LITERAL("k"),    TL_LITERAL("l"),      TL_LITERAL("v")};
    fake_show(fake_conn_command(c, argv, 6), text);
    if (strncmp(text, expected, strlen(expected)) != 0) {
        fail_msg("%s\n  answers  %s\n  expected %s", script, text, expected);
    }
}

static inline void at_ms(fake_world *w, int64_t ms) {
    fake_redis_set_time(w->r, ms * 1000);
}

static inline int setup(void **state) {
    fake_world *w = calloc(1, sizeof(*w));
    w->r = fake_redis_new();
    fake_redis_allow_undeclared(w->r, NULL);
    w->a = fake_redis_connect(w->r, NULL, NULL);
    w->b = fake_redis_connect(w->r, NULL, NULL);
    fake_redis_set_time(w->r, NOW_US);
    *state = w;
    return 0;
}

static inline int teardown(void **state) {
    fake_world *w = *state;
    fake_redis_free(w->r);
    free(w);
    return 0;
}
