/*
 * The tidelock command: finds the command in the table, has its options parsed, and calls it. All
 * that is special to a command stands in its own file and row.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/tool.h"

static int help(const server *where, const void *options, const operands *args);

static const opt no_options[] = {{0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0}};

static const command help_row = {
    .name = "help",
    .usage = "[COMMAND|TOPIC]",
    .help = "about a command or a topic",
    .options = no_options,
    .local = true,
    .args_max = 1,
    .function = help,
};

/* NULL: a command of a room that this build doesn't have. */
static const command *const rows[] = {
    &run_row,
    &lock_row,
    &unlock_row,
    &extend_row,
    &check_row,
    &inspect_row,
    &break_row,
    &local_row,
    &skew_row,
    &agent_row,
    &doctor_row,
    &bench_row,
    FROM_LEGACY(migrate_row),
    &help_row,
};
#define ROWS (sizeof rows / sizeof rows[0])

static const command *find_command(const char *name) {
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i] && strcmp(rows[i]->name, name) == 0)
            return rows[i];
    return NULL;
}

/* What was printed must have arrived. */
static int flushed(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_OK;
    return fail(STATUS_INTERNAL, "standard output: %s", strerror(errno));
}

static int version(void) {
    printf("tidelock %s\n", tl_version());
    return flushed();
}

static void overview(FILE *out) {
    const help_topic *topic = FROM_LEGACY(legacy_dialects);

    (void)fputs("usage: tidelock [--url URL] COMMAND ...\n\n"
                "Locks that many hosts share, kept in Redis or etcd.\n\n",
                out);
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i])
            opt_print(out, fprintf(out, "  %-10s ", rows[i]->name), rows[i]->help);
    (void)fputs("\nFor every command:\n", out);
    opt_help(global_options, out);
    (void)fputs("\n\"tidelock help COMMAND\" says more", out);
    if (topic)
        (void)fprintf(out, ", \"tidelock help %s\"\n%s", topic->name, topic->about);
    (void)fputs(". Durations need a unit: 500ms 30s 5m 2h 1d.\n"
                "Exit status of every command, besides its own: 64 wrong usage, 69 server not\n"
                "reached, 70 internal, 77 refused, 78 bad configuration.\n",
                out);
}

/* Paragraphs of one line each; one that begins with a space has its own layout. */
static void print_notes(const char *at) {
    while (*at) {
        char line[512];
        int len = (int)strcspn(at, "\n");
        (void)snprintf(line, sizeof line, "%.*s", len, at);
        if (line[0] == ' ')
            printf("%s\n", line);
        else
            opt_print(stdout, 0, line);
        at += len + (at[len] == '\n');
    }
}

static void command_help(const command *command) {
    opt_print(stdout, printf("usage: tidelock %s ", command->name), command->usage);
    printf("\n%s\n", command->help);
    if (command->options[0].name) {
        printf("\n");
        opt_help(command->options, stdout);
    }
    if (command->legacy) {
        printf("\n");
        opt_help(command->legacy->options, stdout);
    }
    if (!command->local) {
        printf("\nFor every command:\n");
        opt_help(global_options, stdout);
    }
    if (command->notes) {
        printf("\n");
        print_notes(command->notes);
    }
}

/* ---- for the completion of shells ------------------------------------------------------------- */

static void line_of(const char *command, const char *after, int len, const char *choices) {
    printf("words\t%s\t%s\t", command, after);
    for (int i = 0; i < len; i++)
        putchar(choices[i] == '|' ? ' ' : choices[i]);
    putchar('\n');
}

/* What may follow a command, in its usage: "a|b|c d|e", where d or e follow c; "| skew report FILE...". */
static void print_words(const command *command) {
    char after[32] = "-", other[32];
    const char *at = command->usage;
    int len = 0;

    (void)snprintf(other, sizeof other, "| %s ", command->name);
    const char *second = strstr(at, other);
    if (second)
        at = second + strlen(other);
    for (; *at; at += len, at += strspn(at, " ")) {
        len = (int)strcspn(at, " ");
        if (!second && !memchr(at, '|', (size_t)len))
            continue;
        if (*at == '[')
            continue;
        line_of(command->name, after, len, at);
        const char *last = at + len;
        while (last > at && last[-1] != '|')
            last--;
        (void)snprintf(after, sizeof after, "%.*s", (int)(at + len - last), last);
    }
}

/* All that can be typed, a line each: what completions are made from. */
static int print_options(void) {
    const help_topic *topic = FROM_LEGACY(legacy_dialects);

    opt_values_fn more = topic ? topic->values : NULL;

    opt_lines("-", global_options, more, stdout);
    for (size_t i = 0; i < ROWS; i++) {
        if (!rows[i])
            continue;
        printf("command\t%s\t%s\t%s\n", rows[i]->name, rows[i]->runs ? "runs" : "-", rows[i]->help);
        print_words(rows[i]);
        opt_lines(rows[i]->name, rows[i]->options, more, stdout);
        if (rows[i]->legacy)
            opt_lines(rows[i]->name, rows[i]->legacy->options, more, stdout);
    }
    if (topic)
        printf("topic\t%s\t-\t%s\n", topic->name, topic->about);
    return 0;
}

static const help_topic options_topic = {
    .name = "options", .about = "all that can be typed, for programs", .print = print_options};

