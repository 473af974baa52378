/*
 * Sockets: connect, send, receive. Each socket is close-on-exec and non-blocking, and no write to it raises
 * SIGPIPE. The only module that calls the system for connections; wait.h waits until a socket is ready.
 */
#pragma once

#include <stddef.h>
#include <sys/socket.h>

typedef struct {
    socklen_t size;
    struct sockaddr_storage at;
} tl_address;

/** Begin to connect a new socket. 0: it is connected; EINPROGRESS: the socket becomes writable when the
 *  outcome is known; EAGAIN: the listener's backlog is full (unix), try again later; else the errno. *ret_fd:
 *  -1, or a descriptor that the caller must close in any case. */
int tl__socket_connect(const tl_address *to, int *ret_fd);

/** The outcome of the connect: 0, EINPROGRESS while it is still open, or the errno. */
int tl__socket_connected(int fd);

/** Returns the number of bytes; 0: the peer has closed; -1 with errno, where EAGAIN means: nothing to read at
 *  present. */
ssize_t tl__socket_receive(int fd, char *to, size_t room);
/** Returns the number of bytes, or -1 with errno, where EAGAIN means: no room at present. */
ssize_t tl__socket_send(int fd, const char *from, size_t n);

/** Shut the connection down, as if the peer had closed it: a thread that waits for the socket wakes up. Any
 *  thread; in contrast, only the owner may call tl__socket_close. Preserves errno. */
void tl__socket_shut(int fd);

/** Preserves errno. */
void tl__socket_close(int fd);
