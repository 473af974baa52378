/*
 * Tokens: 122 random bits as UUID text; seeds.
 */
#ifndef TL_TOKEN_H
#define TL_TOKEN_H

#include <stdint.h>
#include <tidelock/tidelock.h>

#include "ground/bytes.h"

typedef struct {
    char text[TL_TOKEN_SIZE];
} tl_token;

#define TL_RANDOM_SIZE 1024

/** Random bytes fetched ahead: the kernel is asked once for many tokens. Zeroed is empty. For one
 *  thread at a time, and never for both sides of a fork: two processes would draw the same. */
typedef struct {
    uint8_t bytes[TL_RANDOM_SIZE];
    size_t left; /**< not drawn yet, at the end of bytes; what was drawn is wiped */
} tl_random;

/** A fresh token. */
tl_token tl__token_draw(tl_random *random);

/** A seed for jitter; for one that is wanted once, without a tl_random. */
uint64_t tl__random_draw(tl_random *random);
uint64_t tl__random_seed(void);

static inline tl_bytes tl__token_bytes(const tl_token *token) {
    return tl__bytes_of(token->text);
}

#endif
