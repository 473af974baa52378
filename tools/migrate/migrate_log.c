/*
 * Lines of the history. The reader knows flat objects of texts and whole numbers, as they are written
 * here; what it doesn't know it refuses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonout.h"
#include "migrate/migrate_log.h"

char *migrate_change_write(const migrate_change *c) {
    json j;

    json_begin(&j);
    json_text(&j, "action", c->action);
    json_known(&j, "from_phase", c->from_phase);
    json_int(&j, "to_phase", c->to_phase);
    json_int(&j, "from_epoch", c->from_epoch);
    json_text(&j, "by", c->by);
    json_text(&j, "evidence", c->evidence);
    char *text = json_take(&j);
    if (text) /* the server's half ends with the comma */
        memmove(text, text + 1, strlen(text));
    return text;
}

/* ---- reading ---------------------------------------------------------------------------------- */

typedef struct {
    const char *p, *end;
} cursor;

static bool take(cursor *c, char byte) {
    if (c->p == c->end || *c->p != byte)
        return false;
    c->p++;
    return true;
}

/* One character of a text: as it stands, or escaped; -1: no more, or wrong. */
static int character(cursor *c) {
    static const char hex[] = "0123456789abcdef";
    int value = 0;

    if (c->p == c->end || *c->p == '"')
        return -1;
    if (*c->p != '\\')
        return (unsigned char)*c->p++;
    if (c->end - c->p >= 2 && (c->p[1] == '"' || c->p[1] == '\\')) {
        c->p += 2;
        return (unsigned char)c->p[-1];
    }
    if (c->end - c->p < 6 || c->p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        const char *digit = memchr(hex, c->p[i], 16);
        if (!digit)
            return -1;
        value = value * 16 + (int)(digit - hex);
    }
    c->p += 6;
    return value <= 0xff ? value : '?';
}

static bool text(cursor *c, char *to, size_t size) {
    size_t n = 0;

    if (!take(c, '"'))
        return false;
    for (int byte = character(c); byte >= 0; byte = character(c))
        if (n + 1 < size)
            to[n++] = (char)(byte < ' ' || byte == 0x7f ? '?' : byte);
    to[n] = '\0';
    return take(c, '"');
}

static bool number(cursor *c, int64_t *ret) {
    const char *from = c->p;

    if (c->end - c->p >= 4 && memcmp(c->p, "null", 4) == 0) {
        c->p += 4;
        *ret = -1;
        return true;
    }
    while (c->p < c->end && ((*c->p >= '0' && *c->p <= '9') || *c->p == '-'))
        c->p++;
    return tl__bytes_to_int(tl__bytes(from, (size_t)(c->p - from)), ret);
}

static bool value(cursor *c, const char *name, migrate_change *ret) {
    static const char *const numbers[] = {"at_us", "from_epoch", "to_epoch", "from_phase",
                                          "to_phase"};
    int64_t v = 0;

    if (strcmp(name, "action") == 0)
        return text(c, ret->action, sizeof ret->action);
    if (strcmp(name, "by") == 0)
        return text(c, ret->by, sizeof ret->by);
    if (strcmp(name, "evidence") == 0)
        return text(c, ret->evidence, sizeof ret->evidence);
    if (!number(c, &v))
        return false;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(name, numbers[i]) != 0)
            continue;
        if (i < 3)
            *(i == 0 ? &ret->at_us : i == 1 ? &ret->from_epoch : &ret->to_epoch) = v;
        else
            *(i == 3 ? &ret->from_phase : &ret->to_phase) = v >= 0 && v < PHASES ? (int)v : -1;
        return true;
    }
    return false;
}

bool migrate_change_read(tl_bytes line, migrate_change *ret) {
    cursor c = {line.p, line.p + line.n};
    char name[16];

    *ret = (migrate_change){.from_phase = -1, .to_phase = -1};
    if (!take(&c, '{'))
        return false;
    do {
        if (!text(&c, name, sizeof name) || !take(&c, ':') || !value(&c, name, ret))
            return false;
    } while (take(&c, ','));
    return take(&c, '}') && c.p == c.end && ret->at_us > 0 && ret->action[0];
}
