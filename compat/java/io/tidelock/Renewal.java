package io.tidelock;

/** One renewal of a hold. It does no I/O and reads no clock. It never makes a key, and shortens no lock. */
final class Renewal {
    enum Outcome { KEPT, LOST, FAILED, AGAIN }

    private static final long SIDECAR_MS = 3600000; // S lives at least so long
    private static final int LATE_MOST = 2; // a late request's reply has the server's time: once more by that

    private final Rules rules;
    private final Keys keys;
    private final byte[] token;
    private final String owner;
    private final long fence;
    private final Proof before;
    private final boolean writesToken;
    private final boolean inCluster;

    private String expected; // a racing loser's stamp, which ours replaces
    private int rounds;
    private int late;

    Proof proof; // KEPT
    String why;  // LOST
    long serverUs;

    /** `drains`: the phase turns stamps into tokens. */
    Renewal(Rules rules, Keys keys, byte[] token, String owner, long fence, Proof before, boolean drains,
            boolean inCluster) {
        this.rules = rules;
        this.keys = keys;
        this.token = token;
        this.owner = owner;
        this.fence = fence;
        this.before = before;
        this.writesToken = drains || before.isToken;
        this.inCluster = inCluster;
    }

    Request request(ServerClock clock, Moment now, long limitNs) {
        Writes writes = Writes.of(rules, token, clock, now, expected == null ? null : before, writesToken, inCluster);
        if (expected != null)
            return Attempt.request(keys.all(), token, owner, writes, expected, false, clock, now, limitNs);
        return new Request(Script.RENEW, keys.two()).add(clock.earliestUs(now)).add(SIDECAR_MS).add(owner).add(token)
            .add(writes.value).add(writes.pxMs).add(writes.until).add(fence).add(clock.earliestUs(now, limitNs))
            .add(clock.latestUs(now));
    }

    Outcome judge(Object reply, Moment asked, Moment received) {
        if (expected != null)
            return judgeReplaced(new AcquireReply(rules, token, reply), asked, received);
        serverUs = Reply.timeUs(reply, 0);
        Object item = Reply.item(reply, 2);
        long status = Reply.number(Reply.item(item, 0)), leftMs = Reply.number(Reply.item(item, 2));
        String value = Reply.text(Reply.item(item, 1));
        if (status == 0)
            return overwritten(value, received, "another holds it");
        if (status == -1)
            return lost("the key no longer exists");
        if (status == -2)
            return late();
        if (status != 1)
            return Outcome.FAILED;
        return kept(value, leftMs, asked, received);
    }

    /**
     * The server has changed nothing. Where its clock was read long ago, its earliest time lags behind by more than the
     * request's limit.
     */
    private Outcome late() {
        return ++late < LATE_MOST ? Outcome.AGAIN : Outcome.FAILED;
    }

    private Outcome kept(String value, long leftMs, Moment asked, Moment received) {
        boolean isToken = Reply.text(token).equals(value);
        Stamp stamp = isToken ? null : Stamp.read(value, serverUs / 1000 + 1);
        if (!isToken && stamp == null)
            throw Reply.malformed();
        proof = isToken ? Proof.ofToken(rules, asked, leftMs, serverUs)
            : Proof.ofStamp(rules, asked, received, stamp.endMs, serverUs, before);
        return Outcome.KEPT;
    }

    /** A racing loser's stamp is replaced by ours while we hold the lock. Any other says that it is lost. */
    private Outcome overwritten(String value, Moment now, String taken) {
        if (before.isToken || value == null || value.equals(expected))
            return lost(taken);
        Stamp stamp = Stamp.read(value, serverUs / 1000);
        if (stamp == null || before.leftNs(now) <= 0 || !before.isLosers(stamp, rules))
            return lost("it was stolen: another client's stamp is in the key");
        expected = value;
        return ++rounds > Attempt.ROUNDS ? Outcome.FAILED : Outcome.AGAIN;
    }

    private Outcome judgeReplaced(AcquireReply read, Moment asked, Moment received) {
        serverUs = read.serverUs;
        if (read.status == 0)
            return overwritten(read.value, received, read.value == null ? "the key no longer exists" : "another holds it");
        if (read.status == -1)
            return late();
        if (read.status != 1)
            return Outcome.FAILED;
        proof = read.proof(rules, token, asked, received, before);
        return Outcome.KEPT;
    }

    private Outcome lost(String reason) {
        why = reason;
        return Outcome.LOST;
    }
}
