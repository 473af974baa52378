/*
 * Who holds a lock of stamps, in every interleaving of one client's takes, renewals and release with what
 * others do, with requests and answers that are lost or late, up to a number of such events: so that nothing
 * that a machine remembers of one look, answer or attempt is taken for true after the next. Likewise nobody
 * acquires a lock that rests. It plays runs of
 * one bound; EXPLORE=3 or 4 plays all of more events, for minutes or hours, EXPLORE_KIND=NAME only one kind.
 */
#include "explore_others.h"
#include "renewals.h"

/* ---- the client ------------------------------------------------------------------------------- */

enum { ANSWERED, NOT_SENT, NO_ANSWER, SENT_LATE };

static unsigned fate(const actor *a) {
    if (w.faults == 0 || w.events == 0)
        return ANSWERED;
    unsigned f = choose(&w.choice, a->asked.writes && w.zombies < ZOMBIES ? 4
                                   : a->asked.writes                      ? 3
                                                                          : 2);
    w.faults -= f != ANSWERED;
    w.events -= f != ANSWERED;
    return f;
}

/* No answer to the last request: its connection is closed, or what was sent stays in it. */
static void goes_unanswered(actor *a, unsigned f) {
    bool sent = f == NO_ANSWER || f == SENT_LATE;
    if (f == SENT_LATE) {
        w.zombie[w.zombies].conn = a->conn;
        keep_request(&w.zombie[w.zombies++].asked, &a->asked.send);
    } else {
        fake_conn_close(a->conn);
    }
    if (sent)
        go_to(server_us(a->asked.send.by));
    connect(a);
    fail_request(a, sent);
}

static void exchange(actor *a) {
    static const char *const words[] = {"executed", "not sent", "executed, no answer", "late"};
    if (a->asked.send.count == 0) {
        answer(a);
        return;
    }
    disturb();
    if (a->out.until.ns <= now().ns) { /* its own limit comes first */
        step(a, (tl_event){.kind = TL_TIMER});
        if (!a->waits)
            return;
    }
    unsigned f = now().ns < a->asked.send.by.ns ? fate(a) : NOT_SENT;
    tell_request(a, words[f]);
    if (f == NO_ANSWER || f == ANSWERED)
        f = perform(a) ? f : NOT_SENT;
    if (f == ANSWERED) {
        answer(a);
        if (!a->waits && a->asked.writes && a->status != TL_END)
            disturb();
    } else
        goes_unanswered(a, f);
}

static void run(actor *a) {
    while (a->status == TL_GO && !w.cut && !w.wrong) {
        if (a->waits) {
            exchange(a);
            continue;
        }
        assert_true(a->out.until.ns != INT64_MAX);
        go_to(server_us(a->out.until));
        step(a, (tl_event){.kind = TL_TIMER});
    }
}

static bool goes_on(void) {
    return !w.cut && !w.wrong;
}

static void start(actor *a, tl_step machine) {
    a->step = machine;
    a->status = TL_GO;
    a->waits = false;
    step(a, (tl_event){.kind = TL_START});
}

static bool acquire(actor *a) {
    const tl_retry retry = {.kind = TL_RETRY_FIXED, .delay_ms = 20000, .max_attempts = 4};
    tl__acquire_init(&a->machine.acquire, &a->job, &retry, 130000, 5000, 7);
    start(a, tl__acquire_step);
    run(a);
    while (a->status == TL_DETACH && goes_on()) { /* to clean up */
        a->status = TL_GO;
        a->waits = false;
        if (a->conn)
            fake_conn_close(a->conn);
        connect(a);
        step(a, (tl_event){.kind = TL_TIMER});
        run(a);
    }
    return goes_on() && a->machine.result.code == TL_OK && a->machine.result.deadline.ns > now().ns;
}

