/*
 * URLs. The byte 1 in the input stands for a word that must never be seen in a message, wherever
 * in the URL it was.
 */

/*
 * Given a URL. It asserts:
 * - Accepted: the fields are terminated and in range. The host is what follows the last `@`. The label is made from the
 *   place alone. The URL written out again from the fields parses to the same.
 * - Refused: one line that begins with "malformed URL:" and contains no secret, and all fields are empty.
 */
#include "transport/endpoint.h"

#include "fuzz.h"
#include "transport/tls.h"

#define SECRET "qZ7secret" /* no other Z is let in */
#define URL_SIZE 5000      /* some more than is accepted */

static void put(char *to, size_t size, const char *text) {
    size_t n = strlen(to);
    MUST(n + strlen(text) < size);
    memcpy(to + n, text, strlen(text) + 1);
}

static void put_percent(char *to, size_t size, const char *text) {
    for (; *text; text++) {
        char byte[4];
        (void)snprintf(byte, sizeof byte, "%%%02x", (unsigned)(unsigned char)*text);
        put(to, size, byte);
    }
}

/* An IPv6 address, whose zone is the only thing in a host that may need escapes. */
static void put_v6(char *to, size_t size, const char *host) {
    char address[TL_HOST_SIZE];
    size_t n = strcspn(host, "%");
    memcpy(address, host, n);
    address[n] = '\0';
    put(to, size, "[");
    put(to, size, address);
    put_percent(to, size, host + n);
    put(to, size, "]");
}

/* The URL of an endpoint, with everything written out. */
static void write_url(char *to, size_t size, const tl_endpoint *e) {
    char number[64];
    to[0] = '\0';
    if (e->dir[0]) {
        put(to, size, "local:/");
        put_percent(to, size, e->dir + 1);
        return;
    }
    put(to, size, e->path[0] ? "unix://" : e->tls ? "rediss://" : "redis://");
    put_percent(to, size, e->user);
    put(to, size, ":");
    put_percent(to, size, tl__endpoint_password(e));
    put(to, size, "@");
    if (e->path[0]) {
        put(to, size, "/");
        put_percent(to, size, e->path + 1);
    } else if (strchr(e->host, ':')) {
        put_v6(to, size, e->host);
    } else {
        put(to, size, e->host);
    }
    (void)snprintf(number, sizeof number, e->path[0] ? "?db=%d" : ":%d?db=%d",
                   e->path[0] ? e->db : e->port, e->db);
    put(to, size, number);
}

static bool same(const tl_endpoint *a, const tl_endpoint *b) {
    return a->tls == b->tls && strcmp(a->host, b->host) == 0 && a->port == b->port &&
           strcmp(a->path, b->path) == 0 && strcmp(a->dir, b->dir) == 0 &&
           strcmp(a->user, b->user) == 0 &&
           strcmp(tl__endpoint_password(a), tl__endpoint_password(b)) == 0 && a->db == b->db &&
           strcmp(a->label, b->label) == 0;
}

static void check_fields(const tl_endpoint *e) {
    MUST(is_line(e->host, sizeof e->host));
    MUST(strnlen(e->path, sizeof e->path) < sizeof e->path);
    MUST(strnlen(e->dir, sizeof e->dir) < sizeof e->dir);
    MUST(!e->dir[0] || (e->dir[0] == '/' && strncmp(e->path, e->dir, strlen(e->dir)) == 0 &&
                        strcmp(e->path + strlen(e->dir), "/redis.sock") == 0));
    MUST(!e->dir[0] || (!e->user[0] && !tl__endpoint_password(e)[0] && e->db == 0));
    MUST(!e->only_find);
    MUST(strnlen(e->user, sizeof e->user) < sizeof e->user);
    MUST(strnlen(e->secret->text, sizeof e->secret->text) < sizeof e->secret->text);
    MUST(!e->files);
    MUST(e->db >= 0);
    MUST((e->host[0] == '\0') == (e->path[0] == '/'));
    MUST((e->host[0] != '\0') == (e->port != 0));
    MUST(!e->tls || tl__tls_built());
}

/* The label is made from the place alone. */
static void check_label(const tl_endpoint *e) {
    char place[sizeof e->label];
    if (e->dir[0])
        (void)snprintf(place, sizeof place, "local");
    else if (e->path[0])
        tl__bytes_print(place, sizeof place, tl__bytes_of(e->path));
    else
        (void)snprintf(place, sizeof place, strchr(e->host, ':') ? "[%s]:%d" : "%s:%d", e->host,
                       e->port);
    MUST(is_line(e->label, sizeof e->label) && strcmp(e->label, place) == 0);
    if (!strstr(e->host, SECRET) && !strstr(e->path, SECRET))
        MUST(!strstr(e->label, SECRET));
}

/* What precedes the last '@' is never taken for a place. */
static void check_place(const tl_endpoint *e, const char *url) {
    const char *at = strrchr(url, '@');
    if (e->host[0] == '\0' || !at)
        return;
    at += at[1] == '[' ? 2 : 1;
    MUST(strncmp(at, e->host, strcspn(e->host, "%")) == 0);
}

static void check_accepted(const tl_endpoint *e, const char *url) {
    char again[URL_SIZE];
    tl_endpoint second;
    tl_secret secret;
    check_fields(e);
    check_label(e);
    check_place(e, url);
    write_url(again, sizeof again, e);
    MUST(tl__endpoint_parse(&second, &secret, again, NULL) == TL_OK);
    MUST(same(e, &second));
    tl__endpoint_wipe(&second);
    tl__secret_wipe(&secret);
    MUST(second.user[0] == '\0' && !second.secret && secret.text[0] == '\0');
}

static void check_refused(const tl_endpoint *e, const char *url, const tl_error *err) {
    static const char start[] = "malformed URL: ";
    tl_endpoint second;
    tl_secret secret;
    MUST(err->code == TL_EINVALID);
    MUST(is_line(err->message, sizeof err->message));
    MUST(strncmp(err->message, start, strlen(start)) == 0 && err->message[strlen(start)]);
    MUST(!strstr(err->message, SECRET));
    MUST(!e->host[0] && !e->path[0] && !e->dir[0] && !e->user[0] && !e->secret && !e->label[0]);
    MUST(tl__endpoint_parse(&second, &secret, url, NULL) == TL_EINVALID);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char url[URL_SIZE];
    size_t n = 0;
    for (size_t i = 0; i < size && n + sizeof SECRET < sizeof url; i++) {
        if (data[i] == 1) {
            memcpy(url + n, SECRET, sizeof SECRET - 1);
            n += sizeof SECRET - 1;
        } else {
            url[n++] = (char)(data[i] == 'Z' ? 'z' : data[i]);
        }
    }
    url[n] = '\0';
    tl_endpoint e;
    tl_secret secret;
    tl_error err;
    memset(&e, 0xa5, sizeof e);
    memset(&secret, 0xa5, sizeof secret);
    memset(&err, 0xa5, sizeof err);
    if (tl__endpoint_parse(&e, &secret, size ? url : NULL, &err) == TL_OK)
        check_accepted(&e, url);
    else
        check_refused(&e, url, &err);
    return 0;
}
