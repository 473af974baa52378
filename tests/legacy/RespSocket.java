import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import io.tidelock.Eval;

/**
 * The legacy lock's four commands and EVAL over a socket, without any library. A connection that fails, or whose
 * server is no master, is made anew by the next request. A request that a cluster's node redirects is sent there.
 */
class RespSocket implements DistributeLockUtil.Commands, Eval {
    private static final int LIMIT_MS = 20000;
    private static final int HOPS = 5;
    private static final long REDIRECT_NS = 50000000; // L covers all redirections

    /** Where to connect to, which Sentinels may change. */
    interface Place {
        int port() throws IOException;
    }

    private final Place place;
    private final String from;
    private final int limitMs;
    private Socket socket;
    private InputStream in;
    private OutputStream out;
    private long redirectNs = REDIRECT_NS;
    private int moved; // the port that a node has named last; 0: `place` knows

    /** "MOVED 866 127.0.0.1:7001": nothing was executed, another node is to be asked. */
    private static final class Redirected extends IOException {
        private static final long serialVersionUID = 1;
        final boolean asks;
        final int port;

        Redirected(String error) {
            super(error);
            asks = error.startsWith("ASK ");
            port = Integer.parseInt(error.substring(error.lastIndexOf(':') + 1));
        }
    }

    RespSocket(int port) {
        this(port, "127.0.0.1");
    }

    /** From one of this machine's own addresses. */
    RespSocket(int port, String from) {
        this(() -> port, from, LIMIT_MS);
    }

    /** Connects when it is first used. */
    RespSocket(Place place, String from, int limitMs) {
        this.place = place;
        this.from = from;
        this.limitMs = limitMs;
    }

    /** The master's port, as one of the Sentinels says. */
    static int askSentinels(int[] ports, String name, int limitMs) throws IOException {
        for (int port : ports) {
            try {
                RespSocket sentinel = new RespSocket(() -> port, "127.0.0.1", limitMs);
                Object master = sentinel.ask(words("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name));
                sentinel.drop();
                if (master instanceof List)
                    return Integer.parseInt(text(((List<?>) master).get(1)));
            } catch (UncheckedIOException | IllegalStateException e) {
                // the next one
            }
        }
        throw new IOException("no Sentinel knows a master");
    }

    private void connect() throws IOException {
        connect(moved == 0 ? place.port() : moved);
    }

    private void connect(int port) throws IOException {
        socket = new Socket();
        socket.bind(new InetSocketAddress(from, 0));
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(limitMs);
        socket.connect(new InetSocketAddress("127.0.0.1", port), limitMs);
        in = new BufferedInputStream(socket.getInputStream());
        out = socket.getOutputStream();
    }

    private void drop() {
        try {
            if (socket != null)
                socket.close();
        } catch (IOException e) {
            // it is no longer used anyway
        }
    }

    // ---- the protocol ----

    private String line() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int c = in.read(); c != '\r'; c = in.read()) {
            if (c < 0)
                throw new IOException("the server has closed the connection");
            bytes.write(c);
        }
        in.read();
        return bytes.toString(StandardCharsets.ISO_8859_1);
    }

    private byte[] bytes(int n) throws IOException {
        byte[] bytes = in.readNBytes(n);
        in.readNBytes(2);
        return bytes;
    }

    private List<Object> list(int n) throws IOException {
        List<Object> list = new ArrayList<>();
        for (int i = 0; i < n; i++)
            list.add(reply());
        return list;
    }

    private Object reply() throws IOException {
        String head = line();
        String rest = head.substring(1);
        switch (head.charAt(0)) {
            case ':':
                return Long.valueOf(rest);
            case '$':
                return rest.equals("-1") ? null : bytes(Integer.parseInt(rest));
            case '*':
                return rest.equals("-1") ? null : list(Integer.parseInt(rest));
            case '+':
                return rest;
            default:
                if (rest.startsWith("MOVED ") || rest.startsWith("ASK "))
                    throw new Redirected(rest);
                if (rest.startsWith("READONLY") || rest.startsWith("LOADING") || rest.startsWith("CLUSTERDOWN"))
                    throw new IOException(rest);
                throw new IllegalStateException(rest);
        }
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    private static String text(Object reply) {
        return reply == null ? null : new String((byte[]) reply, StandardCharsets.ISO_8859_1);
    }

    static List<byte[]> words(String... words) {
        List<byte[]> list = new ArrayList<>();
        for (String word : words)
            list.add(ascii(word));
        return list;
    }

    private void send(List<byte[]> words) throws IOException {
        ByteArrayOutputStream command = new ByteArrayOutputStream();
        command.write(ascii("*" + words.size() + "\r\n"));
        for (byte[] word : words) {
            command.write(ascii("$" + word.length + "\r\n"));
            command.write(word);
            command.write(ascii("\r\n"));
        }
        out.write(command.toByteArray());
    }

    private Object replyTo(List<byte[]> words) throws IOException {
        if (socket == null || socket.isClosed())
            connect();
        send(words);
        return reply();
    }

    /** The slot is being moved: the other node executes one request, and the next one asks the owner again. */
    private Object replyOf(int port, List<byte[]> words) throws IOException {
        drop();
        connect(port);
        send(words("ASKING"));
        reply();
        send(words);
        Object reply = reply();
        drop();
        return reply;
    }

    /** As a library's client for a cluster does: of scripts that reject a late request nothing is assumed. */
    RespSocket following(int forMs) {
        redirectNs = forMs * 1000000L;
        return this;
    }

    private Object follow(List<byte[]> words) throws IOException {
        long beganNs = System.nanoTime();
        Redirected to = null;
        for (int hop = 0;; hop++) {
            try {
                return to != null && to.asks ? replyOf(to.port, words) : replyTo(words);
            } catch (Redirected e) {
                if (hop == HOPS || System.nanoTime() - beganNs > redirectNs)
                    throw e;
                to = e;
                drop();
                moved = e.asks ? moved : e.port;
            }
        }
    }

    synchronized Object ask(List<byte[]> words) {
        try {
            return follow(words);
        } catch (IOException e) {
            moved = 0;
            drop();
            throw new UncheckedIOException(e);
        }
    }

    // ---- the commands ----

    @Override
    public long setnx(String key, String value) {
        return (Long) ask(words("SETNX", key, value));
    }

    @Override
    public String get(String key) {
        return text(ask(words("GET", key)));
    }

    @Override
    public String getSet(String key, String value) {
        return text(ask(words("GETSET", key, value)));
    }

    @Override
    public long del(String key) {
        return (Long) ask(words("DEL", key));
    }

    @Override
    public Object eval(String script, List<byte[]> keys, List<byte[]> args) {
        List<byte[]> words = words("EVAL");
        words.add(script.getBytes(StandardCharsets.UTF_8));
        words.add(ascii(String.valueOf(keys.size())));
        words.addAll(keys);
        words.addAll(args);
        return ask(words);
    }
}
