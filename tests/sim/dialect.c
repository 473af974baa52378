/*
 * The dialect of a run's legacy clients: what a program that speaks it writes, to the clock and lifetime as such
 * programs round them, and when it calls a stamp expired. Written and compared here as they do it, not as the library
 * does: only which dialects there are is read from its table.
 */
#include "world.h"

#include <stdio.h>

#ifdef TL_COMPAT
#include "dialect/dialect.h"

#define US_PER_S INT64_C(1000000)

_Static_assert(SIM_STAMP_SIZE >= TL_STAMP_SIZE, "holds any stamp that the library writes");

static const tl_dialect *dialect_of(const sim_world *w) {
    return tl__dialect_at((unsigned)w->cfg.dialect);
}

bool sim_dialect_is_known(int64_t number) {
    return number >= 0 && number < 100 && tl__dialect_at((unsigned)number);
}

bool sim_dialect_overwrites(int64_t number) {
    return tl__dialect_at((unsigned)number)->waiters_overwrite;
}

const char *sim_dialect_name(const sim_world *w) {
    return dialect_of(w)->name;
}

int64_t sim_dialect_lifetime(const sim_config *c, int64_t ttl_ms) {
    const tl_dialect *d = tl__dialect_at((unsigned)c->dialect);
    bool whole = d->unit == TL_UNIT_S || d->waiters_overwrite; /* these say EXPIRE, too */
    return whole ? (ttl_ms + 999) / 1000 * 1000 : ttl_ms;
}

int64_t sim_dialect_early_ms(const sim_config *c) {
    return tl__dialect_at((unsigned)c->dialect)->early_ms;
}

bool sim_dialect_read(const sim_world *w, tl_bytes text, int64_t *ret_last_ms) {
    const sim_server *s = &w->server[w->shard[0].master];
    tl_stamp stamp = tl__dialect_read(dialect_of(w), text,
                                      sim_clock_read(&s->wall, w->now) / SIM_MS);
    *ret_last_ms = stamp.first_free_ms - 1;
    return stamp.kind == TL_STAMP_GOOD;
}

/* ---- what a program does --------------------------------------------------------------------------- */

/* Of a dialect whose programs are of two kinds, is it one that has whole seconds (py-float), or a fraction where the
 * others have none (php-s)? */
static bool is_other(const tl_dialect *d, const sim_actor *a) {
    return (d->whole_readers || d->early_ms) && a->id % 2;
}

static int64_t clock_us(const sim_world *w, const sim_host *h) {
    return sim_clock_read(&h->wall, w->now) / 1000;
}

static void write_number(const tl_dialect *d, int64_t now_us, int64_t ttl_ms, bool other,
                         char to[40]) {
    int64_t more_ms = ttl_ms + d->plus_ms, end_us = now_us + more_ms * 1000;
    switch (d->unit) {
    case TL_UNIT_MS: (void)snprintf(to, 40, "%lld", (long long)(now_us / 1000 + more_ms)); break;
    case TL_UNIT_S:
        (void)snprintf(to, 40, "%lld", (long long)(now_us / US_PER_S + more_ms / 1000));
        break;
    case TL_UNIT_REAL:
        end_us -= other ? now_us % US_PER_S : 0;
        (void)snprintf(to, 40, "%lld.%06lld", (long long)(end_us / US_PER_S),
                       (long long)(end_us % US_PER_S));
        break;
    }
}

tl_bytes sim_dialect_write(const sim_world *w, const sim_actor *a, int64_t ttl_ms,
                           char to[SIM_STAMP_SIZE]) {
    const tl_dialect *d = dialect_of(w);
    char number[40];
    int n = 0;
    write_number(d, clock_us(w, a->host), ttl_ms, is_other(d, a), number);
    switch (d->shape) {
    case TL_SHAPE_BARE: n = snprintf(to, SIM_STAMP_SIZE, "%s", number); break;
    case TL_SHAPE_NUMBER_ID:
        n = snprintf(to, SIM_STAMP_SIZE, "%s%c%d", number, d->separator, 1000 + a->id);
        break;
    case TL_SHAPE_ID_NUMBER:
        n = snprintf(to, SIM_STAMP_SIZE, "6c656761-6379-4000-8000-%012x%c%s", (unsigned)a->id,
                     d->separator, number);
        break;
    }
    return tl__bytes(to, (size_t)n);
}

