/*
 * Parses URLs. It does no I/O. Its messages never repeat a part of the URL: what is malformed may be a piece
 * of a password.
 */
#include "transport/endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/bytes.h"
#include "ground/error.h"
#include "transport/gateway.h"
#include "transport/tls.h"

#define URL_MAX 65536 /* percent-encoding makes a password up to three times as long */
#define TL_QUORUM_SEEDS 7

/* The state of a parse; the function that finds a problem sets `problem`. */
typedef struct {
    tl_endpoint *to;
    tl_secret *secret; /* NULL: the URL must have no password */
    tl_seeds *seeds;   /* NULL: only a URL of one server is accepted */
    uint16_t port;     /* of a host without one */
    tl_bytes login;    /* the bytes that are user and password */
    const char *problem;
} parse;

static bool bad(parse *parser, const char *problem) {
    parser->problem = problem;
    return false;
}

/* Compares a scheme, in which case doesn't matter. */
static bool starts_as(tl_bytes text, const char *scheme) {
    size_t n = strlen(scheme);
    return text.n >= n && strncasecmp(text.p, scheme, n) == 0;
}

static tl_bytes after(tl_bytes text, size_t n) {
    return tl__bytes(text.p + n, text.n - n);
}

/* Split at the first byte that is one of `at`: *rest begins with it, or is empty. */
static tl_bytes cut(tl_bytes text, const char *at, tl_bytes *rest) {
    size_t n = 0;
    while (n < text.n && !strchr(at, text.p[n]))
        n++;
    *rest = after(text, n);
    return tl__bytes(text.p, n);
}

static int hex(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that %XX at the start of text stands for; -1 if it is malformed or NUL. */
static int percent(tl_bytes text) {
    int high = text.n >= 3 ? hex(text.p[1]) : -1, low = text.n >= 3 ? hex(text.p[2]) : -1;
    int byte = high < 0 || low < 0 ? 0 : high * 16 + low;
    return byte > 0 ? byte : -1;
}

/* Undo percent-encoding into a C string of `size`. */
static bool decode(parse *parser, char *to, size_t size, tl_bytes from, const char *too_long) {
    size_t n = 0;
    for (size_t i = 0; i < from.n; n++) {
        int byte = (unsigned char)from.p[i];
        if (byte == '%' && (byte = percent(after(from, i))) < 0)
            return bad(
                parser,
                "a '%' must be followed by two hexadecimal digits, not 00 (write '%' itself as %25)");
        if (n + 1 >= size)
            return bad(parser, too_long);
        to[n] = (char)byte;
        i += from.p[i] == '%' ? 3 : 1;
    }
    to[n] = '\0';
    return true;
}

/* Parse decimal digits and nothing else, at most `max`. */
static bool number(tl_bytes text, int64_t max, int64_t *ret) {
    return text.n > 0 && text.p[0] != '-' && tl__bytes_to_int(text, ret) && *ret <= max;
}

static bool parse_login(parse *parser, tl_bytes text) {
    tl_bytes rest;
    tl_bytes user = cut(text, ":", &rest);
    if (!decode(parser, parser->to->user, sizeof parser->to->user, user,
                "the user name is longer than 511 bytes"))
        return false;
    if (rest.n <= 1)
        return true;
    if (!parser->secret)
        return bad(parser, "the URL must have no password here");
    return decode(parser, parser->secret->text, sizeof parser->secret->text, after(rest, 1),
                  "the password is longer than 16384 bytes");
}

/* Remove user and password from the authority, if any: up to its last '@'. */
static bool take_login(parse *parser, tl_bytes *authority) {
    size_t at = authority->n;
    while (at > 0 && authority->p[at - 1] != '@')
        at--;
    if (at == 0)
        return true;
    parser->login = tl__bytes(authority->p, at - 1);
    *authority = after(*authority, at);
    return parse_login(parser, parser->login);
}

static bool parse_port(parse *parser, tl_bytes text) {
    int64_t port = parser->port;
    if (text.n > 0 && (!number(after(text, 1), 65535, &port) || port == 0))
        return bad(parser,
                   "the port must be a number from 1 to 65535 (in a password, write '/' as %2F, "
                   "'?' as %3F and '#' as %23)");
    parser->to->port = (uint16_t)port;
    return true;
}

/* The inside of [v6], with an optional zone. */
static bool parse_v6(parse *parser, tl_bytes inside) {
    tl_bytes zone;
    char address[INET6_ADDRSTRLEN];
    struct in6_addr binary;
    tl_bytes bare = cut(inside, "%", &zone);
    if (zone.n > 0 && (!tl__bytes_starts(zone, "%25") || zone.n == strlen("%25")))
        return bad(parser, "the zone of the IPv6 address is malformed: write [ADDRESS%25ZONE]");
    if (!decode(parser, parser->to->host, sizeof parser->to->host, inside, "the host is too long"))
        return false;
    if (!tl__bytes_is_visible(tl__bytes_of(parser->to->host)))
        return bad(parser, "the zone of the IPv6 address is malformed");
    if (bare.n >= sizeof address)
        return bad(parser, "the text in brackets must be an IPv6 address");
    memcpy(address, bare.p, bare.n);
    address[bare.n] = '\0';
    return inet_pton(AF_INET6, address, &binary) == 1 ||
           bad(parser, "the text in brackets must be an IPv6 address");
}

static bool parse_name(parse *parser, tl_bytes name) {
    if (name.n == 0)
        return bad(parser, "the host is missing");
    if (name.n >= TL_HOST_SIZE)
        return bad(parser, "the host is too long");
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              c == '-' || c == '.' || c == '_'))
            return bad(parser, "a host has only letters, digits, '-', '_' and '.'");
    }
    memcpy(parser->to->host, name.p, name.n);
    parser->to->host[name.n] = '\0';
    return true;
}

