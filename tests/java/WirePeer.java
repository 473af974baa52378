import java.io.BufferedReader;
import java.io.InputStreamReader;

import io.tidelock.Options;
import io.tidelock.TidelockLockUtil;

/** The class's side of test_compat_java_wire.sh. As wire_peer.c. Usage: WirePeer PORT NAMESPACE */
final class WirePeer {
    private WirePeer() {
    }

    private static Options options(String namespace) {
        return new Options().namespace(namespace).clockSkewMaxMs(100).legacyTtlMinMs(1000).leaseMs(2000).attemptMs(1000)
            .service("peer");
    }

    public static void main(String[] args) throws Exception {
        RespSocket redis = new RespSocket(Integer.parseInt(args[0]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try (TidelockLockUtil locks = new TidelockLockUtil(redis, options(args[1]));
                TidelockLockUtil keeps = new TidelockLockUtil(redis, options(args[1]).renew(true))) {
            TidelockLockUtil last = locks;
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] word = line.split(" ");
                if (!word[0].equals("release"))
                    last = word[0].equals("keep") ? keeps : locks;
                boolean yes = word[0].equals("release") ? last.release(word[1]) : last.lock(word[1]);
                System.out.println(yes ? "yes" : "no");
            }
        }
    }
}
