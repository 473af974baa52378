package io.tidelock;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** The scripts: the very texts that the C library sends, which the build puts beside this class. */
enum Script {
    ACQUIRE("acquire.lua"), JOIN("join.lua"), RENEW("renew.lua"), RELEASE("release.lua"), PHASE("phase.lua"),
    LEAVE("return redis.call('HDEL', KEYS[1], ARGV[1])\n"), // the rest is what the library does without a script
    EXISTS("return redis.call('EXISTS', KEYS[1])\n"),
    SLOT("local time = redis.call('TIME')\nreturn {redis.call('GET', KEYS[1]) or '', time[1], time[2]}\n"),
    /** '1': a node of a Redis Cluster, '0': none, or why that can't be told: INFO may be denied. */
    KIND("local info = redis.pcall('INFO', 'cluster')\n"
        + "local enabled = type(info) == 'string' and string.match(info, 'cluster_enabled:([01])')\n"
        + "if enabled then\n    return enabled\nend\n"
        + "local slot = redis.pcall('CLUSTER', 'KEYSLOT', 'a')\n"
        + "if type(slot) == 'number' then\n    return '1'\nend\n"
        + "return string.find(slot.err, 'support disabled', 1, true) and '0' or slot.err\n");

    final String text;

    /** `script`: the text, or the name of its file. */
    Script(String script) {
        text = script.endsWith(".lua") ? resource(script) : script;
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
