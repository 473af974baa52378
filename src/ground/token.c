/*
 * Tokens and seeds. The bytes of a token come from the kernel at the moment they are needed. Bytes prepared
 * in memory would be drawn by each copy of the process that is started from an image of it (CRIU, a virtual
 * machine's snapshot). Such a copy can't be detected as a forked child can. No byte is ever drawn twice.
 */
#include "ground/token.h"

#include <uuid/uuid.h>

#include "ground/random.h"

static void fill(tl_random *random) {
    tl__random_bytes(random->bytes, sizeof random->bytes);
    random->left = sizeof random->bytes;
}

tl_token tl__token_draw(void) {
    uuid_t id = {0};
    tl_token token;
    tl__random_bytes(id, sizeof id);
    id[6] = (id[6] & 0x0f) | 0x40; /* version 4, the random variant */
    id[8] = (id[8] & 0x3f) | 0x80;
    uuid_unparse_lower(id, token.text);
    return token;
}

uint64_t tl__random_draw(tl_random *random) {
    uint64_t seed;
    if (random->left < sizeof seed)
        fill(random);
    uint8_t *from = random->bytes + (sizeof random->bytes - random->left);
    memcpy(&seed, from, sizeof seed);
    memset(from, 0, sizeof seed);
    random->left -= sizeof seed;
    return seed;
}

uint64_t tl__random_seed(void) {
    uint64_t seed;
    tl__random_bytes(&seed, sizeof seed);
    return seed;
}
