/*
 * Faults: a server that answers, but can't serve now. Each is played once passing and once lasting,
 * before who takes, waits, holds, extends and releases.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - busy script: UNAVAILABLE "BUSY"; loading after a restart: "LOADING"; a failing save: "MISCONF".
 * - memory full, no eviction: acquire UNAVAILABLE "OOM"; extend and release work.
 * - `maxclients` reached: UNAVAILABLE "max number of clients".
 * - read-only replica; replica without its master; master without its replicas: "READONLY", "MASTERDOWN", "NOREPLICAS".
 */
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"

#define OTHER "chaos:other"
#define THIRD "chaos:third"
#define MANY_KEYS "20000"                 /* to be loaded slowly */
#define HELD_MS clock_patient_ms(9000)    /* whose renewal is refused, and then comes in time */
#define LOADED_MS clock_patient_ms(15000) /* beside a server that begins anew */

typedef struct {
    const char *name, *words;
    void (*begin)(void), (*end)(void);
    tl_err extended, released; /* while it lasts */
    bool slow;                 /* some answers come too late */
    real_server_ability needs;
} fault;

/* They go on. */
static bool spares_holders(const fault *f) {
    return f->extended == TL_OK;
}

static redisContext *busy; /* where a script runs */

/* ---- the faults -------------------------------------------------------------------------------- */

static void follow(const char *master) {
    char command[64];
    (void)snprintf(command, sizeof command, "%sOF %s", real_server_replica(), master);
    run(command);
}

static void set_for_replicas(const char *format, const char *value) {
    char command[64];
    (void)snprintf(command, sizeof command, format, real_server_replica(), value);
    run(command);
}

static void become_replica(void) {
    follow("127.0.0.1 1");
}

static void become_stale_replica(void) {
    set_for_replicas("CONFIG SET %s-serve-stale-data %s", "no");
    become_replica();
}

static void become_master(void) {
    follow("NO ONE");
    set_for_replicas("CONFIG SET %s-serve-stale-data %s", "yes");
}

static void miss_replicas(void) {
    set_for_replicas("CONFIG SET min-%ss-to-write %s", "1");
}

static void need_no_replicas(void) {
    set_for_replicas("CONFIG SET min-%ss-to-write %s", "0");
}

static void fill_memory(void) {
    run("CONFIG SET maxmemory 1");
}

static void free_memory(void) {
    run("CONFIG SET maxmemory 0");
}

static bool answer_begins(const char *command, const char *with) {
    redisReply *reply = real_redis_command(server, command);
    bool does = reply && reply->str && strncmp(reply->str, with, strlen(with)) == 0;
    freeReplyObject(reply);
    return does;
}

#define SAVED_MS 60000 /* by a process of its own, which a busy machine lets wait */

static bool save_has_failed(void) {
    redisReply *info = real_redis_command(server, "INFO persistence");
    bool has = info && strstr(info->str, "rdb_last_bgsave_status:err");
    freeReplyObject(info);
    return has;
}

static void data_file(char *path, size_t size) {
    (void)snprintf(path, size, "%s/dump.rdb", real_redis_dir(server));
}

/* A directory stands where the data is to be saved. */
static void fail_to_save(void) {
    char path[256];
    data_file(path, sizeof path);
    (void)unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    freeReplyObject(real_redis_command(server, "CONFIG SET save %s", "3600 1000000"));
    run("BGSAVE");
    WAIT_FOR(SAVED_MS, save_has_failed());
}

static void save_again(void) {
    char path[256];
    data_file(path, sizeof path);
    (void)rmdir(path);
    freeReplyObject(real_redis_command(server, "CONFIG SET save %s", "")); /* all is well at once */
    run("BGSAVE");
    WAIT_FOR(SAVED_MS, !save_has_failed());
}

static void run_for_ever(void) {
    int done = 0;
    busy = real_redis_connect(server);
    (void)redisAppendCommand(busy, "EVAL %s 0", "while true do end");
    while (!done)
        assert_int_equal(redisBufferWrite(busy, &done), REDIS_OK);
    WAIT_FOR(SOON_MS, answer_begins("PING", "BUSY"));
}

static void end_script(void) {
    run("SCRIPT KILL");
    WAIT_FOR(SOON_MS, answer_begins("PING", "PONG"));
    redisFree(busy);
    busy = NULL;
}

static void come_back_loading(void) {
    run("DEBUG POPULATE " MANY_KEYS " filler 10");
    run("SAVE");
    real_redis_restart_loading(server);
    assert_true(answer_begins("GET " KEY, "LOADING"));
}

static void have_loaded(void) {
    run("CONFIG SET key-load-delay 0");
    WAIT_FOR(SOON_MS, answer_begins("PING", "PONG"));
}

static void have_enough_clients(void) {
    run("CONFIG SET maxclients 1");
    run("CLIENT KILL TYPE normal SKIPME yes");
    run("CLIENT KILL TYPE pubsub");
}

