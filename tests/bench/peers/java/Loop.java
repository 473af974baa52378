import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

import io.netty.channel.EventLoopGroup;
import io.netty.channel.nio.NioEventLoopGroup;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.config.Config;

/**
 * Clients of Redisson that want one lock again and again: Loop PORT CLIENTS HOLD_US KEY. It speaks the
 * protocol of ../../README.md. Each client has connections of its own, and its loop is a thread; what
 * else needs threads they share.
 */
public final class Loop {
    private final List<Client> clients = new ArrayList<>();
    private final List<Thread> loops = new ArrayList<>();
    private final long holdNs;
    private volatile boolean over;

    private Loop(long holdNs) {
        this.holdNs = holdNs;
    }

    private final class Client implements Runnable {
        final RLock lock;
        final AtomicLong turns = new AtomicLong();
        final AtomicLong heldNs = new AtomicLong();

        Client(RLock lock) {
            this.lock = lock;
        }

        @Override
        public void run() {
            while (!over) {
                lock.lock();
                long start = System.nanoTime();
                for (long left = holdNs; left > 0; left = start + holdNs - System.nanoTime())
                    LockSupport.parkNanos(left);
                heldNs.addAndGet(System.nanoTime() - start);
                turns.incrementAndGet();
                lock.unlock();
            }
        }
    }

    private static Config config(String port, EventLoopGroup events, ExecutorService workers) {
        Config config = new Config();
        config.setEventLoopGroup(events);
        config.setExecutor(workers);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port).setConnectionPoolSize(1)
            .setConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(1)
            .setSubscriptionConnectionMinimumIdleSize(1);
        return config;
    }

    private void begin() {
        over = false;
        for (Client client : clients) {
            Thread loop = new Thread(client);
            loop.setDaemon(true);
            loops.add(loop);
            loop.start();
        }
    }

    private void end() throws InterruptedException {
        over = true;
        for (Thread loop : loops)
            loop.join();
        loops.clear();
    }

    private String turns() {
        long held = 0;
        StringBuilder counts = new StringBuilder();
        for (Client client : clients) {
            held += client.heldNs.get();
            counts.append(' ').append(client.turns.get());
        }
        return "turns " + held + counts;
    }

    private String answer(String line) throws InterruptedException {
        switch (line) {
            case "go":
                begin();
                return "ok";
            case "turns":
                return turns();
            case "stop":
                end();
                return "ok";
            default:
                return "unknown command";
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        EventLoopGroup events = new NioEventLoopGroup(2);
        ExecutorService workers = Executors.newFixedThreadPool(2);
        Loop all = new Loop(Long.parseLong(args[2]) * 1000);
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        for (int i = Integer.parseInt(args[1]); i > 0; i--)
            all.clients.add(all.new Client(Redisson.create(config(args[0], events, workers)).getLock(args[3])));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine())
            System.out.println(all.answer(line));
        System.exit(0);
    }
}
