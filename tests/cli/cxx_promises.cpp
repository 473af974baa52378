/*
 * What tidelock.hpp promises, on a real server: cxx_promises URL. It says what is wrong and ends with 1.
 */
#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>

#include <tidelock/inspect.h>
#include <tidelock/tidelock.hpp>

using namespace std::chrono_literals;
using tidelock::errc;

static int failures;
static std::string url;

/* On a busy machine an answer may be late: what is no question of time has time. */
static tidelock::client patient() {
    tl_client_options options = TL_CLIENT_OPTIONS();
    options.url = url.c_str();
    options.attempt_ms = options.connect_ms = 30000;
    return tidelock::client(options);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::cout << __FILE__ << ':' << __LINE__ << ": " << #condition << '\n';                \
            failures++;                                                                            \
        }                                                                                          \
    } while (false)

/* The error that it throws, none if it throws nothing. */
template <class F> static std::error_code thrown(F &&call) {
    try {
        call();
    } catch (const tidelock::error &e) {
        CHECK(e.code().value() == static_cast<int>(e.details().code));
        CHECK(std::strstr(e.what(), e.details().message) == e.what());
        return e.code();
    }
    return {};
}

/* It doesn't acquire, as another has it for all of the wait: that is no error, unless the end of the wait met a question
 * that was not answered yet, or the machine was too busy for any answer in that time. The client counts it as what it is. */
template <class F> static bool in_vain(const tidelock::client &client, F &&call) {
    tl_stats before = client.stats();
    std::error_code told, code = thrown([&] { told = call(); });
    code = code ? code : told;
    tl_stats after = client.stats();
    bool fine = !code || code == errc::uncertain || code == errc::unavailable;
    int result = code ? code.value() : TL_ETIMEDOUT;
    if (!fine)
        std::cout << "it ended with " << code.message() << '\n';
    return fine && after.acquires[result] == before.acquires[result] + 1;
}

static std::error_code not_had(bool acquired) {
    CHECK(!acquired);
    return {};
}

/* ---- what is true when it compiles ------------------------------------------------------------- */

static_assert(std::is_same_v<tidelock::lock, tidelock::mutex>);
static_assert(!std::is_copy_constructible_v<tidelock::lock> &&
              !std::is_copy_assignable_v<tidelock::lock>);
static_assert(std::is_nothrow_move_constructible_v<tidelock::lock> &&
              std::is_nothrow_move_assignable_v<tidelock::lock>);
static_assert(!std::is_copy_constructible_v<tidelock::client>);
static_assert(std::is_nothrow_move_constructible_v<tidelock::client> &&
              std::is_nothrow_move_assignable_v<tidelock::client>);
static_assert(std::is_base_of_v<std::system_error, tidelock::error>);
static_assert(std::is_nothrow_copy_constructible_v<tidelock::error>);
// A thread that is cancelled leaves through what waits.
static_assert(
    noexcept(std::declval<tidelock::lock &>().unlock()) &&noexcept(
        std::declval<tidelock::lock &>().fence()) &&noexcept(std::declval<tidelock::lock &>()
                                                                 .remaining()) &&
    !noexcept(std::declval<tidelock::lock &>().try_lock(std::declval<std::error_code &>())) &&
    !noexcept(std::declval<tidelock::lock &>().lock()));
static_assert(std::is_error_code_enum_v<tidelock::errc>);

/* ---- errors ------------------------------------------------------------------------------------- */

static void errors() {
    std::error_code busy = errc::busy;
    CHECK(&busy.category() == &tidelock::category());
    CHECK(std::string(busy.category().name()) == "tidelock");
    CHECK(busy == std::errc::device_or_resource_busy);
    CHECK(std::error_code(errc::timed_out) == std::errc::timed_out);
    CHECK(std::error_code(errc::invalid) == std::errc::invalid_argument);
    CHECK(std::error_code(errc::taken) != std::errc::timed_out);
    for (int i = TL_OK; i <= TL_EUNSUPPORTED; i++)
        CHECK(tidelock::category().message(i) != "unknown result");
    CHECK(tidelock::category().message(1000) == "unknown result");
    CHECK(thrown([] { tidelock::client("nonsense://"); }) == errc::invalid);
    CHECK(thrown([] { tidelock::client(""); }) == errc::invalid);
    tidelock::client nobody("unix:///nowhere/at/all");
    CHECK(thrown([&] { nobody.ping(); }) == errc::unavailable);
    std::error_code code;
    nobody.ping(code);
    CHECK(code == errc::unavailable);
    CHECK(thrown([&] { tidelock::lock(nobody, ""); }) == errc::invalid);
    tidelock::lock unreachable(nobody, "k");
    CHECK(thrown([&] { unreachable.try_lock(); }) == errc::unavailable);
    CHECK(!unreachable.try_lock(code) && code == errc::unavailable);
    CHECK(unreachable.unlock() == errc::invalid);
}

/* ---- a Lockable -------------------------------------------------------------------------------- */

