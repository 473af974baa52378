/*
 * The instruments that options select: NTP, chrony, the kernel, the servers. They are read first,
 * and judged after this host was measured, because most of them measure against this host.
 */
#pragma once

#include "skew/skew_chrony.h"
#include "skew/skew_clockbound.h"
#include "skew/skew_fleet.h"
#include "skew/skew_ntp_ask.h"
#include "skew/skew_servers.h"

/** From the command's options. */
typedef struct {
    opt_texts ntp;
    const char *chrony;     /**< NULL: not selected; "": the socket that chronyc finds */
    const char *clockbound; /**< NULL: not selected; "": where ClockBound's daemon writes */
    const char *servers;    /**< NULL: not selected; else further servers, separated by commas */
    bool kernel;
} instrument_options;

typedef struct {
    const instrument_options *options;
    /** several masters' clocks time the locks: all of them are measured, whatever the options */
    bool by_cluster;
    bool unsure; /**< whether it is a cluster: the server doesn't permit the question */
    ntp_servers ntp;
    chrony_report chrony;
    skew_reading begun; /**< of this host's clocks */
    skew_servers servers;
} instruments;

/** Check the options; no I/O. Returns 0, or the exit status after a message. */
int instruments_begin(instruments *all, const instrument_options *options);
void instruments_end(instruments *instruments);

/** Read all instruments. False: link->status and link->message say why nothing can be measured. */
bool instruments_ask(instruments *instruments, server_link *link);

/** Add their rows to a measured fleet. */
void instruments_add(const instruments *instruments, skew_fleet *fleet);

/** Add what could not be learned to a result, before it is judged. */
void instruments_tell(const instruments *instruments, skew_result *result);

/** Add the row of the link's own server, against which all is measured. */
void instruments_add_server(const server_link *link, skew_fleet *fleet);
