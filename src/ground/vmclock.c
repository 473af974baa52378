/*
 * The only file that maps the VMClock. A page that can't be understood is as none: nothing may depend on a
 * guess about it.
 */
#include "ground/vmclock.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ground/guard.h"

#define PAGE 4096
#define TRIES 1000 /* a few microseconds: a change takes less, unless its writer is interrupted */

_Static_assert(offsetof(tl_vmclock, generation) == 104 && sizeof(tl_vmclock) == 112,
               "as the hypervisor writes it");

tl_vmclock_view tl__vmclock_read(const tl_vmclock *page) {
    for (int tries = 0; tries < TRIES; tries++) {
        uint32_t before = __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE);
        tl_vmclock_view view = {
            .marker = __atomic_load_n(&page->marker, __ATOMIC_ACQUIRE),
            .generation = __atomic_load_n(&page->generation, __ATOMIC_ACQUIRE),
            .flags = __atomic_load_n(&page->flags, __ATOMIC_ACQUIRE),
            .status = __atomic_load_n(&page->status, __ATOMIC_ACQUIRE),
        };
        uint32_t after = __atomic_load_n(&page->sequence, __ATOMIC_RELAXED);
        if (!GUARD(torn_page_is_read_again) || (before == after && !(before & 1)))
            return view;
    }
    return (tl_vmclock_view){.marker = UINT64_MAX, .torn = true};
}

static const char *flaw(const tl_vmclock *page) {
    if (__BYTE_ORDER != __LITTLE_ENDIAN)
        return "not read on big-endian machines";
    if (page->magic != TL_VMCLOCK_MAGIC)
        return "it is no VMClock";
    if (page->version != TL_VMCLOCK_VERSION)
        return "its version is not known";
    if (page->size < offsetof(tl_vmclock, generation))
        return "it is too short";
    return tl__vmclock_read(page).torn ? "the hypervisor doesn't end a change of it" : NULL;
}

/* Only a device may be mapped that says nothing of its size. */
static bool is_whole(int fd) {
    struct stat at;
    return fstat(fd, &at) == 0 && (!S_ISREG(at.st_mode) || at.st_size >= (off_t)sizeof(tl_vmclock));
}

static const tl_vmclock *map(int fd, const char **ret_why) {
    if (!is_whole(fd)) {
        *ret_why = "it is too short";
        return NULL;
    }
    const tl_vmclock *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        *ret_why = "it can't be mapped";
        return NULL;
    }
    *ret_why = flaw(page);
    if (!*ret_why)
        return page;
    tl__vmclock_close(page);
    return NULL;
}

const tl_vmclock *tl__vmclock_open(const char *path, const char **ret_why) {
    int saved = errno;
    const tl_vmclock *page = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        *ret_why = errno == EACCES || errno == EPERM ? "permission denied" : "there is none";
    else
        page = map(fd, ret_why);
    if (fd >= 0)
        (void)close(fd);
    errno = saved;
    return page;
}

void tl__vmclock_close(const tl_vmclock *page) {
    int saved = errno;
    if (page)
        (void)munmap((void *)(uintptr_t)page, PAGE);
    errno = saved;
}