/* Is it an IPv6 address without brackets? It may have a port or a zone: no one can tell which of its colons
 * is the port's. */
static bool is_bare_v6(tl_bytes text) {
    unsigned colons = 0;
    size_t n = 0;
    while (n < text.n && (text.p[n] == ':' || text.p[n] == '.' || hex(text.p[n]) >= 0))
        colons += text.p[n++] == ':';
    return colons > 1 && (n == text.n || text.p[n] == '%');
}

static bool parse_host(parse *parser, tl_bytes text) {
    tl_bytes rest;
    if (is_bare_v6(text))
        return bad(parser, "an IPv6 address must be in brackets: write [::1] or [::1]:6379");
    if (text.n == 0 || text.p[0] != '[')
        return parse_name(parser, cut(text, ":", &rest)) && parse_port(parser, rest);
    tl_bytes inside = cut(after(text, 1), "]", &rest);
    if (rest.n == 0)
        return bad(parser, "the ']' of the IPv6 address is missing");
    rest = after(rest, 1);
    if (rest.n > 0 && rest.p[0] != ':')
        return bad(parser, "after ']' only ':' and a port may follow");
    return parse_v6(parser, inside) && parse_port(parser, rest);
}

static bool parse_db(parse *parser, tl_bytes text) {
    int64_t db = 0;
    if (!number(text, INT32_MAX, &db))
        return bad(parser, "the database must be a number from 0 to 2147483647");
    parser->to->db = (int32_t)db;
    return true;
}

/* "", or ?db=N. */
static bool parse_query(parse *parser, tl_bytes text) {
    if (text.n == 0)
        return true;
    if (text.p[0] != '?' || !tl__bytes_starts(after(text, 1), "db="))
        return bad(parser, "after the path only ?db=NUMBER may follow");
    return parse_db(parser, after(text, strlen("?db=")));
}

static void make_label(tl_endpoint *endpoint) {
    if (endpoint->dir[0])
        (void)snprintf(endpoint->label, sizeof endpoint->label, "local");
    else if (endpoint->path[0])
        tl__bytes_print(endpoint->label, sizeof endpoint->label, tl__bytes_of(endpoint->path));
    else
        (void)snprintf(endpoint->label, sizeof endpoint->label,
                       strchr(endpoint->host, ':') ? "[%s]:%u" : "%s:%u", endpoint->host,
                       (unsigned)endpoint->port);
}

/* "", /N, or ?db=N. */
static bool parse_path(parse *parser, tl_bytes text) {
    tl_bytes query, path = cut(text, "?#", &query);
    if (path.n > 1 && !parse_db(parser, after(path, 1)))
        return false;
    return parse_query(parser, query);
}

