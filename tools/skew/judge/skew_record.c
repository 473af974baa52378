/*
 * Writes, reads, checks and ages an agent's record. An odd record makes its host unknown, never
 * plausible.
 */
#include <stdio.h>
#include <string.h>

#include "skew/judge/skew_alarm.h"
#include "skew/judge/skew_record.h"
#include "ground/guard.h"
#include "transport/conn.h" /* tl_bytes */

#define VERSION "2"
#define NUMBERS 13
#define CLASH 1
#define UNSTEADY                                                                                   \
    2 /* a later flag: readers that don't know it reject the record, and so don't rely on it */
#define OFFSET_MOST                                                                                \
    (INT64_C(400) * 365 * 86400 * 1000000) /* us: the whole range that clocks can show */
#define PPB_MOST INT64_C(1000000000000)
#define STAMP_MOST INT64_C(9300000000000000) /* us: in 2264 */
#define COUNT_MOST INT64_C(1000000000000000)
#define MARK_LENGTH 2

static const char *const marks[] = {[SKEW_NO_ALARM] = "",
                                    [SKEW_FREERUNNING] = "+f",
                                    [SKEW_UNRELIABLE] = "+u",
                                    [SKEW_SOON] = "+s",
                                    [SKEW_IMMINENT] = "+i"};

bool skew_name_ok(const char *name) {
    size_t n = strlen(name);
    return n >= 1 && n < SKEW_NAME_SIZE &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") == n;
}

void skew_record_key(char key[SKEW_KEY_SIZE], const char *name) {
    (void)snprintf(key, SKEW_KEY_SIZE, "%s:%s", SKEW_INDEX_KEY, name);
}

void skew_record_write(char text[SKEW_RECORD_SIZE], const skew_record *record) {
    (void)snprintf(text, SKEW_RECORD_SIZE,
                   VERSION " %s%s %lld %lld %lld %d %lld %lld %lld %lld %lld %lld %lld %lld %d %s",
                   record->id, marks[record->alarm], (long long)record->at_us,
                   (long long)record->offset.lo, (long long)record->offset.hi, record->has_drift,
                   (long long)record->drift_ppb.lo, (long long)record->drift_ppb.hi,
                   (long long)record->slew_ppm, (long long)record->samples,
                   (long long)record->steps, (long long)record->resumes,
                   (long long)record->server_stepped_us, (long long)record->every_ms,
                   (record->clash ? CLASH : 0) | (record->unsteady ? UNSTEADY : 0), record->server);
}

static bool within(int64_t v, int64_t least, int64_t most) {
    return least <= v && v <= most;
}

static bool plausible(const skew_record *record) {
    return within(record->at_us, 1, STAMP_MOST) && record->offset.lo <= record->offset.hi &&
           within(record->offset.lo, -OFFSET_MOST, OFFSET_MOST) &&
           within(record->offset.hi, -OFFSET_MOST, OFFSET_MOST) &&
           record->drift_ppb.lo <= record->drift_ppb.hi &&
           within(record->drift_ppb.lo, -PPB_MOST, PPB_MOST) &&
           within(record->drift_ppb.hi, -PPB_MOST, PPB_MOST) &&
           within(record->slew_ppm, 0, SKEW_PPM_MOST) && within(record->samples, 1, COUNT_MOST) &&
           within(record->steps, 0, COUNT_MOST) && within(record->resumes, 0, COUNT_MOST) &&
           within(record->server_stepped_us, 0, STAMP_MOST) &&
           within(record->every_ms, 1, COUNT_MOST);
}

/* Cuts a known mark off the ID. */
static skew_alarm take_alarm(tl_bytes *id) {
    for (int i = SKEW_FREERUNNING; i <= (int)SKEW_IMMINENT; i++)
        if (id->n > MARK_LENGTH &&
            memcmp(id->p + id->n - MARK_LENGTH, marks[i], MARK_LENGTH) == 0) {
            id->n -= MARK_LENGTH;
            return (skew_alarm)i;
        }
    return SKEW_NO_ALARM;
}

