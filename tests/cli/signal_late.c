/*
 * To be preloaded into `tidelock run --watchdog`: the signal SIGNAL_LATE comes after the lock was acquired, and before the command
 * is started. At that time the socket of the watchdog, the only one for datagrams, is made.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int socket(int domain, int type, int protocol) {
    const char *late = getenv("SIGNAL_LATE");

    if (late && (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_DGRAM)
        (void)kill(getpid(), atoi(late));
    return (int)syscall(SYS_socket, domain, type, protocol);
}
