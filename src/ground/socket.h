/*
 * Sockets: connect, send, receive. Each one is close-on-exec and non-blocking, and no write to it raises
 * SIGPIPE. The only module that calls the system for connections; wait.h waits for them.
 */
#pragma once

#include <stddef.h>
#include <sys/socket.h>

typedef struct {
    socklen_t size;
    struct sockaddr_storage at;
} tl_address;

/** Begin to connect a new socket. 0: it is connected; EINPROGRESS: writable when that is decided; EAGAIN: the
 *  queue of who listens there is full (unix), try again later; else the errno. *ret_fd: -1, or to be closed in
 *  any case. */
int tl__socket_connect(const tl_address *to, int *ret_fd);

/** What came of it: 0, EINPROGRESS as long as it isn't decided, or the errno. */
int tl__socket_connected(int fd);

/** Bytes; 0: the far end has closed; -1 and errno, of which EAGAIN says: none at present. */
ssize_t tl__socket_receive(int fd, char *to, size_t room);
/** Bytes, or -1 and errno, of which EAGAIN says: no room at present. */
ssize_t tl__socket_send(int fd, const char *from, size_t n);

/** Have it end, as if the far end had closed: whichever thread waits for it finds that. Not to be mixed up with
 *  tl__socket_close, which only its owner may call. errno stays. */
void tl__socket_shut(int fd);

/** errno stays. */
void tl__socket_close(int fd);
