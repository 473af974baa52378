/*
 * The tidelock tool: finds the command in the table, parses its options, and calls it. Everything about one command
 * is in that command's own file and row.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/suggest.h"
#include "base/tool.h"

static int help(const server *where, const void *options, const operands *args);

static const opt no_options[] = {{0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0}};

static const command help_row = {
    .name = "help",
    .usage = "[COMMAND|TOPIC]",
    .help = "describe a command or a topic",
    .notes = "\"tidelock help COMMAND --help-all\" prints all options of the command.\n",
    .options = no_options,
    .local = true,
    .args_max = 1,
    .function = help,
};

/* NULL: a command that this build lacks, since it has no compat. */
static const command *const rows[] = {
    &run_row,     &alive_row,
    &lock_row,    &unlock_row,
    &extend_row,  &check_row,
    &inspect_row, &break_row,
    &local_row,   &skew_row,
    &agent_row,   &doctor_row,
    &bench_row,   FROM_LEGACY(migrate_row),
    &help_row,
};
#define ROWS (sizeof rows / sizeof rows[0])

static const command *find_command(const char *name) {
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i] && strcmp(rows[i]->name, name) == 0)
            return rows[i];
    return NULL;
}

/* Names of these commands in other tools, and other words for them. */
static const synonym synonyms[] = {
    {"ls", "inspect"},      {"list", "inspect"},      {"ps", "inspect"},     {"show", "inspect"},
    {"scan", "inspect"},    {"status", "check"},      {"state", "check"},    {"info", "check"},
    {"get", "check"},       {"who", "check"},         {"release", "unlock"}, {"free", "unlock"},
    {"acquire", "lock"},    {"trylock", "lock"},      {"renew", "extend"},   {"refresh", "extend"},
    {"touch", "extend"},    {"exec", "run"},          {"with", "run"},       {"start", "run"},
    {"remove", "break"},    {"delete", "break"},      {"rm", "break"},       {"del", "break"},
    {"kill", "break"},      {"steal", "break"},       {"demo", "local"},     {"clocks", "skew"},
    {"clock", "skew"},      {"daemon", "agent"},      {"health", "doctor"},  {"diagnose", "doctor"},
    {"benchmark", "bench"}, {"version", "--version"}, {NULL, NULL},
};

/* The command, or "--version", that was probably meant; NULL: none is near. */
static const char *meant(const char *typed) {
    const char *other = suggest_synonym(synonyms, typed);
    suggestion nearest = suggest_begin(typed);

    for (size_t i = 0; i < ROWS; i++)
        if (rows[i])
            suggest_offer(&nearest, rows[i]->name);
    return other ? other : nearest.best;
}

/* A word with a colon may be a URL with a password, whose option is missing: it is not repeated. */
static int unknown_command(const char *what, const char *word) {
    bool secret = strchr(word, ':') != NULL;
    const char *other = secret ? NULL : meant(word);

    if (other)
        return fail(STATUS_USAGE, "%s %.40s; did you mean %s?", what, word, other);
    return fail(STATUS_USAGE, "%s%s%.40s; see: tidelock help", what, secret ? "" : " ",
                secret ? "" : word);
}

/* Fails unless all output was written. */
static int flushed(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_OK;
    return fail(STATUS_INTERNAL, "standard output: %s", strerror(errno));
}

static int version(void) {
    printf("tidelock %s\n", tl_version());
    return flushed();
}

/* ---- help --------------------------------------------------------------------------------------- */

/* Of every command. A command's own table may say more of one. */
static const status_row common_statuses[] = {
    {STATUS_OK, NULL, "done"},
    {STATUS_USAGE, "wrong usage",
     "wrong usage: an unknown command or option, a duration without a unit, an empty key. Or a "
     "lifetime out of range, a malformed *--url*"},
    {STATUS_UNAVAILABLE, "server unreachable",
     "the server was not reached within the wait, or was unavailable when the wait ended. Without "
     "a wait: not within 5 s of connecting; at once when the connection is refused, or there is "
     "no such socket or host. *local:* has no *redis-server* to start, or it ended at once"},
    {STATUS_INTERNAL, "internal error",
     "internal error: no memory, an impossible reply, an output that can't be written. Or the "
     "server is of another kind than the *--url* says: no node of a cluster, no Sentinel, a "
     "Sentinel. Or it is a single node of a cluster that hasn't the key"},
    {STATUS_REFUSED, "refused",
     "the server refused: the password, or a permission. Or it lacks a required command, by its "
     "age or because the command was renamed. The message names the command, the version that has "
     "it, and the protocol that works without"},
    {STATUS_CONFIG, "bad configuration",
     "a bad value in the environment or in a file: *TIDELOCK_URL* (also when it is empty), the "
     "password file"},
    {0, NULL, NULL},
};