bool skew_record_read(const char *text, size_t n, skew_record *ret) {
    tl_bytes rest = tl__bytes(text, n);
    int64_t v[NUMBERS];

    if (n == 0 || n >= SKEW_RECORD_SIZE ||
        !tl__bytes_eq(tl__bytes_take(&rest, ' '), TL_LITERAL(VERSION)))
        return false;
    tl_bytes id = tl__bytes_take(&rest, ' ');
    if (id.n == 0 || id.n >= SKEW_ID_SIZE || memchr(id.p, '\0', id.n))
        return false;
    skew_alarm alarm = take_alarm(&id);
    for (int i = 0; i < NUMBERS; i++)
        if (!tl__bytes_to_int(tl__bytes_take(&rest, ' '), &v[i]))
            return false;
    tl_bytes server = tl__bytes_take(&rest, ' ');
    if (server.n == 0 || server.n >= SKEW_SERVER_SIZE || memchr(server.p, '\0', server.n))
        return false;
    *ret = (skew_record){.alarm = alarm,
                         .at_us = v[0],
                         .offset = {v[1], v[2]},
                         .has_drift = v[3] == 1,
                         .drift_ppb = {v[4], v[5]},
                         .slew_ppm = v[6],
                         .samples = v[7],
                         .steps = v[8],
                         .resumes = v[9],
                         .server_stepped_us = v[10],
                         .every_ms = v[11],
                         .clash = v[12] == CLASH || v[12] == (CLASH | UNSTEADY),
                         .unsteady = v[12] == UNSTEADY || v[12] == (CLASH | UNSTEADY)};
    memcpy(ret->id, id.p, id.n);
    memcpy(ret->server, server.p, server.n);
    char again[SKEW_RECORD_SIZE];
    skew_record_write(again, ret);
    return plausible(ret) && strlen(again) == n && memcmp(again, text, n) == 0;
}

bool skew_same_boot(const char *id, const char *other) {
    size_t n = strcspn(id, "-");
    return strcspn(other, "-") == n && memcmp(id, other, n) == 0;
}

int64_t skew_record_end_us(const skew_record *record) {
    int64_t every_ms = record->every_ms < SKEW_EVERY_MOST_MS ? record->every_ms
                                                             : SKEW_EVERY_MOST_MS;
    return record->at_us + every_ms * SKEW_LEASE * 1000;
}

static void refuse(skew_host *host, const char *status, const char *detail) {
    host->known = false;
    host->status = status;
    (void)snprintf(host->detail, sizeof host->detail, "%s", detail);
}

static void say_missing(const skew_record *record, int64_t age_us, skew_host *host) {
    host->status = "missing";
    (void)snprintf(host->detail, sizeof host->detail,
                   record->every_ms == SKEW_EVERY_ENDED_MS
                       ? "its agent was ended, and published last %lld s ago"
                       : "its agent has published nothing for %lld s",
                   (long long)(age_us / 1000000));
}

void skew_record_judge(const skew_record *record, const skew_record_at *at, int32_t drift_ppm,
                       skew_host *host) {
    int64_t age_us = at->now_us - record->at_us;

    host->instrument = "agent";
    host->alarm = SKEW_NO_ALARM;
    host->known = true;
    host->status = "ok";
    host->has_drift = record->has_drift;
    host->drift_ppb = record->drift_ppb;
    host->slew_ppm = (int32_t)record->slew_ppm;
    host->samples = record->samples;
    host->age_ms = age_us < 0 ? -1 : age_us / 1000;
    host->offset = tl__interval_aged(record->offset, (tl_mono){0},
                                     (tl_mono){tl__mul_sat(age_us + 1, 1000)},
                                     drift_ppm + (int32_t)record->slew_ppm);
    (void)snprintf(host->detail, sizeof host->detail, "%lld steps, %lld resumes of its clock seen",
                   (long long)record->steps, (long long)record->resumes);
    host->unsteady = GUARD(unsteady_is_published) && record->unsteady;
    if (record->unsteady) {
        host->status = "unsteady";
        (void)snprintf(
            host->detail, sizeof host->detail,
            "its clock runs wrong, or is set repeatedly: by up to %lld ppm against the server's",
            (long long)record->slew_ppm);
    }
    host->missing = GUARD(silent_host_is_missing) && at->now_us > skew_record_end_us(record);
    if (host->missing)
        say_missing(record, age_us, host);
    if (GUARD(boundless_rate_unknown) && record->unsteady && record->slew_ppm == SKEW_PPM_MOST)
        refuse(host, "unsteady", "its clock runs so wrong that nothing is known about it");
    if (GUARD(one_agent_a_name) && record->clash)
        refuse(host, "clash",
               "two agents publish under this name: give one of them another (--name)");
    else if (GUARD(record_of_this_server) && strcmp(record->server, at->server) != 0)
        refuse(
            host, "void",
            "measured against another server than this one (a replica, or before a failover or a "
            "restart), or one of the two has no permission for INFO");
    else if (GUARD(record_of_the_past) && age_us < 0)
        refuse(host, "void", "measured before the server's clock was set back");
    else if (GUARD(record_after_step) && record->at_us < at->stepped_us)
        refuse(host, "void", "measured before a clock was set");
    if (GUARD(alarm_is_published))
        skew_alarm_put(host, record->alarm);
}
