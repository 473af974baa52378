import redis.clients.jedis.Jedis;

/** The same as it is by default: it deletes the key, and extends it, whoever has it. */
final class ShedLockDefault extends ShedLock {
    ShedLockDefault(Jedis server) {
        super(server, false);
    }
}
