/*
 * Stamps on a Redis Cluster: services of the Java class, by SETNX, GET, GETSET and DEL alone, and ours share the locks, also while
 * a slot is open for longer than a lifetime. timeout: 240
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - a slot that stays open, or moves back and forth, with locks that Java services share: no held stamp is lost, each is
 *   released at once, none is acquired meanwhile; never two holders. A lock rests when the slot has moved.
 */
#include "arena.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "distribute_lock_util.h"
#include "real_fleet.h"
#include "wire/keys.h"

#define KEYS 12
#define LONG_AGO_MS 60000

static real_fleet *fleet;

static int set_up(void **state) {
    (void)state;
    if (!fleet)
        fleet = real_fleet_start_cluster(
            &(real_fleet_options){.replicas = -1, .config = "save \"\""});
    return 0;
}

TESTS_WITH(set_up, locks_clean_up);

static tl_client *looker(const tl_legacy_options *legacy) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .protocol = TL_BRIDGE,
                                              .legacy = legacy, .attempt_ms = SOON_MS,
                                              .connect_ms = SOON_MS));
}

static real_redis *owner(const char *key) {
    real_node *node = NULL;
    WAIT_FOR(SOON_MS, (node = real_fleet_owner(fleet, key)) != NULL);
    return node->redis;
}

/* Half of them are over. */
static void put_stamps(int64_t now_ms) {
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "jobs:%d", i);
        int64_t end_ms = now_ms + (i % 2 ? LONG_AGO_MS : -LONG_AGO_MS);
        freeReplyObject(real_redis_command(owner(key), "SET %s %lld", key, (long long)end_ms));
    }
}

typedef struct {
    int held[KEYS], free[KEYS];
} seen;

static void found(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    seen *s = ctx;
    char text[32];
    (void)snprintf(text, sizeof text, "%.*s", (int)key_len, (const char *)key);
    int i = atoi(text + 5);
    assert_in_range(i, 0, KEYS - 1);
    assert_int_equal(info->protocol, TL_TIMESTAMP);
    assert_false(info->guessed);
    (info->held ? s->held : s->free)[i]++;
}

TEST(stamps_on_all_nodes_of_a_cluster_are_read_as_their_clients_do) {
    const tl_legacy_options legacy = TL_LEGACY_OPTIONS(.clock_skew_max_ms = 250);
    tl_client *client = looker(&legacy);
    tl_lock_info info = {.size = sizeof info};
    uint64_t cursor = 0;
    seen s = {.held = {0}};
    put_stamps(real_redis_int(owner("jobs:0"), "EVAL %s 0", "return redis.call('TIME')[1] * 1000"));
    do
        ASSERT_RESULT(tl_client_scan(client, "jobs:*", &cursor, found, &s, &said), TL_OK);
    while (cursor != 0);
    for (int i = 0; i < KEYS; i++)
        assert_true(i % 2 ? s.held[i] > 0 && !s.free[i] : s.free[i] > 0 && !s.held[i]);
    ASSERT_RESULT(tl_client_look(client, "jobs:1", 6, &info, &said), TL_OK);
    assert_true(info.held && info.remaining_ms > LONG_AGO_MS - SOON_MS);
}

/* ---- a service of the Java class, by a cluster's client ------------------------------------------ */

#define NODES 3
#define HOPS 8
#define M_MS 100
#define L_MS 100

typedef struct {
    redisContext *at[NODES];
    int first; /* asked first */
    int64_t ttl_ms;
} java;

static java *new_java(int64_t ttl_ms) {
    java *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->ttl_ms = ttl_ms;
    for (int i = 0; i < NODES; i++) {
        j->at[i] = redisConnect("127.0.0.1", real_fleet_server(fleet, i)->port);
        assert_true(j->at[i] && !j->at[i]->err);
    }
    return j;
}

static void free_java(java *j) {
    for (int i = 0; i < NODES; i++)
        redisFree(j->at[i]);
    free(j);
}

static int64_t wall_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* "ASK 866 127.0.0.1:7000": whose it is. */
static int led_to(const redisReply *reply) {
    const char *port = reply->type == REDIS_REPLY_ERROR ? strrchr(reply->str, ':') : NULL;
    bool led = port &&
               (strncmp(reply->str, "ASK ", 4) == 0 || strncmp(reply->str, "MOVED ", 6) == 0);
    for (int i = 0; led && i < NODES; i++)
        if (real_fleet_server(fleet, i)->port == atoi(port + 1))
            return i;
    return -1;
}