static bool is_row(const status_row *row) {
    return row && (row->help || row->page);
}

static const status_row *find_status(const status_row *table, int status) {
    for (; is_row(table); table++)
        if (table->status == status)
            return table;
    return NULL;
}

static void add(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

static void add_status(char *text, size_t size, const status_row *row, const char *between) {
    if (row->status == STATUS_OF_COMMAND)
        add(text, size, "%s%s", between, row->help);
    else if (row->status == STATUS_SIGNAL)
        add(text, size, "%s128 + n %s", between, row->help);
    else
        add(text, size, "%s%d %s", between, row->status, row->help);
}

/* Its own in words, and those of every command by their numbers. */
static void print_statuses(const command *command) {
    char text[1024] = "Exit status: ";
    const char *between = "";

    for (const status_row *row = command->statuses; is_row(row); row++)
        if (row->help) {
            add_status(text, sizeof text, row, between);
            between = ", ";
        }
    between = "; ";
    for (const status_row *row = common_statuses; is_row(row); row++) {
        const status_row *own = find_status(command->statuses, row->status);
        if (row->help && !(own && own->help)) {
            add(text, sizeof text, "%s%d", between, row->status);
            between = ", ";
        }
    }
    if (*between != ';')
        add(text, sizeof text, ": see \"tidelock help\"");
    add(text, sizeof text, ".");
    opt_print(stdout, 0, text);
}

static const char urls[] =
    "Kinds of URL (rediss and etcds instead of redis and etcd: with TLS):\n"
    "  redis://HOST[:PORT]               one server; unix:///PATH by a socket\n"
    "  redis+sentinel://HOST,HOST/NAME   the master NAME of these Sentinels\n"
    "  redis+cluster://HOST,HOST         the Redis Cluster of these nodes\n"
    "  redis+quorum://HOST,HOST,HOST     a majority of independent servers\n"
    "  etcd://HOST,HOST                  the etcd of these members\n"
    "  local:                            a private server of this user and host\n";

static void overview(opt_extent extent, FILE *out) {
    const help_topic *topic = FROM_LEGACY(legacy_dialects);

    (void)fputs("usage: tidelock [--url URL] COMMAND ...\n\n"
                "Locks that many hosts share, kept in Redis or etcd.\n\n",
                out);
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i])
            opt_print(out, fprintf(out, "  %-10s ", rows[i]->name), rows[i]->help);
    if (extent == OPT_ALL) {
        (void)fputs("\nFor every command:\n", out);
        opt_help(global_options, extent, out);
        (void)fprintf(out, "\n%s\nDurations need a unit: 500ms 30s 5m 2h 1d.\n", urls);
        if (topic)
            (void)fprintf(out, "\"tidelock help %s\": %s.\n", topic->name, topic->about);
    }
    char text[256] = "Exit status of every command, besides its own: ";
    const char *between = "";
    for (const status_row *row = common_statuses; is_row(row); row++)
        if (row->help) {
            add_status(text, sizeof text, row, between);
            between = ", ";
        }
    add(text, sizeof text, ".");
    (void)fputc('\n', out);
    opt_print(out, 0, text);
    if (extent == OPT_ALL)
        (void)fputs("Options of a command: tidelock help COMMAND, tidelock COMMAND --help-all\n",
                    out);
    else
        (void)fprintf(out,
                      "More: tidelock help COMMAND%s%s\n"
                      "Options of every command: tidelock --help-all\n",
                      topic ? ", tidelock help " : "", topic ? topic->name : "");
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

/* The options, with those of legacy clients and of every command; of these the common ones without headings. */
static void print_tables(const command *command, opt_extent extent) {
    bool all = extent == OPT_ALL;

    if (command->options[0].name || (!all && !command->local))
        printf("\n");
    opt_help(command->options, extent, stdout);
    if (command->legacy) {
        if (all)
            printf("\n");
        opt_help(command->legacy->options, extent, stdout);
    }
    if (command->local)
        return;
    if (all)
        printf("\nFor every command:\n");
    opt_help(global_options, extent, stdout);
    if (all)
        printf("\n%s", urls);
}

static void command_help(const command *command, opt_extent extent) {
    opt_print(stdout, printf("usage: tidelock %s ", command->name), command->usage);
    printf("\n%s\n", command->help);
    print_tables(command, extent);
    printf("\n");
    if (command->notes)
        print_notes(command->notes);
    if (command->statuses)
        print_statuses(command);
    if (extent == OPT_COMMON && !command->local)
        printf("All options: tidelock %s --help-all\n", command->name);
}

