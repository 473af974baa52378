/*
 * A builtin or a keyword of the shell is no program, and neither is a whole command line in one word. The advice
 * repeats the words only where a shell reads them as they are.
 */
#include "lock/not_found.h"

#include <stdio.h>
#include <string.h>

/* Those that are usually no programs, too: of every shell, and of bash alone. */
static const char *const of_sh[] = {
    "cd",   "export", "unset",   ".",        "alias", "unalias", "eval", "exec",  "set",
    "read", "ulimit", "umask",   "trap",     "wait",  "type",    "hash", "shift", "times",
    "jobs", "local",  "command", "readonly", "exit",  "return",  "if",   "for",   "while",
    "case", "until",  "!",       "{",        "(",     ":",       NULL,
};
static const char *const of_bash[] = {
    "source", "declare", "typeset",  "let",    "pushd", "popd", "shopt",
    "time",   "builtin", "function", "select", "[[",    NULL,
};

static bool is_one_of(const char *const *words, const char *word) {
    for (; *words; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

/* The shell that knows this word; NULL: none. */
static const char *shell_of(const char *word) {
    return is_one_of(of_sh, word) ? "sh" : is_one_of(of_bash, word) ? "bash" : NULL;
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
    const char *shell = shell_of(argv[0]);
    char line[NOT_FOUND_ADVICE / 2];

    if (shell) {
        join(line, sizeof line, argv);
        (void)snprintf(buf, NOT_FOUND_ADVICE, "it is a shell builtin: %s -c '%s'", shell, line);
        return true;
    }
    if (argv[1] || !strchr(argv[0], ' ') || strlen(argv[0]) >= sizeof line ||
        !is_plain(argv[0], " |&;<>\"$()*?[]{}~"))
        return false;
    (void)snprintf(buf, NOT_FOUND_ADVICE, "if it is a shell command: sh -c '%s'", argv[0]);
    return true;
}
