/*
 * A job that one host runs at a time, beside Java services that lock with DistributeLockUtil. It
 * copies its input, line by line, for as long as it holds the lock. It must never go on without it.
 *
 *    cc nightly.c $(pkg-config --cflags --libs tidelock) -o nightly
 *    ./nightly redis://10.0.0.5 jobs:nightly <work >done
 *
 * Exit status: 0 all done; 75 another host runs it; 74 the lock expired first; 69 no server.
 */
#include <stdio.h>
#include <tidelock/distribute_lock_util.h>

#define LINE_SIZE 4096

/* One piece of work. It must take less time than remains of the lock. */
static void do_a_little(const char *line) {
    (void)fputs(line, stdout);
}

static int work(tl_dlu *locks, const char *key) {
    char line[LINE_SIZE];
    while (fgets(line, sizeof line, stdin)) {
        if (tl_dlu_remaining_ms(locks, key) == 0)
            return 74;
        do_a_little(line);
    }
    return 0;
}

static int lock_and_work(tl_dlu *locks, const char *key) {
    tl_error err;
    if (!tl_dlu_lock(locks, key, &err)) {
        (void)fprintf(stderr, "nightly: %s\n", err.message);
        return err.code == TL_EBUSY ? 75 : 69;
    }
    int status = work(locks, key);
    if (tl_dlu_release(locks, key, &err))
        (void)fprintf(stderr, "nightly: %s\n", err.message);
    return status;
}

int main(int argc, char **argv) {
    tl_error err;
    tl_dlu *locks = argc == 3 ? tl_dlu_open(argv[1], &err) : NULL;
    if (!locks) {
        (void)fprintf(stderr, "nightly: %s\n", argc == 3 ? err.message : "give a URL and a key");
        return 64;
    }
    int status = lock_and_work(locks, argv[2]);
    tl_dlu_close(locks);
    return status;
}
