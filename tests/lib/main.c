/*
 * The main() of each test program that has none of its own.
 */
#include "tests.h"

int main(void) {
    return tests_run();
}
