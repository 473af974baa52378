/*
 * Options by table. Each row says where its value goes in the command's own struct, so that the
 * same table parses and prints the help.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum {
    OPT_FLAG,     /**< bool */
    OPT_COUNT,    /**< int: how often it was given */
    OPT_TEXT,     /**< const char *, into argv */
    OPT_DURATION, /**< int64_t, milliseconds */
    OPT_EVERY, /**< the same, but the value may be left out (then it is min), and stands after '=' */
    OPT_MAYBE, /**< const char *, into argv or "": its value may be left out, and stands after '=' */
    OPT_TEXTS,  /**< opt_texts: the option may be given again and again */
    OPT_NUMBER, /**< int, min..max */
    OPT_CHOICE, /**< int: which of the words in arg, that '|' parts */
    OPT_HEADING /**< no option: what the help says above the rows that follow */
} opt_kind;

#define OPT_TEXTS_MAX 32
#define OPT_FORMER                                                                                 \
    NULL /**< the name that the option of the same offset had; taken for one release more */

typedef struct {
    int count;
    const char *text[OPT_TEXTS_MAX]; /**< into argv, in their order */
} opt_texts;

/** A table ends with a row without a name. */
typedef struct {
    char letter; /**< 0: none */
    const char *name;
    opt_kind kind;
    size_t offset;   /**< of the value in the struct */
    const char *arg; /**< what the help calls the value, or the words of a CHOICE */
    const char
        *help;    /**< one sentence; the help breaks it into lines. OPT_FORMER: it is not shown */
    int min, max; /**< of a NUMBER */
} opt;

/** A table of one room's, for a command of another's. */
typedef struct {
    const opt *options;
    const void *defaults; /**< of the struct that they fill */
    size_t size;          /**< of that struct */
} opt_part;

#define OPT_COLUMNS 80 /**< no line of a help is longer */

/** What is left when the options are taken out. */
typedef struct {
    char **word;
    int count;
    char **command; /**< what follows "--", with its final NULL; NULL when there was no "--" */
} operands;

/** A table and the struct that it fills. */
typedef struct {
    const opt *table;
    void *values;
} opt_filled;

/** The tables that count, up to one without rows: the command's, another room's, those of all commands. */
typedef struct {
    const char *who; /**< for messages: the command's name, or NULL */
    opt_filled filled[4];
    bool stop_at_word; /**< leave the first word and what follows it unparsed, in word */
    bool runs;         /**< "--" begins a command; else it only ends the options */
} opt_tables;

/**
 * Parse argv[0..argc-1], whose pointers it rearranges. Options may stand before and after words.
 * Returns 0, or the exit status for wrong usage after one line on stderr.
 */
int opt_parse(const opt_tables *tables, int argc, char **argv, operands *ret);

/** Print a table's part of the help. */
void opt_help(const opt *table, FILE *out);

/** Print values of an option that its table doesn't know; false: none. */
typedef bool (*opt_values_fn)(const char *name, FILE *out);

/** Print a line for each option of a table, for programs: "option", the command's name, the letter and the name as they
 *  are typed, "none", "needed" or "maybe" (a value), the values, the help; tabs between them, "-" for nothing. more may be NULL. */
void opt_lines(const char *command, const opt *table, opt_values_fn more, FILE *out);

/** Print a text of which the line has `at` columns already: broken between words, further lines
 *  indented by as much. */
void opt_print(FILE *out, int at, const char *text);
