/*
 * Reads the register and the clients' records. A number must be digits and in range; otherwise the
 * whole is unreadable. An unreadable record is doubt, and doubt blocks a migration. Clients read
 * the register by compat/scripts/phase.lua, with the same rules: change both.
 */
#include <stdio.h>
#include <string.h>

#include "legacy/migrate_record.h"
#include "ground/guard.h"

#define EPOCH_MOST INT64_C(1000000000000)
#define US_MOST INT64_C(9000000000000000)

const char *migrate_phase_name(int phase) {
    static const char *const names[PHASES] = {"timestamp", "bridge", "drain", "token"};
    return phase >= 0 && phase < PHASES ? names[phase] : "?";
}

bool migrate_name_ok(const char *name) {
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t n = strlen(name);
    return n > 0 && n <= MIGRATE_NAME_MAX && strspn(name, good) == n;
}

const char *migrate_key(char buf[MIGRATE_KEY_SIZE], const char *name, const char *suffix) {
    (void)snprintf(buf, MIGRATE_KEY_SIZE, "tidelock:phase:{%s}%s", name, suffix);
    return buf;
}

const char *migrate_cluster_key(char buf[MIGRATE_KEY_SIZE], const char *name, const char *suffix) {
    (void)snprintf(buf, MIGRATE_KEY_SIZE, "tidelock:phase:cluster:{%s}%s", name, suffix);
    return buf;
}

/* ---- the register ----------------------------------------------------------------------------- */

/* Only digits, without a leading zero: as compat/scripts/phase.lua reads it for clients. */
static bool number(tl_bytes text, int64_t least, int64_t most, int64_t *ret) {
    bool plain = text.n == 1 || (text.n > 0 && text.p[0] != '-' && text.p[0] != '0');
    return (plain || !GUARD(register_digits)) && tl__bytes_to_int(text, ret) &&
           (!GUARD(register_range) || (*ret >= least && *ret <= most));
}

static tl_bytes register_field(const tl_reply *fields, const char *name) {
    for (size_t i = 0; i + 1 < fields->count; i += 2) {
        tl_bytes key, value;
        if (tl__reply_text(&fields->items[i], &key) && tl__bytes_eq(key, tl__bytes_of(name)) &&
            tl__reply_text(&fields->items[i + 1], &value))
            return value;
    }
    return tl__bytes("", 0);
}

void migrate_register_read(const tl_reply *fields, migrate_register *ret) {
    int64_t phase = -1, from = -1;
    tl_bytes keys = register_field(fields, "keys");

    *ret = (migrate_register){.there = fields->type == TL_REPLY_ARRAY && fields->count > 0};
    ret->readable = ret->there && number(register_field(fields, "phase"), 0, PHASES - 1, &phase) &&
                    number(register_field(fields, "epoch"), 1, EPOCH_MOST, &ret->epoch) &&
                    number(register_field(fields, "lease_ms"), 1, MIGRATE_LEASE_MOST_MS,
                           &ret->lease_ms) &&
                    number(register_field(fields, "since"), 0, US_MOST, &ret->since_us) &&
                    (keys.n > 0 || !GUARD(register_has_pattern)) && keys.n < MIGRATE_KEYS_SIZE &&
                    !memchr(keys.p, '\0', keys.n);
    ret->phase = (int)phase;
    ret->from = number(register_field(fields, "from"), 0, PHASES - 1, &from) ? (int)from : -1;
    if (ret->readable) {
        memcpy(ret->keys, keys.p, keys.n);
        tl__bytes_print(ret->by, sizeof ret->by, register_field(fields, "by"));
    }
}

/* ---- clients ---------------------------------------------------------------------------------- */

void migrate_client_read(tl_bytes id, tl_bytes text, migrate_client *ret) {
    const char *tab = text.n ? memrchr(text.p, '\t', text.n) : NULL;
    tl_bytes rest = tl__bytes(text.p, tab ? (size_t)(tab - text.p) : text.n), version, host;
    tl_bytes keys = tab ? tl__bytes(tab + 1, text.n - rest.n - 1) : tl__bytes("", 0);
    int64_t phase = -1;

    *ret = (migrate_client){.readable = false};
    tl__bytes_print(ret->id, sizeof ret->id, id);
    tl__bytes_print(ret->text, sizeof ret->text, text);
    bool numbers = number(tl__bytes_take(&rest, ' '), 0, EPOCH_MOST, &ret->epoch);
    numbers = number(tl__bytes_take(&rest, ' '), 0, PHASES - 1, &phase) && numbers;
    numbers = number(tl__bytes_take(&rest, ' '), 1, MIGRATE_CLIENT_LEASE_MOST_MS, &ret->lease_ms) &&
              numbers;
    numbers = number(tl__bytes_take(&rest, ' '), 1, US_MOST, &ret->seen_us) && numbers;
    version = tl__bytes_take(&rest, ' ');
    host = tl__bytes_take(&rest, ' ');
    ret->readable = number(tl__bytes_take(&rest, ' '), 0, INT32_MAX, &ret->pid) && numbers &&
                    version.n > 0 && host.n > 0 && id.n > 0;
    ret->phase = (int)phase;
    tl__bytes_print(ret->version, sizeof ret->version, version);
    tl__bytes_print(ret->host, sizeof ret->host, host);
    tl__bytes_print(ret->service, sizeof ret->service, rest);
    tl__bytes_print(ret->keys, sizeof ret->keys, keys);
}

bool migrate_client_is_gone(const migrate_client *client, int64_t now_us) {
    return client->readable && now_us > client->seen_us + MIGRATE_LEASES * client->lease_ms * 1000;
}

const char *migrate_client_who(char buf[MIGRATE_WHO_SIZE], const migrate_client *client) {
    if (!client->readable)
        (void)snprintf(buf, MIGRATE_WHO_SIZE, "client %s", client->id);
    else if (!client->service[0])
        (void)snprintf(buf, MIGRATE_WHO_SIZE, "a client on %s (pid %lld)", client->host,
                       (long long)client->pid);
    else
        (void)snprintf(buf, MIGRATE_WHO_SIZE, "%s on %s (pid %lld)", client->service, client->host,
                       (long long)client->pid);
    return buf;
}
