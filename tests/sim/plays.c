/*
 * The plays of test_threads: who does what in which thread, and what may come of it.
 */
#include "plays.h"

#define US INT64_C(1000)
#define SHORT (2 * SIM_MS)   /* a few round trips */
#define LONG (1500 * SIM_MS) /* a lifetime, and the keeper's */
#define BIT(code) (1U << (code))

enum { A, B, C, D };

/* Who is held up for longer than a request may take has not reached the server. */
static void one_of(int lock, tl_err code, unsigned codes) {
    if (play_held_up())
        codes |= BIT(TL_EUNCERTAIN) | BIT(TL_EUNAVAILABLE);
    play_must(BIT(code) & codes, "%c: %s is not what may come of it", 'a' + lock,
              tl_err_name(code));
}

/* What a release may tell of a lock that nobody but time can take away. */
static void released(int lock, tl_err code) {
    one_of(lock, code, BIT(TL_OK) | (play_held_up() ? BIT(TL_EEXPIRED) | BIT(TL_ETAKEN) : 0));
}

static void use(int lock) {
    tl_err code = play_acquire(lock, TL_FOREVER);
    one_of(lock, code, BIT(TL_OK));
    if (code)
        return;
    play_pause("inside");
    released(lock, play_release(lock));
}

static void use_a(void) {
    use(A);
}

static void use_b(void) {
    use(B);
}

static void use_c(void) {
    use(C);
}

static void use_b_twice(void) {
    use(B);
    use(B);
}

static void use_a_twice(void) {
    use(A);
    use(A);
}

static void release_a(void) {
    released(A, play_release(A));
}

static void open_one(void) {
    play_open(0, false);
}

static void make_two(void) {
    open_one();
    play_make(A, 0, 0, false, NULL);
    play_make(B, 0, 0, false, NULL);
    (void)play_ping(0);
}

/* It has stood in the queue: what it holds may be passed on. */
static void acquire_a_behind_c(void) {
    play_make(C, 0, 0, false, NULL);
    one_of(C, play_acquire(C, TL_FOREVER), BIT(TL_OK));
    one_of(A, play_acquire_async(A, TL_FOREVER), BIT(TL_OK));
    one_of(C, play_release(C), BIT(TL_OK));
    play_await(A, 0);
    one_of(A, play_lock(A)->code, BIT(TL_OK));
    play_lock(A)->begun = play_lock(A)->done = 0;
}

static void hold_a(void) {
    make_two();
    acquire_a_behind_c();
}

/* What is left over is cleaned up at once, by a keeper that isn't held up. */
static int64_t soon_ms(void) {
    return play_held_up() ? 4000 : 600;
}

/* Nobody is in the way any more. */
static void c_is_free(void) {
    if (!play_lock(C)->handle)
        play_make(C, 0, 0, false, NULL);
    one_of(C, play_acquire(C, soon_ms()), BIT(TL_OK));
    released(C, play_release(C));
}

/* ---- hand-over ------------------------------------------------------------------------------------- */

static void make_three(void) {
    make_two();
    play_make(C, 0, 0, false, NULL);
}

/* ---- waits that end -------------------------------------------------------------------------------- */

#define WAIT_MS 3

static void release_a_in_time(void) {
    play_sleep(WAIT_MS * SIM_MS);
    release_a();
}

static void try_b(void) {
    tl_err code = play_acquire(B, WAIT_MS);
    one_of(B, code, BIT(TL_OK) | BIT(TL_ETIMEDOUT) | BIT(TL_EUNCERTAIN) | BIT(TL_EUNAVAILABLE));
    if (code == TL_OK)
        released(B, play_release(B));
}

static struct {
    bool began, ended; /* b's acquire */
    bool cancel_began, cancel_ended;
    bool before, after; /* the cancel was over before, or began after it */
} order;

static void hold_a_and_note(void) {
    memset(&order, 0, sizeof order);
    hold_a();
}

static void cancel_b(void) {
    play_pause("before it cancels");
    order.cancel_began = true;
    order.after = order.ended;
    play_cancel(B);
    order.cancel_ended = true;
}

static void acquire_b(void) {
    play_pause("before it acquires");
    order.before = order.cancel_ended;
    order.began = true;
    tl_err code = play_acquire(B, TL_FOREVER);
    order.ended = true;
    one_of(B, code, BIT(TL_OK) | BIT(TL_ECANCELLED));
    play_must(!order.before || code == TL_ECANCELLED, "a cancel before the acquire is forgotten");
    if (code == TL_OK)
        released(B, play_release(B));
}

/* Either the acquire that ran then or the next one is cancelled, and no other. */
static void cancelled_once(void) {
    bool cancelled = play_lock(B)->code == TL_ECANCELLED;
    c_is_free();
    tl_err code = play_acquire(B, soon_ms());
    one_of(B, code,
           cancelled     ? BIT(TL_OK)
           : order.after ? BIT(TL_ECANCELLED)
                         : BIT(TL_OK) | BIT(TL_ECANCELLED));
    if (code == TL_OK)
        released(B, play_release(B));
}

