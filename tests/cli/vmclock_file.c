/*
 * To be preloaded: the file that VMCLOCK_FILE names stands for the device of the hypervisor's VMClock.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_instead(const char *path, int flags, mode_t mode) {
    const char *file = getenv("VMCLOCK_FILE");
    return (int)syscall(SYS_openat, AT_FDCWD,
                        file && strcmp(path, "/dev/vmclock0") == 0 ? file : path, flags, mode);
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                  \
        va_end(rest);                                                                              \
        return open_instead(path, flags, mode);                                                    \
    }

#undef open
#undef open64
OPEN(open)
OPEN(open64)
