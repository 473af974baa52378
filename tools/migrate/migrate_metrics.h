/*
 * The file of `tidelock migrate status --metrics`: a namespace in numbers, for monitoring.
 */
#pragma once

#include "migrate/migrate_show.h"

/** Replace the file. Returns 0, or the exit status after a message. */
int migrate_metrics_write(const char *path, const migrate_status *status);
