import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

import redis.clients.jedis.Jedis;

/** The same, whose waiters await a message of the registry's own release, on its channel, instead of polling. */
final class SpringPubSub extends SpringSpin {
    SpringPubSub(Jedis server) {
        super(server, RedisLockType.PUB_SUB_LOCK);
    }
}
