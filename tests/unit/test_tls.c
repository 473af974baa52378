/*
 * TLS: who is believed to be the server, and that nothing is said to anybody else. The server, its
 * key and its certificate are made here. In a build without TLS there is nothing to test.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "conn_world.h"

#include "names_as.h"
#include "transport/tls.h"

#if TL_HAVE_TLS

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

typedef struct {
    conn_world w; /* first */
    SSL_CTX *context;
    SSL *session;
    EVP_PKEY *key;
    X509 *certificate;
    char file[32], key_file[32];
    tl_tls_files files;
} secure;

static FILE *make_file(char *name) {
    static const char pattern[] = "/tmp/tl-tls-XXXXXX";
    memcpy(name, pattern, sizeof pattern);
    FILE *file = fdopen(mkstemp(name), "w");
    assert_non_null(file);
    return file;
}

static void write_key(const secure *s, EVP_PKEY *key, const char *passphrase) {
    FILE *file = fopen(s->key_file, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, passphrase ? EVP_aes_128_cbc() : NULL, NULL, 0,
                                          NULL, (void *)(uintptr_t)passphrase),
                     1);
    (void)fclose(file);
}

/* A certificate for `names` ("IP:127.0.0.1"), signed by itself. */
static void make_certificate(secure *s, const char *names, long days) {
    s->key = EVP_EC_gen("P-256");
    s->certificate = X509_new();
    X509 *x = s->certificate;
    X509_NAME *name = X509_get_subject_name(x);
    X509_EXTENSION *alternative = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
    X509_EXTENSION *authority = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "CA:TRUE");
    (void)X509_set_version(x, 2);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(x), -86400L * 30);
    (void)X509_gmtime_adj(X509_getm_notAfter(x), 86400L * days);
    (void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"t", -1, -1,
                                     0);
    (void)X509_set_issuer_name(x, name);
    (void)X509_set_pubkey(x, s->key);
    (void)X509_add_ext(x, alternative, -1);
    (void)X509_add_ext(x, authority, -1);
    X509_EXTENSION_free(alternative);
    X509_EXTENSION_free(authority);
    assert_true(X509_sign(x, s->key, EVP_sha256()) > 0);
}

static void open_secure(secure *s, const char *host, const char *names, long days, bool trusted) {
    char url[128];
    *s = (secure){.file = ""};
    FILE *file = make_file(s->file);
    make_certificate(s, names, days);
    assert_int_equal(PEM_write_X509(file, s->certificate), 1);
    (void)fclose(file);
    (void)fclose(make_file(s->key_file));
    write_key(s, s->key, NULL);
    s->context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(s->context, s->certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(s->context, s->key), 1);
    peer_listen(&s->w.peer);
    (void)snprintf(url, sizeof url, "rediss://:hunter2@%s:%u", host, (unsigned)s->w.peer.port);
    world_connect(&s->w, url, &(tl_conn_limits){.connect_ms = CONNECT_MS});
    s->w.endpoint.files = &s->files;
    if (trusted)
        (void)snprintf(s->files.ca, sizeof s->files.ca, "%s", s->file);
}

static void close_secure(secure *s) {
    SSL_free(s->session);
    SSL_CTX_free(s->context);
    X509_free(s->certificate);
    EVP_PKEY_free(s->key);
    (void)unlink(s->file);
    (void)unlink(s->key_file);
    world_close(&s->w);
}

/* ---- the server's side ------------------------------------------------------------------------- */

static bool again(secure *s, int result, tl_mono began) {
    int why = SSL_get_error(s->session, result);
    ERR_clear_error();
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        return false;
    peer_turn(&s->w.peer, began);
    return true;
}

static bool accept_secure(secure *s) {
    tl_mono began = tl__mono_now();
    int result;
    peer_accept(&s->w.peer);
    SSL_free(s->session);
    s->session = SSL_new(s->context);
    (void)SSL_set_fd(s->session, s->w.peer.stream);
    while ((result = SSL_accept(s->session)) <= 0)
        if (!again(s, result, began))
            return false;
    return true;
}

