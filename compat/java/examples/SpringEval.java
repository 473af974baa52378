import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

import org.springframework.data.redis.core.RedisCallback;
import org.springframework.data.redis.core.StringRedisTemplate;

import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.cluster.api.async.RedisClusterAsyncCommands;
import io.tidelock.Eval;

/**
 * Over Spring's StringRedisTemplate with Lettuce, which is its default; for one server, Sentinels or a Redis Cluster, as its
 * connection factory says. Spring's own eval() wants to know the type of the reply, which differs here: so the script goes
 * to the driver.
 */
public final class SpringEval implements Eval {
    private final StringRedisTemplate redis;
    private final Duration limit;

    public SpringEval(StringRedisTemplate redis, Duration limit) {
        this.redis = redis;
        this.limit = limit;
    }

    @Override
    public Object eval(String script, List<byte[]> keys, List<byte[]> args) {
        byte[][] key = keys.toArray(new byte[0][]), arg = args.toArray(new byte[0][]);
        return redis.execute((RedisCallback<Object>) connection -> {
            @SuppressWarnings("unchecked")
            RedisClusterAsyncCommands<byte[], byte[]> driver =
                (RedisClusterAsyncCommands<byte[], byte[]>) connection.getNativeConnection();
            try {
                return await(driver.evalsha(Eval.sha1(script), ScriptOutputType.MULTI, key, arg));
            } catch (RedisNoScriptException e) {
                return await(driver.eval(script, ScriptOutputType.MULTI, key, arg));
            }
        });
    }

    private Object await(RedisFuture<List<Object>> reply) {
        return LettuceEval.single(LettuceFutures.awaitOrCancel(reply, limit.toMillis(), TimeUnit.MILLISECONDS));
    }
}
