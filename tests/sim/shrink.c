/*
 * A shorter story: of a run that fails, whatever can be left out while it still breaks the same
 * promise.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"

#define ROUNDS 4
#define WORD_MAX 48

typedef struct {
    sim_world *w;
    uint64_t seed;
    const char *kind;
    char *words;
    size_t size;
    sim_result result;
} shrinking;

/* Keep the word if the run fails without what it removes. */
static bool try_word(shrinking *s, const char *word) {
    sim_config c;
    size_t n = strlen(s->words);
    if (n + strlen(word) + 2 > s->size)
        return false;
    (void)snprintf(s->words + n, s->size - n, "%s%s", n ? " " : "", word);
    sim_config_draw(&c, s->seed);
    if (!sim_config_change(&c, s->words)) {
        sim_result r = sim_run(s->w, &c, false, NULL);
        if (r.failed && r.kind == s->kind) {
            s->result = r;
            return true;
        }
    }
    s->words[n] = '\0';
    return false;
}

static bool without_faults(shrinking *s, const sim_config *c) {
    bool smaller = false;
    char word[WORD_MAX];
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        (void)snprintf(word, sizeof word, "off=%s", sim_fault_word((sim_fault)i));
        smaller |= c->fault[i] > 0 && try_word(s, word);
    }
    return smaller;
}

static bool without_actors(shrinking *s, const sim_config *c) {
    bool smaller = false;
    char word[WORD_MAX];
    for (int i = c->actors - 1; i >= 0; i--) {
        (void)snprintf(word, sizeof word, "without=%d", i);
        smaller |= try_word(s, word);
    }
    return smaller;
}

static void config_now(const shrinking *s, sim_config *c) {
    sim_config_draw(c, s->seed);
    (void)sim_config_change(c, s->words);
}

sim_result sim_shrink(sim_world *w, uint64_t seed, sim_result failed, char *words, size_t size) {
    shrinking s = {w, seed, failed.kind, words, size, failed};
    sim_config c;
    char until[WORD_MAX];
    bool smaller = true;
    for (int i = 0; i < ROUNDS && smaller; i++) {
        config_now(&s, &c);
        smaller = without_faults(&s, &c);
        config_now(&s, &c);
        smaller |= without_actors(&s, &c);
    }
    (void)snprintf(until, sizeof until, "until=%lld", (long long)(s.result.at / SIM_MS) + 1);
    (void)try_word(&s, until);
    return s.result;
}