/* Executed once at most, wherever it is led, and not later than is assumed of it; NULL: it wasn't. Nodes that don't agree yet
 * on who has the slot lead in a circle. */
static redisReply *java_ask(java *j, int64_t by_ms, const char *word, const char *key,
                            const char *value) {
    const char *argv[] = {word, key, value};
    const struct timespec pause = {.tv_nsec = 1000000};
    int at = j->first;
    bool asking = false;
    for (int hops = 1; wall_ms() < by_ms; hops++) {
        redisReply *reply = NULL;
        if (asking) /* in one go: nothing comes between */
            (void)redisAppendCommand(j->at[at], "ASKING");
        (void)redisAppendCommandArgv(j->at[at], value ? 3 : 2, argv, NULL);
        for (int replies = asking ? 2 : 1; replies > 0; replies--) {
            freeReplyObject(reply);
            reply = NULL;
            (void)redisGetReply(j->at[at], (void **)&reply);
        }
        if (!reply || reply->type != REDIS_REPLY_ERROR)
            return reply;
        int to = led_to(reply);
        asking = to >= 0 && strncmp(reply->str, "ASK ", 4) == 0;
        at = to >= 0 ? to : at;
        j->first = to >= 0 && !asking ? to : j->first;
        freeReplyObject(reply);
        if (hops % HOPS == 0)
            (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

static bool java_lock(java *j, const char *key, int64_t *ret_end_ms) {
    char stamp[32], found[32] = "";
    int64_t now_ms = wall_ms(), by_ms = now_ms + L_MS / 2;
    *ret_end_ms = now_ms + j->ttl_ms;
    (void)snprintf(stamp, sizeof stamp, "%lld", (long long)*ret_end_ms);
    redisReply *reply = java_ask(j, by_ms, "SETNX", key, stamp);
    bool had = reply && reply->integer == 1;
    freeReplyObject(reply);
    reply = had ? NULL : java_ask(j, by_ms, "GET", key, NULL);
    if (reply && reply->type == REDIS_REPLY_STRING)
        (void)snprintf(found, sizeof found, "%s", reply->str);
    freeReplyObject(reply);
    if (had || !found[0] || atoll(found) >= now_ms)
        return had;
    reply = java_ask(j, by_ms, "GETSET", key, stamp);
    had = reply && reply->type == REDIS_REPLY_STRING && strcmp(reply->str, found) == 0;
    freeReplyObject(reply);
    return had;
}

static void java_release(java *j, const char *key, int64_t end_ms) {
    freeReplyObject(java_ask(j, end_ms - 2 * M_MS - L_MS, "DEL", key, NULL));
}

/* ---- sharing locks with it ------------------------------------------------------------------------ */

#define T_MS clock_patient_ms(12000) /* of everybody: a renewal may come late on a busy machine */
/* Once it has come too late on such a machine it tries again. */
#define JAVA_LOCKS(j, key, end_ms) WAIT_FOR(SOON_MS, java_lock((j), (key), (end_ms)))
#define JOB "{slot}job"

static tl_client *ours_within(tl_protocol_id id, int64_t attempt_ms) {
    const tl_legacy_options legacy = TL_LEGACY_OPTIONS(.clock_skew_max_ms = 100,
                                                       .legacy_delay_max_ms = L_MS,
                                                       .legacy_ttl_min_ms = T_MS);
    return make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .protocol = id,
                                              .legacy = &legacy, .attempt_ms = attempt_ms,
                                              .connect_ms = SOON_MS));
}

static tl_client *ours_as(tl_protocol_id id) {
    return ours_within(id, SOON_MS);
}

static tl_client *ours(void) {
    return ours_as(TL_BRIDGE);
}

static tl_lock *told_of(tl_client *client, lock_events *events) {
    return make_lock_with(client, JOB, TL_LOCK_OPTIONS(.on_event = lock_events_add, .ctx = events));
}

static real_node *another_master(void) {
    for (int i = 0; i < NODES; i++)
        if (real_fleet_server(fleet, i) != real_fleet_owner(fleet, JOB))
            return real_fleet_server(fleet, i);
    return NULL;
}

static void let_pass(int64_t ms) {
    const clock_wait wait = clock_wait_begin(ms);
    while (clock_wait_more(&wait)) {}
}

static void free_key(void) {
    java *j = new_java(T_MS);
    java_release(j, JOB, INT64_MAX);
    java_release(j, "{slot}job:tidelock", INT64_MAX);
    free_java(j);
}

TEST(a_java_service_and_ours_share_the_locks_of_a_cluster) {
    static const tl_protocol_id ids[] = {TL_BRIDGE, TL_TIMESTAMP};
    java *j = new_java(T_MS);
    int64_t end_ms;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        tl_client *client = ours_as(ids[i]);
        for (int k = 0; k < KEYS; k++) {
            char key[16];
            (void)snprintf(key, sizeof key, "job:%d", k);
            tl_lock *lock = make_lock_with(client, key, TL_LOCK_OPTIONS(.ttl_ms = 0));
            JAVA_LOCKS(j, key, &end_ms);
            ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
            java_release(j, key, end_ms);
            ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
            assert_false(java_lock(j, key, &end_ms));
            ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
            JAVA_LOCKS(j, key, &end_ms);
            java_release(j, key, end_ms);
        }
    }
    free_java(j);
}

