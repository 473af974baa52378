import java.util.UUID;

import redis.clients.jedis.Jedis;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.params.SetParams;

/**
 * What StackExchange.Redis sends for LockTake, LockExtend and LockRelease, written out by its source: SET NX PX, and
 * transactions on the condition that the key still has the value. They don't wait.
 */
final class ConditionLock implements Peer.Lock {
    private interface Change {
        void queue(Transaction transaction);
    }

    private final Jedis server;
    private String held;
    private String value;

    ConditionLock(Jedis server) {
        this.server = server;
    }

    private boolean ifOurs(Change change) {
        server.watch(held);
        if (!value.equals(server.get(held))) {
            server.unwatch();
            return false;
        }
        Transaction transaction = server.multi();
        change.queue(transaction);
        return transaction.exec() != null;
    }

    @Override
    public String tryAcquire(String key, long ttlMs) {
        String fresh = UUID.randomUUID().toString();
        if (server.set(key, fresh, SetParams.setParams().nx().px(ttlMs)) == null)
            return null;
        held = key;
        value = fresh;
        return value;
    }

    @Override
    public boolean extend(long ttlMs) {
        return ifOurs(transaction -> transaction.pexpire(held, ttlMs));
    }

    @Override
    public Boolean release() {
        return ifOurs(transaction -> transaction.del(held));
    }
}