static void expect_secure(secure *s, const char *text) {
    tl_mono began = tl__mono_now();
    char got[4096];
    for (size_t at = 0, size = strlen(text); at < size;) {
        size_t room = size - at < sizeof got ? size - at : sizeof got;
        int n = SSL_read(s->session, got, (int)room);
        if (n <= 0) {
            assert_true(again(s, n, began));
            continue;
        }
        assert_memory_equal(got, text + at, n);
        at += (size_t)n;
    }
}

static void send_secure(secure *s, const char *bytes, size_t n) {
    tl_mono began = tl__mono_now();
    int result;
    while (n > 0) {
        while ((result = SSL_write(s->session, bytes, (int)n)) <= 0)
            assert_true(again(s, result, began));
        bytes += result;
        n -= (size_t)result;
    }
}

static void send_text(secure *s, const char *text) {
    send_secure(s, text, strlen(text));
}

#define AUTH_ASKED "*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n" TIME_ASKED
#define GET_K "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"

static void log_in(secure *s) {
    assert_true(accept_secure(s));
    expect_secure(s, AUTH_ASKED);
    send_text(s, "+OK\r\n" TIME_TOLD);
}

/* ---- tests ------------------------------------------------------------------------------------- */

TEST(a_trusted_server_is_talked_to) {
    secure s;
    open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
    world_ask(&s.w, 1, "GET k");
    log_in(&s);
    expect_secure(&s, GET_K);
    static const char reply[] = "$5\r\nhello\r\n";
    for (size_t i = 0; i + 1 < sizeof reply; i++)
        send_secure(&s, reply + i, 1);
    world_await(&s.w, 1);
    seen_ok(&s.w, 0, 1, "\"hello\"");
    /* The session's ticket, the next connection and an end without farewell are all in order. */
    peer_drop(&s.w.peer);
    world_drive_until_down(&s.w, 1);
    assert_non_null(strstr(s.w.down, "connection closed by the server"));
    world_ask(&s.w, 2, "GET k");
    log_in(&s);
    close_secure(&s);
    seen_failed(&s.w, 1, 2, s.w.log[1].maybe_sent, TL_EUNAVAILABLE, "the connection is closed");
}

TEST(large_requests_and_replies) {
    secure s;
    size_t n = 3 << 20;
    char *value = malloc(n + 1), head[64];
    memset(value, 'v', n);
    value[n] = '\0';
    open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
    tl_send send = {.ticket = 1, .count = 1, .by = TL_NEVER};
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = 1, .argv = {{value, n}}};
    assert_int_equal(tl__conn_send(s.w.conn, &send, &s.w, world_now(&s.w)), TL_OK);
    world_ask(&s.w, 2, "GET k");
    log_in(&s);
    (void)snprintf(head, sizeof head, "*1\r\n$%zu\r\n", n);
    expect_secure(&s, head);
    expect_secure(&s, value);
    expect_secure(&s, "\r\n" GET_K);
    send_text(&s, head);
    send_secure(&s, value, n);
    send_text(&s, "\r\n+two\r\n");
    world_await(&s.w, 2);
    assert_true(s.w.log[0].ok);
    seen_ok(&s.w, 1, 2, "two");
    free(value);
    close_secure(&s);
}

static void check_refused(const char *names, long days, bool trusted, const char *words) {
    secure s;
    open_secure(&s, "127.0.0.1", names, days, trusted);
    world_ask(&s.w, 1, "GET k");
    (void)accept_secure(&s);
    world_await(&s.w, 1);
    seen_failed(&s.w, 0, 1, false, TL_EDENIED, "the server's certificate is not accepted: ");
    assert_non_null(strstr(s.w.log[0].text, words));
    assert_int_equal(ERR_peek_error(), 0);
    close_secure(&s);
}

TEST(a_server_that_proves_nothing_is_refused) {
    check_refused("IP:127.0.0.1", 30, false, "self");
    check_refused("IP:127.0.0.2", 30, true, "IP address mismatch");
    check_refused("DNS:127.0.0.1", 30, true, "IP address mismatch");
    check_refused("IP:127.0.0.1", -1, true, "expired");
}

static int look_up(const char *host, const char *service, const struct addrinfo *hints,
                   struct addrinfo **ret) {
    (void)host;
    return getaddrinfo("127.0.0.1", service, hints, ret);
}

