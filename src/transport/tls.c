/*
 * The only user of OpenSSL. It moves bytes through a BIO of its own, since OpenSSL's would let a lost peer
 * raise SIGPIPE in the program. It must never return a byte of a server that has not proved its name. And no
 * thread may be within OpenSSL when OpenSSL cleans up at the program's exit.
 */
#include "transport/tls.h"

#if TL_HAVE_TLS

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ground/guard.h"
#include "ground/process.h"
#include "ground/socket.h"
#include "ground/wait.h"

#define LAST_READS 16 /* reads after a failed write, at most */
#define EXIT_MS 2000  /* exit() waits no longer than this for threads within OpenSSL */
#define EXIT_LOOK_MS 1

struct tl_tls {
    const tl_endpoint *endpoint;
    SSL_CTX *context;
    BIO_METHOD *method;
    SSL *session;
    int fd, sys_errno;
    bool eof;
    bool asked;     /* the server has asked for our certificate */
    bool encrypted; /* the key has a passphrase */
    bool http2;     /* offer it */
    char message[TL_TLS_MESSAGE_SIZE];
};

bool tl__tls_built(void) {
    return true;
}

static const tl_tls_files *files_of(const tl_tls *tls) {
    static const tl_tls_files none;
    return tls->endpoint->files ? tls->endpoint->files : &none;
}

/* ---- the program's end ------------------------------------------------------------------------- */

/* OpenSSL frees its data in a function that exit() calls, even while a thread is within OpenSSL: the renewal
 * thread, say, while it reconnects. OpenSSL registers that function when it is first used, by this library or
 * by other code. Ours is registered after that, and so is called before it. From then on no thread enters
 * OpenSSL, and exit() waits for the threads that are inside. TLS objects that still exist then are never
 * freed, even if a destructor of the program closes a client later.
 *
 * The gate has the process in its upper half, so that a forked child doesn't wait for threads of its parent.
 * The lower half has the flag OVER, and the number of threads inside. */
#define OVER (UINT64_C(1) << 31)
#define PROCESS (UINT64_MAX << 32)
static _Atomic uint64_t gate;

static bool enter(void) {
    if (!(atomic_fetch_add(&gate, 1) & OVER) || !GUARD(no_tls_after_exit))
        return true;
    (void)atomic_fetch_sub(&gate, 1);
    return false;
}

static void leave(void) {
    (void)atomic_fetch_sub(&gate, 1);
}

static uint64_t this_process(void) {
    return (uint64_t)tl__process_this().pid << 32;
}

static void at_exit(void) {
    tl_mono now = tl__mono_now(), end = tl__mono_add_ms(now, EXIT_MS);
    uint64_t seen = atomic_fetch_or(&gate, OVER) | OVER;
    bool ours = (seen & PROCESS) == this_process();
    while (GUARD(exit_awaits_tls) && ours && seen % OVER > 0 && tl__mono_before(now, end)) {
        tl__wait(NULL, 0, tl__mono_add_ms(now, EXIT_LOOK_MS));
        now = tl__mono_now();
        seen = atomic_load(&gate);
    }
}

/* Call this before OpenSSL is used. Two registrations do no harm. */
static void watch_exit(void) {
    static atomic_bool watched;
    uint64_t me = this_process(), seen = atomic_load(&gate);
    if ((seen & PROCESS) != me) /* the first call, or a child's: none of its threads is inside */
        (void)atomic_compare_exchange_strong(&gate, &seen, me | (seen & OVER));
    if (atomic_load(&watched))
        return;
    (void)OPENSSL_init_ssl(0, NULL);
    (void)atexit(at_exit);
    atomic_store(&watched, true);
}

static const char exiting[] = "the program exits";

/* ---- the socket as a BIO ----------------------------------------------------------------------- */

static int bio_read(BIO *bio, char *to, int room) {
    tl_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t n = tl__socket_receive(tls->fd, to, (size_t)room);
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    else if (n < 0)
        tls->sys_errno = errno;
    else if (n == 0)
        tls->eof = true;
    return (int)n;
}

