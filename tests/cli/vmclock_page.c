/*
 * To be preloaded: /dev/vmclock0 is the file VMCLOCK_PAGE.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *path_of(const char *path) {
    const char *page = getenv("VMCLOCK_PAGE");
    return page && strcmp(path, "/dev/vmclock0") == 0 ? page : path;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        static int (*next)(const char *, int, ...);                                                \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        int mode = va_arg(rest, int);                                                              \
        va_end(rest);                                                                              \
        if (!next)                                                                                 \
            next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);                       \
        return next(path_of(path), flags, mode);                                                   \
    }
OPEN(open)
OPEN(open64)
