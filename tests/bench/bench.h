/*
 * What the rows of the benchmark share: regimes, contenders that take turns, and the report.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tidelock/tidelock.h>

#include "hist.h"
#include "real_redis.h"

#define ROUNDS_MAX 99
#define CONTENDERS_MAX 12
#define SECOND INT64_C(1000000000)
#define MS INT64_C(1000000)

/** Where server and client run, and what lies between them; all by TCP. */
typedef enum {
    ONE,   /**< both on one core: CPU cost alone */
    CROSS, /**< a core each: each message wakes a core */
    FREE,  /**< nothing pinned */
    DELAY, /**< nothing pinned, through a proxy: a round trip takes 5 ms */
    REGIMES
} regime;

typedef unsigned regimes; /**< a set: 1u << ONE | … */

/** CLOCK_MONOTONIC. */
int64_t now_ns(void);

/** The benchmark can't go on: say why in a line, and exit with 1. A forked process ends alone. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---- the server ------------------------------------------------------------------------------ */

/** Start the server. Once, from the main thread. */
void bench_start(void);

/** Pin, or not, as the regime says; for threads that are made from now on. NULL: it is in force.
 *  Otherwise why this machine can't have it. */
const char *bench_enter(regime r);

const char *bench_url(void);      /**< of the server, in the regime that is in force */
const char *bench_unix_url(void); /**< by its unix socket, whatever the regime */
int bench_port(void); /**< of 127.0.0.1: by TCP whatever the regime, else the same way */
const char *bench_further_url(void);    /**< by a way whose round trip is 6 ms longer */
int64_t bench_round_trip_ns(void);      /**< of a PING by bench_url, the median of some */
redisContext *bench_connect(void);      /**< a plain connection by the same way; redisFree */
redisContext *bench_connect_near(void); /**< by unix socket, whatever the regime */
int64_t bench_server_cpu_ns(void);      /**< used by the server so far */
int64_t bench_client_cpu_ns(void);      /**< used by this process so far, all threads */
void bench_flush(void);                 /**< forget all keys */
const char *bench_describe(void);       /**< machine and versions, in a line */
tl_client *bench_client(void); /**< a client that has reached the server; tl_client_close */
/** A client that has reached it with a lock on `key`, for a process that ends with them. */
tl_lock *bench_lock(const tl_client_options *options, const char *key);
void bench_pair(void *lock);         /**< a contender's operation: acquire and release */
redisReply *bench_ask(const char *); /**< one command, beside the regime; freeReplyObject */

/* ---- further servers, which a row has started ------------------------------------------------- */

/** Where the regime has its server, or, one that doesn't serve what is measured, anywhere. */
void bench_pin(const real_redis *r, bool serves);
/** What delays a port as the regime's server is delayed; in DELAY alone. delay_free. */
struct delay *bench_delay(int port);
/** Whose CPU bench_server_cpu_ns tells from now on, in place of the benchmark's own server; with n 0 that again. */
void bench_count_cpu_of(real_redis *const *r, int n);

/* ---- taking turns ---------------------------------------------------------------------------- */

/** What a contender's slices used; run between meter_start and meter_stop. */
typedef struct {
    int64_t ns, client_ns, server_ns;
    uint64_t operations;
    int64_t from_ns, from_client, from_server;
    bool running;
} meter;

void meter_start(meter *m); /**< again: what was used since the last start does not count */
void meter_stop(meter *m);  /**< no-op when not running */

/** A contender is a process of its own, a new one for each slice, as its user's program is: it opens what
 *  it needs, warms up, is measured, and ends. One without `open` runs in the benchmark's own process. */
typedef struct {
    void *(*open)(void *ctx); /**< returns what is the ctx from now on; it is never closed */
    void *ctx;
    void (*operation)(void *ctx); /**< once; or else run */
    /** Work until `until_ns` (now_ns) or a little longer; returns the operations done. It runs with
     *  the meter started, and may start it again or stop it early. */
    uint64_t (*run)(void *ctx, int64_t until_ns, meter *m);
    hist *hist; /**< filled by run, if it measures each operation; may be NULL */
} contender;

