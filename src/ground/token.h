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

/** Random bytes fetched ahead, for seeds of jitter alone: the kernel is asked once for many. Zeroed is empty. For one
 *  thread at a time. Copies of a process draw the same from it, so nothing that tells holders apart may come of it. */
typedef struct {
    uint8_t bytes[TL_RANDOM_SIZE];
    size_t left; /**< not drawn yet, at the end of bytes; what was drawn is wiped */
} tl_random;

/** A fresh token, of bytes that the kernel is asked for now. */
tl_token tl__token_draw(void);
/** So is this: a number that no copy of the process draws, too. */
uint64_t tl__random_seed(void);

/** A seed for jitter. */
uint64_t tl__random_draw(tl_random *random);

static inline tl_bytes tl__token_bytes(const tl_token *token) {
    return tl__bytes_of(token->text);
}
