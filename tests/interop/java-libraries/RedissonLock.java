import java.util.concurrent.TimeUnit;

import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

import redis.clients.jedis.Jedis;

/** Redisson's RLock: a hash with the field UUID:THREAD. Its watchdog renews it until it is released. */
final class RedissonLock implements Peer.Lock {
    private final Jedis server;
    private RedissonClient client;
    private RLock held;

    RedissonLock(Jedis server) {
        this.server = server;
    }

    private RedissonClient client(long ttlMs) {
        Config config = new Config().setLockWatchdogTimeout(ttlMs).setNettyThreads(2).setThreads(2);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + Peer.port).setConnectionPoolSize(2)
            .setConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(1)
            .setSubscriptionConnectionMinimumIdleSize(1);
        return Redisson.create(config);
    }

    @Override
    public String tryAcquire(String key, long ttlMs) throws InterruptedException {
        return acquire(key, ttlMs, 0);
    }

    @Override
    public String acquire(String key, long ttlMs, long waitMs) throws InterruptedException {
        if (client == null)
            client = client(ttlMs);
        RLock lock = client.getLock(key);
        if (!lock.tryLock(waitMs, TimeUnit.MILLISECONDS))
            return null;
        held = lock;
        return server.hkeys(key).iterator().next();
    }

    @Override
    public boolean extend(long ttlMs) {
        throw new UnsupportedOperationException("it renews by itself");
    }

    @Override
    public Boolean release() {
        held.unlock();
        return true;
    }
}