/* Its holder has crashed: after M and L more it is ours. */
TEST(a_dead_services_stamp_is_taken_over_in_a_cluster) {
    java *j = new_java(T_MS);
    tl_lock *lock = make_lock_with(ours(), "dead", TL_LOCK_OPTIONS(.ttl_ms = 0));
    int64_t end_ms;
    JAVA_LOCKS(j, "dead", &end_ms);
    ASSERT_RESULT(tl_lock_acquire(lock, T_MS + SOON_MS, &said), TL_OK);
    assert_true(wall_ms() > end_ms);
    assert_false(java_lock(j, "dead", &end_ms));
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    free_java(j);
}

/* ---- while the slot is open ------------------------------------------------------------------------ */

/* Until it has been renewed twice, the second time from what the first has left. Java never has the lock. */
static void outlast(java *j, tl_lock *lock) {
    const clock_wait bound = clock_wait_begin(T_MS + SOON_MS);
    int64_t end_ms, left_ms = tl_lock_remaining_ms(lock);
    for (int renewals = 0; renewals < 2;) {
        assert_false(java_lock(j, JOB, &end_ms));
        int64_t ms = tl_lock_remaining_ms(lock);
        assert_true(ms > 0 && clock_wait_more(&bound));
        renewals += ms > left_ms;
        left_ms = ms;
        let_pass(20);
    }
}

/* Ours, held, and its slot is open from then on. */
static tl_lock *held_in_open_slot_by(tl_client *client, lock_events *events) {
    free_key();
    tl_lock *lock = told_of(client, events);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    real_fleet_open_slot(fleet, JOB, another_master());
    return lock;
}

static tl_lock *held_in_open_slot(lock_events *events) {
    return held_in_open_slot_by(ours(), events);
}

static void hold_in_open_slot(const char *first, const char *second) {
    java *j = new_java(T_MS);
    lock_events *events = make_events();
    tl_lock *lock = held_in_open_slot(events);
    int64_t end_ms;
    if (first)
        real_fleet_move_key(fleet, first);
    outlast(j, lock);
    if (second) {
        real_fleet_move_key(fleet, second);
        outlast(j, lock);
    }
    ASSERT_RESULT(tl_lock_extend(lock, T_MS, &said), TL_OK);
    assert_true(tl_lock_remaining_ms(lock) > T_MS / 2);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    JAVA_LOCKS(j, JOB, &end_ms); /* at once, wherever the key is */
    java_release(j, JOB, end_ms);
    real_fleet_close_slot(fleet);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    free_java(j);
}

TEST(a_held_stamp_is_renewed_and_released_while_its_slot_is_open) {
    hold_in_open_slot(NULL, JOB);
    hold_in_open_slot("{slot}job:tidelock", NULL);
    hold_in_open_slot(JOB, "{slot}job:tidelock");
}

TEST(what_was_renewed_in_an_open_slot_goes_on_when_it_has_moved) {
    java *j = new_java(T_MS);
    lock_events *events = make_events();
    tl_lock *lock = held_in_open_slot(events);
    real_fleet_move_key(fleet, JOB);
    outlast(j, lock);
    real_fleet_close_slot(fleet);
    outlast(j, lock);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    free_java(j);
}

