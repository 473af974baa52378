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
#define SLICE (1 * SECOND)
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
    double fair[ROUNDS_MAX + 1]; /* Jain's index of each slice */
    int slices;
    double requests; /* an acquisition */
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

/* Writes down how fair it was between two looks; returns how many turns there were. */
static uint64_t compare(side *s, const double *before, const double *after) {
    double turns[CLIENTS], sum = 0;
    for (int i = 0; i < CLIENTS; i++)
        sum += turns[i] = after[i] - before[i];
    s->fair[s->slices++] = jain(turns, CLIENTS);
    return (uint64_t)sum;
}

static void warm(side *s) {
    begin(s);
    (void)poll(NULL, 0, WARM_MS);
    end(s);
}

/* Each slice has its own clients, with nobody else connected: idle clients of other libraries have things to say, too.
 * Each language sleeps for longer than it is told, some by 10 us and some by 200, and a hold is nobody's but its
 * holder's: so time counts as if each had held for as long as it was told. */
static uint64_t again(void *ctx, int64_t until_ns, meter *m) {
    side *s = ctx;
    double before[CLIENTS], after[CLIENTS];
    int slice_ms = (int)((until_ns - now_ns()) / MS);
    open_side(s);
    warm(s);
    begin(s);
    double held_ns = look(s, before);
    meter_start(m);
    (void)poll(NULL, 0, slice_ms);
    held_ns = look(s, after) - held_ns;
    meter_stop(m);
    end(s);
    close_side(s);
    uint64_t turns = compare(s, before, after);
    m->ns -= (int64_t)held_ns - (int64_t)turns * HOLD;
    return turns;
}

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

static void report_side(regime r, int number, const figures *f) {
    const side *s = &sides[number], *mine = &sides[OURS], *queue = &sides[LIMIT];
    const figures *ours = &f[OURS], *theirs = &f[number], *limit = &f[LIMIT];
    static const char *const words[] = {"acquisitions", "requests an acquisition",
                                        "server CPU an acquisition", "Jain's index"};
    char what[4][64];
    for (int i = 0; i < 4; i++)
        (void)snprintf(what[i], sizeof what[i], "beside %s: %s", s->name, words[i]);
    report_within(&(label){ROW, what[0], "/s", r, "> 1"}, ours->rate, theirs->rate, limit->rate,
                  rounds);
    report_three(&(label){ROW, what[1], "counted", r, NULL}, mine->requests, s->requests,
                 queue->requests);
    report_within(&(label){ROW, what[2], "us", r, NULL}, ours->server_us, theirs->server_us,
                  limit->server_us, rounds);
    report_within(&(label){ROW, what[3], "of 1", r, NULL}, mine->fair + 1, s->fair + 1,
                  queue->fair + 1, rounds); /* the first slice was before the rounds */
}

void row_peers(regime r) {
    static figures f[CONTENDERS_MAX];
    contender c[CONTENDERS_MAX];
    find_sides();
    if (side_n == OTHERS) {
        report_skip(ROW, r, "no other library is here: make bench-peers fetches them");
        return;
    }
    for (int i = 0; i < side_n; i++)
        c[i] = (contender){.ctx = &sides[i], .run = again};
    take_turns(c, side_n, SLICE, 1, f);
    for (int i = 0; i < side_n; i++)
        count_requests(&sides[i]);
    for (int i = BARE; i < side_n; i++)
        report_side(r, i, f);
}