/* `keeps` renewals, or until it is lost. */
static void hold(actor *a, unsigned keeps) {
    tl_result taken = a->machine.result;
    had(a, &taken);
    w.held++;
    a->job.hold.proof = taken.proof;
    renew_begin(&a->machine.renew, &a->job, taken.deadline, TL_NEVER, false, 7);
    start(a, tl__renew_step);
    unsigned done = 0;
    while (a->status == TL_GO && done < keeps && goes_on()) {
        if (a->waits) {
            int64_t before = a->machine.result.deadline.ns;
            exchange(a);
            done += !a->waits;
            if (a->status == TL_GO && a->machine.result.deadline.ns != before)
                check_belief(a, a->machine.result.deadline);
            continue;
        }
        go_to(server_us(a->out.until));
        step(a, (tl_event){.kind = TL_TIMER});
    }
    a->job.hold.proof = a->machine.renew.job.hold.proof;
    a->job.hold.believed = a->machine.result.deadline;
    a->job.release.rest_since = taken.acquire.seen;
    a->job.release.rest_since_us = taken.acquire.seen_us;
    a->job.release.rest_ms = a->status == TL_GO ? w.suite->rest_ms : 0;
    if (a->status == TL_GO)
        return;
    tell("A: lost");
    w.lost++;
    bool in_time = is_believed(HOLDER_A) && a->machine.result.lost.why == TL_LOST_TAKEN;
    if (in_time && !w.stolen && !w.by_hand)
        wrong("nobody has taken what is called lost");
    w.until_us[HOLDER_A] = 0;
    a->job.hold.proof = (tl_proof){0}; /* what it leaves behind is dropped in any case */
}

/* A lock that rests is nobody's, as if A held it on until the end. */
static void check_rests(const actor *a) {
    const int64_t end_us = a->job.release.rest_since_us + a->job.release.rest_ms * 1000;
    if (a->job.release.rest_ms == 0 || a->machine.result.code != TL_OK || end_us <= w.now_us)
        return;
    if (w.stolen)
        wrong("another had it, and it is told that it rests");
    w.rested++;
    believes(HOLDER_A, end_us);
}

static void release(actor *a) {
    w.until_us[HOLDER_A] = 0;
    tl_mono believed = a->job.hold.believed;
    tl__settle_init(&a->machine.settle, &a->job, TL_RELEASE, believed, 7);
    start(a, tl__settle_step);
    run(a);
    if (goes_on())
        check_rests(a);
    if (a->status == TL_DETACH && goes_on()) {
        a->status = TL_GO;
        a->waits = false;
        step(a, (tl_event){.kind = TL_TIMER});
        run(a);
    }
}

/* Whatever was late is executed; then nothing of A is left that others find held. A loser's stamp in its
 * place runs out by itself. */
static void check_left(const actor *a) {
    while (w.zombies > 0 && !w.wrong)
        zombie_runs();
    int64_t until_us = 0;
    if (keeps_s() && is_bound(a) && tl__bytes_eq(value(), field("value")) &&
        tl__bytes_to_int(field("until"), &until_us) && until_us > w.now_us)
        wrong("it has left something behind");
}

/* ---- runs ------------------------------------------------------------------------------------- */

static void begin_actor(actor *x, char name, unsigned holder) {
    const kind *k = w.kind;
    memset(x, 0, sizeof *x);
    x->name = name;
    x->holder = (uint8_t)holder;
    x->job = job_of(holder == HOLDER_A ? 'a' : '0', k);
    x->server.drift_ppm = DRIFT_PPM;
    x->server.wall_us = OFFSET_US + k->off_ms * INT64_C(1000) * (holder == HOLDER_A ? 1 : -1);
    if (!k->strict && k->server == 0)
        x->server.anchor = (tl_anchor){
            .known = true, .offset = {OFFSET_US, OFFSET_US + 1}, .at = now()};
    connect(x);
}

enum { ABSENT, STALE, DUE, BEGINNINGS };
#define RENEWALS_MAX 2

/* What K holds at first: nothing; what a client that died has left; a legacy client's, with a slow clock. */
static void begin_key(unsigned beginning) {
    legacy *slow = &w.j[1];
    slow->end_ms = START_US / 1000 - M_MS - L_MS - 2;
    if (beginning == DUE)
        slow->end_ms = START_US / 1000 + 5000;
    if (beginning != ABSENT)
        (void)legacy_says("SET", slow, true);
    if (beginning == DUE)
        legacy_holds(slow);
}

