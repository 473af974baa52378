import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.SetParams;

/** SET NX EX with one word for all, and a DEL that compares nothing: no holder can tell whose lock it deletes. */
final class BareLock implements Peer.Lock {
    private final Jedis server;
    private String held;

    BareLock(Jedis server) {
        this.server = server;
    }

    @Override
    public String tryAcquire(String key, long ttlMs) {
        if (server.set(key, "1", SetParams.setParams().nx().ex((ttlMs + 999) / 1000)) == null)
            return null;
        held = key;
        return "1";
    }

    @Override
    public boolean extend(long ttlMs) {
        return server.pexpire(held, ttlMs) == 1;
    }

    @Override
    public Boolean release() {
        server.del(held);
        return null;
    }
}
