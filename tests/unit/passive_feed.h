/*
 * Feeding the instrument that tells clocks from the commands of legacy clients: commands as a server shows them.
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "tests.h"
#include "legacy/skew_monitor.h"
#include "legacy/skew_passive.h"

#define MS INT64_C(1000)
#define S INT64_C(1000000)
#define T (60 * S)
#define T0 (INT64_C(1700000000) * S) /* the server's clock when a test begins */
#define WAIT (5 * MS)
#define RATE 200

static skew_passive p;
static skew_host hosts[SKEW_HOSTS_MAX];
static int count;

static inline skew_heard heard(const char *host, int port, const char *command, int64_t at_us) {
    skew_heard c = {.stamp_us = at_us, .words = 3};
    (void)snprintf(c.host, sizeof c.host, "%s", host);
    (void)snprintf(c.client, sizeof c.client, "%s:%d", host, port);
    c.word[0].n = strlen(command);
    memcpy(c.word[0].bytes, command, c.word[0].n);
    return c;
}
