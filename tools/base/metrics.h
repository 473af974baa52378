/*
 * Metrics in Prometheus' text format, for the textfile collector of its node exporter. The collector joins the files of many
 * commands, so a metric must have the same help and type in all of them.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include <tidelock/tidelock.h>

/** A label; its text may be any bytes. */
typedef struct {
    const char *name, *value;
} metrics_label;

#define METRICS_LABELS_MAX 4

/** The output, and the labels of all metrics; a label without a name ends them. */
typedef struct {
    FILE *out;
    metrics_label label[METRICS_LABELS_MAX];
} metrics;

/** Write the head of a metric, before its values: "tidelock_" NAME, the help, and "gauge", "counter" or "histogram". */
void metrics_head(const metrics *metrics, const char *name, const char *type, const char *help);

/** Write a value; `label`: an additional label, whose text needs no escapes; NULL: none. */
void metrics_int(const metrics *metrics, const char *name, const metrics_label *label,
                 int64_t value);
/** Write a value in seconds; the argument is in microseconds. */
void metrics_seconds(const metrics *metrics, const char *name, const metrics_label *label,
                     int64_t us);

/** Write all counters of a client. */
void metrics_client(const metrics *metrics, const tl_stats *stats);
