/*
 * Floor 0: the only file that uses libuuid, and so the only source of randomness.
 */
#include "token.h"

#include <stdatomic.h>
#include <uuid/uuid.h>

static tl_token (*_Atomic injected)(void); /* tests only; NULL in every program */

tl_token tl__token_new(void) {
    tl_token (*source)(void) = atomic_load_explicit(&injected, memory_order_relaxed);
    if (source)
        return source();
    uuid_t id;
    tl_token token;
    uuid_generate_random(id);
    uuid_unparse_lower(id, token.text);
    return token;
}

uint64_t tl__random_seed(void) {
    uuid_t id;
    uint64_t low, high;
    uuid_generate_random(id);
    memcpy(&low, id, sizeof low);
    memcpy(&high, id + sizeof low, sizeof high);
    return low * 31 + high; /* the fixed version bits of one half are covered by the other */
}

void tl__token_inject(tl_token (*source)(void)) {
    atomic_store_explicit(&injected, source, memory_order_relaxed);
}
