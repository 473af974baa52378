package io.tidelock;

/** What the server's clock showed in a reply, and what it can show since. */
final class ServerClock {
    private final long us;
    private final Moment asked;
    private final Moment received;

    ServerClock(long us, Moment asked, Moment received) {
        this.us = us;
        this.asked = asked;
        this.received = received;
    }

    long earliestUs(Moment now) {
        return us + Rates.least(now.leastNsSince(received)) / 1000;
    }

    long latestUs(Moment now) {
        return us + 2 + Rates.most(now.mostNsSince(asked)) / 1000;
    }

    /** The server's earliest time when so long has passed: a request is not executed after it. */
    long earliestUs(Moment now, long laterNs) {
        return us + Rates.least(now.leastNsSince(received) + laterNs) / 1000;
    }

    /** Is what isn't known of the rate since the reply more than half of a limit? Then ask for the time again. */
    boolean isOutdated(Moment now, long limitNs) {
        long passed = now.mostNsSince(received) + limitNs;
        return passed - Rates.least(passed) > limitNs / 2;
    }

    ServerClock newer(ServerClock other) {
        return other != null && received.isBefore(other.received) ? other : this;
    }
}
