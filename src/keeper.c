/*
 * Floor 4: the keeper thread. Everything it touches is under its mutex, which it lets go only to
 * poll and to report. It must never block anywhere else: a deadline of some lock is always near.
 */
#include "keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client.h"

typedef struct tl_exchange {
    tl_task *task; /* NULL: nobody wants the answer any more */
    struct tl_exchange *next;
} tl_exchange;

void tl__keeper_lock(tl_keeper *k) {
    (void)pthread_mutex_lock(&k->mutex);
}

void tl__keeper_unlock(tl_keeper *k) {
    (void)pthread_mutex_unlock(&k->mutex);
}

static void wake(tl_keeper *k) {
    const uint64_t one = 1;
    (void)!write(k->wake, &one, sizeof one); /* fails only when it is readable anyway */
}

/* ---- the heap of tasks, earliest first ------------------------------------------------------- */

static void heap_put(tl_keeper *k, uint32_t at, tl_task *task) {
    k->heap[at] = task;
    task->at = at;
}

static void heap_sift(tl_keeper *k, tl_task *task) {
    uint32_t at = task->at;
    for (; at > 1 && tl__mono_before(task->until, k->heap[at / 2]->until); at /= 2)
        heap_put(k, at, k->heap[at / 2]);
    for (uint32_t child; (child = at * 2) <= k->heap_count; at = child) {
        if (child < k->heap_count &&
            tl__mono_before(k->heap[child + 1]->until, k->heap[child]->until))
            child++;
        if (!tl__mono_before(k->heap[child]->until, task->until))
            break;
        heap_put(k, at, k->heap[child]);
    }
    heap_put(k, at, task);
}

static tl_err heap_add(tl_keeper *k, tl_task *task) {
    if (k->heap_count + 1 >= k->heap_room) {
        uint32_t room = k->heap_room ? k->heap_room * 2 : 16;
        tl_task **heap = realloc(k->heap, room * sizeof(tl_task *));
        if (!heap)
            return TL_ENOMEM;
        k->heap = heap;
        k->heap_room = room;
    }
    task->until = TL_NEVER;
    task->at = ++k->heap_count;
    heap_sift(k, task);
    return TL_OK;
}

static void heap_remove(tl_keeper *k, tl_task *task) {
    if (task->at == 0)
        return;
    tl_task *last = k->heap[k->heap_count--];
    if (last != task) {
        last->at = task->at;
        heap_sift(k, last);
    }
    task->at = 0;
}

/* ---- running a task -------------------------------------------------------------------------- */

static tl_exchange *take_exchange(tl_keeper *k) {
    tl_exchange *x = k->spare;
    if (x)
        k->spare = x->next;
    else
        x = malloc(sizeof *x);
    return x;
}

static void unhear(tl_task *task) {
    if (task->exchange)
        task->exchange->task = NULL;
    task->exchange = NULL;
}

static void run(tl_keeper *k, tl_task *task, const tl_event *event);

static void send(tl_keeper *k, tl_task *task, const tl_send *send, tl_mono now) {
    tl_exchange *x = take_exchange(k);
    unhear(task); /* a machine that asks anew has given up what it asked before */
    if (x && tl__conn_send(k->conn, send, x, now) == TL_OK) {
        x->task = task;
        task->exchange = x;
        wake(k);
        return;
    }
    free(x);
    tl_event failed = {.kind = TL_FAILED, .ticket = send->ticket, .now = now, .why = TL_ENOMEM};
    failed.words = TL_LITERAL("out of memory");
    run(k, task, &failed);
}

/* One step, and what it asks for. The task may be gone afterwards. */
static void run(tl_keeper *k, tl_task *task, const tl_event *event) {
    tl_server server = tl__client_server(k->client);
    tl_out out;
    tl_event e = *event;
    e.server = &server;
    tl__out_clear(&out);
    tl_status status = task->step(task->machine, &e, &out);
    if (out.has_bracket && tl__client_learn(k->client, out.bracket, e.now))
        k->rejudge = true;
    if (status == TL_END) {
        unhear(task);
        heap_remove(k, task);
        task->stepped(task, &out, status);
        return;
    }
    task->until = out.until;
    heap_sift(k, task);
    if (tl__mono_before(task->until, k->planned))
        wake(k);
    task->stepped(task, &out, status);
    if (out.sends > 0)
        send(k, task, &out.send[0], e.now);
}

