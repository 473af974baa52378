package io.tidelock;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Renews holds, by one daemon thread, which lives while there are holds. */
final class Keeper implements Runnable {
    private static final int PARTS = 3; // a renewal is due after a third of what is left
    private static final int SOON_PARTS = 6;
    private static final long LEAST_MS = 2;

    private final Server server;
    private final Rules rules;
    private final Undo undo;
    private final Map<Hold, Limit> next = new LinkedHashMap<>(); // until the next renewal of each
    private Thread thread; // null: none runs
    private boolean closed;

    Keeper(Server server, Rules rules, Undo undo) {
        this.server = server;
        this.rules = rules;
        this.undo = undo;
    }

    synchronized void add(Hold hold) {
        if (closed)
            return;
        plan(hold, PARTS);
        notifyAll();
        if (thread != null)
            return;
        thread = new Thread(this, "tidelock");
        thread.setDaemon(true);
        thread.start();
    }

    private void plan(Hold hold, int parts) {
        Moment now = Moment.now();
        next.put(hold, new Limit(now, Math.max(hold.leftNs(now) / parts, LEAST_MS * Rates.NS_PER_MS)));
    }

    synchronized void remove(Hold hold) {
        next.remove(hold);
    }

    synchronized void close() {
        closed = true;
        next.clear();
        notifyAll();
    }

    @Override
    public void run() {
        try {
            for (List<Hold> due = due(); due != null; due = due()) {
                for (Hold hold : due)
                    keep(hold);
                undo.run(false);
            }
        } catch (InterruptedException e) {
            // nobody interrupts this thread on purpose: what is held expires
        } finally {
            ended();
        }
    }

    private synchronized void ended() {
        if (thread == Thread.currentThread())
            thread = null;
    }

    /** Waits until a renewal is due. Null: there is nothing to do any more. */
    private synchronized List<Hold> due() throws InterruptedException {
        while (!next.isEmpty()) {
            Moment now = Moment.now();
            List<Hold> due = new ArrayList<>();
            long waitNs = Long.MAX_VALUE;
            for (Map.Entry<Hold, Limit> each : next.entrySet()) {
                long leftNs = each.getValue().leftNs(now);
                waitNs = Math.min(waitNs, leftNs);
                if (leftNs <= 0)
                    due.add(each.getKey());
            }
            if (!due.isEmpty())
                return due;
            wait(waitNs / Rates.NS_PER_MS + 1);
        }
        thread = null;
        return null;
    }

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

    private boolean renew(Hold hold) {
        if (!hold.proof().isToken)
            refresh();
        Lease lease = server.lease();
        boolean drains = !hold.proof().isToken && lease.phase >= Lease.DRAIN && lease.lasts(rules, Moment.now());
        Renewal renewal = new Renewal(rules, hold.keys, hold.token, server.owner, hold.fence, hold.proof(), drains);
        for (;;) {
            Moment asked = Moment.now();
            long limitNs = Math.min(rules.attemptMs * Rates.NS_PER_MS, hold.leftNs(asked) / PARTS);
            if (drains)
                limitNs = Math.min(limitNs, lease.leftNs(rules, asked));
            if (limitNs <= 0 || hold.isEnded())
                return false;
            Object reply = server.send(renewal.request(server.clock(), asked, limitNs));
            Moment received = Moment.now();
            Renewal.Outcome outcome = renewal.judge(reply, asked, received);
            server.learn(renewal.serverUs, asked, received);
            if (outcome == Renewal.Outcome.AGAIN)
                continue;
            if (outcome == Renewal.Outcome.KEPT)
                hold.renewed(renewal.proof, received);
            if (outcome == Renewal.Outcome.LOST)
                hold.lost(renewal.why);
            return outcome == Renewal.Outcome.KEPT;
        }
    }

    /** A holder follows the phase, too: its stamps become tokens. But a renewal needs no register. */
    private void refresh() {
        try {
            if (!server.lease().lasts(rules, Moment.now()))
                server.readPhase();
        } catch (TidelockException e) {
            // the next acquire reads it, and reports why it can't
        }
    }
}
