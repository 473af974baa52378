package io.tidelock;

import java.util.List;

/**
 * Runs one Lua script on the server, by EVAL, over whatever client a service has. It must be thread safe if several
 * threads lock, or if locks are renewed. It needs a time-out of its own, not longer than the option attemptMs.
 */
@FunctionalInterface
public interface Eval {
    /**
     * @return the reply: a Long (or another Number), a byte[] or a String, a List of replies, or null
     * @throws RuntimeException the server refused, or gave no reply
     */
    Object eval(String script, List<byte[]> keys, List<byte[]> args);
}