TEST(a_name_must_match) {
    secure s;
    names_as(look_up);
    for (int i = 0; i < 2; i++) {
        open_secure(&s, "r.example", i ? "DNS:r.example" : "DNS:*.r.example,IP:127.0.0.1", 30,
                    true);
        world_ask(&s.w, 1, "GET k");
        if (accept_secure(&s) && i == 1) {
            assert_string_equal(SSL_get_servername(s.session, TLSEXT_NAMETYPE_host_name),
                                "r.example");
            expect_secure(&s, AUTH_ASKED);
        } else {
            world_await(&s.w, 1);
            seen_failed(&s.w, 0, 1, false, TL_EDENIED, "hostname mismatch");
        }
        close_secure(&s);
    }
    names_as(NULL);
}

TEST(a_server_without_tls_is_told_nothing) {
    secure s;
    open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
    world_ask(&s.w, 1, "GET k");
    peer_accept(&s.w.peer);
    peer_send(&s.w.peer, "-ERR Protocol error: unbalanced quotes in request\r\n");
    world_await(&s.w, 1);
    seen_failed(
        &s.w, 0, 1, false, TL_ESERVER,
        "TLS: the handshake failed: wrong version number (a port without TLS? begin the URL "
        "with redis:// or etcd://)");
    char got[4096];
    ssize_t n = recv(s.w.peer.stream, got, sizeof got, 0);
    assert_true(n <= 0 || !memmem(got, (size_t)n, "hunter2", 7));
    close_secure(&s);
}

TEST(a_handshake_that_stalls_or_breaks_ends) {
    secure s;
    open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
    world_ask(&s.w, 1, "GET k");
    peer_accept(&s.w.peer);
    world_pass_ms(&s.w, CONNECT_MS);
    world_await(&s.w, 1);
    seen_failed(&s.w, 0, 1, false, TL_EUNAVAILABLE,
                ": no TLS handshake in 5000 ms (a port without TLS? begin the URL with redis:// or "
                "etcd://)");
    world_pass_ms(&s.w, 100);
    world_ask(&s.w, 2, "GET k");
    peer_accept(&s.w.peer);
    peer_reset(&s.w.peer);
    world_await(&s.w, 2);
    seen_failed(&s.w, 1, 2, false, TL_EUNAVAILABLE, "connect 127.0.0.1:");
    close_secure(&s);
}

TEST(writing_to_a_lost_peer_raises_no_signal) {
    secure s;
    open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
    world_ask(&s.w, 1, "GET k");
    log_in(&s);
    expect_secure(&s, GET_K);
    peer_reset(&s.w.peer);
    for (uint16_t i = 2; i < 6; i++) /* SIGPIPE would end this test */
        world_ask(&s.w, i, "GET k");
    world_drive_until_down(&s.w, 1);
    seen_failed(&s.w, 0, 1, true, TL_EUNAVAILABLE, "127.0.0.1:");
    close_secure(&s);
    assert_int_equal(s.w.seen, 5);
}

TEST(authorities_that_cannot_be_loaded_are_named) {
    secure s;
    open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, false);
    (void)snprintf(s.files.ca, sizeof s.files.ca, "/nowhere/ca.pem");
    world_ask(&s.w, 1, "GET k");
    peer_accept(&s.w.peer);
    world_await(&s.w, 1);
    seen_failed(&s.w, 0, 1, false, TL_EINVALID, "/nowhere/ca.pem");
    close_secure(&s);
}

/* Certificates are renewed while a client lives. */
TEST(files_are_read_for_each_connection) {
    secure s;
    open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
    world_ask(&s.w, 1, "GET k");
    log_in(&s);
    expect_secure(&s, GET_K);
    assert_int_equal(unlink(s.file), 0);
    send_text(&s, "+hello\r\n");
    world_await(&s.w, 1);
    seen_ok(&s.w, 0, 1, "hello");
    peer_drop(&s.w.peer);
    world_drive_until_down(&s.w, 1);
    world_ask(&s.w, 2, "GET k");
    peer_accept(&s.w.peer);
    world_await(&s.w, 2);
    seen_failed(&s.w, 1, 2, false, TL_EINVALID, s.file);
    close_secure(&s);
}

