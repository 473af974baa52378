/*
 * The only source of randomness, and the only file that uses libuuid. It takes the bytes
 * from the kernel: libuuid's own generator sets the seed of the program's random(), under a lock that
 * a forked child finds held for ever when another thread was in it.
 */
#include "ground/token.h"

#include <errno.h>
#include <sys/random.h>
#include <uuid/uuid.h>

/* By libuuid where the kernel gives nothing: some of those bits are fixed, so two ids make one block. */
static void fill_slowly(tl_random *random) {
    uuid_t even, odd;
    for (size_t i = 0; i < sizeof random->bytes; i += sizeof even) {
        uuid_generate_random(even);
        uuid_generate_random(odd);
        for (size_t k = 0; k < sizeof even; k++)
            random->bytes[i + k] = even[k] ^ odd[(k + 1) % sizeof odd];
    }
}

static void fill(tl_random *random) {
    size_t have = 0;
    int saved = errno;
    while (have < sizeof random->bytes) {
        ssize_t n = getrandom(random->bytes + have, sizeof random->bytes - have, 0);
        if (n > 0)
            have += (size_t)n;
        else if (errno != EINTR)
            break;
    }
    errno = saved;
    if (have < sizeof random->bytes)
        fill_slowly(random);
    random->left = sizeof random->bytes;
}

static void draw(tl_random *random, void *to, size_t n) {
    if (random->left < n)
        fill(random);
    uint8_t *from = random->bytes + (sizeof random->bytes - random->left);
    memcpy(to, from, n);
    memset(from, 0, n);
    random->left -= n;
}

tl_token tl__token_draw(tl_random *random) {
    uuid_t id = {0};
    tl_token token;
    draw(random, id, sizeof id);
    id[6] = (id[6] & 0x0f) | 0x40; /* version 4, of the usual kind */
    id[8] = (id[8] & 0x3f) | 0x80;
    uuid_unparse_lower(id, token.text);
    return token;
}

uint64_t tl__random_draw(tl_random *random) {
    uint64_t seed;
    draw(random, &seed, sizeof seed);
    return seed;
}

uint64_t tl__random_seed(void) {
    tl_random random = {.left = 0};
    return tl__random_draw(&random);
}