static void make_and_note(void) {
    memset(&order, 0, sizeof order);
    make_three();
}

static void release_a_soon(void) {
    play_sleep(SIM_MS);
    release_a();
}

static void cancel_b_soon(void) {
    play_sleep(SIM_MS);
    cancel_b();
}

/* Nobody releases what it waits for. */
static void only_a_cancel_ends_it(void) {
    one_of(B, play_lock(B)->code, BIT(TL_ECANCELLED));
    released(A, play_release(A));
    c_is_free();
}

/* ---- without blocking -------------------------------------------------------------------------------- */

static void hold_a_and_begin_b(void) {
    hold_a();
    (void)play_acquire_async(B, TL_FOREVER);
}

static void free_b(void) {
    play_free(B);
}

/* One that is freed while it is held, as its owner has been told, expires by itself. */
static void c_is_free_unless_b_was_had(void) {
    one_of(C, play_acquire(C, play_lock(B)->done ? 3000 : soon_ms()), BIT(TL_OK));
    released(C, play_release(C));
}

static void hold_a_and_b_and_c_wait(void) {
    hold_a_and_begin_b();
    (void)play_acquire_async(C, TL_FOREVER);
}

static void c_has_it(void) {
    play_await(C, 0);
    one_of(C, play_lock(C)->code, BIT(TL_OK));
    if (play_lock(C)->code == TL_OK)
        released(C, play_release(C));
}

/* The last in the queue goes, and another comes. */
static void release_when_had(int lock) {
    const sim_play_lock *l = play_lock(lock);
    if (l->done == 1 && l->code == TL_OK)
        one_of(lock, play_release_async(lock), BIT(TL_OK));
}

static void hold_a_and_make_four(void) {
    hold_a_and_b_and_c_wait();
    play_make(D, 0, 0, false, NULL);
    play_lock(B)->then = play_lock(C)->then = release_when_had;
}

static void cancel_c(void) {
    play_cancel(C);
}

static void use_d(void) {
    use(D);
}

static void all_have_ended(void) {
    play_await(B, 0);
    play_await(C, 0);
    one_of(C, play_lock(C)->code,
           BIT(TL_OK) | BIT(TL_ECANCELLED) |
               (play_held_up() ? BIT(TL_EEXPIRED) | BIT(TL_ETAKEN) : 0));
    tl_err code = play_acquire(D, soon_ms());
    one_of(D, code, BIT(TL_OK));
}

/* Who tries once doesn't queue. */
static void try_b_once(void) {
    tl_err code = play_acquire(B, 0);
    one_of(B, code, BIT(TL_OK) | BIT(TL_EBUSY));
    if (code == TL_OK)
        released(B, play_release(B));
}

static void b_ends_somehow(void) {
    play_await(B, 0);
    one_of(B, play_lock(B)->code, BIT(TL_OK) | BIT(TL_ECANCELLED));
    bool was_cancelled = play_lock(B)->code == TL_ECANCELLED;
    if (play_lock(B)->code == TL_OK)
        released(B, play_release(B));
    tl_err code = play_acquire(B, soon_ms());
    one_of(B, code, BIT(TL_OK) | (was_cancelled ? 0 : BIT(TL_ECANCELLED)));
    if (code == TL_OK)
        released(B, play_release(B));
    c_is_free();
}

static void just_cancel_b(void) {
    play_cancel(B);
}

static void only_a_cancel_ends_b(void) {
    play_await(B, 0);
    only_a_cancel_ends_it();
}

/* The one who asks the server for both of them goes. */
static void two_wait_for_another_client(void) {
    play_open(0, false);
    play_open(1, false);
    play_make(A, 1, 0, false, NULL);
    play_make(B, 0, 0, false, NULL);
    play_make(C, 0, 0, false, NULL);
    one_of(A, play_acquire(A, TL_FOREVER), BIT(TL_OK));
    (void)play_acquire_async(B, TL_FOREVER);
    (void)play_acquire_async(C, TL_FOREVER);
}

static void c_has_it_after_all(void) {
    play_await(B, 0);
    if (play_lock(B)->code == TL_OK)
        released(B, play_release(B));
    play_await(C, 0);
    one_of(C, play_lock(C)->code, BIT(TL_OK));
    released(C, play_release(C));
}

/* What is told later must still be told. */
static void c_is_told(void) {
    one_of(C, play_acquire_async(C, 3000), BIT(TL_OK));
    play_await(C, 0);
    one_of(C, play_lock(C)->code, BIT(TL_OK));
    if (play_lock(C)->code)
        return;
    one_of(C, play_release_async(C), BIT(TL_OK));
    play_await(C, 0);
}