/* ---- for the completion of shells ------------------------------------------------------------- */

static void line_of(const char *command, const char *after, int len, const char *choices) {
    printf("words\t%s\t%s\t", command, after);
    for (int i = 0; i < len; i++)
        putchar(choices[i] == '|' ? ' ' : choices[i]);
    putchar('\n');
}

/* The words that may follow a command, from its usage: "a|b|c d|e", where d or e follow c; "| skew report FILE...". */
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

/* All commands, words and options, a line each: completions are made from them. */
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
    .name = "options", .about = "all commands and options, for programs", .print = print_options};

/* ---- for the man pages ------------------------------------------------------------------------ */

static void status_lines(const char *command, const status_row *row) {
    for (; is_row(row); row++)
        if (row->status != STATUS_OF_COMMAND)
            printf("status\t%s\t%d\t%s\t%s\n", command, row->status, row->help ? row->help : "-",
                   row->page ? row->page : row->help);
}

/* The tables of options, exit statuses and members of JSON, a line for each row: tools/man/tables.awk puts
 * them into the pages. */
static int print_tables_for_pages(void) {
    opt_heads("-", "own", global_options, stdout);
    status_lines("-", common_statuses);
    for (size_t i = 0; i < ROWS; i++) {
        if (!rows[i])
            continue;
        opt_heads(rows[i]->name, "own", rows[i]->options, stdout);
        if (rows[i]->legacy)
            opt_heads(rows[i]->name, "legacy", rows[i]->legacy->options, stdout);
        status_lines(rows[i]->name, rows[i]->statuses);
        for (const members_row *row = rows[i]->members; row && row->name; row++)
            for (const member *one = row->members; one->name; one++)
                printf("member\t%s\t%s\t%s\n", row->name, one->name, one->meaning);
    }
    return 0;
}

static const help_topic tables_topic = {
    .name = "tables", .about = "what man pages are made from", .print = print_tables_for_pages};

static const help_topic *find_topic(const char *name) {
    const help_topic *topic = FROM_LEGACY(legacy_dialects);

    if (topic && strcmp(name, topic->name) == 0)
        return topic;
    if (strcmp(name, tables_topic.name) == 0)
        return &tables_topic;
    return strcmp(name, options_topic.name) == 0 ? &options_topic : NULL;
}

static int help_on(opt_extent extent, const operands *args) {
    if (args->count == 0) {
        overview(extent, stdout);
        return flushed();
    }
    const char *name = args->word[0];
    const help_topic *topic = find_topic(name);
    const command *command = find_command(name);
    if (!command && topic) {
        int status = topic->print();
        return status ? status : flushed();
    }
    if (!command)
        return unknown_command("help: no such command or topic", name);
    command_help(command, extent);
    return flushed();
}

static int help(const server *where, const void *options, const operands *args) {
    (void)where;
    (void)options;
    return help_on(OPT_COMMON, args);
}

/* The first word of the usage that was not given; words in brackets may be left out. */
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
    if (!globals->help && !globals->help_all)
        return call(command, globals, options, legacy, &args);
    opt_extent extent = globals->help_all ? OPT_ALL : OPT_COMMON;
    if (command == &help_row) /* "help COMMAND --help-all" */
        return help_on(extent, &args);
    command_help(command, extent);
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
 * If descriptor 0, 1 or 2 is closed, the next socket would get its number, and messages would be written to the server.
 * So the gap is filled by a descriptor that can be neither read nor written: a token that can't be printed is then
 * noticed as an error. It needs no file system but a root directory. It is closed on exec, so that a command of run
 * finds its descriptors as tidelock was started with.
 */
static int fill_gaps(void) {
    int fd;

    do
        fd = open("/", O_PATH | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        return STATUS_INTERNAL; /* without a message: there may be no stderr */
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
    if (rest.count == 0 && (globals.help || globals.help_all)) {
        overview(globals.help_all ? OPT_ALL : OPT_COMMON, stdout);
        return flushed();
    }
    if (rest.count == 0)
        return fail(STATUS_USAGE, "no command was given; see: tidelock help");
    const command *command = find_command(rest.word[0]);
    if (!command)
        return unknown_command("unknown command", rest.word[0]);
    return run_command(command, &globals, rest.count - 1, rest.word + 1);
}

#define LAST_WORDS_MS 1000 /* at most so long for messages that stderr has not taken yet */

int main(int argc, char **argv) {
    int status = fill_gaps();

    if (status == 0)
        status = tool(argc, argv);
    say_drain(LAST_WORDS_MS);
    return signals_die(status);
}
