/*
 * A private redis-server for a test: its own directory, a unix socket, and a free TCP port on
 * 127.0.0.1. It dies with the test program, whichever way that ends.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct real_redis real_redis;

typedef struct {
    const char *config;   /**< further lines for redis.conf; may be NULL */
    const char *password; /**< requirepass; may be NULL */
    bool persist;         /**< append-only, every write on disk before its reply */
    bool sentinel;        /**< it is a Sentinel; what it watches is said by `config` */
    bool cluster;         /**< a node of a cluster, of which nothing is known yet */
    bool debug;           /**< DEBUG may be used, where that has to be said */
    bool tls; /**< its port speaks TLS, also with other servers; it proves to be 127.0.0.1 */
} real_redis_options;

/** Started and answering. `options` may be NULL; its strings are copied. Without a redis-server
 *  the test program says so and exits with 77 (skipped). Any other failure ends it with 1.
 *  Call it from the main thread: the server dies with the thread that started it. */
real_redis *real_redis_start(const real_redis_options *options);

/** Was the server built with TLS? If not, a line says so. */
bool real_redis_speaks_tls(void);
/** A server that can't speak TLS ends the test program as skipped. */
void real_redis_need_tls(void);

/** Kill it, and remove its directory. NULL is fine. At exit this is done for all that are left. */
void real_redis_free(real_redis *r);

int real_redis_port(const real_redis *r);
int real_redis_bus_port(const real_redis *r);       /**< cluster: the one for other nodes */
const char *real_redis_socket(const real_redis *r); /**< path */
const char *real_redis_dir(const real_redis *r);
pid_t real_redis_pid(const real_redis *r); /**< -1 when killed */
/** Neither killed nor stopped, so that it can be asked. */
bool real_redis_is_running(const real_redis *r);
/** "redis://[:password@]127.0.0.1:PORT" (with tls rediss://) and "unix:PATH", valid as long as r. */
const char *real_redis_url(const real_redis *r);
const char *real_redis_unix_url(const real_redis *r);

/** Who signs the certificates of servers with tls: a path. NULL before the first was started. */
const char *real_redis_ca(void);

void real_redis_kill(real_redis *r);   /**< SIGKILL, and wait until it is gone */
void real_redis_freeze(real_redis *r); /**< SIGSTOP */
void real_redis_thaw(real_redis *r);   /**< SIGCONT */
/** Kill it if need be, and start it on the same port and directory, with its configuration as it last wrote it;
 *  answering on return. */
void real_redis_restart(real_redis *r);

/** As restart, but on return it may still be loading its data. */
void real_redis_restart_loading(real_redis *r);

/** A new connection, logged in; 30 s limit on everything, which only what hangs reaches. Close with redisFree. */
redisContext *real_redis_connect(const real_redis *r);

/** One command, as redisCommand, on a connection of its own that it makes anew when lost. The
 *  reply is the caller's (freeReplyObject). NULL: no reply within 30 s. */
redisReply *real_redis_command(real_redis *r, const char *format, ...);

/** The reply of such a command as a number: of an integer reply, or of a string. -1 otherwise. */
long long real_redis_int(real_redis *r, const char *format, ...);

/** Of a cluster: it has the slots from first to last, which nobody else has. */
void real_redis_give_slots(real_redis *r, int first, int last);

/** How many clients are connected by TCP; replicas and a master are none. */
size_t real_redis_clients(real_redis *r);
