import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;

import redis.clients.jedis.Jedis;

/**
 * ShedLock's provider for Spring Data Redis. Its key is PREFIX:ENVIRONMENT:NAME, by default job-lock:default:NAME.
 * Released before lockAtLeastFor has passed the key stays until then. Nothing says whether the lock was still ours.
 */
class ShedLock implements Peer.Lock {
    private final Jedis server;
    private final boolean safe;
    private Duration rest = Duration.ZERO;
    private RedisLockProvider provider;
    private SimpleLock held;

    ShedLock(Jedis server) {
        this(server, true);
    }

    /** safe: it compares before it deletes or extends; by default it doesn't. */
    ShedLock(Jedis server, boolean safe) {
        this.server = server;
        this.safe = safe;
    }

    @Override
    public String tryAcquire(String key, long ttlMs) {
        String[] part = key.split(":", 3);
        if (provider == null)
            provider = new RedisLockProvider.Builder(Spring.factory()).keyPrefix(part[0]).environment(part[1])
                .safeUpdate(safe).build();
        Optional<SimpleLock> lock = provider.lock(
            new LockConfiguration(Instant.now(), part[2], Duration.ofMillis(ttlMs), rest));
        if (!lock.isPresent())
            return null;
        held = lock.get();
        return server.get(key);
    }

    @Override
    public boolean extend(long ttlMs) {
        Optional<SimpleLock> longer = held.extend(Duration.ofMillis(ttlMs), Duration.ZERO);
        longer.ifPresent(lock -> held = lock);
        return longer.isPresent();
    }

    /** After an extension that failed it throws. */
    @Override
    public Boolean release() {
        try {
            held.unlock();
            return null;
        } catch (IllegalStateException e) {
            return false;
        }
    }

    @Override
    public void rest(long restMs) {
        rest = Duration.ofMillis(restMs);
    }
}
