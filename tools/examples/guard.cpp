/*
 * C++17: std::unique_lock holds a lock of tidelock.
 *
 *     c++ -std=c++17 guard.cpp $(pkg-config --cflags --libs tidelock) -o guard
 *     ./guard redis://localhost jobs:nightly
 */
#include <chrono>
#include <iostream>
#include <mutex>

#include <tidelock/tidelock.hpp>

using namespace std::chrono_literals;

// A step of the work, which writes its result together with the fencing number.
static void do_step(int step, std::uint64_t fence) {
    std::cout << "step " << step << ", fence " << fence << '\n';
}

static bool work(const std::string &url, const char *key) {
    tidelock::client client(url);
    tidelock::lock nightly(client, key, [](const tl_lock_event &event) {
        std::cerr << "lost: " << event.detail << '\n'; // on the client's own thread
    });
    std::unique_lock held(nightly, 5s);
    if (!held) {
        std::cerr << "another had it for five seconds\n";
        return false;
    }
    // The lock is renewed in the background. If that fails, remaining() reaches 0 in time.
    for (int step = 1; step <= 3 && nightly.remaining() > 0ms; step++)
        do_step(step, nightly.fence());
    held.release(); // unlock() says how it ended, which std::unique_lock would ignore
    std::error_code code = nightly.unlock();
    std::cout << (code ? code.message() : "done") << '\n'; // else it was lost before
    return !code;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        std::cerr << "usage: guard URL KEY\n";
        return 2;
    }
    try {
        return work(argv[1], argv[2]) ? 0 : 1;
    } catch (const tidelock::error &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
