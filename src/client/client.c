/*
 * The client: options in, its life, questions about locks.
 */
#include "client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/driver.h"
#include "client/several.h"
#include "ground/cancel.h"
#include "ground/error.h"
#include "ground/glob.h"
#include "ground/options.h"
#include "ground/process.h"
#include "protocol/etcd_ask.h"
#include "protocol/ask.h"
#include "protocol/break.h"
#include "protocol/scan.h"
#include "transport/resolve.h"
#include "wire/keys.h"

#define ATTEMPT_MS 2000
#define ATTEMPT_FSYNC_MS                                                                           \
    5000 /* a file that is synced each second takes up to two, and half of it is theirs */
#define CONNECT_MS 5000
#define QUORUM_QUIET_MS 30000 /* as long as a lock lives that isn't told otherwise */
/* All that Linux lets a clock be slewed by: a tenth by its tick, 500 ppm each by its frequency and
 * by adjtime(); what is left is for the crystal. */
#define DRIFT_PPM 101500
#define DRIFT_MAX_PPM 500000
#define LIMIT_MAX_MS 3600000
#define CURSOR_BITS 53 /* of a server's cursor; above them stands the node's number */
#define CURSOR_MAX ((UINT64_C(1) << CURSOR_BITS) - 1)
_Static_assert(TL_NODES_MAX <= 1 << (64 - CURSOR_BITS), "room for a node's number");

/* ---- opening --------------------------------------------------------------------------------- */

static tl_err check_limit(const char *name, int64_t *v, int64_t otherwise, tl_error *err) {
    if (*v < 0 || *v > LIMIT_MAX_MS)
        return tl__fail(err, TL_EINVALID, 0, "%s: 0 to %d ms, not %lld", name, LIMIT_MAX_MS,
                        (long long)*v);
    if (*v == 0)
        *v = otherwise;
    return TL_OK;
}