static const help_topic *find_topic(const char *name) {
    const help_topic *topic = FROM_LEGACY(legacy_dialects);

    if (topic && strcmp(name, topic->name) == 0)
        return topic;
    return strcmp(name, options_topic.name) == 0 ? &options_topic : NULL;
}

static int help(const server *where, const void *options, const operands *args) {
    (void)where;
    (void)options;
    if (args->count == 0) {
        overview(stdout);
        return flushed();
    }
    const help_topic *topic = find_topic(args->word[0]);
    const command *command = find_command(args->word[0]);
    if (!command && topic) {
        int status = topic->print();
        return status ? status : flushed();
    }
    if (!command)
        return fail(STATUS_USAGE, "help: no such command; see: tidelock help");
    command_help(command);
    return flushed();
}

/* The first word of the usage that was not given; what is in brackets need not be. */
static const char *missing(const command *command, const operands *args, int *ret_len) {
    const char *at = command->usage;
    int left = args->count;

    for (;; at += *ret_len, at += strspn(at, " ")) {
        *ret_len = (int)strcspn(at, " ");
        bool counts = *at != '[' && !(command->runs && strncmp(at, "--", (size_t)*ret_len) == 0);
        if (*ret_len == 0 || (counts && left-- == 0))
            return at;
    }
}

static int check_args(const command *command, const operands *args) {
    int len = 0;

    if (args->count < command->args_min ||
        (command->runs && (!args->command || !args->command[0]))) {
        const char *word = missing(command, args, &len);
        return fail(STATUS_USAGE, "%s: %.*s is missing: tidelock %s %s", command->name, len, word,
                    command->name, command->usage);
    }
    if (args->count > command->args_max)
        return fail(STATUS_USAGE, "%s: too many arguments: tidelock %s %s", command->name,
                    command->name, command->usage);
    return 0;
}

static int call(const command *command, const global_args *globals, const void *options,
                const void *legacy, const operands *args) {
    server where = {.url = NULL};
    int status = command->local ? 0 : server_find(globals, &where);

    if (status)
        return status;
    where.legacy = legacy;
    status = check_args(command, args);
    if (status == 0)
        status = command->function(&where, options, args);
    server_forget(&where);
    return status;
}

/* Room for what options fill, with their defaults in it. */
static void *make_room(const void *defaults, size_t size) {
    void *values = calloc(1, size ? size : 1);

    if (values && defaults)
        memcpy(values, defaults, size);
    return values;
}

static int run_with(const command *command, global_args *globals, int argc, char **argv,
                    void *options, void *legacy) {
    operands args;
    opt_tables tables = {.who = command->name, .runs = command->runs};
    int n = 0;

    tables.filled[n++] = (opt_filled){command->options, options};
    if (command->legacy)
        tables.filled[n++] = (opt_filled){command->legacy->options, legacy};
    tables.filled[n] = (opt_filled){global_options, globals};
    int status = opt_parse(&tables, argc, argv, &args);
    if (status)
        return status;
    if (globals->version)
        return version();
    if (!globals->help)
        return call(command, globals, options, legacy, &args);
    command_help(command);
    return flushed();
}

static int run_command(const command *command, global_args *globals, int argc, char **argv) {
    void *options = make_room(command->defaults, command->size);
    void *legacy = command->legacy ? make_room(command->legacy->defaults, command->legacy->size)
                                   : NULL;
    int status = options && (legacy || !command->legacy)
                     ? run_with(command, globals, argc, argv, options, legacy)
                     : fail(STATUS_INTERNAL, "out of memory");

    free(options);
    free(legacy);
    return status;
}

/*
 * A descriptor 0, 1 or 2 that is closed would be given to a socket, and messages would be written
 * into it. What fills the gap can be neither read nor written, so that a token that can't be printed
 * is noticed. It needs no file system but a root. It is closed on exec, so that a command finds what
 * we found.
 */
static int fill_gaps(void) {
    int fd;

    do
        fd = open("/", O_PATH | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        return STATUS_INTERNAL; /* there may be nowhere to say it */
    close(fd);
    return 0;
}

static int tool(int argc, char **argv) {
    global_args globals = {.url = NULL};
    operands rest;
    opt_tables tables = {.filled = {{global_options, &globals}}, .stop_at_word = true};

    int status = opt_parse(&tables, argc > 0 ? argc - 1 : 0, argv + 1, &rest);
    if (status)
        return status;
    if (globals.version)
        return version();
    if (rest.count == 0 && globals.help) {
        overview(stdout);
        return flushed();
    }
    if (rest.count == 0)
        return fail(STATUS_USAGE, "no command was given; see: tidelock help");
    const command *command = find_command(rest.word[0]);
    if (!command)
        return fail(STATUS_USAGE, "unknown command%s%.40s; see: tidelock help",
                    strchr(rest.word[0], ':') ? "" : " ",
                    strchr(rest.word[0], ':') ? "" : rest.word[0]);
    return run_command(command, &globals, rest.count - 1, rest.word + 1);
}

#define LAST_WORDS_MS 1000 /* for what is still to be written, should nobody read stderr */

int main(int argc, char **argv) {
    int status = fill_gaps();

    if (status == 0)
        status = tool(argc, argv);
    say_drain(LAST_WORDS_MS);
    return signals_die(status);
}