static bool parse_tcp(parse *parser, tl_bytes text) {
    tl_bytes rest, authority = cut(text, "/?#", &rest);
    return take_login(parser, &authority) && parse_host(parser, authority) &&
           parse_path(parser, rest);
}

/* After "unix:": //[login@]/path, or just /path. */
static bool parse_unix(parse *parser, tl_bytes text) {
    tl_bytes query;
    if (tl__bytes_starts(text, "//")) {
        tl_bytes authority = cut(after(text, 2), "/?#", &text);
        if (!take_login(parser, &authority))
            return false;
        if (authority.n > 0)
            return bad(parser, "a unix socket has no host: write unix:///path");
    }
    tl_bytes path = cut(text, "?#", &query);
    if (path.n == 0 || path.p[0] != '/')
        return bad(parser, "the socket's path must begin with '/': write unix:///path");
    return decode(parser, parser->to->path, sizeof parser->to->path, path,
                  "the socket's path is longer than 107 bytes") &&
           parse_query(parser, query);
}

/* After "local:": nothing, or /directory. A slash at its end is removed, since open() would follow a symbolic
 * link with one. */
static bool parse_local(parse *parser, tl_bytes text) {
    tl_endpoint *endpoint = parser->to;
    tl_bytes rest;
    tl_bytes dir = cut(text, "?#", &rest);
    if (tl__bytes_starts(dir, "//"))
        return bad(parser, "local: has no host: write local:/directory");
    if (rest.n > 0 || (dir.n > 0 && dir.p[0] != '/'))
        return bad(parser, "after local: only a directory may follow, as in local:/var/lib/locks");
    if (dir.n > 0 && !decode(parser, endpoint->dir, sizeof endpoint->dir, dir,
                             "the directory of local: is longer than 96 bytes"))
        return false;
    if (dir.n == 0)
        tl__local_default_dir(endpoint->dir);
    for (size_t n = strlen(endpoint->dir); n > 1 && endpoint->dir[n - 1] == '/'; n--)
        endpoint->dir[n - 1] = '\0';
    (void)snprintf(endpoint->path, sizeof endpoint->path, "%s/" TL_LOCAL_SOCKET, endpoint->dir);
    return true;
}

/* ---- several servers ---------------------------------------------------------------------------- */

static void clear_place(tl_endpoint *endpoint) {
    endpoint->host[0] = endpoint->path[0] = '\0';
    endpoint->port = 0;
}

/* Parse SERVER,SERVER,... */
static bool parse_list(parse *parser, tl_bytes text,
                       bool (*parse_one)(parse *parser, tl_bytes text), unsigned most,
                       const char *too_many) {
    tl_seeds *s = parser->seeds;
    for (tl_bytes rest = text, one;; rest = after(rest, 1)) {
        one = cut(rest, ",", &rest);
        if (s->count == most)
            return bad(parser, too_many);
        clear_place(parser->to);
        if (!parse_one(parser, one))
            return false;
        memcpy(s->seed[s->count].host, parser->to->host, sizeof parser->to->host);
        memcpy(s->seed[s->count].path, parser->to->path, sizeof parser->to->path);
        s->seed[s->count++].port = parser->to->port;
        if (rest.n == 0)
            break;
    }
    clear_place(parser->to);
    return true;
}

/* Parse [login@]host[:port],host[:port],...; *rest is what follows. */
static bool parse_hosts(parse *parser, tl_bytes text, tl_bytes *rest) {
    tl_bytes authority = cut(text, "/?#", rest);
    return take_login(parser, &authority) && parse_list(parser, authority, parse_host, TL_SEEDS_MAX,
                                                        "more than 16 servers are named");
}

static bool parse_master(parse *parser, tl_bytes text) {
    static const char missing[] =
        "the name of the master is missing: redis+sentinel://HOST,HOST,HOST/NAME";
    tl_bytes db = {0}, name = text.n > 0 ? cut(after(text, 1), "/", &db) : text;
    if (name.n == 0)
        return bad(parser, missing);
    if (!decode(parser, parser->seeds->master, TL_MASTER_SIZE, name,
                "the name of the master is longer than 63 bytes"))
        return false;
    if (!tl__bytes_is_visible(tl__bytes_of(parser->seeds->master)))
        return bad(parser, "the name of the master has spaces, control or non-ASCII characters");
    return db.n <= 1 || parse_db(parser, after(db, 1));
}

