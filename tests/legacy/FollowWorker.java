import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Random;

import io.tidelock.Options;
import io.tidelock.TidelockException;
import io.tidelock.TidelockLockUtil;

/**
 * A service with the drop-in for Java, which follows the phases. It speaks the lines of README.md. Nothing is
 * assumed of its clocks, nor of how long it stands still.
 *
 *   FollowWorker PORTS LIFETIME_MS KEY M_MS L_MS LEASE_MS SEED
 *
 * PORTS: see LegacyWorker.
 */
final class FollowWorker {
    private static final int POLL_MS = 10;
    private static final int POLL_SPAN_MS = 40;
    private static final int WAIT_MS = 2000;
    private static final int HOLD_MS = 5;
    private static final int HOLD_SPAN_MS = 15;
    private static final int LONG_ONE_IN = 8;
    private static final int LONG_HOLD_MS = 600; // longer than what is left before a renewal
    private static final int ATTEMPT_MS = 300;
    private static final int STILL_MS = 50;

    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    private final TidelockLockUtil locks;
    private final String key;
    private final Random random;

    private boolean stops;

    private FollowWorker(TidelockLockUtil locks, String key, long seed) {
        this.locks = locks;
        this.key = key;
        this.random = new Random(seed);
    }

    private void waitForOk() throws IOException {
        String line;
        do {
            line = in.readLine();
            if (line == null)
                System.exit(1);
            stops |= line.equals("stop");
        } while (!line.equals("ok"));
    }

    /** The clock first: then what remains is not too much. */
    private long untilUs(long nowUs) {
        return nowUs + locks.remainingMs(key) * 1000;
    }

    private static long nowUs() {
        return System.nanoTime() / 1000;
    }

    private void hold(long holdMs) throws InterruptedException {
        for (long endUs = nowUs() + holdMs * 1000; nowUs() < endUs && locks.remainingMs(key) > 0;) {
            Thread.sleep(Math.min(STILL_MS, holdMs));
            System.out.println("still " + untilUs(nowUs()));
        }
    }

    private void release() {
        long endUs = untilUs(nowUs());
        if (locks.release(key))
            return;
        String why = locks.lastLoss();
        boolean isUndoneLater = why.contains("no reply") || why.contains("slot is being moved");
        String what = isUndoneLater ? "slow release: " : endUs > nowUs() ? "released with time left: " : "expired: ";
        System.out.println("note " + what + why);
    }

    private void work() throws IOException, InterruptedException {
        long nowUs = nowUs();
        System.out.println("enter " + nowUs + " " + untilUs(nowUs) + " " + locks.fence(key));
        waitForOk();
        hold(random.nextInt(LONG_ONE_IN) == 0 ? LONG_HOLD_MS : HOLD_MS + random.nextInt(HOLD_SPAN_MS));
        System.out.println("leave");
        waitForOk();
        release();
    }

    private boolean acquire() throws InterruptedException {
        try {
            return locks.tryLock(key, WAIT_MS);
        } catch (TidelockException e) {
            System.out.println("note slow acquire: " + e.getMessage());
            return false;
        }
    }

    private void loop() throws IOException, InterruptedException {
        while (!stops && !in.ready()) {
            if (acquire())
                work();
            Thread.sleep(POLL_MS + random.nextInt(POLL_SPAN_MS));
        }
        locks.close();
        System.out.println("end");
    }

    public static void main(String[] args) throws Exception {
        Options options = new Options().lifetimeMs(Long.parseLong(args[1])).legacyTtlMinMs(Long.parseLong(args[1]))
            .clockSkewMaxMs(Long.parseLong(args[3])).legacyDelayMaxMs(Long.parseLong(args[4]))
            .leaseMs(Long.parseLong(args[5])).attemptMs(ATTEMPT_MS).service("follow");
        RespSocket redis = new RespSocket(LegacyWorker.place(args[0]), "127.0.0.1", ATTEMPT_MS).following(ATTEMPT_MS);
        FollowWorker worker = new FollowWorker(new TidelockLockUtil(redis, options), args[2], Long.parseLong(args[6]));
        System.out.println("ready");
        worker.loop();
    }
}
