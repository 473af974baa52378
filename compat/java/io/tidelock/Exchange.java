package io.tidelock;

/** The requests of one attempt to acquire a lock, in turn. */
final class Exchange {
    private static final int DIFFERED_MOST = 3; // how often the phase of the slot may be another one
    private static final int LATE_MOST = 2; // a late request's reply has the server's time: once more by that

    final byte[] token;

    private final Server server;
    private final Rules rules;
    private final Keys keys;
    private Phase phase;
    private Attempt attempt;
    private int differed;
    private boolean inDoubt;

    Exchange(Server server, Rules rules, Keys keys, byte[] token, Phase phase) {
        this.server = server;
        this.rules = rules;
        this.keys = keys;
        this.token = token;
        actBy(phase);
    }

    private void actBy(Phase now) {
        phase = now;
        attempt = new Attempt(rules, keys, token, server.owner, phase);
    }

    /** By which it acted last. */
    Phase phase() {
        return phase;
    }

    /** May a request have acquired the lock, or may it yet, though nobody holds it? */
    boolean isInDoubt() {
        return inDoubt;
    }

    /** For how long another may hold it; negative: not known. */
    long busyMs() {
        return attempt.busyMs;
    }

    /** Null: another client holds it. */
    Hold run() {
        for (int late = 0;;) {
            Moment asked = Moment.now();
            Object reply = ask(asked);
            Moment received = Moment.now();
            Attempt.Outcome outcome = attempt.judge(reply, asked, received);
            server.learn(keys, attempt.serverUs, asked, received);
            if (outcome == Attempt.Outcome.HELD)
                return hold(asked);
            inDoubt = false;
            if (outcome == Attempt.Outcome.BUSY)
                return null;
            if (outcome == Attempt.Outcome.DIFFERS)
                follow(attempt.found);
            if (outcome == Attempt.Outcome.LATE && ++late == LATE_MOST)
                throw new TidelockException("the request reached the server too late");
        }
    }

    private void follow(String found) {
        actBy(server.differs(keys, found));
        if (++differed > DIFFERED_MOST)
            throw new TidelockException("the phase of the key's slot changes again and again");
    }

    /** A lease limits the request: the server never executes it after that. */
    private Object ask(Moment asked) {
        long limitNs = Math.min(rules.attemptMs * Rates.NS_PER_MS, phase.leftNs(rules, asked));
        if (limitNs <= 0)
            throw new TidelockException("no time is left for another request");
        Request request = attempt.request(server.clock(keys), asked, limitNs);
        inDoubt = true;
        return server.send(request);
    }

    private Hold hold(Moment asked) {
        Hold hold = new Hold(rules, keys, token, attempt.fence, attempt.proof, asked, false);
        if (hold.leftNs(Moment.now()) <= 0)
            throw new TidelockException("the confirmation came too late");
        inDoubt = false;
        return hold;
    }
}
