package io.tidelock;

/** The options of a TidelockLockUtil. All services on one server use the same M, L and T. */
public final class Options {
    private static final long MARGIN_MOST_MS = 3600000;
    private static final long LIFETIME_MOST_MS = 86400000;
    private static final long LEASE_LEAST_MS = 100;
    private static final long LEASE_MOST_MS = 3600000;

    String namespace = "default";
    String keys = "*";
    String service = "";
    long lifetimeMs;
    long clockSkewMaxMs = 1000;
    long legacyDelayMaxMs;
    long legacyTtlMinMs = 60000;
    long leaseMs = 30000;
    long attemptMs = 2000;
    long maxHoldMs;
    boolean renew;

    /** The namespace of `tidelock migrate`. */
    public Options namespace(String name) {
        namespace = name;
        return this;
    }

    /** The pattern of the keys' names, as `tidelock migrate init --keys` has it. */
    public Options keys(String pattern) {
        keys = pattern;
        return this;
    }

    /** How long a lock lasts without renewal; T if not set. */
    public Options lifetimeMs(long ms) {
        lifetimeMs = ms;
        return this;
    }

    /** M: the most that any legacy client's clock is off the server's, either way. */
    public Options clockSkewMaxMs(long ms) {
        clockSkewMaxMs = ms;
        return this;
    }

    /** L: the longest time from a legacy client's clock read to its GETSET; M / 2 if not set. */
    public Options legacyDelayMaxMs(long ms) {
        legacyDelayMaxMs = ms;
        return this;
    }

    /** T: the shortest lifetime of any legacy client. */
    public Options legacyTtlMinMs(long ms) {
        legacyTtlMinMs = ms;
        return this;
    }

    /** The longest time for which the phase counts without being read again: at least 2 M. So is the register's lease. */
    public Options leaseMs(long ms) {
        leaseMs = ms;
        return this;
    }

    /** Whether locks are renewed while they are held, by one daemon thread. */
    public Options renew(boolean on) {
        renew = on;
        return this;
    }

    /** With renewal: the longest hold. 0: no limit. */
    public Options maxHoldMs(long ms) {
        maxHoldMs = ms;
        return this;
    }

    /** The server executes no acquire, renewal or look in the queue later than this. Releases, and reads of the phase,
     *  have no limit. */
    public Options attemptMs(long ms) {
        attemptMs = ms;
        return this;
    }

    /** The service's name, for `tidelock migrate clients`. */
    public Options service(String name) {
        service = name;
        return this;
    }
}
