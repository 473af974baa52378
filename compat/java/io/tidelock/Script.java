package io.tidelock;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** The scripts: the very texts that the C library sends, which the build puts beside this class. */
enum Script {
    ACQUIRE, JOIN, RENEW, RELEASE, PHASE, LEAVE;

    final String text;

    Script() {
        text = read(name().toLowerCase(java.util.Locale.ROOT) + ".lua");
    }

    private static String read(String name) {
        if (name.equals("leave.lua")) // the only request of this class alone
            return "return redis.call('HDEL', KEYS[1], ARGV[1])\n";
        return resource(name);
    }

    static String resource(String name) {
        try (InputStream in = Script.class.getResourceAsStream(name)) {
            if (in == null)
                throw new IllegalStateException("the jar lacks " + name + ": build it by `make java`");
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            byte[] part = new byte[8192];
            for (int n = in.read(part); n >= 0; n = in.read(part))
                out.write(part, 0, n);
            return new String(out.toByteArray(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new IllegalStateException(name + " in the jar can't be read", e);
        }
    }
}
