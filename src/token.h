/*
 * Tokens: 122 random bits as UUID text. The only user of libuuid.
 */
#ifndef TL_TOKEN_H
#define TL_TOKEN_H

#include <stdint.h>
#include <tidelock/tidelock.h>

#include "bytes.h"

typedef struct {
    char text[TL_TOKEN_SIZE];
} tl_token;

/** A fresh token. */
tl_token tl__token_new(void);

/** A seed for jitter. */
uint64_t tl__random_seed(void);

/** Tests: take tokens from `source` instead; NULL for the real ones again. */
void tl__token_inject(tl_token (*source)(void));

static inline tl_bytes tl__token_bytes(const tl_token *token) {
    return tl__bytes_of(token->text);
}

#endif
