/*
 * Runs the rows that were asked for, each in the regimes that were asked for, and reports. Timings
 * are reported and never judged: the exit status only says whether everything could be measured.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

int rounds = 5;

#define IN(r) (1u << (r))
#define EVERY (IN(ONE) | IN(CROSS) | IN(FREE) | IN(DELAY))

static const row rows[] = {
    {"pairs", EVERY, EVERY, row_pairs},
    {"threads", EVERY, IN(ONE) | IN(CROSS) | IN(FREE), row_threads},
    {"async", EVERY, IN(ONE) | IN(CROSS) | IN(FREE), row_async},
    {"renew", IN(ONE) | IN(CROSS) | IN(FREE), IN(ONE), row_renew},
    {"held", IN(FREE), IN(FREE), row_held},
    {"local", EVERY, IN(ONE) | IN(FREE), row_local},
    {"cli", IN(FREE) | IN(DELAY), IN(FREE) | IN(DELAY), row_cli},
    {"bigdb", IN(FREE), IN(FREE), row_bigdb},
    {"remaining", IN(FREE), IN(FREE), row_remaining},
    {"machine", IN(FREE), IN(FREE), row_machine},
    {"protocols", EVERY, IN(ONE) | IN(DELAY), row_protocols},
    {"skew", EVERY, EVERY, row_skew},
    {"waiting", EVERY, IN(ONE) | IN(CROSS) | IN(DELAY), row_waiting},
    {"fleets", EVERY, IN(ONE) | IN(FREE) | IN(DELAY), row_fleets},
    {"etcd", IN(FREE) | IN(DELAY), IN(FREE) | IN(DELAY), row_etcd},
    {"peers", IN(CROSS) | IN(DELAY), IN(CROSS) | IN(DELAY), row_peers},
    {"etcd-peers", IN(FREE) | IN(DELAY), IN(FREE) | IN(DELAY), row_etcd_peers},
};
#define ROWS (sizeof rows / sizeof *rows)

/* Is the word in the list, whose words are separated by spaces? */
static bool listed(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, " ")) {
        p += strspn(p, " ");
        if (strncmp(p, word, n) == 0 && (p[n] == ' ' || p[n] == '\0'))
            return true;
    }
    return false;
}

static const char *env(const char *name, const char *otherwise) {
    const char *v = getenv(name);
    return v && *v ? v : otherwise;
}

/* Each word of the list is one that we know. */
static void check(const char *name, const char *list, const char *known) {
    char word[32];
    for (const char *p = list; *(p += strspn(p, " ")); p += strcspn(p, " ")) {
        (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " "), p);
        if (!listed(known, word))
            die("%s: there is no '%s'; there are: %s", name, word, known);
    }
}

static void read_rounds(void) {
    char *end;
    const char *text = env("ROUNDS", "5");
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > ROUNDS_MAX)
        die("ROUNDS: 1 to %d, not '%s'", ROUNDS_MAX, text);
    rounds = (int)n;
}

static void run(const row *w, regime r) {
    const char *problem = bench_enter(r);
    if (problem)
        report_skip(w->name, r, problem);
    else
        w->run(r);
    bench_flush();
}

int main(void) {
    static const char usual[] =
        "pairs threads async renew held local cli bigdb remaining machine protocols skew waiting fleets "
        "etcd";
    const char *wanted = env("BENCH", usual), *where = env("REGIME", NULL);
    bool with_peers = listed(wanted, "peers") ||
                      listed(wanted, "etcd-peers"); /* by make bench-peers */
    if (!with_peers)
        check("BENCH", wanted, usual);
    check("REGIME", where ? where : "", "one cross free delay");
    read_rounds();
    bench_start();
    report_begin(env("BENCH_JSON", "build/bench.json"));
    for (size_t i = 0; i < ROWS; i++)
        for (int r = 0; r < REGIMES && listed(wanted, rows[i].name); r++)
            if (where ? rows[i].has & IN(r) && listed(where, regime_name((regime)r))
                      : rows[i].usually & IN(r))
                run(&rows[i], (regime)r);
    report_end(!where && (with_peers ? !env("PEERS", NULL) : strcmp(wanted, usual) == 0));
    return 0;
}