static void lockable() {
    tidelock::client client = patient(), others = patient();
    tidelock::lock lock(client, "cxx:k"), other(others, "cxx:k");
    std::error_code code = errc::busy;
    client.ping();
    client.ping(code);
    CHECK(!code);
    CHECK(lock.fence() == 0 && lock.token().empty() && !lock.is_held() && lock.state() == TL_FREE);
    lock.lock();
    CHECK(lock.is_held() && lock.state() == TL_HELD && lock.remaining() > 1s && lock.fence() > 0);
    CHECK(lock.token().size() == 36);
    CHECK(!other.try_lock());
    code = errc::lost;
    CHECK(!other.try_lock(code) && !code);
    CHECK(thrown([&] { lock.lock(); }) == errc::invalid); // it is held already
    lock.lock(code);
    CHECK(code == errc::invalid);
    lock.extend(60s);
    CHECK(lock.remaining() > 30s);
    lock.extend(60s, code);
    CHECK(!code);
    std::uint64_t fence = lock.fence();
    CHECK(!lock.unlock());
    CHECK(!lock.is_held() && lock.state() == TL_FREE);
    CHECK(lock.unlock() == errc::invalid);
    CHECK(thrown([&] { lock.extend(60s); }) == errc::invalid);
    CHECK(other.try_lock() && other.fence() > fence);
    CHECK(!other.unlock());
    tl_stats stats = client.stats();
    CHECK(stats.acquires[TL_OK] == 1 && stats.acquires[TL_EINVALID] == 2);
    tidelock::lock binary(client, std::string_view("a\0b", 3));
    CHECK(binary.try_lock());
    tl_lock_info info;
    info.size = sizeof info;
    CHECK(tl_client_look(client.native_handle(), "a\0b", 3, &info, nullptr) == TL_OK && info.held);
    CHECK(!binary.unlock());
}

static void timed() {
    tidelock::client client = patient(), others = patient();
    tidelock::lock lock(client, "cxx:timed"), other(others, "cxx:timed");
    std::error_code code;
    lock.lock();
    others.ping(); // it is connected, however short the wait
    auto begun = std::chrono::steady_clock::now();
    CHECK(in_vain(others, [&] { return not_had(other.try_lock_for(1s)); }));
    CHECK(std::chrono::steady_clock::now() - begun >= 1s);
    CHECK(!other.try_lock_for(1us, code)); // rounded up to what may be too short for an answer
    CHECK(!other.try_lock_for(-1h) && !other.try_lock_for(0.0s));
    CHECK(in_vain(others, [&] {
        CHECK(!other.try_lock_for(500ms, code));
        return code;
    }));
    begun = std::chrono::steady_clock::now();
    CHECK(in_vain(others, [&] { return not_had(other.try_lock_until(begun + 1s)); }));
    CHECK(std::chrono::steady_clock::now() >= begun + 1s);
    CHECK(!other.try_lock_until(std::chrono::system_clock::now() - 1h));
    tl_lock_options options = TL_LOCK_OPTIONS();
    options.retry = TL_RETRY_FIXED;
    options.retry_delay_ms = 10;
    options.retry_max_attempts = 3;
    tidelock::lock gives_up(others, "cxx:timed", options);
    auto busy = others.stats().acquires[TL_EBUSY];
    CHECK(!gives_up.try_lock_until(std::chrono::steady_clock::now() + 1h));
    CHECK(others.stats().acquires[TL_EBUSY] ==
          busy + 1); // as the strategy says, it isn't begun anew
    std::thread later([&] {
        std::this_thread::sleep_for(1s);
        (void)lock.unlock();
    });
    CHECK(other.try_lock_for(std::chrono::hours(24 * 365 * 1000)));
    later.join();
    std::thread canceller([&] {
        std::this_thread::sleep_for(200ms);
        lock.cancel();
    });
    CHECK(thrown([&] { lock.lock(); }) == errc::cancelled);
    canceller.join();
    CHECK(!other.unlock());
    CHECK(lock.try_lock_for(std::chrono::duration<double>(1e300)) && !lock.unlock());
}

static void standard_guards() {
    tidelock::client client = patient(), others = patient();
    tidelock::lock a(client, "cxx:a"), b(client, "cxx:b"), a2(others, "cxx:a"), b2(others, "cxx:b");
    {
        std::unique_lock held(a);
        others.ping();
        CHECK(held.owns_lock() && a.is_held());
        std::unique_lock<tidelock::lock> second(a2, std::try_to_lock);
        CHECK(!second);
        CHECK(in_vain(others, [&] {
            std::unique_lock third(a2, 100ms);
            return not_had(third.owns_lock());
        }));
        std::unique_lock third(a2, std::defer_lock);
        held.unlock();
        CHECK(third.try_lock_for(1min));
    }
    CHECK(!a2.is_held());
    {
        std::scoped_lock both(a, b);
        CHECK(a.is_held() && b.is_held() && !b2.try_lock());
    }
    {
        std::lock_guard one(a);
        CHECK(a.is_held());
    }
    CHECK(!a.is_held() && !b.is_held());
    std::thread other([&] {
        for (int i = 0; i < 5; i++)
            std::scoped_lock both(b2, a2);
    });
    for (int i = 0; i < 5; i++)
        std::scoped_lock both(a, b);
    other.join();
}