static bool parse_sentinel(parse *parser, tl_bytes text) {
    tl_bytes rest, query;
    if (!parse_hosts(parser, text, &rest))
        return false;
    tl_bytes path = cut(rest, "?#", &query);
    return parse_master(parser, path) && parse_query(parser, query);
}

static bool parse_cluster(parse *parser, tl_bytes text) {
    tl_bytes rest;
    return parse_hosts(parser, text, &rest) && parse_path(parser, rest);
}

static bool with_tls(parse *parser) {
    parser->to->tls = true;
    return tl__tls_built() ||
           bad(parser,
               "rediss: (TLS) is not in this build, which was made without OpenSSL; use redis:, or "
               "build again where libssl-dev is installed");
}

/* ---- independent servers ----------------------------------------------------------------------- */

/* Does a server have an '@' before the path of its socket? */
static bool has_login(tl_bytes servers) {
    for (tl_bytes rest = servers, one, path; rest.n > 0; rest = after(rest, rest.n > 0)) {
        one = cut(cut(rest, ",", &rest), "/", &path);
        if (memchr(one.p, '@', one.n))
            return true;
    }
    return false;
}

static const char one_login[] =
    "the user and password before the first server are for all servers of a quorum (in a "
    "password, write '@' as %40 and ',' as %2C)";

/* Take the one user and password for all servers. A further login is an error: it would be taken for a part
 * of the password. An '@' in the path of a first server's socket is no login. */
static bool take_one_login(parse *parser, tl_bytes *text) {
    tl_bytes rest, login = cut(*text, "@", &rest);
    if (rest.n == 0 || starts_as(*text, "unix:/"))
        return rest.n == 0 || !has_login(*text) || bad(parser, one_login);
    if (memchr(login.p, ',', login.n) || has_login(after(rest, 1)))
        return bad(parser, one_login);
    parser->login = login;
    *text = after(rest, 1);
    return parse_login(parser, login);
}

static bool is_named(const tl_seeds *s, const tl_endpoint *endpoint) {
    for (unsigned i = 0; i < s->count; i++)
        if (endpoint->path[0] ? strcmp(s->seed[i].path, endpoint->path) == 0
                              : s->seed[i].port == endpoint->port && !s->seed[i].path[0] &&
                                    strcasecmp(s->seed[i].host, endpoint->host) == 0)
            return true;
    return false;
}

/* host[:port], or unix:/path. */
static bool parse_member(parse *parser, tl_bytes text) {
    tl_bytes rest;
    bool unix_socket = starts_as(text, "unix:");
    tl_bytes one = cut(text, unix_socket ? "?#" : "/?#", &rest);
    if (rest.n > 0)
        return bad(parser, "after the servers of a quorum nothing may follow: each is used at its "
                           "database 0");
    if (unix_socket && parser->to->tls)
        return bad(parser, "there is no TLS over a unix socket: name the servers by their hosts");
    if (unix_socket ? !parse_unix(parser, after(one, strlen("unix:"))) : !parse_host(parser, one))
        return false;
    return !is_named(parser->seeds, parser->to) ||
           bad(parser, "it names a server twice: each vote must come from another server");
}

static bool parse_quorum(parse *parser, tl_bytes text) {
    if (!take_one_login(parser, &text) ||
        !parse_list(parser, text, parse_member, TL_QUORUM_SEEDS,
                    "more than 7 servers are named: a quorum has 3, 5 or 7"))
        return false;
    if (parser->seeds->count < 3)
        return bad(parser, "a quorum has 3, 5 or 7 servers: with fewer none may fail");
    return parser->seeds->count % 2 == 1 ||
           bad(parser, "a quorum has 3, 5 or 7 servers: with an even number no more "
                       "may fail than with one fewer");
}

