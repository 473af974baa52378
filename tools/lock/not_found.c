/*
 * A builtin or a keyword of the shell is no program, and neither is a whole command line in one word. The advice
 * repeats the words only where a shell reads them as they are.
 */
#include "lock/not_found.h"

#include <stdio.h>
#include <string.h>

/* Those of sh and bash that are usually no programs, too. */
static const char *const builtins[] = {
    "cd",      "export",  "source",   ".",      "alias",  "unalias", "eval", "exec",  "set",
    "unset",   "ulimit",  "umask",    "trap",   "wait",   "read",    "type", "shift", "local",
    "declare", "typeset", "let",      "pushd",  "popd",   "shopt",   "hash", "times", "jobs",
    "command", "builtin", "readonly", "exit",   "return", "if",      "for",  "while", "until",
    "case",    "time",    "function", "select", "!",      "{",       "(",    "[[",    ":",
};

static bool is_builtin(const char *word) {
    for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++)
        if (strcmp(word, builtins[i]) == 0)
            return true;
    return false;
}

/* Characters that mean the same inside and outside of a shell. */
static bool is_plain(const char *word, const char *more) {
    for (; *word; word++)
        if (!(*word >= 'a' && *word <= 'z') && !(*word >= 'A' && *word <= 'Z') &&
            !(*word >= '0' && *word <= '9') && !strchr("_./:=,@%+-", *word) && !strchr(more, *word))
            return false;
    return true;
}

/* The words with blanks between; the first alone and "..." where the others aren't plain, or too long. */
static void join(char *buf, size_t size, char *const *argv) {
    size_t used = (size_t)snprintf(buf, size, "%s", argv[0]), first = used;

    for (char *const *word = argv + 1; *word; word++) {
        if (!is_plain(*word, "") || !**word || used + strlen(*word) + 2 > size) {
            (void)snprintf(buf + first, size - first, " ...");
            return;
        }
        used += (size_t)snprintf(buf + used, size - used, " %s", *word);
    }
}

bool not_found_advice(char buf[NOT_FOUND_ADVICE], char *const *argv) {
    char line[NOT_FOUND_ADVICE / 2];

    if (is_builtin(argv[0])) {
        join(line, sizeof line, argv);
        (void)snprintf(buf, NOT_FOUND_ADVICE, "it is a shell builtin: sh -c '%s'", line);
        return true;
    }
    if (argv[1] || !strchr(argv[0], ' ') || strlen(argv[0]) >= sizeof line ||
        !is_plain(argv[0], " |&;<>\"$()*?[]{}~"))
        return false;
    (void)snprintf(buf, NOT_FOUND_ADVICE, "if it is a shell command: sh -c '%s'", argv[0]);
    return true;
}
