/*
 * Several items at once: see at_once.h.
 */
#include "base/at_once.h"

#include <pthread.h>
#include <stdbool.h>

static void run(void *(*work)(void *item), char *items, size_t size, unsigned count) {
    pthread_t thread[AT_ONCE];
    bool started[AT_ONCE];

    for (unsigned i = 0; i < count; i++)
        started[i] = pthread_create(&thread[i], NULL, work, items + i * size) == 0;
    for (unsigned i = 0; i < count; i++)
        if (started[i])
            (void)pthread_join(thread[i], NULL);
        else
            (void)work(items + i * size);
}

void at_once(void *(*work)(void *item), void *items, size_t size, unsigned count) {
    for (unsigned from = 0; from < count; from += AT_ONCE)
        run(work, (char *)items + from * size, size,
            count - from < AT_ONCE ? count - from : AT_ONCE);
}