/* host[:port],host[:port],...[/prefix] */
static bool parse_etcd(parse *parser, tl_bytes text) {
    tl_bytes rest;
    if (!tl__gateway_works())
        return bad(parser, "etcd: is not in this build, which was built without jansson; build "
                           "again where libjansson-dev is installed");
    if (!parse_hosts(parser, text, &rest))
        return false;
    if (parser->to->user[0] == '\0' && tl__endpoint_password(parser->to)[0] != '\0')
        return bad(parser, "etcd has no password without a user: write etcd://USER:PASSWORD@HOST");
    if (rest.n <= 1)
        return true;
    if (rest.p[0] != '/' || memchr(rest.p, '?', rest.n) || memchr(rest.p, '#', rest.n))
        return bad(parser, "after the hosts of etcd only /PREFIX may follow");
    char *prefix = parser->seeds->prefix;
    if (!decode(parser, prefix, TL_SEEDS_PREFIX - 1, after(rest, 1),
                "the prefix is longer than 254 bytes"))
        return false;
    size_t n = strlen(prefix);
    if (n > 0 && prefix[n - 1] != '/')
        memcpy(prefix + n, "/", 2);
    return true;
}

static const struct scheme {
    const char *name;
    bool (*parse)(parse *parser, tl_bytes text);
    tl_url_kind kind;
    uint16_t port; /* of a host without one */
    bool tls;
} schemes[] = {{"unix:", parse_unix, TL_URL_ONE, 0, false},
               {"local:", parse_local, TL_URL_LOCAL, 0, false},
               {"redis://", parse_tcp, TL_URL_ONE, 6379, false},
               {"rediss://", parse_tcp, TL_URL_ONE, 6379, true},
               {"redis+sentinel://", parse_sentinel, TL_URL_SENTINELS, 26379, false},
               {"rediss+sentinel://", parse_sentinel, TL_URL_SENTINELS, 26379, true},
               {"redis+cluster://", parse_cluster, TL_URL_CLUSTER, 6379, false},
               {"rediss+cluster://", parse_cluster, TL_URL_CLUSTER, 6379, true},
               {"redis+quorum://", parse_quorum, TL_URL_QUORUM, 6379, false},
               {"rediss+quorum://", parse_quorum, TL_URL_QUORUM, 6379, true},
               {"etcd://", parse_etcd, TL_URL_ETCD, 2379, false},
               {"etcds://", parse_etcd, TL_URL_ETCD, 2379, true}};

/* The message for a URL of this kind where one server is needed; NULL: the kind names one server. */
static const char *const not_one[] = {
    [TL_URL_SENTINELS] = "redis+sentinel: names no server, but one server is needed here: give it "
                         "the URL of one, as redis://HOST",
    [TL_URL_CLUSTER] = "redis+cluster: names several servers, but one server is needed here: "
                       "give it the URL of one, as redis://HOST",
    [TL_URL_QUORUM] = "redis+quorum: names several servers, but one server is needed here: give it "
                      "the URL of one, as redis://HOST",
    [TL_URL_ETCD] = "etcd: names members of an etcd cluster, but one Redis server is needed here",
};

static const struct scheme *scheme_of(tl_bytes url) {
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (starts_as(url, schemes[i].name))
            return &schemes[i];
    return NULL;
}

static bool parse_scheme(parse *parser, tl_bytes url) {
    const struct scheme *scheme = scheme_of(url);
    if (!scheme)
        return bad(parser, "it must begin with redis://, rediss://, redis+sentinel://, "
                           "redis+cluster://, redis+quorum://, etcd://, unix:// or local:");
    if (scheme->tls && !with_tls(parser))
        return false;
    if (!parser->seeds && not_one[scheme->kind])
        return bad(parser, not_one[scheme->kind]);
    if (parser->seeds)
        parser->seeds->kind = scheme->kind;
    parser->port = scheme->port;
    return scheme->parse(parser, after(url, strlen(scheme->name)));
}

static bool parse_url(parse *parser, const char *url) {
    tl_bytes text = tl__bytes_of(url ? url : "");
    if (text.n == 0)
        return bad(parser, "it is empty: give a server's, or local: for locks of this host only");
    if (text.n > URL_MAX)
        return bad(parser, "it is longer than 65536 bytes");
    if (!tl__bytes_is_visible(text))
        return bad(parser,
                   "it has spaces, control or non-ASCII characters, which must be written as "
                   "%XX");
    return parse_scheme(parser, text);
}

