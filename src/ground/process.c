/*
 * The only file that asks the system for the identity of this process.
 */
#include "ground/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "ground/guard.h"

#define PAGE 4096

/* A mark is a page that the kernel wipes in a forked child. Kernels before 4.14 and some sandboxes can't do
 * that. There a function that fork() calls in the child clears all marks; a child made otherwise (by a bare
 * clone) does not call it. */
typedef struct mark {
    volatile unsigned char here; /* first */
    bool listed;
    struct mark *next;
} mark;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static mark *marks;
static bool watched;

tl_process tl__process_this(void) {
    struct utsname names;
    tl_process p = {.pid = getpid(), .program = program_invocation_short_name};
    (void)snprintf(p.host, sizeof p.host, "%s", uname(&names) == 0 ? names.nodename : "?");
    return p;
}

static void before_fork(void) {
    (void)pthread_mutex_lock(&mutex);
}

static void in_parent(void) {
    (void)pthread_mutex_unlock(&mutex);
}

static void in_child(void) {
    for (mark *m = marks; m; m = m->next)
        if (GUARD(fork_without_wiping))
            m->here = 0;
    marks = NULL;
    (void)pthread_mutex_unlock(&mutex);
}

/* False: no memory. */
static bool list(mark *m) {
    (void)pthread_mutex_lock(&mutex);
    watched = watched || pthread_atfork(before_fork, in_parent, in_child) == 0;
    bool listed = m->listed = watched;
    m->next = marks;
    if (listed)
        marks = m;
    (void)pthread_mutex_unlock(&mutex);
    return listed;
}

static void take_out(mark *m) {
    (void)pthread_mutex_lock(&mutex);
    mark **at = &marks;
    while (*at && *at != m)
        at = &(*at)->next;
    if (*at)
        *at = m->next;
    (void)pthread_mutex_unlock(&mutex);
}

const volatile unsigned char *tl__process_mark(void) {
    // cppcheck-suppress invalidFunctionArg ; -1 is right for an anonymous mapping
    mark *m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return NULL;
    if (madvise(m, PAGE, MADV_WIPEONFORK) != 0 && !list(m)) {
        (void)munmap(m, PAGE);
        return NULL;
    }
    m->here = 1;
    return &m->here;
}

void tl__process_unmark(const volatile unsigned char *here) {
    mark *m = (mark *)(uintptr_t)here;
    if (!m)
        return;
    if (m->listed)
        take_out(m);
    (void)munmap(m, PAGE);
}
