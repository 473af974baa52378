/*
 * Records by the code that agents make theirs with, of one real measurement, each moved a little.
 */
#include "fleet.h"

#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "skew/skew_self.h"

#define SAMPLES 8
#define APART_US 20000
#define AGE_US INT64_C(5000000)
#define KNOWN_US 5
#define LEASE_US INT64_C(3600000000)

static struct {
    int hosts;
    int64_t at_us; /* server time */
    char name[FLEET_MOST][SKEW_NAME_SIZE], text[FLEET_MOST][SKEW_RECORD_SIZE];
} f;

void fleet_make(server_link *l, int hosts) {
    const skew_effort effort = {.samples = SAMPLES, .for_ms = 1000};
    kernel_clock kernel = moment_kernel();
    skew_track track = {.known = false};
    char server[SKEW_SERVER_SIZE];
    skew_record own;
    if (!skew_self_server(l, server))
        die("skew: %s", l->message);
    if (!skew_self_measure(l, &track, &effort, skew_self_rate(&kernel)) || !track.known)
        die("skew: %s", track.known ? l->message : "the clock was set meanwhile");
    skew_self_record(&track, &kernel, server, &own);
    f.hosts = hosts;
    f.at_us = own.at_us;
    for (int i = 0; i < hosts; i++) {
        int64_t by = (int64_t)i * 7919 % (2 * APART_US) - APART_US;
        skew_record r = own;
        r.offset = (tl_interval){own.offset.lo + by, own.offset.hi + by};
        r.every_ms = LEASE_US / 3000;
        (void)snprintf(r.id, sizeof r.id, "%08x-%d", (unsigned)i, i + 1);
        (void)snprintf(f.name[i], sizeof f.name[i], "bench-%04d.example.com", i);
        skew_record_write(f.text[i], &r);
    }
}

static void put(redisContext *c, int i) {
    char key[SKEW_KEY_SIZE];
    redisReply *reply;
    skew_record_key(key, f.name[i]);
    (void)redisAppendCommand(c, "PSETEX %s %lld %s", key, (long long)(LEASE_US / 1000), f.text[i]);
    (void)redisAppendCommand(c, "ZADD %s %lld %s", SKEW_INDEX_KEY, (long long)(f.at_us + LEASE_US),
                             f.name[i]);
    for (int k = 0; k < 2; k++) {
        if (redisGetReply(c, (void **)&reply) != REDIS_OK || reply->type == REDIS_REPLY_ERROR)
            die("skew: a record could not be published");
        freeReplyObject(reply);
    }
}

void fleet_publish(void) {
    redisContext *c = bench_connect_near();
    for (int i = 0; i < f.hosts; i++)
        put(c, i);
    redisFree(c);
}

void fleet_read(skew_host *hosts) {
    for (int i = 0; i < f.hosts; i++) {
        skew_record r;
        if (!skew_record_read(f.text[i], strlen(f.text[i]), &r))
            die("skew: a record can't be read: %s", f.text[i]);
        hosts[i] = (skew_host){.kind = SKEW_CLOCK};
        (void)snprintf(hosts[i].name, sizeof hosts[i].name, "%s", f.name[i]);
        skew_record_at at = {.server = r.server, .now_us = f.at_us + AGE_US};
        skew_record_judge(&r, &at, SKEW_DRIFT_PPM, &hosts[i]);
    }
}

static int64_t middle(tl_interval i) {
    return i.lo + (i.hi - i.lo) / 2;
}

void fleet_bind(skew_host *hosts) {
    for (int i = 1; i < f.hosts; i += 2) {
        int64_t apart = middle(hosts[i].offset) - middle(hosts[i - 1].offset);
        hosts[i].against = i;
        hosts[i].apart = (tl_interval){apart - KNOWN_US, apart + KNOWN_US};
    }
}
