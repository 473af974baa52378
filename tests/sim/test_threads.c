/*
 * Small programs of a few threads, with the shipped library: no order in which their threads run breaks a promise. All orders
 * with a few switches are gone through, others are drawn.
 *
 *   PLAY=name       only this one; with CHOICES="12:1 40:2" one run of it, with its story
 *   CROWD=1         with a client whose callers share a connection, as those of a crowd do
 *   ALL=1           all orders with two or three switches; otherwise those with one, of each sixth play, and fewer that are drawn
 *   ALL=long        more of them: some minutes
 *   V=1             how many runs there were
 *
 * timeout: 300
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plays.h"
#include "tests.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SLOWER 10
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(undefined_behavior_sanitizer)
#define SLOWER 10
#endif
#endif
#ifndef SLOWER
#define SLOWER 1
#endif

#define PLAYS_MAX 128
#define EACH 6         /* of the plays, in a sample */
#define TURNINGS_MAX 9 /* of a run that is drawn */

/* Each play, and each among callers that share. */
typedef struct {
    const sim_play *play;
    bool crowd;
    unsigned number;
} showing;

static sim_world *world;
static bool crowd; /* of the present one */

static int set_up(void **state) {
    (void)state;
    world = sim_new();
    world->choices = sim_choices_new();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sim_choices_free(world->choices);
    sim_free(world);
    return 0;
}

static bool is_long(void) {
    const char *all = getenv("ALL");
    return all && strcmp(all, "long") == 0;
}

static bool is_sample(void) {
    return !is_long() && !tests_whole();
}

static sim_result run(const sim_play *play, bool tell) {
    sim_config c;
    sim_stage_config(&c, play);
    c.crowds = crowd;
    world->play = play;
    return sim_run(world, &c, tell, NULL);
}

static sim_result run_as(const sim_play *play, const char *text, bool tell) {
    if (!sim_choices_read(world->choices, text))
        fail_msg("CHOICES: not a run: %s", text);
    return run(play, tell);
}

/* ---- a run that fails -------------------------------------------------------------------------------- */

/* Without one of its turnings after the other, if it fails all the same. */
static void shrink(const sim_play *play, char text[SIM_CHOICES_TEXT]) {
    for (size_t i = 0; text[i];) {
        char fewer[SIM_CHOICES_TEXT];
        size_t n = strcspn(text + i, " ");
        n += text[i + n] == ' ';
        (void)snprintf(fewer, sizeof fewer, "%.*s%s", (int)i, text, text + i + n);
        if (run_as(play, fewer, false).failed)
            memcpy(text, fewer, sizeof fewer);
        else
            i += n;
    }
}

static void explain(const sim_play *play) {
    char text[SIM_CHOICES_TEXT];
    sim_choices_print(world->choices, text);
    shrink(play, text);
    sim_result r = run_as(play, text, true);
    sim_print_story(world, stdout);
    fail_msg("%s: %s: PLAY=%s%s CHOICES='%s'", play->name, r.failed ? r.what : "not again",
             play->name, crowd ? " CROWD=1" : "", text);
}

/* ---- all of them, and some --------------------------------------------------------------------------- */

static void go_through(const sim_play *play) {
    unsigned most = is_long() ? play->all_long : play->all;
    if ((SLOWER > 1 || crowd || is_sample()) && !is_long() && most > 1)
        most = 1;
    for (unsigned times = 0; times <= most; times++) {
        uint64_t runs = 0;
        clock_t began = clock();
        sim_choices_all(world->choices, times);
        do {
            runs++;
            if (run(play, false).failed)
                explain(play);
        } while (sim_choices_more(world->choices));
        if (getenv("V"))
            print_message("%-32s %u: %9llu runs, %6.2f s\n", play->name, times,
                          (unsigned long long)runs, (double)(clock() - began) / CLOCKS_PER_SEC);
    }
}

static void draw(const sim_play *play) {
    bool few = crowd && !getenv("PLAY"); /* a crowd's plays are shown without it, too */
    unsigned runs = play->drawn / SLOWER / (is_sample() ? 8 : few ? 4 : 1) * (is_long() ? 50 : 1);
    for (uint64_t seed = 1; seed <= runs; seed++) {
        sim_choices_draw(world->choices, seed, 2 + (unsigned)(seed % (TURNINGS_MAX - 1)));
        if (run(play, false).failed)
            explain(play);
    }
}

static void test_play(void **state) {
    const showing *s = *state;
    const sim_play *play = s->play;
    crowd = s->crowd;
    const char *choices = getenv("CHOICES");
    if (choices) {
        sim_result r = run_as(play, choices, true);
        sim_print_story(world, stdout);
        if (r.failed)
            fail_msg("%s: %s", play->name, r.what);
        return;
    }
    if (!is_sample() || s->number % EACH == 0)
        go_through(play);
    draw(play);
}

static void test_repeated(void **state) {
    char text[SIM_CHOICES_TEXT];
    (void)state;
    crowd = false;
    for (unsigned i = 0; i < sim_play_count; i++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            sim_choices_draw(world->choices, seed, 4);
            sim_result a = run(&sim_plays[i], false);
            sim_choices_print(world->choices, text);
            sim_result b = run_as(&sim_plays[i], text, true);
            assert_true(a.hash == b.hash && a.at == b.at);
        }
}

int main(void) {
    const char *only = getenv("PLAY"), *crowds = getenv("CROWD");
    static showing all[2 * PLAYS_MAX];
    static char names[PLAYS_MAX][64];
    for (unsigned i = 0; i < sim_play_count && i < PLAYS_MAX; i++) {
        const char *name = sim_plays[i].name;
        if (only && strcmp(only, name) != 0)
            continue;
        (void)snprintf(names[i], sizeof names[i], "%s_in_a_crowd", name);
        for (unsigned k = 0; k < 2; k++) {
            all[2 * i + k] = (showing){&sim_plays[i], k == 1, i};
            if (k == 1 && (sim_plays[i].traits & PLAY_BY_POOL))
                continue;
            if (!crowds || (*crowds == '1') == (k == 1))
                tests_add((tests_entry){
                    .name = k ? names[i] : name, .run = test_play, .state = &all[2 * i + k]});
        }
    }
    if (!only)
        tests_add((tests_entry){.name = "a_run_is_repeated_by_its_choices", .run = test_repeated});
    return tests_run_group("tests", 0, set_up, tear_down);
}
