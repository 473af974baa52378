package io.tidelock;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/** The names of the keys of one lock. As src/wire/keys.c. */
final class Keys {
    private static final int MOST = 16384;
    private static final int SLOTS = 16384;
    private static final String LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    final byte[] key;
    final byte[] sidecar;
    final byte[] counter;
    final byte[] line;
    final int slot; // of a cluster

    Keys(String name) {
        key = Rules.bytes(name);
        if (key.length == 0 || key.length > MOST)
            throw new IllegalArgumentException("a key has 1 to " + MOST + " bytes, not " + key.length);
        boolean after = find(key, 0, '}') >= 0;
        sidecar = after ? join(key, ":tidelock") : join(Rules.bytes("tidelock:{"), name + "}");
        slot = slot(key);
        counter = Rules.bytes("tidelock:fence:{" + tag(slot) + "}");
        line = join(sidecar, ":line");
    }

    List<byte[]> two() {
        return Arrays.asList(key, sidecar);
    }

    List<byte[]> all() {
        return Arrays.asList(key, sidecar, counter, line);
    }

    /** With the register of the slot. */
    List<byte[]> all(Rules rules) {
        return Arrays.asList(key, sidecar, counter, line, register(rules));
    }

    byte[] register(Rules rules) {
        return Rules.bytes("tidelock:phase:slot:{" + tag(slot) + "}:" + rules.namespace);
    }

    /** Are all of these keys in one slot? Not where the name has a '}', but no tag. */
    boolean areInOneSlot() {
        return isTagged(key) || find(key, 0, '}') < 0;
    }

    private static byte[] join(byte[] head, String tail) {
        byte[] more = Rules.bytes(tail);
        byte[] both = Arrays.copyOf(head, head.length + more.length);
        System.arraycopy(more, 0, both, head.length, more.length);
        return both;
    }

    private static int find(byte[] text, int from, char c) {
        int i = from;
        while (i < text.length && text[i] != c)
            i++;
        return i < text.length ? i : -1;
    }

    private static int crc16(byte[] text, int from, int to) {
        int crc = 0;
        for (int i = from; i < to; i++) {
            crc ^= (text[i] & 255) << 8;
            for (int bit = 0; bit < 8; bit++)
                crc = ((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
        }
        return crc;
    }

    private static boolean isTagged(byte[] key) {
        int open = find(key, 0, '{');
        return open >= 0 && find(key, open + 1, '}') > open + 1;
    }

    static int slot(byte[] key) {
        boolean tagged = isTagged(key);
        int open = tagged ? find(key, 0, '{') : -1;
        return crc16(key, open + 1, tagged ? find(key, open, '}') : key.length) % SLOTS;
    }

    /** The shortest text of letters and digits that has this slot, and of these the first. */
    static String tag(int slot) {
        return Tags.OF_SLOT[slot];
    }

    /** Of all slots: it takes some 10 ms to find them, once. */
    private static final class Tags {
        static final String[] OF_SLOT = new String[SLOTS];

        static {
            for (int length = 1; length <= 3; length++)
                note("", length);
        }

        private static void note(String head, int more) {
            int slot = more > 0 ? 0 : slot(head.getBytes(StandardCharsets.US_ASCII));
            if (more == 0 && OF_SLOT[slot] == null)
                OF_SLOT[slot] = head;
            for (int i = 0; more > 0 && i < LETTERS.length(); i++)
                note(head + LETTERS.charAt(i), more - 1);
        }
    }
}