static void begin_b(void) {
    play_pause("before it begins");
    order.before = order.cancel_ended;
    one_of(B, play_acquire_async(B, TL_FOREVER), BIT(TL_OK));
    play_await(B, 0);
    order.ended = true;
    one_of(B, play_lock(B)->code, BIT(TL_OK) | BIT(TL_ECANCELLED));
    play_must(!order.before || play_lock(B)->code == TL_ECANCELLED,
              "a cancel before the acquire is forgotten");
    if (play_lock(B)->code == TL_OK)
        released(B, play_release(B));
}

static void release_async_and_free_a(void) {
    one_of(A, play_release_async(A), BIT(TL_OK));
    play_free(A);
}

/* From the callbacks: acquired, released, acquired again, released. */
static void next_of_chain(int lock) {
    const sim_play_lock *l = play_lock(lock);
    one_of(lock, l->code, BIT(TL_OK) | (play_held_up() ? BIT(TL_EEXPIRED) | BIT(TL_ETAKEN) : 0));
    if (l->done % 2 == 1 && l->code)
        play_must(play_held_up(), "%c isn't had", l->name);
    else if (l->done == 1 || l->done == 3)
        one_of(lock, play_release_async(lock), BIT(TL_OK));
    else if (l->done == 2)
        one_of(lock, play_acquire_async(lock, TL_FOREVER), BIT(TL_OK));
}

static void make_chain(bool dispatch) {
    play_open(0, dispatch);
    play_make(A, 0, 0, false, NULL);
    play_make(B, 0, 0, false, NULL);
    play_lock(A)->then = play_lock(B)->then = next_of_chain;
    (void)play_ping(0);
}

static void make_chain_of_keeper(void) {
    make_chain(false);
}

static void make_chain_of_loop(void) {
    make_chain(true);
}

static void chain(int lock) {
    one_of(lock, play_acquire_async(lock, TL_FOREVER), BIT(TL_OK));
    play_await(lock, 0);
}

static void chain_a(void) {
    chain(A);
}

static void chain_b(void) {
    chain(B);
}

static void chains_have_ended(void) {
    play_must(play_held_up() || (play_lock(A)->done == 4 && play_lock(B)->done == 4),
              "not all ends are told");
    c_is_free();
}

/* One thread dispatches; the other only begins. */
static bool chain_goes_on(int lock) {
    const sim_play_lock *l = play_lock(lock);
    return l->begun == 0 || l->done < l->begun || l->tells;
}

static void dispatch_both(void) {
    one_of(A, play_acquire_async(A, TL_FOREVER), BIT(TL_OK));
    while (chain_goes_on(A) || chain_goes_on(B))
        play_dispatch(0, 20 * SIM_MS);
}

static void only_begin_b(void) {
    one_of(B, play_acquire_async(B, TL_FOREVER), BIT(TL_OK));
}

static void chains_of_loop_have_ended(void) {
    play_must(play_held_up() || (play_lock(A)->done == 4 && play_lock(B)->done == 4),
              "not all ends are told");
}

/* ---- against what the keeper does --------------------------------------------------------------------- */

static void with_events(const tl_lock_options *o) {
    open_one();
    play_make(A, 0, 0, true, o);
    play_make(B, 0, 0, false, NULL);
    acquire_a_behind_c();
}

static void a_with_events(void) {
    with_events(NULL);
}

static void delete_a(void) {
    play_delete(0);
}

#define GONE (BIT(TL_OK) | BIT(TL_ELOST) | BIT(TL_EEXPIRED) | BIT(TL_ETAKEN))

static void extend_a(void) {
    play_sleep_to_renewal(A);
    tl_err code = play_extend(A, 1000);
    one_of(A, code, GONE);
    if (code != TL_EEXPIRED && code != TL_ETAKEN)
        one_of(A, play_release(A), GONE);
}

static void delete_a_at_renewal(void) {
    play_sleep_to_renewal(A);
    play_delete(0);
}

/* A key that is deleted by hand binds for its lifetime all the same. */
static void c_is_free_later(void) {
    if (!play_lock(C)->handle)
        play_make(C, 0, 0, false, NULL);
    one_of(C, play_acquire(C, 3000), BIT(TL_OK));
    one_of(C, play_release(C), BIT(TL_OK));
}

static void extend_a_only(void) {
    play_sleep_to_renewal(A);
    tl_err code = play_extend(A, 1000);
    one_of(A, code, BIT(TL_OK) | (play_held_up() ? GONE : 0));
    if (code != TL_EEXPIRED && code != TL_ETAKEN)
        released(A, play_release(A));
}

static void release_a_at_renewal(void) {
    play_sleep_to_renewal(A);
    released(A, play_release(A));
}

#define HOLD_MS 20

static void pause_in_event(int lock) {
    (void)lock;
    play_pause("in its callback");
    play_sleep(200 * US);
}

static void hold_a_for_a_while(void) {
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = 1000, .max_hold_ms = HOLD_MS);
    with_events(&o);
    play_lock(A)->on_event = pause_in_event;
}

