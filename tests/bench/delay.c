/*
 * One process, one epoll. What arrives is stamped and queued, and written when its time has come;
 * within a connection nothing overtakes. Meant for small messages: a peer that doesn't read holds up
 * everybody.
 */
#include "delay.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define DELAYS_MAX 12
#define ENDS_MAX 8192 /* two to a connection */
#define READ_SIZE 65536
#define SPIN_NS 100000 /* before something is due: a timer that wakes a core is later than that */
#define LISTENER ENDS_MAX
#define TIMER (ENDS_MAX + 1)

typedef struct chunk {
    struct chunk *next;
    int64_t due;
    int to;        /* an end */
    unsigned life; /* of that end: it may have been closed since */
    size_t n;      /* 0: the other side has closed */
    char bytes[];
} chunk;

struct delay {
    pid_t pid; /* 0: this one is free */
    int port;
    _Atomic int64_t *ns; /* shared with the process */
};

static struct delay made[DELAYS_MAX];

/* What the process itself works with. */
static struct {
    int server_port;
    _Atomic int64_t *delay_ns;
    int listener, epoll, timer;
    int fd[ENDS_MAX]; /* of end i; its other side is end i ^ 1; -1 free */
    unsigned life[ENDS_MAX];
    int64_t opened_ns[ENDS_MAX];
    chunk *first, *last; /* by `due` */
} d;

static struct sockaddr_in local(int port) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return in;
}

static void watch(int fd, uint32_t what) {
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = what};
    if (epoll_ctl(d.epoll, EPOLL_CTL_ADD, fd, &e) != 0)
        die("delay: epoll: %s", strerror(errno));
}

/* ---- connections ----------------------------------------------------------------------------- */

static void close_pair(int end) {
    for (int i = end & ~1; i <= (end | 1); i++) {
        (void)close(d.fd[i]);
        d.fd[i] = -1;
        d.life[i]++;
    }
}

static int free_end(void) {
    for (int end = 0; end < ENDS_MAX; end += 2)
        if (d.fd[end] < 0)
            return end;
    die("delay: more than %d connections", ENDS_MAX / 2);
}

