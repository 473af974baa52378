/*
 * The further instruments together: what each of them says becomes rows of the result.
 */
#include <string.h>
#include <strings.h>

#include "skew/skew_kernel.h"
#include "skew/instruments.h"

static bool asks_servers(const instruments *m) {
    return m->options->servers || m->by_cluster;
}

int instruments_begin(instruments *m, const instrument_options *options) {
    *m = (instruments){.options = options, .by_cluster = m->by_cluster};
    int status = ntp_servers_begin(&m->ntp, &options->ntp);
    if (status == 0)
        status = skew_servers_begin(&m->servers, options->servers ? options->servers : "");
    if (status)
        instruments_end(m);
    return status;
}

void instruments_end(instruments *m) {
    ntp_servers_end(&m->ntp);
    skew_servers_end(&m->servers);
}

static bool take_cluster(void *ctx, const tl_reply *reply) {
    bool *is = ctx;
    char on[4] = "";
    tl_bytes text;

    *is = tl__reply_text(reply, &text) && info_field(text, "cluster_enabled", on, sizeof on) &&
          strcmp(on, "1") == 0;
    return true;
}

/* By whatever URL: a cluster's node alone doesn't judge all locks. One that may not say so is taken for a server. */
static bool ask_servers(instruments *m, server_link *l, int32_t rate_ppm) {
    static const char *const info[] = {"INFO", "cluster", NULL};

    if (!m->by_cluster && !link_ask(l, info, take_cluster, &m->by_cluster) && !l->error)
        return false;
    m->servers.by_cluster = m->by_cluster;
    m->servers.only_masters = !m->options->servers;
    return !asks_servers(m) || skew_servers_ask(&m->servers, l, rate_ppm);
}

/* First the question that may show that nothing can be measured. */
bool instruments_ask(instruments *m, server_link *l) {
    static const char *const time[] = {"TIME", NULL};
    kernel_clock kernel = moment_kernel();
    int32_t rate_ppm = skew_self_rate(&kernel);
    bool any = m->ntp.count > 0 || m->options->chrony;

    if (any && !link_ask(l, time, NULL, NULL))
        return false;
    if (m->ntp.count > 0)
        ntp_servers_ask(&m->ntp, rate_ppm);
    if (m->options->chrony)
        chrony_ask(&m->chrony, m->options->chrony);
    return ask_servers(m, l, rate_ppm);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static skew_host *new_row(skew_fleet *f, const char *name) {
    if (f->count == SKEW_HOSTS_MAX) {
        f->more = true;
        return NULL;
    }
    skew_host *h = &f->hosts[f->count++];
    (void)snprintf(h->name, sizeof h->name, "%s", name);
    return h;
}

/* The host's own clock has a row of its name, which the served time does not contradict. */
static bool is_covered(const skew_fleet *f, const char *host, const skew_host *served) {
    for (int i = 0; i < f->count; i++) {
        const skew_host *h = &f->hosts[i];
        if (h != served && h->known && h->kind == SKEW_CLOCK && strcasecmp(h->name, host) == 0)
            return !tl__interval_empty(tl__interval_intersect(h->offset, served->offset));
    }
    return false;
}

typedef struct {
    skew_reading now;
    int32_t rate_ppm;
    const tl_interval *own; /* this host's clock less the server's; NULL: unknown */
    char name[SKEW_NAME_SIZE];
} moment_of;

static void add_servers(const instruments *m, const moment_of *at, skew_fleet *f) {
    for (int i = 0; i < m->servers.count; i++) {
        skew_host *h = m->servers.server[i].twice ? NULL : new_row(f, "");
        if (h)
            skew_server_judge(&m->servers, i, &at->now, at->own, at->rate_ppm, h);
    }
    f->more = f->more || m->servers.more;
}

static void add_ntp(const instruments *m, const moment_of *at, skew_fleet *f) {
    for (int i = 0; i < m->ntp.count; i++) {
        const ntp_server *s = &m->ntp.server[i];
        skew_host *h = new_row(f, s->name);
        if (!h)
            return;
        ntp_judge(&s->source, &at->now, at->own, at->rate_ppm, h);
        h->covered = h->known && is_covered(f, s->host, h);
    }
}

void instruments_add(const instruments *m, skew_fleet *f) {
    kernel_clock kernel = moment_kernel();
    tl_interval own = f->hosts[0].offset;
    moment_of at = {.now = skew_reading_now(),
                    .rate_ppm = skew_self_rate(&kernel),
                    .own = f->hosts[0].known ? &own : NULL};
    skew_host *h;

    (void)snprintf(at.name, sizeof at.name, "%s", f->hosts[0].name);
    if (asks_servers(m))
        add_servers(m, &at, f);
    if (m->options->chrony && (h = new_row(f, at.name)))
        chrony_judge(&m->chrony, &at.now, at.own, h);
    if (m->options->kernel && (h = new_row(f, at.name)))
        kernel_judge(&kernel, h);
    add_ntp(m, &at, f);
}

void instruments_add_server(const server_link *l, skew_fleet *f) {
    skew_host *h = new_row(f, "");

    if (h)
        skew_server_itself(l->endpoint.label, h);
}
