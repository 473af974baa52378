/*
 * The client: its options, opening and closing it, and questions about locks.
 */
#include "client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/backend.h"
#include "ground/cancel.h"
#include "ground/error.h"
#include "ground/glob.h"
#include "ground/options.h"
#include "ground/process.h"
#include "transport/resolve.h"
#include "wire/keys.h"

#define ATTEMPT_MS 2000
/* A file that is synced once a second can take two seconds, and only half of attempt_ms is
 * for waiting for it. */
#define ATTEMPT_FSYNC_MS 5000
#define CONNECT_MS 5000
/* The most that Linux lets a clock be slewed: 100000 ppm by its tick, 500 ppm by its frequency, 500 ppm by
 * adjtime(); and 500 ppm for the crystal. */
#define DRIFT_PPM 101500
#define DRIFT_MAX_PPM 500000
#define LIMIT_MAX_MS 3600000

/* ---- opening --------------------------------------------------------------------------------- */

static tl_err check_limit(const char *name, int64_t *v, int64_t otherwise, tl_error *err) {
    if (*v < 0 || *v > LIMIT_MAX_MS)
        return tl__fail(err, TL_EINVALID, 0, "%s: 0 to %d ms, not %lld", name, LIMIT_MAX_MS,
                        (long long)*v);
    if (*v == 0)
        *v = otherwise;
    return TL_OK;
}

static tl_err check_options(tl_client_options *options, tl_error *err) {
    int64_t replicas_ms = options->wait_replicas_ms;
    if (check_limit("attempt_ms", &options->attempt_ms,
                    options->wait_fsync ? ATTEMPT_FSYNC_MS : ATTEMPT_MS, err) ||
        check_limit("connect_ms", &options->connect_ms, CONNECT_MS, err) ||
        check_limit("wait_replicas_ms", &replicas_ms, (options->attempt_ms + 1) / 2, err) ||
        (options->quiet_ms != TL_QUIET_OFF && check_limit("quiet_ms", &options->quiet_ms, 0, err)))
        return TL_EINVALID;
    options->wait_replicas_ms = (int32_t)replicas_ms;
    if (options->drift_ppm < 0 || options->drift_ppm > DRIFT_MAX_PPM)
        return tl__fail(err, TL_EINVALID, 0, "drift_ppm: 0 to %d, not %d", DRIFT_MAX_PPM,
                        options->drift_ppm);
    if (options->drift_ppm == 0)
        options->drift_ppm = DRIFT_PPM;
    if (options->wait_replicas < 0 || options->wait_replicas > 1000)
        return tl__fail(err, TL_EINVALID, 0, "wait_replicas: 0 to 1000, not %d",
                        options->wait_replicas);
    if (!options->url)
        options->url = "local:";
    return TL_OK;
}

static void write_owner(tl_client *client, const char *service) {
    tl_process me = tl__process_this();
    for (char *p = me.host; *p; p++)
        if (*p <= ' ')
            *p = '-';
    if (!service || !*service)
        service = me.program;
    (void)snprintf(client->owner, sizeof client->owner, "%.255s %ld %.63s", me.host, (long)me.pid,
                   service);
    client->owner_n = (uint16_t)strlen(client->owner);
}

static tl_err set_endpoint(tl_client *client, const tl_client_options *options, tl_error *err) {
    tl_seeds seeds;
    const tl_backend *backend = client->backend = tl__backend_of(options->url);
    tl_err code = tl__endpoint_parse_seeds(&client->node.endpoint, &client->secret, &seeds,
                                           options->url, err);
    if (code)
        return tl__fail_about(err, code, TL_ABOUT_URL);
    client->node.endpoint.lookups = client->lookups;
    code = tl__endpoint_add(&client->node.endpoint, &client->files, options, err);
    if (!code && backend->open)
        code = backend->open(client, &seeds, options, err);
    if (!code && (options->sentinel_user || options->sentinel_password) && !backend->sentinel_login)
        code = tl__fail(err, TL_EINVALID, 0,
                        "sentinel_user, sentinel_password: only with a URL that begins with "
                        "redis+sentinel://");
    return code;
}

