/*
 * The verdict for a namespace: a hash in the same slot as its register. Both its times are the
 * server's, because its readers have no other clock in common.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "legacy/skew_publish.h"
#include "skew/skew_self.h"

#define ROUNDS 3

int64_t skew_publish_worst_ms(const skew_result *result) {
    int64_t most_us = -1;

    for (size_t i = 0; i < result->pair_count; i++) {
        int64_t lo = -result->pairs[i].gap.lo, hi = result->pairs[i].gap.hi,
                wide = lo > hi ? lo : hi;
        most_us = wide > most_us ? wide : most_us;
    }
    return most_us < 0 ? -1 : most_us / 1000 + (most_us % 1000 > 0);
}

static bool take_any(void *ctx, const tl_reply *reply) {
    (void)ctx;
    return reply->type != TL_REPLY_ERROR;
}

int skew_publish(server_link *link, const char *name, const skew_result *result, int64_t watch_ms) {
    static const char script[] =
        "local now = tonumber(ARGV[5]) -- servers below 3.2 write nothing once they were asked\n"
        "if redis.replicate_commands then\n"
        "    redis.replicate_commands()\n"
        "    local t = redis.call('TIME')\n"
        "    now = t[1] * 1000000 + t[2]\n"
        "end\n"
        "local function at(ms) return string.format('%.0f', now + ms * 1000) end\n"
        "redis.call('HMSET', KEYS[1], 'verdict', ARGV[1], 'worst_ms', ARGV[2], 'at', at(0),\n"
        "           'until', at(ARGV[3]), 'by', ARGV[4], 'reason', ARGV[6])\n"
        "return 1\n";
    int64_t for_ms = watch_ms > SKEW_PUBLISHED_MS / ROUNDS ? watch_ms * ROUNDS : SKEW_PUBLISHED_MS;
    char key[128], worst[24], valid[24], by[SKEW_NAME_SIZE + 24], host[SKEW_NAME_SIZE], now[24];

    skew_self_name(host);
    (void)snprintf(key, sizeof key, "tidelock:skew:{%.64s}", name);
    (void)snprintf(worst, sizeof worst, "%lld", (long long)skew_publish_worst_ms(result));
    (void)snprintf(valid, sizeof valid, "%lld", (long long)for_ms);
    (void)snprintf(by, sizeof by, "%s %lld", host, (long long)getpid());
    (void)snprintf(now, sizeof now, "%lld000", (long long)result->at_ms);
    const char *const request[] = {"EVAL", script, "1", key, skew_verdict_name(result->verdict),
                                   worst,  valid,  by,  now, result->reason,
                                   NULL};
    if (link_ask(link, request, take_any, NULL))
        return 0;
    return fail(link->status, "--publish: %s", link->message);
}