TEST(the_certificate_may_be_for_another_name) {
    secure s;
    open_secure(&s, "127.0.0.1", "DNS:r.example,IP:127.0.0.2", 30, true);
    (void)snprintf(s.w.endpoint.server_name, sizeof s.w.endpoint.server_name, "r.example");
    world_ask(&s.w, 1, "GET k");
    assert_true(accept_secure(&s));
    assert_string_equal(SSL_get_servername(s.session, TLSEXT_NAMETYPE_host_name), "r.example");
    close_secure(&s);
    open_secure(&s, "127.0.0.1", "DNS:r.example,IP:127.0.0.1", 30, true);
    (void)snprintf(s.w.endpoint.server_name, sizeof s.w.endpoint.server_name, "q.example");
    world_ask(&s.w, 1, "GET k");
    (void)accept_secure(&s);
    world_await(&s.w, 1);
    seen_failed(&s.w, 0, 1, false, TL_EDENIED, "hostname mismatch (is it for another name?");
    close_secure(&s);
}

/* ---- no descriptors ---------------------------------------------------------------------------- */

static struct rlimit had;

/* So many more can be opened. */
static void leave_descriptors(int n) {
    struct rlimit few = had;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(next >= 0);
    (void)close(next);
    few.rlim_cur = (rlim_t)(next + n);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
}

static void have_descriptors(void) {
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
}

/* The last descriptor is the socket's. It is not the fault of the files, given or the system's, that they can't be read. */
TEST(authorities_that_no_descriptor_is_left_for_are_not_blamed) {
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    for (int given = 0; given < 2; given++) {
        secure s;
        open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, given);
        leave_descriptors(1);
        world_ask(&s.w, 1, "GET k");
        world_await(&s.w, 1);
        have_descriptors();
        seen_failed(&s.w, 0, 1, false, TL_ENOMEM,
                    strerror(EMFILE) + 1); /* its first letter is small there */
        assert_int_equal(ERR_peek_error(), 0);
        close_secure(&s);
    }
}

/* The system's authorities are looked for when the server has shown its certificate. */
TEST(a_certificate_is_not_judged_while_no_authority_can_be_read) {
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    for (int left = 0; left < 2; left++) {
        secure s;
        char problem[TL_TLS_MESSAGE_SIZE];
        size_t n = 0;
        int pair[2], scarce, turns = 0;
        tl_tls_outcome outcome = TL_TLS_WANT_READ;
        open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, false);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        tl_tls *tls = tl__tls_new(&s.w.endpoint, pair[0], false, &scarce, problem);
        assert_non_null(tls);
        s.session = SSL_new(s.context);
        (void)SSL_set_fd(s.session, pair[1]);
        leave_descriptors(left);
        for (; turns < 10 && (outcome == TL_TLS_WANT_READ || outcome == TL_TLS_WANT_WRITE);
             turns++) {
            outcome = tl__tls_do(tls, TL_TLS_SHAKE, NULL, &n);
            (void)SSL_accept(s.session);
            ERR_clear_error();
        }
        have_descriptors();
        assert_int_equal(outcome, left ? TL_TLS_UNTRUSTED : TL_TLS_SCARCE);
        tl__tls_free(tls);
        close(pair[0]);
        close(pair[1]);
        close_secure(&s);
    }
}

/* ---- our certificate --------------------------------------------------------------------------- */

/* With 1.3 the server hears of our certificate after we have done with the handshake. */
static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

/* A server that trusts `authorities` and asks for a certificate. */
static void demand_certificate(SSL_CTX *context, const char *authorities, int version) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    assert_int_equal(SSL_CTX_set_max_proto_version(context, version), 1);
    if (authorities)
        assert_int_equal(SSL_CTX_load_verify_locations(context, authorities, NULL), 1);
}

static void give_certificate(secure *s) {
    (void)snprintf(s->files.cert, sizeof s->files.cert, "%s", s->file);
    (void)snprintf(s->files.key, sizeof s->files.key, "%s", s->key_file);
}

