package io.tidelock;

/**
 * A waiter's entry in the queue, where the phase is that of tokens. It does no I/O and reads no clock. An Eval hears no
 * notification: so the waiter polls. The server passes over an entry that it hasn't seen for 2 s, and reserves the lock
 * for 1 s for the first one. As src/wire/scripts/join.lua.
 */
final class Entry {
    private static final String FENCES = "50"; // one would mean that it is granted only from the front of the queue

    final byte[] token;

    private final Rules rules;
    private final Keys keys;
    private final String owner;
    private String place = "";
    private long seenUs; // when the server saw it last

    long busyMs;
    long before; // so many are before it
    Proof proof; // null: it isn't its turn
    long fence;
    String found; // what the register of the slot holds, which isn't what was expected; null: it is
    boolean isSpent; // somebody has released this token

    Entry(Rules rules, Keys keys, byte[] token, String owner) {
        this.rules = rules;
        this.keys = keys;
        this.token = token;
        this.owner = owner;
    }

    private String lifetime() {
        return rules.lifetimeMs + "?"; // nobody but this waiter may set the key: it acts under a lease
    }

    Request request(ServerClock clock, Moment now, long limitNs, String condition) {
        Request request = new Request(Script.JOIN, condition == null ? keys.all() : keys.all(rules)).add(token).add(lifetime()).add(clock.earliestUs(now, limitNs))
            .add(owner).add(FENCES).add("poll").add(place.isEmpty() ? "" : place + " " + seenUs);
        return condition == null ? request : request.add("").add(condition);
    }

    /** As it is in the queue; empty: not known, or in none. */
    String text() {
        return place.isEmpty() ? "" : Reply.text(token) + " " + lifetime() + " " + FENCES + " poll:" + seenUs + " " + owner;
    }

    /** The server's time in the reply; 0: none. */
    long judge(Object reply, Moment asked) {
        long status = Reply.number(Reply.item(reply, 0));
        proof = null;
        found = status == AcquireReply.DIFFERS ? Reply.text(Reply.item(reply, 1)) : null;
        if (found != null)
            return 0;
        if (status == -3)
            throw new TidelockException("the server is older than Redis 3.2: it has no queue");
        if (status < -2 || status > 1)
            throw Reply.malformed();
        busyMs = Reply.number(Reply.item(reply, 2));
        long serverUs = Reply.timeUs(reply, 4);
        notePlace(Reply.item(reply, 6), serverUs);
        before = Reply.number(Reply.item(reply, 7));
        isSpent = status == -2;
        if (status != 1)
            return serverUs;
        fence = Reply.number(Reply.item(reply, 3));
        proof = Proof.ofToken(rules, asked, busyMs, serverUs);
        return serverUs;
    }

    private void notePlace(Object reply, long serverUs) {
        String text = Reply.isNumber(reply) ? Long.toString(Reply.number(reply)) : "";
        if (text.isEmpty())
            return;
        place = text;
        seenUs = serverUs;
    }
}
