package io.tidelock;

/** So long from a moment on. */
final class Limit {
    private final Moment from;
    private final long ns;

    Limit(Moment from, long ns) {
        this.from = from;
        this.ns = ns;
    }

    /** What is certainly left; 0 or less: nothing. */
    long leftNs(Moment now) {
        return ns - now.mostNsSince(from);
    }

    /** What is left at most. */
    long mostLeftNs(Moment now) {
        return ns - now.leastNsSince(from);
    }

    static long leftNs(Limit one, Limit other, Moment now) {
        return other == null ? one.leftNs(now) : Math.min(one.leftNs(now), other.leftNs(now));
    }
}
