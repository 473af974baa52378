/*
 * A hundred clients that want one lock again and again: tidelock beside other libraries, beside plain hiredis
 * and beside a queue, which is the limit, each in turn on the same server. $BENCH_PEERS is a folder of
 * programs, one for each library.
 */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "crowd.h"
#include "peer.h"

#define ROW "peers"
#define CLIENTS 100
#define HOLD (1 * MS)
#define SLICE (400 * MS)
#define SETTLE_MS 150
#define WARM_MS 1500 /* a compiler at run time has its work to do */
#define PEERS_MAX (CONTENDERS_MAX - OTHERS)

/* Those of our own; other libraries come behind. */
enum { OURS, LIMIT, BARE, OTHERS };

typedef struct {
    char path[512];
    const char *name;
    crowd_kind kind;
    crowd *crowd; /* of our own; or else */
    peer *peer;
    double held_ns, turns[CLIENTS]; /* in what was measured */
    double requests;                /* an acquisition */
} side;

static int side_n;
static side sides[CONTENDERS_MAX];

/* ---- one side -------------------------------------------------------------------------------- */

static void open_side(side *s) {
    const crowd_part part[CROWD_PARTS] = {{NULL, CLIENTS, 1}};
    if (*s->path)
        s->peer = peer_open(s->path, bench_port(), CLIENTS, HOLD / 1000);
    else if (!(s->crowd = crowd_open(part, s->kind)))
        die("a hundred clients need more descriptors than we may have");
}

static void close_side(side *s) {
    crowd_close(s->crowd);
    peer_close(s->peer);
    s->crowd = NULL;
    s->peer = NULL;
    bench_flush();
}

/* Whatever a library has left behind keeps nobody waiting. */
static void begin(side *s) {
    bench_flush();
    if (s->crowd) {
        crowd_forget(s->crowd);
        crowd_begin(s->crowd, 0, CLIENTS, HOLD);
    } else {
        peer_begin(s->peer);
    }
    (void)poll(NULL, 0, SETTLE_MS);
}

static void end(side *s) {
    int turns;
    if (s->peer) {
        peer_end(s->peer);
        return;
    }
    crowd_end(s->crowd);
    free(crowd_story(s->crowd, &turns)); /* no two held it at once */
}

/* Turns of each so far; returns how long they have held together. */
static double look(const side *s, double *ret_turns) {
    if (s->peer)
        return peer_turns(s->peer, ret_turns);
    for (int i = 0; i < CLIENTS; i++)
        ret_turns[i] = crowd_turns_of(s->crowd, i);
    return crowd_held_ns(s->crowd);
}

/* Adds what has been done between two looks; returns how many turns. */
static uint64_t add(side *s, double held_ns, const double *before, const double *after) {
    double sum = 0;
    s->held_ns += held_ns;
    for (int i = 0; i < CLIENTS; i++) {
        s->turns[i] += after[i] - before[i];
        sum += after[i] - before[i];
    }
    return (uint64_t)sum;
}

static uint64_t again(void *ctx, int64_t until_ns, meter *m) {
    side *s = ctx;
    double before[CLIENTS], after[CLIENTS];
    int slice_ms = (int)((until_ns - now_ns()) / MS);
    begin(s);
    double held_ns = look(s, before);
    meter_start(m);
    (void)poll(NULL, 0, slice_ms);
    held_ns = look(s, after) - held_ns;
    meter_stop(m);
    end(s);
    return add(s, held_ns, before, after);
}

static void warm(side *s) {
    begin(s);
    (void)poll(NULL, 0, WARM_MS);
    end(s);
}