static void accept_one(void) {
    const struct sockaddr_in in = local(d.server_port);
    const int on = 1;
    int end = free_end();
    int near = accept4(d.listener, NULL, NULL, SOCK_CLOEXEC);
    int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (near < 0 || far < 0 || connect(far, (const struct sockaddr *)&in, sizeof in) != 0)
        die("delay: no further connection: %s", strerror(errno));
    (void)setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    d.fd[end] = near;
    d.fd[end + 1] = far;
    d.opened_ns[end] = d.opened_ns[end + 1] = now_ns();
    watch(near, (uint32_t)end);
    watch(far, (uint32_t)end + 1);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The kernel has agreed to the connection without any delay: the way there and back that this would
 * have taken is added to what comes first. */
static int64_t due(int end) {
    int64_t delay = atomic_load(d.delay_ns);
    int64_t at = now_ns() + delay, least = d.opened_ns[end] + 3 * delay;
    return at > least ? at : least;
}

/* Behind all that are due no later. */
static void queue(chunk *c) {
    chunk **to = &d.first;
    if (d.last && d.last->due <= c->due)
        to = &d.last->next;
    while (*to && (*to)->due <= c->due)
        to = &(*to)->next;
    c->next = *to;
    *to = c;
    if (!c->next)
        d.last = c;
}

static void take_in(int end) {
    static char buffer[READ_SIZE];
    ssize_t n = recv(d.fd[end], buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    size_t size = n > 0 ? (size_t)n : 0;
    chunk *c = malloc(sizeof *c + size);
    if (!c)
        die("delay: out of memory");
    *c = (chunk){.due = due(end), .to = end ^ 1, .life = d.life[end ^ 1], .n = size};
    memcpy(c->bytes, buffer, size);
    queue(c);
    if (size == 0) /* its last word: nothing more to hear */
        (void)epoll_ctl(d.epoll, EPOLL_CTL_DEL, d.fd[end], NULL);
}

static void hand_on(const chunk *c) {
    if (d.life[c->to] != c->life)
        return;
    for (size_t done = 0; done < c->n;) {
        ssize_t n = send(d.fd[c->to], c->bytes + done, c->n - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            close_pair(c->to);
            return;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    if (c->n == 0)
        close_pair(c->to);
}

static void hand_on_what_is_due(void) {
    while (d.first && d.first->due <= now_ns()) {
        chunk *c = d.first;
        d.first = c->next;
        if (!d.first)
            d.last = NULL;
        hand_on(c);
        free(c);
    }
}

/* Sleep until something arrives or is nearly due; the limit of epoll_wait. */
static int set_timer(void) {
    struct itimerspec spec = {0};
    if (!d.first)
        return -1;
    int64_t at = d.first->due - SPIN_NS;
    if (at <= now_ns())
        return 0;
    spec.it_value.tv_sec = (time_t)(at / SECOND);
    spec.it_value.tv_nsec = (long)(at % SECOND);
    (void)timerfd_settime(d.timer, TFD_TIMER_ABSTIME, &spec, NULL);
    return -1;
}

static void once(void) {
    struct epoll_event events[64];
    uint64_t ticks;
    int n = epoll_wait(d.epoll, events, 64, set_timer());
    for (int i = 0; i < n; i++) {
        uint32_t what = events[i].data.u32;
        if (what == LISTENER)
            accept_one();
        else if (what == TIMER)
            (void)!read(d.timer, &ticks, sizeof ticks);
        else if (d.fd[what] >= 0)
            take_in((int)what);
    }
    hand_on_what_is_due();
}

__attribute__((noreturn)) static void serve(pid_t parent) {
    const struct sched_param first = {.sched_priority = 1};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sched_setscheduler(0, SCHED_FIFO, &first); /* on time where we may, else as can be */
    if (getppid() != parent)
        _exit(0);
    for (int i = 0; i < ENDS_MAX; i++)
        d.fd[i] = -1;
    d.epoll = epoll_create1(EPOLL_CLOEXEC);
    d.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    watch(d.listener, LISTENER);
    watch(d.timer, TIMER);
    for (;;)
        once();
}

/* ---- from outside ---------------------------------------------------------------------------- */

void delay_free(delay *it) {
    if (!it || !it->pid)
        return;
    (void)kill(it->pid, SIGKILL);
    (void)waitpid(it->pid, NULL, 0);
    (void)munmap((void *)it->ns, sizeof *it->ns);
    *it = (delay){0};
}

static void stop(void) {
    for (int i = 0; i < DELAYS_MAX; i++)
        delay_free(&made[i]);
}

static delay *free_one(void) {
    for (int i = 0; i < DELAYS_MAX; i++)
        if (!made[i].pid)
            return &made[i];
    die("delay: more than %d of them", DELAYS_MAX);
}

static int listen_anywhere(void) {
    struct sockaddr_in in = local(0);
    socklen_t size = sizeof in;
    d.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (d.listener < 0 || bind(d.listener, (struct sockaddr *)&in, sizeof in) != 0 ||
        listen(d.listener, ENDS_MAX) != 0 ||
        getsockname(d.listener, (struct sockaddr *)&in, &size) != 0)
        die("delay: listen: %s", strerror(errno));
    return ntohs(in.sin_port);
}

delay *delay_start(int port) {
    const int access = PROT_READ | PROT_WRITE;
    // cppcheck-suppress invalidFunctionArg ; -1 is right for an anonymous mapping
    void *page = mmap(NULL, sizeof *d.delay_ns, access, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static bool registered;
    pid_t parent = getpid();
    if (page == MAP_FAILED)
        die("delay: %s", strerror(errno));
    delay *it = free_one();
    it->ns = d.delay_ns = page;
    d.server_port = port;
    it->port = listen_anywhere();
    it->pid = fork();
    if (it->pid < 0)
        die("delay: fork: %s", strerror(errno));
    if (it->pid == 0)
        serve(parent);
    (void)close(d.listener);
    if (!registered)
        (void)atexit(stop);
    registered = true;
    return it;
}

int delay_port(const delay *it) {
    return it->port;
}

void delay_set(delay *it, int64_t ns) {
    atomic_store(it->ns, ns);
}
