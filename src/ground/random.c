/*
 * The only source of randomness. The bytes come from the kernel. libuuid's own generator can't be used: it
 * seeds the program's random() under a lock. If another thread was in it during a fork, the child finds that
 * lock held for ever.
 */
#include "ground/random.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>
#include <uuid/uuid.h>

/* The fallback by libuuid, if the kernel gives nothing. Some bits of a UUID are fixed, so two UUIDs make one
 * block. */
static void fill_slowly(uint8_t *to, size_t n) {
    uuid_t even, odd;
    for (size_t i = 0; i < n; i++) {
        size_t k = i % sizeof even;
        if (k == 0) {
            uuid_generate_random(even);
            uuid_generate_random(odd);
        }
        to[i] = even[k] ^ odd[(k + 1) % sizeof odd];
    }
}

void tl__random_bytes(void *to, size_t n) {
    size_t have = 0;
    int saved = errno;
    while (have < n) {
        ssize_t more = getrandom((uint8_t *)to + have, n - have, 0);
        if (more > 0)
            have += (size_t)more;
        else if (errno != EINTR)
            break;
    }
    errno = saved;
    if (have < n)
        fill_slowly(to, n);
}
