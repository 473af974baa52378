/*
 * Reads and fills in structs that begin with their size, bytewise: so it doesn't matter whether the caller or
 * the library is the older one.
 */
#include "ground/options.h"

#include <string.h>

#include "ground/error.h"
#include "ground/guard.h"

static size_t size_of(const void *sized) {
    size_t size;
    memcpy(&size, sized, sizeof size);
    return size;
}

static bool is_zero(const unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

tl_err tl__options_read(void *ret, size_t n, const void *given, size_t least, const char *name,
                        tl_error *err) {
    size_t size = given ? size_of(given) : 0;
    if (!given)
        return tl__fail(err, TL_EINVALID, 0, "%s: the pointer is NULL: pass a pointer to one",
                        name);
    if (size < least || size > TL_SIZED_MOST)
        return tl__fail(err, TL_EINVALID, 0,
                        "%s: its size can't be %zu: set it to sizeof(%s), as its initialiser does",
                        name, size, name);
    if (GUARD(newer_option) && size > n && !is_zero((const unsigned char *)given + n, size - n))
        return tl__fail(err, TL_EINVALID, 0,
                        "%s: a member is set that this library, version %s, doesn't know: it is "
                        "older than the header that the program was built with",
                        name, TL_VERSION);
    memset(ret, 0, n);
    memcpy(ret, given, size < n ? size : n);
    memcpy(ret, &n, sizeof n);
    return TL_OK;
}

tl_err tl__info_check(const void *to, const char *name, tl_error *err) {
    size_t size = size_of(to);
    if (size >= sizeof size && size <= TL_SIZED_MOST)
        return TL_OK;
    return tl__fail(err, TL_EINVALID, 0,
                    "%s: its size can't be %zu: set it to sizeof(%s) before the call", name, size,
                    name);
}

void tl__info_write(void *to, const void *from, size_t n) {
    size_t size = size_of(to);
    memset(to, 0, size);
    memcpy(to, from, size < n ? size : n);
    memcpy(to, &size, sizeof size);
}