TEST(a_certificate_opens) {
    for (size_t i = 0; i < 2; i++) {
        secure s;
        open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
        demand_certificate(s.context, s.file, versions[i]);
        give_certificate(&s);
        world_ask(&s.w, 1, "GET k");
        log_in(&s);
        expect_secure(&s, GET_K);
        send_text(&s, "+hello\r\n");
        world_await(&s.w, 1);
        seen_ok(&s.w, 0, 1, "hello");
        close_secure(&s);
    }
}

TEST(who_has_no_certificate_is_told_what_to_give) {
    for (size_t i = 0; i < 2; i++) {
        secure s;
        open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
        demand_certificate(s.context, s.file, versions[i]);
        world_ask(&s.w, 1, "GET k");
        assert_false(accept_secure(&s));
        world_await(&s.w, 1);
        seen_failed(&s.w, 0, 1, false, TL_EDENIED,
                    "TLS: the server asks for a client certificate: give --tls-cert and --tls-key");
        assert_int_equal(ERR_peek_error(), 0);
        close_secure(&s);
    }
}

TEST(a_certificate_that_the_server_does_not_trust_is_named) {
    for (size_t i = 0; i < 2; i++) {
        secure s;
        open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
        demand_certificate(s.context, NULL, versions[i]);
        give_certificate(&s);
        world_ask(&s.w, 1, "GET k");
        assert_false(accept_secure(&s));
        world_await(&s.w, 1);
        seen_failed(&s.w, 0, 1, false, TL_EDENIED,
                    "the server does not accept the certificate in ");
        assert_non_null(strstr(s.w.log[0].text, s.file));
        close_secure(&s);
    }
}

/* It can't write any more, but what the server has said is still there to read. */
TEST(a_refusal_is_found_when_writing_fails_first) {
    secure s;
    char problem[TL_TLS_MESSAGE_SIZE], ping[] = "PING";
    size_t n = 0;
    int pair[2], result = -1, scarce;
    open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
    demand_certificate(s.context, s.file, TLS1_3_VERSION);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    tl_tls *tls = tl__tls_new(&s.w.endpoint, pair[0], false, &scarce, problem);
    assert_non_null(tls);
    s.session = SSL_new(s.context);
    (void)SSL_set_fd(s.session, pair[1]);
    while (tl__tls_do(tls, TL_TLS_SHAKE, NULL, &n) != TL_TLS_DONE)
        result = SSL_accept(s.session);
    for (int i = 0; i < 3; i++)
        result = SSL_accept(s.session);
    assert_true(result <= 0);
    ERR_clear_error();
    close(pair[1]);
    n = 4;
    assert_int_equal(tl__tls_do(tls, TL_TLS_WRITE, ping, &n), TL_TLS_REFUSED);
    assert_non_null(strstr(tl__tls_message(tls), "asks for a client certificate"));
    tl__tls_free(tls);
    close(pair[0]);
    close_secure(&s);
}

static void check_files(secure *s, const char *words, const char *file) {
    size_t n = s->w.seen;
    world_ask(&s->w, 1, "GET k");
    peer_accept(&s->w.peer);
    world_await(&s->w, n + 1);
    seen_failed(&s->w, n, 1, false, TL_EINVALID, words);
    assert_non_null(strstr(s->w.log[n].text, file));
    assert_int_equal(ERR_peek_error(), 0);
    world_pass_ms(&s->w, 1000);
}

TEST(a_certificate_or_key_that_is_no_good_is_named) {
    secure s;
    EVP_PKEY *other = EVP_EC_gen("P-256");
    open_secure(&s, "127.0.0.1", "IP:127.0.0.1", 30, true);
    give_certificate(&s);
    write_key(&s, other, NULL);
    check_files(&s, "no key for the certificate in ", s.key_file);
    write_key(&s, s.key, "hunter2"); /* nobody is asked for it */
    check_files(&s, "has a passphrase: give one without", s.key_file);
    (void)snprintf(s.files.cert, sizeof s.files.cert, "/nowhere/c.pem");
    check_files(&s, "No such file", "/nowhere/c.pem");
    (void)snprintf(s.files.cert, sizeof s.files.cert, "%s", s.key_file);
    check_files(&s, "no certificate in ", s.key_file);
    EVP_PKEY_free(other);
    close_secure(&s);
}

#else

TEST(tls_is_not_in_this_build) {
    assert_false(tl__tls_built());
}

#endif