static void release_a_when_lost(void) {
    play_sleep(HOLD_MS * SIM_MS - 200 * US);
    one_of(A, play_release(A), GONE);
}

static void extend_a_when_lost(void) {
    play_sleep(HOLD_MS * SIM_MS - 1500 * US);
    one_of(A, play_extend(A, 1000), GONE);
    play_sleep(50 * SIM_MS);
}

static void free_a_when_lost(void) {
    play_sleep(HOLD_MS * SIM_MS - 200 * US);
    play_free(A);
}

/* From its own callback: it is lost, and acquired anew at once. */
static void acquire_anew(int lock) {
    if (play_lock(lock)->told == TL_LOST && play_lock(lock)->begun == 0)
        one_of(lock, play_acquire_async(lock, TL_FOREVER), BIT(TL_OK));
}

static void hold_a_for_a_while_and_anew(void) {
    hold_a_for_a_while();
    play_lock(A)->on_event = acquire_anew;
}

static void wait_for_loss_of_a(void) {
    play_sleep((HOLD_MS + 5) * SIM_MS);
    while (play_lock(A)->begun == 0)
        play_sleep(SIM_MS);
    play_await(A, 0);
    one_of(A, play_lock(A)->code, BIT(TL_OK));
    if (play_lock(A)->code == TL_OK)
        one_of(A, play_release(A), GONE);
}

static void hold_a_by_hand(void) {
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = HOLD_MS, .manual_renew = true);
    with_events(&o);
    play_lock(A)->on_event = pause_in_event;
}

/* Its key is deleted while another waits for it. */
static void a_is_lost(void) {
    while (!play_lock(A)->losses && play_now() < 3000 * SIM_MS)
        play_sleep(50 * SIM_MS);
    play_must(play_lock(A)->losses == 1, "its loss isn't told");
    one_of(A, play_release(A), GONE);
}

static void use_b_in_the_end(void) {
    one_of(B, play_acquire(B, TL_FOREVER), BIT(TL_OK));
    one_of(B, play_release(B), GONE | BIT(TL_EUNCERTAIN) | BIT(TL_EUNAVAILABLE));
}

/* Two renewals in one request, and one of the two goes. */
static void hold_two_keys(void) {
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = 1000);
    open_one();
    play_make(A, 0, 0, true, &o);
    play_make(B, 0, 1, true, &o);
    one_of(A, play_acquire(A, TL_FOREVER), BIT(TL_OK));
    one_of(B, play_acquire(B, TL_FOREVER), BIT(TL_OK));
}

static void free_a_at_renewal(void) {
    play_sleep_to_renewal(A);
    play_free(A);
}

static void extend_b_at_renewal(void) {
    play_sleep_to_renewal(B);
    tl_err code = play_extend(B, 1000);
    one_of(B, code, BIT(TL_OK) | (play_held_up() ? GONE : 0));
}

static void step(void) {
    play_sleep_to_renewal(A);
    play_step_clock(200 * SIM_MS);
    play_sleep(700 * SIM_MS);
}

static void free_a_after_a_step(void) {
    play_sleep_to_renewal(A);
    play_sleep(400 * US);
    play_free(A);
}

/* Nobody lets go of what is lost. */
static void do_nothing(void) {
    play_sleep((HOLD_MS + 40) * SIM_MS);
    play_must(play_lock(A)->losses == 1 || play_held_up(), "its loss is told late");
}

static void loss_is_told(void) {
    play_must(play_lock(A)->losses == 1 || play_held_up(), "its loss isn't told");
    c_is_free();
}

/* While nobody else gives the keeper anything to do. */
static void hold_a_alone_for_a_while(void) {
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = 1000, .max_hold_ms = HOLD_MS);
    open_one();
    play_make(A, 0, 0, true, &o);
    (void)play_ping(0);
    one_of(A, play_acquire(A, TL_FOREVER), BIT(TL_OK));
}

/* Nothing binds before its first renewal, which finds that it has gone: another has it as soon, while who is to tell of
 * it is held up. */
static void loss_is_told_soon(void) {
    play_sleep(2 * SHORT);
    loss_is_told();
}

/* One that is extended is given up by nobody who has called it lost before. */
/* Its first renewal has bound it: the key that is gone is nobody's, until who has lost it gives up what is left. */
static void delete_a_when_bound(void) {
    play_sleep_to_renewal(A);
    play_sleep(10 * SIM_MS);
    play_delete(0);
}

static void extend_a_and_keep_it(void) {
    play_sleep_to_renewal(A);
    tl_err code = play_extend(A, 1000);
    one_of(A, code, GONE);
}

/* Its connection is cut, and whoever is to dispatch is late: of a risk and its end both are told, or neither. */
static void hold_a_with_a_loop(void) {
    play_open(0, true);
    play_make(A, 0, 0, true, NULL);
    one_of(A, play_acquire(A, TL_FOREVER), BIT(TL_OK));
}

