import java.util.List;

import io.tidelock.Eval;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.exceptions.JedisNoScriptException;

/** Over Jedis: each request has a connection of the pool, so threads don't meet. */
public final class JedisEval implements Eval {
    private final JedisPool pool;

    public JedisEval(JedisPool pool) {
        this.pool = pool;
    }

    @Override
    public Object eval(String script, List<byte[]> keys, List<byte[]> args) {
        try (Jedis jedis = pool.getResource()) {
            try {
                return jedis.evalsha(Eval.sha1(script).getBytes(), keys, args);
            } catch (JedisNoScriptException e) {
                return jedis.eval(script.getBytes(), keys, args);
            }
        }
    }
}
