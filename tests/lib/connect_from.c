/*
 * Stands before the C library's connect, for the program's own code, and binds a socket first.
 */
#include "connect_from.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_uint from = 1;

void connect_from(unsigned last) {
    atomic_store(&from, last);
}

static int on_loopback(const struct sockaddr *to, socklen_t size) {
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)to;
    return size >= sizeof *in && to->sa_family == AF_INET &&
           ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* A client may connect a socket twice, as to learn how that went. */
static bool is_bound(int fd) {
    struct sockaddr_in in = {.sin_port = 0};
    socklen_t size = sizeof in;
    return getsockname(fd, (struct sockaddr *)(void *)&in, &size) == 0 &&
           in.sin_addr.s_addr != INADDR_ANY;
}

/* The port is chosen when it connects: one that is used to another place may be used again. */
static int bind_to(int fd, unsigned last) {
    const int on = 1;
    const struct sockaddr_in in = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl((IN_LOOPBACKNET << 24) + last)};
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    return bind(fd, (const struct sockaddr *)&in, sizeof in);
}

/* By its name in object files: each C library declares the kind of address in a way of its own. */
int connect_bound(int fd, const struct sockaddr *to, socklen_t size) __asm__("connect");

int connect_bound(int fd, const struct sockaddr *to, socklen_t size) {
    unsigned last = atomic_load(&from);
    if (last != 1 && on_loopback(to, size) && !is_bound(fd) && bind_to(fd, last) != 0)
        return -1;
    return (int)syscall(SYS_connect, fd, to, size);
}
