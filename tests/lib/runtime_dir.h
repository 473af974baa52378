/*
 * A private directory for a test, and the server of local: that may come to live in it. Its URL has to
 * be given: what no URL means is one server for each user, which may be at work for somebody.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define RUNTIME_PATH 256

/** cmocka setup and teardown: make the directory; at the end kill what runs in it, remove it, and put
 *  PATH back. */
int runtime_begin(void **state);
int runtime_end(void **state);

const char *runtime_dir(void);   /**< itself */
const char *runtime_local(void); /**< the directory of local: in it */
const char *runtime_url(void);   /**< the URL of that */
/** A file in the directory of local:, or with a '/' at its start in the runtime directory; one of
 *  four that take turns. */
const char *runtime_file(const char *name);

/** Without a redis-server in PATH there is nothing to test: the program ends as skipped. */
void runtime_need_program(void);
/** Make a program "redis-server" of this shell script, the only one in PATH. "$REAL" in it is the
 *  real one. */
void runtime_fake(const char *script);
/** A PATH without any. */
void runtime_no_program(void);

/** How many processes are at work in the directory of local:; *ret_pid: one of them. */
int runtime_servers(pid_t *ret_pid);
/** The one server's pid; the test fails when there is none or another. */
pid_t runtime_server(void);
/** SIGKILL, and wait until it is gone. */
void runtime_kill(void);

/** The file's text, in one of four buffers that take turns; "" when there is none. */
const char *runtime_read(const char *path);
void runtime_write(const char *path, const char *text);
