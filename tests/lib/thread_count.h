/*
 * What a test may have left running.
 */
#ifndef THREAD_COUNT_H
#define THREAD_COUNT_H

/** The threads of this process, those that are just ending among them. */
int thread_count(void);

#endif
