import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;

import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.ByteArrayCodec;
import io.tidelock.Eval;
import io.tidelock.Options;
import io.tidelock.TidelockLockUtil;
import redis.clients.jedis.JedisPool;

/** The peer program for compat/java, over each of its examples: FollowPeer EXAMPLE PORT. */
public final class FollowPeer {
    private static final int LIMIT_S = 20;
    private static final int TURN_MS = 60000;

    private final Eval redis;
    private TidelockLockUtil locks;
    private long lifetimeMs;
    private String held;

    private FollowPeer(Eval redis) {
        this.redis = redis;
    }

    private static Eval example(String name, int port) {
        if (name.equals("JedisEval"))
            return new JedisEval(new JedisPool("127.0.0.1", port));
        if (name.equals("LettuceEval"))
            return new LettuceEval(RedisClient.create("redis://127.0.0.1:" + port).connect(ByteArrayCodec.INSTANCE).sync());
        LettuceConnectionFactory factory = new LettuceConnectionFactory("127.0.0.1", port);
        factory.afterPropertiesSet();
        return new SpringEval(new StringRedisTemplate(factory), Duration.ofSeconds(LIMIT_S));
    }

    private String call(String... words) {
        List<byte[]> args = new ArrayList<>();
        for (String word : words)
            args.add(word.getBytes(StandardCharsets.UTF_8));
        Object reply = redis.eval("return redis.call(unpack(ARGV))", Collections.<byte[]>emptyList(), args);
        return reply instanceof byte[] ? new String((byte[]) reply, StandardCharsets.UTF_8) : String.valueOf(reply);
    }

    private boolean acquire(String key, long ttlMs, long waitMs) throws InterruptedException {
        if (ttlMs != lifetimeMs)
            locks = new TidelockLockUtil(redis, new Options().namespace("interop").keys("mutex:*").clockSkewMaxMs(100)
                .legacyTtlMinMs(ttlMs).service("follow"));
        lifetimeMs = ttlMs;
        held = key;
        return locks.tryLock(key, waitMs);
    }

    private void section() {
        if (!call("INCR", "interop:inside").equals("1"))
            call("INCR", "interop:overlaps");
        String n = call("GET", "interop:counter");
        call("SET", "interop:counter", n.equals("null") ? "1" : String.valueOf(Integer.parseInt(n) + 1));
        call("DECR", "interop:inside");
    }

    private void count(String key, long ttlMs, int rounds) throws InterruptedException {
        for (int i = 0; i < rounds; i++) {
            if (!acquire(key, ttlMs, TURN_MS))
                throw new IllegalStateException("no turn within a minute");
            section();
            if (!locks.release(key))
                throw new IllegalStateException("the lock was lost: " + locks.lastLoss());
        }
    }

    private String answer(String[] word) throws InterruptedException {
        switch (word[0]) {
            case "acquire":
                boolean took = acquire(word[1], Long.parseLong(word[2]), Long.parseLong(word[3]));
                return took ? "ok " + call("GET", word[1]) : "busy";
            case "release":
                return locks.release(held) ? "ok" : "lost";
            case "count":
                count(word[1], Long.parseLong(word[2]), Integer.parseInt(word[3]));
                return "ok " + word[3];
            default:
                throw new IllegalArgumentException("unknown command");
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try {
            FollowPeer peer = new FollowPeer(example(args[0], Integer.parseInt(args[1])));
            peer.call("PING");
            System.out.println("ready");
            for (String line = in.readLine(); line != null; line = in.readLine())
                System.out.println(peer.answer(line.split(" ")));
        } catch (RuntimeException e) {
            System.out.println("error " + e.getMessage());
            System.exit(1);
        }
        System.exit(0);
    }
}
