/*
 * The worlds of test_quorum_world, with servers that carry out the scripts that are shipped; fewer of them.
 */
#include <stdlib.h>

#include "fake_redis.h"
#include "quorum_world.h"

static qw_world world;
static fake_redis *servers[TL_QUORUM_MAX];
static fake_conn *conns[TL_QUORUM_MAX];
static uint64_t runs;

static unsigned keys_of(int script) {
    return script == TL_SCRIPT_VOTE ? 3 : 2;
}

static void copy_reply(qw_message *m, const tl_reply *r) {
    m->count = 1;
    m->reply = *r;
    for (unsigned i = 0; r->type == TL_REPLY_ARRAY && i < r->count; i++) {
        const tl_reply *item = &r->items[i];
        char text[64];
        m->items[i] = *item;
        if (item->type == TL_REPLY_STRING) {
            (void)snprintf(text, sizeof text, "%.*s", (int)item->text.n, item->text.p);
            qw_item(m, i, text);
        } else if (item->type == TL_REPLY_ARRAY) {
            assert_int_equal(item->count, 3);
            memcpy(m->inner, item->items, sizeof *m->inner * 3);
            m->inner[1] = (tl_reply){.type = TL_REPLY_NIL};
            m->items[i].items = m->inner;
        }
    }
    if (r->type == TL_REPLY_ARRAY)
        m->reply.items = m->items;
    else if (r->type != TL_REPLY_INT)
        m->reply = (tl_reply){.type = TL_REPLY_INT, .integer = 0}; /* drop tells whose it is */
}

static bool execute(qw_server *s, qw_message *m, int64_t now) {
    unsigned which = (unsigned)(s - world.server), n = 3;
    char keys[4];
    tl_bytes argv[QW_ITEMS + 3] = {TL_LITERAL("EVAL"), tl__script_text((tl_script)m->script)};
    (void)snprintf(keys, sizeof keys, "%u", keys_of(m->script));
    argv[2] = tl__bytes_of(keys);
    for (unsigned i = 0; i < m->argc; i++)
        argv[n++] = tl__bytes_of(m->argv[i]);
    fake_redis_set_time(servers[which], now);
    const tl_reply *r = fake_conn_command(conns[which], argv, n);
    if (r->type == TL_REPLY_ERROR)
        fail_msg("%.*s", (int)r->text.n, r->text.p);
    copy_reply(m, r);
    return m->script == TL_SCRIPT_DROP && m->reply.integer == 1;
}

static void restart(qw_server *s, bool keep) {
    unsigned which = (unsigned)(s - world.server);
    fake_conn_close(conns[which]);
    fake_redis_restart(servers[which], keep);
    fake_redis_set_run_id(servers[which], ++runs);
    conns[which] = fake_redis_connect(servers[which], NULL, NULL);
}

static void begin(const qw_settings *is) {
    qw_begin(&world, is);
    qw_real = execute;
    qw_real_restart = restart;
    for (unsigned i = 0; i < is->servers; i++) {
        servers[i] = fake_redis_new();
        conns[i] = fake_redis_connect(servers[i], NULL, NULL);
        world.server[i].real = servers[i];
    }
}

static void end(void) {
    for (unsigned i = 0; i < world.is.servers; i++) {
        fake_conn_close(conns[i]);
        fake_redis_free(servers[i]);
    }
}

TEST(the_scripts_that_are_shipped_do_as_their_model_does) {
    unsigned holds = 0, lost = 0, restarts = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        seed_begin(seed);
        qw_settings is = {.servers = seed % 3 ? 3 : 5,
                          .clients = 2 + (unsigned)draw(2),
                          .ttl_ms = 300 + draw(500),
                          .attempt_ms = 100,
                          .length_ms = 3000,
                          .calm_ms = 4000,
                          .skew_us = draw(50000),
                          .drift_ppm = 500,
                          .delay_us = 500 + draw(3000),
                          .break_of = 20,
                          .cut_of = 60,
                          .restart_of = 60,
                          .die_of = 200,
                          .keep_data = true};
        is.quiet_ms = is.ttl_ms;
        begin(&is);
        qw_run(&world);
        end();
        if (world.wrong || world.calm_holds == 0)
            fail_msg("seed %u, after %lld ms: %s", (unsigned)seed, (long long)(world.now_us / 1000),
                     world.wrong ? world.wrong : "nobody gets the lock when all is well again");
        holds += world.holds;
        lost += world.lost;
        restarts += world.restarts;
    }
    assert_true(holds > 300 && lost > 10 && restarts > 100);
}
