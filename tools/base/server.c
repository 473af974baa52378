/*
 * The server's URL and the login. Options take precedence over the environment. From here to tl_client_open secrets exist
 * only on the heap. Wherever else they were, they are wiped at once: ps, /proc, and the
 * environment of a command that run starts must not show them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tool.h"
#include "base/trace.h"
#include "transport/conn.h"

#define FILE_MAX                                                                                   \
    (TL_PASSWORD_SIZE +                                                                            \
     1) /* so much of a password's file is read: a password and the end of its line */
#define QUIET_MAX_MS 3600000 /* the library's limit */

const opt global_options[] = {
    {0, "url", OPT_SECRET, offsetof(global_args, url), "URL",
     "the server, as redis://HOST (TIDELOCK_URL)", 0, 0},
    OPT_RARE_FOLLOW,
    {0, "password-file", OPT_TEXT, offsetof(global_args, password_file), "FILE",
     "the first line of FILE is the server's password; it is read again at each login", 0, 0},
    {0, "sentinel-password-file", OPT_TEXT, offsetof(global_args, sentinel_password_file), "FILE",
     "the first line of FILE is the Sentinels' password (TIDELOCK_SENTINEL_PASSWORD)", 0, 0},
    {0, "tls-ca", OPT_TEXT, offsetof(global_args, tls.ca), "FILE",
     "TLS: the authorities to trust (TIDELOCK_TLS_CA)", 0, 0},
    {0, "tls-cert", OPT_TEXT, offsetof(global_args, tls.cert), "FILE",
     "TLS: this client's certificate (TIDELOCK_TLS_CERT)", 0, 0},
    {0, "tls-key", OPT_TEXT, offsetof(global_args, tls.key), "FILE",
     "TLS: the key of that certificate (TIDELOCK_TLS_KEY)", 0, 0},
    {0, "tls-name", OPT_TEXT, offsetof(global_args, tls.name), "NAME",
     "TLS: the name in the server's certificate (TIDELOCK_TLS_NAME)", 0, 0},
    {'h', "help", OPT_FLAG, offsetof(global_args, help), NULL, "print the common options", 0, 0},
    {0, "help-all", OPT_FLAG, offsetof(global_args, help_all), NULL, "print all options", 0, 0},
    {0, "version", OPT_FLAG, offsetof(global_args, version), NULL, "print the version", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

/* "user:password" of a URL. */
static char *userinfo(char *url, size_t *ret_len) {
    tl_bytes login = tl__url_login(url);

    *ret_len = login.n;
    return login.n > 0 ? url + (login.p - url) : url;
}

static bool has_password(char *url) {
    size_t len;
    char *info = userinfo(url, &len);

    return memchr(info, ':', len) != NULL;
}

/* In place: "redis://user:secret@host" becomes "redis://...@host", and its tail is wiped. */
static void scrub(char *url) {
    size_t len;
    char *info = userinfo(url, &len);
    size_t total = strlen(info);
    size_t dots = len < 3 ? len : 3;

    memset(info, '.', dots);
    memmove(info + dots, info + len, total - len);
    explicit_bzero(info + dots + total - len, len - dots);
}

/* The command of run keeps TIDELOCK_URL, so that it may use tidelock too, but without the password. */
static int url_without_password(const char *url) {
    char *plain = strdup(url);
    size_t len;

    if (!plain)
        return -1;
    char *info = userinfo(plain, &len);
    char *colon = memchr(info, ':', len);
    if (colon) {
        char *rest = colon == info ? info + len + 1 : info + len;
        memmove(colon, rest, strlen(rest) + 1);
    }
    int failed = setenv("TIDELOCK_URL", plain, 1);
    explicit_bzero(plain, strlen(plain));
    free(plain);
    return failed;
}

/* A copy of an environment variable that is set; *ret stays NULL otherwise. */
static int from_env(const char *name, char **ret, char **ret_original) {
    char *value = getenv(name);

    *ret_original = value;
    if (!value)
        return 0;
    *ret = strdup(value);
    return *ret ? 0 : fail(STATUS_INTERNAL, "out of memory");
}

/* A host, with or without a port: then no part of it is a password. */
static bool is_host_alone(const char *url) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    const char *end = url + strspn(url, letters);

    if (*end == '\0')
        return strchr(url, '.') || strcmp(url, "localhost") == 0;
    return end > url && *end == ':' && end[1] && end[1 + strspn(end + 1, "0123456789")] == '\0';
}

static int check_scheme(const server *where) {
    const char *port = where->url ? strchr(where->url, ':') : NULL;

    if (!where->url || !is_host_alone(where->url))
        return 0;
    return fail(where->from_env ? STATUS_CONFIG : STATUS_USAGE,
                "%s %.200s: a URL begins with the kind of server; did you mean %s://%.200s%s?",
                where->from_env ? "TIDELOCK_URL" : "--url", where->url,
                port && strcmp(port, ":2379") == 0 ? "etcd" : "redis", where->url,
                port ? "" : ":6379");
}

static int take_url(const global_args *args, server *where) {
    char *original = NULL;
    int status = from_env("TIDELOCK_URL", &where->url, &original);

    if (status)
        return status;
    where->from_env = where->url != NULL;
    if (where->from_env && !args->url && !*where->url)
        return fail(STATUS_CONFIG, "TIDELOCK_URL is empty: give it the server's URL, or unset it");
    if (where->from_env && has_password(where->url)) {
        if (url_without_password(where->url))
            return fail(STATUS_INTERNAL, "out of memory");
        scrub(original);
    }
    if (args->url &&
        !*args->url) /* probably a shell variable that isn't set, not a wish for local: */
        return fail(STATUS_USAGE,
                    "--url is empty: give the server's URL, or local: for this host only");
    if (args->url) {
        free(where->url);
        where->from_env = false;
        where->url = strdup(args->url);
        if (!where->url)
            return fail(STATUS_INTERNAL, "out of memory");
        scrub((char *)args->url); /* the process may write to argv */
    }
    return check_scheme(where);
}

/* Up to size bytes of the file; the number read, or -1 and errno. *ret_lasts: the file can be read again, unlike a pipe. */
static ssize_t read_file(const char *path, char *buf, size_t size, bool again, bool *ret_lasts) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | (again ? O_NONBLOCK : 0));
    size_t len = 0;
    ssize_t n = 0;
    struct stat is;

    if (fd < 0)
        return -1;
    *ret_lasts = fstat(fd, &is) == 0 && S_ISREG(is.st_mode);
    if (again && !*ret_lasts) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    while (len < size) {
        n = read(fd, buf + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    int saved = errno;
    close(fd);
    errno = saved;
    return n < 0 ? -1 : (ssize_t)len;
}

/* ---- passwords that change ------------------------------------------------------------------- */

/* Shared by the copies of a server. */
struct server_secret {
    pthread_mutex_t mutex;
    char *path, *sentinel_path;       /* read again before each login; NULL: not read again */
    char *last, *sentinel_last;       /* the password that was read last */
    bool reported, sentinel_reported; /* that the file could not be read again */
};

static void wipe(char *text) {
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

/* A file's first line; NULL, and the reason. */
static char *first_line(char buf[FILE_MAX], ssize_t n, const char **ret_problem) {
    const char *end = memchr(buf, '\n', (size_t)n);
    size_t len = end ? (size_t)(end - buf) : (size_t)n;
    if (len > 0 && buf[len - 1] == '\r')
        len--;
    *ret_problem = len == 0                  ? "its first line is empty"
                   : len >= TL_PASSWORD_SIZE ? "its first line is longer than 16384 bytes"
                   : memchr(buf, '\0', len)  ? "a zero byte is in it"
                                             : NULL;
    return *ret_problem ? NULL : strndup(buf, len);
}

/* NULL, and the reason; the reason is NULL if memory ran out. `again`: don't read a pipe, which could block. */
static char *read_password(const char *path, bool again, bool *ret_lasts,
                           const char **ret_problem) {
    char *buf = malloc(FILE_MAX), *line = NULL;
    ssize_t n = buf ? read_file(path, buf, FILE_MAX, again, ret_lasts) : -1;

    *ret_problem = buf ? strerror(errno) : NULL;
    if (n >= 0)
        line = first_line(buf, n, ret_problem);
    if (n > 0)
        explicit_bzero(buf, (size_t)n);
    free(buf);
    return line;
}

/* The file may be replaced in several steps, and its mount may be missing for a while: until then the password that was
 * read last is used. */
static void read_again(const char *option, const char *path, char **last, bool *reported) {
    const char *problem;
    bool lasts;
    char *line = read_password(path, true, &lasts, &problem);

    if (line) {
        wipe(*last);
        *last = line;
    } else if (!*reported) {
        say_if_free("warning: %s %.200s: %s; the password that was read from it last is used",
                    option, path, problem ? problem : "out of memory");
    }
    *reported = !line;
}

/* The library's password_fn. */
static bool current_password(tl_password_for whose, char *ret, size_t size, void *ctx) {
    struct server_secret *secrets = ctx;
    bool sentinel = whose == TL_PASSWORD_SENTINEL;
    const char *path = sentinel ? secrets->sentinel_path : secrets->path;

    if (!path)
        return false;
    pthread_mutex_lock(&secrets->mutex);
    if (sentinel)
        read_again("--sentinel-password-file", path, &secrets->sentinel_last,
                   &secrets->sentinel_reported);
    else
        read_again("--password-file", path, &secrets->last, &secrets->reported);
    (void)snprintf(ret, size, "%s", sentinel ? secrets->sentinel_last : secrets->last);
    pthread_mutex_unlock(&secrets->mutex);
    return true;
}

static struct server_secret *secret_of(server *where) {
    if (!where->secret && (where->secret = calloc(1, sizeof *where->secret)))
        (void)pthread_mutex_init(&where->secret->mutex, NULL);
    return where->secret;
}

static void forget_secret(struct server_secret *secrets) {
    if (!secrets)
        return;
    (void)pthread_mutex_destroy(&secrets->mutex);
    wipe(secrets->last);
    wipe(secrets->sentinel_last);
    free(secrets->path);
    free(secrets->sentinel_path);
    free(secrets);
}

static int password_from_file(const char *option, const char *path, char **ret, char **ret_path,
                              char **ret_last) {
    const char *problem;
    bool lasts = false;
    char *line = read_password(path, false, &lasts, &problem);

    if (!line)
        return problem ? fail(STATUS_CONFIG, "%s %.200s: %s", option, path, problem)
                       : fail(STATUS_INTERNAL, "out of memory");
    *ret = line;
    if (!lasts)
        return 0;
    *ret_path = strdup(path);
    *ret_last = strdup(line);
    return *ret_path && *ret_last ? 0 : fail(STATUS_INTERNAL, "out of memory");
}

static int take_password(const global_args *args, server *where) {
    char *original = NULL;
    int status = from_env("TIDELOCK_PASSWORD", &where->password, &original);

    if (original) {
        explicit_bzero(original, strlen(original));
        (void)unsetenv("TIDELOCK_PASSWORD");
    }
    if (status)
        return status;
    if (args->password_file || (args->url && where->url && has_password(where->url))) {
        wipe(where->password);
        where->password = NULL;
    }
    if (!args->password_file)
        return 0;
    struct server_secret *secret = secret_of(where);
    return secret ? password_from_file("--password-file", args->password_file, &where->password,
                                       &secret->path, &secret->last)
                  : fail(STATUS_INTERNAL, "out of memory");
}

/* ---- TLS ------------------------------------------------------------------------------------- */

/* The option's value, else the variable's. */
static const char *pick(const char *typed, const char *variable) {
    const char *value = typed ? typed : getenv(variable);

    return value && (typed || *value) ? value : NULL;
}

static int check_file(const char *option, const char *path) {
    if (path && access(path, R_OK) != 0)
        return fail(STATUS_CONFIG, "%s %.200s: %s", option, path, strerror(errno));
    return 0;
}

static int check_tls(const server_tls *tls, int status) {
    if (tls->cert && !tls->key)
        return fail(status, "--tls-cert (TIDELOCK_TLS_CERT): it requires --tls-key");
    if (tls->key && !tls->cert)
        return fail(status, "--tls-key (TIDELOCK_TLS_KEY): it requires --tls-cert");
    status = check_file("--tls-ca", tls->ca);
    status = status ? status : check_file("--tls-cert", tls->cert);
    return status ? status : check_file("--tls-key", tls->key);
}

/* ---- Sentinels ------------------------------------------------------------------------------- */

/* The variables are removed, so that a command of run does not inherit them. */
static int take_sentinel(const global_args *args, server *where) {
    char *user = NULL, *password = NULL;
    int status = from_env("TIDELOCK_SENTINEL_USER", &where->sentinel_user, &user);
    int second = from_env("TIDELOCK_SENTINEL_PASSWORD", &where->sentinel_password, &password);

    (void)unsetenv("TIDELOCK_SENTINEL_USER");
    if (password)
        explicit_bzero(password, strlen(password));
    (void)unsetenv("TIDELOCK_SENTINEL_PASSWORD");
    status = status ? status : second;
    if (status || !args->sentinel_password_file)
        return status;
    wipe(where->sentinel_password);
    where->sentinel_password = NULL;
    if (!server_by_sentinels(where))
        return fail(STATUS_USAGE, "--sentinel-password-file: only with a URL that begins with "
                                  "redis+sentinel://");
    struct server_secret *secret = secret_of(where);
    return secret ? password_from_file("--sentinel-password-file", args->sentinel_password_file,
                                       &where->sentinel_password, &secret->sentinel_path,
                                       &secret->sentinel_last)
                  : fail(STATUS_INTERNAL, "out of memory");
}

static bool is_kind(const server *where, tl_url_kind kind) {
    bool tls;

    return where->url && tl__url_kind(where->url, &tls) == kind;
}

bool server_by_sentinels(const server *where) {
    return is_kind(where, TL_URL_SENTINELS);
}

bool server_by_cluster(const server *where) {
    return is_kind(where, TL_URL_CLUSTER);
}

bool server_by_quorum(const server *where) {
    return is_kind(where, TL_URL_QUORUM);
}

bool server_is_local(const server *where) {
    return is_kind(where, TL_URL_LOCAL);
}

bool server_by_etcd(const server *where) {
    return is_kind(where, TL_URL_ETCD);
}

/* The variables apply to every rediss: and etcds: URL on this host, so they are ignored with another URL. The options
 * apply to this URL, so with another kind of URL they are an error. */
static int take_tls(const global_args *args, server *where) {
    const server_tls *given = &args->tls;
    const char *typed = given->ca     ? "--tls-ca"
                        : given->cert ? "--tls-cert"
                        : given->key  ? "--tls-key"
                        : given->name ? "--tls-name"
                                      : NULL;
    bool tls = false;

    if (where->url)
        (void)tl__url_kind(where->url, &tls);

    if (typed && !tls)
        return fail(STATUS_USAGE, "%s: only with a URL that begins with rediss:// or etcds://",
                    typed);
    if (!tls)
        return 0;
    where->tls = (server_tls){.ca = pick(given->ca, "TIDELOCK_TLS_CA"),
                              .cert = pick(given->cert, "TIDELOCK_TLS_CERT"),
                              .key = pick(given->key, "TIDELOCK_TLS_KEY"),
                              .name = pick(given->name, "TIDELOCK_TLS_NAME")};
    return check_tls(&where->tls, given->cert || given->key ? STATUS_USAGE : STATUS_CONFIG);
}

tl_client_options server_login(const server *where) {
    bool sentinels = server_by_sentinels(where);

    return TL_CLIENT_OPTIONS(.password = where->password, .tls_ca_file = where->tls.ca,
                             .tls_cert_file = where->tls.cert, .tls_key_file = where->tls.key,
                             .tls_server_name = where->tls.name,
                             .sentinel_user = sentinels ? where->sentinel_user : NULL,
                             .sentinel_password = sentinels ? where->sentinel_password : NULL,
                             .password_fn = where->secret ? current_password : NULL,
                             .password_ctx = where->secret);
}

int server_find(const global_args *args, server *ret) {
    *ret = (server){.url = NULL};
    int status = take_url(args, ret);
    int second = take_password(args, ret);

    status = status ? status : second;
    second = take_sentinel(args, ret);
    status = status ? status : second;
    status = status ? status : take_tls(args, ret);
    if (status)
        server_forget(ret);
    return status;
}

/* Warnings of the library about clocks and connections, which no result reports. The renewal thread
 * calls this, and must not wait for a reader of stderr. */
static void warn(tl_log_level level, const char *line, void *ctx) {
    (void)ctx;
    if (level <= TL_LOG_WARNING)
        say_if_free("warning: %s", line);
    trace_tell(line);
}

void server_say_local(const server *where) {
    if (!where->url)
        say("no --url and no TIDELOCK_URL: the server is the private one of this user, local:, "
            "whose locks other hosts don't see; --url local: prevents this message");
}

int server_need_url(const server *where, const char *who) {
    return where->url
               ? 0
               : fail(STATUS_USAGE,
                      "%s: say which server the hosts share: --url URL, or TIDELOCK_URL", who);
}

/* The functions for the command's options about legacy clients; NULL: it has no such options. */
static const legacy_locks_hooks *legacy_of(const server *where) {
    return where->legacy ? FROM_LEGACY(legacy_locks) : NULL;
}

int64_t server_ttl_ms(const server *where, int64_t given_ms) {
    const legacy_locks_hooks *legacy = legacy_of(where);

    if (given_ms != SERVER_NO_TTL)
        return given_ms;
    return legacy ? legacy->ttl_ms(where->legacy) : SERVER_TTL_MS;
}

int server_care_check(const char *who, const server_care *care, int64_t ttl_ms) {
    if (care->quiet_ms > QUIET_MAX_MS)
        return fail(STATUS_USAGE, "%s: --quiet: at most 1h", who);
    if (care->quiet_ms > 0 && care->quiet_ms < ttl_ms)
        return fail(
            STATUS_USAGE,
            "%s: --quiet: it must be at least --ttl, which is %lld ms: so long may a lock be held "
            "that was acquired before a restart",
            who, (long long)ttl_ms);
    return 0;
}

static void take_care(const server_care *care, tl_client_options *options) {
    if (!care)
        return;
    options->quiet_ms = care->quiet_ms == SERVER_NO_QUIET ? 0
                        : care->quiet_ms == 0             ? TL_QUIET_OFF
                                                          : care->quiet_ms;
    options->wait_replicas = care->wait_replicas;
    options->wait_fsync = care->wait_fsync;
}

int server_protocol(const server *where) {
    const legacy_locks_hooks *legacy = legacy_of(where);

    return legacy ? legacy->protocol(where->legacy) : TL_TOKEN;
}

int server_open(const server *where, const char *who, const char *service, tl_client **ret_client) {
    const legacy_locks_hooks *legacy = legacy_of(where);
    tl_error err;
    tl_client_options options = server_login(where);
    options.url = where->url;
    options.service = service;
    options.log = warn;
    take_care(where->care, &options);
    int status = trace_begin(who, where->trace);
    options.trace = trace_wanted();
    if (!status && legacy)
        status = legacy->apply(who, where->legacy, &options);

    if (status)
        return status;
    tl_err code = tl_client_open(&options, ret_client, &err);
    if (code == TL_OK)
        server_say_local(where);
    if (code == TL_EINVALID && err.about == TL_ABOUT_LEGACY)
        return fail(STATUS_USAGE, "%s: %s", who, err.message);
    if (code == TL_EINVALID && err.about == TL_ABOUT_TLS)
        return fail(STATUS_CONFIG, "%s", err.message);
    if (code == TL_EINVALID && where->from_env)
        return fail(STATUS_CONFIG, "TIDELOCK_URL: %s", err.message);
    return code ? fail(status_of(code), "%s", err.message) : 0;
}

void server_forget(server *where) {
    wipe(where->url);
    wipe(where->password);
    wipe(where->sentinel_password);
    free(where->sentinel_user);
    forget_secret(where->secret);
    *where = (server){.url = NULL};
}