static void give(tl_keeper *k, tl_task *task, tl_event_kind kind) {
    tl_event e = {.kind = kind, .now = tl__mono_now()};
    run(k, task, &e);
}

static void on_answer(void *ctx, const tl_answer *answer) {
    tl_keeper *k = ctx;
    tl_exchange *x = answer->cookie;
    tl_task *task = x->task;
    x->next = k->spare;
    k->spare = x;
    if (!task)
        return;
    task->exchange = NULL;
    tl_event e = {.kind = answer->ok ? TL_REPLY : TL_FAILED,
                  .now = answer->ok ? answer->received : tl__mono_now(),
                  .ticket = answer->ticket,
                  .sent = answer->sent,
                  .reply = answer->reply,
                  .count = answer->count,
                  .maybe_sent = answer->maybe_sent,
                  .why = answer->why,
                  .words = answer->words};
    run(k, task, &e);
}

static void on_up(void *ctx, const tl_interval *bracket, int64_t uptime_us, tl_mono now) {
    tl_keeper *k = ctx;
    tl__client_up(k->client, bracket, uptime_us, now);
}

/* ---- listening ------------------------------------------------------------------------------- */

static void post_topic(tl_keeper *k, tl_bytes topic, unsigned flags) {
    for (tl_waiter *w = k->listeners; w; w = w->next)
        if (tl__bytes_eq(w->topic, topic))
            tl__waiter_post(w, flags);
}

static void on_woken(void *ctx, tl_bytes topic, tl_bytes payload) {
    (void)payload;
    post_topic(ctx, topic, TL_WAKE_WOKEN);
}

static void on_armed(void *ctx, tl_bytes topic, bool armed) {
    post_topic(ctx, topic, armed ? TL_WAKE_ARMED : TL_WAKE_DISARMED);
}

void tl__keeper_listen(tl_keeper *k, tl_waiter *w, tl_bytes topic) {
    if (tl__keeper_ready(k)) {
        tl__waiter_post(w, TL_WAKE_DISARMED); /* it polls instead */
        return;
    }
    tl__keeper_lock(k);
    w->topic = topic; /* before listening: that may call back at once */
    w->next = k->listeners;
    k->listeners = w;
    if (tl__wakeup_listen(k->wakeup, topic, tl__mono_now())) {
        k->listeners = w->next;
        w->topic = (tl_bytes){0};
        tl__waiter_post(w, TL_WAKE_DISARMED);
    }
    wake(k);
    tl__keeper_unlock(k);
}

void tl__keeper_forget(tl_keeper *k, tl_waiter *w) {
    if (w->topic.n == 0) /* only its owner ever sets it */
        return;
    tl__keeper_lock(k);
    tl_waiter **at = &k->listeners;
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at) {
        *at = w->next;
        tl__wakeup_forget(k->wakeup, w->topic, tl__mono_now());
        wake(k);
    }
    w->topic = (tl_bytes){0};
    tl__keeper_unlock(k);
}

/* ---- tasks from outside ---------------------------------------------------------------------- */

tl_err tl__keeper_add(tl_keeper *k, tl_task *task, tl_event_kind kind) {
    task->exchange = NULL;
    task->at = 0;
    if (heap_add(k, task))
        return TL_ENOMEM;
    give(k, task, kind);
    return TL_OK;
}

void tl__keeper_tell(tl_keeper *k, tl_task *task, tl_event_kind kind) {
    if (task->at != 0)
        give(k, task, kind);
}

void tl__keeper_remove(tl_keeper *k, tl_task *task) {
    unhear(task);
    heap_remove(k, task);
}

