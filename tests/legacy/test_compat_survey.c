/*
 * tidelock migrate survey beside real Java services with the legacy lock, some with a clock of their own: it
 * finds their names, their hosts, their lifetime and how far their clocks are apart, and changes nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "legacy.h"
#include "tests.h"

#define HOSTS 3
#define OUTPUT (1 << 16)
#define NAMED 64

static const int shifts_ms[HOSTS] = {0, 0, 400};
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

static void start(int i) {
    char port[16], from[NAMED], key[NAMED], line[LINE_SIZE];
    (void)snprintf(port, sizeof port, "%d", real_redis_port(server));
    (void)snprintf(key, sizeof key, "batch:lock%d", i);
    (void)snprintf(from, sizeof from, "127.0.0.%d", i + 10);
    javas[i] = service_java((const char *const[]){"LegacyWorker", "tries", port, "60000", key, from,
                                                  i ? "reuse" : "fresh", NULL},
                            shifts_ms[i], NULL);
    service_await(&javas[i], line);
    assert_string_equal(line, "ready");
    service_say(&javas[i], "go");
}

static void run(const char *options) {
    char command[512];
    const char *tool = getenv("TIDELOCK");
    (void)snprintf(command, sizeof command, "%s --url %s migrate survey %s",
                   tool ? tool : "build/tidelock", real_redis_url(server), options);
    FILE *f = popen(command, "re");
    assert_non_null(f);
    size_t n = fread(output, 1, sizeof output - 1, f);
    output[n] = '\0';
    int status = pclose(f);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define HAS(part)                                                                                  \
    do {                                                                                           \
        if (!strstr(output, (part)))                                                               \
            fail_msg("no '%s': %.4000s", (part), output);                                          \
    } while (0)

static double number(const char *text, const char *name) {
    const char *at = strstr(text, name);
    if (!at)
        fail_msg("no '%s': %.4000s", name, text);
    return strtod(at + strlen(name), NULL);
}

TEST(services_of_java_are_found_with_their_clocks_and_lifetime) {
    for (int i = 0; i < HOSTS; i++)
        start(i);
    run("--watch 1s --monitor 2s --json");
    HAS("\"pattern\":\"batch:*\",\"legacy\":true");
    HAS("\"dialects\":[\"java\",\"jedis-lock\",\"node-ms\"]");
    HAS("\"host\":\"127.0.0.10\"");
    HAS("\"init\":\"tidelock migrate init --namespace default --keys 'batch:*' --phase 1 --lease "
        "30s\"");
    const char *clock = strstr(strstr(output, "\"clocks\":"), "\"host\":\"127.0.0.12\"");
    assert_non_null(clock);
    assert_true(number(clock, "\"lo\":") <= 401 && number(clock, "\"hi\":") >= 399);
    HAS("\"relative\":true");
    double ttl = number(strstr(output, "\"legacy_ttl_min\":"), "\"ms\":");
    assert_true(ttl <= 60000 && ttl > 0);
    assert_true(number(strstr(output, "\"clock_skew_max\":"), "\"ms\":") >= 1000);
    run("--watch 300ms --monitor 1s --legacy-ttl-min 60s");
    HAS("127.0.0.12");
    HAS("off the server");
    HAS("SETNX and GETSET on batch:*");
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
