/*
 * migrate sweep: removes stamps that are over for everybody: their own clients' comparison has been true
 * for M + L on the server's clock. Each is deleted by a script that compares its exact bytes and asks the
 * TIME once more, so that one which was taken over meanwhile stays. In a cluster each is removed at the node that has
 * its slot, by the clock of that one; no phase is needed for it, and none is known.
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
#define TURNS_MOST 200 /* of a cluster's nodes, one after the other */

typedef enum { HELD, ENDLESS, FREE, REMOVED, CHANGED } state;

typedef struct {
    char *key; /* with a zero byte behind it */
    size_t len;
    state state;
    bool moves;                  /* FREE: it stays, as its slot is being moved */
    int64_t free_at_ms, left_ms; /* the server's clock; left: until then, from the scan */
    char value[64], who[160];
} leftover;

typedef struct {
    leftover *list;
    size_t count, room;
    bool no_memory;
} sweep;

/* ---- looking ---------------------------------------------------------------------------------- */

static bool make_room(sweep *s) {
    if (s->count < s->room)
        return true;
    size_t room = s->room ? 2 * s->room : 64;
    leftover *list = room <= MOST ? realloc(s->list, room * sizeof *list) : NULL;
    if (!list)
        return false;
    s->list = list;
    s->room = room;
    return true;
}

static bool is_known(const sweep *s, const void *key, size_t len) {
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].len == len && memcmp(s->list[i].key, key, len) == 0)
            return true;
    return false;
}

