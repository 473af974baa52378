/*
 * TL_ASSERT states what a function relies on. In a shipped build it compiles to nothing. In the library for
 * tests and for the simulator a false condition aborts. The Makefile says which files are compiled with
 * TL_ASSERTS.
 */
#pragma once

#ifdef TL_ASSERTS
#include <assert.h>
#define TL_ASSERT(condition) assert(condition)
#else
#define TL_ASSERT(condition) ((void)0)
#endif