static void set_numbers(tl_client *client, const tl_client_options *options) {
    client->attempt_ms = options->attempt_ms;
    client->connect_ms = options->connect_ms;
    client->quiet_ms = options->quiet_ms == TL_QUIET_OFF ? 0
                       : options->quiet_ms == 0          ? client->backend->quiet_ms
                                                         : options->quiet_ms;
    client->drift_ppm = options->drift_ppm;
    client->node.server.drift_ppm = options->drift_ppm;
    client->wait_replicas = options->wait_replicas;
    client->wait_replicas_ms = options->wait_replicas_ms;
    client->wait_fsync = options->wait_fsync;
    client->crowd = TL_CROWD;
    client->log = options->log;
    client->trace = options->trace && options->log;
    client->log_ctx = options->log_ctx;
}

static tl_err set_protocol(tl_client *client, const tl_client_options *options, tl_error *err) {
    bool known = options->protocol == TL_BRIDGE || options->protocol == TL_TIMESTAMP ||
                 options->protocol == TL_AUTO;
    client->protocol = client->backend->protocol ? client->backend->protocol
                                                 : tl__protocol_row(options->protocol);
    if (client->protocol)
        return TL_OK;
    return known ? tl__fail(err, TL_EINVALID, 0,
                            "protocol: this library was built without the protocols for legacy "
                            "clients, bridge, timestamp and auto")
                 : tl__fail(err, TL_EINVALID, 0, "protocol: unknown value %d",
                            (int)options->protocol);
}

/* Options for legacy clients with protocol token are an error: the program forgot to set the protocol, and
 * its locks would not exclude legacy clients. */
static tl_err read_legacy(tl_client *client, const tl_client_options *options, tl_error *err) {
    tl_legacy_options *ret = &client->legacy.options;
    client->legacy.protocol = options->protocol;
    client->legacy.wait_replicas = options->wait_replicas;
    client->legacy.wait_fsync = options->wait_fsync;
    *ret = (tl_legacy_options){.size = sizeof *ret};
    if (!options->legacy)
        return TL_OK;
    if (!client->protocol->rules)
        return tl__fail(err, TL_EINVALID, 0, "legacy: needs protocol bridge, timestamp or auto");
    if (tl__options_read(ret, sizeof *ret, options->legacy,
                         offsetof(tl_legacy_options, legacy_delay_max_ms), "tl_legacy_options",
                         err))
        return TL_EINVALID;
    if (ret->dialect && !(ret->dialect = strdup(ret->dialect)))
        return tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    return TL_OK;
}

/* Check the options for legacy clients when the client is opened, as far as they don't depend on a key. */
static tl_err check_legacy(const tl_client *client, tl_error *err) {
    const tl_legacy_options *options = &client->legacy.options;
    tl_rules rules;
    int64_t ttl_ms = 0;
    if (!client->protocol->rules)
        return TL_OK;
    if (!client->protocol->upkeep &&
        (options->namespaces || options->fallback || options->phase_lease_ms))
        return tl__fail(err, TL_EINVALID, 0,
                        "namespaces, fallback, phase_lease: only with the protocol auto");
    return client->protocol->rules(&client->legacy, NULL, (tl_bytes){0}, &rules, &ttl_ms, err);
}

static tl_err set_legacy(tl_client *client, const tl_client_options *options, tl_error *err) {
    tl_err code = read_legacy(client, options, err);
    return tl__fail_about(err, code ? code : check_legacy(client, err), TL_ABOUT_LEGACY);
}

static tl_err set_upkeep(tl_client *client, tl_error *err) {
    const tl_upkeep *upkeep = client->protocol->upkeep;
    return upkeep ? tl__fail_about(err, upkeep->open(client, err), TL_ABOUT_LEGACY) : TL_OK;
}

