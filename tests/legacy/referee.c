/*
 * The referee of the contests: starts their services, hears each enter and leave and lets it go on,
 * kills some, freezes some of our own, and judges by one clock who was in the lock with whom. Whoever enters says until when
 * it may believe in the lock; who leaves releases only when the referee has heard it. So two who are
 * inside and may believe at one moment hold it at once, whatever the machine's load.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "legacy.h"

#define SECONDS 3
#define KILL_FIRST_US 500000
#define KILL_EVERY_US 3500000
#define AHEAD_MS (SKEW_MS * 9 / 10)
#define FREEZE_EVERY_US 800000 /* one of our own: nothing is assumed of those */
#define FREEZE_MS 200
#define FREEZE_SPAN_MS 2400
#define TURNS_EACH 1
#define STORY_LINES 160
#define PYTHON "/usr/bin/python3"
#define OPEN_US 100000 /* a slot */
#define OPEN_SPAN_US 400000
#define OTHERS 8 /* slots */
#define PROMOTE_AGAIN_US 2000000
#define SILENCE_US 5000000 /* longer than any orphan: then the story is told */
#define GAP_MS 20000
#define HOUR_MS 3600000 /* a drop-in's clock may be off by anything */

typedef struct {
    const char *name, *protocol;
    int shift_ms;
} kind_row;

static const kind_row rows[KINDS] = {
    [JAVA] = {"java", NULL, 0},
    [JAVA_AHEAD] = {"java-ahead", NULL, AHEAD_MS},
    [JAVA_BEHIND] = {"java-behind", NULL, -AHEAD_MS},
    [REDIS_PY] = {"redis-py", NULL, 0},
    [BRIDGE] = {"bridge", "bridge", 0},
    [STAMP] = {"timestamp", "timestamp", 0},
    [STRICT] = {"strict", "strict", 0},
    [AUTO] = {"auto", "auto", 0},
    [DROP_IN] = {"drop-in", NULL, 0},
    [DROP_IN_AHEAD] = {"drop-in-ahead", NULL, HOUR_MS},
    [DLU] = {"dlu", "dlu", 0},
    [JOB] = {"job", NULL, 0},
    [TOKEN] = {"token", "token", 0},
};

typedef struct {
    kind kind;
    char name[24];
    service service;
    bool ready, inside, ended;
    int turns, counted;                    /* what it read when it entered */
    int64_t entered_us, until_us, thaw_us; /* thaw_us 0: it runs */
} post;

typedef struct {
    real_redis *server;
    const match *match;
    verdict v;
    post post[POSTS_MAX];
    int count;
    unsigned seed;
    int64_t quiet_us; /* since when nobody is inside */
    uint64_t fence;   /* the last one, of a service that entered then: */
    int64_t fence_us;
    int64_t entry_us;          /* when somebody entered last */
    const char *const *course; /* its next step; NULL: none is left */
    int64_t step_us;           /* since when */
    service tool;              /* what does it */
    int kills, moves;          /* meanwhile */
    int64_t failover_us;       /* when there was another master */
    const real_node *former;   /* while there isn't */
    const real_node *master;   /* of Sentinels: the last that was seen */
    int64_t promoted_us;
    slot_mover mover;
    int64_t silent_us; /* since when it was silent as the story was told last */
    char errors[200], said[200];
} referee;

static char program[200]; /* this one */

static char story[STORY_LINES][LINE_SIZE + 60];
static int told;

static void program_is_known(void) {
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(n > 0);
}

int torture_seconds(void) {
    const char *text = getenv("TORTURE_SECONDS");
    return text ? atoi(text) : SECONDS;
}

unsigned torture_seed(void) {
    const char *text = getenv("TORTURE_SEED");
    return text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)shared_us();
}

/* ---- the story -------------------------------------------------------------------------------- */

static void tell(const post *p, const char *what) {
    (void)snprintf(story[told++ % STORY_LINES], sizeof story[0], "%lld us  %s: %s",
                   (long long)shared_us(), p->name, what);
}

