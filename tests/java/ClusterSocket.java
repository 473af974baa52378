import java.util.HashMap;
import java.util.List;
import java.util.Map;

import io.tidelock.Eval;

/** EVAL at a cluster, by the node that its redirections name. Each script of these tests has keys of one slot. */
final class ClusterSocket implements Eval {
    private static final int HOPS = 5;

    private final Map<Integer, RespSocket> nodes = new HashMap<>();
    private final int first;

    ClusterSocket(int first) {
        this.first = first;
    }

    RespSocket node(int port) {
        return nodes.computeIfAbsent(port, RespSocket::new);
    }

    @Override
    public synchronized Object eval(String script, List<byte[]> keys, List<byte[]> args) {
        int port = first;
        for (int hop = 0; hop < HOPS; hop++) {
            try {
                return node(port).eval(script, keys, args);
            } catch (IllegalStateException e) {
                String error = e.getMessage();
                if (!error.startsWith("MOVED ") && !error.startsWith("ASK "))
                    throw e;
                port = Integer.parseInt(error.substring(error.lastIndexOf(':') + 1));
                if (error.startsWith("ASK "))
                    node(port).ask(RespSocket.words("ASKING"));
            }
        }
        throw new IllegalStateException("too many redirections");
    }
}
