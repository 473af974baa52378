import java.io.BufferedReader;
import java.io.InputStreamReader;

import redis.clients.jedis.Jedis;

/**
 * The peer program for Java: Peer LOCK PORT. It speaks the protocol of ../README.md; the class LOCK
 * turns one way of locking into acquire, extend and release, over Jedis. It never decides by itself
 * who holds the lock.
 */
public final class Peer {
    static final int RETRY_MS = 20;

    /** One way of locking; its constructor takes the connection. */
    interface Lock {
        /** One try: what the key holds now, or null when another holds it. */
        String tryAcquire(String key, long ttlMs) throws InterruptedException;

        /** The same, again and again; for libraries that don't wait themselves. */
        default String acquire(String key, long ttlMs, long waitMs) throws InterruptedException {
            long end = System.nanoTime() + waitMs * 1000000;
            for (;;) {
                String value = tryAcquire(key, ttlMs);
                if (value != null || System.nanoTime() >= end)
                    return value;
                Thread.sleep(RETRY_MS);
            }
        }

        /** False when the lock was not ours any more. */
        boolean extend(long ttlMs);

        /** False when the lock was not ours any more; null: the library doesn't say. */
        Boolean release();

        /** Locks are released no earlier than so long after their acquire. */
        default void rest(long restMs) {
            throw new UnsupportedOperationException("its locks don't rest");
        }

        /** Locks are renewed by the library itself. */
        default void renew() {
            throw new UnsupportedOperationException("its locks are not renewed");
        }
    }

    static int port;

    private final Jedis server;
    private final Lock lock;

    private Peer(Jedis server, Lock lock) {
        this.server = server;
        this.lock = lock;
    }

    private void section() {
        if (server.incr("interop:inside") != 1)
            server.incr("interop:overlaps");
        String n = server.get("interop:counter");
        server.set("interop:counter", String.valueOf(n == null ? 1 : Integer.parseInt(n) + 1));
        server.decr("interop:inside");
    }

    private void count(String key, long ttlMs, int rounds) throws InterruptedException {
        for (int i = 0; i < rounds; i++) {
            if (lock.acquire(key, ttlMs, 60000) == null)
                throw new IllegalStateException("no turn within a minute");
            section();
            if (Boolean.FALSE.equals(lock.release()))
                throw new IllegalStateException("the lock was lost");
            Thread.sleep((long) (Math.random() * 20));
        }
    }

    private String answer(String[] word) throws InterruptedException {
        switch (word[0]) {
            case "acquire":
                String value = lock.acquire(word[1], Long.parseLong(word[2]), Long.parseLong(word[3]));
                return value == null ? "busy" : "ok " + value;
            case "extend":
                return lock.extend(Long.parseLong(word[1])) ? "ok" : "lost";
            case "release":
                Boolean released = lock.release();
                return released == null ? "done" : released ? "ok" : "lost";
            case "rest":
                lock.rest(Long.parseLong(word[1]));
                return "ok";
            case "renew":
                lock.renew();
                return "ok";
            case "count":
                count(word[1], Long.parseLong(word[2]), Integer.parseInt(word[3]));
                return "ok " + word[3];
            default:
                throw new IllegalArgumentException("unknown command");
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        port = Integer.parseInt(args[1]);
        try (Jedis server = new Jedis("127.0.0.1", port, 20000)) {
            Lock lock = (Lock) Class.forName(args[0]).getDeclaredConstructor(Jedis.class).newInstance(server);
            Peer peer = new Peer(server, lock);
            server.ping();
            System.out.println("ready");
            for (String line = in.readLine(); line != null; line = in.readLine())
                System.out.println(peer.answer(line.split(" ")));
            System.exit(0); // some libraries leave threads
        } catch (RuntimeException e) {
            System.out.println("error " + e.getMessage().replace('\n', ' '));
            System.exit(1);
        }
    }
}