static void print_text(const char *label, redisReply *reply) {
    if (reply && reply->str)
        print_error("%s %s\n", label, reply->str);
    for (size_t i = 0; reply && i < reply->elements; i++)
        print_text(label, reply->element[i]);
}

static bool is_cluster(const referee *r) {
    return r->match->fleet && real_fleet_sentinels(r->match->fleet) == 0;
}

static void print_key(referee *r) {
    real_node *owner = is_cluster(r) ? real_fleet_owner(r->match->fleet, r->match->key) : NULL;
    real_redis *server = owner ? owner->redis : r->server;
    redisReply *k = real_redis_command(server, "GET %s", r->match->key);
    redisReply *s = real_redis_command(server, "HGETALL tidelock:{%s}", r->match->key);
    print_text("K", k);
    redisReply *l = real_redis_command(server, "ZRANGE {%s}:tidelock:line 0 -1 WITHSCORES",
                                       r->match->key);
    print_text("S", s);
    print_text("L", l);
    freeReplyObject(k);
    freeReplyObject(s);
    freeReplyObject(l);
}

static void print_file(const char *path) {
    char line[512];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        print_error("%s", line);
    if (file)
        (void)fclose(file);
}

static void print_story(referee *r) {
    for (int i = told > STORY_LINES ? told - STORY_LINES : 0; i < told; i++)
        print_error("%s\n", story[i % STORY_LINES]);
    print_key(r);
}

/* ---- who is who -------------------------------------------------------------------------------- */

static bool is_java(const post *p) {
    return p->kind <= JAVA_BEHIND;
}

static bool is_drop_in(const post *p) {
    return p->kind == DROP_IN || p->kind == DROP_IN_AHEAD;
}

/* In a course it runs only from "start tokens" to "stop tokens". */
static bool is_token(const post *p) {
    return p->kind == TOKEN || p->kind == REDIS_PY;
}

/* It counts on no clock, and how long it stands still. */
static bool may_freeze(const post *p) {
    return p->kind == BRIDGE || p->kind == AUTO || p->kind == DLU || p->kind == TOKEN ||
           is_drop_in(p);
}

/* ---- hiring ----------------------------------------------------------------------------------- */

static const char *url_of(const referee *r) {
    return r->match->fleet ? real_fleet_url(r->match->fleet) : real_redis_url(r->server);
}

/* What LegacyWorker takes for it. */
static void ports_of(const referee *r, char *ports, size_t size) {
    real_fleet *fleet = r->match->fleet;
    const bool cluster = is_cluster(r);
    const int count = !fleet    ? 0
                      : cluster ? real_fleet_servers(fleet)
                                : real_fleet_sentinels(fleet);
    int n = fleet ? snprintf(ports, size, "%s", cluster ? "" : REAL_FLEET_NAME "@")
                  : snprintf(ports, size, "%d", real_redis_port(r->server));
    for (int i = 0; i < count; i++)
        n += snprintf(
            ports + n, size - (size_t)n, "%s%d", i ? "," : "",
            (cluster ? real_fleet_server(fleet, i) : real_fleet_sentinel(fleet, i))->port);
}

/* That may take over. */
static const char *replicas_of(const referee *r) {
    return !r->match->fleet ? "0" : is_cluster(r) ? "1" : "2";
}