static int bio_write(BIO *bio, const char *from, int size) {
    tl_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t n = tl__socket_send(tls->fd, from, (size_t)size);
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    else if (n < 0)
        tls->sys_errno = errno;
    return (int)n;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer) {
    (void)number, (void)pointer;
    const tl_tls *tls = BIO_get_data(bio);
    return command == BIO_CTRL_EOF ? tls && tls->eof : command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tidelock");
    if (method && BIO_meth_set_read(method, bio_read) && BIO_meth_set_write(method, bio_write) &&
        BIO_meth_set_ctrl(method, bio_ctrl))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ---- outcomes ---------------------------------------------------------------------------------- */

static const char *reason_of(unsigned long error) {
    const char *text = ERR_reason_error_string(error);
    return text ? text : "unknown error";
}

static const char *reason(void) {
    return reason_of(ERR_peek_last_error());
}

/* A hint for a server's certificate that was not accepted. */
static const char *hint(long verified) {
    switch (verified) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return " (is it for another name? --tls-name, tls_server_name)";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        return " (from an authority of your own? --tls-ca, tls_ca_file)";
    default: return "";
    }
}

/* Set the message; returns false. */
__attribute__((format(printf, 2, 3))) static bool fail(tl_tls *tls, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(tls->message, sizeof tls->message, format, arguments);
    va_end(arguments);
    return false;
}

static tl_tls_outcome broken(tl_tls *tls) {
    if (tls->eof)
        return TL_TLS_CLOSED;
    (void)fail(tls, "%s", tls->sys_errno ? strerror(tls->sys_errno) : reason());
    return TL_TLS_BROKEN;
}

/* Did the server reject us for our certificate, or for the lack of one? With TLS 1.3 that comes after the
 * handshake. Some servers send other alerts for the lack of one. */
static bool is_turned_away(tl_tls *tls) {
    int alert = ERR_GET_REASON(ERR_peek_last_error()) - SSL_AD_REASON_OFFSET;
    bool for_it = alert == SSL_AD_CERTIFICATE_REQUIRED ||
                  (alert >= SSL_AD_HANDSHAKE_FAILURE && alert <= SSL_AD_ACCESS_DENIED);
    const char *file = files_of(tls)->cert;
    if (!for_it || !tls->asked)
        return false;
    if (file[0])
        (void)fail(tls, "TLS: the server does not accept the certificate in %.64s: %s", file,
                   reason());
    else
        (void)fail(tls, "TLS: the server asks for a client certificate: give --tls-cert "
                        "and --tls-key (tls_cert_file, tls_key_file)");
    return true;
}

/* A server without TLS replies in plain text, whose first bytes are read as a version. */
static const char *hint_of_plain(void) {
    return ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_WRONG_VERSION_NUMBER ? TL_TLS_PLAIN : "";
}

/* EMFILE or ENOMEM if no file can be opened, else 0. OpenSSL passes over an authority of the system that it can't open. So
 * without a descriptor it knows none. */
static int scarce(void) {
    int fd = open("/", O_RDONLY | O_CLOEXEC), problem = fd < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return problem == EMFILE || problem == ENFILE ? EMFILE : problem == ENOMEM ? ENOMEM : 0;
}

/* The handshake failed, and not because of the network. */
static tl_tls_outcome refused(tl_tls *tls) {
    long verified = SSL_get_verify_result(tls->session);
    if (verified != X509_V_OK && scarce())
        return TL_TLS_SCARCE;
    if (verified == X509_V_OK) {
        (void)fail(tls, "TLS: the handshake failed: %s%s", reason(), hint_of_plain());
        return TL_TLS_NONSENSE;
    }
    (void)fail(tls, "TLS: the server's certificate is not accepted: %s%s",
               X509_verify_cert_error_string(verified), hint(verified));
    return TL_TLS_UNTRUSTED;
}

static bool is_eof(void) {
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
    return ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
#else
    return false;
#endif
}

static tl_tls_outcome outcome_of(tl_tls *tls, int result, bool shaking) {
    tl_tls_outcome outcome = TL_TLS_DONE;
    if (result <= 0)
        switch (SSL_get_error(tls->session, result)) {
        case SSL_ERROR_WANT_READ: outcome = TL_TLS_WANT_READ; break;
        case SSL_ERROR_WANT_WRITE: outcome = TL_TLS_WANT_WRITE; break;
        case SSL_ERROR_ZERO_RETURN: outcome = TL_TLS_CLOSED; break;
        case SSL_ERROR_SYSCALL: outcome = broken(tls); break;
        default:
            outcome = is_eof()              ? TL_TLS_CLOSED
                      : is_turned_away(tls) ? TL_TLS_REFUSED
                      : shaking             ? refused(tls)
                                            : broken(tls);
        }
    ERR_clear_error(); /* OpenSSL's error queue belongs to the thread, and so to the program */
    return outcome;
}

