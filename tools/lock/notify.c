/*
 * The socket is an abstract one, which the kernel names: it leaves no file behind, and a command of another
 * user or in another root directory reaches it. So anybody may send to it, and each message is judged by its
 * sender, whom the kernel names. Nothing here waits: a service manager that hangs must not delay the loop that
 * ends the command in time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tool.h"
#include "ground/guard.h"
#include "lock/below.h"
#include "lock/notify.h"

#define CONTROL_SIZE (CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(NOTIFY_FDS_MAX * sizeof(int)))

/* ---- addresses ------------------------------------------------------------------------------- */

bool notify_read_address(const char *value, notify_address *ret) {
    size_t n = strlen(value);

    *ret = (notify_address){.address = {.sun_family = AF_UNIX}};
    if ((value[0] != '/' && value[0] != '@') || n < 2 || n >= sizeof ret->address.sun_path)
        return false;
    memcpy(ret->address.sun_path, value, n);
    if (value[0] == '@')
        ret->address.sun_path[0] = '\0';
    ret->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (value[0] == '/'));
    return true;
}

/* The name that the kernel has chosen, as text. */
static int read_name(notify *notify) {
    struct sockaddr_un address;
    socklen_t length = sizeof address;

    if (getsockname(notify->fd, (struct sockaddr *)&address, &length))
        return -1;
    size_t n = length - offsetof(struct sockaddr_un, sun_path);
    (void)snprintf(notify->name, sizeof notify->name, "@%.*s", (int)n - 1, address.sun_path + 1);
    return 0;
}

int64_t notify_outer_watchdog_us(void) {
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    bool ours = getenv("NOTIFY_SOCKET") && us && (!pid || strtoll(pid, NULL, 10) == getpid());
    int64_t n = ours ? strtoll(us, NULL, 10) : 0;

    return n > 0 && n < INT64_MAX ? n : 0;
}

