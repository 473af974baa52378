import java.util.List;

import io.tidelock.Eval;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.exceptions.JedisNoScriptException;

/** Over Jedis, for a Redis Cluster: each script goes to the master of its keys' slot. */
public final class JedisClusterEval implements Eval {
    private final JedisCluster jedis;

    public JedisClusterEval(JedisCluster jedis) {
        this.jedis = jedis;
    }

    @Override
    public Object eval(String script, List<byte[]> keys, List<byte[]> args) {
        try {
            return jedis.evalsha(Eval.sha1(script).getBytes(), keys, args);
        } catch (JedisNoScriptException e) {
            return jedis.eval(script.getBytes(), keys, args);
        }
    }
}
