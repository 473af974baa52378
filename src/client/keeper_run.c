/*
 * How the keeper runs a task: its steps, their requests and the replies; posts. All of it is under
 * keeper.mutex. Nothing here blocks.
 */
#include <stdlib.h>
#include <unistd.h>

#include "client/backend.h"
#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/keeper_link.h"
#include "client/run.h"
#include "ground/guard.h"

/* So many idle structs are kept for the next requests: enough for an even load, and for a few more requests
 * after the thread or the server was delayed. */
#define SPARES (2 * TL_BATCH_MAX)
#define CYCLE_SLACKS 8 /* the renewal cycle in slacks, as renew.c sets both */
#define SPARES_PART 64 /* tasks for each further one: of 128 tasks, 1 or 2 are due at a time */

/* ---- running a task -------------------------------------------------------------------------- */

unsigned tl__keeper_spares_max(const tl_keeper *keeper) {
    return SPARES + keeper->tasks.count / SPARES_PART;
}

tl_renewal *tl__keeper_take_renewal(tl_keeper *keeper) {
    tl_renewal *renewal = keeper->renewals;
    keeper->renewals = renewal->next;
    keeper->renewals_idle--;
    return renewal;
}

void tl__keeper_give_renewal(tl_keeper *keeper, tl_renewal *renewal) {
    if (GUARD(renewals_are_given_back) && keeper->renewals_idle >= tl__keeper_spares_max(keeper)) {
        free(renewal);
        return;
    }
    renewal->next = keeper->renewals;
    keeper->renewals = renewal;
    keeper->renewals_idle++;
}

bool tl__keeper_have_renewal(tl_keeper *keeper) {
    tl_renewal *renewal = keeper->renewals ? NULL : malloc(sizeof *renewal);
    if (renewal)
        tl__keeper_give_renewal(keeper, renewal);
    return keeper->renewals != NULL;
}

tl_exchange *tl__keeper_take_exchange(tl_keeper *keeper) {
    tl_exchange *exchange = keeper->spare;
    if (!exchange)
        return malloc(sizeof *exchange);
    keeper->spare = exchange->next;
    keeper->spares--;
    return exchange;
}

void tl__keeper_give_exchange(tl_keeper *keeper, tl_exchange *exchange) {
    if (keeper->spares >= tl__keeper_spares_max(keeper)) {
        free(exchange);
        return;
    }
    exchange->next = keeper->spare;
    keeper->spare = exchange;
    keeper->spares++;
}

/* So many operations that end together leave their rooms to the next ones. */
#define ROOMS 64

struct tl_room {
    struct tl_room *next;
};

void *tl__keeper_take_room(tl_keeper *keeper, size_t size) {
    struct tl_room *room = keeper->rooms;
    if (!room)
        return malloc(size);
    keeper->rooms = room->next;
    keeper->rooms_idle--;
    return room;
}

void tl__keeper_give_room(tl_keeper *keeper, void *room) {
    struct tl_room *idle = room;
    if (keeper->rooms_idle >= ROOMS) {
        free(idle);
        return;
    }
    idle->next = keeper->rooms;
    keeper->rooms = idle;
    keeper->rooms_idle++;
}

/* Ignore the replies to what the task has in flight. */
static void unhear(tl_task *task) {
    for (tl_exchange *exchange = task->exchange; exchange; exchange = exchange->next)
        if (GUARD(reply_for_ended_task))
            exchange->task = NULL;
    task->exchange = NULL;
}

/* The exchange was answered: take it out of the task's list. */
static void take_out(tl_task *task, const tl_exchange *exchange) {
    tl_exchange **at = &task->exchange;
    while (*at != exchange)
        at = &(*at)->next;
    *at = exchange->next;
}

/* Send, or join to other sends. A send for one key alone, and one that follows an ASK, are not joined. */
static tl_err submit(tl_keeper *keeper, tl_node *node, tl_conn *conn, const tl_send *send,
                     tl_exchange *exchange, tl_mono now) {
    if (send->count > 0 && send->command[0].each > 0 && !send->alone && !send->asking)
        return tl__keeper_join(keeper, node, send, exchange, now) ? TL_OK : TL_ENOMEM;
    tl_err why = tl__conn_send(conn, send, exchange, now);
    tl__keeper_wake_writer(keeper);
    return why;
}

/* The server has answered lately, so the machine has its reply at once: no need to wait behind all
 * that is in flight. */
static void reached(tl_keeper *keeper, tl_task *task, const tl_send *send, tl_node *node,
                    const tl_conn *conn, tl_mono now) {
    tl_event e = {.kind = TL_REPLY, .now = now, .asked = {.ticket = send->ticket, .sent = now}};
    e.asked.run = tl__conn_run(conn);
    unhear(task);
    tl__keeper_run_at(keeper, task, &e, node);
}

