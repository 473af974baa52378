/*
 * Combines the instruments: the result of each becomes rows. ClockBound's file is read last, because
 * that costs no time.
 */
#include <string.h>
#include <strings.h>

#include "skew/skew_kernel.h"
#include "skew/instruments.h"

static bool asks_servers(const instruments *instruments) {
    return instruments->options->servers || instruments->by_cluster;
}

int instruments_begin(instruments *all, const instrument_options *options) {
    *all = (instruments){.options = options, .by_cluster = all->by_cluster};
    int status = ntp_servers_begin(&all->ntp, &options->ntp);
    if (status == 0)
        status = skew_servers_begin(&all->servers, options->servers ? options->servers : "");
    if (status)
        instruments_end(all);
    return status;
}

void instruments_end(instruments *instruments) {
    ntp_servers_end(&instruments->ntp);
    skew_servers_end(&instruments->servers);
}

static bool take_cluster(void *ctx, const tl_reply *reply) {
    bool *is = ctx;
    char on[4] = "";
    tl_bytes text;

    *is = tl__reply_text(reply, &text) && info_field(text, "cluster_enabled", on, sizeof on) &&
          strcmp(on, "1") == 0;
    return true;
}

static bool take_state(void *ctx, const tl_reply *reply) {
    bool *is = ctx;
    tl_bytes text;

    *is = tl__reply_text(reply, &text) && tl__bytes_has(text, "cluster_state:");
    return true;
}

/* Checks for a cluster whatever the URL says: one node of a cluster doesn't time all locks. A server
 * that doesn't permit INFO may permit CLUSTER INFO. */
static bool look_for_cluster(instruments *instruments, server_link *link) {
    static const char *const info[] = {"INFO", "cluster", NULL}, *const state[] = {"CLUSTER",
                                                                                   "INFO", NULL};

    instruments->unsure = false;
    if (instruments->by_cluster || link_ask(link, info, take_cluster, &instruments->by_cluster))
        return true;
    if (!link->error)
        return false;
    if (link_ask(link, state, take_state, &instruments->by_cluster))
        return true;
    instruments->unsure = !strstr(link->message, "cluster support disabled");
    return link->error;
}

static bool ask_servers(instruments *instruments, server_link *link, int32_t rate_ppm) {
    if (!look_for_cluster(instruments, link))
        return false;
    instruments->servers.by_cluster = instruments->by_cluster;
    instruments->servers.only_masters = !instruments->options->servers;
    return !asks_servers(instruments) || skew_servers_ask(&instruments->servers, link, rate_ppm);
}