static void hire_other(referee *r, post *p, const char *seed) {
    char ports[64], life[16], slack[16], skew[16], lag[16], lease[16];
    const char *key = r->match->key;
    ports_of(r, ports, sizeof ports);
    (void)snprintf(life, sizeof life, "%d", LIFE_MS);
    (void)snprintf(slack, sizeof slack, "%d", SLACK_OF_JAVA_MS);
    (void)snprintf(skew, sizeof skew, "%d", SKEW_MS);
    (void)snprintf(lag, sizeof lag, "%d", LAG_MS);
    (void)snprintf(lease, sizeof lease, "%d", LEASE_MS);
    const char *const legacy[] = {"LegacyWorker", "loop", ports, life, key, slack, lag, seed, NULL};
    const char *const drop_in[] = {"FollowWorker", ports, life, key, skew, lag, lease, seed, NULL};
    const char *const python[] = {
        PYTHON, "tests/legacy/token_worker.py", ports, life, key, slack, lag, seed, NULL};
    const char *const job[] = {
        "/bin/bash", "tests/legacy/job_worker.sh", url_of(r), key, replicas_of(r), program, NULL};
    if (p->kind == REDIS_PY)
        p->service = service_start(python, 0, r->errors);
    else if (p->kind == JOB)
        p->service = service_start(job, 0, NULL);
    else
        p->service = service_java(is_drop_in(p) ? drop_in : legacy, rows[p->kind].shift_ms,
                                  r->errors);
}

static void hire(referee *r, post *p) {
    char seed[16];
    (void)snprintf(seed, sizeof seed, "%d", rand_r(&r->seed));
    const char *const ours[] = {"/proc/self/exe", "worker", url_of(r),      rows[p->kind].protocol,
                                r->match->key,    seed,     replicas_of(r), NULL};
    p->ready = p->inside = p->ended = false;
    p->thaw_us = 0;
    if (rows[p->kind].protocol)
        p->service = service_start(ours, 0, NULL);
    else
        hire_other(r, p, seed);
}

/* ---- judging ---------------------------------------------------------------------------------- */

/* On a busy machine Sentinels may replace a master that is only slow. */
static void look_at_master(referee *r) {
    const bool sentinels = r->match->fleet && !is_cluster(r);
    const real_node *master = sentinels ? real_fleet_master(r->match->fleet) : NULL;
    if (master && r->master && master != r->master)
        r->failover_us = shared_us();
    if (master)
        r->master = master;
}

/* Java waits for no replica: a failover may give its lock to another. */
static bool is_forgotten(referee *r, const post *p) {
    if (!is_java(p) && !is_drop_in(p))
        return false;
    if (p->entered_us >= r->failover_us)
        look_at_master(r);
    return p->entered_us < r->failover_us;
}

/* The line of a service that stood still comes late: by then another may have entered, after that hold was over. */
static void look_for_others(referee *r, const post *p, int64_t at_us, int64_t until_us) {
    for (post *other = r->post; other < r->post + r->count; other++) {
        if (other == p || !other->inside || other->until_us <= at_us ||
            other->entered_us >= until_us)
            continue;
        if (is_forgotten(r, other)) {
            tell(other, "is forgotten by the new master");
            r->v.forgotten++;
            continue;
        }
        print_error("OVERLAP: %s is inside, %s for %lld us more\n", p->name, other->name,
                    (long long)(other->until_us - at_us));
        if (r->v.overlaps++ == 0)
            print_story(r);
    }
}

/* Who entered later has the greater fence. */
static void look_at_fence(referee *r, const post *p, int64_t at_us, uint64_t fence) {
    const bool later = at_us >= r->fence_us;
    if (fence != 0 && (later ? fence <= r->fence : fence >= r->fence)) {
        print_error("FENCE: %s enters with %llu at %lld us, another with %llu at %lld us\n",
                    p->name, (unsigned long long)fence, (long long)at_us,
                    (unsigned long long)r->fence, (long long)r->fence_us);
        if (r->v.overlaps++ == 0)
            print_story(r);
    }
    if (fence != 0 && later) {
        r->fence = fence;
        r->fence_us = at_us;
    }
}

static void enter(referee *r, post *p, const char *line) {
    long long at_us, until_us;
    unsigned long long fence;
    if (sscanf(line, "enter %lld %lld %llu", &at_us, &until_us, &fence) != 3)
        fail_msg("%s said '%s'", p->name, line);
    if (until_us > at_us) {
        look_for_others(r, p, at_us, until_us);
        look_at_fence(r, p, at_us, fence);
    }
    if (r->quiet_us && at_us - r->quiet_us > r->v.longest_gap_us)
        r->v.longest_gap_us = at_us - r->quiet_us;
    p->inside = true;
    p->entered_us = at_us;
    p->until_us = until_us;
    r->entry_us = at_us > r->entry_us ? at_us : r->entry_us;
    p->counted = r->v.counted;
    r->v.turns[p->kind]++;
    p->turns++;
    service_say(&p->service, "ok");
}

