/*
 * The helper that runs a private redis-server: it starts, dies, freezes and comes back.
 */
#ifndef TL_SYSTEM_TIME_64 /* hiredis takes a struct timeval: the system's, of 32 bits in some 32-bit systems */
#undef _TIME_BITS
#endif
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "real_redis.h"
#include "tests.h"

static void set(real_redis *r, const char *key) {
    redisReply *reply = real_redis_command(r, "SET %s 1", key);
    assert_non_null(reply);
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
}

TEST(data_survive_a_kill_only_when_persistent) {
    for (int persist = 0; persist <= 1; persist++) {
        real_redis *r = real_redis_start(&(real_redis_options){.persist = persist});
        int port = real_redis_port(r);
        pid_t pid = real_redis_pid(r);
        set(r, "k");
        real_redis_kill(r);
        assert_int_equal(real_redis_pid(r), -1);
        redisContext *c = redisConnect("127.0.0.1", port);
        assert_int_not_equal(c->err, 0);
        redisFree(c);
        real_redis_restart(r);
        assert_int_equal(real_redis_port(r), port);
        assert_int_not_equal(real_redis_pid(r), pid);
        assert_int_equal(real_redis_int(r, "EXISTS k"), persist);
        c = redisConnect("127.0.0.1", port);
        assert_int_equal(c->err, 0);
        redisFree(c);
        real_redis_free(r);
    }
}

TEST(a_frozen_server_answers_after_the_thaw) {
    real_redis *r = real_redis_start(NULL);
    redisContext *c = real_redis_connect(r);
    freeReplyObject(redisCommand(c, "PING"));
    real_redis_freeze(r);
    redisSetTimeout(c, (struct timeval){.tv_usec = 50000});
    assert_null(redisCommand(c, "PING"));
    redisFree(c);
    real_redis_thaw(r);
    set(r, "k");
    real_redis_freeze(r);
    real_redis_kill(r);
    real_redis_free(r);
}

TEST(options_reach_the_server) {
    char url[128], dir[128];
    real_redis *r = real_redis_start(&(real_redis_options){
        .password = "secret", .config = "rename-command EVAL \"\"\nmaxclients 77"});
    snprintf(url, sizeof(url), "redis://:secret@127.0.0.1:%d", real_redis_port(r));
    assert_string_equal(real_redis_url(r), url);
    redisReply *reply = real_redis_command(r, "CONFIG GET maxclients");
    assert_string_equal(reply->element[1]->str, "77");
    freeReplyObject(reply);
    reply = real_redis_command(r, "EVAL x 0");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    snprintf(dir, sizeof(dir), "%s", real_redis_dir(r));
    real_redis_free(r);
    assert_int_equal(access(dir, F_OK), -1);
}
