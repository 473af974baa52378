/*
 * What a test may have left running.
 */
#pragma once

/** The threads of this process, those that are just ending among them. */
int thread_count(void);
