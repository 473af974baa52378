package io.tidelock;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A stand-in for the Java class DistributeLockUtil that follows the phases of a migration: its locks are stamps that the
 * class respects, and later tokens. README.md beside it says what its caller may rely on.
 *
 * A hold belongs to the thread that acquired it. Any thread may use an instance. Two instances share nothing.
 */
public final class TidelockLockUtil implements AutoCloseable {
    private static final long POLL_LEAST_MS = 50;
    private static final long POLL_MOST_MS = 250;
    private static final int LOOKS_MOST = 3; // in vain, one behind the other: then it waits without the queue

    private final Rules rules;
    private final Server server;
    private final Undo undo;
    private final Keeper keeper;
    private final Holds holds = new Holds();
    private final ThreadLocal<String> lastLoss = new ThreadLocal<>();
    private final AtomicInteger calls = new AtomicInteger();
    private volatile boolean closed;

    /** @throws IllegalArgumentException an option is out of its range */
    public TidelockLockUtil(Eval redis, Options options) {
        rules = new Rules(options);
        server = new Server(redis, rules);
        undo = new Undo(server, rules);
        keeper = new Keeper(server, rules, undo, this);
    }

    /**
     * Acquire the lock if it is free: one try. Only true means that it was acquired.
     *
     * @return false: another client holds it, or this instance does
     * @throws TidelockException it was not acquired, since the server gave no reply, or the phase isn't known
     */
    public boolean lock(String key) {
        calls.incrementAndGet();
        try {
            return new Acquisition(key, false).tryOnce();
        } finally {
            calls.decrementAndGet();
        }
    }

    /**
     * Acquire the lock, and wait for it as long. It polls: the call may take the time of one try longer. A try is a few
     * requests: without replies it may take the time-outs of about three, as it repeats a release and undoes an acquire.
     *
     * @throws TidelockException as lock(), if the last try failed so
     */
    public boolean tryLock(String key, long waitMs) throws InterruptedException {
        calls.incrementAndGet();
        try {
            Limit wait = new Limit(Moment.now(), TimeUnit.MILLISECONDS.toNanos(waitMs));
            return waitFor(new Acquisition(key, waitMs > 0), wait);
        } finally {
            calls.decrementAndGet();
        }
    }

    private boolean waitFor(Acquisition acquisition, Limit wait) throws InterruptedException {
        try {
            for (;;) {
                TidelockException failure = null;
                try {
                    if (acquisition.tryOnce())
                        return true;
                } catch (TidelockException e) {
                    failure = e;
                }
                if (Thread.interrupted())
                    throw new InterruptedException();
                long leftMs = wait.leftNs(Moment.now()) / Rates.NS_PER_MS;
                if (leftMs <= 0 && failure != null)
                    throw failure;
                if (leftMs <= 0)
                    return false;
                Thread.sleep(Math.min(leftMs, acquisition.pauseMs));
            }
        } finally {
            acquisition.leaveQueue();
        }
    }

    /**
     * Release the lock if this thread acquired it; otherwise nothing changes. It never throws.
     *
     * @return true: it was this thread's until now. Else lastLoss() says why not
     */
    public boolean release(String key) {
        Hold hold = holds.remove(key);
        String why = hold == null ? "this thread does not hold it" : release(hold);
        lastLoss.set(why);
        return why == null;
    }

    private String release(Hold hold) {
        hold.end();
        keeper.remove(hold);
        boolean over = hold.leftNs(Moment.now()) <= 0;
        String before = hold.lost() != null ? hold.lost() : over ? "it had expired" : null;
        Request request = Release.request(rules, hold.keys, hold.token, hold.doubted ? "" : null);
        try {
            String found = Release.judge(rules, server.send(request), hold.proof(), Moment.now());
            return before != null ? before : found;
        } catch (TidelockException e) {
            undo(hold.keys, hold.token, "");
            return e.getMessage();
        }
    }

    private void undo(Keys keys, byte[] token, String entry) {
        undo.add(keys, token, entry);
        undo.run(true);
        keeper.wake(); // what could not be undone
    }