int notify_begin(notify *ret) {
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    const char *outer = getenv("NOTIFY_SOCKET");
    int on = 1;

    *ret = (notify){.outer_fd = -1, .feeds_outer = notify_outer_watchdog_us() > 0};
    if (outer && *outer && !notify_read_address(outer, &ret->outer))
        say_if_free(
            "NOTIFY_SOCKET=%s: it is neither a path nor an abstract name, so that nothing is "
            "passed on",
            outer);
    ret->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (ret->fd >= 0 && setsockopt(ret->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
        bind(ret->fd, (const struct sockaddr *)&any, sizeof any.sun_family) == 0 &&
        read_name(ret) == 0)
        return 0;
    int why = errno;
    notify_end(ret);
    errno = why;
    return -1;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool is_line(const char *line, size_t n, const char *text) {
    return n == strlen(text) && memcmp(line, text, n) == 0;
}

static bool begins(const char *line, size_t n, const char *text) {
    return n >= strlen(text) && memcmp(line, text, strlen(text)) == 0;
}

/* Is the line about the watchdog? */
static bool read_sign(const char *line, size_t n, notify_signs *ret) {
    if (is_line(line, n, "WATCHDOG=1"))
        ret->alive = true;
    else if (is_line(line, n, "WATCHDOG=trigger"))
        ret->stalled = true;
    else if (begins(line, n, "WATCHDOG_USEC="))
        ret->timeout = true;
    else
        return false;
    return true;
}

size_t notify_sort(const char *text, size_t n, bool keep_alive, notify_signs *ret, char *rest) {
    size_t used = 0;

    *ret = (notify_signs){.alive = false};
    for (size_t at = 0; at < n;) {
        const char *line = text + at, *end = memchr(line, '\n', n - at);
        size_t length = end ? (size_t)(end - line) : n - at, whole = length + (end != NULL);
        bool sign = read_sign(line, length, ret);
        if (!sign || (keep_alive && is_line(line, length, "WATCHDOG=1"))) {
            memcpy(rest + used, line, whole);
            used += whole;
        }
        at += whole;
    }
    return used;
}

/* ---- passing on ------------------------------------------------------------------------------ */

static void close_all(const int *fds, int count) {
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static void forget(notify_message *message) {
    close_all(message->fds, message->fd_count);
    free(message->text);
    free(message->fds);
}

/* Once: a service may send many. */
static void note_failure(notify *notify, const char *why) {
    if (!notify->failed)
        say_if_free("notifications are not passed on to NOTIFY_SOCKET: %s", why);
    notify->failed = true;
}

/* They must leave descriptors to tidelock itself: it renews the lock. */
static bool has_room(const notify *notify, int fd_count) {
    int count = fd_count;

    for (int i = 0; i < notify->pending_count; i++)
        count += notify->pending[i].fd_count;
    return notify->pending_count < NOTIFY_PENDING_MAX &&
           (count <= NOTIFY_FDS_MAX || !GUARD(pending_descriptors_are_few));
}

/* The descriptors of `of` are taken over, its text is copied. */
static void keep(notify *notify, const notify_message *of) {
    notify_message message = *of;
    size_t size = (size_t)of->fd_count * sizeof *of->fds;

    message.text = malloc(of->n);
    message.fds = size > 0 ? malloc(size) : NULL;
    if (!has_room(notify, of->fd_count) || !message.text || (size > 0 && !message.fds)) {
        note_failure(notify, "its reader does not read");
        close_all(of->fds, of->fd_count);
        free(message.text);
        free(message.fds);
        return;
    }
    memcpy(message.text, of->text, of->n);
    if (size > 0)
        memcpy(message.fds, of->fds, size);
    notify->pending[notify->pending_count++] = message;
}

static void attach(struct msghdr *header, int type, const void *data, size_t n) {
    struct cmsghdr *c = (void *)((char *)header->msg_control + header->msg_controllen);

    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = type, .cmsg_len = CMSG_LEN(n)};
    memcpy(CMSG_DATA(c), data, n);
    header->msg_controllen += CMSG_SPACE(n);
}

/* A service manager accepts any process in MAINPID= from root. So root must not lend its identity to another user. */
static bool send_out(const notify *notify, const notify_message *message) {
    _Alignas(struct cmsghdr) char control[CONTROL_SIZE] = {0};
    const struct ucred sender = {.pid = getpid(), .uid = message->uid, .gid = message->gid};
    struct iovec text = {.iov_base = message->text, .iov_len = message->n};
    struct msghdr header = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = control};

    if (message->fd_count > 0)
        attach(&header, SCM_RIGHTS, message->fds, (size_t)message->fd_count * sizeof(int));
    if (geteuid() == 0 && message->uid != 0 && GUARD(root_lends_no_identity))
        attach(&header, SCM_CREDENTIALS, &sender, sizeof sender);
    return sendmsg(notify->outer_fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

static void disconnect_outer(notify *notify) {
    if (notify->outer_fd >= 0)
        close(notify->outer_fd);
    notify->outer_fd = -1;
}

/* Connected, so that poll() says when it has room. */
static bool connect_outer(notify *notify) {
    if (notify->outer_fd >= 0)
        return true;
    notify->outer_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify->outer_fd >= 0 &&
        connect(notify->outer_fd, (const struct sockaddr *)&notify->outer.address,
                notify->outer.length) == 0)
        return true;
    note_failure(notify, strerror(errno));
    disconnect_outer(notify);
    return false;
}

/* True: the message was sent, or never will be. A reader that was started again has a new socket of the same
 * name, which only a new connection reaches. */
static bool is_over(notify *notify, const notify_message *message) {
    if (!connect_outer(notify) || send_out(notify, message))
        return true;
    if (errno == ECONNREFUSED && GUARD(outer_starts_again)) {
        disconnect_outer(notify);
        if (!connect_outer(notify) || send_out(notify, message))
            return true;
    }
    if (errno == EAGAIN || errno == EINTR)
        return false;
    note_failure(notify, strerror(errno));
    return true;
}

bool notify_is_pending(const notify *notify) {
    return notify->pending_count > 0;
}

void notify_flush(notify *notify) {
    int done = 0;

    while (done < notify->pending_count && is_over(notify, &notify->pending[done]))
        forget(&notify->pending[done++]);
    notify->pending_count -= done;
    memmove(notify->pending, notify->pending + done,
            (size_t)notify->pending_count * sizeof *notify->pending);
}

/* To close the descriptors is the end of a barrier. That of a sign says that this run has read it. */
static void pass_on(notify *notify, notify_message message) {
    bool goes_on = message.n > 0 && notify->outer.length > 0;

    if (!goes_on ||
        (is_line(message.text, message.n, "WATCHDOG=1") && GUARD(sign_keeps_its_descriptor))) {
        close_all(message.fds, message.fd_count);
        message.fd_count = 0;
    }
    if (!goes_on)
        return;
    keep(notify, &message);
    notify_flush(notify);
}

void notify_end(notify *notify) {
    notify_flush(notify);
    while (notify->pending_count > 0)
        forget(&notify->pending[--notify->pending_count]);
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
    disconnect_outer(notify);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
    char text[NOTIFY_TEXT_MAX];
    size_t n;
    struct ucred sender; /* pid 0: not known, or not in our namespace of processes */
    int fds[NOTIFY_FDS_MAX];
    int fd_count;
    bool cut; /* it was longer, or not all of its descriptors could be received */
} datagram;

static void read_control(struct msghdr *header, datagram *ret) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        size_t size = c->cmsg_len - CMSG_LEN(0);
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_CREDENTIALS && size == sizeof ret->sender)
            memcpy(&ret->sender, CMSG_DATA(c), size);
        if (c->cmsg_type == SCM_RIGHTS && size <= sizeof ret->fds) {
            memcpy(ret->fds, CMSG_DATA(c), size);
            ret->fd_count = (int)(size / sizeof(int));
        }
    }
}

