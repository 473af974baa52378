package io.tidelock;

import java.util.List;

/**
 * One attempt to acquire a lock with a token of its own. It does no I/O and reads no clock. As
 * compat/stamp/stamp_script.c: first K is expected to be absent; a stamp that is free is then replaced only if K still
 * has exactly these bytes. In the phase of tokens whatever is in K is another's.
 */
final class Attempt {
    enum Outcome { HELD, BUSY, AGAIN, LATE, DIFFERS }

    static final int ROUNDS = 3; // how often an attempt starts over because others changed K

    private final Rules rules;
    private final Keys keys;
    private final byte[] token;
    private final String owner;
    private final Phase phase;

    private String expected; // what K had, and shall have still; null: nothing
    private int rounds;

    long busyMs;  // BUSY: how long it may last; negative: not known
    Proof proof;  // HELD
    String found; // DIFFERS: what the register of the slot holds
    long fence;
    long serverUs;

    Attempt(Rules rules, Keys keys, byte[] token, String owner, Phase phase) {
        this.rules = rules;
        this.keys = keys;
        this.token = token;
        this.owner = owner;
        this.phase = phase;
    }

    /** The server must not execute it later than `limitNs` from now. */
    Request request(ServerClock clock, Moment now, long limitNs) {
        boolean conditional = phase.condition() != null;
        Writes writes = Writes.of(rules, token, clock, now, null, writesToken(), conditional);
        List<byte[]> all = conditional ? keys.all(rules) : keys.all();
        Request request = request(all, token, owner, writes, expected, conditional, clock, now, limitNs);
        return conditional ? request.add("").add(phase.condition()) : request;
    }

    private boolean writesToken() {
        return phase.acts() >= Phase.DRAIN;
    }

    static Request request(List<byte[]> keys, byte[] token, String owner, Writes writes, String expected, boolean more,
            ServerClock clock, Moment now, long limitNs) {
        Request request = new Request(Script.ACQUIRE, keys).add(token).add(writes.pxMs)
            .add(clock.earliestUs(now, limitNs)).add(clock.earliestUs(now)).add(clock.latestUs(now)).add(owner);
        if (more || expected != null || writes.value != token)
            request.add(1).add(writes.value).add(expected == null ? "" : "=" + expected).add(writes.until);
        return request;
    }

    Outcome judge(Object reply, Moment asked, Moment received) {
        AcquireReply read = new AcquireReply(rules, token, reply);
        serverUs = read.serverUs;
        if (read.status == 0)
            return busy(read);
        if (read.status == -1)
            return Outcome.LATE;
        if (read.status == AcquireReply.DIFFERS)
            return differs(read);
        if (read.status == -2)
            throw new TidelockException("this token has been released already");
        proof = read.proof(rules, token, asked, received, null);
        if (proof.isToken != writesToken())
            throw Reply.malformed();
        fence = read.fence;
        return Outcome.HELD;
    }

    private Outcome differs(AcquireReply read) {
        if (phase.condition() == null || read.value == null)
            throw Reply.malformed();
        found = read.value;
        return Outcome.DIFFERS;
    }

    /** A stamp that S doesn't know, on a key with a lifetime of its own, counts as held while that lasts. */
    private Outcome busy(AcquireReply read) {
        busyMs = read.leftMs;
        boolean same = read.value == null || read.value.equals(expected); // then S is why it was refused
        Stamp stamp = phase.acts() == Phase.TOKEN || same ? null : Stamp.read(read.value, read.serverUs / 1000);
        if (stamp == null || (read.leftMs >= 0 && !read.known))
            return Outcome.BUSY;
        if (stamp.isFree(rules, read.serverUs / 1000) && ++rounds <= ROUNDS) {
            expected = read.value;
            return Outcome.AGAIN;
        }
        busyMs = Math.max(0, stamp.freeFromMs(rules) + 1 - read.serverUs / 1000);
        return Outcome.BUSY;
    }
}