static void take_more_clients(void) {
    run("CONFIG SET maxclients 1000");
}

static const fault faults[] = {
    {.name = "a replica",
     .words = "READONLY",
     .begin = become_replica,
     .end = become_master,
     .extended = TL_EUNAVAILABLE, /* which has certainly written nothing */
     .released = TL_EUNAVAILABLE},
    {.name = "a replica without its master",
     .words = "MASTERDOWN",
     .begin = become_stale_replica,
     .end = become_master,
     .extended = TL_EUNAVAILABLE,
     .released = TL_EUNAVAILABLE},
    {.name = "a master without its replicas",
     .words = "NOREPLICAS",
     .begin = miss_replicas,
     .end = need_no_replicas,
     .extended = TL_EUNCERTAIN,
     .released = TL_EUNCERTAIN,
     .needs = REAL_STOPS_SCRIPTS},
    {.name = "a full memory", /* takes nothing more, but keeps what it has */
     .words = "OOM",
     .begin = fill_memory,
     .end = free_memory,
     .extended = TL_OK,
     .released = TL_OK},
    {.name = "a save that fails",
     .words = "MISCONF",
     .begin = fail_to_save,
     .end = save_again,
     .extended = TL_EUNCERTAIN,
     .released = TL_EUNCERTAIN},
    {.name = "a busy script",
     .words = "BUSY",
     .begin = run_for_ever,
     .end = end_script,
     .extended = TL_EUNAVAILABLE,
     .released = TL_EUNAVAILABLE,
     .slow = true},
    {.name = "a server that loads",
     .words = "LOADING",
     .begin = come_back_loading,
     .end = have_loaded,
     .extended = TL_EUNAVAILABLE,
     .released = TL_EUNAVAILABLE,
     .slow = true,
     .needs = REAL_SEVEN}, /* so that it loads slowly */
    {.name = "too many clients",
     .words = "max number of clients",
     .begin = have_enough_clients,
     .end = take_more_clients,
     .extended = TL_EUNAVAILABLE,
     .released = TL_EUNAVAILABLE,
     .needs = REAL_SCAN},
};
static const fault *present; /* begun and not ended */

static void begin(const fault *f) {
    present = f;
    f->begin();
}

static void end(void) {
    const fault *f = present;
    present = NULL;
    f->end();
}

static int heal(void **state) {
    if (present)
        end();
    return arena_tear_down(state);
}

/* ---- who meets them ---------------------------------------------------------------------------- */

