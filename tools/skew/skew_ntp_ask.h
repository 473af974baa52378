/*
 * Asking NTP servers, all at once.
 */
#pragma once

#include "base/optparse.h"
#include "skew/skew_ntp.h"

typedef struct {
    char name[SKEW_NAME_SIZE]; /**< HOST:PORT */
    char host[NTP_HOST_SIZE];
    uint16_t port;
    bool asked, near; /**< near: on this machine */
    tl_mono asked_at;
    ntp_source source;
} ntp_server;

typedef struct {
    ntp_server *server;
    int count;
} ntp_servers;

/** Read the addresses; no I/O. An address given twice counts once. Returns 0, or the exit status
 *  after a message. */
int ntp_servers_begin(ntp_servers *servers, const opt_texts *places);
void ntp_servers_end(ntp_servers *servers);

/** Ask each server that is due three times, over 4 s (less on this machine); for 5 s at most. The
 *  results are in each server's `source`; servers that aren't due keep theirs. */
void ntp_servers_ask(ntp_servers *servers, int32_t rate_ppm);
