import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * A legacy service, in two ways. It speaks the lines of README.md; an exception of the lock is a line on stderr.
 *
 *   LegacyWorker peer PORT LIFETIME_MS
 *       does as each line of its input says
 *   LegacyWorker loop PORTS LIFETIME_MS KEY SLACK_MS LAG_MS SEED
 *       locks, works, unlocks, again and again, until it is told to stop; PORTS is a server's port, or PORT,PORT: those
 *       of a cluster's nodes, or NAME@PORT,PORT: those of the Sentinels of the master NAME
 *   LegacyWorker tries PORT LIFETIME_MS KEY FROM fresh|reuse
 *       from the address FROM; on a line, and until another, takes and frees two locks, one behind the other, every
 *       few ms: KEY itself, and KEY:0, KEY:1, ... in turn, where it may find an old stamp
 *
 * In the loop it keeps to what the other side assumes of such services: it does not delete later than SLACK_MS before
 * its stamp. When it is too late for that, or GETSET came later than LAG_MS after a try began, it says so.
 */
final class LegacyWorker {
    private static final int POLL_MS = 10;
    private static final int POLL_SPAN_MS = 40;
    private static final int HOLD_MS = 5;
    private static final int HOLD_SPAN_MS = 15;
    private static final int LONG_ONE_IN = 10;
    private static final int TRY_MS = 5;
    private static final int LIMIT_MS = 20000;
    private static final int SPARE_MS = 100; // of a long work, before it may not delete any more

    private static long lagNs;

    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    private final DistributeLockUtil lock;
    private final Random random;

    private boolean stops;

    private LegacyWorker(DistributeLockUtil lock, long seed) {
        this.lock = lock;
        this.random = new Random(seed);
    }

    private static void say(String line) {
        System.out.println(line);
    }

    // ---- as it is told ----

    private String answer(String[] word) {
        switch (word[0]) {
            case "acquire":
                return lock.tryLock(word[1]) ? "yes " + lock.expiresMs() : "no";
            case "release":
                lock.unlock(word[1]);
                return "done";
            case "clock":
                return String.valueOf(System.currentTimeMillis());
            default:
                throw new IllegalArgumentException("unknown command");
        }
    }

    private void peer() throws IOException {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                say(answer(line.split(" ")));
            } catch (RuntimeException e) {
                System.err.println("exception " + e);
                say("throws " + e);
            }
        }
    }

    // ---- in a loop ----

    private void waitForOk() throws IOException {
        String line;
        do {
            line = in.readLine();
            if (line == null)
                System.exit(1);
            stops |= line.equals("stop");
        } while (!line.equals("ok"));
    }

    private long leftMs(long slackMs) {
        return lock.expiresMs() - slackMs - System.currentTimeMillis();
    }

    private void work(String key, long slackMs) throws IOException, InterruptedException {
        long nowUs = System.nanoTime() / 1000;
        say("enter " + nowUs + " " + (nowUs + leftMs(slackMs) * 1000) + " 0");
        waitForOk();
        long holdMs = HOLD_MS + random.nextInt(HOLD_SPAN_MS);
        if (random.nextInt(LONG_ONE_IN) == 0)
            holdMs = Math.max(holdMs, leftMs(slackMs) - SPARE_MS);
        Thread.sleep(holdMs);
        say("leave");
        waitForOk();
        if (leftMs(slackMs) > 0) {
            unlock(key);
        } else {
            lock.forget();
            say("note stalled");
        }
    }

    private void unlock(String key) {
        try {
            lock.unlock(key);
        } catch (UncheckedIOException e) { // the key may have been deleted, or not
            lock.forget();
            say("note slow " + e);
        }
    }

    // ---- two at a time ----

    private void take(String key) {
        if (acquire(key))
            lock.unlock(key);
    }

    private void tries(String key) throws IOException, InterruptedException {
        in.readLine();
        for (int i = 0; !in.ready(); i++) {
            take(key + ":" + i);
            take(key);
            Thread.sleep(TRY_MS);
        }
        say("end");
    }

    /** Sees how long it may be from reading the clock, before GETSET and all, to GETSET's execution. */
    private static final class Watched extends RespSocket {
        private long beganNs;

        Watched(Place place) {
            super(place, "127.0.0.1", LIMIT_MS);
        }

        @Override
        public long setnx(String key, String value) {
            beganNs = System.nanoTime();
            return super.setnx(key, value);
        }

        @Override
        public String getSet(String key, String value) {
            String replaced = super.getSet(key, value);
            if (System.nanoTime() - beganNs > lagNs)
                say("note lag");
            return replaced;
        }
    }

    private boolean acquire(String key) {
        try {
            return lock.tryLock(key);
        } catch (NumberFormatException | NullPointerException e) {
            System.err.println("exception " + e);
            return false;
        } catch (UncheckedIOException e) { // whose key that is, nobody knows
            say("note slow " + e);
            return false;
        }
    }

    private void loop(String key, long slackMs) throws IOException, InterruptedException {
        while (!stops && !in.ready()) {
            if (acquire(key))
                work(key, slackMs);
            Thread.sleep(POLL_MS + random.nextInt(POLL_SPAN_MS));
        }
        say("end");
    }

    private static int[] numbers(String ports) {
        return Stream.of(ports.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    static RespSocket.Place place(String ports) {
        String[] named = ports.split("@");
        int[] numbers = numbers(named[named.length - 1]);
        if (named.length > 1)
            return () -> RespSocket.askSentinels(numbers, named[0], LIMIT_MS);
        AtomicInteger next = new AtomicInteger();
        return () -> numbers[next.getAndIncrement() % numbers.length];
    }

    public static void main(String[] args) throws Exception {
        boolean loops = args[0].equals("loop"), tries = args[0].equals("tries");
        lagNs = loops ? Long.parseLong(args[5]) * 1000000 : Long.MAX_VALUE;
        RespSocket.Place place = place(args[1]);
        RespSocket redis = tries ? new RespSocket(place, args[4], LIMIT_MS) : new Watched(place);
        boolean reuses = tries && args[5].equals("reuse");
        DistributeLockUtil lock = new DistributeLockUtil(redis, Long.parseLong(args[2]), reuses);
        LegacyWorker worker = new LegacyWorker(lock, loops ? Long.parseLong(args[6]) : 0);
        say("ready");
        if (loops)
            worker.loop(args[3], Long.parseLong(args[4]));
        else if (tries)
            worker.tries(args[3]);
        else
            worker.peer();
    }
}
