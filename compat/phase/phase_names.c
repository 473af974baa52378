/*
 * Reads a client's namespaces from its options.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ground/error.h"
#include "ground/glob.h"
#include "phase/phase.h"

#define LEASE_MS 30000
#define LEASE_MIN_MS 100
#define LEASE_MAX_MS 3600000
#define PREFIX "tidelock:phase:{"
#define CLIENTS "}:clients"
#define SKEW "tidelock:skew:{"

static bool is_name(tl_bytes name) {
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
            return false;
    }
    return name.n > 0 && name.n <= TL_NAMESPACE_MAX;
}

static tl_err check(tl_bytes pattern, tl_bytes name, tl_error *err) {
    const char *flaw = tl__glob_flaw(pattern);
    char shown[TL_NAMESPACE_MAX + 1];
    tl__bytes_print(shown, sizeof shown, is_name(name) ? pattern : name);
    if (!is_name(name))
        return tl__fail(
            err, TL_EINVALID, 0,
            "namespaces: '%s' is not a name: use 1 to %d letters, digits, '.', '_', '-'", shown,
            TL_NAMESPACE_MAX);
    if (flaw)
        return tl__fail(err, TL_EINVALID, 0, "namespaces: the pattern '%s' has a %s", shown, flaw);
    return TL_OK;
}

static bool is_named(const tl_namespaces *all, tl_bytes name) {
    for (unsigned i = 0; i < all->count; i++)
        if (tl__bytes_eq(all->at[i].name, name))
            return true;
    return false;
}

/* Adds a namespace, whose texts go to `room`. The register has one record of a client, with one
 * pattern. */
static tl_err add(tl_namespaces *all, tl_bytes pattern, tl_bytes name, char **room, tl_error *err) {
    if (check(pattern, name, err))
        return TL_EINVALID;
    if (is_named(all, name))
        return tl__fail(err, TL_EINVALID, 0,
                        "namespaces: '%.*s' is named twice; a namespace has one pattern",
                        (int)name.n, name.p);
    if (all->count == TL_NAMESPACES_MAX)
        return tl__fail(err, TL_EINVALID, 0, "namespaces: more than %d", TL_NAMESPACES_MAX);
    tl_namespace *ns = &all->at[all->count];
    *ns = (tl_namespace){.all = all, .index = (uint8_t)all->count++};
    int n = snprintf(*room, sizeof PREFIX + sizeof CLIENTS + TL_NAMESPACE_MAX,
                     PREFIX "%.*s" CLIENTS, (int)name.n, name.p);
    ns->clients = tl__bytes(*room, (size_t)n);
    ns->reg = tl__bytes(*room, (size_t)n - sizeof CLIENTS + 2);
    ns->name = tl__bytes(*room + sizeof PREFIX - 1, name.n);
    *room += n;
    n = snprintf(*room, sizeof SKEW + 1 + TL_NAMESPACE_MAX, SKEW "%.*s}", (int)name.n, name.p);
    ns->skew = tl__bytes(*room, (size_t)n);
    *room += n + 1;
    memcpy(*room, pattern.p, pattern.n);
    ns->pattern = tl__bytes(*room, pattern.n);
    *room += pattern.n;
    return TL_OK;
}

static tl_err read_numbers(const tl_legacy_options *options, tl_namespaces *all, tl_error *err) {
    all->lease_ms = options->phase_lease_ms ? options->phase_lease_ms : LEASE_MS;
    if (all->lease_ms < LEASE_MIN_MS || all->lease_ms > LEASE_MAX_MS)
        return tl__fail(err, TL_EINVALID, 0, "phase_lease: %d to %d ms, not %lld", LEASE_MIN_MS,
                        LEASE_MAX_MS, (long long)all->lease_ms);
    if (options->fallback != TL_TOKEN && options->fallback != TL_BRIDGE &&
        options->fallback != TL_TIMESTAMP)
        return tl__fail(err, TL_EINVALID, 0,
                        "fallback: must be the bridge or the timestamp protocol");
    all->fallback = options->fallback == TL_TIMESTAMP ? TL_PHASE_TIMESTAMP : TL_PHASE_BRIDGE;
    return TL_OK;
}

tl_err tl__namespaces_open(const tl_legacy_options *options, tl_bytes owner, const tl_token *id,
                           tl_namespaces **ret, tl_error *err) {
    const char *text = options->namespaces && *options->namespaces ? options->namespaces
                                                                   : "default";
    size_t each = sizeof PREFIX + sizeof CLIENTS + sizeof SKEW + 1;
    tl_namespaces *all = calloc(1, sizeof *all + strlen(text) * 3 + TL_NAMESPACES_MAX * each);
    if (!all)
        return tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    char *room = all->room;
    tl_err code = read_numbers(options, all, err);
    for (tl_bytes pattern, name; !code && tl__glob_choice(&text, &pattern, &name);)
        code = add(all, pattern, name, &room, err);
    if (code) {
        free(all);
        return code;
    }
    all->id = *id;
    (void)snprintf(all->record, sizeof all->record, "%s %.*s", TL_VERSION, (int)owner.n, owner.p);
    *ret = all;
    return TL_OK;
}

void tl__namespaces_close(tl_namespaces *all) {
    free(all);
}

const tl_namespace *tl__namespace_of(const tl_namespaces *all, tl_bytes key) {
    for (unsigned i = 0; i < all->count; i++)
        if (tl__glob_fits(all->at[i].pattern, key))
            return &all->at[i];
    return NULL;
}