static bool is_at_rest(tl_client *client) {
    tl_lock_info info = {.size = sizeof info};
    ASSERT_RESULT(tl_client_look(client, JOB, strlen(JOB), &info, &said), TL_OK);
    return info.rests;
}

/* K has what was renewed in the open slot, which S has only noted. */
TEST(a_stamp_rests_when_its_slot_has_moved) {
    java *j = new_java(T_MS);
    tl_client *client = ours_within(TL_BRIDGE, clock_patient_ms(1000));
    tl_lock *lock = held_in_open_slot_by(client, make_events());
    int64_t end_ms;
    real_fleet_move_key(fleet, JOB);
    outlast(j, lock);
    ASSERT_RESULT(tl_lock_rest(lock, 3600000, &said), TL_EUNAVAILABLE);
    ASSERT_SAID(
        "the key's slot is being moved: a lock that may be a stamp can't rest until it has moved");
    assert_false(java_lock(j, JOB, &end_ms));
    real_fleet_close_slot(fleet);
    WAIT_FOR(SOON_MS, is_at_rest(client)); /* in the background */
    assert_false(java_lock(j, JOB, &end_ms));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
    ASSERT_RESULT(tl_client_break(client, JOB, strlen(JOB), NULL, &said), TL_OK);
    JAVA_LOCKS(j, JOB, &end_ms);
    java_release(j, JOB, end_ms);
    free_java(j);
}

TEST(none_is_acquired_while_its_slot_is_open_and_who_waits_has_it_afterwards) {
    free_key();
    tl_client *client = ours_within(TL_BRIDGE, clock_patient_ms(1000));
    tl_lock *lock = told_of(client, make_events());
    real_fleet_open_slot(fleet, JOB, another_master());
    ASSERT_RESULT(tl_client_break(client, JOB, strlen(JOB), NULL, &said), TL_EUNAVAILABLE);
    ASSERT_SAID("the key's slot is being moved: nothing is removed until it has moved");
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EUNAVAILABLE);
    ASSERT_SAID(
        "the key's slot is being moved: a lock with a stamp can't be acquired until it has moved; "
        "wait, or finish the move");
    real_fleet_close_slot(fleet);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

TEST(a_holder_is_told_of_a_loss_while_its_slot_is_open) {
    java *j = new_java(T_MS);
    lock_events *events = make_events();
    tl_lock *lock = held_in_open_slot(events);
    int64_t end_ms;
    real_fleet_move_key(fleet, JOB);
    let_pass(2 * M_MS);              /* else it may be a racing loser's */
    java_release(j, JOB, INT64_MAX); /* of another's lock */
    JAVA_LOCKS(j, JOB, &end_ms);
    lock_event event = lock_events_await(events, TL_LOST, T_MS + SOON_MS);
    assert_true(event.why == TL_LOST_TAKEN || event.why == TL_LOST_GONE);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    (void)tl_lock_release(lock, &said);
    assert_false(java_lock(j, JOB, &end_ms)); /* what it has is left alone */
    java_release(j, JOB, end_ms);
    real_fleet_close_slot(fleet);
    free_java(j);
}

/* ---- all at once ------------------------------------------------------------------------------------ */

#define TURNS_MS clock_patient_ms(6000)

static atomic_int inside;
static atomic_bool over;
static atomic_int turns[2], twice;

static void take_turn(int who) {
    const struct timespec work = {.tv_nsec = 3000000};
    atomic_fetch_add(&twice, atomic_fetch_add(&inside, 1) != 0);
    (void)nanosleep(&work, NULL);
    atomic_fetch_sub(&inside, 1);
    atomic_fetch_add(&turns[who], 1);
}

