import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** The four commands over a socket, without any library. */
class RespSocket implements DistributeLockUtil.Commands {
    private static final int LIMIT_MS = 20000;

    private final InputStream in;
    private final OutputStream out;

    RespSocket(int port) throws IOException {
        this(port, "127.0.0.1");
    }

    /** From one of this machine's own addresses. */
    RespSocket(int port, String from) throws IOException {
        Socket socket = new Socket();
        socket.bind(new InetSocketAddress(from, 0));
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(LIMIT_MS);
        socket.connect(new InetSocketAddress("127.0.0.1", port), LIMIT_MS);
        in = new BufferedInputStream(socket.getInputStream());
        out = socket.getOutputStream();
    }

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

    private String text(int n) throws IOException {
        if (n < 0)
            return null;
        byte[] bytes = in.readNBytes(n + 2);
        return new String(bytes, 0, n, StandardCharsets.ISO_8859_1);
    }

    private String ask(String... words) {
        StringBuilder command = new StringBuilder("*" + words.length + "\r\n");
        for (String word : words)
            command.append('$').append(word.length()).append("\r\n").append(word).append("\r\n");
        try {
            out.write(command.toString().getBytes(StandardCharsets.ISO_8859_1));
            String head = line();
            switch (head.charAt(0)) {
                case ':':
                    return head.substring(1);
                case '$':
                    return text(Integer.parseInt(head.substring(1)));
                default:
                    throw new IllegalStateException(words[0] + ": " + head);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public long setnx(String key, String value) {
        return Long.parseLong(ask("SETNX", key, value));
    }

    @Override
    public String get(String key) {
        return ask("GET", key);
    }

    @Override
    public String getSet(String key, String value) {
        return ask("GETSET", key, value);
    }

    @Override
    public long del(String key) {
        return Long.parseLong(ask("DEL", key));
    }
}