/* The request that may show that nothing can be measured comes first. */
bool instruments_ask(instruments *instruments, server_link *link) {
    static const char *const time[] = {"TIME", NULL};
    kernel_clock kernel = moment_kernel();
    int32_t rate_ppm = skew_self_rate(&kernel);
    bool any = instruments->ntp.count > 0 || instruments->options->chrony;

    if (any && !link_ask(link, time, NULL, NULL))
        return false;
    instruments->begun = skew_reading_now();
    if (instruments->ntp.count > 0)
        ntp_servers_ask(&instruments->ntp, rate_ppm);
    if (instruments->options->chrony)
        chrony_ask(&instruments->chrony, instruments->options->chrony);
    return ask_servers(instruments, link, rate_ppm);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static skew_host *new_row(skew_fleet *fleet, const char *name) {
    if (fleet->count == SKEW_HOSTS_MAX) {
        fleet->more = true;
        return NULL;
    }
    skew_host *host = &fleet->hosts[fleet->count++];
    (void)snprintf(host->name, sizeof host->name, "%s", name);
    return host;
}

/* Is there a row of the same name with the host's own clock, which the served time does not
 * contradict? */
static bool is_covered(const skew_fleet *fleet, const char *host, const skew_host *served) {
    for (int i = 0; i < fleet->count; i++) {
        const skew_host *other = &fleet->hosts[i];
        if (other != served && other->known && other->kind == SKEW_CLOCK &&
            strcasecmp(other->name, host) == 0)
            return !tl__interval_empty(tl__interval_intersect(other->offset, served->offset));
    }
    return false;
}

typedef struct {
    skew_reading now;
    int32_t rate_ppm;
    const tl_interval *own; /* this host's clock minus the server's; NULL: unknown */
    char name[SKEW_NAME_SIZE];
} moment_of;

static void add_servers(const instruments *instruments, const moment_of *at, skew_fleet *fleet) {
    for (int i = 0; i < instruments->servers.count; i++) {
        skew_host *host = instruments->servers.server[i].twice ? NULL : new_row(fleet, "");
        if (host)
            skew_server_judge(&instruments->servers, i, &at->now, at->own, at->rate_ppm, host);
    }
    fleet->more = fleet->more || instruments->servers.more;
}

static void add_ntp(const instruments *instruments, const moment_of *at, skew_fleet *fleet) {
    for (int i = 0; i < instruments->ntp.count; i++) {
        const ntp_server *server = &instruments->ntp.server[i];
        skew_host *host = new_row(fleet, server->name);
        if (!host)
            return;
        ntp_judge(&server->source, &at->now, at->own, at->rate_ppm, host);
        host->covered = host->known && is_covered(fleet, server->host, host);
    }
}

/* ClockBound and another witness of this host's clock are not both right where the two
 * are apart. */
static void compare_clockbound(const instruments *instruments, const moment_of *at,
                               const skew_fleet *fleet, skew_host *row) {
    const chrony_report *chrony = &instruments->chrony;

    if (instruments->options->chrony && chrony->known)
        clockbound_compare(row, chrony_offset(chrony, at->now.after), "chronyd");
    for (int i = 0; at->own && i < fleet->count; i++) {
        const skew_host *host = &fleet->hosts[i];
        if (host->known && host->kind == SKEW_SERVED)
            clockbound_compare(row,
                               (tl_interval){tl__add_sat(at->own->lo, -host->offset.hi),
                                             tl__add_sat(at->own->hi, -host->offset.lo)},
                               host->name);
    }
}

static void add_clockbound(const instruments *instruments, const moment_of *at, skew_fleet *fleet) {
    skew_host *row = new_row(fleet, at->name);
    clockbound_report report;

    if (!row)
        return;
    clockbound_ask(&report, instruments->options->clockbound);
    clockbound_judge(&report, &instruments->begun, at->own, at->rate_ppm, row);
    compare_clockbound(instruments, at, fleet, row);
}

void instruments_add(const instruments *instruments, skew_fleet *fleet) {
    kernel_clock kernel = moment_kernel();
    tl_interval own = fleet->hosts[0].offset;
    moment_of at = {.now = skew_reading_now(),
                    .rate_ppm = skew_self_rate(&kernel),
                    .own = fleet->hosts[0].known ? &own : NULL};
    skew_host *host;

    (void)snprintf(at.name, sizeof at.name, "%s", fleet->hosts[0].name);
    if (asks_servers(instruments))
        add_servers(instruments, &at, fleet);
    if (instruments->options->chrony && (host = new_row(fleet, at.name)))
        chrony_judge(&instruments->chrony, &at.now, at.own, host);
    if (instruments->options->kernel && (host = new_row(fleet, at.name)))
        kernel_judge(&kernel, host);
    add_ntp(instruments, &at, fleet);
    if (instruments->options->clockbound)
        add_clockbound(instruments, &at, fleet);
}

void instruments_tell(const instruments *instruments, skew_result *result) {
    if (!instruments->unsure || result->unheard)
        return;
    result->unheard =
        "whether the server is a node of a cluster, whose other masters' clocks count too, is not "
        "known: it permits neither INFO nor CLUSTER INFO";
    result->unheard_advice =
        "permit the user +info, or give the URL redis+cluster: where it is a cluster";
}

void instruments_add_server(const server_link *link, skew_fleet *fleet) {
    skew_host *host = new_row(fleet, "");

    if (host)
        skew_server_itself(link->endpoint.label, host);
}