/* That a job was ended is heard later, or after others have entered. What counts is when it ran. */
static void run_on(referee *r, post *p, const char *line) {
    p->until_us = strtoll(line, NULL, 10);
    look_for_others(r, p, p->until_us - 1, p->until_us);
}

/* A service writes what it has read, and one more. A job that was ended after this line may be too late for that. */
static bool writes(const referee *r, const post *p) {
    return p->kind == JOB ? p->until_us >= r->entry_us : p->until_us > r->quiet_us;
}

static void leave(referee *r, post *p) {
    if (!p->inside)
        fail_msg("%s leaves, and is not inside", p->name);
    p->inside = false;
    r->quiet_us = shared_us();
    if (writes(r, p)) {
        r->v.counted = p->counted + 1;
        r->v.done++;
    }
    service_say(&p->service, "ok");
}

/* The command of `tidelock run`, with its lock: before its work was done, or after that, when it has left already. */
static void end_job(referee *r, post *p) {
    if (p->inside)
        r->quiet_us = shared_us();
    p->inside = false;
    r->v.expired++;
    service_say(&p->service, "over");
}

/* What isn't the lock's fault, and what is. */
static void note(referee *r, const post *p, const char *text) {
    if (strcmp(text, "stalled") == 0)
        r->v.stalls++;
    else if (strncmp(text, "expired", 7) == 0)
        r->v.expired++;
    else if (strcmp(text, "lag") == 0)
        r->v.lags++;
    else if (strncmp(text, "slow", 4) == 0)
        r->v.slow++;
    else if (p->kind == REDIS_PY)
        r->v.lost_tokens++;
    else if (strncmp(text, "refused", 7) == 0)
        r->v.refused++;
    else
        r->v.lost++;
    if (strncmp(text, "lost", 4) == 0 || strncmp(text, "re", 2) == 0)
        print_message("%s: %s\n", p->name, text);
}

static void hear(referee *r, post *p, const char *line) {
    tell(p, line);
    if (strncmp(line, "enter ", 6) == 0)
        enter(r, p, line);
    else if (strcmp(line, "leave") == 0)
        leave(r, p);
    else if (strcmp(line, "ended") == 0)
        end_job(r, p);
    else if (strncmp(line, "still ", 6) == 0)
        p->until_us = strtoll(line + 6, NULL, 10);
    else if (strncmp(line, "runs ", 5) == 0)
        run_on(r, p, line + 5);
    else if (strncmp(line, "note ", 5) == 0)
        note(r, p, line + 5);
    else if (strcmp(line, "ready") == 0)
        p->ready = true;
    else if (strcmp(line, "end") == 0)
        p->ended = true;
    else
        fail_msg("%s said '%s'", p->name, line);
}

static void hear_all(referee *r) {
    char line[LINE_SIZE];
    struct pollfd wires[POSTS_MAX];
    for (int i = 0; i < r->count; i++)
        wires[i] = (struct pollfd){.fd = r->post[i].service.wire, .events = POLLIN};
    (void)poll(wires, (nfds_t)r->count, 20);
    for (post *p = r->post; p < r->post + r->count; p++) {
        int got;
        while ((got = p->service.pid > 0 ? service_line(&p->service, line) : 0) > 0)
            hear(r, p, line);
        if (got < 0 && !p->ended) {
            print_file(r->errors);
            fail_msg("%s has ended by itself", p->name);
        }
        if (got < 0)
            (void)service_kill(&p->service);
    }
}

/* ---- killing ---------------------------------------------------------------------------------- */

