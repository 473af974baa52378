package io.tidelock;

/** What a request writes into K: a stamp or a token. As write_stamp() in compat/stamp/stamp_script.c. */
final class Writes {
    final byte[] value;
    final long pxMs;
    final String until; // until when S keeps others out

    private Writes(byte[] value, long pxMs, String until) {
        this.value = value;
        this.pxMs = pxMs;
        this.until = until;
    }

    static Writes token(byte[] token, long pxMs) {
        return new Writes(token, pxMs, Long.toString(pxMs));
    }

    static Writes stamp(Rules rules, long endMs, long pxMs) {
        return new Writes(Rules.bytes(endMs), pxMs, "@" + (endMs + rules.skewMs) * 1000);
    }

    /** Of a lifetime from now, by the server's clock. `proof`: another's stamp is replaced, and the new value must not
     *  end before what the holder believes; else null. */
    static Writes of(Rules rules, byte[] token, ServerClock clock, Moment now, Proof proof, boolean isToken,
            boolean inCluster) {
        long nowMs = clock.earliestUs(now) / 1000, endMs = nowMs + rules.lifetimeMs;
        if (proof != null)
            endMs = Math.max(endMs, clock.latestUs(now) / 1000 + Rates.most(proof.mostLeftNs(now)) / Rates.NS_PER_MS
                + rules.skewMs + 2);
        if (isToken)
            return token(token, endMs - nowMs);
        if (!Stamp.isLikely(endMs, endMs))
            throw new TidelockException("the server's clock shows a time before 2001-09-09: no legacy client could read "
                + "such a stamp; set the clock first");
        return stamp(rules, endMs, rules.garbageMs(endMs - nowMs, inCluster));
    }
}
