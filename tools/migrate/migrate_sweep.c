/*
 * migrate sweep: removes stamps that have expired for every client: by the server's clock, their
 * own clients' comparison has been true for M + L. A script deletes each stamp. It compares the
 * exact bytes and reads TIME again, so that a lock acquired meanwhile stays. In a cluster each
 * stamp is removed at the node of its slot, by that node's clock; no phase is needed there, and
 * none is known.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "migrate/migrate.h"
#include "migrate/migrate_scripts.h"
#include "migrate/migrate_show.h"
#include "wire/slots.h"

#define MOST 100000
#define TURNS_MOST 200 /* most turns to another node of a cluster */

typedef enum { HELD, ENDLESS, FREE, REMOVED, CHANGED } state;

typedef struct {
    char *key; /* followed by a zero byte */
    size_t len;
    state state;
    bool moves;                  /* FREE, but it stays, as its slot is being moved */
    int64_t free_at_ms, left_ms; /* the server's clock; left: time until then, at the scan */
    char value[64], who[160];
} leftover;

typedef struct {
    leftover *list;
    size_t count, room;
    bool no_memory;
} sweep;

/* ---- looking ---------------------------------------------------------------------------------- */

static bool make_room(sweep *sweep) {
    if (sweep->count < sweep->room)
        return true;
    size_t room = sweep->room ? 2 * sweep->room : 64;
    leftover *list = room <= MOST ? realloc(sweep->list, room * sizeof *list) : NULL;
    if (!list)
        return false;
    sweep->list = list;
    sweep->room = room;
    return true;
}

static bool is_known(const sweep *sweep, const void *key, size_t len) {
    for (size_t i = 0; i < sweep->count; i++)
        if (sweep->list[i].len == len && memcmp(sweep->list[i].key, key, len) == 0)
            return true;
    return false;
}

static void found(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    sweep *sweep = ctx;

    if (info->protocol != TL_BRIDGE && info->protocol != TL_TIMESTAMP)
        return;
    if (is_known(sweep, key, key_len)) /* a scan may return a key twice */
        return;
    char *copy = malloc(key_len + 1);
    if (!copy || !make_room(sweep)) {
        free(copy);
        sweep->no_memory = true;
        return;
    }
    memcpy(copy, key, key_len);
    copy[key_len] = '\0';
    leftover *added = &sweep->list[sweep->count++];
    *added = (leftover){.key = copy, .len = key_len, .free_at_ms = info->free_at_ms};
    added->state = info->free_at_ms < 0 ? ENDLESS : info->held ? HELD : FREE;
    added->left_ms = info->remaining_ms;
    (void)snprintf(added->value, sizeof added->value, "%s", info->value);
    if (info->by_tidelock && info->host[0])
        (void)snprintf(added->who, sizeof added->who, "%.40s on %.60s (pid %lld)", info->service,
                       info->host, (long long)info->pid);
}

static void forget(sweep *s) {
    for (size_t i = 0; i < s->count; i++)
        free(s->list[i].key);
    free(s->list);
    *s = (sweep){.list = NULL};
}

/* ---- removing --------------------------------------------------------------------------------- */

static bool take_number(void *ctx, const tl_reply *reply) {
    return tl__reply_int(reply, ctx);
}

/* Keys of a cluster whose slots are on other nodes: */
typedef struct {
    unsigned away; /* number of such keys; and the node of the first: */
    char host[TL_HOST_SIZE];
    uint16_t port;
} elsewhere;

/* Is the key's slot on another node? False: another failure. */
static bool is_elsewhere(const migrate_work *work, elsewhere *elsewhere) {
    const server_link *link = &work->migration.link;

    if (!work->migration.by_cluster || !link->error || link->elsewhere != TL_MOVED ||
        link->to_port == 0)
        return false;
    if (elsewhere->away++ == 0) {
        memcpy(elsewhere->host, link->to_host, sizeof elsewhere->host);
        elsewhere->port = link->to_port;
    }
    return true;
}

