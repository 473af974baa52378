package io.tidelock;

import java.nio.charset.StandardCharsets;

/** The options, checked. Each margin is that of compat/stamp/stamp_rules.c. */
final class Rules {
    static final int FALLBACK = 1; // without a register: the bridge

    private static final long MARGIN_MOST_MS = 3600000;
    private static final long LIFETIME_LEAST_MS = 10;
    private static final long LIFETIME_MOST_MS = 86400000;
    private static final long LEASE_LEAST_MS = 100;
    private static final long LEASE_MOST_MS = 3600000;
    private static final long GRACE_MS = 3600000;
    private static final long SLOT_GRACE_MS = 2000;
    private static final int SERVICE_MOST = 63;

    final long skewMs;
    final long delayMs;
    final long legacyMs;
    final long lifetimeMs;
    final long leaseMs;
    final long attemptMs;
    final long maxHoldMs;
    final boolean renew;
    final String namespace;
    final String service;
    final Glob pattern;

    Rules(Options o) {
        skewMs = within("clockSkewMaxMs", o.clockSkewMaxMs, 1, MARGIN_MOST_MS);
        long delay = o.legacyDelayMaxMs == 0 ? (skewMs + 1) / 2 : o.legacyDelayMaxMs;
        delayMs = within("legacyDelayMaxMs", delay, 1, MARGIN_MOST_MS);
        legacyMs = within("legacyTtlMinMs", o.legacyTtlMinMs, LIFETIME_LEAST_MS, LIFETIME_MOST_MS);
        long least = 2 * skewMs + 2 * delayMs + 1;
        long most = 2 * legacyMs - 3 * skewMs - 2 * delayMs; // beyond it our former stamp could be another's present one
        if (legacyMs <= 2 * skewMs + delayMs || most < least)
            throw new IllegalArgumentException("legacyTtlMinMs: " + legacyMs + " ms leave no validity: at least "
                + (3 * skewMs + 2 * delayMs));
        long lifetime = o.lifetimeMs == 0 ? legacyMs : o.lifetimeMs;
        lifetimeMs = within("lifetimeMs", lifetime, least, Math.min(most, LIFETIME_MOST_MS));
        leaseMs = within("leaseMs", o.leaseMs, Math.max(LEASE_LEAST_MS, 2 * skewMs), LEASE_MOST_MS);
        attemptMs = within("attemptMs", o.attemptMs, 1, MARGIN_MOST_MS);
        maxHoldMs = within("maxHoldMs", o.maxHoldMs, 0, Long.MAX_VALUE / Rates.NS_PER_MS);
        renew = o.renew;
        namespace = checkedName(o.namespace);
        pattern = new Glob(o.keys);
        service = shown(o.service.isEmpty() ? "java" : o.service);
    }

    private static long within(String name, long value, long least, long most) {
        if (value < least || value > most)
            throw new IllegalArgumentException(name + ": " + least + " to " + most + " ms, not " + value);
        return value;
    }

    private static String checkedName(String name) {
        if (!name.matches("[A-Za-z0-9._-]{1,64}"))
            throw new IllegalArgumentException("namespace: '" + name
                + "' is not a name: use 1 to 64 letters, digits, '.', '_', '-'");
        return name;
    }

    /** A record has one line, and a tab in it has a meaning. */
    private static String shown(String service) {
        String plain = service.replaceAll("[^ -~]", "-");
        return plain.substring(0, Math.min(plain.length(), SERVICE_MOST));
    }

    /**
     * K's own lifetime for a stamp that ends in so long: it only collects garbage. In a cluster a release may be in vain for
     * as long as a slot is being moved: there K expires soon after the stamp is free for all.
     */
    long garbageMs(long leftMs, boolean inCluster) {
        return inCluster ? leftMs + skewMs + delayMs + SLOT_GRACE_MS : lifetimeMs + Math.max(10 * lifetimeMs, GRACE_MS);
    }

    /** For how long a fresh acquire counts at most: a racing loser may have left its own, earlier stamp. */
    long capNs() {
        return Rates.leastOfMs(legacyMs - delayMs - 2 * skewMs);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] bytes(long number) {
        return bytes(Long.toString(number));
    }
}