/* ---- life -------------------------------------------------------------------------------------- */

static int note_asked(SSL *session, void *tls) {
    (void)session;
    ((tl_tls *)tls)->asked = true;
    return 1;
}

/* Without this OpenSSL would ask at the terminal. */
static int no_passphrase(char *to, int size, int writing, void *tls) {
    (void)to, (void)size, (void)writing;
    ((tl_tls *)tls)->encrypted = true;
    return -1;
}

/* Set the message `what`, with the file, and the problem that the system or OpenSSL reports. */
static bool bad_file(tl_tls *tls, const char *what, const char *file) {
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    (void)fail(tls, "TLS: %s %.100s: %s", what, file,
               fd < 0 ? strerror(errno) : reason_of(ERR_peek_error()));
    if (fd >= 0)
        close(fd);
    return false;
}

static bool load_authorities(tl_tls *tls) {
    const char *file = files_of(tls)->ca;
    if (!file[0])
        return (SSL_CTX_set_default_verify_paths(tls->context) && !scarce()) ||
               fail(tls, "TLS: the authorities of the system cannot be loaded: %s", reason());
    return SSL_CTX_load_verify_locations(tls->context, file, NULL) ||
           bad_file(tls, "no authorities in", file);
}

static bool load_certificate(tl_tls *tls) {
    const tl_tls_files *f = files_of(tls);
    if (!f->cert[0])
        return true;
    if (!SSL_CTX_use_certificate_chain_file(tls->context, f->cert))
        return bad_file(tls, "no certificate in", f->cert);
    SSL_CTX_set_default_passwd_cb(tls->context, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(tls->context, tls);
    if (SSL_CTX_use_PrivateKey_file(tls->context, f->key, SSL_FILETYPE_PEM))
        return true;
    return tls->encrypted
               ? fail(tls, "TLS: the key in %.100s has a passphrase: give one without", f->key)
               : bad_file(tls, "no key for the certificate in", f->key);
}

/* A server that speaks only HTTP/1.1 must find that, too: else it may end the handshake. */
static bool offer_http2(SSL_CTX *context) {
    static const unsigned char names[] = "\x02h2\x08http/1.1";
    return SSL_CTX_set_alpn_protos(context, names, sizeof names - 1) == 0;
}

static bool set_up(tl_tls *tls) {
    SSL_CTX *c = tls->context = SSL_CTX_new(TLS_client_method());
    tls->method = bio_method();
    if (!c || !tls->method || !SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION))
        return fail(tls, "TLS: %s", reason());
    (void)SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_cert_cb(c, note_asked, tls);
    if (tls->http2 && !offer_http2(c))
        return fail(tls, "TLS: %s", reason());
    return load_authorities(tls) && load_certificate(tls);
}

/* Set the name that the certificate must have: the address if the host is one, else the host name, which is
 * also sent to the server. */
static bool expect_name(SSL *session, const char *host) {
    char address[TL_HOST_SIZE];
    unsigned char binary[sizeof(struct in6_addr)];
    (void)snprintf(address, sizeof address, "%.*s", (int)strcspn(host, "%"), host);
    if (inet_pton(AF_INET, address, binary) == 1 || inet_pton(AF_INET6, address, binary) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), address);
    SSL_set_hostflags(session, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(session, host) && SSL_set_tlsext_host_name(session, host);
}

static bool begin(tl_tls *tls) {
    const tl_endpoint *endpoint = tls->endpoint;
    const char *name = endpoint->server_name[0] ? endpoint->server_name : endpoint->host;
    tls->session = SSL_new(tls->context);
    BIO *bio = BIO_new(tls->method);
    if (!tls->session || !bio || !expect_name(tls->session, name)) {
        (void)fail(tls, "TLS: %s", reason());
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->session, bio, bio);
    SSL_set_connect_state(tls->session);
    return true;
}

static void discard(tl_tls *tls) {
    SSL_free(tls->session);
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    free(tls);
}

