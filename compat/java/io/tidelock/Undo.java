package io.tidelock;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Releases what requests without a reply may have left: such a request may have acquired a lock, or may yet. Each is
 * tried at once, then by later calls and by the renewing thread, until the lock would have expired.
 */
final class Undo {
    private static final long PAUSE_MS = 100;
    private static final long PAUSE_MOST_MS = 5000;

    private static final class Left {
        final Keys keys;
        final byte[] token;
        final String entry;
        final Limit until;

        Left(Keys keys, byte[] token, String entry, Limit until) {
            this.keys = keys;
            this.token = token;
            this.entry = entry;
            this.until = until;
        }
    }

    private final Server server;
    private final Rules rules;
    private final Deque<Left> all = new ArrayDeque<>();
    private int failures;
    private Limit pause;
    private int busy; // requests in flight

    Undo(Server server, Rules rules) {
        this.server = server;
        this.rules = rules;
    }

    /** `entry`: in the queue; empty: in none. */
    synchronized void add(Keys keys, byte[] token, String entry) {
        long ns = Rates.most(rules.lifetimeMs * Rates.NS_PER_MS) + rules.attemptMs * Rates.NS_PER_MS;
        all.add(new Left(keys, token, entry, new Limit(Moment.now(), ns)));
    }

    synchronized boolean isEmpty() {
        return all.isEmpty() && busy == 0;
    }

    /** How long until the next try is due; as long as can be: nothing is left. */
    synchronized long pauseNs(Moment now) {
        return all.isEmpty() ? Long.MAX_VALUE : pause == null ? 0 : pause.leftNs(now);
    }

    /** Never throws, except what the virtual machine itself throws. */
    void run(boolean atOnce) {
        for (Left left = next(atOnce); left != null; left = next(false)) {
            boolean done = false;
            try {
                server.send(Release.request(rules, left.keys, left.token, left.entry));
                done = true;
            } catch (TidelockException e) {
                // it stays, and is tried again
            } finally {
                ended(left, done);
            }
        }
    }

    private synchronized Left next(boolean atOnce) {
        Moment now = Moment.now();
        while (!all.isEmpty() && all.peek().until.mostLeftNs(now) <= 0)
            all.remove();
        if (all.isEmpty() || (!atOnce && pause != null && pause.leftNs(now) > 0))
            return null;
        busy++;
        return all.remove();
    }

    private synchronized void ended(Left left, boolean done) {
        busy--;
        failures = done ? 0 : failures + 1;
        pause = done ? null : new Limit(Moment.now(),
            Math.min(PAUSE_MS << Math.min(failures, 10), PAUSE_MOST_MS) * Rates.NS_PER_MS);
        if (!done)
            all.add(left);
    }
}
