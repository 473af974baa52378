/*
 * fork() of a simulated process while its threads are at work: a real one, so that in the child there is all the memory
 * as it was, and of the threads one alone. What it has inherited must be refused, at once, without a byte sent; freeing and
 * closing it must be harmless. It tells by its exit status.
 */
#include "world.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 20 /* what hangs in the child ends it */

enum { CONTENT, LOCK_PROMISE, CLIENT_PROMISE, TRIES_IO, FAILS };

void sim_forked_must_not(const sim_world *w) {
    if (w->mark == 0)
        _exit(TRIES_IO);
}

/* ---- in the child ------------------------------------------------------------------------------------ */

/* Nothing may be told there. */
static void never(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock, (void)code, (void)err, (void)ctx;
    _exit(FAILS);
}

static bool refuses(tl_err code, const tl_error *err) {
    return code == TL_EINVALID && strstr(err->message, "parent");
}

static bool is_lock_refused(tl_lock *lock) {
    tl_error err;
    tl_state state = tl_lock_state(lock);
    tl_lock_cancel(lock);
    return refuses(tl_lock_acquire(lock, TL_FOREVER, &err), &err) &&
           tl_lock_release(lock, NULL) == TL_EINVALID &&
           tl_lock_extend(lock, 1000, NULL) == TL_EINVALID &&
           tl_lock_adopt(lock, "token", NULL) == TL_EINVALID &&
           tl_lock_acquire_async(lock, TL_FOREVER, never, NULL, &err) == TL_EINVALID &&
           tl_lock_release_async(lock, never, NULL, &err) == TL_EINVALID && state != TL_HELD &&
           state != TL_AT_RISK && tl_lock_remaining_ms(lock) == 0;
}

static bool is_client_refused(tl_client *client, tl_bytes key) {
    tl_lock_info info = {.size = sizeof info};
    tl_error err;
    return tl_client_fd(client) == -1 && tl_client_dispatch(client) == 0 &&
           refuses(tl_client_ping(client, &err), &err) &&
           tl_client_look(client, key.p, key.n, &info, NULL) == TL_EINVALID &&
           !tl_acquire(client, key.p, 0, NULL);
}

/* What is just being freed, or closed, is its thread's, which isn't there. */
static bool has_lock(const sim_world *w, int actor, const sim_host *h) {
    const sim_lock *l = w->actor[actor].host == h ? sim_lock_at(&w->actor[actor]) : NULL;
    return l && l->handle && !l->going;
}

static int try_all(sim_world *w, sim_host *h) {
    for (int i = 0; i < w->cfg.actors; i++) {
        if (!has_lock(w, i, h))
            continue;
        tl_lock *lock = sim_lock_at(&w->actor[i])->handle;
        if (!is_lock_refused(lock))
            return LOCK_PROMISE;
        tl_lock_free(lock);
    }
    for (int i = 0; i < SIM_CLIENTS; i++) {
        const sim_client *c = &h->client[i];
        if (!c->handle || c->opening)
            continue;
        if (!is_client_refused(c->handle, w->key[0].k))
            return CLIENT_PROMISE;
        tl_client_close(c->handle);
    }
    return w->failed ? FAILS : CONTENT;
}

__attribute__((noreturn)) static void be_the_child(sim_world *w, sim_host *h) {
    (void)alarm(LIMIT_S);
    w->thread = sim_thread_new(h, NULL, NULL);
    w->mark = 0;
    sim_leave();
    _exit(try_all(w, h));
}

/* ---- in the parent ----------------------------------------------------------------------------------- */

void sim_fork(sim_world *w, sim_host *h) {
    static const char *const words[] = {[CONTENT] = "",
                                        [LOCK_PROMISE] = "a lock isn't refused",
                                        [CLIENT_PROMISE] = "a client isn't refused",
                                        [TRIES_IO] = "it sends, or waits",
                                        [FAILS] = "it is called back, or breaks a rule"};
    int status = 0;
    sim_tell(w, "", SIM_ALL, "host %c's process forks", h->name);
    pid_t child = fork();
    if (child == 0)
        be_the_child(w, h);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return; /* the system has no room for it */
    w->stats.forks++;
    for (int i = 0; i < w->cfg.actors; i++)
        w->stats.forked_locks += has_lock(w, i, h);
    if (WIFSIGNALED(status))
        sim_fail(w, SIM_ALL, "a forked child of host %c is ended by signal %d", h->name,
                 WTERMSIG(status));
    else if (WEXITSTATUS(status) != CONTENT)
        sim_fail(w, SIM_ALL, "in a forked child of host %c: %s", h->name,
                 WEXITSTATUS(status) <= FAILS ? words[WEXITSTATUS(status)] : "it ends");
}
