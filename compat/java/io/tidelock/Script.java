package io.tidelock;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** The scripts: the very texts that the C library sends, which the build puts beside this class. */
enum Script {
    ACQUIRE("acquire.lua"), JOIN("join.lua"), RENEW("renew.lua"), RELEASE("release.lua"), PHASE("phase.lua"),
    LEAVE, KIND;

    final String text;

    Script(String name) {
        text = resource(name);
    }

    /** What the library does without a script. */
    Script() {
        text = name().equals("LEAVE") ? "return redis.call('HDEL', KEYS[1], ARGV[1])\n"
            : "local info = redis.pcall('INFO', 'cluster')\n"
                + "if type(info) == 'string' then\n    return info\nend\n" // where INFO is denied this may not be
                + "local slot = redis.pcall('CLUSTER', 'KEYSLOT', 'a')\n"
                + "if type(slot) == 'number' then\n    return 'cluster_enabled:1'\nend\n"
                + "return string.find(slot.err, 'support disabled', 1, true) and '' or 'denied: ' .. slot.err\n";
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
