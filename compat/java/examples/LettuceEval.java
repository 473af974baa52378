import java.util.List;

import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.cluster.api.sync.RedisClusterCommands;
import io.tidelock.Eval;

/**
 * Over Lettuce: redisClient.connect(ByteArrayCodec.INSTANCE).sync(), which threads can share. For a Redis Cluster take a
 * RedisClusterClient. Lettuce repeats a request after it has connected again. Where that matters, set
 * ClientOptions.autoReconnect(false) and take connections of a pool.
 */
public final class LettuceEval implements Eval {
    private final RedisClusterCommands<byte[], byte[]> redis;

    public LettuceEval(RedisClusterCommands<byte[], byte[]> redis) {
        this.redis = redis;
    }

    @Override
    public Object eval(String script, List<byte[]> keys, List<byte[]> args) {
        byte[][] key = keys.toArray(new byte[0][]), arg = args.toArray(new byte[0][]);
        try {
            return single(redis.evalsha(Eval.sha1(script), ScriptOutputType.MULTI, key, arg));
        } catch (RedisNoScriptException e) {
            return single(redis.eval(script, ScriptOutputType.MULTI, key, arg));
        }
    }

    /** By MULTI a reply that is no list comes as a list of one. No script replies with such a list. */
    static Object single(List<Object> reply) {
        return reply.size() == 1 ? reply.get(0) : reply;
    }
}