static void cut_at_renewal(void) {
    play_sleep_to_renewal(A);
    play_cut();
    play_sleep(100 * SIM_MS);
    play_cut();
}

static void hold_a_with_a_loop_for_a_while(void) {
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = 1000, .max_hold_ms = 345);
    play_open(0, true);
    play_make(A, 0, 0, true, &o);
    one_of(A, play_acquire(A, TL_FOREVER), BIT(TL_OK));
}

static void dispatch_once(void) {
    play_sleep(400 * SIM_MS);
    play_dispatch(0, 100 * SIM_MS);
}

static void lost_is_told(void) {
    play_must(play_lock(A)->losses == 1, "its loss isn't told");
    play_free(A);
    play_dispatch(0, SIM_MS);
}

static void dispatch_late(void) {
    for (int i = 0; i < 6; i++) {
        play_sleep(100 * SIM_MS);
        play_dispatch(0, 100 * SIM_MS);
    }
}

/* ---- a watchdog -------------------------------------------------------------------------------------- */

#define STALL_MS 300
#define SOON (40 * SIM_MS)

static void hold_a_watched(void) {
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = 1000, .stall_ms = STALL_MS);
    open_one();
    play_make(A, 0, 0, true, &o);
    play_make(B, 0, 0, false, NULL);
    (void)play_ping(0);
    one_of(A, play_acquire(A, TL_FOREVER), BIT(TL_OK));
}

static void a_is(tl_state state) {
    play_must(play_lock(A)->told == state || play_held_up(), "a is told %d, not %d",
              (int)play_lock(A)->told, (int)state);
}

static void release_fed_a(void) {
    tl_err code = play_release(A);
    one_of(A, code, play_held_up() ? GONE : BIT(TL_OK));
}

static void feed_a(void) {
    for (int i = 0; i < 6; i++) {
        play_sleep((STALL_MS - 60) * SIM_MS);
        a_is(TL_HELD);
        play_alive(A);
    }
    release_fed_a();
}

static void feed_a_again(void) {
    play_sleep(STALL_MS * SIM_MS + SOON);
    a_is(TL_AT_RISK);
    play_sleep(200 * SIM_MS);
    play_alive(A);
    play_sleep(SOON);
    a_is(TL_HELD);
    release_fed_a();
}

static void call_a_stalled(void) {
    play_sleep(SOON);
    play_stall(A);
    play_sleep(SOON / 2);
    a_is(TL_AT_RISK);
    play_alive(A);
    play_sleep(SOON);
    a_is(TL_HELD);
    release_fed_a();
}

static void extend_watched_a(void) {
    play_sleep((STALL_MS - 60) * SIM_MS);
    tl_err code = play_extend(A, 1000);
    one_of(A, code, play_held_up() ? GONE : BIT(TL_OK));
    play_sleep((STALL_MS - 60) * SIM_MS);
    a_is(TL_HELD);
    release_fed_a();
}

/* Its key lasts for longer on the server than it counts on. */
static void hold_a_for_less(void) {
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = 1000, .stall_ms = 30);
    open_one();
    play_make(A, 0, 0, true, &o);
    play_make(B, 0, 0, false, NULL);
    (void)play_ping(0);
    one_of(A, play_acquire(A, TL_FOREVER), BIT(TL_OK));
    one_of(A, play_extend(A, 100), BIT(TL_OK));
}

static void hang_with_a(void) {
    play_sleep(100 * SIM_MS + SOON);
    play_must(play_lock(A)->losses == 1 || play_held_up(), "its loss isn't told");
}

/* ---- two clients ------------------------------------------------------------------------------------- */

static void make_two_clients(void) {
    play_open(0, false);
    play_open(1, false);
    play_make(A, 0, 0, false, NULL);
    play_make(B, 1, 0, false, NULL);
    (void)play_ping(0);
    (void)play_ping(1);
}

/* Who has waited is forgotten at once, and the inbox a while after the last of them. */
static void nobody_listens(void) {
    c_is_free();
    for (int i = 0; i < 2; i++)
        play_must(!play_listens(i), "client %d has one that listens, and nobody who waits", i);
    play_sleep(32000 * SIM_MS);
    for (int i = 0; i < 2; i++)
        play_must(!play_hears_inbox(i), "client %d listens to its inbox for ever", i);
}

static void hold_a_of_two_clients(void) {
    make_two_clients();
    one_of(A, play_acquire(A, TL_FOREVER), BIT(TL_OK));
}

static void release_and_close(void) {
    one_of(A, play_release_async(A), BIT(TL_OK));
    play_free(A);
    play_close(0);
}

static void c_of_second_is_free(void) {
    play_make(C, 1, 0, false, NULL);
    one_of(C, play_acquire(C, soon_ms()), BIT(TL_OK));
    released(C, play_release(C));
}

