package io.tidelock;

import java.util.List;

/**
 * Runs one Lua script on the server, by EVAL, over whatever client a service has. It must be thread safe: a daemon thread
 * sends requests, too. It needs a time-out of its own, not longer than the option attemptMs. It should send each request
 * once: README.md says what a repeated one may leave.
 */
@FunctionalInterface
public interface Eval {
    /**
     * @return the reply: a Long (or another Number), a byte[] or a String, a List of replies, or null
     * @throws RuntimeException the server refused, or gave no reply
     */
    Object eval(String script, List<byte[]> keys, List<byte[]> args);

    /** The script's SHA1, for EVALSHA: a script is up to 15 KB. Where the server doesn't know it (NOSCRIPT), use EVAL. */
    static String sha1(String script) {
        return Sha1.of(script);
    }
}
