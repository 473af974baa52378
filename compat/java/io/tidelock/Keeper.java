package io.tidelock;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The daemon thread of a TidelockLockUtil. From its first acquire until it is closed it reads the phase after each third
 * of the lease, so that `tidelock migrate` knows of it. It renews holds, and repeats what could not be undone.
 */
final class Keeper implements Runnable {
    private static final int PARTS = 3; // a renewal is due after a third of what is left
    private static final int SOON_PARTS = 6;
    private static final long LEAST_NS = 2 * Rates.NS_PER_MS;
    private static final long AGAIN_NS = 1000 * Rates.NS_PER_MS; // the phase is read, after a failure
    private static final long APART_NS = 100 * Rates.NS_PER_MS;  // at least: a shorter lease doesn't replace one that lasts

    private final Server server;
    private final Rules rules;
    private final Undo undo;
    private final WeakReference<Object> of; // one that was forgotten without a close() needs none
    private final Map<Hold, Limit> next = new LinkedHashMap<>(); // until the next renewal of each
    private Limit nextRead;
    private Thread thread; // null: none runs
    private boolean closed;

    Keeper(Server server, Rules rules, Undo undo, Object of) {
        this.server = server;
        this.rules = rules;
        this.undo = undo;
        this.of = new WeakReference<>(of);
    }

    synchronized void start() {
        if (closed || thread != null)
            return;
        Thread starting = new Thread(this, "tidelock-" + rules.namespace);
        starting.setDaemon(true);
        starting.start(); // or throws, and a later lock() tries again
        thread = starting;
    }

    synchronized void add(Hold hold) {
        if (closed)
            return;
        plan(hold, PARTS);
        notifyAll();
    }

    /** Something is left to undo. */
    synchronized void wake() {
        notifyAll();
    }

    private void plan(Hold hold, int parts) {
        Moment now = Moment.now();
        next.put(hold, new Limit(now, Math.max(hold.leftNs(now) / parts, LEAST_NS)));
    }

    synchronized void remove(Hold hold) {
        next.remove(hold);
    }

    /** False: its thread may still read the phase, which registers the client again. */
    boolean close() {
        Thread last = end();
        try {
            if (last != null)
                last.join(rules.attemptMs);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return last == null || !last.isAlive();
    }

    private synchronized Thread end() {
        closed = true;
        next.clear();
        notifyAll();
        return thread;
    }

    @Override
    public void run() {
        try {
            for (List<Hold> due = due(); due != null; due = due()) {
                for (Hold hold : due)
                    keep(hold);
                undo.run(false);
                readInTime();
            }
        } catch (InterruptedException e) {
            // nobody interrupts this thread on purpose: what is held expires
        } finally {
            ended();
        }
    }

    private synchronized void ended() {
        thread = null;
    }

    /** Waits until something is to be done. Null: there is nothing to do any more. */
    private synchronized List<Hold> due() throws InterruptedException {
        while (!closed && of.get() != null) {
            Moment now = Moment.now();
            List<Hold> due = new ArrayList<>();
            long waitNs = Math.min(Math.min(readNs(now), undo.pauseNs(now)), lookNs());
            for (Map.Entry<Hold, Limit> each : next.entrySet()) {
                long leftNs = each.getValue().leftNs(now);
                waitNs = Math.min(waitNs, leftNs);
                if (leftNs <= 0)
                    due.add(each.getKey());
            }
            if (waitNs <= 0 && !closed)
                return due;
            wait(waitNs / Rates.NS_PER_MS + 1);
        }
        return null;
    }

    /** Nothing wakes it when its instance is forgotten: so often it looks. */
    private long lookNs() {
        return rules.leaseMs * Rates.NS_PER_MS / PARTS;
    }

    // ---- the phase ----

    /** A cluster's registers aren't read before they are needed. */
    private synchronized long readNs(Moment now) {
        long freshNs = server.isCluster() ? Long.MAX_VALUE : server.register.lease().freshNs(rules, now);
        return nextRead == null ? freshNs : Math.max(freshNs, nextRead.leftNs(now));
    }

    private void readInTime() {
        if (readNs(Moment.now()) <= 0)
            read();
    }

    /** After a failure the lease ends; the next acquire reads it itself, and reports the error. */
    private void read() {
        boolean done = false;
        try {
            server.register.readPhase();
            done = true;
        } catch (TidelockException e) {
            // again a little later
        } finally {
            readEnded(done);
        }
    }

    private synchronized void readEnded(boolean done) {
        nextRead = new Limit(Moment.now(), done ? APART_NS : AGAIN_NS);
    }

    // ---- renewing ----

    /** One renewal; a failed one is tried again soon. A lock whose thread has ended is left to expire. */
    private void keep(Hold hold) {
        boolean kept = false, over = true;
        try {
            kept = hold.thread.isAlive() && renew(hold);
        } catch (TidelockException e) {
            // no reply, or a refusal: again
        } finally {
            over = hold.isEnded() || !hold.thread.isAlive() || hold.leftNs(Moment.now()) <= 0;
            keptOrNot(hold, kept, over);
        }
    }

    private synchronized void keptOrNot(Hold hold, boolean kept, boolean over) {
        if (over)
            next.remove(hold);
        else if (next.containsKey(hold))
            plan(hold, kept ? PARTS : SOON_PARTS);
    }

    /**
     * A holder follows the phase, too: its stamp becomes a token. But no renewal waits for a register. In a cluster, where
     * no lease was read, a stamp stays one: a renewal has no condition.
     */
    private boolean renew(Hold hold) {
        Lease lease = server.register.lease();
        boolean drains = !hold.proof().isToken && lease.phase >= Lease.DRAIN && lease.lasts(rules, Moment.now());
        Renewal renewal = new Renewal(rules, hold.keys, hold.token, server.owner, hold.fence, hold.proof(), drains,
            server.isCluster());
        for (;;) {
            Moment asked = Moment.now();
            long limitNs = Math.min(rules.attemptMs * Rates.NS_PER_MS, hold.leftNs(asked) / PARTS);
            if (drains)
                limitNs = Math.min(limitNs, lease.leftNs(rules, asked));
            if (limitNs <= 0 || hold.isEnded())
                return false;
            Object reply = server.send(renewal.request(server.clock(hold.keys), asked, limitNs));
            Moment received = Moment.now();
            Renewal.Outcome outcome = renewal.judge(reply, asked, received);
            server.learn(hold.keys, renewal.serverUs, asked, received);
            if (outcome == Renewal.Outcome.AGAIN)
                continue;
            if (outcome == Renewal.Outcome.KEPT)
                hold.renewed(renewal.proof, received);
            if (outcome == Renewal.Outcome.LOST)
                hold.lost(renewal.why);
            return outcome == Renewal.Outcome.KEPT;
        }
    }
}