static void begin_world(unsigned beginning) {
    const kind *k = w.kind;
    fake_redis_reset(w.redis);
    if (k->server)
        fake_redis_set_level(w.redis, k->server);
    if (k->no_scripts)
        fake_redis_deny(w.redis, "EVAL EVALSHA", FAKE_RENAMED);
    w.now_us = 0;
    go_to(START_US);
    w.choice.depth = 0;
    w.cut = w.by_hand = w.stolen = false;
    w.wrong = NULL;
    w.zombies = 0;
    w.events = w.suite->events;
    w.others = w.suite->others;
    w.faults = w.suite->faults;
    w.waits = w.suite->waits;
    w.fence = 0;
    memset(w.until_us, 0, sizeof w.until_us);
    w.j[0] = (legacy){.off_ms = M_MS};
    w.j[1] = (legacy){.off_ms = -M_MS};
    w.legacy_conn = fake_redis_connect(w.redis, NULL, NULL);
    begin_actor(&w.a, 'A', HOLDER_A);
    begin_actor(&w.b, 'B', HOLDER_B);
    begin_key(beginning);
}

static void play(unsigned beginning, unsigned keeps) {
    begin_world(beginning);
    if (acquire(&w.a)) {
        hold(&w.a, keeps);
        if (goes_on())
            release(&w.a);
    }
    if (goes_on())
        disturb();
    if (goes_on())
        check_left(&w.a);
}

/* Again, and say what happens. */
static void retell(unsigned beginning, unsigned keeps) {
    const char *why = w.wrong;
    w.tells = true;
    play(beginning, keeps);
    w.tells = false;
    fake_redis_free(w.redis);
    fail_msg("%s, %s, %u renewals: %s", w.kind->name, w.suite->name, keeps, why);
}

static uint64_t explore_from(unsigned beginning, unsigned keeps) {
    uint64_t runs = 0;
    w.choice = (choices){.n = 0};
    do {
        runs++;
        play(beginning, keeps);
        if (w.wrong)
            retell(beginning, keeps);
    } while (choose_next(&w.choice));
    return runs;
}

static void explore(const kind *k, const suite *s) {
    uint64_t runs = 0;
    w.kind = k;
    w.suite = s;
    w.redis = fake_redis_new();
    w.held = w.lost = w.raced = w.rested = 0;
    for (unsigned beginning = ABSENT; beginning < BEGINNINGS; beginning++)
        for (unsigned keeps = 0; keeps <= RENEWALS_MAX; keeps++)
            if ((s->beginnings & BIT(beginning)) && (s->renewals & BIT(keeps)))
                runs += explore_from(beginning, keeps);
    fake_redis_free(w.redis);
    print_message("%s, %s: %llu runs, held %llu, lost %llu, raced %llu, rested %llu\n", k->name,
                  s->name, (unsigned long long)runs, (unsigned long long)w.held,
                  (unsigned long long)w.lost, (unsigned long long)w.raced,
                  (unsigned long long)w.rested);
    assert_true((w.rested > 0) == (s->rest_ms > 0));
    assert_true(w.held > 0 && (w.lost > 0 || (s->renewals & 6) == 0));
}

#define STAMPS .protocol = &tl__protocol_timestamp, .dialect = "java"

static const kind watch = {"watch", STAMPS, .ttl_ms = 60000, .level = TL_LEVEL_WATCH,
                           .no_scripts = true};
static const kind mixed = {"watch beside script", STAMPS, .ttl_ms = 60000, .level = TL_LEVEL_WATCH,
                           .mixed = true};
static const kind watch_no_time = {"watch, no time",
                                   STAMPS,
                                   .ttl_ms = 50000,
                                   .level = TL_LEVEL_WATCH,
                                   .server = FAKE_LEVEL(2, 4, 18),
                                   .off_ms = M_MS};
static const kind script = {"script", STAMPS, .ttl_ms = 60000, .level = TL_LEVEL_SCRIPT};
static const kind plain = {
    "plain",       STAMPS, .ttl_ms = 60000, .level = TL_LEVEL_PLAIN, .server = FAKE_LEVEL(2, 0, 4),
    .off_ms = M_MS};
