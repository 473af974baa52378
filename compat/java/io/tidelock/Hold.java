package io.tidelock;

/** A lock that a thread holds. */
final class Hold {
    final Keys keys;
    final byte[] token;
    final long fence;
    final Thread thread = Thread.currentThread();

    private final Limit longest; // null: no limit
    private volatile Proof proof;
    private volatile String lost;
    private volatile boolean ended;

    Hold(Rules rules, Keys keys, byte[] token, long fence, Proof proof, Moment asked) {
        this.keys = keys;
        this.token = token;
        this.fence = fence;
        this.proof = proof;
        longest = rules.maxHoldMs == 0 ? null : new Limit(asked, Rates.leastOfMs(rules.maxHoldMs));
    }

    Proof proof() {
        return proof;
    }

    /** For how long its holder may count on it. */
    long leftNs(Moment now) {
        if (lost != null)
            return 0;
        long ns = proof.leftNs(now);
        return longest == null ? ns : Math.min(ns, longest.leftNs(now));
    }

    /** A proof is worth nothing where the hold was over before it came: it may have been reported as lost. */
    void renewed(Proof later, Moment now) {
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