static void ask(tl_keeper *keeper, tl_task *task, const tl_send *send, tl_node *node, tl_mono now) {
    tl_conn *conn = tl__keeper_conn(keeper, node);
    if (conn && send->count == 0 && (!send->confirm || !GUARD(confirms_anew)) &&
        tl__conn_lively(conn, now)) {
        reached(keeper, task, send, node, conn, now);
        return;
    }
    tl_exchange *exchange = conn ? tl__keeper_take_exchange(keeper) : NULL;
    tl__node_asked(node, now);
    unhear(task); /* a machine that asks anew has given up what it asked before */
    if (exchange)
        *exchange = (tl_exchange){.task = NULL, .alone = send->alone};
    bool stays = exchange && (!task->kind->stay || task->kind->stay(task));
    tl_err why = stays ? submit(keeper, node, conn, send, exchange, now) : TL_ENOMEM;
    if (why) {
        tl_event refused = tl__run_refused(send, why, now);
        free(exchange);
        if (GUARD(unsent_is_tried_again))
            tl__keeper_run(keeper, task, &refused);
        return;
    }
    exchange->task = task;
    task->exchange = exchange;
    if (send->pin && send->pin->closes && keeper->watching) /* as in look_again() */
        keeper->watching->look(keeper, task);
}

/* Nobody posts to a task that ends: a post that has begun has also ended. */
static void forget_posts(tl_keeper *keeper, tl_task *task) {
    tl__mutex_lock(&keeper->posts_mutex);
    tl_task **at = &keeper->posts;
    while (*at != task)
        at = &(*at)->next_post;
    *at = task->next_post;
    task->posted = false;
    task->flags = 0;
    tl__mutex_unlock(&keeper->posts_mutex);
}

/* Take the task out of the heap, and drop its posts. */
static void forget_task(tl_keeper *keeper, tl_task *task) {
    if (task->at != 0 && task->watched.n > 0)
        keeper->watching->unwatch(keeper, task->watched, &task->hears);
    if (task->reading)
        task->reading->task = NULL;
    task->reading = NULL;
    tl__tasks_remove(&keeper->tasks, task);
    if (GUARD(posts_end_with_task) && atomic_load(&task->posted))
        forget_posts(keeper, task);
}

/* The slack by which renewals are gathered, ns. With very many locks, all that are due within one lock's
 * slack would be many requests at once, which delay the server's other clients. So shorten it to what fills
 * one request. Each lock is due once in a cycle of CYCLE_SLACKS slacks. */
static int64_t slack(const tl_keeper *keeper, int64_t ns) {
    int64_t due = keeper->tasks.count / CYCLE_SLACKS, most = keeper->client->backend->joiner->most;
    return due > most ? ns / due * most : ns;
}

/* When a task that wants to be due at `until` is made due. Locks that were acquired close together, or
 * renewed at once, are due in the same interval. So each group that fills one request gets its own
 * instant after the interval: within the slack, and far from that of the group before. Thus the requests
 * are sent one by one. */
static tl_mono spread(tl_keeper *keeper, tl_mono until, int64_t slack_ns) {
    static const uint8_t turns[] = {0, 4, 2, 6, 1, 5, 3, 7};
    const unsigned n = sizeof turns;
    int64_t part_ns = slack(keeper, slack_ns), step = tl__grid_step(part_ns);
    tl_mono at = tl__mono_grid(until, part_ns);
    if (step == 0 || !GUARD(requests_are_spread))
        return at;
    unsigned length = (unsigned)__builtin_ctzll((unsigned long long)step);
    tl_due_part *part = &keeper->parts[length % TL_DUE_LENGTHS][(at.ns >> length) % TL_DUE_PARTS];
    if (part->at.ns != at.ns)
        *part = (tl_due_part){.at = at};
    unsigned turn = part->count++ / keeper->client->backend->joiner->most;
    int64_t later = step / n * (turn / n * n + turns[turn % n]);
    return tl__mono_add_ns(at, later % (slack_ns - step + 1));
}

bool tl__keeper_stepped(tl_keeper *keeper, tl_task *task, const tl_out *out, tl_status status) {
    if (status != TL_GO)
        unhear(task);
    if (status == TL_END) {
        forget_task(keeper, task);
        task->kind->stepped(task, out, status);
        return false;
    }
    tl_mono until = spread(keeper, out->until, out->slack_ns);
    tl__tasks_move(&keeper->tasks, task, until);
    if (GUARD(keeper_wakes_in_time) && tl__mono_before(until, keeper->planned)) {
        keeper->planned = until;
        tl__keeper_wake(keeper);
    }
    task->kind->stepped(task, out, status);
    return true;
}