static const kind strict = {"strict", STAMPS, .ttl_ms = 50000, .strict = true, .off_ms = -M_MS};
static const kind ms_pipe = {"ms-pipe", &tl__protocol_bridge, "ms-pipe", .ttl_ms = 110000,
                             .level = TL_LEVEL_SCRIPT};

#define RACE (BIT(J_LOOKS + 1) | BIT(J_SETS + 1) | BIT(J_VISITS) | BIT(WAIT_FAST) | BIT(WAIT_L))
#define VISIT (BIT(B_VISITS) | BIT(BY_HAND) | BIT(WAIT_FREE))

#define SHORT_REST_MS 20000 /* shorter than the lifetime */
#define LONG_REST_MS 200000

static const suite two_of_anything = {"two of anything",     UINT32_MAX, 2, 2, 2, 2,
                                      BIT(STALE) | BIT(DUE), 5,          0};
static const suite losers = {"losers of a race", RACE, 4, 3, 0, 1, BIT(STALE), 4, 0};
static const suite visits = {"visits after losses", VISIT, 3, 1, 2, 1, BIT(ABSENT), 1, 0};
static const suite short_rests = {"a short rest, two of anything",
                                  UINT32_MAX,
                                  3,
                                  2,
                                  1,
                                  2,
                                  BIT(ABSENT) | BIT(STALE),
                                  3,
                                  SHORT_REST_MS};
static const suite long_rests = {"a rest, two of anything", UINT32_MAX, 3,           2, 1, 2,
                                 BIT(ABSENT) | BIT(STALE),  3,          LONG_REST_MS};
static const suite short_rest_visits = {
    "visits in a short rest", VISIT | RACE, 3, 2, 1, 1, BIT(ABSENT), 1, SHORT_REST_MS};
static const suite rest_visits = {"visits in a rest", VISIT | RACE, 3, 2, 1, 1, BIT(ABSENT), 1,
                                  LONG_REST_MS};
static const suite rest_losers = {
    "losers of a race, and a rest", RACE, 4, 3, 0, 1, BIT(STALE), 1, LONG_REST_MS};

static void explore_all(const kind *k, const suite *s) {
    static const kind *deeply; /* each once, with each rest */
    static int64_t deeply_ms;
    const char *deep = getenv("EXPLORE"), *only = getenv("EXPLORE_KIND");
    uint8_t n = deep ? (uint8_t)atoi(deep) : 0;
    const suite more = {"anything", UINT32_MAX, n, n, n, n, 7, 7, s->rest_ms};
    bool is_large = s == &two_of_anything || s == &short_rests || s == &long_rests;
    if (n == 0 && is_large && !tests_whole())
        return;
    if ((!only || strcmp(only, k->name) == 0) && (deeply != k || deeply_ms != s->rest_ms))
        explore(k, n > 0 ? &more : s);
    if (n > 0)
        deeply = k, deeply_ms = s->rest_ms;
}

TEST(by_watch_nobody_holds_beside_another) {
    explore_all(&watch, &two_of_anything);
    explore_all(&watch, &losers);
    explore_all(&watch, &visits);
    explore_all(&watch_no_time, &two_of_anything);
}

/* A client keeps what it knows of a server until its next connection. */
TEST(when_a_server_is_given_its_lua_module_nobody_holds_beside_another) {
    explore_all(&mixed, &two_of_anything);
    explore_all(&mixed, &losers);
    explore_all(&mixed, &visits);
}

TEST(by_script_nobody_holds_beside_another) {
    explore_all(&script, &two_of_anything);
    explore_all(&script, &losers);
    explore_all(&script, &visits);
}

TEST(nobody_holds_a_lock_that_rests) {
    explore_all(&script, &rest_losers);
    explore_all(&script, &rest_visits);
    explore_all(&script, &long_rests);
    explore_all(&script, &short_rest_visits);
    explore_all(&script, &short_rests);
}

TEST(without_either_nobody_holds_beside_another) {
    explore_all(&plain, &two_of_anything);
    explore_all(&strict, &two_of_anything);
    explore_all(&strict, &losers);
}

TEST(beside_waiters_that_always_overwrite_nobody_holds_beside_another) {
    explore_all(&ms_pipe, &losers);
}