static int remove_one(migrate_work *work, const char *now, leftover *leftover,
                      elsewhere *elsewhere) {
    char at[24], *name = malloc(leftover->len + TL_SIDECAR_EXTRA);
    bool beside = true;
    int64_t got = 0;

    if (!name)
        return fail(STATUS_INTERNAL, "migrate sweep: out of memory");
    tl_bytes sidecar = tl__sidecar(name, tl__bytes(leftover->key, leftover->len), &beside);
    (void)snprintf(at, sizeof at, "%lld", (long long)leftover->free_at_ms);
    tl_bytes request[8] = {TL_LITERAL("EVAL"), tl__bytes_of(migrate_sweep_script), TL_LITERAL("1"),
                           tl__bytes(leftover->key, leftover->len)};
    size_t n = 4;
    if (beside || !work->migration.by_cluster) {
        request[2] = TL_LITERAL("2");
        request[n++] = sidecar;
    }
    request[n++] = tl__bytes_of(leftover->value);
    request[n++] = tl__bytes_of(at);
    request[n++] = tl__bytes_of(now);
    bool ok = link_ask_bytes(&work->migration.link, request, n, take_number, &got);
    free(name);
    if (ok)
        leftover->state = got == 1 ? REMOVED : got == 0 ? CHANGED : HELD;
    return ok || is_elsewhere(work, elsewhere)
               ? 0
               : fail(work->migration.link.status, "migrate sweep: %s",
                      work->migration.link.message);
}

/* Removes the stamps on the node that the link reaches. */
static int remove_here(migrate_work *work, sweep *sweep, elsewhere *ret) {
    char now[24]; /* the server's time in us, before anything is removed */
    int64_t now_us = 0;
    int status = migrate_server_time(&work->migration, &now_us);

    *ret = (elsewhere){.away = 0};
    (void)snprintf(now, sizeof now, "%lld", (long long)now_us);
    for (size_t i = 0; i < sweep->count && status == 0 && !work->sig; i++) {
        if (sweep->list[i].state == FREE)
            status = remove_one(work, now, &sweep->list[i], ret);
        work->sig = signals_pause(&work->sigs, 0);
    }
    return status;
}

static int turn(migrate_work *work, const elsewhere *elsewhere) {
    work->migration.link.announced = true;
    return link_turn(&work->migration.link, elsewhere->host, elsewhere->port)
               ? 0
               : fail(STATUS_INTERNAL, "migrate sweep: out of memory");
}

static int remove_all(migrate_work *work, sweep *sweep) {
    elsewhere elsewhere = {.away = 0};
    int status = sweep->count > 0 ? remove_here(work, sweep, &elsewhere) : 0;

    for (int i = 0; elsewhere.away > 0 && status == 0 && !work->sig; i++) {
        if (i == TURNS_MOST)
            return fail(
                STATUS_UNAVAILABLE,
                "migrate sweep: the cluster's nodes don't agree on who has %u key%s: sweep again "
                "when they agree",
                elsewhere.away, migrate_plural(elsewhere.away));
        status = turn(work, &elsewhere);
        if (status == 0)
            status = remove_here(work, sweep, &elsewhere);
    }
    return status;
}

/* ---- reporting ------------------------------------------------------------------------------ */

static const char *const names[] = {[HELD] = "held",
                                    [ENDLESS] = "held",
                                    [FREE] = "free",
                                    [REMOVED] = "removed",
                                    [CHANGED] = "changed"};

static void show(const leftover *leftover) {
    char key[KEY_SHOWN], left[DURATION_SHOWN], date[MIGRATE_DATE_SIZE];

    tl__bytes_print(key, sizeof key, tl__bytes(leftover->key, leftover->len));
    printf("%-8s %s", names[leftover->state], key);
    if (leftover->state == ENDLESS)
        printf(": it never ends: its holder must remove it, or tidelock break");
    else if (leftover->state == HELD)
        printf(": until %s, in %s%s%s", migrate_date(date, leftover->free_at_ms * 1000),
               show_ms(left, leftover->left_ms), leftover->who[0] ? ", by " : "", leftover->who);
    else if (leftover->state == CHANGED)
        printf(": it was acquired or released meanwhile");
    printf("\n");
}