static void found(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    sweep *s = ctx;

    if (info->protocol != TL_BRIDGE && info->protocol != TL_TIMESTAMP)
        return;
    if (is_known(s, key, key_len)) /* a scan may tell of a key twice */
        return;
    char *copy = malloc(key_len + 1);
    if (!copy || !make_room(s)) {
        free(copy);
        s->no_memory = true;
        return;
    }
    memcpy(copy, key, key_len);
    copy[key_len] = '\0';
    leftover *l = &s->list[s->count++];
    *l = (leftover){.key = copy, .len = key_len, .free_at_ms = info->free_at_ms};
    l->state = info->free_at_ms < 0 ? ENDLESS : info->held ? HELD : FREE;
    l->left_ms = info->remaining_ms;
    (void)snprintf(l->value, sizeof l->value, "%s", info->value);
    if (info->by_tidelock && info->host[0])
        (void)snprintf(l->who, sizeof l->who, "%.40s on %.60s (pid %lld)", info->service,
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

/* Of a cluster: other nodes have the slots, */
typedef struct {
    unsigned away; /* of so many keys that were asked for; that of the first of them: */
    char host[TL_HOST_SIZE];
    uint16_t port;
} elsewhere;

/* False: it has failed otherwise. */
static bool is_elsewhere(const migrate_work *w, elsewhere *e) {
    const server_link *k = &w->m.link;

    if (!w->m.by_cluster || !k->error || k->elsewhere != TL_MOVED || k->to_port == 0)
        return false;
    if (e->away++ == 0) {
        memcpy(e->host, k->to_host, sizeof e->host);
        e->port = k->to_port;
    }
    return true;
}

static int remove_one(migrate_work *w, const char *now, leftover *l, elsewhere *e) {
    char at[24], *name = malloc(l->len + TL_SIDECAR_EXTRA);
    bool beside = true;
    int64_t got = 0;

    if (!name)
        return fail(STATUS_INTERNAL, "migrate sweep: out of memory");
    tl_bytes sidecar = tl__sidecar(name, tl__bytes(l->key, l->len), &beside);
    (void)snprintf(at, sizeof at, "%lld", (long long)l->free_at_ms);
    tl_bytes request[8] = {TL_LITERAL("EVAL"), tl__bytes_of(migrate_sweep_script), TL_LITERAL("1"),
                           tl__bytes(l->key, l->len)};
    size_t n = 4;
    if (beside || !w->m.by_cluster) {
        request[2] = TL_LITERAL("2");
        request[n++] = sidecar;
    }
    request[n++] = tl__bytes_of(l->value);
    request[n++] = tl__bytes_of(at);
    request[n++] = tl__bytes_of(now);
    bool ok = link_ask_bytes(&w->m.link, request, n, take_number, &got);
    free(name);
    if (ok)
        l->state = got == 1 ? REMOVED : got == 0 ? CHANGED : HELD;
    return ok || is_elsewhere(w, e)
               ? 0
               : fail(w->m.link.status, "migrate sweep: %s", w->m.link.message);
}

/* Those that the node has which the link leads to. */
static int remove_here(migrate_work *w, sweep *s, elsewhere *e) {
    char now[24]; /* the server's time us, before anything is removed */
    int64_t now_us = 0;
    int status = migrate_server_time(&w->m, &now_us);

    *e = (elsewhere){.away = 0};
    (void)snprintf(now, sizeof now, "%lld", (long long)now_us);
    for (size_t i = 0; i < s->count && status == 0 && !w->sig; i++) {
        if (s->list[i].state == FREE)
            status = remove_one(w, now, &s->list[i], e);
        w->sig = signals_pause(&w->sigs, 0);
    }
    return status;
}

static int turn(migrate_work *w, const elsewhere *e) {
    w->m.link.announced = true;
    return link_turn(&w->m.link, e->host, e->port)
               ? 0
               : fail(STATUS_INTERNAL, "migrate sweep: out of memory");
}

static int remove_all(migrate_work *w, sweep *s) {
    elsewhere e = {.away = 0};
    int status = s->count > 0 ? remove_here(w, s, &e) : 0;

    for (int i = 0; e.away > 0 && status == 0 && !w->sig; i++) {
        if (i == TURNS_MOST)
            return fail(STATUS_UNAVAILABLE,
                        "migrate sweep: the cluster's nodes don't agree on who has %u keys: sweep "
                        "again when they do",
                        e.away);
        status = turn(w, &e);
        if (status == 0)
            status = remove_here(w, s, &e);
    }
    return status;
}

/* ---- telling ---------------------------------------------------------------------------------- */

static const char *const names[] = {[HELD] = "held",
                                    [ENDLESS] = "held",
                                    [FREE] = "free",
                                    [REMOVED] = "removed",
                                    [CHANGED] = "changed"};

static void show(const leftover *l) {
    char key[KEY_SHOWN], left[DURATION_SHOWN], date[MIGRATE_DATE_SIZE];

    tl__bytes_print(key, sizeof key, tl__bytes(l->key, l->len));
    printf("%-8s %s", names[l->state], key);
    if (l->state == ENDLESS)
        printf(": it never ends: its holder must remove it, or tidelock break");
    else if (l->state == HELD)
        printf(": until %s, in %s%s%s", migrate_date(date, l->free_at_ms * 1000),
               show_ms(left, l->left_ms), l->who[0] ? ", by " : "", l->who);
    else if (l->state == CHANGED)
        printf(": it was taken or released meanwhile");
    printf("\n");
}

static int show_json(const sweep *s) {
    json_t *j = json_array();

    for (size_t i = 0; i < s->count; i++) {
        const leftover *l = &s->list[i];
        js_append(&j, json_pack("{s:o, s:s, s:o, s:o, s:o}", "key", js_bytes(l->key, l->len),
                                "state", names[l->state], "free_at_ms", js_known(l->free_at_ms),
                                "remaining_ms", js_known(l->state == HELD ? l->left_ms : -1),
                                "holder", js_text(l->who[0] ? l->who : NULL)));
    }
    return migrate_show_line(j);
}

static int tell(const migrate_work *w, const sweep *s, bool whole) {
    int64_t n[CHANGED + 1] = {0};

    if (w->o->json || w->o->format)
        return show_json(s);
    for (size_t i = 0; i < s->count; i++) {
        show(&s->list[i]);
        n[s->list[i].state]++;
    }
    int64_t held = n[HELD] + n[ENDLESS] + n[CHANGED];
    printf("%lld removed, %lld free, %lld held%s\n", (long long)n[REMOVED], (long long)n[FREE],
           (long long)held, whole ? "" : "; not all keys were looked at");
    return 0;
}

static int note(migrate_work *w, const sweep *s) {
    migrate_change c = {.action = "sweep",
                        .from_phase = w->v.reg.phase,
                        .to_phase = w->v.reg.phase,
                        .from_epoch = w->v.reg.epoch};
    long long removed = 0;

    for (size_t i = 0; i < s->count; i++)
        removed += s->list[i].state == REMOVED;
    if (removed == 0 || w->m.by_cluster)
        return 0;
    (void)snprintf(c.by, sizeof c.by, "%s", w->m.by);
    (void)snprintf(c.evidence, sizeof c.evidence, "%lld stamps removed that were over", removed);
    return migrate_note(&w->m, &c);
}

int migrate_sweep(migrate_work *w) {
    sweep s = {.list = NULL};
    bool whole = false;

    const char *keys = w->m.by_cluster ? w->o->keys : w->v.reg.keys;
    if (!w->m.by_cluster && !w->v.reg.readable)
        return fail(
            STATUS_REFUSED,
            w->v.reg.there
                ? "migrate sweep: refused: namespace %s has a register that can't be read: look "
                  "at it: HGETALL tidelock:phase:{%s}"
                : "migrate sweep: refused: namespace %s is not registered: tidelock migrate "
                  "init --namespace %s",
            w->v.name, w->v.name);
    int status = migrate_scan(&w->m, keys, true, &w->sigs, found, &s, &whole, &w->sig);
    if (status == 0 && s.no_memory)
        status = fail(STATUS_INTERNAL, "migrate sweep: out of memory, or over %d stamps", MOST);
    if (status == 0 && !w->sig && !w->o->dry_run) {
        status = remove_all(w, &s);
        int noted = note(w, &s);
        status = status ? status : noted;
    }
    if (status == 0)
        status = tell(w, &s, whole && !w->sig);
    forget(&s);
    return status == 0 && w->sig ? signals_status(w->sig) : status;
}