typedef struct {
    tl_task task; /* first */
    tl_keeper *keeper;
    void *hold;
    void (*release)(void *hold);
    _Alignas(int64_t) unsigned char machine[];
} detached_task;

static void detached_stepped(tl_task *task, const tl_out *out, tl_status status) {
    detached_task *d = (detached_task *)task;
    (void)out;
    if (status != TL_END)
        return;
    d->keeper->detached--;
    d->release(d->hold);
    free(d);
}

void tl__keeper_detach(tl_keeper *k, const void *machine, size_t size, tl_step step,
                       tl_event_kind kind, void *hold, void (*release)(void *hold)) {
    detached_task *d = calloc(1, sizeof *d + size);
    if (!d || tl__keeper_ready(k)) {
        free(d);
        release(hold);
        return;
    }
    memcpy(d->machine, machine, size);
    d->task.machine = d->machine;
    d->task.step = step;
    d->task.stepped = detached_stepped;
    d->keeper = k;
    d->hold = hold;
    d->release = release;
    tl__keeper_lock(k);
    k->detached++;
    if (tl__keeper_add(k, &d->task, kind)) {
        k->detached--;
        release(hold);
        free(d);
    }
    tl__keeper_unlock(k);
}

void tl__keeper_rejudge(tl_keeper *k) {
    tl__keeper_lock(k);
    k->rejudge = true;
    if (k->running)
        wake(k);
    tl__keeper_unlock(k);
}

/* ---- reports --------------------------------------------------------------------------------- */

void tl__keeper_report(tl_keeper *k, tl_report *report) {
    if (report->queued)
        return;
    report->queued = true;
    report->next = NULL;
    *k->reports_end = report;
    k->reports_end = &report->next;
    wake(k);
}

void tl__keeper_unreport(tl_keeper *k, tl_report *report) {
    if (report->queued) {
        tl_report **at = &k->reports;
        while (*at != report)
            at = &(*at)->next;
        *at = report->next;
        if (!*at)
            k->reports_end = at;
        report->queued = false;
    }
    while (k->delivering == report && !pthread_equal(pthread_self(), k->thread))
        (void)pthread_cond_wait(&k->delivered, &k->mutex);
}

