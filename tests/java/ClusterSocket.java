import java.io.UncheckedIOException;
import java.util.List;

import io.tidelock.Eval;

/** EVAL at a cluster. A RespSocket follows redirections for a short time only; here a slow machine may take longer. */
final class ClusterSocket implements Eval {
    private final RespSocket socket;

    ClusterSocket(int port) {
        socket = new RespSocket(port);
    }

    @Override
    public Object eval(String script, List<byte[]> keys, List<byte[]> args) {
        for (;;) {
            try {
                return socket.eval(script, keys, args);
            } catch (UncheckedIOException e) {
                String error = e.getCause().getMessage();
                if (!error.startsWith("MOVED ") && !error.startsWith("ASK ")) // then nothing was executed
                    throw e;
            }
        }
    }
}