static tl_err check_options(tl_client_options *o, tl_error *err) {
    int64_t replicas_ms = o->wait_replicas_ms;
    if (check_limit("attempt_ms", &o->attempt_ms, o->wait_fsync ? ATTEMPT_FSYNC_MS : ATTEMPT_MS,
                    err) ||
        check_limit("connect_ms", &o->connect_ms, CONNECT_MS, err) ||
        check_limit("wait_replicas_ms", &replicas_ms, (o->attempt_ms + 1) / 2, err) ||
        (o->quiet_ms != TL_QUIET_OFF && check_limit("quiet_ms", &o->quiet_ms, 0, err)))
        return TL_EINVALID;
    o->wait_replicas_ms = (int32_t)replicas_ms;
    if (o->drift_ppm < 0 || o->drift_ppm > DRIFT_MAX_PPM)
        return tl__fail(err, TL_EINVALID, 0, "drift_ppm: 0 to %d, not %d", DRIFT_MAX_PPM,
                        o->drift_ppm);
    if (o->drift_ppm == 0)
        o->drift_ppm = DRIFT_PPM;
    if (o->wait_replicas < 0 || o->wait_replicas > 1000)
        return tl__fail(err, TL_EINVALID, 0, "wait_replicas: 0 to 1000, not %d", o->wait_replicas);
    if (!o->url)
        o->url = "local:";
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

/* What the votes of independent servers can't be had with. */
static tl_err check_quorum(const tl_client_options *o, tl_error *err) {
    const char *given = o->wait_replicas > 0 ? "wait_replicas"
                        : o->wait_fsync      ? "wait_fsync"
                                             : NULL;
    if (given)
        return tl__fail(err, TL_EINVALID, 0,
                        "%s: not with a URL that begins with redis+quorum://: a majority of the "
                        "servers is what confirms there, and quiet_ms what outlasts a restart",
                        given);
    if (o->protocol != TL_TOKEN)
        return tl__fail(err, TL_EINVALID, 0,
                        "protocol: with a URL that begins with redis+quorum:// it must be token");
    return TL_OK;
}

/* What etcd has no use for, or does in its own way. */
static tl_err check_etcd(const tl_client_options *o, tl_error *err) {
    static const char raft[] = "a majority of the members confirms each write, and forgets none";
    const char *given = o->wait_replicas > 0 ? "wait_replicas"
                        : o->wait_fsync      ? "wait_fsync"
                        : o->quiet_ms > 0    ? "quiet_ms"
                                             : NULL;
    if (given)
        return tl__fail(err, TL_EINVALID, 0, "%s: not with a URL that begins with etcd://: %s",
                        given, raft);
    if (o->protocol != TL_TOKEN)
        return tl__fail(err, TL_EINVALID, 0,
                        "protocol: with a URL that begins with etcd:// it must be token");
    return TL_OK;
}

static tl_err open_members(tl_client *client, const tl_seeds *seeds, const tl_client_options *o,
                           tl_error *err) {
    tl_err code = check_etcd(o, err);
    if (code)
        return code;
    if (tl__endpoint_has_password(&client->node.endpoint) && !client->node.endpoint.user[0])
        return tl__fail(err, TL_EINVALID, 0,
                        "password: etcd has none without a user: etcd://USER@HOST");
    client->members = tl__members_new(&client->node.endpoint, seeds);
    if (!client->members)
        return tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    client->node.endpoint = client->members->endpoint[0];
    return TL_OK;
}

static tl_err set_endpoint(tl_client *client, const tl_client_options *o, tl_error *err) {
    tl_seeds seeds;
    tl_err code = tl__endpoint_parse_seeds(&client->node.endpoint, &client->secret, &seeds, o->url,
                                           err);
    if (code)
        return tl__fail_about(err, code, TL_ABOUT_URL);
    client->node.endpoint.lookups = client->lookups;
    code = tl__endpoint_add(&client->node.endpoint, &client->files, o, err);
    if (code || seeds.master[0])
        return code ? code
                    : tl__fleet_open_sentinels(&client->fleet, &client->node, &seeds, o, err);
    if (seeds.etcd)
        code = open_members(client, &seeds, o, err);
    if (seeds.quorum)
        code = tl__fleet_open_quorum(&client->fleet, &client->node, &seeds, o, err);
    if (!code && seeds.quorum)
        code = check_quorum(o, err);
    if (seeds.cluster)
        code = tl__fleet_open_cluster(&client->fleet, &client->node, &seeds, o, err);
    if (code)
        return code;
    if (o->sentinel_user || o->sentinel_password)
        return tl__fail(err, TL_EINVALID, 0,
                        "sentinel_user, sentinel_password: only with a URL that begins with "
                        "redis+sentinel://");
    return TL_OK;
}

static void set_numbers(tl_client *client, const tl_client_options *o) {
    client->attempt_ms = o->attempt_ms;
    client->connect_ms = o->connect_ms;
    client->quiet_ms = o->quiet_ms == TL_QUIET_OFF                     ? 0
                       : o->quiet_ms == 0 && client->fleet.servers > 0 ? QUORUM_QUIET_MS
                                                                       : o->quiet_ms;
    client->drift_ppm = o->drift_ppm;
    client->node.server.drift_ppm = o->drift_ppm;
    client->wait_replicas = o->wait_replicas;
    client->wait_replicas_ms = o->wait_replicas_ms;
    client->wait_fsync = o->wait_fsync;
    client->crowd = TL_CROWD;
    client->log = o->log;
    client->trace = o->trace && o->log;
    client->log_ctx = o->log_ctx;
}

static tl_err set_protocol(tl_client *client, const tl_client_options *o, tl_error *err) {
    bool known = o->protocol == TL_BRIDGE || o->protocol == TL_TIMESTAMP || o->protocol == TL_AUTO;
    client->protocol = client->members             ? &tl__protocol_etcd
                       : client->fleet.servers > 0 ? &tl__protocol_quorum
                                                   : tl__protocol_row(o->protocol);
    if (client->protocol && client->protocol->upkeep && tl__fleet_has_nodes(&client->fleet))
        return tl__fail(err, TL_EINVALID, 0,
                        "protocol: with a URL that begins with redis+cluster:// it must be token, "
                        "bridge or timestamp: the phase would be on another node than the key");
    if (client->protocol)
        return TL_OK;
    return known ? tl__fail(err, TL_EINVALID, 0,
                            "protocol: this library was built without the protocols for legacy "
                            "clients, bridge, timestamp and auto")
                 : tl__fail(err, TL_EINVALID, 0, "protocol: unknown value %d", (int)o->protocol);
}

/* Who says of legacy clients what a token can't heed has forgotten the protocol: such a lock would not be
 * shared. */
static tl_err read_legacy(tl_client *client, const tl_client_options *o, tl_error *err) {
    tl_legacy_options *ret = &client->legacy.options;
    client->legacy.protocol = o->protocol;
    client->legacy.wait_replicas = o->wait_replicas;
    client->legacy.wait_fsync = o->wait_fsync;
    *ret = (tl_legacy_options){.size = sizeof *ret};
    if (!o->legacy)
        return TL_OK;
    if (!client->protocol->rules)
        return tl__fail(err, TL_EINVALID, 0, "legacy: needs protocol bridge, timestamp or auto");
    if (tl__options_read(ret, sizeof *ret, o->legacy,
                         offsetof(tl_legacy_options, legacy_delay_max_ms), "tl_legacy_options",
                         err))
        return TL_EINVALID;
    if (ret->dialect && !(ret->dialect = strdup(ret->dialect)))
        return tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    return TL_OK;
}

/* Check them now, whatever the key. */
static tl_err check_legacy(const tl_client *client, tl_error *err) {
    const tl_legacy_options *o = &client->legacy.options;
    tl_rules rules;
    int64_t ttl_ms = 0;
    if (!client->protocol->rules)
        return TL_OK;
    if (!client->protocol->upkeep && (o->namespaces || o->fallback || o->phase_lease_ms))
        return tl__fail(err, TL_EINVALID, 0,
                        "namespaces, fallback, phase_lease: only with the protocol auto");
    return client->protocol->rules(&client->legacy, NULL, (tl_bytes){0}, &rules, &ttl_ms, err);
}

static tl_err set_legacy(tl_client *client, const tl_client_options *o, tl_error *err) {
    tl_err code = read_legacy(client, o, err);
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
    tl__fleet_end(&client->fleet); /* what Sentinels are asked over, and a cluster's other nodes */
    tl__lookups_end(client->lookups, client->keeper.close_by);
    tl__waiters_free(client);
    tl__mutex_end(&client->mutex);
    tl__gate_end(&client->gate);
    tl__leases_end(&client->leases);
    tl__process_unmark(client->here);
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

tl_err tl__client_check_slot(const tl_client *client, tl_bytes key, tl_error *err) {
    char sidecar[TL_KEY_MAX + TL_SIDECAR_EXTRA];
    bool one_slot = true;
    (void)tl__sidecar(sidecar, key, &one_slot);
    if (one_slot || !tl__fleet_has_nodes(&client->fleet))
        return TL_OK;
    return tl__fail(
        err, TL_EINVALID, 0,
        "key: it has a '}' and no {tag}: what a lock needs beside it can't be in its slot "
        "of the cluster");
}

/* Of one that is looked at, or broken. Strict clients look at the key alone. */
static tl_err check_key(const tl_client *client, const void *key, size_t key_len, tl_error *err) {
    if (!key || key_len == 0 || key_len > TL_KEY_MAX)
        return tl__fail(err, TL_EINVALID, 0, "key: 1 to %d bytes, not %zu", TL_KEY_MAX, key_len);
    return client->legacy.options.strict
               ? TL_OK
               : tl__client_check_slot(client, tl__bytes(key, key_len), err);
}

/* A pattern that means one key. */
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

/* Run a machine that asks once: of a key, or at a node. */
static tl_err ask(tl_client *client, tl_node *node, tl_bytes key, void *state, tl_step step,
                  const char *what, tl_error *err) {
    const tl_machine machine = {.state = state, .step = step, .does = what, .key = key};
    const tl_result *result = state;
    tl_out out;
    if (!tl__client_is_here(client))
        return tl__fail(err, TL_EINVALID, 0, "%s: the client belongs to the parent process", what);
    (void)tl__drive_at(client, node, &machine, NULL, false, &out);
    return result->code ? tl__fail(err, result->code, out.sys_errno, "%s: %s", what, out.words)
                        : TL_OK;
}

/* The same of etcd. */
static tl_err ask_etcd(tl_client *client, tl_etcd_ask *a, const char *what, tl_error *err) {
    a->attempt_ms = client->attempt_ms;
    a->connect_ms = client->connect_ms;
    return ask(client, NULL, a->key, a, tl__etcd_ask_step, what, err);
}

static tl_err look_at_etcd(tl_client *client, tl_bytes key, const tl_ask *how, tl_lock_info *ret,
                           tl_error *err) {
    tl_etcd_ask a = {.question = TL_ETCD_LOOKS,
                     .key = key,
                     .told = how->told,
                     .most = how->most,
                     .ctx = how->ctx};
    tl_err code = ask_etcd(client, &a, "look", err);
    if (!code)
        *ret = a.info;
    return code;
}

static tl_err scan_etcd(tl_client *client, const tl_scan *how, uint64_t *cursor, tl_error *err) {
    tl_etcd_ask a = {.question = TL_ETCD_SCANS,
                     .pattern = how->pattern,
                     .cursor = *cursor,
                     .found = how->found,
                     .ctx = how->ctx};
    if (*cursor > INT64_MAX)
        return tl__fail(err, TL_EINVALID, 0, "scan: such a cursor was never given");
    tl_err code = ask_etcd(client, &a, "scan", err);
    if (!code)
        *cursor = a.cursor;
    return code;
}

static tl_err ping(tl_client *client, const char *what, tl_error *err) {
    tl_ask a;
    tl__ask_init(&a, (tl_bytes){0}, (tl_bytes){0}, client->attempt_ms, client->connect_ms);
    return ask(client, NULL, (tl_bytes){0}, &a, tl__ask_step, what, err);
}

tl_err tl_client_ping(tl_client *client, tl_error *err) {
    TL_UNCANCELLED;
    tl_etcd_ask of_etcd = {.question = TL_ETCD_PING};
    if (client->members)
        return ask_etcd(client, &of_etcd, "ping", err);
    return client->fleet.servers > 0 ? tl__several_ping(client, err) : ping(client, "ping", err);
}

tl_err tl_client_look(tl_client *client, const void *key, size_t key_len, tl_lock_info *ret_info,
                      tl_error *err) {
    TL_UNCANCELLED;
    return tl_client_look_line(client, key, key_len, ret_info, 0, NULL, NULL, err);
}

tl_err tl_client_look_line(tl_client *client, const void *key, size_t key_len,
                           tl_lock_info *ret_info, uint32_t most, tl_waiting_fn told, void *ctx,
                           tl_error *err) {
    TL_UNCANCELLED;
    if (check_key(client, key, key_len, err) || tl__info_check(ret_info, "tl_lock_info", err))
        return TL_EINVALID;
    char name[TL_KEY_MAX + TL_SIDECAR_EXTRA];
    tl_ask a;
    tl_bytes k = tl__bytes(key, key_len);
    tl__ask_init(&a, k, tl__sidecar(name, k, NULL), client->attempt_ms, client->connect_ms);
    a.most = told ? most : 0;
    if (a.most > TL_LINE_MOST)
        a.most = TL_LINE_MOST;
    a.told = told;
    a.ctx = ctx;
    a.legacy = &client->legacy;
    a.plain = client->legacy.options.strict;
    a.may_get = client->legacy.protocol == TL_TIMESTAMP;
    if (client->fleet.servers > 0)
        a.most = 0; /* nobody stands in line there */
    tl_err code = client->members             ? look_at_etcd(client, k, &a, &a.info, err)
                  : client->fleet.servers > 0 ? tl__several_look(client, &a, &a.info, err)
                                              : ask(client, NULL, k, &a, tl__ask_step, "look", err);
    if (!code)
        tl__info_write(ret_info, &a.info, sizeof a.info);
    return code;
}

/* Of several nodes: a step of one, whose number stands in the upper bits of the cursor. */
static tl_err scan_nodes(tl_client *client, tl_scan *s, unsigned number, uint64_t *cursor,
                         tl_error *err) {
    tl_fleet *fleet = &client->fleet;
    unsigned at = number;
    tl_node *node = fleet->row->next(fleet, &at);
    tl_err code = node ? TL_OK : ping(client, "scan", err); /* nobody is known before */
    node = node || code ? node : fleet->row->next(fleet, &at);
    if (code || !node)
        return code ? code
                    : tl__fail(err, TL_EUNAVAILABLE, 0, "scan: no node of the cluster is known");
    if (at != number)
        s->cursor = 0;
    code = ask(client, node, (tl_bytes){0}, s, tl__scan_step, "scan", err);
    char label[TL_LABEL_SIZE];
    if (!code && s->cursor > CURSOR_MAX)
        code = tl__fail(err, TL_ESERVER, 0, "scan: %s: the server's cursor is too large",
                        tl__node_label(node, label));
    if (code)
        return code;
    at += s->cursor == 0;
    bool more = fleet->row->next(fleet, &at) != NULL;
    *cursor = more ? (uint64_t)at << CURSOR_BITS | s->cursor : 0;
    return TL_OK;
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
    tl__scan_init(&s, glob, *cursor & CURSOR_MAX, client->attempt_ms, client->connect_ms);
    s.legacy = &client->legacy;
    s.found = found;
    s.ctx = ctx;
    if (client->members)
        return scan_etcd(client, &s, cursor, err);
    if (client->fleet.servers > 0)
        return tl__several_scan(client, &s, cursor, err);
    unsigned number = (unsigned)(*cursor >> CURSOR_BITS);
    if (tl__fleet_has_nodes(&client->fleet))
        return scan_nodes(client, &s, number, cursor, err);
    s.cursor = *cursor;
    tl_err code = ask(client, NULL, (tl_bytes){0}, &s, tl__scan_step, "scan", err);
    if (!code)
        *cursor = s.cursor;
    return code;
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
    tl_etcd_ask a = {.question = TL_ETCD_BREAKS, .key = b.key, .seen = b.seen};
    tl_err code = client->members ? ask_etcd(client, &a, "break", err)
                  : client->fleet.servers > 0
                      ? tl__several_break(client, &b, err)
                      : ask(client, NULL, b.key, &b, tl__break_step, "break", err);
    tl__bytes_print(shown, sizeof shown, b.key);
    if (!code)
        tl__log(client, TL_LOG_INFO, "%s: the lock was removed by %s", shown, client->owner);
    return code;
}