tl_err tl__endpoint_parse(tl_endpoint *ret, tl_secret *secret, const char *url, tl_error *err) {
    return tl__endpoint_parse_seeds(ret, secret, NULL, url, err);
}

tl_err tl__endpoint_parse_seeds(tl_endpoint *ret, tl_secret *secret, tl_seeds *ret_seeds,
                                const char *url, tl_error *err) {
    memset(ret, 0, sizeof *ret);
    tl__secret_wipe(secret);
    ret->secret = secret;
    if (ret_seeds)
        memset(ret_seeds, 0, sizeof *ret_seeds);
    parse p = {.to = ret, .secret = secret, .seeds = ret_seeds};
    bool ok = parse_url(&p, url);
    if (ok && ret_seeds && ret_seeds->count > 0) {
        (void)snprintf(ret->label, sizeof ret->label, "%s",
                       ret_seeds->kind == TL_URL_QUORUM    ? "the quorum"
                       : ret_seeds->kind == TL_URL_ETCD    ? "etcd"
                       : ret_seeds->kind == TL_URL_CLUSTER ? ret_seeds->seed[0].host
                                                           : ret_seeds->master);
        return TL_OK;
    }
    if (ok) {
        make_label(ret);
        return TL_OK;
    }
    tl__secret_wipe(secret);
    tl__endpoint_wipe(ret);
    memset(ret, 0, sizeof *ret);
    return tl__fail(err, TL_EINVALID, 0, "malformed URL: %s", p.problem);
}

/* ---- the URL alone ------------------------------------------------------------------------------ */

tl_url_kind tl__url_kind(const char *url, bool *ret_tls) {
    const struct scheme *scheme = scheme_of(tl__bytes_of(url ? url : ""));
    *ret_tls = scheme && scheme->tls;
    return scheme ? scheme->kind : TL_URL_UNKNOWN;
}

/* The bytes of a malformed URL that may be user and password. */
static tl_bytes suspected_login(tl_bytes url) {
    const char *slashes = memmem(url.p, url.n, "://", 3);
    tl_bytes text = slashes ? after(url, (size_t)(slashes - url.p) + 3) : url;
    size_t at = text.n;
    while (at > 0 && text.p[at - 1] != '@')
        at--;
    return tl__bytes(text.p, at > 0 ? at - 1 : 0);
}

tl_bytes tl__url_login(const char *url) {
    tl_secret secret = {.text = ""};
    tl_endpoint endpoint = {.secret = &secret};
    tl_seeds seeds = {.count = 0};
    parse p = {.to = &endpoint, .secret = &secret, .seeds = &seeds};
    bool ok = parse_url(&p, url);
    tl__endpoint_wipe(&endpoint);
    tl__secret_wipe(&secret);
    return ok ? p.login : suspected_login(tl__bytes_of(url ? url : ""));
}

/* ---- options ----------------------------------------------------------------------------------- */

/* Copy an option's text, if it is given. */
static tl_err add(char *to, size_t size, const char *name, const char *text, tl_error *err) {
    size_t n = text ? strlen(text) : 0;
    if (n >= size)
        return tl__fail(err, TL_EINVALID, 0, "%s: longer than %zu bytes", name, size - 1);
    if (text)
        memcpy(to, text, n + 1);
    return TL_OK;
}

static bool is_given(const char *text) {
    return text && *text;
}

static tl_err check_tls(const tl_endpoint *endpoint, const tl_client_options *options,
                        tl_error *err) {
    const char *given = is_given(options->tls_ca_file)       ? "tls_ca_file"
                        : is_given(options->tls_cert_file)   ? "tls_cert_file"
                        : is_given(options->tls_key_file)    ? "tls_key_file"
                        : is_given(options->tls_server_name) ? "tls_server_name"
                                                             : NULL;
    parse p = {.to = &(tl_endpoint){0}};
    if (given && !endpoint->tls)
        return tl__fail(err, TL_EINVALID, 0,
                        "%s: only with a URL that begins with rediss:// or etcds://", given);
    if (is_given(options->tls_cert_file) && !is_given(options->tls_key_file))
        return tl__fail(err, TL_EINVALID, 0, "tls_cert_file: requires tls_key_file");
    if (is_given(options->tls_key_file) && !is_given(options->tls_cert_file))
        return tl__fail(err, TL_EINVALID, 0, "tls_key_file: requires tls_cert_file");
    if (is_given(options->tls_server_name) && !strchr(options->tls_server_name, ':') &&
        !parse_name(&p, tl__bytes_of(options->tls_server_name)))
        return tl__fail(err, TL_EINVALID, 0, "tls_server_name: %s", p.problem);
    return TL_OK;
}

