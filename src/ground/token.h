/*
 * Tokens: 122 random bits as UUID text; seeds.
 */
#pragma once

#include <stdint.h>
#include <tidelock/tidelock.h>

#include "ground/bytes.h"

typedef struct {
    char text[TL_TOKEN_SIZE];
} tl_token;

#define TL_RANDOM_SIZE 1024

/** Random bytes fetched in advance, so that one call of the kernel serves many seeds; for seeds of jitter
 *  alone. Zeroed is empty. For one thread at a time. Copies of a process draw the same bytes from it, so it
 *  must never produce anything that distinguishes holders. */
typedef struct {
    uint8_t bytes[TL_RANDOM_SIZE];
    size_t left; /**< bytes not drawn yet, at the end; drawn bytes are wiped */
} tl_random;

/** A new token, from bytes that the kernel returns at this moment. */
tl_token tl__token_draw(void);
/** A number from bytes that the kernel returns at this moment: no copy of the process draws the same. */
uint64_t tl__random_seed(void);

/** A seed for jitter. */
uint64_t tl__random_draw(tl_random *random);

static inline tl_bytes tl__token_bytes(const tl_token *token) {
    return tl__bytes_of(token->text);
}
