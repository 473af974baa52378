package io.tidelock;

import java.util.ArrayList;
import java.util.List;

/** A script with its keys and arguments. */
final class Request {
    final Script script;
    final List<byte[]> keys;
    final List<byte[]> args = new ArrayList<>();

    Request(Script script, List<byte[]> keys) {
        this.script = script;
        this.keys = keys;
    }

    Request add(byte[] arg) {
        args.add(arg);
        return this;
    }

    Request add(String arg) {
        return add(Rules.bytes(arg));
    }

    Request add(long arg) {
        return add(Rules.bytes(arg));
    }
}
