package io.tidelock;

import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.UUID;

/** The server, and what is known of it: its clock and the lease on the phase. All requests are sent here. */
final class Server {
    private static final int READS_MOST = 3;

    final String owner; // "host pid service"

    private final Eval redis;
    private final Rules rules;
    private final byte[] id = token();
    private final String record;
    private ServerClock clock;
    private Lease lease = Lease.UNREAD;

    Server(Eval redis, Rules rules) {
        String[] process = ManagementFactory.getRuntimeMXBean().getName().split("@", 2); // "pid@host"
        String host = process.length > 1 ? process[1].replaceAll("[^!-~]", "-") : "unknown";
        String pid = process[0].matches("[0-9]{1,9}") ? process[0] : "0";
        this.redis = redis;
        this.rules = rules;
        owner = host.substring(0, Math.min(host.length(), 255)) + " " + pid + " " + rules.service;
        record = Script.resource("version").trim() + "-java " + owner;
    }

    /** 122 random bits: no two holds have the same. */
    static byte[] token() {
        return Rules.bytes(UUID.randomUUID().toString());
    }

    Object send(Request request) {
        try {
            return redis.eval(request.script.text, request.keys, Collections.unmodifiableList(request.args));
        } catch (RuntimeException e) {
            throw new TidelockException("the server refused or gave no reply: " + e.getMessage(), e);
        }
    }

    synchronized ServerClock clock() {
        return clock;
    }

    synchronized Lease lease() {
        return lease;
    }

    synchronized void learn(long us, Moment asked, Moment received) {
        ServerClock read = new ServerClock(us, asked, received);
        clock = clock == null ? read : clock.newer(read);
    }

    /** A lease to act by now, and with it a fresh idea of the server's time. Reads the register if it must. */
    Lease usableLease() {
        for (int i = 0; i < READS_MOST && !isUsable(); i++)
            readPhase();
        if (!isUsable())
            throw new TidelockException("namespace " + rules.namespace + ": the reply with its phase came too late");
        return lease();
    }

    private synchronized boolean isUsable() {
        Moment now = Moment.now();
        return lease.lasts(rules, now) && !clock.isOutdated(now, rules.attemptMs * Rates.NS_PER_MS);
    }

    void readPhase() {
        if (lease() == Lease.UNREAD)
            refuseCluster();
        Moment asked = Moment.now();
        Lease known = lease();
        Request request = new Request(Script.PHASE, Lease.keys(rules));
        request.args.addAll(known.args(rules, id, record, clock(), asked));
        Object reply = send(request);
        keep(reply, asked, Moment.now());
    }

    /** This class asks for no phase by slot, and in a cluster a request that an ASK led on may make a second holder. */
    private void refuseCluster() {
        String kind = Reply.text(send(new Request(Script.KIND, Collections.<byte[]>emptyList())));
        if (kind != null && kind.contains("cluster_enabled:1"))
            throw new TidelockException("the server is a node of a Redis Cluster, which the drop-in for Java doesn't support");
        if (kind != null && kind.startsWith("denied: "))
            throw new TidelockException("permit INFO, by which this class knows the node of a Redis Cluster; " + kind);
    }

    private synchronized void keep(Object reply, Moment asked, Moment received) {
        learn(Reply.timeUs(reply, 3), asked, received);
        Lease read = lease.read(rules, reply, asked, received);
        if (read != null)
            lease = lease.newer(read, received);
    }

    /** Remove this client's record. One that stays is void after three leases. */
    void leave() {
        List<byte[]> clients = Arrays.asList(Lease.keys(rules).get(1));
        send(new Request(Script.LEAVE, clients).add(id));
    }
}
