/*
 * What a client knows of its server, for all of its threads: the anchored clock, since when it is
 * silent, what it can do. Also the log, and what is drawn at random.
 */
#include <stdarg.h>
#include <stdio.h>

#include "client/client.h"

#define WARN_AGAIN_MS 60000

void tl__log(tl_client *client, tl_log_level level, const char *format, ...) {
    if (!client->log)
        return;
    char line[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    client->log(level, line, client->log_ctx);
}

/* However long ago `before` was, the truth lies between. */
static void read_wall(tl_server *server, tl_mono before) {
    int64_t us = tl__wall_now().us;
    tl_mono after = tl__mono_now();
    server->wall_us = us - after.ns / 1000 - 1;
    server->wall_wide_us = (after.ns - before.ns) / 1000 + 2;
}

tl_server tl__client_server(tl_client *client, tl_mono now) {
    tl__mutex_lock(&client->mutex);
    tl_server server = client->server;
    tl__mutex_unlock(&client->mutex);
    if (client->protocol->reads_wall)
        read_wall(&server, now);
    return server;
}

void tl__client_level(tl_client *client, uint8_t level) {
    tl__mutex_lock(&client->mutex);
    client->server.level = level;
    tl__mutex_unlock(&client->mutex);
}

void tl__client_clock_off(tl_client *client, const char *words, tl_mono now) {
    int64_t last = atomic_load(&client->warned_ns);
    if (last != 0 && now.ns - last < WARN_AGAIN_MS * TL_NS_PER_MS)
        return;
    if (atomic_compare_exchange_strong(&client->warned_ns, &last, now.ns))
        tl__log(client, TL_LOG_WARNING, "%s", words);
}

void tl__client_asked(tl_client *client, tl_mono now) {
    int64_t none = 0;
    (void)atomic_compare_exchange_strong(&client->mute_ns, &none, now.ns);
}

void tl__client_answered(tl_client *client, tl_mono now) {
    atomic_store(&client->heard_ns, now.ns);
    atomic_store(&client->mute_ns, 0);
}

bool tl__client_heard_since(const tl_client *client, tl_mono since) {
    return atomic_load(&client->heard_ns) >= since.ns;
}

int64_t tl__client_mute_ms(tl_client *client, tl_mono since, tl_mono now) {
    tl_mono mute = {atomic_load(&client->mute_ns)};
    if (mute.ns == 0 || tl__client_heard_since(client, since))
        return 0;
    return tl__ms_until(tl__mono_max(mute, since), now) + 1;
}

static void warn_of_step(tl_client *client) {
    tl__log(client, TL_LOG_WARNING, "%s: the server's clock has stepped, or another server answers",
            client->endpoint.label);
}

bool tl__client_learn(tl_client *client, tl_interval bracket, tl_mono now) {
    tl__mutex_lock(&client->mutex);
    bool stepped = tl__anchor_learn(&client->server.anchor, bracket, now, client->drift_ppm);
    tl__mutex_unlock(&client->mutex);
    if (stepped)
        warn_of_step(client);
    return stepped;
}

bool tl__client_up(tl_client *client, const tl_interval *bracket, int64_t uptime_us, tl_mono now) {
    tl__mutex_lock(&client->mutex);
    tl_anchor *anchor = &client->server.anchor;
    bool stepped = bracket && tl__anchor_renew(anchor, *bracket, now, client->drift_ppm);
    if (!bracket) /* one that doesn't tell the time isn't to be judged by another's */
        anchor->known = false;
    client->server.level = 0;
    if (uptime_us >= 0) { /* a difference of two whole seconds: up to one less in truth */
        int64_t least_us = uptime_us > 1000000 ? uptime_us - 1000000 : 0;
        client->server.up_since = tl__mono_add_ns(now, -tl__mul_sat(least_us, 1000));
    }
    tl__mutex_unlock(&client->mutex);
    tl__client_answered(client, now);
    if (stepped)
        warn_of_step(client);
    return stepped;
}

tl_token tl__client_token(tl_client *client) {
    tl__mutex_lock(&client->mutex);
    tl_token token = tl__token_draw(&client->random);
    tl__mutex_unlock(&client->mutex);
    return token;
}

uint64_t tl__client_seed(tl_client *client) {
    tl__mutex_lock(&client->mutex);
    uint64_t seed = tl__random_draw(&client->random);
    tl__mutex_unlock(&client->mutex);
    return seed;
}

tl_conn_limits tl__client_limits(const tl_client *client) {
    return (tl_conn_limits){.connect_ms = client->connect_ms,
                            .ask_uptime = client->restart_quiet_ms > 0,
                            .no_time = client->legacy.options.strict,
                            .ask_run = client->protocol->lines != NULL,
                            .ask_id = client->protocol->lines || (client->protocol->watching &&
                                                                  !client->legacy.options.strict)};
}