tl_err tl__endpoint_add(tl_endpoint *endpoint, tl_tls_files *files,
                        const tl_client_options *options, tl_error *err) {
    tl_endpoint *seed = endpoint;
    const tl_client_options *given = options;
    if (add(seed->secret->text, sizeof seed->secret->text, "password", given->password, err))
        return TL_EINVALID;
    seed->source = (tl_password_source){.fn = given->password_fn, .ctx = given->password_ctx};
    *files = (tl_tls_files){.ca = ""};
    seed->files = files;
    if (add(files->ca, sizeof files->ca, "tls_ca_file", given->tls_ca_file, err) ||
        add(files->cert, sizeof files->cert, "tls_cert_file", given->tls_cert_file, err) ||
        add(files->key, sizeof files->key, "tls_key_file", given->tls_key_file, err) ||
        add(seed->server_name, sizeof seed->server_name, "tls_server_name", given->tls_server_name,
            err) ||
        check_tls(seed, given, err))
        return tl__fail_about(err, TL_EINVALID, TL_ABOUT_TLS);
    return TL_OK;
}

bool tl__endpoint_at(tl_endpoint *ret, const tl_endpoint *like, tl_bytes host, uint16_t port) {
    if (host.n == 0 || host.n >= TL_HOST_SIZE || memchr(host.p, '\0', host.n))
        return false;
    *ret = *like;
    memcpy(ret->host, host.p, host.n);
    ret->host[host.n] = '\0';
    ret->port = port;
    make_label(ret);
    return true;
}

void tl__endpoint_at_seed(tl_endpoint *ret, const tl_endpoint *like, const tl_seeds *seeds,
                          unsigned index) {
    *ret = *like;
    memcpy(ret->host, seeds->seed[index].host, sizeof ret->host);
    memcpy(ret->path, seeds->seed[index].path, sizeof ret->path);
    ret->port = seeds->seed[index].port;
    make_label(ret);
}

/* ---- logins ------------------------------------------------------------------------------------ */

tl_password tl__password_ask(const tl_endpoint *endpoint) {
    const tl_password_source *source = &endpoint->source;
    tl_password password = {.text = tl__endpoint_password(endpoint)};
    password.room = source->fn ? calloc(1, TL_PASSWORD_SIZE) : NULL;
    if (password.room && source->fn(source->whose, password.room, TL_PASSWORD_SIZE, source->ctx))
        password.text = password.room;
    if (password.room)
        password.room[TL_PASSWORD_SIZE - 1] = '\0';
    return password;
}

void tl__password_forget(tl_password *password) {
    if (password->room)
        explicit_bzero(password->room, TL_PASSWORD_SIZE);
    free(password->room);
    *password = (tl_password){.text = ""};
}

void tl__endpoint_make_stranger(tl_endpoint *endpoint) {
    tl__endpoint_wipe(endpoint);
    endpoint->source = (tl_password_source){.fn = NULL};
}

tl_err tl__endpoint_log_in_as(tl_endpoint *endpoint, tl_secret *secret,
                              const tl_client_options *options, tl_error *err) {
    tl__endpoint_wipe(endpoint);
    *secret = (tl_secret){.text = ""};
    endpoint->secret = secret;
    endpoint->db = 0;
    endpoint->source.whose = TL_PASSWORD_SENTINEL;
    if (add(endpoint->user, sizeof endpoint->user, "sentinel_user", options->sentinel_user, err))
        return TL_EINVALID;
    return add(secret->text, sizeof secret->text, "sentinel_password", options->sentinel_password,
               err);
}

void tl__endpoint_wipe(tl_endpoint *endpoint) {
    if (!endpoint)
        return;
    explicit_bzero(endpoint->user, sizeof endpoint->user);
    endpoint->secret = NULL;
}

void tl__secret_wipe(tl_secret *secret) {
    if (secret)
        explicit_bzero(secret, sizeof *secret);
}
