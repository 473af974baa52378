package io.tidelock;

/** A waiter in the queue. From its first look on it sends nothing but looks for its token, until it leaves. */
final class Queueing {
    static final long PAUSE_LEAST_MS = 5;

    private static final long BEHIND_LEAST_MS = 250;

    final Entry entry;

    private final Server server;
    private final Rules rules;
    private final Keys keys;
    private boolean doubted; // a look got no reply: it may come late, and put the entry back

    Queueing(Server server, Rules rules, Keys keys) {
        this.server = server;
        this.rules = rules;
        this.keys = keys;
        entry = new Entry(rules, keys, Server.token(), server.owner);
    }

    /** Null: it isn't this waiter's turn. */
    Hold look(Phase phase) {
        Moment asked = Moment.now();
        long limitNs = Math.min(rules.attemptMs * Rates.NS_PER_MS, phase.leftNs(rules, asked));
        if (limitNs <= 0)
            throw new TidelockException("no time is left for another request");
        boolean before = doubted;
        doubted = true;
        Object reply = server.send(entry.request(server.clock(keys), asked, limitNs, phase.condition()));
        long serverUs = entry.judge(reply, asked);
        doubted = before;
        if (entry.found != null) {
            server.differs(keys, entry.found);
            return null;
        }
        server.learn(keys, serverUs, asked, Moment.now());
        if (entry.proof == null)
            return null;
        Hold hold = new Hold(rules, keys, entry.token, entry.fence, entry.proof, asked, doubted);
        if (hold.leftNs(Moment.now()) <= 0)
            throw new TidelockException("the confirmation came too late");
        return hold;
    }

    /** The first one looks as often as any poll, all others less often, but twice before they are passed over. */
    long pauseMs(long poll) {
        long ms = entry.before == 0 ? poll : BEHIND_LEAST_MS + poll;
        return entry.busyMs < 0 ? ms : Math.min(ms, entry.busyMs + PAUSE_LEAST_MS);
    }
}
