/*
 * Measures this host's clock. While a daemon corrects the clock, evidence loses precision faster;
 * the kernel reports such a correction.
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "skew/skew_self.h"

void skew_self_name(char name[SKEW_NAME_SIZE]) {
    char host[256] = "";

    if (gethostname(host, sizeof host - 1) || !host[0])
        (void)snprintf(host, sizeof host, "localhost");
    (void)snprintf(name, SKEW_NAME_SIZE, "%.64s", host);
    for (char *c = name; *c; c++) {
        const char one[2] = {*c, '\0'};
        if (!skew_name_ok(one))
            *c = '_';
    }
}

/* Without a boot ID each process counts as a boot of its own: at worst that reports a clash that
 * isn't one. */
void skew_self_id(char id[SKEW_ID_SIZE]) {
    char boot[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof boot - 1);
    size_t used = 0;

    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < n && used < 32; i++)
        if (strchr("0123456789abcdef", boot[i]))
            id[used++] = boot[i];
    (void)snprintf(id + used, SKEW_ID_SIZE - used, used ? "-%lld" : "%lld", (long long)getpid());
}

static bool take_run_id(void *ctx, const tl_reply *reply) {
    char *server = ctx;
    tl_bytes text;

    if (!tl__reply_text(reply, &text))
        return false;
    text = tl__bytes_after(text, "\nrun_id:");
    for (size_t n = 0; n < SKEW_SERVER_SIZE - 1 && n < text.n; n++) {
        if (text.p[n] <= ' ' || text.p[n] > '~')
            break;
        server[n] = text.p[n];
        server[n + 1] = '\0';
    }
    return true;
}

bool skew_self_server(server_link *link, char server[SKEW_SERVER_SIZE]) {
    static const char *const request[] = {"INFO", "server", NULL};

    (void)snprintf(server, SKEW_SERVER_SIZE, "-");
    return link_ask(link, request, take_run_id, server) || link->error;
}

bool skew_self_measure(server_link *link, skew_track *track, const skew_effort *effort,
                       int32_t rate_ppm) {
    static const char *const time[] = {"TIME", NULL};
    int64_t begun, until;

    if (!link_ask(link, time, NULL, NULL)) /* connects first, so that no measurement includes it */
        return false;
    begun = moment_ms();
    until = begun + effort->for_ms;
    for (int i = 0; i < effort->samples && (i == 0 || moment_ms() < until); i++) {
        if (i > 0 && effort->pause_ms > 0)
            (void)poll(NULL, 0, (int)effort->pause_ms);
        if (!skew_sample(link, track, rate_ppm))
            return false;
        if (effort->go_on && !effort->go_on(effort->ctx, moment_ms() - begun))
            break;
    }
    return true;
}

int32_t skew_self_rate(const kernel_clock *kernel) {
    return skew_rate(SKEW_DRIFT_PPM, kernel->slew_ppm);
}

void skew_self_record(const skew_track *track, const kernel_clock *kernel, const char *server,
                      skew_record *ret) {
    *ret = (skew_record){.at_us = track->stamp_us,
                         .offset = track->offset,
                         .slew_ppm = kernel->slew_ppm,
                         .samples = track->samples,
                         .steps = track->steps,
                         .resumes = track->resumes,
                         .server_stepped_us = track->server_stepped_us};
    ret->has_drift = skew_drift(track, &ret->drift_ppb);
    if (!ret->has_drift)
        ret->drift_ppb = (tl_interval){0, 0};
    skew_self_id(ret->id);
    (void)snprintf(ret->server, sizeof ret->server, "%s", server);
}