bool sim_dialect_is_by(const sim_world *w, const sim_actor *a, tl_bytes text) {
    char id[16], separator = dialect_of(w)->separator;
    int n = snprintf(id, sizeof id, "%c%d", separator, 1000 + a->id);
    const char *at = memchr(text.p, separator, text.n);
    return at &&
           tl__bytes_eq(tl__bytes(at, text.n - (size_t)(at - text.p)), tl__bytes(id, (size_t)n));
}

/* Seconds with decimals, in us. */
static bool parse_real(tl_bytes text, int64_t *ret) {
    const char *point = memchr(text.p, '.', text.n);
    size_t whole = point ? (size_t)(point - text.p) : text.n, decimals = 0;
    int64_t fraction = 0;
    if (!tl__dialect_whole(tl__bytes(text.p, whole), ret))
        return false;
    for (size_t i = whole + 1; i < text.n && decimals < 6; i++, decimals++) {
        if (!tl__is_digit(text.p[i]))
            return false;
        fraction = fraction * 10 + (text.p[i] - '0');
    }
    for (; decimals < 6; decimals++)
        fraction *= 10;
    *ret = *ret * US_PER_S + fraction;
    return true;
}

bool sim_dialect_expired(const sim_world *w, const sim_actor *a, tl_bytes text, bool *ret) {
    const tl_dialect *d = dialect_of(w);
    tl_bytes number = tl__dialect_number(d, text);
    int64_t now = clock_us(w, a->host), end;
    if (number.n == 0 ||
        !(d->unit == TL_UNIT_REAL ? parse_real(number, &end) : tl__dialect_whole(number, &end)))
        return false;
    if (d->unit == TL_UNIT_MS)
        now /= 1000;
    else if (d->unit == TL_UNIT_S && is_other(d, a))
        end *= US_PER_S;
    else if (d->unit == TL_UNIT_S)
        now /= US_PER_S;
    else if (is_other(d, a))
        now -= now % US_PER_S;
    *ret = d->at_equal ? end <= now : end < now;
    return true;
}

#else /* Java's alone */

bool sim_dialect_is_known(int64_t number) {
    return number == 0;
}

const char *sim_dialect_name(const sim_world *w) {
    (void)w;
    return NULL;
}

bool sim_dialect_overwrites(int64_t number) {
    (void)number;
    return false;
}

bool sim_dialect_is_by(const sim_world *w, const sim_actor *a, tl_bytes text) {
    (void)w, (void)a, (void)text;
    return false;
}

int64_t sim_dialect_lifetime(const sim_config *c, int64_t ttl_ms) {
    (void)c;
    return ttl_ms;
}

int64_t sim_dialect_early_ms(const sim_config *c) {
    (void)c;
    return 0;
}

bool sim_dialect_read(const sim_world *w, tl_bytes text, int64_t *ret_last_ms) {
    (void)w;
    return tl__bytes_to_int(text, ret_last_ms) && *ret_last_ms > 0;
}

tl_bytes sim_dialect_write(const sim_world *w, const sim_actor *a, int64_t ttl_ms,
                           char to[SIM_STAMP_SIZE]) {
    char digits[TL_INT_SIZE];
    tl_bytes text = tl__bytes_from_int(digits, sim_host_wall_ms(w, a->host) + ttl_ms);
    memcpy(to, text.p, text.n);
    return tl__bytes(to, text.n);
}

bool sim_dialect_expired(const sim_world *w, const sim_actor *a, tl_bytes text, bool *ret) {
    int64_t end;
    if (!tl__bytes_to_int(text, &end))
        return false;
    *ret = end < sim_host_wall_ms(w, a->host);
    return true;
}

#endif