static tl_tls *make(const tl_endpoint *endpoint, int fd, bool http2, int *ret_scarce,
                    char message[TL_TLS_MESSAGE_SIZE]) {
    tl_tls *tls = calloc(1, sizeof *tls);
    if (!tls) {
        *ret_scarce = ENOMEM;
        (void)snprintf(message, TL_TLS_MESSAGE_SIZE, "TLS: out of memory");
        return NULL;
    }
    tls->endpoint = endpoint;
    tls->fd = fd;
    tls->http2 = http2;
    ERR_clear_error();
    if (!set_up(tls) || !begin(tls)) {
        *ret_scarce = scarce();
        memcpy(message, tls->message, TL_TLS_MESSAGE_SIZE);
        discard(tls);
        tls = NULL;
    }
    ERR_clear_error();
    return tls;
}

tl_tls *tl__tls_new(const tl_endpoint *endpoint, int fd, bool http2, int *ret_scarce,
                    char message[TL_TLS_MESSAGE_SIZE]) {
    *ret_scarce = 0;
    watch_exit();
    if (!enter()) {
        (void)snprintf(message, TL_TLS_MESSAGE_SIZE, "TLS: %s", exiting);
        return NULL;
    }
    tl_tls *tls = make(endpoint, fd, http2, ret_scarce, message);
    leave();
    return tls;
}

void tl__tls_free(tl_tls *tls) {
    if (!tls || !enter())
        return;
    int saved = errno;
    discard(tls);
    leave();
    errno = saved;
}

/* ---- use --------------------------------------------------------------------------------------- */

static tl_tls_outcome ask(tl_tls *tls, tl_tls_work work, void *bytes, size_t *n) {
    int most = *n < INT_MAX ? (int)*n : INT_MAX;
    ERR_clear_error();
    int result = work == TL_TLS_SHAKE  ? SSL_do_handshake(tls->session)
                 : work == TL_TLS_READ ? SSL_read(tls->session, bytes, most)
                                       : SSL_write(tls->session, bytes, most);
    *n = result > 0 ? (size_t)result : 0;
    return outcome_of(tls, result, work == TL_TLS_SHAKE);
}

/* A write has failed. If the server rejected us, it may have sent that before it closed: read it. */
static tl_tls_outcome why_broken(tl_tls *tls) {
    char rest[256], message[TL_TLS_MESSAGE_SIZE];
    tl_tls_outcome outcome = TL_TLS_DONE;
    memcpy(message, tls->message, sizeof message);
    for (int i = 0; i < LAST_READS && outcome == TL_TLS_DONE; i++) {
        size_t n = sizeof rest;
        outcome = ask(tls, TL_TLS_READ, rest, &n);
    }
    if (outcome == TL_TLS_REFUSED)
        return outcome;
    memcpy(tls->message, message, sizeof message);
    return TL_TLS_BROKEN;
}

tl_tls_outcome tl__tls_do(tl_tls *tls, tl_tls_work work, void *bytes, size_t *n) {
    if (!enter()) {
        (void)fail(tls, "%s", exiting);
        return TL_TLS_BROKEN;
    }
    tl_tls_outcome outcome = ask(tls, work, bytes, n);
    if (GUARD(refusal_before_break) && work == TL_TLS_WRITE && outcome == TL_TLS_BROKEN &&
        tls->asked)
        outcome = why_broken(tls);
    leave();
    return outcome;
}

const char *tl__tls_message(const tl_tls *tls) {
    return tls->message;
}

bool tl__tls_pending(const tl_tls *tls) {
    if (!enter())
        return false;
    bool pending = SSL_pending(tls->session) > 0;
    leave();
    return pending;
}

#else /* no TLS in this build: the URL parser rejects rediss:, so nothing calls these */

#include <stdio.h>

bool tl__tls_built(void) {
    return false;
}

tl_tls *tl__tls_new(const tl_endpoint *endpoint, int fd, bool http2, int *ret_scarce,
                    char message[TL_TLS_MESSAGE_SIZE]) {
    (void)endpoint, (void)fd, (void)http2;
    *ret_scarce = 0;
    (void)snprintf(message, TL_TLS_MESSAGE_SIZE, "TLS is not in this build");
    return NULL;
}

void tl__tls_free(tl_tls *tls) {
    (void)tls;
}

tl_tls_outcome tl__tls_do(tl_tls *tls, tl_tls_work work, void *bytes, size_t *n) {
    (void)tls, (void)work, (void)bytes, (void)n;
    return TL_TLS_BROKEN;
}

const char *tl__tls_message(const tl_tls *tls) {
    (void)tls;
    return "TLS is not in this build";
}

bool tl__tls_pending(const tl_tls *tls) {
    (void)tls;
    return false;
}

#endif
