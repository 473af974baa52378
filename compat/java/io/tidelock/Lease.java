package io.tidelock;

import java.util.Arrays;
import java.util.List;

/**
 * The phase of a namespace, as its register said, and for how long a client may act by it. As compat/phase/phase.c.
 * A lease counts from before the request that read it: a change of the register waits for leases to end.
 */
final class Lease implements Phase {
    static final Lease UNREAD = new Lease(NONE, 0, 0, new Limit(new Moment(0, 0), 0), null);

    final int phase; // NONE: there is no register
    final long epoch;

    private final long leaseMs;
    private final Limit until;
    private final Moment reported; // null: none was read yet

    private Lease(int phase, long epoch, long leaseMs, Limit until, Moment reported) {
        this.phase = phase;
        this.epoch = epoch;
        this.leaseMs = leaseMs;
        this.until = until;
        this.reported = reported;
    }

    static List<byte[]> keys(Rules rules) {
        String register = "tidelock:phase:{" + rules.namespace + "}";
        return Arrays.asList(Rules.bytes(register), Rules.bytes(register + ":clients"),
            Rules.bytes("tidelock:skew:{" + rules.namespace + "}"));
    }

    /** What is sent with the keys; `clock` may be null. The server keeps the record for as long as this client may act. */
    List<byte[]> args(Rules rules, byte[] id, String record, ServerClock clock, Moment now) {
        long leftNs = reported == null ? 0 : Rates.most(until.mostLeftNs(now));
        return Arrays.asList(id, Rules.bytes(record), Rules.bytes(clock == null ? 0 : clock.latestUs(now)),
            Rules.bytes(Rules.FALLBACK), Rules.bytes(rules.leaseMs),
            Rules.bytes(leftNs > 0 ? leftNs / Rates.NS_PER_MS + 1 : 0), Rules.bytes(epoch),
            Rules.bytes(epoch > 0 ? phase : Rules.FALLBACK), rules.pattern.pattern);
    }

    /** The lease that a reply gives to a client that knows this one; null: ask again, the phase changed meanwhile. */
    Lease read(Rules rules, Object reply, Moment asked, Moment received) {
        long phaseRead = Reply.number(Reply.item(reply, 0)), epochRead = Reply.number(Reply.item(reply, 1));
        long lease = Reply.number(Reply.item(reply, 2));
        boolean none = phaseRead == NONE;
        if (phaseRead < NONE || phaseRead > TOKEN || lease < 1 || lease > rules.leaseMs
                || (none ? epochRead != 0 : epochRead < 1))
            throw refused(rules, "its register can't be read");
        if (epoch > epochRead && asked.isBefore(reported))
            return null;
        if (epoch > 0 && epochRead == 0)
            throw refused(rules, "its register no longer exists");
        if (epoch > epochRead)
            throw refused(rules, "its register has an older epoch than before: the server has lost writes");
        Limit until = new Limit(asked, Rates.leastOfMs(lease));
        return new Lease((int) phaseRead, epochRead, lease, until, received);
    }

    static TidelockException refused(Rules rules, String why) {
        return new TidelockException("namespace " + rules.namespace + ": " + why
            + "; see `tidelock migrate status --namespace " + rules.namespace + "`");
    }

    /** The one of both to act by. */
    Lease newer(Lease read, Moment now) {
        boolean newer = read.epoch > epoch || (read.epoch == epoch && read.until.leftNs(now) > until.leftNs(now));
        return reported == null || newer ? read : this;
    }

    /**
     * For how long requests may be executed by this phase, ns. It spares M: another server may have taken over, with
     * a clock that is behind the one that was asked.
     */
    @Override
    public long leftNs(Rules rules, Moment now) {
        return reported == null ? 0 : until.leftNs(now) - rules.skewMs * Rates.NS_PER_MS;
    }

    /** Where M is spared, little or nothing is left of it. The option leaseMs is never so short. */
    boolean isTooShort(Rules rules) {
        return reported != null && leaseMs < 2 * rules.skewMs;
    }

    TidelockException refusedAsTooShort(Rules rules) {
        return refused(rules, "its register has a lease of " + leaseMs + " ms; with clockSkewMaxMs " + rules.skewMs
            + " it must be at least " + 2 * rules.skewMs + " ms: make the register again with a longer --lease, as step 2 of "
            + "RUNBOOK.md says");
    }

    /** Is more than a quarter left? Otherwise read the phase again. */
    boolean lasts(Rules rules, Moment now) {
        long leftNs = reported == null ? 0 : until.leftNs(now);
        return leftNs > leaseMs * Rates.NS_PER_MS / 4 && leftNs(rules, now) > 0;
    }

    /** How long until a client that is open reads it again, ns: it does so after a third. */
    long freshNs(Rules rules, Moment now) {
        long lease = (reported == null ? rules.leaseMs : leaseMs) * Rates.NS_PER_MS;
        return reported == null ? 0 : lease / 3 - now.mostNsSince(reported);
    }

    @Override
    public int acts() {
        return phase == NONE ? Rules.FALLBACK : phase;
    }

    @Override
    public String condition() {
        return null;
    }
}