static tl_lock *watched(lock_events *events, int64_t ttl_ms) {
    tl_lock *lock = make_lock_with(
        client_direct(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

static tl_lock *on_key(tl_client *client, const char *key, int64_t ttl_ms) {
    return make_lock_with(client, key, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .manual_renew = true));
}

static void assert_said_with_place(const fault *f) {
    ASSERT_SAID(f->slow && strstr(said.message, "no reply") ? "no reply" : f->words);
    ASSERT_SAID(strstr(real_redis_url(server), "127."));
}

static void test_it_passes(void **state) {
    const fault *f = *state;
    NEEDS_SERVER(f->needs);
    lock_events *events = make_events();
    tl_lock *held = watched(events, f->slow ? LOADED_MS : HELD_MS);
    tl_lock *lock = on_key(hasty_client_direct(), OTHER, AGES_MS);
    tl_lock *third = on_key(client_direct(), THIRD, AGES_MS);
    lock_event again;
    ASSERT_RESULT(tl_lock_acquire(third, SOON_MS, &said), TL_OK);
    begin(f);
    acquiring *waiter = acquiring_begin(lock, 60000);
    if (spares_holders(f))
        WAIT_FOR(SOON_MS, has_executed("evalsha", 9)); /* by the waiter, and the renewal */
    else
        (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
    assert_false(atomic_load(&waiter->done));
    end();
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
    WAIT_FOR(SOON_MS, spares_holders(f) || lock_events_find(events, 1, TL_HELD, &again));
    ASSERT_GOES_ON(held);
    assert_belief_is_true(held);
    ASSERT_RESULT(tl_lock_extend(third, AGES_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(third, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(held, &said), TL_OK);
    release_hastily(lock, OTHER);
}

/* A request or its reply that the machine holds up until the limit tells nothing of the fault; nor does the answer to the second
 * request of the same call, which is refused, and hides that the first one had no answer. What is refused is certain. */
static bool is_held_up(const fault *f, tl_err code, tl_err due) {
    bool late = strstr(said.message, "no reply") || strstr(said.message, "too late") ||
                strstr(said.message, "no time is left");
    return !f->slow &&
           ((code == TL_EUNCERTAIN && (late || code != due)) || (code == TL_EUNAVAILABLE && late));
}

/* So it is asked again, a few times. */
static tl_err ask_again(const fault *f, tl_lock *lock, int64_t wait_ms, tl_err code) {
    for (int i = 0; i < 10 && is_held_up(f, code, TL_EUNAVAILABLE); i++)
        code = tl_lock_acquire(lock, wait_ms <<= 1, &said);
    return code;
}

static void refused(const fault *f, tl_err code) {
    ASSERT_RESULT(code, f->slow && code == TL_EUNCERTAIN ? code : TL_EUNAVAILABLE);
    assert_said_with_place(f);
}

/* What a holder of a third key is told while it lasts. false: the machine has held up its release, which can't be asked again. */
static bool settles_in(const fault *f, tl_lock *third) {
    int64_t began = clock_ms();
    tl_err code = tl_lock_extend(third, 2 * AGES_MS, &said);
    ASSERT_TOOK(began, 0, ATTEMPT_MS);
    for (int i = 0; i < 10 && is_held_up(f, code, f->extended); i++)
        code = tl_lock_extend(third, 2 * AGES_MS, &said);
    ASSERT_RESULT(code, f->slow && code == TL_EUNCERTAIN ? code : f->extended);
    if (code)
        assert_said_with_place(f);
    assert_int_equal(tl_lock_state(third), TL_HELD);
    began = clock_ms();
    code = tl_lock_release(third, &said);
    ASSERT_TOOK(began, 0, ATTEMPT_MS);
    if (is_held_up(f, code, f->released))
        return false;
    ASSERT_RESULT(code, f->slow && code == TL_EUNCERTAIN ? code : f->released);
    if (code)
        assert_said_with_place(f);
    return true;
}

#define THIRDS                                                                                     \
    8 /* one after the other, until one is not held up: if none is, that is no accident */

static int thirds_there(void) {
    int n = 0;
    for (int i = 0; i < THIRDS; i++)
        n += (int)real_redis_int(server, "EXISTS " THIRD ":%d", i);
    return n;
}

static void test_it_lasts(void **state) {
    const fault *f = *state;
    NEEDS_SERVER(f->needs);
    const int64_t ttl_ms = spares_holders(f) ? TTL_MS : BRIEF_MS;
    lock_events *events = make_events();
    tl_lock *held = watched(events, ttl_ms);
    tl_lock *once = on_key(hasty_client_direct(), OTHER, AGES_MS);
    tl_lock *wait = on_key(hasty_client_direct(), OTHER, AGES_MS);
    tl_lock *third[THIRDS];
    for (int i = 0; i < THIRDS; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, THIRD ":%d", i);
        third[i] = on_key(spares_holders(f) ? client_direct() : hasty_client_direct(), key,
                          AGES_MS);
        ASSERT_RESULT(tl_lock_acquire(third[i], SOON_MS, &said), TL_OK);
    }
    begin(f);
    int64_t left = tl_lock_remaining_ms(held), began = clock_ms();
    acquiring *waiter = acquiring_begin(wait, 300);
    tl_err code = tl_lock_acquire(once, 0, &said);
    ASSERT_TOOK(began, 0, CONNECT_MS + ATTEMPT_MS);
    refused(f, ask_again(f, once, 0, code));
    code = acquiring_end(waiter, SOON_MS);
    ASSERT_WAITED(waiter, 300, 300);
    refused(f, ask_again(f, wait, 300, code));
    int i = 0;
    while (i < THIRDS && !settles_in(f, third[i]))
        i++;
    assert_true(i < THIRDS);
    if (spares_holders(f)) {
        ASSERT_GOES_ON(held);
        ASSERT_RESULT(tl_lock_release(held, &said), TL_OK);
    } else {
        lock_event lost = lock_events_await(events, TL_LOST, left + SOON_MS);
        assert_int_equal(lost.why, TL_LOST_EXPIRED);
        assert_int_equal(tl_lock_remaining_ms(held), 0);
    }
    end();
    for (i++; i < THIRDS; i++)
        (void)tl_lock_release(third[i], &said);
    began = clock_ms();
    assert_free_soon();
    ASSERT_TOOK(began, 0, ttl_ms);
    WAIT_FOR(SOON_MS, real_redis_int(server, "EXISTS " OTHER) + thirds_there() == 0);
}

int main(void) {
    enum { FAULTS = sizeof faults / sizeof *faults };
    static char names[2 * FAULTS][64];
    for (size_t i = 0; i < 2 * FAULTS; i++) {
        const fault *f = &faults[i / 2];
        (void)snprintf(names[i], sizeof names[i], "%s, which %s", f->name,
                       i % 2 ? "lasts" : "passes");
        tests_add((tests_entry){.name = names[i],
                                .run = i % 2 ? test_it_lasts : test_it_passes,
                                .set_up = arena_set_up,
                                .tear_down = heal,
                                .state = (void *)(uintptr_t)f});
    }
    server = real_redis_start(&(real_redis_options){
        .debug = true,
        .config = real_server_has(REAL_SEVEN)
                      ? "maxmemory-policy noeviction\nlua-time-limit 10\nkey-load-delay 500\n"
                        "loading-process-events-interval-bytes 1024"
                      : "maxmemory-policy noeviction\nlua-time-limit 10"});
    return tests_run();
}
