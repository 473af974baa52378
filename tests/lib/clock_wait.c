/*
 * The clock of tests that wait for something real.
 */
#include "clock_wait.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAP_LEAST_US 200
#define NAP_MOST_US 5000
#define VALGRIND_FACTOR 5
#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
#define BUILD_FACTOR (SANITIZED ? 2 : 1)

int64_t clock_us(void) {
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_ms(void) {
    return clock_us() / 1000;
}

int64_t clock_patient_ms(int64_t ms) {
    const char *valgrind = getenv("VALGRIND");
    return ms * (valgrind && strcmp(valgrind, "1") == 0 ? VALGRIND_FACTOR : BUILD_FACTOR);
}

clock_wait clock_wait_begin(int64_t bound_ms) {
    int64_t now_us = clock_us();
    return (clock_wait){now_us, now_us / 1000 + bound_ms};
}

bool clock_wait_more(const clock_wait *wait) {
    int64_t now_us = clock_us(), nap_us = (now_us - wait->since_us) / 16;
    if (now_us / 1000 >= wait->until_ms)
        return false;
    nap_us = nap_us < NAP_LEAST_US ? NAP_LEAST_US : nap_us > NAP_MOST_US ? NAP_MOST_US : nap_us;
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)nap_us * 1000}, NULL);
    return true;
}
