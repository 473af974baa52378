/*
 * The only file that asks pthreads about cancellation.
 */
#include "ground/cancel.h"

#include <pthread.h>

int tl__cancel_off(void) {
    int was = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    return was;
}

void tl__cancel_back(const int *was) {
    (void)pthread_setcancelstate(*was, NULL);
}

void tl__cancel_guard(void (*work)(void *ctx), void (*undo)(void *ctx), void *ctx) {
    pthread_cleanup_push(undo, ctx);
    work(ctx);
    pthread_cleanup_pop(0);
}
