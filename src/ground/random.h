/*
 * Random bytes: the only module that has any. token.h makes of them what is wanted.
 */
#pragma once

#include <stddef.h>

/** Fill `to` with bytes that nobody can guess. errno stays. */
void tl__random_bytes(void *to, size_t n);
