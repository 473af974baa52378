import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.UUID;

import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.SetParams;

/** SET NX PX with a random value, and scripts that compare it, as services write it over Jedis. */
final class TokenLock implements Peer.Lock {
    private static final String IF_OURS = "if redis.call('get', KEYS[1]) == ARGV[1] then return ";
    private static final String RELEASE = IF_OURS + "redis.call('del', KEYS[1]) else return 0 end";
    private static final String EXTEND = IF_OURS + "redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";

    private final Jedis server;
    private List<String> held;
    private String value;

    TokenLock(Jedis server) {
        this.server = server;
    }

    @Override
    public String tryAcquire(String key, long ttlMs) {
        String fresh = UUID.randomUUID().toString();
        if (server.set(key, fresh, SetParams.setParams().nx().px(ttlMs)) == null)
            return null;
        held = Collections.singletonList(key);
        value = fresh;
        return value;
    }

    @Override
    public boolean extend(long ttlMs) {
        return Long.valueOf(1).equals(server.eval(EXTEND, held, Arrays.asList(value, String.valueOf(ttlMs))));
    }

    @Override
    public Boolean release() {
        return Long.valueOf(1).equals(server.eval(RELEASE, held, Collections.singletonList(value)));
    }
}
