/*
 * Reads the server's time, and this host's clocks before and after. They are read just before the
 * request is sent, and right after its reply arrived. Any delay between only widens the interval.
 */
#include <stdlib.h>

#include "base/moment.h"
#include "skew/judge/skew_judge.h"
#include "skew/skew_sample.h"

const tl_needer skew_needer = {"measuring clocks needs", NULL};

skew_reading skew_reading_now(void) {
    moments moments = moment_all();
    return skew_read((tl_mono){moments.before_ns}, moments.wall_us, moments.monotonic_ns,
                     (tl_mono){moments.after_ns});
}

typedef struct {
    skew_reading received;
    int64_t stamp_us;
} stamped;

static bool take_time(void *ctx, const tl_reply *reply) {
    stamped *stamped = ctx;
    stamped->received = skew_reading_now();
    return reply->type == TL_REPLY_ARRAY && tl__reply_time(reply, 0, &stamped->stamp_us);
}

#define UNSURE_US 5 /* by so much two readings of how far the clock was slewed may differ */

/* How fast the kernel has slewed the clock since the last sample, on average; 0: no faster than that rate. */
static int32_t slewed_ppm(const skew_track *track, int64_t slewed_us, tl_mono now,
                          int32_t rate_ppm) {
    int64_t moved_us = llabs(slewed_us - track->slewed_us),
            over_us = tl__ns_until(track->at, now) / 1000 + 1,
            may_us = tl__mul_sat(over_us, rate_ppm) / 1000000 + UNSURE_US;

    if (!track->known || moved_us <= may_us)
        return 0;
    int64_t ppm = tl__mul_sat(moved_us, 1000000) / over_us + 1;
    return ppm < INT32_MAX ? (int32_t)ppm : INT32_MAX;
}

/* The kernel is asked after the reply: a correction may have begun at any moment before it. One that has ended
 * since the last sample counts too, though many requests may have failed meanwhile. */
static int32_t learn_rate(skew_track *track, const skew_reading *received, int32_t rate_ppm) {
    int64_t slewed_us = moment_slewed_us();
    int32_t now_ppm = skew_rate(SKEW_DRIFT_PPM, moment_kernel().slew_ppm),
            most_ppm = now_ppm > track->kernel_ppm ? now_ppm : track->kernel_ppm;

    most_ppm = most_ppm > rate_ppm ? most_ppm : rate_ppm;
    int32_t slewed = skew_rate(SKEW_DRIFT_PPM,
                               slewed_ppm(track, slewed_us, received->after, most_ppm));
    track->kernel_ppm = now_ppm;
    track->slewed_us = slewed_us;
    return most_ppm > slewed ? most_ppm : slewed;
}

bool skew_sample(server_link *link, skew_track *track, int32_t rate_ppm) {
    static const char *const time[] = {"TIME", NULL};
    stamped stamped;
    skew_reading sent = skew_reading_now();

    if (!link_ask(link, time, take_time, &stamped))
        return false;
    skew_learn(track, &sent, stamped.stamp_us, &stamped.received,
               learn_rate(track, &stamped.received, rate_ppm));
    return true;
}
