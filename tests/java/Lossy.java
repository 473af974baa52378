import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

import io.tidelock.Eval;

/** Passes requests on, unless it is told to lose one. */
final class Lossy implements Eval {
    final List<String> sent = Collections.synchronizedList(new ArrayList<>());
    Runnable between = () -> { };
    volatile int lastArgs; // how many, of the last release

    private final Eval server;
    private String loses = "";
    private boolean executes; // and loses the reply

    Lossy(Eval server) {
        this.server = server;
    }

    void lose(String script, boolean executed) {
        loses = script;
        executes = executed;
    }

    /** By what stands in this script alone. */
    static String kind(String script) {
        String[][] marks = {{"phase", "HGETALL"}, {"renew", "#KEYS / 2"}, {"join", "ZADD"}, {"release", "'broken'"},
            {"leave", "HDEL"}, {"kind", "'INFO', 'cluster'"}, {"exists", "'EXISTS', KEYS[1]"},
            {"slot", "{redis.call('GET', KEYS[1])"}};
        for (String[] mark : marks)
            if (script.contains(mark[1]))
                return mark[0];
        return "acquire";
    }

    @Override
    public Object eval(String script, List<byte[]> keys, List<byte[]> args) {
        String name = kind(script);
        sent.add(name);
        if (name.equals("release"))
            lastArgs = args.size();
        boolean lost = name.equals(loses) || loses.equals("all");
        if (lost && !executes)
            throw new IllegalStateException("lost on its way");
        Object reply = server.eval(script, keys, args);
        between.run();
        if (lost)
            throw new IllegalStateException("the reply was lost");
        return reply;
    }
}