static void *java_service(void *j) {
    const struct timespec pause = {.tv_nsec = 2000000};
    int64_t end_ms;
    while (!atomic_load(&over)) {
        if (java_lock(j, JOB, &end_ms)) {
            take_turn(0);
            java_release(j, JOB, end_ms);
        }
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

static void *our_service(void *lock) {
    tl_error err;
    while (!atomic_load(&over)) {
        if (tl_lock_acquire(lock, 1000, &err))
            continue;
        take_turn(1);
        (void)tl_lock_release(lock, &err);
    }
    return NULL;
}

static bool is_enough(int moves) {
    return moves > 1 && atomic_load(&turns[0]) > 5 && atomic_load(&turns[1]) > 5;
}

TEST(java_and_ours_take_turns_while_the_slot_goes_from_node_to_node) {
    enum { EACH = 3 };
    pthread_t thread[2 * EACH];
    java *javas[EACH];
    free_key();
    atomic_store(&over, false);
    for (int i = 0; i < EACH; i++) {
        javas[i] = new_java(T_MS);
        tl_lock *lock = told_of(ours(), make_events());
        assert_int_equal(pthread_create(&thread[2 * i], NULL, java_service, javas[i]), 0);
        assert_int_equal(pthread_create(&thread[2 * i + 1], NULL, our_service, lock), 0);
    }
    int moves = 0;
    const clock_wait wait = clock_wait_begin(TURNS_MS), bound = clock_wait_begin(8 * SOON_MS);
    for (; clock_wait_more(&wait) || (!is_enough(moves) && clock_wait_more(&bound)); moves++) {
        real_fleet_open_slot(fleet, JOB, another_master());
        real_fleet_move_key(fleet, moves % 2 ? JOB : "{slot}job:tidelock");
        real_fleet_close_slot(fleet);
        let_pass(2 * L_MS); /* assumed: nobody is led on to where a slot was before */
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2 * EACH; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < EACH; i++)
        free_java(javas[i]);
    print_message("%d moves of the slot, %d turns of Java, %d of ours\n", moves,
                  atomic_load(&turns[0]), atomic_load(&turns[1]));
    assert_int_equal(atomic_load(&twice), 0);
    assert_true(is_enough(moves));
}

/* ---- what isn't to be had, and the drop-in ----------------------------------------------------------- */

TEST(without_scripts_no_lock_is_acquired_in_a_cluster) {
    const tl_legacy_options strict = TL_LEGACY_OPTIONS(.strict = true);
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet),
                                                           .protocol = TL_TIMESTAMP,
                                                           .legacy = &strict));
    assert_null(tl_lock_new(client, "job", 3, NULL, &said));
    assert_int_equal(said.code, TL_EINVALID);
    ASSERT_SAID("locks can be looked at, but not acquired: that needs scripts there");
}

/* ---- phases ---------------------------------------------------------------------------------------- */

static void set_phase(const char *key, int phase) {
    static int64_t epoch = 1796000000000000; /* a time */
    const tl_slot_tag tag = tl__slot_tag(tl__hash_slot(tl__bytes_of(key)));
    char name[64], text[32];
    (void)snprintf(name, sizeof name, "tidelock:phase:slot:{%s}:default", tag.text);
    (void)snprintf(text, sizeof text, "%d %lld", phase, (long long)++epoch);
    freeReplyObject(phase < 0 ? real_redis_command(owner(key), "DEL %s", name)
                              : real_redis_command(owner(key), "SET %s %s", name, text));
}

static bool is_token(const char *key) {
    redisReply *reply = real_redis_command(owner(key), "GET %s", key);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    bool is = reply->len == TL_TOKEN_SIZE - 1;
    freeReplyObject(reply);
    return is;
}

static tl_lock *auto_lock(const char *key) {
    return make_lock_with(ours_as(TL_AUTO), key, TL_LOCK_OPTIONS(.ttl_ms = 0));
}

TEST(each_acquire_in_a_cluster_follows_the_phase_of_its_slot) {
    static const int phases[] = {-1, 1, 2, 3, 2, 1, 0, 3, -1};
    java *j = new_java(T_MS);
    int64_t end_ms;
    free_key();
    tl_lock *lock = auto_lock(JOB), *other = auto_lock("{another}job");
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        set_phase(JOB, phases[i]);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        assert_int_equal(is_token(JOB), phases[i] >= 2);
        ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
        assert_false(is_token("{another}job")); /* its slot has no register */
        assert_true(phases[i] >= 2 ||
                    !java_lock(j, JOB, &end_ms)); /* Java can't run beside tokens */
        ASSERT_RESULT(tl_lock_extend(lock, T_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
        JAVA_LOCKS(j, JOB, &end_ms);
        java_release(j, JOB, end_ms);
    }
    free_java(j);
}

static int64_t scripts_run(const char *key) {
    redisReply *reply = real_redis_command(owner(key), "INFO commandstats");
    int64_t calls = 0;
    for (const char *at = reply->str; (at = strstr(at, "cmdstat_eval")); at++)
        calls += atoll(strstr(at, "calls=") + 6);
    freeReplyObject(reply);
    return calls;
}

/* The first acquire learns the phase from the server's reply, and is sent again. */
TEST(a_phase_costs_one_request_when_it_has_changed_and_none_later) {
    enum { TIMES = 5 };
    free_key();
    for (int phase = 0; phase <= 3; phase++) {
        tl_lock *lock = auto_lock(JOB);
        set_phase(JOB, phase);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK); /* and the scripts are known */
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        set_phase(JOB, phase);
        int64_t before = scripts_run(JOB);
        for (int i = 0; i < TIMES; i++) {
            ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
            ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        }
        assert_int_equal(scripts_run(JOB) - before, 2 * TIMES + 1);
    }
    set_phase(JOB, -1);
}

