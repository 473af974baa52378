import redis.clients.jedis.Jedis;

/** The legacy lock, ../../legacy/DistributeLockUtil.java, over Jedis. */
final class StampLock implements Peer.Lock {
    private final DistributeLockUtil.Commands redis;
    private DistributeLockUtil lock;
    private long lifetimeMs;
    private String held;

    StampLock(Jedis server) {
        redis = new DistributeLockUtil.Commands() {
            @Override
            public long setnx(String key, String value) {
                return server.setnx(key, value);
            }

            @Override
            public String get(String key) {
                return server.get(key);
            }

            @Override
            @SuppressWarnings("deprecation")
            public String getSet(String key, String value) {
                return server.getSet(key, value);
            }

            @Override
            public long del(String key) {
                return server.del(key);
            }
        };
    }

    /** What the lock throws is a refusal, as it is to the services that have it; stderr has it. */
    @Override
    public String tryAcquire(String key, long ttlMs) {
        if (lock == null || ttlMs != lifetimeMs)
            lock = new DistributeLockUtil(redis, ttlMs);
        lifetimeMs = ttlMs;
        try {
            if (!lock.tryLock(key))
                return null;
        } catch (NumberFormatException | NullPointerException e) {
            System.err.println(e);
            return null;
        }
        held = key;
        return String.valueOf(lock.expiresMs());
    }

    @Override
    public boolean extend(long ttlMs) {
        throw new UnsupportedOperationException("it can't extend");
    }

    /** It never knows. */
    @Override
    public Boolean release() {
        lock.unlock(held);
        return true;
    }
}