/** Its operation until then, at least once. */
uint64_t repeat(const contender *c, void *ctx, int64_t until_ns);

/** By round. */
typedef struct {
    double rate[ROUNDS_MAX];      /**< operations a second */
    double client_us[ROUNDS_MAX]; /**< CPU an operation */
    double server_us[ROUNDS_MAX];
    double core_rate[ROUNDS_MAX]; /**< operations a second of CPU time, both together */
    double p50_us[ROUNDS_MAX], p99_us[ROUNDS_MAX]; /**< with a hist */
} figures;

/** Let n contenders take turns: each round has `slices` slices of `slice_ns` for each. */
void take_turns(const contender *c, int n, int64_t slice_ns, int slices, figures *ret);

/** What count() returns for a contender that has warmed up in a process of its own, with its ctx there. */
double count_apart(const contender *c, double (*count)(const contender *c, void *ctx));

void *share(size_t n); /**< zeros, in memory that this process and those it forks share; it stays */
/** Do it in a process of its own, which has ended on return. From the main thread, while there is no other. */
void apart(void (*work)(void *), void *ctx);

/* ---- the report ------------------------------------------------------------------------------ */

extern int rounds; /**< of each measurement */

typedef struct {
    const char *row, *what, *unit;
    regime regime;
    /** What it should be; NULL nothing. Clauses with a comma between, each `>= N`, `> N` or `<= N`, or `N`
     *  alone for what is counted. N is compared with the ratio, without a baseline with ours; `of the
     *  limit` behind it, with ours as a part of the limit; the unit of the row behind it, with ours. */
    const char *goal;
} label;

void report_begin(const char *json_path);
void report_end(bool complete); /**< of all rows, where they are usually measured */
/** A line: medians, the median of the rounds' ratios with its spread. base NULL: nothing to compare
 *  with; then the spread is that of `ours`. */
void report(const label *l, const double *ours, const double *base, int n);
/** With the most, or the least, that can be: measured in the same rounds. base and limit may be NULL. */
void report_within(const label *l, const double *ours, const double *base, const double *limit,
                   int n);
void report_one(const label *l, double ours); /**< measured or counted once */
void report_two(const label *l, double ours, double base);
void report_three(const label *l, double ours, double base, double limit);
void report_skip(const char *row, regime r, const char *why);
const char *regime_name(regime r);
double median(const double *v, int n); /**< n: 1 to ROUNDS_MAX */

/* ---- counting -------------------------------------------------------------------------------- */

/** malloc, calloc and realloc of this process are counted between these two. */
void allocations_start(void);
uint64_t allocations_stop(void);

/** Requests that reach the server between these two: commands by MONITOR, but those that scripts make
 *  don't count, and a transaction, MULTI to EXEC, is one. Slows the server down. */
void commands_start(void);
void commands_start_at(real_redis *r); /**< the same of another server */
uint64_t commands_stop(void);
double commands_each(const contender *c, void *ctx); /**< one operation's; to be counted apart */

/** Calls of the C library that read, write, wait for or set a descriptor, by this process between
 *  these two. */
void system_calls_start(void);
uint64_t system_calls_stop(void);

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct {
    const char *name;
    regimes has;     /**< measured in these */
    regimes usually; /**< where nothing else was asked for */
    void (*run)(regime r);
} row;

void row_pairs(regime r);
void row_threads(regime r);
void row_async(regime r);
void row_renew(regime r);
void row_held(regime r);
void row_local(regime r);
void row_cli(regime r);
void row_bigdb(regime r);
void row_remaining(regime r);
void row_machine(regime r);
void row_protocols(regime r);
void row_skew(regime r);
void row_waiting(regime r);
void row_peers(regime r);
void row_fleets(regime r);
void row_etcd(regime r);
void row_etcd_peers(regime r);