static bool receive(const notify *notify, datagram *ret) {
    _Alignas(struct cmsghdr) char control[CONTROL_SIZE];
    struct iovec text = {.iov_base = ret->text, .iov_len = sizeof ret->text};
    struct msghdr header = {.msg_iov = &text,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control};
    ssize_t n;

    do
        n = recvmsg(notify->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return false;
    ret->n = (size_t)n;
    ret->sender = (struct ucred){.pid = 0};
    ret->fd_count = 0;
    read_control(&header, ret);
    ret->cut = header.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    return true;
}

/* Is it a process of the command? One that has ended can't be looked up. It is believed if it had our user: such
 * a process could as well signal the command, or trace it. */
static bool is_of_command(const struct ucred *sender, pid_t supervisor) {
    below_place place = sender->pid > 0 ? below_find(sender->pid, supervisor) : BELOW_NOT;

    if (place == BELOW_UNKNOWN)
        return sender->uid == geteuid();
    return place == BELOW_IS || !GUARD(only_the_command_feeds);
}

static void note_stranger(notify *notify, const datagram *datagram, const char *key) {
    if (!notify->strange)
        say_if_free("%s: a notification of process %ld is ignored: the command has not started it",
                    key, (long)datagram->sender.pid);
    notify->strange = true;
}

bool notify_read(notify *notify, pid_t supervisor, const char *key, notify_signs *ret) {
    static datagram datagram;
    static char rest[NOTIFY_TEXT_MAX];

    *ret = (notify_signs){.alive = false};
    if (!receive(notify, &datagram))
        return false;
    bool strange = !is_of_command(&datagram.sender, supervisor);
    if (strange)
        note_stranger(notify, &datagram, key);
    if (strange || datagram.cut) {
        close_all(datagram.fds, datagram.fd_count);
        return true;
    }
    pass_on(notify, (notify_message){
                        .text = rest,
                        .n = notify_sort(datagram.text, datagram.n, notify->feeds_outer, ret, rest),
                        .fds = datagram.fds,
                        .fd_count = datagram.fd_count,
                        .uid = datagram.sender.uid,
                        .gid = datagram.sender.gid});
    return true;
}
