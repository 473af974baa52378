/*
 * The VMClock's page: which one is used, and that a change of it is read whole or not at all.
 */
#include "tests.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ground/vmclock.h"

/* The kernel's own description, where it is installed. */
#if __has_include(<linux/vmclock-abi.h>)
#include <linux/vmclock-abi.h>
#define SAME(ours, its)                                                                            \
    _Static_assert(offsetof(tl_vmclock, ours) == offsetof(struct vmclock_abi, its) &&              \
                       sizeof(((tl_vmclock *)0)->ours) == sizeof(((struct vmclock_abi *)0)->its),  \
                   #its)
SAME(magic, magic);
SAME(size, size);
SAME(version, version);
SAME(counter, counter_id);
SAME(time_type, time_type);
SAME(sequence, seq_count);
SAME(marker, disruption_marker);
SAME(flags, flags);
SAME(status, clock_status);
SAME(tai_offset_s, tai_offset_sec);
SAME(leap, leap_indicator);
SAME(period_shift, counter_period_shift);
_Static_assert(offsetof(tl_vmclock, time) == offsetof(struct vmclock_abi, counter_value), "time");
_Static_assert(TL_VMCLOCK_MAGIC == VMCLOCK_MAGIC &&
                   TL_VMCLOCK_SOON == VMCLOCK_FLAG_DISRUPTION_SOON &&
                   TL_VMCLOCK_IMMINENT == VMCLOCK_FLAG_DISRUPTION_IMMINENT &&
                   TL_VMCLOCK_SYNCHRONIZED == VMCLOCK_STATUS_SYNCHRONIZED &&
                   TL_VMCLOCK_FREERUNNING == VMCLOCK_STATUS_FREERUNNING &&
                   TL_VMCLOCK_UNRELIABLE == VMCLOCK_STATUS_UNRELIABLE,
               "values");
#ifdef VMCLOCK_FLAG_VM_GEN_COUNTER_PRESENT
SAME(generation, vm_generation_counter);
_Static_assert(TL_VMCLOCK_COUNTS == VMCLOCK_FLAG_VM_GEN_COUNTER_PRESENT &&
                   sizeof(tl_vmclock) == sizeof(struct vmclock_abi),
               "generation");
#endif
#endif

static const tl_vmclock usual = {.magic = TL_VMCLOCK_MAGIC,
                                 .size = 4096,
                                 .version = 1,
                                 .sequence = 4,
                                 .marker = 11,
                                 .flags = TL_VMCLOCK_COUNTS,
                                 .status = TL_VMCLOCK_SYNCHRONIZED,
                                 .generation = 5};
static char path[64];

/* A file that begins with this page, mapped for the writer. */
static tl_vmclock *file_of(const tl_vmclock *page, off_t size) {
    (void)snprintf(path, sizeof path, "/tmp/vmclock.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    tl_vmclock *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(mapped, MAP_FAILED);
    *mapped = *page;
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
    return mapped;
}

static const tl_vmclock *opened(const char **ret_why) {
    *ret_why = NULL;
    errno = 42;
    const tl_vmclock *page = tl__vmclock_open(path, ret_why);
    assert_int_equal(errno, 42);
    return page;
}

/* The hypervisor writes the low byte of a number first. */
static const bool in_its_order = __BYTE_ORDER == __LITTLE_ENDIAN;

static void assert_refused(tl_vmclock page, off_t size, const char *message) {
    const char *why;
    if (!in_its_order && size >= (off_t)sizeof page)
        message = "not read on big-endian machines";
    tl_vmclock *mapped = file_of(&page, size);
    assert_null(opened(&why));
    assert_string_equal(why, message);
    munmap(mapped, 4096);
    unlink(path);
}

TEST(a_page_is_read) {
    const char *why;
    if (!in_its_order) {
        assert_refused(usual, 4096, NULL);
        return;
    }
    tl_vmclock *writer = file_of(&usual, 4096);
    const tl_vmclock *page = opened(&why);
    assert_non_null(page);
    unlink(path); /* the page stays */
    tl_vmclock_view view = tl__vmclock_read(page);
    assert_int_equal(view.marker, 11);
    assert_int_equal(view.generation, 5);
    assert_int_equal(view.status, TL_VMCLOCK_SYNCHRONIZED);
    assert_false(view.torn);
    assert_true(tl__vmclock_shows(page, 11, 5));
    assert_false(tl__vmclock_shows(page, 10, 5));
    assert_false(tl__vmclock_shows(page, 11, 4));
    writer->marker++;
    assert_false(tl__vmclock_shows(page, 11, 5));
    tl__vmclock_close(page);
    munmap(writer, 4096);
}

TEST(a_page_without_a_generation_is_read) {
    const char *why;
    tl_vmclock page = usual;
    page.flags = 0;
    page.size = 104;
    if (!in_its_order) {
        assert_refused(page, 4096, NULL);
        return;
    }
    tl_vmclock *writer = file_of(&page, 4096);
    const tl_vmclock *mapped = opened(&why);
    assert_non_null(mapped);
    tl__vmclock_close(mapped);
    munmap(writer, 4096);
    unlink(path);
}

TEST(what_is_not_understood_is_none) {
    tl_vmclock page = usual;
    page.magic++;
    assert_refused(page, 4096, "it is no VMClock");
    page = usual;
    page.version = 2;
    assert_refused(page, 4096, "its version is not known");
    page = usual;
    page.size = 103;
    assert_refused(page, 4096, "it is too short");
    assert_refused(usual, 111, "it is too short");
    assert_refused(usual, 0, "it is too short");
    page = usual;
    page.sequence = 5;
    assert_refused(page, 4096, "the hypervisor doesn't end a change of it");
    const char *why;
    assert_null(opened(&why)); /* the file has gone */
    assert_string_equal(why, "there is none");
    tl__vmclock_close(NULL);
}

TEST(a_change_that_does_not_end_is_told_and_ends_no_loop) {
    tl_vmclock page = usual;
    page.sequence++;
    tl_vmclock_view view = tl__vmclock_read(&page);
    assert_true(view.torn);
    assert_true(view.marker == UINT64_MAX);
    assert_false(tl__vmclock_shows(&page, 11, 5));
}

static atomic_bool over;

/* The two numbers are always the same, but while they are changed. */
static void *write_on(void *ctx) {
    tl_vmclock *page = ctx;
    for (uint64_t n = 1; !atomic_load(&over); n++) {
        __atomic_fetch_add(&page->sequence, 1, __ATOMIC_RELAXED);
        __sync_synchronize();
        __atomic_store_n(&page->marker, n, __ATOMIC_RELAXED);
        __atomic_store_n(&page->generation, n, __ATOMIC_RELAXED);
        __atomic_fetch_add(&page->sequence, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

TEST(a_change_is_read_whole) {
    static tl_vmclock page;
    pthread_t writer;
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&writer, NULL, write_on, &page), 0);
    for (int whole = 0; whole < 100000;) {
        tl_vmclock_view view = tl__vmclock_read(&page);
        whole += !view.torn;
        if (!view.torn)
            assert_int_equal(view.marker, view.generation);
    }
    atomic_store(&over, true);
    pthread_join(writer, NULL);
}
