/*
 * Which server, and how to log in. What was typed beats the environment. Secrets live in our heap
 * from here to tl_client_open, and are wiped at once wherever else they stood: ps, /proc, and the
 * environment of a command that we start must not show them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tool.h"
#include "base/trace.h"

#define PASSWORD_MAX 4096
#define QUIET_MAX_MS 3600000 /* as the library has it */

const opt global_options[] = {
    {0, "url", OPT_TEXT, offsetof(global_args, url), "URL",
     "redis://HOST, rediss://HOST, redis+sentinel://HOST,HOST/NAME, redis+cluster://HOST,HOST, "
     "redis+quorum://HOST,HOST,HOST, etcd://HOST,HOST, unix:///PATH, local: (TIDELOCK_URL)",
     0, 0},
    {0, "password-file", OPT_TEXT, offsetof(global_args, password_file), "FILE",
     "the server's password is the first line of FILE", 0, 0},
    {0, "tls-ca", OPT_TEXT, offsetof(global_args, tls.ca), "FILE",
     "rediss, etcds: the authorities to trust (TIDELOCK_TLS_CA)", 0, 0},
    {0, "tls-cert", OPT_TEXT, offsetof(global_args, tls.cert), "FILE",
     "rediss, etcds: our certificate (TIDELOCK_TLS_CERT)", 0, 0},
    {0, "tls-key", OPT_TEXT, offsetof(global_args, tls.key), "FILE",
     "rediss, etcds: its key (TIDELOCK_TLS_KEY)", 0, 0},
    {0, "tls-name", OPT_TEXT, offsetof(global_args, tls.name), "NAME",
     "rediss, etcds: the name in its certificate (TIDELOCK_TLS_NAME)", 0, 0},
    {'h', "help", OPT_FLAG, offsetof(global_args, help), NULL, "this text", 0, 0},
    {0, "version", OPT_FLAG, offsetof(global_args, version), NULL, "the version", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

/* "user:password" of a URL: up to the last '@', so that a password with a stray '@' is inside. */
static char *userinfo(char *url, size_t *ret_len) {
    char *scheme = strstr(url, "://");
    char *begin = scheme ? scheme + 3 : url;
    char *at = strrchr(begin, '@');

    *ret_len = at ? (size_t)(at - begin) : 0;
    return begin;
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

/* Leave TIDELOCK_URL to the command, so that it may use tidelock too, but without the password. */
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

static int take_url(const global_args *args, server *s) {
    char *original = NULL;
    int status = from_env("TIDELOCK_URL", &s->url, &original);

    if (status)
        return status;
    s->from_env = s->url != NULL;
    if (s->from_env && !args->url && !*s->url)
        return fail(STATUS_CONFIG, "TIDELOCK_URL is empty: give it the server's URL, or unset it");
    if (s->from_env && has_password(s->url)) {
        if (url_without_password(s->url))
            return fail(STATUS_INTERNAL, "out of memory");
        scrub(original);
    }
    if (args->url && !*args->url) /* a variable that isn't set, rather than a wish for local: */
        return fail(STATUS_USAGE,
                    "--url is empty: give the server's URL, or local: for this host only");
    if (args->url) {
        free(s->url);
        s->from_env = false;
        s->url = strdup(args->url);
        if (!s->url)
            return fail(STATUS_INTERNAL, "out of memory");
        scrub((char *)args->url); /* argv is ours to write to */
    }
    return 0;
}

/* Up to size bytes of the file; the number read, or -1 and errno. */
static ssize_t read_file(const char *path, char *buf, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = 0;

    if (fd < 0)
        return -1;
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

static int password_from_file(const char *path, char **ret) {
    char buf[PASSWORD_MAX];
    int status = 0;
    ssize_t n = read_file(path, buf, sizeof buf);

    if (n < 0)
        return fail(STATUS_CONFIG, "--password-file %.200s: %s", path, strerror(errno));
    const char *end = memchr(buf, '\n', (size_t)n);
    size_t len = end ? (size_t)(end - buf) : (size_t)n;
    if (len > 0 && buf[len - 1] == '\r')
        len--;
    if (len == 0)
        status = fail(STATUS_CONFIG, "--password-file %.200s: its first line is empty", path);
    else if (!end && n == PASSWORD_MAX)
        status = fail(STATUS_CONFIG, "--password-file %.200s: its first line is too long", path);
    else if (memchr(buf, '\0', len))
        status = fail(STATUS_CONFIG, "--password-file %.200s: a zero byte is in it", path);
    else if (!(*ret = strndup(buf, len)))
        status = fail(STATUS_INTERNAL, "out of memory");
    explicit_bzero(buf, sizeof buf);
    return status;
}

static int take_password(const global_args *args, server *s) {
    char *original = NULL;
    int status = from_env("TIDELOCK_PASSWORD", &s->password, &original);

    if (original) {
        explicit_bzero(original, strlen(original));
        (void)unsetenv("TIDELOCK_PASSWORD");
    }
    if (status)
        return status;
    if (args->password_file || (args->url && s->url && has_password(s->url))) {
        if (s->password)
            explicit_bzero(s->password, strlen(s->password));
        free(s->password);
        s->password = NULL;
    }
    return args->password_file ? password_from_file(args->password_file, &s->password) : 0;
}

/* ---- TLS ------------------------------------------------------------------------------------- */

/* What was typed, else the variable; *typed tells which. */
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
        return fail(status, "--tls-cert (TIDELOCK_TLS_CERT): it needs --tls-key too");
    if (tls->key && !tls->cert)
        return fail(status, "--tls-key (TIDELOCK_TLS_KEY): it needs --tls-cert too");
    status = check_file("--tls-ca", tls->ca);
    status = status ? status : check_file("--tls-cert", tls->cert);
    return status ? status : check_file("--tls-key", tls->key);
}

static bool begins(const char *url, const char *with) {
    return strncmp(url, with, strlen(with)) == 0;
}

/* ---- Sentinels ------------------------------------------------------------------------------- */

/* The variables are not for what the command runs. */
static int take_sentinel(server *s) {
    char *user = NULL, *password = NULL;
    int status = from_env("TIDELOCK_SENTINEL_USER", &s->sentinel_user, &user);
    int second = from_env("TIDELOCK_SENTINEL_PASSWORD", &s->sentinel_password, &password);

    (void)unsetenv("TIDELOCK_SENTINEL_USER");
    if (password)
        explicit_bzero(password, strlen(password));
    (void)unsetenv("TIDELOCK_SENTINEL_PASSWORD");
    return status ? status : second;
}

bool server_by_sentinels(const server *s) {
    return s->url && (begins(s->url, "redis+sentinel://") || begins(s->url, "rediss+sentinel://"));
}

bool server_by_cluster(const server *s) {
    return s->url && (begins(s->url, "redis+cluster://") || begins(s->url, "rediss+cluster://"));
}

bool server_by_etcd(const server *s) {
    return s->url && (begins(s->url, "etcd://") || begins(s->url, "etcds://"));
}

/* The variables are for all rediss: and etcds: URLs of this host; the options are for this URL. */
static int take_tls(const global_args *args, server *s) {
    const server_tls *a = &args->tls;
    const char *typed = a->ca     ? "--tls-ca"
                        : a->cert ? "--tls-cert"
                        : a->key  ? "--tls-key"
                        : a->name ? "--tls-name"
                                  : NULL;
    bool tls = s->url && (begins(s->url, "rediss") || begins(s->url, "etcds")) &&
               strstr(s->url, "://");

    if (typed && !tls)
        return fail(STATUS_USAGE, "%s: only with a URL that begins with rediss:// or etcds://",
                    typed);
    if (!tls)
        return 0;
    s->tls = (server_tls){.ca = pick(a->ca, "TIDELOCK_TLS_CA"),
                          .cert = pick(a->cert, "TIDELOCK_TLS_CERT"),
                          .key = pick(a->key, "TIDELOCK_TLS_KEY"),
                          .name = pick(a->name, "TIDELOCK_TLS_NAME")};
    return check_tls(&s->tls, a->cert || a->key ? STATUS_USAGE : STATUS_CONFIG);
}

tl_client_options server_login(const server *s) {
    bool sentinels = server_by_sentinels(s);

    return TL_CLIENT_OPTIONS(.password = s->password, .tls_ca_file = s->tls.ca,
                             .tls_cert_file = s->tls.cert, .tls_key_file = s->tls.key,
                             .tls_server_name = s->tls.name,
                             .sentinel_user = sentinels ? s->sentinel_user : NULL,
                             .sentinel_password = sentinels ? s->sentinel_password : NULL);
}

int server_find(const global_args *args, server *ret) {
    *ret = (server){.url = NULL};
    int status = take_url(args, ret);
    int second = take_password(args, ret);

    status = status ? status : second;
    second = take_sentinel(ret);
    status = status ? status : second;
    status = status ? status : take_tls(args, ret);
    if (status)
        server_forget(ret);
    return status;
}

/* What the library has to say of clocks and connections, which no result tells. The thread that renews
 * locks says it, and must not wait for a reader of stderr. */
static void warn(tl_log_level level, const char *line, void *ctx) {
    (void)ctx;
    if (level <= TL_LOG_WARNING)
        say_if_free("warning: %s", line);
    trace_tell(line);
}

void server_say_local(const server *s) {
    if (!s->url)
        say("no --url and no TIDELOCK_URL: this is the private server local:, whose locks hold on "
            "this host only; with --url local: this isn't said");
}

int server_need_url(const server *s, const char *who) {
    return s->url ? 0
                  : fail(STATUS_USAGE,
                         "%s: say which server the hosts share: --url URL, or TIDELOCK_URL", who);
}

/* What the command's options about legacy clients mean; NULL: it has none. */
static const legacy_locks_calls *legacy_of(const server *s) {
    return s->legacy ? FROM_LEGACY(legacy_locks) : NULL;
}

int64_t server_ttl_ms(const server *s, int64_t given_ms) {
    const legacy_locks_calls *legacy = legacy_of(s);

    if (given_ms != SERVER_NO_TTL)
        return given_ms;
    return legacy ? legacy->ttl_ms(s->legacy) : SERVER_TTL_MS;
}

int server_care_check(const char *who, const server_care *care, int64_t ttl_ms) {
    if (care->quiet_ms > QUIET_MAX_MS)
        return fail(STATUS_USAGE, "%s: --quiet: at most 1h", who);
    if (care->quiet_ms > 0 && care->quiet_ms < ttl_ms)
        return fail(STATUS_USAGE,
                    "%s: --quiet: it must last as long as any lock of before may be held: at "
                    "least --ttl, which is %lld ms",
                    who, (long long)ttl_ms);
    return 0;
}

static void take_care(const server_care *care, tl_client_options *options) {
    if (!care)
        return;
    options->quiet_ms = care->quiet_ms;
    options->wait_replicas = care->wait_replicas;
    options->wait_fsync = care->wait_fsync;
}

int server_protocol(const server *s) {
    const legacy_locks_calls *legacy = legacy_of(s);

    return legacy ? legacy->protocol(s->legacy) : TL_TOKEN;
}

int server_open(const server *s, const char *who, const char *service, tl_client **ret_client) {
    const legacy_locks_calls *legacy = legacy_of(s);
    tl_error err;
    tl_client_options options = server_login(s);
    options.url = s->url;
    options.service = service;
    options.log = warn;
    take_care(s->care, &options);
    int status = trace_begin(who, s->trace);
    options.trace = trace_wanted();
    if (!status && legacy)
        status = legacy->apply(who, s->legacy, &options);

    if (status)
        return status;
    tl_err code = tl_client_open(&options, ret_client, &err);
    if (code == TL_OK)
        server_say_local(s);
    if (code == TL_EINVALID && err.about == TL_ABOUT_LEGACY)
        return fail(STATUS_USAGE, "%s: %s", who, err.message);
    if (code == TL_EINVALID && err.about == TL_ABOUT_TLS)
        return fail(STATUS_CONFIG, "%s", err.message);
    if (code == TL_EINVALID && s->from_env)
        return fail(STATUS_CONFIG, "TIDELOCK_URL: %s", err.message);
    return code ? fail(status_of(code), "%s", err.message) : 0;
}

void server_forget(server *s) {
    if (s->url)
        explicit_bzero(s->url, strlen(s->url));
    if (s->password)
        explicit_bzero(s->password, strlen(s->password));
    if (s->sentinel_password)
        explicit_bzero(s->sentinel_password, strlen(s->sentinel_password));
    free(s->url);
    free(s->password);
    free(s->sentinel_user);
    free(s->sentinel_password);
    *s = (server){.url = NULL};
}