    /**
     * For how long this thread certainly holds the key. 0: don't work on. No request is sent. For another thread it is 0:
     * else one whose lock has expired would take the next holder's for its own.
     */
    public long remainingMs(String key) {
        Moment now = Moment.now();
        Hold hold = holds.mine(key, now);
        return hold == null ? 0 : hold.leftNs(now) / Rates.NS_PER_MS;
    }

    /** A number that is larger for each later holder, for what the lock protects. 0: this thread doesn't hold the key. */
    public long fence(String key) {
        Hold hold = holds.mine(key, Moment.now());
        return hold == null ? 0 : hold.fence;
    }

    /** The phase of the namespace, as last read: 0 to 3; -1: it has no register, or none was read yet. */
    public int phase() {
        return server.phase();
    }

    /** Why the last release() of this thread was false; null: it was true. */
    public String lastLoss() {
        return lastLoss.get();
    }

    /**
     * Remove this client's record from `tidelock migrate clients`. It releases nothing: locks that are held expire. The
     * record stays where a request may yet take effect.
     */
    @Override
    public void close() {
        closed = true;
        boolean ended = keeper.close();
        undo.run(true);
        if (!ended || calls.get() > 0 || !undo.isEmpty() || server.register.lease() == Lease.UNREAD)
            return;
        try {
            server.register.leave();
        } catch (TidelockException e) {
            // the record is void after three leases
        }
    }

    /** Acquires one key, by tries. */
    private final class Acquisition {
        private final String name;
        private final Keys keys;
        private final boolean waits;
        private Phase phase;
        private Queueing queueing; // null: it has no entry in the queue
        private long pauseMs;
        private int looksInVain;

        Acquisition(String name, boolean waits) {
            this.name = name;
            this.waits = waits;
            keys = new Keys(name);
            if (!rules.pattern.matches(keys.key))
                throw new IllegalArgumentException("the option keys has no pattern that matches this key");
        }

        boolean tryOnce() {
            if (closed)
                throw new IllegalStateException("it is closed");
            undo.run(false);
            pauseMs = ThreadLocalRandom.current().nextLong(POLL_LEAST_MS, POLL_MOST_MS + 1);
            return holds.leftNs(name, Moment.now()) <= 0 && acquire();
        }

        private boolean acquire() {
            phase = server.usablePhase(keys);
            keeper.start();
            if (queueing != null && phase.acts() != Phase.TOKEN)
                leaveQueue();
            if (queueing == null && began())
                return true;
            if (waits && phase.acts() == Phase.TOKEN && queueing == null && looksInVain < LOOKS_MOST)
                queueing = new Queueing(server, rules, keys);
            return queueing != null && advanced();
        }

        private boolean began() {
            Exchange exchange = new Exchange(server, rules, keys, Server.token(), phase);
            Hold hold = null;
            try {
                hold = exchange.run();
            } finally {
                if (hold == null && exchange.isInDoubt())
                    undo(keys, exchange.token, "");
            }
            phase = exchange.phase();
            if (exchange.busyMs() >= 0)
                pauseMs = Math.min(pauseMs, exchange.busyMs() + Queueing.PAUSE_LEAST_MS);
            return hold != null && keep(hold);
        }

        private boolean advanced() {
            if (++looksInVain > LOOKS_MOST)
                leaveQueue(); // perhaps this user may not queue
            Hold hold = queueing == null ? null : queueing.look(phase);
            if (queueing == null)
                return false;
            looksInVain = 0;
            pauseMs = queueing.pauseMs(pauseMs);
            if (hold != null || queueing.entry.isSpent)
                queueing = null;
            return hold != null && keep(hold);
        }

        private boolean keep(Hold hold) {
            if (!holds.add(name, hold, Moment.now())) {
                undo(keys, hold.token, "");
                return false;
            }
            if (rules.renew)
                keeper.add(hold);
            return true;
        }

        void leaveQueue() {
            if (queueing == null)
                return;
            Entry entry = queueing.entry;
            queueing = null;
            undo(keys, entry.token, entry.text());
        }
    }
}
