/*
 * "Did you mean": the name of a list that is nearest to the word that was typed. Pure: no output, no I/O.
 */
#pragma once

#include <stddef.h>

#define SUGGEST_WORD_MAX 40 /**< a longer word has no suggestion */

/**
 * Damerau-Levenshtein distance (optimal string alignment): the number of characters to insert, delete, replace
 * or swap with their neighbour, to turn one word into the other. It compares the first SUGGEST_WORD_MAX characters.
 */
int suggest_distance(const char *a, const char *b);

/** A search: begin it with what was typed, offer each name, and ask for the best. */
typedef struct {
    const char *typed;
    const char *best; /**< NULL: nothing near so far */
    int distance;     /**< of best; before there is one, the first distance that is too far */
} suggestion;

suggestion suggest_begin(const char *typed);

/** Of names that are equally near the first one offered stays. */
void suggest_offer(suggestion *s, const char *name);

/** Another word for one of our names. A table ends with a row of NULLs. */
typedef struct {
    const char *word, *name;
} synonym;

/** Our name for the word, or NULL. */
const char *suggest_synonym(const synonym *table, const char *word);
