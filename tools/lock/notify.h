/*
 * Notifications as services send them (sd_notify(3)): a datagram of lines NAME=VALUE to the socket that
 * NOTIFY_SOCKET names. Those about the watchdog are for this run. All others are passed on to the socket that
 * NOTIFY_SOCKET names for tidelock itself, if there is one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define NOTIFY_NAME_SIZE 112  /**< a socket's address as text */
#define NOTIFY_TEXT_MAX 4096  /**< bytes of a message; systemd has the same limit */
#define NOTIFY_FDS_MAX 253    /**< descriptors of a message, as in the kernel, and of all pending */
#define NOTIFY_PENDING_MAX 64 /**< messages that wait until the outer socket has room */

typedef struct {
    struct sockaddr_un address;
    socklen_t length; /**< 0: there is none */
} notify_address;

/** Read the value of NOTIFY_SOCKET: "/PATH", or "@NAME" in the abstract namespace. False: it is neither. */
bool notify_read_address(const char *value, notify_address *ret);

/** The lines about the watchdog in a message. */
typedef struct {
    bool alive;   /**< WATCHDOG=1 */
    bool stalled; /**< WATCHDOG=trigger */
    bool timeout; /**< WATCHDOG_USEC=... */
} notify_signs;

/**
 * Sort the lines of a message: those about the watchdog into ret, the others to `rest`, which has room for
 * n bytes. keep_alive: WATCHDOG=1 goes there, too. Returns the bytes of `rest`.
 */
size_t notify_sort(const char *text, size_t n, bool keep_alive, notify_signs *ret, char *rest);

/** A message that is to be passed on. */
typedef struct {
    char *text;
    size_t n;
    int *fds;
    int fd_count;
    uid_t uid; /**< the sender's */
    gid_t gid;
} notify_message;

typedef struct {
    int fd;                      /**< the command's socket; -1: there is none */
    char name[NOTIFY_NAME_SIZE]; /**< NOTIFY_SOCKET for the command */
    bool feeds_outer;            /**< a watchdog around this run wants signs of life as well */
    bool strange;                /**< that a process is not of the command was reported */
    bool failed;                 /**< that messages are not passed on was reported */
    notify_address outer;
    int outer_fd; /**< connected to it; -1: not yet */
    notify_message pending[NOTIFY_PENDING_MAX];
    int pending_count;
} notify;

/** Open a socket for a command. Returns 0, or -1 and errno. */
int notify_begin(notify *ret);
/** Pass on what can be passed on without waiting, and close. */
void notify_end(notify *notify);

/** Should notify_flush be called when outer_fd is writable? */
bool notify_is_pending(const notify *notify);
/** Pass on pending messages, without waiting. */
void notify_flush(notify *notify);

/**
 * Read one message, without waiting, and pass on what is not about the watchdog. Only processes below the
 * supervisor are listened to, and processes of our user that have ended meanwhile. False: there is no message.
 * key: for messages.
 */
bool notify_read(notify *notify, pid_t supervisor, const char *key, notify_signs *ret);

/** Microseconds of the outer watchdog that expects signs of life of this process; 0: there is none. */
int64_t notify_outer_watchdog_us(void);
