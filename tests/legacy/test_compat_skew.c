/*
 * tidelock skew --passive beside real Java services with the legacy lock, each on an address and with a
 * clock of its own: the truth is inside, and the interval narrow.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "legacy.h"
#include "tests.h"

#define HOSTS 6
#define ORPHANS 4000 /* more than one of them gets round to in the time */
#define OPERATIONS 200
#define LISTEN "3s"
#define NARROW_MS 2.0
#define NAMED 64
#define OUTPUT (1 << 16)

typedef struct {
    int shift_ms;
    const char *how;
} post;

static const post posts[HOSTS] = {{0, "fresh"},  {250, "fresh"}, {-250, "reuse"},
                                  {37, "reuse"}, {-3, "fresh"},  {800, "reuse"}};

static real_redis *server;
static service javas[HOSTS];
static char output[OUTPUT];

static int clean_up(void **state) {
    (void)state;
    for (int i = 0; i < HOSTS; i++)
        (void)service_kill(&javas[i]);
    (void)real_redis_int(server, "FLUSHALL");
    return 0;
}

TESTS_WITH(NULL, clean_up);

static void address(int i, char to[NAMED]) {
    (void)snprintf(to, NAMED, "127.0.0.%d", i + 10);
}

/* Stamps of holders that died long ago, half of the keys. */
static void plant_orphans(int i) {
    char script[256];
    (void)snprintf(script, sizeof script,
                   "for n = 0, %d, 2 do redis.call('SET', 'lock%d:' .. n, '1600000000000') end",
                   ORPHANS, i);
    redisReply *r = real_redis_command(server, "EVAL %s 0", script);
    assert_non_null(r);
    assert_int_not_equal(r->type, REDIS_REPLY_ERROR);
    freeReplyObject(r);
}

static void start(int i) {
    char port[16], from[NAMED], key[NAMED], line[LINE_SIZE];
    (void)snprintf(port, sizeof port, "%d", real_redis_port(server));
    (void)snprintf(key, sizeof key, "lock%d", i);
    address(i, from);
    plant_orphans(i);
    javas[i] = service_java((const char *const[]){"LegacyWorker", "tries", port, "60000", key, from,
                                                  posts[i].how, NULL},
                            posts[i].shift_ms, NULL);
    service_await(&javas[i], line);
    assert_string_equal(line, "ready");
    service_say(&javas[i], "go");
}

/* The tool's JSON; its exit status. */
static int measure(const char *options) {
    char command[512];
    const char *tool = getenv("TIDELOCK");
    (void)snprintf(command, sizeof command, "%s --url %s skew --json --passive=" LISTEN " %s",
                   tool ? tool : "build/tidelock", real_redis_url(server), options);
    FILE *f = popen(command, "re");
    assert_non_null(f);
    size_t n = fread(output, 1, sizeof output - 1, f);
    output[n] = '\0';
    int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const char *row(int i) {
    char name[NAMED], start_of[2 * NAMED];
    address(i, name);
    (void)snprintf(start_of, sizeof start_of, "{\"name\":\"%s\",\"instrument\":\"passive\"", name);
    const char *at = strstr(output, start_of);
    if (!at)
        fail_msg("%s is missing: %.2000s", name, output);
    return at;
}

static double number(const char *text, const char *name) {
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtod(at + strlen(name), NULL);
}

TEST(the_truth_is_inside_and_the_interval_narrow) {
    int narrow = 0, busy = 0;
    for (int i = 0; i < HOSTS; i++)
        start(i);
    assert_int_equal(measure("--slack 10s --warn 100%"), 0);
    for (int i = 0; i < HOSTS; i++) {
        const char *r = row(i);
        if (strncmp(strstr(r, "\"offset_ms\":"), "\"offset_ms\":null", 16) == 0)
            fail_msg("host %d is unknown: %.600s", i, r);
        double lo = number(r, "\"lo\":"), hi = number(r, "\"hi\":"), n = number(r, "\"samples\":");
        print_message("%+d ms, %s: %.3f to %.3f, %.0f stamps\n", posts[i].shift_ms, posts[i].how,
                      lo, hi, n);
        if (lo > posts[i].shift_ms || hi < posts[i].shift_ms)
            fail_msg("the truth is outside");
        busy += n >= OPERATIONS;
        narrow += n >= OPERATIONS && hi - lo <= NARROW_MS;
    }
    if (busy == 0)
        print_message("a machine too slow to tell how narrow\n");
    assert_true(narrow * 20 >= busy * 19);
    assert_non_null(strstr(output, "\"cost\":\"MONITOR ran for "));
}

TEST(another_lifetime_than_theirs_is_a_mismatch_and_gaps_stand) {
    for (int i = 1; i < 3; i++)
        start(i);
    assert_int_equal(measure("--legacy-ttl 50s --slack 300ms"), 2); /* they are 500 ms apart */
    for (int i = 1; i < 3; i++) {
        assert_non_null(strstr(row(i), "\"offset_ms\":null"));
        assert_non_null(strstr(row(i), "\"status\":\"model-mismatch\""));
    }
    const char *worst = strstr(output, "\"worst\":");
    assert_true(number(worst, "\"lo\":") <= 500 && 500 <= number(worst, "\"hi\":"));
}

int main(void) {
    for (int i = 0; i < HOSTS; i++)
        javas[i] = (service){.pid = -1, .wire = -1};
    legacy_need_java();
    legacy_need_faketime();
    server = real_redis_start(
        &(real_redis_options){.config = real_server_has(REAL_LINE) ? "protected-mode no" : NULL});
    return tests_run();
}