/* No answer comes, and the machine is left to clean up while its client is closed. */
static void acquire_without_answer(void) {
    tl_err code = play_acquire(A, 20);
    one_of(A, code, BIT(TL_OK) | BIT(TL_EUNCERTAIN) | BIT(TL_ETIMEDOUT) | BIT(TL_EUNAVAILABLE));
    if (code == TL_OK)
        one_of(A, play_release(A), ~0U);
    play_free(A);
    play_close(0);
}

static void lose_replies(void) {
    play_sleep(100 * US);
    play_lose_replies();
}

static void make_by_name(void) {
    open_one();
    play_make(A, 0, 0, false, NULL);
}

static void acquire_and_close(void) {
    tl_err code = play_acquire(A, 1);
    one_of(A, code,
           BIT(TL_OK) | BIT(TL_EUNCERTAIN) | BIT(TL_ETIMEDOUT) | BIT(TL_EUNAVAILABLE) |
               BIT(TL_ECANCELLED));
    play_free(A);
    play_close(0);
}

static void open_another(void) {
    play_open(1, false);
    one_of(B, play_ping(1), BIT(TL_OK));
    play_close(1);
}

static void a_is_released_somehow(void) {
    one_of(A, play_release(A), ~0U);
}

/* ---- the pool ------------------------------------------------------------------------------------------ */

static void ping(void) {
    one_of(A, play_ping(0),
           BIT(TL_OK) | (play_held_up() ? BIT(TL_EUNAVAILABLE) | BIT(TL_EUNCERTAIN) : 0));
}

static void take_b(void) {
    tl_err code = play_acquire(B, TL_FOREVER);
    one_of(B, code, BIT(TL_OK) | BIT(TL_ECANCELLED));
    if (code == TL_OK)
        released(B, play_release(B));
}

/* All connections are busy, and one who waits for one is cancelled. */
static void ping_in_vain(void) {
    one_of(A, play_ping(0), BIT(TL_OK) | BIT(TL_EUNCERTAIN) | BIT(TL_EUNAVAILABLE));
}

static void lose_replies_for_long(void) {
    for (int i = 0; i < 4; i++) {
        play_lose_replies();
        play_sleep(100 * US);
    }
}

static void cancel_b_at_once(void) {
    play_sleep(20 * SIM_MS);
    sim_ns began = play_now();
    play_cancel(B);
    play_sleep(50 * SIM_MS);
    play_must(play_lock(B)->code == TL_ECANCELLED || play_now() - began > 55 * SIM_MS,
              "a cancel doesn't end the wait for a connection");
}

static void wait_for_connection(void) {
    play_lock(B)->code = TL_EINVALID;
    play_sleep(10 * SIM_MS);
    one_of(B, play_acquire(B, TL_FOREVER), BIT(TL_ECANCELLED));
}

/* At a shared connection: one looks for his answer while another sleeps, and then nobody looks any more. */
static void make_apart(void) {
    open_one();
    for (int i = A; i <= C; i++)
        play_make(i, 0, i, false, NULL);
    (void)play_ping(0);
}

static void use_soon(int lock, sim_ns ns) {
    for (int i = 0; i < 2; i++) {
        use(lock);
        play_sleep(ns);
    }
}

static void use_a_soon(void) {
    use_soon(A, 40 * US);
}

static void use_b_soon(void) {
    play_sleep(60 * US);
    use_soon(B, 70 * US);
}

static void use_c_soon(void) {
    play_sleep(130 * US);
    use_soon(C, 100 * US);
}

/* ---- the plays --------------------------------------------------------------------------------------- */

/* What comes before and after; how long one is held up, and how long it takes otherwise; all runs with at most so many switches,
 * and in a long test, and how many are drawn; then the threads. */
#define PLAY(name, before, after, stop, longer_stop, within, all, all_long, drawn, traits, ...)    \
    {                                                                                              \
        name, before, {__VA_ARGS__}, after, {stop, longer_stop}, within, all, all_long, drawn,     \
            traits                                                                                 \
    }