static void run_one(tl_keeper *keeper, tl_task *task, const tl_event *event, tl_node *node) {
    tl_machine machine = task->kind->machine(task);
    tl_run run = {.client = keeper->client,
                  .machine = &machine,
                  .listener = task->listener,
                  .in = true,
                  .node = node};
    tl_out out;
    tl_status status = tl__run_step(&run, event, &out);
    if (out.raised) /* a reply has set this, so there is a connection */
        tl__conn_raised(tl__keeper_conn(keeper, run.node), out.slot, event->asked.sent);
    if (tl__keeper_stepped(keeper, task, &out, status) && out.sends > 0)
        ask(keeper, task, &out.send, run.node, event->now);
}

static void forget_listener(tl_keeper *keeper, tl_listener *listener) {
    if (listener)
        tl__keeper_forget_in(keeper, listener);
}

const tl_runner tl__runner_of_one = {.run = run_one, .forget = forget_listener};

const tl_runner *tl__keeper_runner(const tl_keeper *keeper) {
    return keeper->client->backend->runner;
}

tl_conn_limits tl__keeper_limits(const tl_keeper *keeper, tl_conn_limits limits) {
    if (tl__keeper_runner(keeper)->limit)
        tl__keeper_runner(keeper)->limit(keeper->client, &limits);
    return limits;
}

void tl__keeper_run_at(tl_keeper *keeper, tl_task *task, const tl_event *event, tl_node *node) {
    tl__keeper_runner(keeper)->run(keeper, task, event, node);
}

void tl__keeper_run(tl_keeper *keeper, tl_task *task, const tl_event *event) {
    tl__keeper_run_at(keeper, task, event, NULL);
}

static void give(tl_keeper *keeper, tl_task *task, tl_event_kind kind) {
    tl_event e = {.kind = kind, .now = tl__mono_now()};
    tl__keeper_run(keeper, task, &e);
}

tl_exchange *tl__keeper_send_own(tl_keeper *keeper, const tl_send *send, tl_exchange what) {
    tl_exchange *exchange = tl__keeper_take_exchange(keeper);
    if (!exchange)
        return NULL;
    *exchange = what;
    if (tl__conn_send(keeper->first.conn, send, exchange, tl__mono_now()) != TL_OK) {
        free(exchange);
        return NULL;
    }
    tl__keeper_wake_writer(keeper);
    return exchange;
}

/* The task's key was read after a change: give the value to the task. Without a reply the next
 * renewal finds out. */
static void was_read(tl_keeper *keeper, tl_task *task, const tl_event *event) {
    task->reading = NULL;
    if (task->read_again)
        keeper->watching->read(keeper, task);
    if (event->kind != TL_REPLY)
        return;
    const tl_event changed = {.kind = TL_CHANGED, .now = event->now, .value = event->replied.reply};
    tl__keeper_run(keeper, task, &changed);
}

void tl__keeper_answered(tl_keeper *keeper, tl_node *node, const tl_answer *answer) {
    tl_exchange *exchange = answer->cookie;
    tl_task *task = exchange->task;
    tl_batch *batch = exchange->batch;
    bool watch = exchange->watch, reads = exchange->reads, single = exchange->single;
    tl_listener *listener = exchange->listener;
    tl__count_answer_in(&keeper->client->counts, answer);
    tl_event e = tl__run_answered(&node, answer, exchange->alone);
    if (task && !reads)
        take_out(task, exchange);
    if (task && tl__keeper_runner(keeper)->judge)
        tl__keeper_runner(keeper)->judge(keeper, exchange->server, answer->run, &e);
    tl__keeper_give_exchange(keeper, exchange);
    if (listener) {
        keeper->watching->looked(keeper, listener,
                                 answer->ok && answer->reply->type != TL_REPLY_ERROR);
    } else if (watch) {
        keeper->watching->answered(keeper, answer);
    } else if (batch) {
        tl__keeper_deal_out(keeper, batch, &e, node);
    } else if (task && reads) {
        was_read(keeper, task, &e);
    } else if (task) {
        tl__keeper_run_at(keeper, task, &e, node);
    }
    if (single)
        tl__keeper_asked_one(keeper);
}

/* ---- tasks from outside ---------------------------------------------------------------------- */

tl_err tl__keeper_add(tl_keeper *keeper, tl_task *task, tl_event_kind kind) {
    task->exchange = task->reading = NULL;
    task->read_again = task->hears = false;
    task->at = 0;
    if (tl__tasks_add(&keeper->tasks, task))
        return TL_ENOMEM;
    if (task->watched.n > 0) {
        keeper->watching->watch(keeper, task->watched, &task->hears);
        keeper->watching->look(keeper, task);
    }
    give(keeper, task, kind);
    return TL_OK;
}

void tl__keeper_tell(tl_keeper *keeper, tl_task *task, tl_event_kind kind) {
    if (task->at != 0)
        give(keeper, task, kind);
}

