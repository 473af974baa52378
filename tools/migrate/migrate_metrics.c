/*
 * The metrics of a namespace. A count is present also where it is 0, so that a rule can tell that from
 * "not looked at".
 */
#include "migrate/migrate_metrics.h"

#include <string.h>

#include "base/metrics.h"
#include "base/moment.h"
#include "base/outfile.h"

static void put_gauge(const metrics *metrics, const char *name, const char *help, int64_t value) {
    metrics_head(metrics, name, "gauge", help);
    metrics_int(metrics, name, NULL, value);
}

static void put_register(const metrics *metrics, const migrate_register *reg) {
    put_gauge(metrics, "migrate_registered", "1 if the namespace has a register that can be read.",
              reg->readable);
    if (!reg->readable)
        return;
    put_gauge(metrics, "migrate_phase", "0 timestamp, 1 bridge, 2 drain, 3 token.", reg->phase);
    put_gauge(metrics, "migrate_epoch", "The number of the last change.", reg->epoch);
    metrics_head(metrics, "migrate_since_timestamp_seconds", "gauge", "When the phase began.");
    metrics_seconds(metrics, "migrate_since_timestamp_seconds", NULL, reg->since_us);
}

/* Of a cluster: no step leads a slot there, so that old data has come back. */
static void put_slots(const metrics *metrics, const migrate_view *view) {
    int later = 0;

    if (!view->by_slots || !view->reg.readable)
        return;
    for (int phase = view->reg.phase + 1; phase < PHASES; phase++)
        later += view->slots.in[phase];
    put_gauge(metrics, "migrate_slots_later",
              "Slots in a later phase than the record: old data has come back.", later);
}

static void put_clients(const metrics *metrics, const migrate_view *view) {
    static const char *const states[] = {"confirmed",    "behind",      "ahead",     "gone",
                                         "unregistered", "contradicts", "unreadable"};
    metrics_head(metrics, "migrate_clients", "gauge",
                 "Clients, by how their epoch compares with the register's.");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        const metrics_label state = {"state", states[i]};
        int64_t count = 0;
        for (int j = 0; j < view->clients; j++)
            count += strcmp(migrate_client_state(view, &view->client[j]), states[i]) == 0;
        metrics_int(metrics, "migrate_clients", &state, count);
    }
}

static void put_locks(const metrics *metrics, const migrate_locks *locks) {
    const struct {
        const char *kind;
        const migrate_bunch *bunch;
    } rows[] = {{"own_stamp", &locks->own},
                {"stray_stamp", &locks->strays},
                {"unregistered_stamp", &locks->strangers},
                {"token", &locks->tokens}};
    put_gauge(metrics, "migrate_all_keys", "1 if all keys of the server were looked at.",
              locks->whole);
    metrics_head(metrics, "migrate_locks", "gauge", "Locks, by what is in their keys.");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const metrics_label kind = {"kind", rows[i].kind};
        metrics_int(metrics, "migrate_locks", &kind, rows[i].bunch->count);
    }
}

static void put_blockers(const metrics *metrics, const migrate_status *status) {
    static const metrics_label next = {"step", "next"}, back = {"step", "back"};
    metrics_head(metrics, "migrate_blockers", "gauge", "Reasons against a step, at this moment.");
    metrics_int(metrics, "migrate_blockers", &next, status->next.count + status->next.more);
    metrics_int(metrics, "migrate_blockers", &back, status->back.count + status->back.more);
}

static void put_count(const metrics *metrics, const char *name, const char *help, int64_t value) {
    if (value < 0)
        return;
    metrics_head(metrics, name, "counter", help);
    metrics_int(metrics, name, NULL, value);
}

static void put_traffic(const metrics *metrics, const migrate_traffic *traffic) {
    put_count(metrics, "migrate_setnx_getset_total",
              "SETNX and GETSET of all clients on any key of the server.", traffic->calls);
    put_count(metrics, "migrate_setnx_getset_refused_total",
              "SETNX and GETSET that the server refused to execute.", traffic->refused);
    if (traffic->permissions.access != MIGRATE_READ)
        return;
    put_gauge(metrics, "migrate_users_permitted",
              "Users who may use SETNX or GETSET, at all servers that were asked.",
              traffic->permissions.users - traffic->permissions.denied);
}

static void put(const void *ctx, FILE *out) {
    const migrate_status *status = ctx;
    const metrics metrics = {.out = out, .label = {{"namespace", status->view->name}}};
    put_register(&metrics, &status->view->reg);
    put_slots(&metrics, status->view);
    put_clients(&metrics, status->view);
    if (status->locks)
        put_locks(&metrics, status->locks);
    put_blockers(&metrics, status);
    if (status->traffic)
        put_traffic(&metrics, status->traffic);
    metrics_head(&metrics, "migrate_look_timestamp_seconds", "gauge",
                 "When this was looked at, by this host's clock.");
    metrics_seconds(&metrics, "migrate_look_timestamp_seconds", NULL, moment_wall_us());
}

int migrate_metrics_write(const char *path, const migrate_status *status) {
    return outfile_replace("migrate status: --metrics", path, put, status);
}