const sim_play sim_plays[] = {
    PLAY("hand-over", make_two, c_is_free, SHORT, LONG, 400 * SIM_MS, 2, 2, 2000, 0, use_a, use_b),
    PLAY("hand-over-again", make_two, c_is_free, SHORT, LONG, 400 * SIM_MS, 1, 2, 4000, 0,
         use_a_twice, use_b_twice),
    PLAY("three", make_three, c_is_free, SHORT, LONG, 400 * SIM_MS, 1, 2, 4000, 0, use_a, use_b,
         use_c),
    PLAY("release-to-one-who-waits", hold_a, c_is_free, SHORT, LONG, 400 * SIM_MS, 2, 2, 2000, 0,
         release_a, use_b),
    PLAY("time-is-up", hold_a, c_is_free, SHORT, LONG, 400 * SIM_MS, 2, 2, 2000, 0,
         release_a_in_time, try_b),
    PLAY("cancelled", hold_a_and_note, cancelled_once, SHORT, LONG, 400 * SIM_MS, 2, 2, 2000, 0,
         release_a, acquire_b, cancel_b),
    PLAY("cancelled-alone", make_and_note, cancelled_once, SHORT, LONG, 400 * SIM_MS, 2, 2, 2000, 0,
         acquire_b, cancel_b),
    PLAY("freed-while-it-waits", hold_a_and_begin_b, c_is_free_unless_b_was_had, SHORT, LONG,
         400 * SIM_MS, 2, 2, 2000, 0, release_a, free_b),
    PLAY("freed-before-another", hold_a_and_b_and_c_wait, c_has_it, SHORT, LONG, 400 * SIM_MS, 2, 2,
         2000, 0, release_a, free_b),
    PLAY("cancelled-async", hold_a_and_begin_b, b_ends_somehow, SHORT, LONG, 400 * SIM_MS, 2, 2,
         2000, 0, release_a, just_cancel_b),
    PLAY("cancelled-as-it-begins", make_and_note, cancelled_once, SHORT, LONG, 400 * SIM_MS, 2, 2,
         2000, 0, begin_b, cancel_b),
    PLAY("freed-while-it-is-released", hold_a, c_is_told, SHORT, LONG, 400 * SIM_MS, 1, 2, 2000, 0,
         release_async_and_free_a, use_b),
    PLAY("chains", make_chain_of_keeper, chains_have_ended, SHORT, LONG, 600 * SIM_MS, 1, 2, 3000,
         0, chain_a, chain_b),
    PLAY("dispatched", make_chain_of_loop, chains_of_loop_have_ended, SHORT, LONG, 600 * SIM_MS, 1,
         2, 3000, 0, dispatch_both, only_begin_b),
    PLAY("extended-while-lost", a_with_events, c_is_free_later, SHORT, LONG, 1500 * SIM_MS, 2, 2,
         2000, PLAY_SPOILT, extend_a, delete_a_at_renewal),
    PLAY("extended-while-renewed", a_with_events, c_is_free, SHORT, LONG, 1500 * SIM_MS, 1, 2, 2000,
         0, extend_a_only, use_b),
    PLAY("released-while-renewed", a_with_events, c_is_free, SHORT, LONG, 1500 * SIM_MS, 2, 2, 2000,
         0, release_a_at_renewal, use_b),
    PLAY("released-while-lost", hold_a_for_a_while, c_is_free_later, SHORT, LONG, 1500 * SIM_MS, 2,
         2, 2000, 0, release_a_when_lost, use_b),
    PLAY("freed-while-lost", hold_a_for_a_while, c_is_free_later, SHORT, LONG, 1500 * SIM_MS, 1, 2,
         2000, 0, free_a_when_lost, use_b),
    PLAY("acquired-anew", hold_a_for_a_while_and_anew, NULL, SHORT, LONG, 1500 * SIM_MS, 1, 2, 3000,
         0, wait_for_loss_of_a, use_b),
    PLAY("released-while-it-expires", hold_a_by_hand, c_is_free, SHORT, LONG, 600 * SIM_MS, 1, 2,
         2000, PLAY_SPOILT, release_a_when_lost, use_b), /* the server's clock may be slower */
    PLAY("deleted-while-another-waits", a_with_events, c_is_free_later, SHORT, 0, 3500 * SIM_MS, 1,
         2, 1000, PLAY_SPOILT, a_is_lost, use_b_in_the_end, delete_a),
    PLAY("one-of-two-renewed-goes", hold_two_keys, NULL, SHORT, LONG, 1500 * SIM_MS, 2, 2, 2000, 0,
         free_a_at_renewal, extend_b_at_renewal),
    PLAY("freed-when-the-clock-steps", hold_two_keys, NULL, SHORT, LONG, 3000 * SIM_MS, 1, 2, 1000,
         PLAY_SPOILT, step, free_a_after_a_step),
    PLAY("two-clients", make_two_clients, c_is_free, SHORT, LONG, 600 * SIM_MS, 1, 2, 3000, 0,
         use_a, use_b),
    PLAY("closed-while-another-waits", hold_a_of_two_clients, c_of_second_is_free, SHORT, LONG,
         600 * SIM_MS, 1, 2, 3000, 0, release_and_close, use_b),
    PLAY("closed-while-it-cleans-up", make_two_clients, c_of_second_is_free, SHORT, 0,
         3000 * SIM_MS, 1, 2, 2000, PLAY_BY_POOL | PLAY_SPOILT, acquire_without_answer,
         use_b_in_the_end, lose_replies),
    PLAY("closed-while-a-name-is-asked", make_by_name, NULL, SHORT, 0, 1500 * SIM_MS, 2, 2, 2000,
         PLAY_BY_NAME | PLAY_SPOILT, acquire_and_close, open_another),
    PLAY("cut-while-it-waits", hold_a_of_two_clients, c_of_second_is_free, SHORT, 0, 3000 * SIM_MS,
         1, 2, 2000, PLAY_SPOILT, a_is_released_somehow, use_b_in_the_end, play_cut),
    PLAY("cancelled-as-it-is-given", hold_a_and_note, cancelled_once, SHORT, LONG, 400 * SIM_MS, 2,
         2, 2000, 0, release_a_soon, acquire_b, cancel_b_soon),
    PLAY("only-cancelled", hold_a_and_note, only_a_cancel_ends_it, SHORT, 0, 400 * SIM_MS, 3, 3,
         500, 0, acquire_b, cancel_b),
    PLAY("only-cancelled-async", hold_a_and_begin_b, only_a_cancel_ends_b, SHORT, 0, 400 * SIM_MS,
         3, 3, 500, 0, just_cancel_b),
    PLAY("cancelled-in-front", two_wait_for_another_client, c_has_it_after_all, SHORT, 0,
         600 * SIM_MS, 2, 2, 500, 0, just_cancel_b, release_a),
    PLAY("extended-when-lost", hold_a_for_a_while, c_is_free_later, SHORT, LONG, 1500 * SIM_MS, 1,
         2, 1000, 0, extend_a_when_lost, use_b),
    PLAY("two-clients-again", make_two_clients, nobody_listens, SHORT, 0, 1200 * SIM_MS, 1, 2, 2000,
         0, use_a_twice, use_b_twice),
    PLAY("lost-at-risk", hold_a_with_a_loop_for_a_while, lost_is_told, SHORT, 0, 1500 * SIM_MS, 1,
         2, 500, PLAY_SPOILT, dispatch_once, cut_at_renewal),
    PLAY("lost-alone", hold_a_alone_for_a_while, NULL, SHORT, LONG, 100 * SIM_MS, 3, 3, 500, 0,
         do_nothing),
    PLAY("lost-and-kept", hold_a_for_a_while, loss_is_told, SHORT, LONG, 1300 * SIM_MS, 1, 2, 1000,
         0, do_nothing, use_b),
    PLAY("deleted-and-kept", a_with_events, loss_is_told_soon, SHORT, 0, 800 * SIM_MS, 1, 2, 500,
         PLAY_SPOILT, delete_a, use_b_in_the_end),
    PLAY("deleted-when-bound", a_with_events, loss_is_told_soon, SHORT, 0, 1000 * SIM_MS, 1, 2, 500,
         PLAY_SPOILT, delete_a_when_bound, use_b_in_the_end),
    PLAY("extended-and-kept", a_with_events, c_is_free_later, SHORT, 0, 1200 * SIM_MS, 1, 2, 500,
         PLAY_SPOILT, extend_a_and_keep_it, use_b_in_the_end, delete_a_at_renewal),
    PLAY("fed", hold_a_watched, c_is_free, SHORT, LONG, 2000 * SIM_MS, 1, 2, 500, 0, feed_a, use_b),
    PLAY("fed-again", hold_a_watched, c_is_free, SHORT, LONG, 1000 * SIM_MS, 1, 2, 500, 0,
         feed_a_again, use_b),
    PLAY("called-stalled", hold_a_watched, c_is_free, SHORT, LONG, 500 * SIM_MS, 1, 2, 500, 0,
         call_a_stalled, use_b),
    PLAY("extended-instead-of-fed", hold_a_watched, c_is_free, SHORT, LONG, 1000 * SIM_MS, 1, 2,
         500, 0, extend_watched_a, use_b),
    PLAY("hung", hold_a_for_less, c_is_free, SHORT, LONG, 500 * SIM_MS, 1, 2, 500, 0, hang_with_a,
         use_b),
    PLAY("apart", make_apart, NULL, 60 * US, 150 * US, 100 * SIM_MS, 1, 2, 4000, 0, use_a_soon,
         use_b_soon, use_c_soon),
    PLAY("told-late", hold_a_with_a_loop, NULL, SHORT, LONG, 2500 * SIM_MS, 1, 2, 500, PLAY_SPOILT,
         dispatch_late, cut_at_renewal),
    PLAY("last-in-the-queue-goes", hold_a_and_make_four, all_have_ended, SHORT, LONG, 400 * SIM_MS,
         1, 2, 2000, 0, cancel_c, use_d, release_a),
    PLAY("tried-once", make_three, c_is_free, SHORT, LONG, 400 * SIM_MS, 1, 2, 1000, 0, use_a,
         try_b_once),
    PLAY("pool-is-empty", make_three, c_is_free, SHORT, 0, 600 * SIM_MS, 0, 1, 60,
         PLAY_CROWD | PLAY_BY_POOL, just_cancel_b, take_b, ping),
    PLAY("pool-is-held", make_two, c_is_free, 0, 0, 1500 * SIM_MS, 0, 1, 60,
         PLAY_CROWD | PLAY_BY_POOL | PLAY_SPOILT, lose_replies_for_long, cancel_b_at_once,
         wait_for_connection, ping_in_vain),
};
const unsigned sim_play_count = sizeof sim_plays / sizeof *sim_plays;
