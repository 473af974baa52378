/*
 * Reads the server's time, and this host's clocks before and after. They are read just before the
 * request is sent, and right after its reply arrived. Any delay between only widens the interval.
 */
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

/* The kernel is asked after the reply: a correction may have begun at any moment before it. One that has ended
 * since the last sample counts too. */
static int32_t learn_rate(skew_track *track, int32_t rate_ppm) {
    int32_t now_ppm = skew_rate(SKEW_DRIFT_PPM, moment_kernel().slew_ppm),
            most_ppm = now_ppm > track->kernel_ppm ? now_ppm : track->kernel_ppm;
    track->kernel_ppm = now_ppm;
    return most_ppm > rate_ppm ? most_ppm : rate_ppm;
}

bool skew_sample(server_link *link, skew_track *track, int32_t rate_ppm) {
    static const char *const time[] = {"TIME", NULL};
    stamped stamped;
    skew_reading sent = skew_reading_now();

    if (!link_ask(link, time, take_time, &stamped))
        return false;
    skew_learn(track, &sent, stamped.stamp_us, &stamped.received, learn_rate(track, rate_ppm));
    return true;
}
