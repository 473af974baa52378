/*
 * Three processes in one queue: each acquires the lock ten times and adds one to a number in a plain file.
 * A process that acquires again queues behind the others. With etcd the fencing number is that of the entry
 * in the queue, so it rises from turn to turn. Meanwhile members may fail, and another may become the
 * leader.
 *
 *     cc in_line.c $(pkg-config --cflags --libs tidelock) -o in_line
 *     ./in_line etcd://127.0.0.1 jobs:nightly /tmp/counter
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <tidelock/tidelock.h>
#include <unistd.h>

#define PROCESSES 3
#define TURNS 10
#define WORK_MS 20

/* The content of the file that the lock protects: how often the lock was held, and its last fencing
 * number. */
typedef struct {
    int count;
    uint64_t fence;
} note;

static bool note_read(const char *file, note *ret) {
    FILE *f = fopen(file, "r");
    bool ok = f && fscanf(f, "%d %" SCNu64, &ret->count, &ret->fence) == 2;
    if (f)
        fclose(f);
    return ok;
}

static bool note_write(const char *file, const note *n) {
    FILE *f = fopen(file, "w");
    if (!f)
        return false;
    bool ok = fprintf(f, "%d %" PRIu64 "\n", n->count, n->fence) > 0;
    return fclose(f) == 0 && ok;
}

/* Called with the lock held; two at the same time would spoil the count. 1: the turn counts; 0: it does
 * not, since the lock has expired; -1: the file can't be trusted. */
static int work(tl_lock *lock, const char *file, int who, int turn) {
    note n;
    uint64_t fence = tl_lock_fence(lock);
    if (!note_read(file, &n) || fence <= n.fence) {
        fprintf(stderr, "process %d: fence %" PRIu64 " is not behind the last\n", who, fence);
        return -1;
    }
    poll(NULL, 0, WORK_MS);              /* this is the work */
    if (tl_lock_remaining_ms(lock) <= 0) /* too late: another process may hold it */
        return 0;
    n = (note){n.count + 1, fence};
    if (!note_write(file, &n)) {
        perror(file);
        return -1;
    }
    printf("process %d, turn %2d, fence %" PRIu64 ": %d\n", who, turn, fence, n.count);
    return 1;
}

/* A server that is unavailable for a moment is no reason to give up. */
static bool may_try_again(tl_err code) {
    return code == TL_EUNAVAILABLE || code == TL_EUNCERTAIN;
}

static bool take_turns(tl_lock *lock, const char *file, int who, tl_error *err) {
    for (int turn = 1; turn <= TURNS;) {
        tl_err code = tl_lock_acquire(lock, 60000, err);
        if (may_try_again(code))
            continue;
        int done = code ? -1 : work(lock, file, who, turn);
        if (code)
            fprintf(stderr, "process %d: %s\n", who, err->message);
        else
            tl_lock_release(lock, err); /* without a reply it goes on in the background */
        if (done < 0)
            return false;
        turn += done;
    }
    return true;
}

/* Each process opens its own client: a client doesn't survive a fork. */
static int process(const char *url, const char *key, const char *file, int who) {
    tl_error err;
    tl_client *client;
    tl_client_options co = TL_CLIENT_OPTIONS(.url = url, .service = "in_line example");
    tl_lock_options lo = TL_LOCK_OPTIONS(.ttl_ms = 10000, .fair = true); /* etcd: always fair */
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (tl_client_open(&co, &client, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    tl_lock *lock = tl_lock_new(client, key, strlen(key), &lo, &err);
    if (!lock)
        fprintf(stderr, "%s\n", err.message);
    bool ok = lock && take_turns(lock, file, who, &err);
    tl_lock_free(lock);
    tl_client_close(client);
    return !ok;
}

int main(int argc, char **argv) {
    note n = {0, 0};
    int status, failed = 0, begun = 0;
    if (argc != 4 || !note_write(argv[3], &n)) {
        fprintf(stderr, "usage: in_line URL KEY FILE\n");
        return 2;
    }
    for (int who = 1; who <= PROCESSES; who++) {
        pid_t pid = fork();
        if (pid == 0)
            return process(argv[1], argv[2], argv[3], who);
        begun += pid > 0;
    }
    for (int i = 0; i < begun; i++)
        failed += wait(&status) < 0 || status != 0;
    if (!note_read(argv[3], &n) || n.count != PROCESSES * TURNS)
        failed++;
    printf("counted to %d\n", n.count);
    return failed > 0;
}
