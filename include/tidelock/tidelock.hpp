/*
 * tidelock for C++17: the locks of tidelock.h as Lockables, with errors as std::error_code. A
 * program links only the C library.
 *
 *     tidelock::client client("redis://10.0.0.5");
 *     tidelock::lock nightly(client, "jobs:nightly");
 *     if (std::unique_lock held(nightly, 5s); held)
 *         while (more_work() && nightly.remaining() > 0ms)
 *             do_a_little_and_write_it(nightly.fence());
 *
 * tidelock-promises(7) has the promises of a lock and their assumptions, tidelock.h the rest.
 *
 * A lock object is a handle, unlike a std::mutex, and one thread uses it at a time. Each thread
 * makes its own, with the same client and the same key. They exclude each other as those of other
 * processes do; tl_lock_options describes how they queue. A lock can be lost while it is held: then
 * remaining() is 0, the client calls on_lost, and unlock() returns an error.
 *
 * Failures throw tidelock::error, which is a std::system_error; the overloads that take a
 * std::error_code set it instead. A lock that another holds is no failure: the functions that try
 * return false.
 */
#ifndef TIDELOCK_HPP
#define TIDELOCK_HPP

#if __cplusplus < 201703L
#error "tidelock.hpp requires C++17 or later, such as -std=c++17"
#else

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <tidelock/tidelock.h>

namespace tidelock {

/* ---- errors ---------------------------------------------------------------------------------- */

/** The results of tl_err but TL_OK, with the same numbers. */
enum class errc {
    busy = TL_EBUSY,
    timed_out = TL_ETIMEDOUT,
    cancelled = TL_ECANCELLED,
    lost = TL_ELOST,
    uncertain = TL_EUNCERTAIN,
    unavailable = TL_EUNAVAILABLE,
    clock = TL_ECLOCK,
    invalid = TL_EINVALID,
    no_memory = TL_ENOMEM,
    denied = TL_EDENIED,
    server = TL_ESERVER,
    expired = TL_EEXPIRED,
    taken = TL_ETAKEN,
    unsupported = TL_EUNSUPPORTED
};

namespace detail {

class category final : public std::error_category {
  public:
    const char *name() const noexcept override { return "tidelock"; }

    std::string message(int value) const override {
        switch (static_cast<tl_err>(value)) {
        case TL_OK: return "success";
        case TL_EBUSY: return "another holds the lock";
        case TL_ETIMEDOUT: return "another held the lock until the wait ran out";
        case TL_ECANCELLED: return "the wait was cancelled";
        case TL_ELOST: return "the lock was lost";
        case TL_EUNCERTAIN: return "a request went unanswered";
        case TL_EUNAVAILABLE: return "the server was not reached, or can't serve now";
        case TL_ECLOCK: return "a clock is too far off";
        case TL_EINVALID: return "the call or an option is wrong";
        case TL_ENOMEM: return "out of memory, threads or descriptors";
        case TL_EDENIED: return "the server refused";
        case TL_ESERVER: return "the server's answer can't be right, or it isn't of the URL's kind";
        case TL_EEXPIRED: return "the lock had expired";
        case TL_ETAKEN: return "another holds the lock now";
        case TL_EUNSUPPORTED: return "the server lacks a command";
        }
        return "unknown result";
    }

    /** The std::errc that comes nearest, for programs that compare with that. */
    std::error_condition default_error_condition(int value) const noexcept override {
        switch (static_cast<tl_err>(value)) {
        case TL_EBUSY: return std::errc::device_or_resource_busy;
        case TL_ETIMEDOUT: return std::errc::timed_out;
        case TL_ECANCELLED: return std::errc::operation_canceled;
        case TL_EUNAVAILABLE: return std::errc::host_unreachable;
        case TL_EINVALID: return std::errc::invalid_argument;
        case TL_ENOMEM: return std::errc::not_enough_memory;
        case TL_EDENIED: return std::errc::permission_denied;
        case TL_EUNSUPPORTED: return std::errc::not_supported;
        default: return std::error_condition(value, *this);
        }
    }
};

} // namespace detail

inline const std::error_category &category() noexcept {
    static const detail::category the_category;
    return the_category;
}

inline std::error_code make_error_code(errc code) noexcept {
    return {static_cast<int>(code), category()};
}

/** A call that failed. what() begins with the message of its tl_error. */
class error : public std::system_error {
  public:
    explicit error(const tl_error &details)
        : std::system_error(static_cast<int>(details.code), category(), details.message),
          details_(details) {}

    /** The whole tl_error: also the errno behind the failure, and the subject of a TL_EINVALID. */
    const tl_error &details() const noexcept { return details_; }