/* One who is inside; when nobody is, or now and then, anyone. */
static post *choose(referee *r) {
    post *any = &r->post[rand_r(&r->seed) % r->count];
    if (rand_r(&r->seed) % 4 == 0)
        return any->ready ? any : NULL;
    for (post *p = r->post; p < r->post + r->count; p++)
        if (p->inside)
            return p;
    return NULL;
}

static bool kill_one(referee *r) {
    post *p = choose(r);
    if (!p || p->ended)
        return false;
    tell(p, p->inside ? "is killed inside" : "is killed");
    (void)service_kill(&p->service);
    r->quiet_us = shared_us();
    r->v.kills++;
    r->kills++;
    hire(r, p);
    return true;
}

/* ---- freezing --------------------------------------------------------------------------------- */

static void thaw(referee *r, int64_t now_us) {
    for (post *p = r->post; p < r->post + r->count; p++) {
        if (p->thaw_us == 0 || now_us < p->thaw_us)
            continue;
        tell(p, "goes on");
        p->thaw_us = 0;
        (void)kill(p->service.pid, SIGCONT);
    }
}

static void freeze_one(referee *r) {
    post *p = &r->post[rand_r(&r->seed) % r->count];
    if (!may_freeze(p) || !p->ready || p->ended || p->thaw_us != 0)
        return;
    tell(p, p->inside ? "stands still inside" : "stands still");
    p->thaw_us = shared_us() + (FREEZE_MS + rand_r(&r->seed) % FREEZE_SPAN_MS) * INT64_C(1000);
    (void)kill(p->service.pid, SIGSTOP);
}

/* ---- the course of things --------------------------------------------------------------------- */

static void next_step(referee *r) {
    print_message("%s: done in %lld ms, %d kills; turns", *r->course,
                  (long long)(shared_us() - r->step_us) / 1000, r->kills);
    for (const post *p = r->post; p < r->post + r->count; p++)
        print_message(" %d", p->turns);
    print_message("\n");
    r->course = r->course[1] ? r->course + 1 : NULL;
    r->step_us = shared_us();
    r->kills = r->moves = 0;
    for (post *p = r->post; p < r->post + r->count; p++)
        p->turns = 0;
}

static bool all_had_turns(const referee *r) {
    if (r->kills == 0)
        return false;
    for (const post *p = r->post; p < r->post + r->count; p++)
        if (!p->ended && p->turns < TURNS_EACH)
            return false;
    return true;
}

/* True when none of them is there any more. */
static bool stop(referee *r, bool (*is_one)(const post *)) {
    bool gone = true;
    for (post *p = r->post; p < r->post + r->count; p++)
        if (is_one(p) && p->service.pid > 0) {
            service_say(&p->service, "stop");
            gone = false;
        }
    return gone;
}

static bool start(referee *r, bool (*is_one)(const post *)) {
    for (post *p = r->post; p < r->post + r->count; p++)
        if (is_one(p))
            hire(r, p);
    return true;
}

/* What the operator types; refused, it is typed again, after stamps that are over have been removed, unless `status` says
 * that nothing is left of it. With a status: it ends so, and its message fits the pattern. */
static void migrate(referee *r, const char *what) {
    static const char script[] =
        "o='--dialect java --legacy-ttl-min 1500ms --clock-skew-max 150ms --legacy-delay-max 75ms'; "
        "phase=${2#*--phase }; done=\"\\\"phase\\\":${phase%% *},.*\\\"whole\\\":true,.*\\\"java\\\":\\\"(may|must not) run\\\"\"; "
        "until \"$TIDELOCK\" --url \"$1\" migrate $2 --yes $o; do "
        "got=$?; [ $got = 77 ] || [ $got = \"$3\" ] || exit 1; "
        "\"$TIDELOCK\" --url \"$1\" migrate status --json | grep -Eq \"$done\" && break; "
        "\"$TIDELOCK\" --url \"$1\" migrate sweep $o; sleep 0.2; done";
    static const char ends[] =
        "said=$(\"$TIDELOCK\" --url \"$1\" migrate ${2#* } 2>&1); got=$?; echo \"$said\"; "
        "[ $got = ${2%% *} ] && printf %s \"$said\" | grep -Eq -- \"$3\"";
    char command[LINE_SIZE];
    (void)snprintf(command, sizeof command, "%s", what);
    char *pattern = strchr(command, '/');
    if (pattern)
        *pattern++ = '\0';
    const char *const unavailable = r->match->fleet ? "69" : "";
    const char *const words[] = {"/bin/sh", "-c",    pattern ? ends : script,         "sh",
                                 url_of(r), command, pattern ? pattern : unavailable, NULL};
    r->tool = service_start(words, 0, r->said);
}

