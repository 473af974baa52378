import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;

import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

import redis.clients.jedis.Jedis;

/**
 * Spring Integration's RedisLockRegistry. Its key is REGISTRY:NAME, the value is the registry's own. A registry has
 * one lifetime for all its locks, and renews on demand, or by itself where it was given a task scheduler.
 */
class SpringSpin implements Peer.Lock {
    private final Jedis server;
    private final RedisLockType type;
    private RedisLockRegistry registry;
    private long lifetimeMs;
    private String name;
    private Lock held;
    private ThreadPoolTaskScheduler scheduler;

    SpringSpin(Jedis server) {
        this(server, RedisLockType.SPIN_LOCK);
    }

    SpringSpin(Jedis server, RedisLockType type) {
        this.server = server;
        this.type = type;
    }

    /** While a lock is held the registry of another service asks: the same one would have it at once. */
    private RedisLockRegistry registryOf(String prefix, long ttlMs) {
        if (registry != null && held == null && ttlMs == lifetimeMs)
            return registry;
        RedisLockRegistry fresh = new RedisLockRegistry(Spring.factory(), prefix, ttlMs);
        fresh.setRedisLockType(type);
        fresh.setIdleBetweenTries(Duration.ofMillis(Peer.RETRY_MS)); // by default 100 ms
        if (scheduler != null)
            fresh.setRenewalTaskScheduler(scheduler);
        return fresh;
    }

    @Override
    public String tryAcquire(String key, long ttlMs) throws InterruptedException {
        return acquire(key, ttlMs, 0);
    }

    @Override
    public String acquire(String key, long ttlMs, long waitMs) throws InterruptedException {
        String[] part = key.split(":", 2);
        RedisLockRegistry asking = registryOf(part[0], ttlMs);
        Lock lock = asking.obtain(part[1]);
        if (!lock.tryLock(waitMs, TimeUnit.MILLISECONDS))
            return null;
        registry = asking;
        lifetimeMs = ttlMs;
        name = part[1];
        held = lock;
        return server.get(key);
    }

    @Override
    public void renew() {
        scheduler = new ThreadPoolTaskScheduler();
        scheduler.initialize();
    }

    @Override
    public boolean extend(long ttlMs) {
        try {
            registry.renewLock(name);
            return true;
        } catch (IllegalStateException e) {
            return false;
        }
    }

    @Override
    public Boolean release() {
        Lock lock = held;
        held = null;
        try {
            lock.unlock();
            return true;
        } catch (ConcurrentModificationException | IllegalStateException e) {
            return false;
        }
    }
}