  private:
    tl_error details_;
};

/* ---- client ---------------------------------------------------------------------------------- */

/** A client, which must outlive its locks. Any thread may use it. After a move the source may only
 *  be destroyed or assigned to. The destructor blocks for attempt_ms at most, while it cleans up
 *  after requests that got no reply. */
class client {
  public:
    /** Options begin as TL_CLIENT_OPTIONS(); then the caller sets their members. No I/O: the client
     *  connects to the server when it first needs it. */
    explicit client(const tl_client_options &options) {
        tl_error details;
        tl_client *handle;
        if (tl_client_open(&options, &handle, &details))
            throw error(details);
        handle_.reset(handle);
    }

    explicit client(const std::string &url) : client(with_url(url.c_str())) {}

    /** Ask the server for its time: shows that it can be reached and that it accepts the login. */
    void ping() {
        tl_error details;
        if (tl_client_ping(handle_.get(), &details))
            throw error(details);
    }

    void ping(std::error_code &code) noexcept {
        code.assign(tl_client_ping(handle_.get(), nullptr), category());
    }

    /** The work of the client, in numbers. Don't call it from within tl_client_options.log. */
    tl_stats stats() const {
        tl_error details;
        tl_stats ret = tl_stats();
        ret.size = sizeof ret;
        if (tl_client_stats(handle_.get(), &ret, &details))
            throw error(details);
        return ret;
    }

    /** For the functions of tidelock.h and inspect.h. The client still owns it. */
    tl_client *native_handle() const noexcept { return handle_.get(); }

  private:
    struct closer {
        void operator()(tl_client *handle) const noexcept { tl_client_close(handle); }
    };

    static tl_client_options with_url(const char *url) {
        tl_client_options options = TL_CLIENT_OPTIONS();
        options.url = url;
        return options;
    }

    std::unique_ptr<tl_client, closer> handle_ = nullptr;
};

/* ---- lock ------------------------------------------------------------------------------------ */

/**
 * A lock on a key, which can be acquired and released again and again: a TimedLockable, for
 * std::unique_lock, std::scoped_lock and std::lock. Programs call it tidelock::lock; the class
 * itself can't have that name, since a member has it. The destructor releases a lock that is held,
 * and blocks for attempt_ms at most. After a move the source may only be destroyed or assigned to.
 */
class mutex {
  public:
    /** Called when the lock is lost, on the client's renewal thread, or with the client's option
     *  `dispatch` within tl_client_dispatch. "Threads" in tidelock.h says which calls it may make.
     *  It must not throw. `event` is valid during the call. */
    using lost_fn = std::function<void(const tl_lock_event &event)>;

    /** Options begin as TL_LOCK_OPTIONS(); then the caller sets their members. Their on_event is
     *  called, too, before on_lost. */
    mutex(client &owner, std::string_view key, const tl_lock_options &options,
          lost_fn on_lost = nullptr)
        : listener_(on_lost ? new listener{std::move(on_lost), options.on_event, options.ctx}
                            : nullptr) {
        tl_lock_options o = options;
        if (listener_) {
            o.on_event = hear;
            o.ctx = listener_.get();
        }
        tl_error details;
        handle_.reset(tl_lock_new(owner.native_handle(), key.data(), key.size(), &o, &details));
        if (!handle_)
            throw error(details);
    }

    mutex(client &owner, std::string_view key, lost_fn on_lost = nullptr)
        : mutex(owner, key, TL_LOCK_OPTIONS(), std::move(on_lost)) {}

    mutex(mutex &&) noexcept = default;

    mutex &operator=(mutex &&other) noexcept {
        if (this != &other) {
            handle_ = std::move(other.handle_); /* before the object that its callback uses */
            listener_ = std::move(other.listener_);
        }
        return *this;
    }

    /** Acquire, and wait without limit. */
    void lock() {
        tl_error details;
        if (tl_lock_acquire(handle_.get(), TL_FOREVER, &details))
            throw error(details);
    }

    void lock(std::error_code &code) {
        code.assign(tl_lock_acquire(handle_.get(), TL_FOREVER, nullptr), category());
    }

    /** Try once. False: another holds it. */
    bool try_lock() { return acquire(0); }

    /** False without an error: another holds it. */
    bool try_lock(std::error_code &code) { return acquire(0, code); }

