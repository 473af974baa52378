/*
 * The only file that calls the system for connections. Nothing here ever blocks.
 */
#include "ground/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Is the socket connected to itself? That happens when the kernel picks, for the near end, the very port of
 * this host that nothing listens on. */
static bool to_itself(int fd) {
    struct sockaddr_storage near = {0}, far = {0};
    socklen_t near_size = sizeof near, far_size = sizeof far;
    return getsockname(fd, (struct sockaddr *)&near, &near_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&far, &far_size) == 0 && near.ss_family != AF_UNIX &&
           near_size == far_size && memcmp(&near, &far, near_size) == 0;
}

static void set_options(int fd, int family) {
    int on = 1;
    if (family == AF_UNIX)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

int tl__socket_connect(const tl_address *to, int *ret_fd) {
    int family = to->at.ss_family;
    int fd = *ret_fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    set_options(fd, family);
    if (connect(fd, (const struct sockaddr *)&to->at, to->size) == 0)
        return to_itself(fd) ? ECONNREFUSED : 0;
    return errno == EINTR ? EINPROGRESS : errno;
}

int tl__socket_connected(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int problem = 0;
    socklen_t size = sizeof problem;
    if (poll(&p, 1, 0) <= 0)
        return EINPROGRESS;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) != 0)
        problem = errno;
    return problem == 0 && to_itself(fd) ? ECONNREFUSED : problem;
}

static ssize_t outcome(ssize_t n) {
    if (n < 0 && (errno == EINTR || errno == EWOULDBLOCK))
        errno = EAGAIN;
    return n;
}

ssize_t tl__socket_receive(int fd, char *to, size_t room) {
    return outcome(recv(fd, to, room, 0));
}

ssize_t tl__socket_send(int fd, const char *from, size_t n) {
    return outcome(send(fd, from, n, MSG_NOSIGNAL));
}

void tl__socket_shut(int fd) {
    int saved = errno;
    (void)shutdown(fd, SHUT_RDWR);
    errno = saved;
}

void tl__socket_close(int fd) {
    int saved = errno;
    (void)close(fd);
    errno = saved;
}
