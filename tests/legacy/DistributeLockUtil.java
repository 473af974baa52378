/**
 * The legacy lock, with all its faults: an expiry in the key by this host's clock, nothing compared and set at
 * once, one flag for all keys, exceptions on whatever is not a number. It must stay as wrong as it is: tests need it so.
 */
final class DistributeLockUtil {
    /** The four commands it knows, over whatever client a service has. */
    interface Commands {
        long setnx(String key, String value);

        /** Null when there is none. */
        String get(String key);

        /** What was there before, or null. */
        String getSet(String key, String value);

        long del(String key);
    }

    static final long LIFETIME_MS = 60000;

    private final Commands redis;
    private final long lifetimeMs;
    private final boolean reuses; // some copies send SETNX's stamp once more by GETSET
    private boolean locked; // whichever key that was
    private long expiresMs;

    DistributeLockUtil(Commands redis, long lifetimeMs) {
        this(redis, lifetimeMs, false);
    }

    DistributeLockUtil(Commands redis, long lifetimeMs, boolean reuses) {
        this.redis = redis;
        this.lifetimeMs = lifetimeMs;
        this.reuses = reuses;
    }

    /** One try. Throws NumberFormatException on nil and on what is no number, NullPointerException when the key vanished
     *  before GETSET: then its stamp stays, and nobody holds. */
    boolean tryLock(String key) {
        long expires = System.currentTimeMillis() + lifetimeMs;
        if (redis.setnx(key, String.valueOf(expires)) == 1)
            return took(expires);
        String stored = redis.get(key);
        if (Long.parseLong(stored) >= System.currentTimeMillis())
            return false;
        if (!reuses)
            expires = System.currentTimeMillis() + lifetimeMs;
        String replaced = redis.getSet(key, String.valueOf(expires));
        return replaced.equals(stored) && took(expires);
    }

    private boolean took(long expires) {
        locked = true;
        expiresMs = expires;
        return true;
    }

    /** Deletes the key, whoever has it by now. */
    void unlock(String key) {
        if (locked) {
            redis.del(key);
            locked = false;
        }
    }

    /** Drop the flag without a request to the server. No original has this: who is late needs it to keep from deleting. */
    void forget() {
        locked = false;
    }

    /** The stamp of the last take. */
    long expiresMs() {
        return expiresMs;
    }
}
