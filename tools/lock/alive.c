/*
 * tidelock alive: a sign of life from a shell script, by the socket of the watchdog that NOTIFY_SOCKET names. It
 * waits until the message was read: the reader must find the sender alive, to see who it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tool.h"
#include "lock/notify.h"

#define READ_MS 5000 /* how long to wait for the reader */

/* Milliseconds that are left until then, at least 0. */
static int left_ms(int64_t until_ms) {
    int64_t left = until_ms - moment_ms();

    return left > 0 ? (int)left : 0;
}

/* Send a line, with a descriptor if it is not -1; wait for room. Returns 0, or the errno. */
static int send_line(int to, const char *line, int fd, int64_t until_ms) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec text = {.iov_base = (void *)(uintptr_t)line, .iov_len = strlen(line)};
    struct msghdr header = {.msg_iov = &text, .msg_iovlen = 1};

    if (fd >= 0) {
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        struct cmsghdr *one = CMSG_FIRSTHDR(&header);
        *one = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(one), &fd, sizeof fd);
    }
    while (sendmsg(to, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        struct pollfd p = {.fd = to, .events = POLLOUT};
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        if (poll(&p, 1, left_ms(until_ms)) == 0)
            return ETIMEDOUT;
    }
    return 0;
}

/* The reader closes the descriptor when it has read the sign. A run, whose socket is an abstract one, does so itself:
 * what is around it may hang. A service manager expects the descriptor in a barrier, which follows the sign. */
static int sign_and_wait(int to, bool barrier_follows, int64_t until_ms) {
    int barrier[2], why = 0;

    if (pipe2(barrier, O_CLOEXEC))
        return errno;
    if (barrier_follows)
        why = send_line(to, "WATCHDOG=1", -1, until_ms);
    if (!why)
        why = send_line(to, barrier_follows ? "BARRIER=1" : "WATCHDOG=1", barrier[1], until_ms);
    close(barrier[1]);
    struct pollfd p = {.fd = barrier[0]};
    while (!why && poll(&p, 1, left_ms(until_ms)) <= 0)
        why = left_ms(until_ms) > 0 ? 0 : ETIMEDOUT;
    close(barrier[0]);
    return why;
}

static int give_sign(const notify_address *address) {
    int64_t until_ms = moment_ms() + READ_MS;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), why = 0;
    bool abstract = address->address.sun_path[0] == '\0';

    if (fd < 0 || connect(fd, (const struct sockaddr *)&address->address, address->length))
        why = errno;
    if (!why)
        why = sign_and_wait(fd, !abstract, until_ms);
    if (fd >= 0)
        close(fd);
    return why;
}

static int alive_function(const server *where, const void *given, const operands *args) {
    const char *value = getenv("NOTIFY_SOCKET");
    notify_address address;

    (void)where, (void)given, (void)args;
    if (!value || !*value)
        return fail(STATUS_CONFIG,
                    "alive: NOTIFY_SOCKET is not set: only a command of 'tidelock run "
                    "--watchdog D' has a watchdog to feed");
    if (!notify_read_address(value, &address))
        return fail(STATUS_CONFIG, "alive: NOTIFY_SOCKET=%s: neither a path nor an abstract name",
                    value);
    int why = give_sign(&address);
    if (why == EMFILE || why == ENFILE || why == ENOMEM)
        return fail(STATUS_INTERNAL, "alive: %s", strerror(why));
    if (why == ETIMEDOUT)
        return fail(
            STATUS_UNAVAILABLE,
            "alive: the reader of NOTIFY_SOCKET has not read it within %d s: is it stopped?",
            READ_MS / 1000);
    return why ? fail(STATUS_UNAVAILABLE, "alive: NOTIFY_SOCKET=%s: %s: has its reader ended?",
                      value, strerror(why))
               : STATUS_OK;
}

static const opt no_options[] = {{0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0}};

const command alive_row = {
    .name = "alive",
    .usage = "[--help]",
    .help = "give a sign of life, below run --watchdog",
    .statuses = (const status_row[]){{STATUS_OK, "the sign of life was read", NULL},
                                     {STATUS_UNAVAILABLE, "nobody reads it, or not within 5 s",
                                      NULL},
                                     {STATUS_CONFIG, "NOTIFY_SOCKET is not set, or malformed",
                                      "*NOTIFY_SOCKET* is not set, or malformed"},
                                     {0, NULL, NULL}},
    .options = no_options,
    .local = true,
    .function = alive_function,
};
