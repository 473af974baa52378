/*
 * Globs, matched byte for byte as the server does. Only the last '*' is ever tried again, since everything
 * else in a pattern stands for one byte. So no pattern takes long.
 */
#include "ground/glob.h"

#include "ground/guard.h"

/* Match one byte against "[...]", whose first byte is at p. How bytes beyond ASCII compare depends on the
 * processor: for a range with one of them *odd is set. Returns the index of the ']', or the pattern's end. */
static size_t fits_class(tl_bytes pattern, size_t p, char c, bool *ret, bool *odd) {
    bool other = p < pattern.n && pattern.p[p] == '^', found = false;
    for (p += other; p < pattern.n && pattern.p[p] != ']'; p++) {
        if (pattern.p[p] == '\\' && p + 1 < pattern.n) {
            p++;
            found = found || pattern.p[p] == c;
        } else if (p + 2 < pattern.n && pattern.p[p + 1] == '-') {
            signed char a = (signed char)pattern.p[p], b = (signed char)pattern.p[p + 2];
            signed char low = a < b ? a : b, high = a < b ? b : a, byte = (signed char)c;
            found = found || (low <= byte && byte <= high);
            *odd = *odd || low < 0;
            p += 2;
        } else {
            found = found || pattern.p[p] == c;
        }
    }
    *ret = found != other;
    return p;
}

/* Match one byte against the element at p, which is not a '*'; returns where the element ends. */
static size_t fits_one(tl_bytes pattern, size_t p, char c, bool *ret) {
    if (pattern.p[p] == '[') {
        bool odd = false;
        p = fits_class(pattern, p + 1, c, ret, &odd);
        return p < pattern.n ? p + 1 : p;
    }
    bool any = pattern.p[p] == '?';
    if (pattern.p[p] == '\\' && p + 1 < pattern.n)
        p++;
    *ret = any || pattern.p[p] == c;
    return p + 1;
}

bool tl__glob_fits(tl_bytes pattern, tl_bytes text) {
    size_t p = 0, t = 0, star = SIZE_MAX, from = 0;
    while (t < text.n) {
        bool fits = false;
        size_t next = p;
        if (p < pattern.n && pattern.p[p] == '*') {
            star = ++p;
            from = t;
            continue;
        }
        if (p < pattern.n)
            next = fits_one(pattern, p, text.p[t], &fits);
        if (fits) {
            p = next;
            t++;
        } else if (star != SIZE_MAX) {
            p = star;
            t = ++from;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.p[p] == '*')
        p++;
    return p == pattern.n;
}

const char *tl__glob_flaw(tl_bytes pattern) {
    bool unused, odd = false;
    for (size_t p = 0; p < pattern.n; p++) {
        if (pattern.p[p] == '[')
            p = fits_class(pattern, p + 1, '\0', &unused, &odd);
        else if (pattern.p[p] == '\\' && ++p == pattern.n)
            return "'\\' at the end";
        if (p == pattern.n)
            return "'[' without ']'";
    }
    return GUARD(odd_pattern) && odd ? "range of bytes beyond ASCII" : NULL;
}

/* The length up to the first comma that is not escaped. */
static size_t choice_length(const char *list) {
    size_t n = strcspn(list, "\\,");
    while (list[n] == '\\' && list[n + 1] != '\0')
        n += 2 + strcspn(list + n + 2, "\\,");
    return n + strcspn(list + n, ",");
}

bool tl__glob_choice(const char **list, tl_bytes *ret_pattern, tl_bytes *ret_name) {
    if (!*list || !**list)
        return false;
    size_t n = choice_length(*list);
    const char *choice = *list, *equals = n > 0 ? memrchr(choice, '=', n) : NULL;
    *ret_pattern = TL_LITERAL("*");
    *ret_name = tl__bytes(choice, n);
    if (equals) {
        *ret_pattern = tl__bytes(choice, (size_t)(equals - choice));
        *ret_name = tl__bytes(equals + 1, n - ret_pattern->n - 1);
    }
    *list += n + (choice[n] == ',');
    return true;
}
