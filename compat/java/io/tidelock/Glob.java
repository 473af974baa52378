package io.tidelock;

/** A pattern of names, with the meaning that SCAN gives it. As src/ground/glob.c. */
final class Glob {
    final byte[] pattern;

    private int end; // of the class that was read last
    private boolean fits;

    Glob(String text) {
        pattern = Rules.bytes(text);
        for (int p = 0; p < pattern.length; p++) {
            if (pattern[p] == '[')
                p = readClass(p + 1, (byte) 0);
            else if (pattern[p] == '\\')
                p++;
            if (p >= pattern.length)
                throw new IllegalArgumentException("keys: the pattern '" + text + "' ends within '[' or behind '\\'");
        }
    }

    /** Returns the index of the ']', or the end. */
    private int readClass(int from, byte c) {
        int p = from;
        boolean other = p < pattern.length && pattern[p] == '^', found = false;
        for (p += other ? 1 : 0; p < pattern.length && pattern[p] != ']'; p++) {
            if (pattern[p] == '\\' && p + 1 < pattern.length) {
                found |= pattern[++p] == c;
            } else if (p + 2 < pattern.length && pattern[p + 1] == '-') {
                checkAscii(pattern[p], pattern[p + 2]);
                found |= Math.min(pattern[p], pattern[p + 2]) <= c && c <= Math.max(pattern[p], pattern[p + 2]);
                p += 2;
            } else {
                found |= pattern[p] == c;
            }
        }
        fits = found != other;
        return p;
    }

    private static void checkAscii(byte from, byte to) {
        if (from < 0 || to < 0)
            throw new IllegalArgumentException("keys: a range of bytes beyond ASCII");
    }

    private void readOne(int p, byte c) {
        end = p + 1;
        if (pattern[p] == '[') {
            end = readClass(p + 1, c) + 1;
        } else if (pattern[p] == '\\') {
            fits = pattern[p + 1] == c;
            end = p + 2;
        } else {
            fits = pattern[p] == '?' || pattern[p] == c;
        }
    }

    /** Does the whole name match? Only the last '*' is ever tried again. */
    synchronized boolean matches(byte[] name) {
        int p = 0, t = 0, star = -1, from = 0;
        while (t < name.length) {
            if (p < pattern.length && pattern[p] == '*') {
                star = ++p;
                from = t;
                continue;
            }
            fits = false;
            if (p < pattern.length)
                readOne(p, name[t]);
            if (fits) {
                p = end;
                t++;
            } else if (star >= 0) {
                p = star;
                t = ++from;
            } else {
                return false;
            }
        }
        while (p < pattern.length && pattern[p] == '*')
            p++;
        return p == pattern.length;
    }
}
