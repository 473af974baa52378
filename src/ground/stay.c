/*
 * The only file that calls the dynamic loader.
 */
#include "ground/stay.h"

#include <dlfcn.h>
#include <errno.h>

void tl__stay_loaded(void) {
    int saved = errno;
    static const char ours;
    Dl_info from;
    if (dladdr(&ours, &from) && from.dli_fname)
        // cppcheck-suppress leakReturnValNotUsed ; the object must stay loaded
        (void)dlopen(from.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    errno = saved;
}
