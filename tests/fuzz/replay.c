/*
 * main() for a target that was built without libFuzzer: gives it each file named as an argument, so
 * that any compiler, with or without sanitizers, can replay a corpus.
 */
#include <errno.h>

#include "fuzz.h"

/* The copy has no byte to spare, so that a sanitizer or valgrind sees any read beyond the input. */
static bool replay(const char *path) {
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    uint8_t *data = size < 0 ? NULL : malloc(size ? (size_t)size : 1);
    bool ok = data && fseek(file, 0, SEEK_SET) == 0 &&
              fread(data, 1, (size_t)size, file) == (size_t)size;
    if (ok)
        LLVMFuzzerTestOneInput(data, (size_t)size);
    else
        (void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
    free(data);
    if (file)
        (void)fclose(file);
    return ok;
}

int main(int argc, char **argv) {
    uint8_t nothing = 0;
    LLVMFuzzerTestOneInput(&nothing, 0);
    for (int i = 1; i < argc; i++)
        if (!replay(argv[i]))
            return 1;
    printf("%d inputs replayed\n", argc - 1);
    return 0;
}
