package io.tidelock;

import java.util.List;

/** The register of a namespace on one server: the lease on its phase, and the server's clock. */
final class Register {
    private static final int READS_MOST = 3;

    private final Server server;
    private final Rules rules;
    private final byte[] id = Server.token();
    private final String record;
    private ServerClock clock;
    private Lease lease = Lease.UNREAD;

    Register(Server server, Rules rules) {
        this.server = server;
        this.rules = rules;
        record = Script.resource("version").trim() + "-java " + server.owner;
    }

    synchronized ServerClock clock() {
        return clock;
    }

    synchronized Lease lease() {
        return lease;
    }

    synchronized void learn(ServerClock read) {
        clock = clock == null ? read : clock.newer(read);
    }

    /** Reads the register if it must. */
    Lease usableLease() {
        for (int i = 0; i < READS_MOST && !isUsable(); i++)
            readPhase();
        Lease last = lease();
        if (!isUsable() && last.isTooShort(rules))
            throw last.refusedAsTooShort(rules);
        if (!isUsable())
            throw new TidelockException("namespace " + rules.namespace + ": the reply with its phase came too late");
        return lease();
    }

    private synchronized boolean isUsable() {
        Moment now = Moment.now();
        return lease.lasts(rules, now) && !clock.isOutdated(now, rules.attemptMs * Rates.NS_PER_MS);
    }

    void readPhase() {
        Moment asked = Moment.now();
        Lease known = lease();
        Request request = new Request(Script.PHASE, Lease.keys(rules));
        request.args.addAll(known.args(rules, id, record, clock(), asked));
        Object reply = server.send(request);
        keep(reply, asked, Moment.now());
    }

    private synchronized void keep(Object reply, Moment asked, Moment received) {
        learn(new ServerClock(Reply.timeUs(reply, 3), asked, received));
        Lease read = lease.read(rules, reply, asked, received);
        if (read != null)
            lease = lease.newer(read, received);
    }

    /** Remove this client's record. One that stays is void after three leases. */
    void leave() {
        List<byte[]> clients = Lease.keys(rules).subList(1, 2);
        server.send(new Request(Script.LEAVE, clients).add(id));
    }

    /** A cluster of one master has this register where others use it as one server. This class knows no such URL. */
    void refuse() {
        Request request = new Request(Script.EXISTS, Lease.keys(rules).subList(0, 1));
        if (Reply.number(server.send(request)) != 0)
            throw Lease.refused(rules, "its register is that of one server, but this is a Redis Cluster: "
                + "all clients must use a redis+cluster: URL");
    }
}
