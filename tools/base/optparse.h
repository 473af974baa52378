/*
 * Options by table. Each row says where its value goes in the command's own struct, so that the
 * same table parses and prints the help. The order of the rows is that of the help: common options first,
 * then OPT_RARE_FOLLOW, then the options that only --help-all shows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum {
    OPT_FLAG,  /**< bool */
    OPT_COUNT, /**< int: how often it was given */
    OPT_TEXT,  /**< const char *, into argv */
    OPT_SECRET, /**< as OPT_TEXT; a value that a later one replaces is wiped, since it may have a password */
    OPT_DURATION, /**< int64_t, milliseconds */
    OPT_EVERY, /**< as OPT_DURATION; the value follows '=', and may be left out: then it is min */
    OPT_MAYBE, /**< const char *, into argv; the value follows '=', and may be left out: then it is "" */
    OPT_TEXTS,   /**< opt_texts: the option may be repeated */
    OPT_NUMBER,  /**< int, min..max */
    OPT_CHOICE,  /**< int: the index of the word in arg, whose words '|' separates */
    OPT_HEADING, /**< no option: a heading of the help, for the rows that follow */
    OPT_RARE     /**< no option: the short help ends here, see OPT_RARE_FOLLOW */
} opt_kind;

#define OPT_TEXTS_MAX 32
/** The row that separates the common options of a table from those that only --help-all shows. */
#define OPT_RARE_FOLLOW                                                                            \
    { 0, "", OPT_RARE, 0, NULL, NULL, 0, 0 }

typedef struct {
    int count;
    const char *text[OPT_TEXTS_MAX]; /**< into argv, in their order */
} opt_texts;

/** A table ends with a row without a name. */
typedef struct {
    char letter; /**< 0: none */
    const char *name;
    opt_kind kind;
    size_t offset;    /**< of the value in the struct */
    const char *arg;  /**< the help's name of the value, or the words of a CHOICE */
    const char *help; /**< one sentence; the help breaks it into lines */
    int min, max;     /**< of a NUMBER */
} opt;

/** A table that one room adds to a command of another room. */
typedef struct {
    const opt *options;
    const void *defaults; /**< of the struct that they fill */
    size_t size;          /**< of that struct */
} opt_part;

#define OPT_COLUMNS 80 /**< no line of a help is longer */

/** The arguments without the options. */
typedef struct {
    char **word;
    int count;
    char *
        *command; /**< the arguments after "--", with the final NULL; NULL when there was no "--" */
} operands;

/** A table and the struct that it fills. */
typedef struct {
    const opt *table;
    void *values;
} opt_filled;

/** The tables to search: the command's, another room's, and that of all commands; then one without rows. */
typedef struct {
    const char *who; /**< for messages: the command's name, or NULL */
    opt_filled filled[4];
    bool stop_at_word; /**< leave the first word and all arguments after it unparsed, in word */
    bool runs;         /**< "--" begins a command; else it only ends the options */
} opt_tables;

/**
 * Parse argv[0..argc-1], and rearrange its pointers. Options may precede and follow words.
 * Returns 0, or the exit status for wrong usage after one line on stderr.
 */
int opt_parse(const opt_tables *tables, int argc, char **argv, operands *ret);

/** Which rows a help shows. */
typedef enum {
    OPT_COMMON, /**< those above OPT_RARE_FOLLOW */
    OPT_ALL
} opt_extent;

/** Print a table's part of the help. */
void opt_help(const opt *table, opt_extent extent, FILE *out);

/** Print values of an option that its table doesn't know; false: there are none. */
typedef bool (*opt_values_fn)(const char *name, FILE *out);

/** Print a line for each option of a table, for programs, with tabs between its fields. The fields: "option", the command's
 *  name, the letter, the name, "none", "needed" or "maybe" for a value, the values, the help; "-" for an empty one.
 *  more may be NULL. */
void opt_lines(const char *command, const opt *table, opt_values_fn more, FILE *out);

/** Print a line for each option of a table, for its head in the man pages, with tabs between its fields. The fields: "option",
 *  the command's name, the part of it, the letter, the name, the value as the help shows it, "choice" where that is
 *  a list of words; "-" for an empty one. */
void opt_heads(const char *command, const char *part, const opt *table, FILE *out);

/** Print a text behind the `at` columns that the line already has. It is broken between words; further lines
 *  are indented by `at`. */
void opt_print(FILE *out, int at, const char *text);