static void free_client(tl_client *client) {
    if (client->upkeep)
        client->protocol->upkeep->free(client);
    tl__node_end(&client->node);
    tl__members_free(client->members);
    tl__fleet_end(&client->fleet); /* connections to Sentinels; a cluster's other nodes */
    tl__lookups_end(client->lookups, client->keeper.close_by);
    tl__waiters_free(client);
    tl__mutex_end(&client->mutex);
    tl__gate_end(&client->gate);
    tl__leases_end(&client->leases);
    tl__process_unmark(client->here);
    tl__disruptions_end(&client->disruptions);
    free((char *)(uintptr_t)client->legacy.options.dialect);
    tl__secret_wipe(&client->secret);
    free(client);
}

tl_err tl_client_open(const tl_client_options *options, tl_client **ret_client, tl_error *err) {
    TL_UNCANCELLED;
    tl_client_options o = {0};
    tl_err code = tl__options_read(&o, sizeof o, options, offsetof(tl_client_options, password),
                                   "tl_client_options", err);
    if (!code)
        code = check_options(&o, err);
    if (code)
        return code;
    tl_client *client = calloc(1, sizeof *client);
    if (!client)
        return tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    tl__mutex_init(&client->mutex);
    tl__node_init(&client->node, client);
    tl__fleet_init(&client->fleet, &client->node);
    tl__leases_init(&client->leases);
    client->lookups = tl__lookups_new();
    bool memory = tl__gate_init(&client->gate) && client->lookups;
    code = set_endpoint(client, &o, err);
    if (code)
        goto fail;
    code = set_protocol(client, &o, err);
    if (code)
        goto fail;
    set_numbers(client, &o);
    code = set_legacy(client, &o, err);
    if (code)
        goto fail;
    write_owner(client, o.service);
    code = set_upkeep(client, err);
    if (code)
        goto fail;
    client->here = tl__process_mark();
    if (!memory || !client->here || tl__keeper_init(&client->keeper, client, o.dispatch)) {
        code = tl__fail(err, TL_ENOMEM, errno, "open a client: out of memory or descriptors");
        goto fail;
    }
    client->fleet.wake = client->keeper.wake;
    tl__disruptions_init(&client->disruptions, tl__keeper_notice, &client->keeper);
    *ret_client = client;
    return TL_OK;
fail:
    free_client(client);
    return code;
}

/* ---- closing --------------------------------------------------------------------------------- */

void tl_client_close(tl_client *client) {
    TL_UNCANCELLED;
    if (!client || !tl__client_is_here(client))
        return; /* in a forked child everything belongs to the parent */
    int saved = errno;
    if (client->upkeep)
        client->protocol->upkeep->end(client);
    tl__keeper_close(&client->keeper, client->attempt_ms);
    free_client(client);
    errno = saved;
}

/* ---- keys ------------------------------------------------------------------------------------- */

/* For a look or a break. */
static tl_err check_key(const tl_client *client, const void *key, size_t key_len, tl_error *err) {
    if (!key || key_len == 0 || key_len > TL_KEY_MAX)
        return tl__fail(err, TL_EINVALID, 0, "key: 1 to %d bytes, not %zu", TL_KEY_MAX, key_len);
    return client->backend->check_key
               ? client->backend->check_key(client, tl__bytes(key, key_len), true, err)
               : TL_OK;
}

/* Does the pattern match one key only? */
static bool is_one_key(tl_bytes glob) {
    static const char special[] = "*?[\\";
    bool one = true;
    for (size_t i = 0; i < glob.n; i++)
        one = one && !memchr(special, glob.p[i], sizeof special - 1);
    return one;
}

/* ---- questions ------------------------------------------------------------------------------- */

const char *tl_version(void) {
    return TL_VERSION;
}

tl_err tl_client_ping(tl_client *client, tl_error *err) {
    TL_UNCANCELLED;
    return client->backend->ping(client, err);
}