    /** Wait for that long at most, rounded up to milliseconds; 0 and less try once. False: another
     *  held it all the time. */
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait) {
        return acquire(to_ms(wait));
    }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait, std::error_code &code) {
        return acquire(to_ms(wait), code);
    }

    /** The wait goes on if the clock was set back meanwhile. False before that time: the retry
     *  strategy ended. */
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &until) {
        tl_err result;
        do
            result = acquire_for(to_ms(until - Clock::now()));
        while (result == TL_ETIMEDOUT && Clock::now() < until);
        return result == TL_OK;
    }

    /** Release. With any result this object no longer holds the lock; only success says that it
     *  held the lock until now. std::unique_lock and its like ignore the result. A caller that
     *  needs it calls remaining() before, or unlock() itself. */
    std::error_code unlock() noexcept {
        return {static_cast<int>(tl_lock_release(handle_.get(), nullptr)), category()};
    }

    /** Release, and leave the lock taken until so long after this object acquired it: see
     *  tl_lock_rest. As unlock(), with any result this object no longer holds the lock, except with
     *  errc::invalid, when it can't rest. */
    std::error_code rest(std::chrono::milliseconds from_acquire) noexcept {
        return {static_cast<int>(tl_lock_rest(handle_.get(), from_acquire.count(), nullptr)),
                category()};
    }

    /** Extend the held lock to this lifetime from now, and renew it with that lifetime from then
     *  on. */
    void extend(std::chrono::milliseconds ttl) {
        tl_error details;
        if (tl_lock_extend(handle_.get(), ttl.count(), &details))
            throw error(details);
    }

    void extend(std::chrono::milliseconds ttl, std::error_code &code) noexcept {
        code.assign(tl_lock_extend(handle_.get(), ttl.count(), nullptr), category());
    }

    /* Any thread may call these, from alive() to fence(), while the lock exists and isn't being
     * moved. */

    /** Give a sign of life, with the option stall_ms: see tl_lock_alive. */
    void alive() noexcept { tl_lock_alive(handle_.get()); }

    /** Call the holder stalled at once: see tl_lock_stall. */
    void stall() noexcept { tl_lock_stall(handle_.get()); }

    /** Make the acquire that is running, or else the next one, fail with errc::cancelled. Not
     *  async-signal-safe: see tl_lock_cancel. */
    void cancel() noexcept { tl_lock_cancel(handle_.get()); }

    /** How long this object certainly still holds the lock; 0 when it doesn't. */
    std::chrono::milliseconds remaining() const noexcept {
        return std::chrono::milliseconds(tl_lock_remaining_ms(handle_.get()));
    }

    /** The state at this moment; TL_LOST as soon as the deadline has passed. */
    tl_state state() const noexcept { return tl_lock_state(handle_.get()); }

    bool is_held() const noexcept { return remaining().count() > 0; }

    /** The fencing number of the present or last hold, larger for each later holder of the key; 0
     *  before the first. */
    std::uint64_t fence() const noexcept { return tl_lock_fence(handle_.get()); }

    /* As with the rest of the lock one thread at a time may call these. */

    /** The token of the present or last hold; valid until the next acquire. */
    std::string_view token() const noexcept { return tl_lock_token(handle_.get()); }

    /** For the functions of tidelock.h. The lock still owns it. */
    tl_lock *native_handle() const noexcept { return handle_.get(); }

  private:
    struct listener {
        lost_fn on_lost;
        void (*on_event)(tl_lock *lock, const tl_lock_event *event, void *ctx);
        void *ctx;
    };

    struct releaser {
        void operator()(tl_lock *handle) const noexcept {
            tl_state state = tl_lock_state(handle);
            if (state == TL_HELD ||
                state == TL_AT_RISK) /* one that was lost may be another's by now */
                (void)tl_lock_release(handle, nullptr);
            tl_lock_free(handle);
        }
    };

    /* An exception here ends the program: no caller could catch it. */
    static void hear(tl_lock *lock, const tl_lock_event *event, void *ctx) noexcept {
        const listener *l = static_cast<const listener *>(ctx);
        if (l->on_event)
            l->on_event(lock, event, l->ctx);
        if (event->state == TL_LOST)
            l->on_lost(*event);
    }

    /* TL_OK, TL_EBUSY or TL_ETIMEDOUT. */
    tl_err acquire_for(std::int64_t wait_ms) {
        tl_error details;
        tl_err result = tl_lock_acquire(handle_.get(), wait_ms, &details);
        if (result != TL_OK && result != TL_EBUSY && result != TL_ETIMEDOUT)
            throw error(details);
        return result;
    }

    bool acquire(std::int64_t wait_ms) { return acquire_for(wait_ms) == TL_OK; }

    bool acquire(std::int64_t wait_ms, std::error_code &code) {
        tl_err result = tl_lock_acquire(handle_.get(), wait_ms, nullptr);
        bool busy = result == TL_EBUSY || result == TL_ETIMEDOUT;
        code.assign(busy ? TL_OK : result, category());
        return result == TL_OK;
    }

    /* Rounded up. A time too long for milliseconds is without limit; one that has passed is one
     * try. */
    template <class Rep, class Period>
    static std::int64_t to_ms(const std::chrono::duration<Rep, Period> &wait) {
        using seconds = std::chrono::duration<long double>;
        if (!(wait > wait.zero()))
            return 0;
        if (seconds(wait).count() >= 9e15L)
            return TL_FOREVER;
        auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait);
        return ms.count() + (ms < wait);
    }

    std::unique_ptr<listener> listener_; /* outlives the handle */
    std::unique_ptr<tl_lock, releaser> handle_ = nullptr;
};

using lock = mutex;

} // namespace tidelock

template <> struct std::is_error_code_enum<tidelock::errc> : std::true_type {};

#endif /* C++17 */
#endif
