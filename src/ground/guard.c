#include "ground/guard.h"

#ifdef TL_GUARDS
#include <stdlib.h>
#include <string.h>

static const char *without;

__attribute__((constructor)) static void look(void) {
    without = getenv("TL_WITHOUT");
}

bool tl__guard(const char *name) {
    return !without || strcmp(without, name) != 0;
}
#endif
