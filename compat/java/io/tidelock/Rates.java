package io.tidelock;

/** How fast one clock may be beside another: each may be DRIFT_PPM off the true rate. As src/wire/interval.c. */
final class Rates {
    static final long NS_PER_MS = 1000000;

    private static final long DRIFT_PPM = 101500;
    private static final long SLOW = 1000000 - DRIFT_PPM;
    private static final long FAST = 1000000 + DRIFT_PPM;

    private Rates() {
    }

    /** The least that one clock shows while another shows so much. */
    static long least(long ns) {
        return ns <= 0 ? 0 : ns / FAST * SLOW + ns % FAST * SLOW / FAST;
    }

    /** The most that one clock shows while another shows so much. */
    static long most(long ns) {
        if (ns <= 0)
            return 0;
        long whole = ns / SLOW;
        return whole > Long.MAX_VALUE / FAST - 2 ? Long.MAX_VALUE / 2 : whole * FAST + (ns % SLOW * FAST + SLOW - 1) / SLOW;
    }

    /** How long a holder counts on a lifetime on the server. */
    static long leastOfMs(long ms) {
        return least(ms * NS_PER_MS);
    }
}