TEST(a_hold_in_a_cluster_stays_what_it_is) {
    free_key();
    tl_lock *lock = auto_lock(JOB);
    for (int phase = 1; phase <= 2; phase++) {
        set_phase(JOB, phase);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        set_phase(JOB, 3 - phase);
        ASSERT_RESULT(tl_lock_extend(lock, T_MS, &said), TL_OK);
        assert_int_equal(is_token(JOB), phase == 2);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
    set_phase(JOB, -1);
}

static void *await_turn(void *lock) {
    tl_error err;
    return tl_lock_acquire(lock, T_MS + SOON_MS, &err) == TL_OK ? lock : NULL;
}

/* It waits in the queue of the token phase, which ends meanwhile. */
TEST(waiters_of_the_last_phase_acquire_by_the_phase_of_their_turn) {
    free_key();
    set_phase(JOB, 3);
    tl_lock *lock = auto_lock(JOB), *next = auto_lock(JOB);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK); /* and so it knows the phase */
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    pthread_t thread;
    void *acquired;
    assert_int_equal(pthread_create(&thread, NULL, await_turn, next), 0);
    WAIT_FOR(SOON_MS, real_redis_int(owner(JOB), "ZCARD {slot}job:tidelock:line") == 1);
    set_phase(JOB, 1);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(pthread_join(thread, &acquired), 0);
    assert_ptr_equal(acquired, next);
    assert_false(is_token(JOB));
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
    set_phase(JOB, -1);
}

static bool is_in_line(int waiters) {
    return real_redis_int(owner(JOB), "ZCARD {slot}job:tidelock:line") == waiters;
}

static void *await_in_vain(void *lock) {
    tl_error err;
    return tl_lock_acquire(lock, clock_patient_ms(2000), &err) == TL_OK ? NULL : lock;
}

/* Else each release would call it, and wait for it. */
TEST(a_waiter_leaves_the_queue_also_while_its_slot_is_open) {
    free_key();
    set_phase(JOB, 3);
    tl_lock *lock = auto_lock(JOB), *next = auto_lock(JOB);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK); /* and so it knows the phase */
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    pthread_t thread;
    void *waited;
    assert_int_equal(pthread_create(&thread, NULL, await_in_vain, next), 0);
    WAIT_FOR(SOON_MS, is_in_line(1));
    real_fleet_open_slot(fleet, JOB, another_master());
    real_fleet_move_key(fleet, JOB);
    assert_int_equal(pthread_join(thread, &waited), 0);
    assert_ptr_equal(waited, next);
    WAIT_FOR(SOON_MS, !is_in_line(1)); /* gone, so it would be at the other node */
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    real_fleet_close_slot(fleet);
    set_phase(JOB, -1);
}

