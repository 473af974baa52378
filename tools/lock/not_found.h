/*
 * Advice for a command that was not found because only a shell knows it. Pure.
 */
#pragma once

#include <stdbool.h>

#define NOT_FOUND_ADVICE 256

/** How to run such a command: "it is a shell builtin: sh -c 'cd /'". False: there is nothing to advise. */
bool not_found_advice(char buf[NOT_FOUND_ADVICE], char *const *argv);
