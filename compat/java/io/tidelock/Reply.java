package io.tidelock;

import java.nio.charset.StandardCharsets;
import java.util.List;

/** Reads what an Eval returned. Clients give numbers and texts in several types. */
final class Reply {
    private Reply() {
    }

    static TidelockException malformed() {
        return new TidelockException("malformed reply from the server");
    }

    /** A text's bytes as characters; null: it is no text. */
    static String text(Object reply) {
        if (reply instanceof byte[])
            return new String((byte[]) reply, StandardCharsets.ISO_8859_1);
        return reply instanceof String ? (String) reply : null;
    }

    static Object item(Object reply, int i) {
        if (!(reply instanceof List) || ((List<?>) reply).size() <= i)
            throw malformed();
        return ((List<?>) reply).get(i);
    }

    static boolean isNumber(Object reply) {
        return reply instanceof Number || (text(reply) != null && text(reply).matches("-?[0-9]{1,18}"));
    }

    static long number(Object reply) {
        if (!isNumber(reply))
            throw malformed();
        return reply instanceof Number ? ((Number) reply).longValue() : Long.parseLong(text(reply));
    }

    /** The server's time, from its seconds and the rest in microseconds. */
    static long timeUs(Object reply, int i) {
        long us = number(item(reply, i)) * 1000000 + number(item(reply, i + 1));
        if (us <= 0)
            throw malformed();
        return us;
    }
}
