package io.tidelock;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The names by which a server knows scripts. */
final class Sha1 {
    private static final Map<String, String> KNOWN = new ConcurrentHashMap<>(); // some six scripts

    private Sha1() {
    }

    static String of(String script) {
        return KNOWN.computeIfAbsent(script, Sha1::digest);
    }

    private static String digest(String script) {
        try {
            StringBuilder text = new StringBuilder();
            for (byte each : MessageDigest.getInstance("SHA-1").digest(Rules.bytes(script)))
                text.append(String.format("%02x", each));
            return text.toString();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("each Java has SHA-1", e);
        }
    }
}
