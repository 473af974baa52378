/*
 * Each namespace's register has its pattern; in a cluster its record has, at the master of its slot. A name that fits two of them follows two phases: the
 * clients of one may write tokens there while the other's register lets Java run. This is only
 * reported: the operator knows better than these few rules whether the patterns share a name.
 */
#include <stdio.h>
#include <string.h>

#include "ground/glob.h"
#include "ground/guard.h"
#include "migrate/migrate_fleet.h"
#include "migrate/migrate_overlap.h"

#define MARKS "*?[]\\"     /* all other characters of a pattern are literal */
#define REGISTERS_MOST 100 /* most registers that are read */

/* ---- patterns --------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The number of literal bytes at the end. A class without an end may extend to the pattern's
 * end. */
static size_t tail_of(const char *pattern) {
    size_t n = strlen(pattern), tail = 0;
    if (strchr(pattern, '['))
        return 0;
    while (tail < n && !strchr(MARKS, pattern[n - 1 - tail]))
        tail++;
    return tail;
}

bool migrate_apart(const char *a, const char *b) {
    size_t a_head = strcspn(a, MARKS), b_head = strcspn(b, MARKS);
    size_t tail = least(tail_of(a), tail_of(b));

    if (!a[a_head])
        return !tl__glob_fits(tl__bytes_of(b), tl__bytes_of(a));
    if (!b[b_head])
        return !tl__glob_fits(tl__bytes_of(a), tl__bytes_of(b));
    return !GUARD(shared_names_seen) || memcmp(a, b, least(a_head, b_head)) != 0 ||
           memcmp(a + strlen(a) - tail, b + strlen(b) - tail, tail) != 0;
}

/* ---- registers -------------------------------------------------------------------------------- */

typedef struct {
    server_link *link; /* of the server that has them */
    char key[REGISTERS_MOST][MIGRATE_KEY_SIZE];
    int count;
    bool more;
    char cursor[24];
} registers;

/* Reads "tidelock:phase:{NAME}", or the key of a cluster's record. */
static bool read_name(tl_bytes key, char name[MIGRATE_NAME_MAX + 1]) {
    char again[MIGRATE_KEY_SIZE];
    const char *head = memchr(key.p, '{', key.n);
    size_t n = head ? key.n - (size_t)(head + 1 - key.p) : 0;

    if (n < 2 || n - 1 > MIGRATE_NAME_MAX)
        return false;
    (void)snprintf(name, MIGRATE_NAME_MAX + 1, "%.*s", (int)(n - 1), head + 1);
    return migrate_name_ok(name) &&
           (tl__bytes_eq(key, tl__bytes_of(migrate_key(again, name, ""))) ||
            tl__bytes_eq(key, tl__bytes_of(migrate_cluster_key(again, name, ""))));
}

/* A scan may return it twice. */
static void learn(registers *registers, tl_bytes key) {
    char name[MIGRATE_NAME_MAX + 1];

    if (!read_name(key, name))
        return;
    for (int i = 0; i < registers->count; i++)
        if (tl__bytes_eq(key, tl__bytes_of(registers->key[i])))
            return;
    registers->more = registers->more || registers->count == REGISTERS_MOST;
    if (registers->count < REGISTERS_MOST)
        (void)snprintf(registers->key[registers->count++], MIGRATE_KEY_SIZE, "%.*s", (int)key.n,
                       key.p);
}

static bool take_page(void *ctx, const tl_reply *reply) {
    const tl_reply *keys = tl__reply_item(reply, 1);
    registers *registers = ctx;
    tl_bytes text;

    if (!tl__reply_text(tl__reply_item(reply, 0), &text) || keys->type != TL_REPLY_ARRAY)
        return false;
    tl__bytes_print(registers->cursor, sizeof registers->cursor, text);
    for (size_t i = 0; i < keys->count; i++)
        if (tl__reply_text(&keys->items[i], &text))
            learn(registers, text);
    return true;
}

/* Lists the registers, as the locks' keys were just listed. */
static int list(migrate_work *work, registers *registers) {
    const char *const request[] = {
        "SCAN", registers->cursor, "MATCH", "tidelock:phase:*{*}", "COUNT", "1000", NULL};

    (void)snprintf(registers->cursor, sizeof registers->cursor, "0");
    do {
        if (!link_ask(registers->link, request, take_page, registers))
            return fail(registers->link->status, "migrate %s: %s", work->word,
                        registers->link->message);
        work->sig = signals_pause(&work->sigs, 0);
    } while (strcmp(registers->cursor, "0") != 0 && !work->sig);
    return 0;
}

static bool take_register(void *ctx, const tl_reply *reply) {
    migrate_register_read(reply, ctx);
    return true;
}

static int tell_one(migrate_work *work, const char *keys, server_link *link, const char *key) {
    char name[MIGRATE_NAME_MAX + 1];
    const char *const request[] = {"HGETALL", key, NULL};
    migrate_register other;

    if (!read_name(tl__bytes_of(key), name) || strcmp(name, work->migration.name) == 0)
        return 0;
    if (!link_ask(link, request, take_register, &other))
        return fail(link->status, "migrate %s: %s: %s", work->word, key, link->message);
    if (other.readable && !migrate_apart(keys, other.keys))
        say("migrate %s: note: some name may fit both %.100s and %.100s, the keys of namespace %s "
            "in phase %d (%s): it would follow two phases, and Java fails at the tokens of one "
            "where it may still run by the other: choose patterns so that no name fits both",
            work->word, keys, other.keys, name, other.phase, migrate_phase_name(other.phase));
    return 0;
}

static int tell_at(migrate_work *work, const char *keys, server_link *link) {
    registers registers = {.link = link};
    int status = list(work, &registers);

    for (int i = 0; i < registers.count && status == 0 && !work->sig; i++)
        status = tell_one(work, keys, link, registers.key[i]);
    if (status == 0 && registers.more)
        say("migrate %s: note: more than %d namespaces are registered, and the keys of the others "
            "were not compared",
            work->word, REGISTERS_MOST);
    return status;
}

/* In a cluster each master has the records of some namespaces. */
int migrate_tell_overlap(migrate_work *work, const char *keys) {
    struct migrate_fleet *fleet = work->migration.fleet;
    int status = fleet ? 0 : tell_at(work, keys, &work->migration.link);

    for (unsigned i = 0; fleet && i < fleet->count && status == 0 && !work->sig; i++)
        if (fleet->node[i].slots && !fleet->node[i].status)
            status = tell_at(work, keys, &fleet->node[i].link);
    return status;
}