tl_err tl_client_look(tl_client *client, const void *key, size_t key_len, tl_lock_info *ret_info,
                      tl_error *err) {
    TL_UNCANCELLED;
    return tl_client_look_line(client, key, key_len, ret_info, 0, NULL, NULL, err);
}

tl_err tl_client_look_line(tl_client *client, const void *key, size_t key_len,
                           tl_lock_info *ret_info, uint32_t most, tl_waiting_fn on_waiting,
                           void *ctx, tl_error *err) {
    TL_UNCANCELLED;
    if (check_key(client, key, key_len, err) || tl__info_check(ret_info, "tl_lock_info", err))
        return TL_EINVALID;
    char name[TL_KEY_MAX + TL_SIDECAR_EXTRA + TL_LINE_EXTRA];
    tl_ask a;
    tl_bytes k = tl__bytes(key, key_len);
    tl__ask_init(&a, k, tl__line(name, tl__sidecar(name, k, NULL)), client->attempt_ms,
                 client->connect_ms);
    a.most = on_waiting ? most : 0;
    if (a.most > TL_LINE_MOST)
        a.most = TL_LINE_MOST;
    a.on_waiting = on_waiting;
    a.ctx = ctx;
    a.legacy = &client->legacy;
    a.plain = client->legacy.options.strict;
    a.may_get = client->legacy.protocol == TL_TIMESTAMP;
    tl_err code = client->backend->look(client, &a, err);
    if (!code)
        tl__info_write(ret_info, &a.info, sizeof a.info);
    return code;
}

tl_err tl_client_scan(tl_client *client, const char *pattern, uint64_t *cursor, tl_found_fn found,
                      void *ctx, tl_error *err) {
    TL_UNCANCELLED;
    tl_scan s;
    tl_bytes glob = pattern ? tl__bytes_of(pattern) : TL_LITERAL("*");
    const char *flaw = tl__glob_flaw(glob);
    if (glob.n == 0 || glob.n > TL_KEY_MAX)
        return tl__fail(err, TL_EINVALID, 0, "pattern: 1 to %d bytes, not %zu", TL_KEY_MAX, glob.n);
    if (flaw)
        return tl__fail(err, TL_EINVALID, 0, "pattern: it has a %s", flaw);
    if (is_one_key(glob) && check_key(client, glob.p, glob.n, err))
        return TL_EINVALID;
    tl__scan_init(&s, glob, 0, client->attempt_ms, client->connect_ms);
    s.legacy = &client->legacy;
    s.found = found;
    s.ctx = ctx;
    return client->backend->scan(client, &s, cursor, err);
}

tl_err tl_client_break(tl_client *client, const void *key, size_t key_len, const tl_lock_info *seen,
                       tl_error *err) {
    TL_UNCANCELLED;
    if (check_key(client, key, key_len, err))
        return TL_EINVALID;
    char name[TL_KEY_MAX + TL_SIDECAR_EXTRA], line[sizeof name + TL_LINE_EXTRA], shown[64];
    tl_lock_info known;
    if (seen && tl__options_read(&known, sizeof known, seen, offsetof(tl_lock_info, host),
                                 "tl_lock_info", err))
        return TL_EINVALID;
    tl_break b = {.key = tl__bytes(key, key_len),
                  .who = tl__bytes_of(client->owner),
                  .seen = seen ? &known : NULL};
    b.attempt_ms = client->attempt_ms;
    b.connect_ms = client->connect_ms;
    b.sidecar = tl__sidecar(name, b.key, NULL);
    b.line = tl__line(line, b.sidecar);
    b.slot = tl__slot_tag(tl__hash_slot(b.key));
    tl_err code = client->backend->remove(client, &b, err);
    tl__bytes_print(shown, sizeof shown, b.key);
    if (!code)
        tl__log(client, TL_LOG_INFO, "%s: the lock was removed by %s", shown, client->owner);
    return code;
}
