/*
 * The instruments that are asked for by name: NTP, chrony, the kernel, the servers. They are asked first
 * and judged after this host was measured, as most of them measure against this host.
 */
#pragma once

#include "skew/skew_chrony.h"
#include "skew/skew_fleet.h"
#include "skew/skew_ntp_ask.h"
#include "skew/skew_servers.h"

/** Of the command's options. */
typedef struct {
    opt_texts ntp;
    const char *chrony;  /**< NULL: not asked for; "": where chronyc finds it */
    const char *servers; /**< NULL: not asked for; else further places, with commas between */
    bool kernel;
} instrument_options;

typedef struct {
    const instrument_options *options;
    bool
        by_cluster; /**< the locks go by the clocks of several masters: all of these are asked, whatever was */
    ntp_servers ntp;
    chrony_report chrony;
    skew_servers servers;
} instruments;

/** Checks what was asked for; no I/O. Returns 0, or the exit status after a message. */
int instruments_begin(instruments *all, const instrument_options *options);
void instruments_end(instruments *instruments);

/** Ask all instruments. False: link->status and link->message say why nothing can be measured. */
bool instruments_ask(instruments *instruments, server_link *link);

/** Add their rows to a fleet that has been measured. */
void instruments_add(const instruments *instruments, skew_fleet *fleet);

/** Add the row of the link's own server, which all is measured against. */
void instruments_add_server(const server_link *link, skew_fleet *fleet);