static void deliver_reports(tl_keeper *k) {
    while (k->reports) {
        tl_report *report = k->reports;
        k->reports = report->next;
        if (!k->reports)
            k->reports_end = &k->reports;
        report->queued = false;
        k->delivering = report;
        tl__keeper_unlock(k);
        report->deliver(report);
        tl__keeper_lock(k);
        k->delivering = NULL;
        (void)pthread_cond_broadcast(&k->delivered);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void run_due(tl_keeper *k) {
    tl_mono now = tl__mono_now();
    while (k->heap_count > 0 && !tl__mono_before(now, k->heap[1]->until)) {
        tl_event e = {.kind = TL_TIMER, .now = now};
        run(k, k->heap[1], &e);
    }
}

/* Every lock is renewed now. A task can end itself here, but no other. */
static void rejudge(tl_keeper *k) {
    uint32_t n = k->heap_count;
    k->rejudge = false;
    tl_task **all = malloc((n + (size_t)1) * sizeof(tl_task *));
    if (!all)
        return; /* the regular renewals find out */
    for (uint32_t i = 0; i < n; i++)
        all[i] = k->heap[i + 1];
    for (uint32_t i = 0; i < n; i++)
        give(k, all[i], TL_WOKEN);
    free(all);
}

static void await(tl_keeper *k) {
    struct pollfd fds[4] = {
        {.fd = k->wake, .events = POLLIN},
        {.fd = k->timer, .events = POLLIN},
        {.fd = tl__conn_fd(k->conn), .events = tl__conn_events(k->conn)},
        {.fd = tl__wakeup_fd(k->wakeup), .events = tl__wakeup_events(k->wakeup)},
    };
    k->planned = tl__mono_min(tl__conn_until(k->conn), tl__wakeup_until(k->wakeup));
    if (k->heap_count > 0)
        k->planned = tl__mono_min(k->planned, k->heap[1]->until);
    if (k->closing)
        k->planned = tl__mono_min(k->planned, k->close_by);
    tl__timer_set(k->timer, k->planned);
    tl__keeper_unlock(k);
    (void)poll(fds, 4, -1); /* EINTR: look again */
    tl__keeper_lock(k);
    uint64_t count;
    if (fds[0].revents)
        (void)!read(k->wake, &count, sizeof count);
    if (fds[1].revents)
        (void)!read(k->timer, &count, sizeof count);
}

static void *keep(void *ctx) {
    tl_keeper *k = ctx;
    tl__keeper_lock(k);
    while (!(k->closing && (k->detached == 0 || !tl__mono_before(tl__mono_now(), k->close_by)))) {
        run_due(k);
        if (k->rejudge)
            rejudge(k);
        deliver_reports(k);
        if (k->reports || k->rejudge)
            continue;
        await(k);
        tl__conn_drive(k->conn, tl__mono_now());
        tl__wakeup_drive(k->wakeup, tl__mono_now());
    }
    tl__keeper_unlock(k);
    return NULL;
}

/* Signals are the program's business: this thread takes none. */
static int start_thread(tl_keeper *k) {
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&k->thread, NULL, keep, k);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static tl_err make_connections(tl_keeper *k) {
    tl_conn_limits limits = tl__client_limits(k->client);
    tl_conn_calls calls = {.answer = on_answer, .up = on_up, .ctx = k};
    tl_wakeup_calls wakes = {.woken = on_woken, .armed = on_armed, .ctx = k};
    if (!k->conn)
        k->conn = tl__conn_new(&k->client->endpoint, &limits, &calls);
    if (!k->wakeup)
        k->wakeup = tl__wakeup_new(&k->client->endpoint, &limits, k->client->attempt_ms, &wakes);
    return k->conn && k->wakeup ? TL_OK : TL_ENOMEM;
}

tl_err tl__keeper_ready(tl_keeper *k) {
    tl__keeper_lock(k);
    tl_err code = TL_OK;
    if (!k->running) {
        code = make_connections(k);
        if (!code && start_thread(k))
            code = TL_ENOMEM;
        k->running = !code;
    }
    tl__keeper_unlock(k);
    return code;
}

tl_err tl__keeper_init(tl_keeper *k, tl_client *client) {
    k->client = client;
    k->planned = TL_NEVER;
    k->reports_end = &k->reports;
    k->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    k->timer = k->wake < 0 ? -1 : tl__timer_open();
    if (k->timer < 0) {
        if (k->wake >= 0)
            (void)close(k->wake);
        return TL_ENOMEM;
    }
    (void)pthread_mutex_init(&k->mutex, NULL);
    (void)pthread_cond_init(&k->delivered, NULL);
    return TL_OK;
}

static void free_tasks(tl_keeper *k) {
    while (k->heap_count > 0) {
        tl_task *task = k->heap[k->heap_count];
        tl__keeper_remove(k, task);
        if (task->stepped == detached_stepped)
            detached_stepped(task, NULL, TL_END);
    }
    free(k->heap);
}

void tl__keeper_close(tl_keeper *k, int64_t grace_ms) {
    tl__keeper_lock(k);
    k->closing = true;
    k->close_by = tl__mono_add_ms(tl__mono_now(), grace_ms);
    wake(k);
    bool running = k->running;
    tl__keeper_unlock(k);
    if (running)
        (void)pthread_join(k->thread, NULL);
    free_tasks(k);
    tl__wakeup_free(k->wakeup);
    tl__conn_free(k->conn);
    for (tl_exchange *x = k->spare, *next; x; x = next) {
        next = x->next;
        free(x);
    }
    (void)close(k->wake);
    (void)close(k->timer);
    (void)pthread_mutex_destroy(&k->mutex);
    (void)pthread_cond_destroy(&k->delivered);
}
