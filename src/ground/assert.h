/*
 * What a function counts on. In what ships TL_ASSERT is nothing; the library that tests and the simulator are linked with
 * aborts where it doesn't hold (the Makefile says which of its files are compiled so).
 */
#pragma once

#ifdef TL_ASSERTS
#include <assert.h>
#define TL_ASSERT(condition) assert(condition)
#else
#define TL_ASSERT(condition) ((void)0)
#endif
