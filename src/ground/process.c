/*
 * The only file that asks who this process is.
 */
#include "ground/process.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PAGE 4096

tl_process tl__process_this(void) {
    struct utsname names;
    tl_process p = {.pid = getpid(), .program = program_invocation_short_name};
    (void)snprintf(p.host, sizeof p.host, "%s", uname(&names) == 0 ? names.nodename : "?");
    return p;
}

/* A page that the kernel wipes in the child. */
const volatile unsigned char *tl__process_mark(void) {
    // cppcheck-suppress invalidFunctionArg ; -1 is right for an anonymous mapping
    unsigned char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                               0);
    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, PAGE, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, PAGE);
        return NULL;
    }
    page[0] = 1;
    return page;
}

void tl__process_unmark(const volatile unsigned char *mark) {
    if (mark)
        (void)munmap((void *)(uintptr_t)mark, PAGE);
}
