/*
 * Lines of the history. The reader accepts only flat objects of texts and whole numbers with the
 * members written here; it rejects everything else.
 */
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "ground/guard.h"
#include "migrate/migrate_log.h"

/* Earlier versions can read only escaped quotes and backslashes. */
static json_t *plain(const char *text) {
    char copy[MIGRATE_EVIDENCE_SIZE];
    size_t n = 0;

    for (; *text && n + 1 < sizeof copy; text++)
        copy[n++] = (char)((unsigned char)*text < ' ' && GUARD(log_without_controls) ? '?' : *text);
    return js_bytes(copy, n);
}

char *migrate_change_write(const migrate_change *change) {
    json_t *json = json_pack("{s:o}", "action", plain(change->action));

    js_set(&json, "from_phase", js_known(change->from_phase));
    js_set(&json, "to_phase", json_integer(change->to_phase));
    js_set(&json, "from_epoch", json_integer(change->from_epoch));
    js_set(&json, "by", plain(change->by));
    js_set(&json, "evidence", plain(change->evidence));
    char *text = js_dump(json);
    if (text) /* the server's part ends with the comma */
        memmove(text, text + 1, strlen(text));
    return text;
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* Copies as much as fits, without control bytes. */
static bool text(const json_t *value, char *to, size_t size) {
    const char *from = json_string_value(value);
    size_t n = 0;

    for (; from && *from && n + 1 < size; from++)
        to[n++] = (char)((unsigned char)*from < ' ' || *from == 0x7f ? '?' : *from);
    for (; from && (*from & 0xc0) == 0x80; from--) /* not half of a character */
        n--;
    to[n] = '\0';
    return from != NULL;
}

static int phase(int64_t v) {
    return v >= 0 && v < PHASES ? (int)v : -1;
}

static bool member(const char *name, const json_t *value, migrate_change *ret) {
    int64_t v = json_is_null(value) ? -1 : json_integer_value(value);

    if (strcmp(name, "action") == 0)
        return text(value, ret->action, sizeof ret->action);
    if (strcmp(name, "by") == 0)
        return text(value, ret->by, sizeof ret->by);
    if (strcmp(name, "evidence") == 0)
        return text(value, ret->evidence, sizeof ret->evidence);
    if (!json_is_null(value) && !json_is_integer(value))
        return false;
    if (strcmp(name, "at_us") == 0)
        ret->at_us = v;
    else if (strcmp(name, "from_epoch") == 0)
        ret->from_epoch = v;
    else if (strcmp(name, "to_epoch") == 0)
        ret->to_epoch = v;
    else if (strcmp(name, "from_phase") == 0)
        ret->from_phase = phase(v);
    else if (strcmp(name, "to_phase") == 0)
        ret->to_phase = phase(v);
    else
        return false;
    return true;
}

bool migrate_change_read(tl_bytes line, migrate_change *ret) {
    const char *why, *name;
    json_t *json = js_read(line.p, line.n, &why), *value;
    bool known = json_is_object(json);

    *ret = (migrate_change){.from_phase = -1, .to_phase = -1};
    json_object_foreach(json, name, value) known = known && member(name, value, ret);
    json_decref(json);
    return known && ret->at_us > 0 && ret->action[0];
}