static void fail_of_tool(const referee *r, const char *what) {
    print_file(r->said);
    fail_msg("%s failed", what);
}

static real_node *master_of(const referee *r) {
    real_fleet *fleet = r->match->fleet;
    return is_cluster(r) ? real_fleet_owner(fleet, r->match->key) : real_fleet_master(fleet);
}

/* The master dies, and returns as a replica when another is. Java believes any one Sentinel: one that is late would send it
 * to the former master, which is a master for a moment, and empty. */
static bool fail_over(referee *r) {
    real_node *master = master_of(r);
    if (!r->former && master) {
        r->former = master;
        real_redis_kill(master->redis);
        return false;
    }
    if (!master || master == r->former ||
        (!is_cluster(r) && !real_fleet_all_name(r->match->fleet, master)))
        return false;
    r->failover_us = shared_us();
    r->master = master;
    real_redis_restart(r->former->redis);
    r->former = NULL;
    return true;
}

/* Its replica takes over, with all that it has. */
static bool promote(referee *r) {
    real_node *master = master_of(r);
    if (r->former && master && master != r->former) {
        r->former = NULL;
        return true;
    }
    real_node *replica = master ? real_fleet_replica(r->match->fleet, master) : NULL;
    if (replica && (!r->former || shared_us() - r->promoted_us > PROMOTE_AGAIN_US)) {
        r->former = master;
        r->promoted_us = shared_us();
        freeReplyObject(real_redis_command(replica->redis, "CLUSTER FAILOVER"));
    }
    return false;
}

static bool begin_move(referee *r, const char *key, int64_t open_us) {
    const bool begun = slot_mover_begin(&r->mover, key, open_us);
    r->moves += begun;
    return begun;
}

static int64_t draw_open_us(referee *r) {
    return OPEN_US + rand_r(&r->seed) % OPEN_SPAN_US;
}

/* The key's slot, once. */
static bool move(referee *r) {
    if (r->moves == 0 && !begin_move(r, r->match->key, draw_open_us(r)))
        return false;
    return slot_mover_rests(&r->mover);
}

static bool close_slot(referee *r) {
    slot_mover_close(&r->mover);
    return slot_mover_rests(&r->mover);
}

/* While all have their turns, the slot of the key and others. */
static void move_slots(referee *r) {
    if (!is_cluster(r) || !slot_mover_rests(&r->mover) || !r->course ||
        strcmp(*r->course, "turns") != 0 || (r->moves > 0 && all_had_turns(r)))
        return;
    char other[32];
    (void)snprintf(other, sizeof other, "other-%d", rand_r(&r->seed) % OTHERS);
    (void)begin_move(r, rand_r(&r->seed) % 2 ? other : r->match->key, draw_open_us(r));
}

