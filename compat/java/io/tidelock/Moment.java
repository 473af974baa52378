package io.tidelock;

import java.util.concurrent.TimeUnit;

/**
 * An instant, by the two clocks that Java has. System.nanoTime may stand still while the machine is suspended, and the
 * wall clock may be set. So what has passed since is a range: a holder counts on the most, a limit for the server on
 * the least.
 */
final class Moment {
    private final long nanos;
    private final long wallMs;

    Moment(long nanos, long wallMs) {
        this.nanos = nanos;
        this.wallMs = wallMs;
    }

    static Moment now() {
        return new Moment(System.nanoTime(), System.currentTimeMillis());
    }

    /** The least that has certainly passed. */
    long leastNsSince(Moment earlier) {
        return Math.max(0, nanos - earlier.nanos);
    }

    /** The most that can have passed. */
    long mostNsSince(Moment earlier) {
        return Math.max(leastNsSince(earlier), TimeUnit.MILLISECONDS.toNanos(wallMs - earlier.wallMs));
    }

    /** Was the earlier of two readings of one thread, or of two, this one? */
    boolean isBefore(Moment other) {
        return nanos - other.nanos < 0;
    }
}