TEST(a_token_of_a_phase_outlasts_an_open_slot_where_none_is_acquired) {
    lock_events *events = make_events();
    free_key();
    set_phase(JOB, 3);
    tl_client *client = ours_as(TL_AUTO);
    tl_lock *lock = held_in_open_slot_by(client, events);
    tl_lock *other = told_of(ours_within(TL_AUTO, clock_patient_ms(1000)), make_events());
    assert_true(is_token(JOB));
    real_fleet_move_key(fleet, JOB);
    ASSERT_RESULT(tl_lock_extend(lock, T_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EUNAVAILABLE);
    ASSERT_SAID(
        "the key's slot is being moved: a lock that follows a phase can't be acquired until "
        "it has moved; wait, or finish the move");
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    real_fleet_close_slot(fleet);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    assert_true(is_token(JOB)); /* the register has moved, too */
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    set_phase(JOB, -1);
}

/* The holder is another process, which hands its lock over. Only the token is known. */
static void adopt_in_open_slot(int phase) {
    lock_events *events = make_events();
    free_key();
    set_phase(JOB, phase);
    tl_lock *first = held_in_open_slot_by(ours_as(TL_AUTO), make_events());
    tl_lock *heir = told_of(ours_as(TL_AUTO), events);
    real_fleet_move_key(fleet, JOB);
    ASSERT_RESULT(tl_lock_adopt(heir, tl_lock_token(first), &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(heir, T_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(heir, T_MS, &said), TL_OK);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    ASSERT_RESULT(tl_lock_release(heir, &said), TL_OK);
    (void)tl_lock_release(first, &said);
    real_fleet_close_slot(fleet);
    ASSERT_RESULT(tl_lock_acquire(heir, 0, &said), TL_OK); /* nothing has stayed behind */
    ASSERT_RESULT(tl_lock_release(heir, &said), TL_OK);
    set_phase(JOB, -1);
}

TEST(a_lock_that_is_handed_over_outlasts_an_open_slot) {
    for (int phase = 1; phase <= 3; phase++)
        adopt_in_open_slot(phase);
}

/* Only the token is known, as of an acquire that went unanswered. */
TEST(a_token_is_released_by_its_token_alone_in_an_open_slot) {
    free_key();
    set_phase(JOB, 3);
    tl_lock *first = held_in_open_slot_by(ours_as(TL_AUTO), make_events());
    tl_lock *heir = auto_lock(JOB);
    real_fleet_move_key(fleet, JOB);
    ASSERT_RESULT(tl_lock_adopt(heir, tl_lock_token(first), &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(heir, &said), TL_OK);
    (void)tl_lock_release(first, &said);
    real_fleet_close_slot(fleet);
    ASSERT_RESULT(tl_lock_acquire(heir, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(heir, &said), TL_OK);
    set_phase(JOB, -1);
}

TEST(a_register_of_a_slot_that_cannot_be_read_is_named) {
    free_key();
    set_phase(JOB, 7);
    ASSERT_RESULT(tl_lock_acquire(auto_lock(JOB), SOON_MS, &said), TL_ESERVER);
    ASSERT_SAID("namespace default: its register tidelock:phase:slot:{");
    set_phase(JOB, -1);
}

TEST(the_drop_in_locks_in_a_cluster) {
    java *j = new_java(60000);
    tl_dlu *locks = tl_dlu_open_with(
        &TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .protocol = TL_BRIDGE,
                           .attempt_ms = SOON_MS, .connect_ms = SOON_MS),
        &said);
    int64_t end_ms;
    assert_non_null(locks);
    assert_true(tl_dlu_lock(locks, "nightly", &said));
    assert_false(java_lock(j, "nightly", &end_ms));
    assert_int_equal(tl_dlu_release(locks, "nightly", &said), TL_OK);
    JAVA_LOCKS(j, "nightly", &end_ms);
    assert_false(tl_dlu_lock(locks, "nightly", &said));
    java_release(j, "nightly", end_ms);
    tl_dlu_close(locks);
    free_java(j);
}

TEST(the_drop_in_follows_the_phase_of_a_slot) {
    const tl_legacy_options all = TL_LEGACY_OPTIONS(.namespaces = "*=default");
    tl_dlu *locks = tl_dlu_open_with(
        &TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .protocol = TL_AUTO, .legacy = &all,
                           .attempt_ms = SOON_MS, .connect_ms = SOON_MS),
        &said);
    assert_non_null(locks);
    for (int phase = -1; phase <= 3; phase++) {
        set_phase("nightly", phase);
        assert_true(tl_dlu_lock(locks, "nightly", &said));
        assert_int_equal(is_token("nightly"), phase >= 2);
        assert_false(tl_dlu_lock(locks, "nightly", &said));
        assert_true(tl_dlu_remaining_ms(locks, "nightly") > 0);
        assert_int_equal(tl_dlu_release(locks, "nightly", &said), TL_OK);
    }
    set_phase("nightly", -1);
    tl_dlu_close(locks);
}