/* True when the step in flight is done. */
static bool step_is_done(referee *r) {
    char line[LINE_SIZE];
    const char *what = *r->course;
    if (strcmp(what, "turns") == 0)
        return all_had_turns(r) && (!is_cluster(r) || (r->moves > 0 && !r->mover.key));
    if (strcmp(what, "stop java") == 0)
        return stop(r, is_java);
    if (strcmp(what, "start java") == 0)
        return start(r, is_java);
    if (strcmp(what, "stop tokens") == 0)
        return stop(r, is_token);
    if (strcmp(what, "start tokens") == 0)
        return start(r, is_token);
    if (strcmp(what, "failover") == 0)
        return fail_over(r);
    if (strcmp(what, "promote") == 0)
        return promote(r);
    if (strcmp(what, "move") == 0)
        return move(r);
    if (strcmp(what, "open") == 0)
        return begin_move(r, r->match->key, SLOT_STAYS_OPEN);
    if (strcmp(what, "close") == 0)
        return close_slot(r);
    if (*what == '+') {
        migrate(r, what + 1);
        return true;
    }
    if (r->tool.pid <= 0) {
        migrate(r, what);
        return false;
    }
    int got;
    while ((got = service_line(&r->tool, line)) > 0)
        print_message("%s: %s\n", what, line);
    if (got == 0)
        return false;
    int status;
    (void)waitpid(r->tool.pid, &status, 0);
    r->tool.pid = -1;
    (void)service_kill(&r->tool);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_of_tool(r, what);
    return true;
}

static void go_on(referee *r) {
    if (!r->course)
        return;
    if (step_is_done(r))
        next_step(r);
    else if (shared_us() - r->step_us > 2 * LATE_MS * INT64_C(1000))
        fail_of_tool(r, *r->course);
}

/* ---- the match -------------------------------------------------------------------------------- */

static bool is_silent(const referee *r) {
    for (const post *p = r->post; p < r->post + r->count; p++)
        if (p->inside)
            return false;
    return r->quiet_us && shared_us() - r->quiet_us > SILENCE_US;
}

/* Nobody has held it for long: what did everybody do? */
static void tell_silence(referee *r) {
    if (!is_silent(r) || r->silent_us == r->quiet_us)
        return;
    r->silent_us = r->quiet_us;
    print_error("SILENCE: nobody has entered for %lld ms\n",
                (long long)(shared_us() - r->quiet_us) / 1000);
    print_story(r);
}

static bool all_are_ready(const referee *r) {
    for (const post *p = r->post; p < r->post + r->count; p++)
        if (!p->ready)
            return false;
    return true;
}

static void begin(referee *r) {
    for (; r->match->posts[r->count] != KINDS; r->count++) {
        post *p = &r->post[r->count];
        p->kind = r->match->posts[r->count];
        (void)snprintf(p->name, sizeof p->name, "%s-%d", rows[p->kind].name, r->count);
        p->service = (service){.pid = -1, .wire = -1};
        if (r->match->course && is_token(p))
            p->ready = p->ended = true;
        else
            hire(r, p);
    }
    const clock_wait wait = clock_wait_begin(2 * LATE_MS);
    while (!all_are_ready(r)) {
        hear_all(r);
        if (!clock_wait_more(&wait))
            fail_msg("not everyone has come");
    }
}

/* Everybody has had a turn, and somebody has been killed. */
static bool has_seen_all(const referee *r) {
    for (const post *p = r->post; p < r->post + r->count; p++)
        if (r->v.turns[p->kind] == 0)
            return false;
    return r->v.kills > 0;
}

/* In a course one for each step: an orphan holds all others up. */
static bool is_due_to_kill(const referee *r, int64_t kill_us) {
    if (r->course)
        return r->kills == 0 && shared_us() > r->step_us + KILL_FIRST_US;
    return shared_us() > kill_us;
}

static void play(referee *r) {
    int64_t start_us = shared_us(), end_us = start_us + torture_seconds() * INT64_C(1000000);
    int64_t kill_us = start_us + KILL_FIRST_US, freeze_us = start_us;
    while (shared_us() < end_us || !has_seen_all(r) || r->course) {
        hear_all(r);
        go_on(r);
        move_slots(r);
        if (is_due_to_kill(r, kill_us) && kill_one(r))
            kill_us = shared_us() + KILL_EVERY_US;
        if (shared_us() > freeze_us) {
            freeze_one(r);
            freeze_us += FREEZE_EVERY_US;
        }
        thaw(r, shared_us());
        tell_silence(r);
        if (!r->match->course && shared_us() > end_us + 3 * LATE_MS * 1000)
            fail_msg("not everyone had a turn");
    }
}

