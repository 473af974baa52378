package io.tidelock;

import java.lang.management.ManagementFactory;
import java.util.Collections;
import java.util.UUID;
import java.util.regex.Pattern;

/** The server, or the cluster: all requests are sent here. What is known of its phase and clock is in one of two forms. */
final class Server {
    private static final Pattern MOVES = Pattern.compile("\\b(TRYAGAIN|ASK [0-9])");
    private static final Pattern MOVED = Pattern.compile("\\bMOVED [0-9]");

    final String owner; // "host pid service"
    final Register register; // of one server

    private final Eval redis;
    private final Rules rules;
    private final Slots slots; // of a cluster
    private volatile Boolean cluster; // null: it isn't known whether it is one

    Server(Eval redis, Rules rules) {
        String[] process = ManagementFactory.getRuntimeMXBean().getName().split("@", 2); // "pid@host"
        String host = process.length > 1 ? process[1].replaceAll("[^!-~]", "-") : "unknown";
        String pid = process[0].matches("[0-9]{1,9}") ? process[0] : "0";
        this.redis = redis;
        this.rules = rules;
        owner = host.substring(0, Math.min(host.length(), 255)) + " " + pid + " " + rules.service;
        register = new Register(this, rules);
        slots = new Slots(this, rules);
    }

    /** 122 random bits: no two holds have the same. */
    static byte[] token() {
        return Rules.bytes(UUID.randomUUID().toString());
    }

    Object send(Request request) {
        try {
            return redis.eval(request.script.text, request.keys, Collections.unmodifiableList(request.args));
        } catch (RuntimeException e) {
            throw new TidelockException(why(String.valueOf(e.getMessage())), e);
        }
    }

    private static String why(String error) {
        if (MOVES.matcher(error).find())
            return "the key's slot is being moved: it can't be acquired or released until it has moved; wait, or finish the "
                + "move: " + error;
        if (MOVED.matcher(error).find())
            return "the Eval must use its library's client for a Redis Cluster: " + error;
        return "the server refused or gave no reply: " + error;
    }

    /** A phase to act by now, and with it a fresh idea of the server's time. */
    Phase usablePhase(Keys keys) {
        if (cluster == null)
            cluster = askKind(keys);
        return cluster ? slots.usable(keys) : register.usableLease();
    }

    /** A failure to know it is an exception: on a cluster's node an acquire without a condition knows no phase. */
    private boolean askKind(Keys keys) {
        String kind = Reply.text(send(new Request(Script.KIND, Collections.singletonList(keys.key))));
        if (!"0".equals(kind) && !"1".equals(kind))
            throw new TidelockException("permit INFO, by which this class knows a node of a Redis Cluster; it says: " + kind);
        if (kind.equals("1"))
            register.refuse();
        return kind.equals("1");
    }

    /** Known from the first acquire on. */
    boolean isCluster() {
        return Boolean.TRUE.equals(cluster);
    }

    /** The register of the key's slot differs from what an acquire expected. */
    Phase differs(Keys keys, String reads) {
        return slots.learn(keys, reads);
    }

    /** The clock of the server that has this key. */
    ServerClock clock(Keys keys) {
        return isCluster() ? slots.clock(keys) : register.clock();
    }

    void learn(Keys keys, long us, Moment asked, Moment received) {
        ServerClock read = new ServerClock(us, asked, received);
        if (isCluster())
            slots.learn(keys, read);
        else
            register.learn(read);
    }

    /** As last read, of a cluster's slots the latest; NONE: there is no register, or none was read. */
    int phase() {
        return isCluster() ? slots.phase() : register.lease().phase;
    }
}