static void moved_and_destroyed() {
    tidelock::client opened = patient(), others = patient();
    tidelock::client client = std::move(opened);
    tidelock::lock probe(others, "cxx:m");
    {
        tidelock::lock first(client, "cxx:m");
        first.lock();
        tidelock::lock second = std::move(first);
        CHECK(second.is_held() && !probe.try_lock());
        tidelock::lock third(client, "cxx:m2");
        third.lock();
        third = std::move(second); // what it had is released
        tidelock::lock again(others, "cxx:m2");
        CHECK(again.try_lock() && !again.unlock());
        CHECK(third.is_held() && !probe.try_lock());
    } // and so is this
    CHECK(probe.try_lock() && !probe.unlock());
    client = patient();
    client.ping();
}

/* ---- a loss ------------------------------------------------------------------------------------ */

static void lost() {
    static std::atomic<int> told, heard;
    tidelock::client client = patient(), others = patient();
    tl_lock_options options = TL_LOCK_OPTIONS();
    options.on_event = [](tl_lock *, const tl_lock_event *, void *ctx) {
        ++*static_cast<std::atomic<int> *>(ctx);
    };
    options.ctx = &heard;
    tidelock::lock made(client, "cxx:lost", options, [](const tl_lock_event &event) {
        told += event.state == TL_LOST && event.why != TL_NOT_LOST ? 1 : 100;
    });
    tidelock::lock lock = std::move(made); // what is called back stays where it is
    lock.lock();
    CHECK(tl_client_break(others.native_handle(), "cxx:lost", 8, nullptr, nullptr) == TL_OK);
    for (int i = 0; i < 3000 && told == 0; i++)
        std::this_thread::sleep_for(20ms);
    CHECK(told == 1 && heard >= 1);
    CHECK(lock.state() == TL_LOST && !lock.is_held() && lock.remaining() == 0ms);
    std::error_code code = lock.unlock();
    CHECK(code == errc::expired || code == errc::taken);
    lock.lock(); // to be had again
    CHECK(lock.is_held() && !lock.unlock());
}

/* ---- a watchdog -------------------------------------------------------------------------------- */

static bool becomes(const tidelock::lock &lock, tl_state state) {
    for (int i = 0; i < 3000 && lock.state() != state; i++)
        std::this_thread::sleep_for(20ms);
    return lock.state() == state;
}

static void watched() {
    tidelock::client client = patient();
    tl_lock_options options = TL_LOCK_OPTIONS();
    options.ttl_ms = TL_TTL_MAX_MS;
    options.stall_ms = TL_TTL_MAX_MS;
    tidelock::lock lock(client, "cxx:watched", options);
    lock.lock();
    lock.stall();
    CHECK(becomes(lock, TL_AT_RISK) && lock.is_held());
    lock.alive();
    CHECK(becomes(lock, TL_HELD));
    CHECK(!lock.unlock());
}

/* ---- a rest ------------------------------------------------------------------------------------ */

static_assert(noexcept(std::declval<tidelock::lock &>().rest(std::chrono::milliseconds::zero())));

static void rests() {
    tidelock::client client = patient(), others = patient();
    tidelock::lock lock(client, "cxx:rests"), other(others, "cxx:rests");
    CHECK(lock.rest(1h) == errc::invalid); // it is not held
    lock.lock();
    CHECK(lock.rest(-1ms) == errc::invalid && lock.is_held());
    CHECK(lock.rest(std::chrono::hours(401 * 24)) == errc::invalid && lock.is_held());
    CHECK(!lock.rest(1h));
    CHECK(!lock.is_held() && lock.state() == TL_FREE);
    CHECK(!lock.try_lock() && !other.try_lock());
    CHECK(lock.rest(1h) == errc::invalid && lock.unlock() == errc::invalid);
    CHECK(tl_client_break(client.native_handle(), "cxx:rests", 9, nullptr, nullptr) == TL_OK);
    tl_lock_options options = TL_LOCK_OPTIONS();
    options.min_hold_ms = 3600000;
    options.rest_ends_wait = true;
    {
        tidelock::lock holds(client, "cxx:rests", options);
        std::lock_guard held(holds);
    }
    tidelock::lock waits(others, "cxx:rests", options);
    CHECK(thrown([&] { waits.lock(); }) == errc::busy);
    CHECK(tl_client_break(client.native_handle(), "cxx:rests", 9, nullptr, nullptr) == TL_OK);
    auto begun = std::chrono::steady_clock::now(); // a host's clock, which differs by 10 % at most
    lock.lock();
    CHECK(!lock.rest(1500ms));
    CHECK(other.try_lock_for(1min));
    CHECK(std::chrono::steady_clock::now() - begun >= 1350ms);
    CHECK(!other.unlock());
}

int main(int argc, char **argv) {
    url = argc > 1 ? argv[1] : "";
    errors();
    lockable();
    timed();
    standard_guards();
    moved_and_destroyed();
    lost();
    watched();
    rests();
    return failures > 0;
}
