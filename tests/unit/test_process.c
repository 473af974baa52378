/*
 * The mark by which a forked child is noticed, also where the kernel wipes no page in a child: this file defines madvise.
 */
#include "tests.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ground/process.h"

static int refused;

int madvise(void *at, size_t n, int advice) {
    (void)at, (void)n, (void)advice;
    refused++;
    errno = EINVAL; /* as of a kernel before 4.14 */
    return -1;
}

static int bytes_in_a_child(const volatile unsigned char *const *mark, int count) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int sum = 0;
        for (int i = 0; i < count; i++)
            sum += mark[i][0] != 0;
        const volatile unsigned char *own = tl__process_mark();
        sum += own && own[0] ? 0 : 100; /* it may have marks of its own */
        _exit(sum);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(a_child_is_noticed_without_the_kernels_help) {
    const volatile unsigned char *mark[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(mark[i] = tl__process_mark());
    assert_int_equal(refused, 3);
    assert_int_equal(bytes_in_a_child(mark, 3), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mark[i][0], 1); /* the parent goes on */
    tl__process_unmark(mark[1]);
    const volatile unsigned char *left[] = {mark[0], mark[2]};
    assert_int_equal(bytes_in_a_child(left, 2), 0);
    tl__process_unmark(mark[2]);
    tl__process_unmark(mark[0]);
    assert_int_equal(bytes_in_a_child(NULL, 0), 0);
}