static void fail_of_others(referee *r) {
    print_story(r);
    for (const post *p = r->post; p < r->post + r->count; p++)
        if (p->service.pid > 0)
            print_error("%s has not ended\n", p->name);
    fail_msg("not everyone has come to an end");
}

static bool is_any(const post *p) {
    (void)p;
    return true;
}

/* Said again and again: a job that `tidelock run` ends may take the word with it. */
static void end(referee *r) {
    const clock_wait wait = clock_wait_begin(3 * LATE_MS);
    thaw(r, INT64_MAX);
    while (!stop(r, is_any)) {
        hear_all(r);
        if (!clock_wait_more(&wait))
            fail_of_others(r);
    }
}

static void count_exceptions(referee *r) {
    char line[512];
    FILE *file = fopen(r->errors, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "exception ", 10) != 0)
            continue;
        bool usual = strstr(line, "NullPointerException") || strstr(line, ": null") ||
                     strstr(line, "null string");
        r->v.exceptions++;
        if (!usual && r->v.strange_exceptions++ == 0 && !r->match->tokens)
            print_error("a strange exception: %s", line);
    }
    if (file)
        (void)fclose(file);
}

verdict referee_judge(real_redis *server, const match *m) {
    static referee r; /* a test that fails leaves it */
    for (post *p = r.post; p < r.post + r.count; p++)
        (void)service_kill(&p->service);
    told = 0;
    (void)service_kill(&r.tool);
    program_is_known();
    r = (referee){.server = server, .match = m, .seed = torture_seed()};
    r.mover = (slot_mover){.fleet = m->fleet, .seed = r.seed};
    r.tool.pid = -1;
    r.course = m->course;
    r.step_us = shared_us();
    print_message("TORTURE_SEED=%u\n", r.seed);
    (void)snprintf(r.said, sizeof r.said, "%s/migrate-%s", real_redis_dir(server), m->key);
    (void)snprintf(r.errors, sizeof r.errors, "%s/errors-%s", real_redis_dir(server), m->key);
    look_at_master(&r);
    begin(&r);
    play(&r);
    end(&r);
    count_exceptions(&r);
    return r.v;
}

/* ---- a fleet that is led by the tool ------------------------------------------------------------ */

void referee_register(const char *url) {
    char line[512];
    (void)snprintf(line, sizeof line,
                   "\"$TIDELOCK\" --url '%s' migrate init --keys '*' %s --phase 0 --yes", url,
                   strstr(url, "+cluster:") ? "" : "--lease 1s");
    assert_int_equal(system(line), 0);
}

void referee_demand(real_redis *server, const match *m) {
    verdict v = referee_judge(server, m);
    print_message("turns:");
    for (int i = 0; i < KINDS; i++)
        print_message(" %d", v.turns[i]);
    print_message("; %d kills, counted to %d, longest gap %lld ms, %d slow, %d expired, %d lags, "
                  "%d stalls, %d forgotten\n",
                  v.kills, v.counted, (long long)v.longest_gap_us / 1000, v.slow, v.expired, v.lags,
                  v.stalls, v.forgotten);
    assert_int_equal(v.overlaps, 0);
    assert_int_equal(v.refused, 0);
    if (v.forgotten == 0)
        assert_int_equal(v.counted, v.done);
    if (v.lags + v.stalls + v.forgotten == 0)
        assert_int_equal(v.lost, 0);
    assert_int_equal(v.strange_exceptions, 0);
    /* a failover takes its time on a busy machine, and a server there may not reply for long */
    const int64_t late_ms = m->fleet || v.slow > 0 ? LATE_MS : GAP_MS;
    assert_true(v.longest_gap_us / 1000 < FREE_MS + LEASE_MS + clock_patient_ms(late_ms));
}