/* With nobody else connected: idle clients of other libraries have things to say, too. */
static void count_requests(side *s) {
    double before[CLIENTS], after[CLIENTS], n = 0;
    open_side(s);
    warm(s);
    begin(s);
    commands_start();
    (void)look(s, before);
    (void)poll(NULL, 0, SLICE / MS);
    (void)look(s, after);
    s->requests = (double)commands_stop();
    end(s);
    for (int i = 0; i < CLIENTS; i++)
        n += after[i] - before[i];
    s->requests /= n > 0 ? n : 1;
    close_side(s);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int a_program(const struct dirent *e) {
    return strchr(e->d_name, '.') == NULL;
}

static void find_sides(void) {
    const char *folder = getenv("BENCH_PEERS");
    struct dirent **entry = NULL;
    int n = folder && *folder ? scandir(folder, &entry, a_program, alphasort) : 0;
    sides[OURS] = (side){.name = "tidelock", .kind = CROWD_LOCK};
    sides[LIMIT] = (side){.name = "a queue", .kind = CROWD_QUEUE};
    sides[BARE] = (side){.name = "plain hiredis", .kind = CROWD_BARE};
    side_n = OTHERS;
    for (int i = 0; i < n && i < PEERS_MAX; i++) {
        side *s = &sides[side_n++];
        *s = (side){.name = NULL};
        (void)snprintf(s->path, sizeof s->path, "%s/%s", folder, entry[i]->d_name);
        s->name = strrchr(s->path, '/') + 1;
    }
    for (int i = 0; i < n; i++)
        free(entry[i]);
    free(entry);
}

/* Of what the library's own hold and a round trip allow. */
static void part_of_limit(const side *s, const figures *f, double trip_ns, double *ret) {
    double n = 0;
    for (int i = 0; i < CLIENTS; i++)
        n += s->turns[i];
    double limit = SECOND / (s->held_ns / (n > 0 ? n : 1) + trip_ns);
    for (int i = 0; i < rounds; i++)
        ret[i] = f->rate[i] / limit;
}

static void report_side(regime r, int number, const figures *f, double trip_ns) {
    const side *s = &sides[number];
    const figures *ours = &f[OURS], *theirs = &f[number], *limit = &f[LIMIT];
    static const char *const words[] = {"acquisitions", "requests an acquisition",
                                        "server CPU an acquisition", "Jain's index",
                                        "part of 1/(hold + trip)"};
    char what[5][64];
    double part[3][ROUNDS_MAX];
    for (int i = 0; i < 5; i++)
        (void)snprintf(what[i], sizeof what[i], "beside %s: %s", s->name, words[i]);
    part_of_limit(&sides[OURS], ours, trip_ns, part[0]);
    part_of_limit(s, theirs, trip_ns, part[1]);
    part_of_limit(&sides[LIMIT], limit, trip_ns, part[2]);
    report_within(&(label){ROW, what[0], "/s", r, "> 1"}, ours->rate, theirs->rate, limit->rate,
                  rounds);
    report_within(&(label){ROW, what[4], "of 1", r, NULL}, part[0], part[1], part[2], rounds);
    report_three(&(label){ROW, what[1], "counted", r, NULL}, sides[OURS].requests, s->requests,
                 sides[LIMIT].requests);
    report_within(&(label){ROW, what[2], "us", r, NULL}, ours->server_us, theirs->server_us,
                  limit->server_us, rounds);
    report_three(&(label){ROW, what[3], "of 1", r, NULL}, jain(sides[OURS].turns, CLIENTS),
                 jain(s->turns, CLIENTS), jain(sides[LIMIT].turns, CLIENTS));
}

void row_peers(regime r) {
    static figures f[CONTENDERS_MAX];
    contender c[CONTENDERS_MAX];
    find_sides();
    if (side_n == OTHERS) {
        report_skip(ROW, r, "no other library is here: make bench-peers fetches them");
        return;
    }
    for (int i = 0; i < side_n; i++) {
        open_side(&sides[i]);
        warm(&sides[i]);
        c[i] = (contender){.ctx = &sides[i], .run = again};
    }
    take_turns(c, side_n, SLICE, 1, f);
    for (int i = 0; i < side_n; i++)
        close_side(&sides[i]);
    for (int i = 0; i < side_n; i++)
        count_requests(&sides[i]);
    double trip_ns = (double)bench_round_trip_ns();
    for (int i = BARE; i < side_n; i++)
        report_side(r, i, f, trip_ns);
}
