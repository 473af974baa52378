/*
 * Tokens and seeds, of random bytes that are fetched ahead. It must never give out a byte twice.
 */
#include "ground/token.h"

#include <uuid/uuid.h>

#include "ground/random.h"

static void fill(tl_random *random) {
    tl__random_bytes(random->bytes, sizeof random->bytes);
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
