package io.tidelock;

/** A lock that a thread holds. */
final class Hold {
    final Keys keys;
    final byte[] token;
    final long fence;
    final boolean doubted; // a request for its token may yet be executed
    final Thread thread = Thread.currentThread();

    private final Limit longest; // null: no limit
    private volatile Proof proof;
    private volatile String lost;
    private boolean over;
    private volatile boolean ended;

    Hold(Rules rules, Keys keys, byte[] token, long fence, Proof proof, Moment asked,
            boolean doubted) {
        this.keys = keys;
        this.token = token;
        this.fence = fence;
        this.proof = proof;
        this.doubted = doubted;
        longest = rules.maxHoldMs == 0 ? null : new Limit(asked, Rates.leastOfMs(rules.maxHoldMs));
    }

    Proof proof() {
        return proof;
    }

    /** For how long its holder may count on it. Where less than 1 ms was left once, it is over for good: it may have been
     *  reported so. */
    synchronized long leftNs(Moment now) {
        long ns = proof.leftNs(now);
        ns = longest == null ? ns : Math.min(ns, longest.leftNs(now));
        over |= lost != null || ns < Rates.NS_PER_MS;
        return over ? 0 : ns;
    }

    synchronized void renewed(Proof later, Moment now) {
        if (leftNs(now) > 0)
            proof = later;
    }

    void lost(String why) {
        lost = why;
    }

    /** Why it was lost, if a renewal has found that. */
    String lost() {
        return lost;
    }

    /** Its release has begun. */
    void end() {
        ended = true;
    }

    boolean isEnded() {
        return ended;
    }
}
