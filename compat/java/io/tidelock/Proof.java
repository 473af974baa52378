package io.tidelock;

/** What a reply proves of a hold. Immutable. As tl_proof and tl__stamp_prove(). */
final class Proof {
    final boolean isToken;
    final long provedUs; // the server's time then
    final long endMs;    // of our stamp

    private final Limit life;
    private final Limit cap;         // null: K holds a token
    private final Moment cappedFrom; // a racing loser may overwrite our stamp until L after that
    private final boolean capped;

    private Proof(Limit life, Limit cap, Moment cappedFrom, boolean capped, long provedUs, long endMs) {
        this.life = life;
        this.cap = cap;
        this.cappedFrom = cappedFrom;
        this.capped = capped;
        this.provedUs = provedUs;
        this.endMs = endMs;
        isToken = cap == null;
    }

    /** The deadline counts from when the request was built. A key without a lifetime counts as ours. */
    private static Limit life(Rules rules, Moment asked, long leftMs) {
        long ms = leftMs == -1 || leftMs > rules.lifetimeMs ? rules.lifetimeMs : Math.max(0, leftMs);
        return new Limit(asked, Rates.leastOfMs(ms));
    }

    static Proof ofToken(Rules rules, Moment asked, long leftMs, long serverUs) {
        return new Proof(life(rules, asked, leftMs), null, null, false, serverUs, 0);
    }

    /** `before`: the hold's last proof; null: it was just acquired. */
    static Proof ofStamp(Rules rules, Moment asked, Moment received, long endMs, long serverUs, Proof before) {
        long leftMs = endMs - (serverUs + 999) / 1000 - rules.skewMs;
        Limit life = life(rules, asked, Math.max(0, leftMs));
        if (before == null || before.isToken)
            return new Proof(life, new Limit(asked, rules.capNs()), received, true, serverUs, endMs);
        boolean capped = asked.leastNsSince(before.cappedFrom) <= Rates.most(rules.delayMs * Rates.NS_PER_MS);
        return new Proof(life, before.cap, before.cappedFrom, capped, serverUs, endMs);
    }

    long leftNs(Moment now) {
        return Limit.leftNs(life, capped ? cap : null, now);
    }

    /**
     * May `stamp` be that of a client which raced with our acquire and lost? It writes within L of the acquire. So no,
     * if the key was still ours later than that.
     */
    boolean isLosers(Stamp stamp, Rules rules) {
        return capped && stamp.isLosers(rules, provedUs);
    }

    /** What its holder may yet believe, at most. */
    long mostLeftNs(Moment now) {
        long lifeNs = life.mostLeftNs(now);
        return cap == null ? lifeNs : Math.max(lifeNs, cap.mostLeftNs(now));
    }
}
