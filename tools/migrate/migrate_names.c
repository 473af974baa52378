/*
 * Parts of a name end with one of ":/|.#". Names without these are cut at "-", "_" or the first digit. Bytes
 * that a terminal or a shell might act on become "?", which matches any one byte.
 */
#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "migrate/migrate_names.h"

static const char strong[] = ":/|.#", weak[] = ":/|.#-_";

static bool is_in(const char *set, char c) {
    return c && strchr(set, c);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* The length of the text through the first byte of the set; 0: there is none. */
static size_t through_first(tl_bytes text, const char *set) {
    for (size_t i = 0; i < text.n; i++)
        if (is_in(set, text.p[i]))
            return i + 1;
    return 0;
}

static size_t through_last(tl_bytes text, const char *set) {
    size_t n = text.n;

    while (n > 0 && !is_in(set, text.p[n - 1]))
        n--;
    return n;
}

/* ---- families ---------------------------------------------------------------------------------- */

/* Adds a part with its end; one that has a digit may be different for each name. */
static size_t put_part(char *buf, size_t at, tl_bytes part) {
    bool varies = false;

    for (size_t i = 0; i < part.n; i++)
        varies = varies || is_digit(part.p[i]);
    if (varies)
        part = tl__bytes(part.p + part.n - 1, 1);
    size_t room = NAMES_FAMILY - 1 - at;
    if (varies && room > 0) {
        buf[at++] = '*';
        room--;
    }
    size_t n = part.n < room ? part.n : room;
    memcpy(buf + at, part.p, n);
    return at + n;
}

/* A name of one part: through the first "-" or "_", or up to the first digit. */
static size_t put_plain(char *buf, tl_bytes name) {
    size_t n = through_first(name, weak);

    for (size_t i = 1; n == 0 && i < name.n && !is_digit(name.p[0]); i++)
        if (is_digit(name.p[i]))
            n = i;
    n = n ? n : name.n;
    n = n < NAMES_FAMILY - 1 ? n : NAMES_FAMILY - 1;
    memcpy(buf, name.p, n);
    return n;
}

const char *names_family(char buf[NAMES_FAMILY], tl_bytes name) {
    size_t first = through_first(name, strong), at = 0;

    if (first == 0) {
        at = put_plain(buf, name);
    } else {
        tl_bytes rest = tl__bytes(name.p + first, name.n - first);
        size_t second = through_first(rest, strong);
        at = put_part(buf, 0, tl__bytes(name.p, first));
        if (second)
            at = put_part(buf, at, tl__bytes(rest.p, second));
    }
    for (size_t i = 0; i < at; i++)
        if (!buf[i])
            buf[i] = '?';
    buf[at] = '\0';
    return buf;
}

const char *names_parent(char buf[NAMES_FAMILY], const char *family) {
    tl_bytes text = tl__bytes_of(family);
    size_t first = through_first(text, strong);

    (void)snprintf(buf, NAMES_FAMILY, "%.*s", (int)first, family);
    return buf;
}

/* ---- what names have in common ------------------------------------------------------------------- */

static size_t common_head(const char *a, size_t a_n, const char *b, size_t b_n) {
    size_t n = 0;

    while (n < a_n && n < b_n && a[n] == b[n])
        n++;
    return n;
}

static size_t common_tail(const char *a, size_t a_n, const char *b, size_t b_n) {
    size_t n = 0;

    while (n < a_n && n < b_n && a[a_n - 1 - n] == b[b_n - 1 - n])
        n++;
    return n;
}

static names of_one(tl_bytes name) {
    names one = {.count = 1, .shortest = name.n, .alike = name.n <= NAMES_HEAD};

    one.head_n = name.n < NAMES_HEAD ? name.n : NAMES_HEAD;
    one.tail_n = name.n < NAMES_TAIL ? name.n : NAMES_TAIL;
    memcpy(one.head, name.p, one.head_n);
    memcpy(one.tail, name.p + name.n - one.tail_n, one.tail_n);
    return one;
}

void names_learn(names *all, tl_bytes name) {
    names one = of_one(name);

    names_merge(all, &one);
}

void names_merge(names *into, const names *other) {
    if (other->count == 0)
        return;
    if (into->count == 0) {
        *into = *other;
        return;
    }
    size_t head = common_head(into->head, into->head_n, other->head, other->head_n);
    size_t tail = common_tail(into->tail, into->tail_n, other->tail, other->tail_n);

    into->alike = into->alike && other->alike && into->head_n == head && other->head_n == head;
    into->head_n = head;
    memmove(into->tail, into->tail + into->tail_n - tail, tail);
    into->tail_n = tail;
    into->shortest = into->shortest < other->shortest ? into->shortest : other->shortest;
    into->count += other->count;
}

/* ---- patterns ------------------------------------------------------------------------------------ */

static size_t put_literal(char *buf, size_t at, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] >= 0x7f) {
            buf[at++] = '?';
            continue;
        }
        if (strchr("*?[]\\", text[i]) && GUARD(names_are_literal))
            buf[at++] = '\\';
        buf[at++] = text[i];
    }
    return at;
}

/* How much of the common head is literal: whole parts. */
static size_t literal_head(const names *names) {
    tl_bytes head = tl__bytes(names->head, names->head_n);
    size_t n = through_last(head, strong);

    n = n ? n : through_last(head, weak);
    if (n)
        return n;
    n = head.n;
    while (n > 0 && is_digit(head.p[n - 1]))
        n--;
    return n;
}

/* How much of the common tail is literal, when so much of the shortest name belongs to the head. */
static size_t literal_tail(const names *names, size_t head) {
    size_t most = names->shortest - head;
    size_t n = names->tail_n < most ? names->tail_n : most;
    tl_bytes tail = tl__bytes(names->tail + names->tail_n - n, n);
    const char *ends = head ? strong : weak;

    while (tail.n > 0 && !is_in(ends, tail.p[0]))
        tail = tl__bytes(tail.p + 1, tail.n - 1);
    return tail.n;
}

const char *names_pattern(char buf[NAMES_PATTERN], const names *names) {
    size_t head = literal_head(names), at = 0, tail = 0;
    bool parts = through_last(tl__bytes(names->head, names->head_n), strong) > 0;

    buf[0] = '\0';
    if (names->count == 0)
        return buf;
    if (names->alike && !parts) {
        buf[put_literal(buf, 0, names->head, names->head_n)] = '\0';
        return buf;
    }
    if (!names->alike)
        tail = literal_tail(names, head);
    if (head + tail == 0)
        return buf;
    at = put_literal(buf, 0, names->head, head);
    buf[at++] = '*';
    at = put_literal(buf, at, names->tail + names->tail_n - tail, tail);
    buf[at] = '\0';
    return buf;
}

const char *names_quote(char *buf, size_t size, const char *text) {
    size_t at = 0;

    buf[0] = '\0';
    if (strlen(text) * 4 + 3 > size)
        return buf;
    buf[at++] = '\'';
    for (; *text; text++) {
        if (*text == '\'') {
            memcpy(buf + at, "'\\''", 4);
            at += 4;
        } else {
            buf[at++] = *text;
        }
    }
    buf[at++] = '\'';
    buf[at] = '\0';
    return buf;
}