void tl__keeper_remove(tl_keeper *keeper, tl_task *task) {
    unhear(task);
    tl__keeper_runner(keeper)->forget(keeper, task->listener);
    forget_task(keeper, task);
}

void tl__keeper_post(tl_keeper *keeper, tl_task *task, unsigned flags) {
    tl__mutex_lock(&keeper->posts_mutex);
    bool first = !keeper->posts; /* else the thread was woken already, and will handle this too */
    task->flags = (uint8_t)(task->flags | flags);
    if (!task->posted) {
        task->posted = true;
        task->next_post = keeper->posts;
        keeper->posts = task;
    }
    tl__mutex_unlock(&keeper->posts_mutex);
    if (GUARD(post_wakes_keeper) && first)
        tl__keeper_rouse(keeper);
}

/* Take one event out of the posts, and leave the rest: the task may end with any event. */
static tl_task *next_post(tl_keeper *keeper, tl_event *event) {
    tl__mutex_lock(&keeper->posts_mutex);
    tl_task *task = keeper->posts;
    if (task) {
        unsigned flags = task->flags;
        (void)tl__run_posted(&flags, event);
        task->flags = (uint8_t)flags;
        task->posted = flags != 0;
        if (!task->posted)
            keeper->posts = task->next_post;
    }
    tl__mutex_unlock(&keeper->posts_mutex);
    return task;
}

void tl__keeper_run_posts(tl_keeper *keeper) {
    tl_event e = {0};
    for (tl_task *task; (task = next_post(keeper, &e));) {
        tl_grant grant;
        if (e.kind == TL_GRANTED && task->listener) {
            grant = tl__keeper_grant(keeper, task->listener);
            e.grant = &grant;
        }
        bool hold = task->kind->renews && e.kind == TL_WATCHED; /* it gets the value instead */
        if (task->at == 0)
            continue;
        if (!hold)
            tl__keeper_run(keeper, task, &e);
        else if (task->watched.n > 0) /* else the key is a token by now: no need to watch it */
            keeper->watching->read(keeper, task);
    }
}

typedef struct {
    tl_task task; /* first */
    tl_machine machine;
    tl_keeper *keeper;
    void *hold;
    void (*release)(void *hold);
    _Alignas(int64_t) unsigned char state[];
} detached_task;

static tl_machine detached_machine(tl_task *task) {
    return ((detached_task *)task)->machine;
}

static void detached_stepped(tl_task *task, const tl_out *out, tl_status status) {
    detached_task *d = (detached_task *)task;
    (void)out;
    if (status != TL_END)
        return;
    d->keeper->detached--;
    d->release(d->hold);
    free(d);
}

void tl__keeper_detach_in(tl_keeper *keeper, const tl_machine *machine, size_t size,
                          tl_event_kind kind, void *hold, void (*release)(void *hold)) {
    static const tl_task_kind detached = {.machine = detached_machine, .stepped = detached_stepped};
    detached_task *d = calloc(1, sizeof *d + size);
    if (!d) {
        release(hold);
        return;
    }
    memcpy(d->state, machine->state, size);
    d->task.kind = &detached;
    d->machine = *machine;
    d->machine.state = d->state;
    d->keeper = keeper;
    d->hold = hold;
    d->release = release;
    keeper->detached++;
    if (tl__keeper_add(keeper, &d->task, kind)) {
        keeper->detached--;
        release(hold);
        free(d);
    }
}

void tl__keeper_detach(tl_keeper *keeper, const tl_machine *machine, size_t size,
                       tl_event_kind kind, void *hold, void (*release)(void *hold)) {
    if (tl__keeper_ready(keeper)) {
        release(hold);
        return;
    }
    tl__keeper_lock(keeper);
    tl__keeper_detach_in(keeper, machine, size, kind, hold, release);
    tl__keeper_unlock(keeper);
}

/* ---- the end --------------------------------------------------------------------------------- */

void tl__keeper_end_tasks(tl_keeper *keeper) {
    while (keeper->tasks.count > 0) {
        tl_task *task = keeper->tasks.heap[keeper->tasks.count].task;
        tl_out out;
        tl__out_clear(&out);
        tl__keeper_remove(keeper, task);
        task->kind->stepped(task, &out, TL_END);
    }
    free(keeper->tasks.heap);
}

void tl__keeper_free_spares(tl_keeper *keeper) {
    for (tl_exchange *exchange = keeper->spare, *next; exchange; exchange = next) {
        next = exchange->next;
        free(exchange);
    }
    for (tl_renewal *renewal = keeper->renewals, *next; renewal; renewal = next) {
        next = renewal->next;
        free(renewal);
    }
    for (struct tl_room *room = keeper->rooms, *next; room; room = next) {
        next = room->next;
        free(room);
    }
    tl__keeper_free_batches(keeper);
}
