/*
 * The fake server refuses to scripts what real servers of its age refuse, in their words: its answers at each
 * level beside those that golden/old_scripts.py had from real ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_redis.h"
#include "tests.h"

#define FILE_NAME "tests/unit/golden/old_scripts.txt"
#define ANSWERS_LEAST 250 /* of all servers together */
#define SHA 40

/* The answer as the file has it. */
static void show(const tl_reply *reply, char *to, size_t size) {
    char text[600];
    (void)snprintf(text, sizeof text, "%.*s", (int)reply->text.n, reply->text.p);
    char *name = strstr(text, "f_"), *end = text + strlen(text);
    if (reply->type == TL_REPLY_ERROR && name && end - name > SHA + 2)
        memmove(name + 5, name + 2 + SHA, (size_t)(end - name) - SHA - 1);
    if (reply->type == TL_REPLY_ERROR && name)
        memcpy(name, "f_SHA", 5);
    switch (reply->type) {
    case TL_REPLY_NIL: (void)snprintf(to, size, "nil"); break;
    case TL_REPLY_INT: (void)snprintf(to, size, "%lld", (long long)reply->integer); break;
    case TL_REPLY_ERROR: (void)snprintf(to, size, "-%s", text); break;
    default: (void)snprintf(to, size, "%s", text);
    }
}

static void compare(const char *script, const char *version, const char *answer) {
    unsigned major, minor, patch;
    char got[640];
    assert_int_equal(sscanf(version, "%u.%u.%u", &major, &minor, &patch), 3);
    fake_redis *server = fake_redis_new();
    fake_conn *conn = fake_redis_connect(server, NULL, NULL);
    const tl_bytes argv[] = {TL_LITERAL("EVAL"), tl__bytes_of(script), TL_LITERAL("0")};
    fake_redis_set_level(server, FAKE_LEVEL(major, minor, patch));
    assert_non_null(fake_conn_say(conn, "SADD s m"));
    show(fake_conn_command(conn, argv, sizeof argv / sizeof *argv), got, sizeof got);
    if (strcmp(got, answer) != 0)
        fail_msg("%s at %s: '%s' instead of '%s'", script, version, got, answer);
    fake_conn_close(conn);
    fake_redis_free(server);
}

TEST(scripts_are_refused_as_by_real_servers_of_that_age) {
    char line[800], script[400] = "";
    int answers = 0;
    FILE *file = fopen(FILE_NAME, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *blank = strchr(line, ' ');
        assert_non_null(blank);
        *blank = '\0';
        if (strcmp(line, ">") == 0) {
            (void)snprintf(script, sizeof script, "%.399s", blank + 1);
            continue;
        }
        compare(script, line, blank + 1);
        answers++;
    }
    (void)fclose(file);
    assert_true(answers >= ANSWERS_LEAST);
}
