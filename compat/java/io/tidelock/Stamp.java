package io.tidelock;

/** The expiry timestamp of a legacy lock, in the dialect `java`. As compat/dialect/dialect.c. */
final class Stamp {
    private static final long LIKELY_FROM_MS = 1000000000000L; // 2001-09-09
    private static final long AHEAD_MS = 3653 * 86400000L;

    final long endMs;

    private Stamp(long endMs) {
        this.endMs = endMs;
    }

    /** Null: no legacy client would read it as a likely time. Such a value counts as held. */
    static Stamp read(String text, long nowMs) {
        if (text == null || !text.matches("[1-9][0-9]{0,17}"))
            return null;
        long ms = Long.parseLong(text);
        return isLikely(ms, nowMs) ? new Stamp(ms) : null;
    }

    static boolean isLikely(long ms, long nowMs) {
        return ms >= LIKELY_FROM_MS && ms <= nowMs + AHEAD_MS;
    }

    /** From then on each legacy client's own comparison has called it expired for L, whatever its clock. */
    long freeFromMs(Rules rules) {
        return endMs + 1 + rules.skewMs + rules.delayMs;
    }

    boolean isFree(Rules rules, long nowMs) {
        return freeFromMs(rules) < nowMs;
    }

    /** Did a client leave it that raced with our acquire and lost, and whose clock was right? */
    boolean isLosers(Rules rules, long provedUs) {
        return endMs - rules.legacyMs <= provedUs / 1000 + rules.skewMs;
    }
}
