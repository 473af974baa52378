package io.tidelock;

/** A release, or the undoing of an acquire that got no reply. It does no I/O and reads no clock. */
final class Release {
    private static final long SPENT_MS = 60000; // S remembers the token for so long after its last request

    private Release() {
    }

    /** `entry`: the sender's in the queue, where a request for the token may yet be executed, or empty; else null. */
    static Request request(Rules rules, Keys keys, byte[] token, String entry) {
        Request request = new Request(Script.RELEASE, keys.all()).add(token).add(SPENT_MS + rules.attemptMs);
        return entry == null ? request : request.add(entry);
    }

    /** Null: the lock was ours until now. Otherwise why not. */
    static String judge(Rules rules, Object reply, Proof proof, Moment now) {
        String value = Reply.text(reply);
        long status = reply instanceof Number ? ((Number) reply).longValue() : 0; // a text is what K has
        if (status == 1)
            return null;
        if (status == -1)
            return "it expired or was deleted";
        Stamp stamp = proof.isToken ? null : Stamp.read(value, proof.provedUs / 1000);
        boolean losers = stamp != null && proof.leftNs(now) > 0 && proof.isLosers(stamp, rules);
        return losers ? null : "it expired or was stolen; another holds it";
    }
}
