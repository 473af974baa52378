/*
 * The VMClock: a page that the hypervisor shares with a virtual machine. A number in it, the marker, changes
 * when the machine was paused, moved to another host or restored, so that its clocks may have stood still.
 * The only module that maps that page.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TL_VMCLOCK_PATH "/dev/vmclock0"
#define TL_VMCLOCK_MAGIC 0x4b4c4356U
#define TL_VMCLOCK_VERSION 1

/** The page's flags. */
#define TL_VMCLOCK_SOON (1U << 1)     /**< a disruption is expected within about a day */
#define TL_VMCLOCK_IMMINENT (1U << 2) /**< within about an hour */
#define TL_VMCLOCK_COUNTS (1U << 8)   /**< there is a generation */

/** The hypervisor's judgement of the time in the page. */
typedef enum {
    TL_VMCLOCK_UNKNOWN,
    TL_VMCLOCK_INITIALIZING,
    TL_VMCLOCK_SYNCHRONIZED,
    TL_VMCLOCK_FREERUNNING,
    TL_VMCLOCK_UNRELIABLE
} tl_vmclock_status;

/** The page as the hypervisor writes it, little-endian (Linux 6.13, linux/vmclock-abi.h). The time in it isn't
 *  used: see README.md. */
typedef struct {
    uint32_t magic;
    uint32_t size; /**< bytes of the page that have a meaning */
    uint16_t version;
    uint8_t counter, time_type;
    uint32_t
        sequence; /**< odd while the hypervisor changes what follows; then it is another number */
    uint64_t marker; /**< changes, and never to an earlier number, when the clocks were disrupted */
    uint64_t flags;
    uint8_t unused[2];
    uint8_t status; /**< a tl_vmclock_status */
    uint8_t smearing;
    uint16_t tai_offset_s;
    uint8_t leap, period_shift;
    uint64_t time[8];
    uint64_t
        generation; /**< with TL_VMCLOCK_COUNTS: changes when the machine was restored from an image */
} tl_vmclock;

/** The content of the page at one moment. */
typedef struct {
    uint64_t marker, generation;
    uint64_t flags;
    uint8_t status;
    bool torn; /**< the page can't be read: the hypervisor doesn't end its change */
} tl_vmclock_view;

/** Map the page of a device. NULL: there is none that can be used, and *ret_why says why; errno is as before. */
const tl_vmclock *tl__vmclock_open(const char *path, const char **ret_why);
/** NULL is fine. */
void tl__vmclock_close(const tl_vmclock *page);

/** Read the page; bounded. All torn views are alike, with a marker that no page has. */
tl_vmclock_view tl__vmclock_read(const tl_vmclock *page);

/** Does the page still show this marker and this generation? false while it is being changed. */
static inline bool tl__vmclock_shows(const tl_vmclock *page, uint64_t marker, uint64_t generation) {
    uint32_t before = __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE);
    bool same = __atomic_load_n(&page->marker, __ATOMIC_ACQUIRE) == marker &&
                __atomic_load_n(&page->generation, __ATOMIC_ACQUIRE) == generation;
    return same && !(before & 1) && before == __atomic_load_n(&page->sequence, __ATOMIC_RELAXED);
}
