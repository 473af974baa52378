import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;

/** Connections as a Spring service makes them. */
final class Spring {
    private Spring() {}

    static JedisConnectionFactory factory() {
        JedisConnectionFactory factory =
            new JedisConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", Peer.port));
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }
}
