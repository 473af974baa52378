/*
 * Metrics in Prometheus' text format, for the textfile collector of its node exporter: which joins the files of many
 * commands, so that a metric has the same help and type in all of them.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include <tidelock/tidelock.h>

/** A label, and text that may be any bytes. */
typedef struct {
    const char *name, *value;
} metrics_label;

#define METRICS_LABELS_MAX 4

/** Where metrics go; all have these labels, up to one without a name. */
typedef struct {
    FILE *out;
    metrics_label label[METRICS_LABELS_MAX];
} metrics;

/** Before the values of a metric: "tidelock_" NAME, what it is, "gauge", "counter" or "histogram". */
void metrics_head(const metrics *metrics, const char *name, const char *type, const char *help);

/** A value; `label` is one more, with text of our own, or NULL. */
void metrics_int(const metrics *metrics, const char *name, const metrics_label *label,
                 int64_t value);
/** The same of seconds, from microseconds. */
void metrics_seconds(const metrics *metrics, const char *name, const metrics_label *label,
                     int64_t us);

/** All that a client has counted. */
void metrics_client(const metrics *metrics, const tl_stats *stats);