#define SWEEP_MEMBERS(M, of)                                                                       \
    M(of, key, "the key")                                                                          \
    M(of, state, "removed, free, held or changed")                                                 \
    M(of, free_at_ms, "when it is free for every client, in ms since 1970")                        \
    M(of, remaining_ms, "of a held one: how long until then")                                      \
    M(of, holder, "its holder, or null")
MEMBERS(sweep, SWEEP_MEMBERS);

static int show_json(const sweep *sweep) {
    json_t *json = json_array();

    for (size_t i = 0; i < sweep->count; i++) {
        const leftover *leftover = &sweep->list[i];
        js_append(&json,
                  json_pack("{s:o, s:s, s:o, s:o, s:o}", key_of_sweep,
                            js_bytes(leftover->key, leftover->len), state_of_sweep,
                            names[leftover->state], free_at_ms_of_sweep,
                            js_known(leftover->free_at_ms), remaining_ms_of_sweep,
                            js_known(leftover->state == HELD ? leftover->left_ms : -1),
                            holder_of_sweep, js_text(leftover->who[0] ? leftover->who : NULL)));
    }
    return migrate_show_line(json);
}

static int tell(const migrate_work *work, const sweep *sweep, bool whole) {
    int64_t n[CHANGED + 1] = {0};

    if (work->options->json || work->options->format)
        return show_json(sweep);
    for (size_t i = 0; i < sweep->count; i++) {
        show(&sweep->list[i]);
        n[sweep->list[i].state]++;
    }
    int64_t held = n[HELD] + n[ENDLESS] + n[CHANGED];
    printf("%lld removed, %lld free, %lld held%s\n", (long long)n[REMOVED], (long long)n[FREE],
           (long long)held, whole ? "" : "; the scan did not reach all keys");
    return 0;
}

static int note(migrate_work *work, const sweep *sweep) {
    migrate_change change = {.action = "sweep",
                             .from_phase = work->view.reg.phase,
                             .to_phase = work->view.reg.phase,
                             .from_epoch = work->view.reg.epoch};
    long long removed = 0;

    for (size_t i = 0; i < sweep->count; i++)
        removed += sweep->list[i].state == REMOVED;
    if (removed == 0 || work->migration.by_cluster)
        return 0;
    (void)snprintf(change.by, sizeof change.by, "%s", work->migration.by);
    (void)snprintf(change.evidence, sizeof change.evidence, "%lld expired stamps removed", removed);
    return migrate_note(&work->migration, &change);
}

int migrate_sweep(migrate_work *work) {
    sweep sweep = {.list = NULL};
    bool whole = false;

    const char *keys = work->options->keys ? work->options->keys : work->view.reg.keys;
    if (!work->options->keys && !work->view.reg.readable)
        return fail(
            STATUS_REFUSED,
            work->view.reg.there
                ? "migrate sweep: refused: namespace %s has a register that can't be read; to see "
                  "it: HGETALL %s"
            : work->migration.by_cluster
                ? "migrate sweep: refused: namespace %s is not registered: give --keys PATTERN, or: "
                  "tidelock migrate init --namespace %s"
                : "migrate sweep: refused: namespace %s is not registered: tidelock migrate "
                  "init --namespace %s",
            work->view.name, work->view.reg.there ? work->migration.reg : work->view.name);
    int status = migrate_scan(&work->migration, keys, true, &work->sigs, found, &sweep, &whole,
                              &work->sig);
    if (status == 0 && sweep.no_memory)
        status = fail(STATUS_INTERNAL, "migrate sweep: out of memory, or over %d stamps", MOST);
    if (status == 0 && !work->sig && !work->options->dry_run) {
        status = remove_all(work, &sweep);
        int noted = note(work, &sweep);
        status = status ? status : noted;
    }
    if (status == 0)
        status = tell(work, &sweep, whole && !work->sig);
    forget(&sweep);
    return status == 0 && work->sig ? signals_status(work->sig) : status;
}
