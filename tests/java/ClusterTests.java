import static io.tidelock.Checks.await;
import static io.tidelock.Checks.check;
import static io.tidelock.Checks.equal;
import static io.tidelock.Checks.thrown;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;

import io.tidelock.Checks;
import io.tidelock.Eval;
import io.tidelock.Options;
import io.tidelock.TidelockLockUtil;

/** The class in a cluster of two nodes, of which the first one has all slots but the last. Usage: ClusterTests PORT PORT */
public final class ClusterTests {
    private static final int LIFETIME_MS = 60000;
    private static final int SHORT_MS = 3000; // where a lock is renewed
    private static final int LEFT_MS = 10000; // where one may be left to expire
    private static final long LIMIT_MS = 60000;

    private final int[] ports;
    private final RespSocket[] nodes;
    private final Eval redis;
    private int keys;
    private long epoch = 1700000000000000L;

    private ClusterTests(int... ports) {
        this.ports = ports;
        nodes = Arrays.stream(ports).mapToObj(RespSocket::new).toArray(RespSocket[]::new);
        redis = new ClusterSocket(ports[0]);
    }

    // ---- what the tests use ----

    private static Options options() {
        return new Options().namespace("fleet").clockSkewMaxMs(100).legacyDelayMaxMs(50).legacyTtlMinMs(LIFETIME_MS).service("test");
    }

    private TidelockLockUtil open() {
        return open(redis);
    }

    private static TidelockLockUtil open(Eval eval) {
        return new TidelockLockUtil(eval, options());
    }

    private TidelockLockUtil openShort(boolean renews) {
        return new TidelockLockUtil(redis, options().legacyTtlMinMs(SHORT_MS).renew(renews));
    }

    private String fresh() {
        return "k" + ++keys;
    }

    private Object call(String key, String... words) {
        List<byte[]> args = new ArrayList<>();
        for (String word : words)
            args.add(word.getBytes(StandardCharsets.UTF_8));
        return redis.eval("return redis.call(unpack(ARGV))", Arrays.asList(key.getBytes(StandardCharsets.UTF_8)), args);
    }

    private String get(String key) {
        Object value = call(key, "GET", key);
        return value == null ? null : new String((byte[]) value, StandardCharsets.UTF_8);
    }

    private static String register(String key) {
        return Checks.register(options(), key);
    }

    private void phase(String key, int phase) {
        call(register(key), "SET", register(key), phase + " " + ++epoch);
    }

    private String kind(String key) {
        String value = get(key);
        return value == null ? "nothing" : value.matches("[0-9]{13}") ? "stamp" : value.length() == 36 ? "token" : value;
    }

    private Object at(int node, String... words) {
        return nodes[node].ask(RespSocket.words(words));
    }

    private String slot(String key) {
        return String.valueOf(at(0, "CLUSTER", "KEYSLOT", key));
    }

    private String id(int node) {
        return new String((byte[]) at(node, "CLUSTER", "MYID"), StandardCharsets.ISO_8859_1);
    }

    private void openSlot(String slot, int from, int to) {
        at(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from));
        at(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to));
    }

    private void moveKey(int from, int to, String key) {
        at(from, "MIGRATE", "127.0.0.1", String.valueOf(ports[to]), key, "0", "5000");
    }

    private void closeSlot(String slot, int from, int to) {
        for (Object key : (List<?>) at(from, "CLUSTER", "GETKEYSINSLOT", slot, "100"))
            moveKey(from, to, new String((byte[]) key, StandardCharsets.ISO_8859_1));
        at(to, "CLUSTER", "SETSLOT", slot, "NODE", id(to));
        at(from, "CLUSTER", "SETSLOT", slot, "NODE", id(to));
    }

    // ---- the phase of a slot ----

    public void a_lock_is_what_the_register_of_its_slot_says() {
        String[] kinds = {"stamp", "stamp", "token", "token"};
        try (TidelockLockUtil one = open(); TidelockLockUtil other = open()) {
            equal(-1, one.phase());
            for (int phase = -1; phase < 4; phase++) {
                String key = fresh();
                if (phase >= 0)
                    phase(key, phase);
                check(one.lock(key), "it is free");
                equal(phase, one.phase());
                equal(phase < 0 ? "stamp" : kinds[phase], kind(key));
                check(!other.lock(key), "it is held");
                check(one.remainingMs(key) > 0 && one.fence(key) > 0, "it is held");
                check(one.release(key), "all the time");
                equal("nothing", kind(key));
                check(other.lock(key) && other.release(key), "it is free again");
            }
        }
    }

    public void one_try_follows_a_register_that_has_changed() {
        String key = fresh();
        Lossy counts = new Lossy(redis);
        try (TidelockLockUtil one = open(counts)) {
            for (int phase : new int[] {0, 1, 2, 3, 2, 1, 0}) {
                phase(key, phase);
                counts.sent.clear();
                check(one.lock(key), "it is free");
                equal(phase < 2 ? "stamp" : "token", kind(key));
                equal(phase, one.phase());
                check(one.release(key), "held");
                boolean first = counts.sent.contains("kind");
                equal(first ? "[kind, exists, slot, acquire, release]" : "[acquire, acquire, release]", counts.sent.toString());
            }
            call(register(key), "DEL", register(key));
            check(one.lock(key), "by the bridge");
            equal("stamp", kind(key));
            check(one.release(key), "held");
        }
    }

    public void an_older_register_than_another_slots_writes_stamps() {
        String older = fresh(), later = fresh();
        phase(older, 2);
        phase(later, 1);
        try (TidelockLockUtil one = open()) {
            check(one.lock(older), "it is free");
            equal("token", kind(older));
            check(one.release(older) && one.lock(later) && one.release(later), "held");
            check(one.lock(older), "it is free");
            equal("stamp", kind(older));
            check(one.release(older), "held");
            phase(older, 2);
            check(one.lock(older), "it is free");
            equal("token", kind(older));
            check(one.release(older), "held");
            phase(later, 1);
            check(one.lock(later) && one.release(later), "held");
            call(register(older), "SET", register(older), "3 1600000000000000"); // it came back meanwhile
            check(one.lock(older), "it is free");
            equal("stamp", kind(older));
            check(one.release(older), "held");
        }
    }

    public void a_request_of_an_earlier_phase_acquires_nothing_however_late() {
        String key = fresh();
        AtomicReference<Runnable> late = new AtomicReference<>();
        Eval delays = (script, keys, args) -> {
            if (!Lossy.kind(script).equals("acquire") || late.get() != null)
                return redis.eval(script, keys, args);
            late.set(() -> redis.eval(script, keys, args));
            throw new IllegalStateException("timed out");
        };
        phase(key, 2);
        TidelockLockUtil one = open(delays);
        thrown(() -> one.lock(key));
        phase(key, 1);
        call("tidelock:{" + key + "}", "DEL", "tidelock:{" + key + "}"); // what says that it was undone
        late.get().run();
        equal("nothing", kind(key));
    }

    public void a_register_that_changes_with_each_try_is_no_lock() {
        String key = fresh();
        Lossy changes = new Lossy(redis);
        changes.between = () -> phase(key, 1);
        TidelockLockUtil one = open(changes);
        check(thrown(() -> one.lock(key)).contains("again and again"), "it says so");
        equal("nothing", kind(key));
        equal(4, Collections.frequency(changes.sent, "acquire"));
    }

    public void an_odd_register_is_refused() {
        TidelockLockUtil one = open();
        String key = fresh();
        check(one.lock(key) && one.release(key), "there is none");
        for (String odd : new String[] {"4 1", "1", "2  5", "x"}) {
            call(register(key), "SET", register(key), odd);
            check(thrown(() -> one.lock(key)).contains("can't be read"), odd);
        }
        call(register(key), "DEL", register(key));
        call(register(key), "HSET", register(key), "phase", "1");
        check(thrown(() -> one.lock(key)).startsWith("TidelockException"), "a hash");
        equal("nothing", kind(key));
    }

    public void a_stamp_stays_one_when_it_is_renewed() throws InterruptedException {
        String key = fresh();
        phase(key, 1);
        try (TidelockLockUtil one = openShort(true)) {
            check(one.lock(key), "it is free");
            phase(key, 2);
            String first = get(key);
            await("a renewal", LIMIT_MS, () -> !first.equals(get(key)));
            equal("stamp", kind(key));
            check(one.remainingMs(key) > 0, "it is held");
            check(one.release(key), "all the time");
        }
    }

    public void a_stamp_that_was_left_behind_expires_soon_after_it_is_free() {
        String key = fresh();
        try (TidelockLockUtil one = open()) {
            check(one.lock(key), "it is free");
            long leftMs = (Long) call(key, "PTTL", key);
            check(leftMs > LIFETIME_MS && leftMs <= LIFETIME_MS + 2150, "after M, L and 2 s, not " + leftMs);
        }
    }

    public void no_lease_is_read_and_no_client_is_registered() throws InterruptedException {
        Lossy counts = new Lossy(redis);
        String key = fresh();
        try (TidelockLockUtil one = new TidelockLockUtil(counts, options().legacyTtlMinMs(SHORT_MS).renew(true))) {
            check(one.lock(key), "it is free");
            await("two renewals", LIMIT_MS, () -> Collections.frequency(counts.sent, "renew") > 1);
            check(one.release(key), "held");
        }
        check(!counts.sent.contains("phase") && !counts.sent.contains("leave"), counts.sent.toString());
    }

    private static boolean runs(String thread) {
        return Thread.getAllStackTraces().keySet().stream().anyMatch(each -> each.getName().equals(thread));
    }

    private void lockAndForget(String namespace) {
        TidelockLockUtil forgotten = new TidelockLockUtil(redis, options().namespace(namespace).leaseMs(300));
        String key = fresh();
        check(forgotten.lock(key) && forgotten.release(key), "it is free");
    }

    public void the_thread_of_a_forgotten_instance_ends() throws InterruptedException {
        lockAndForget("forgotten");
        check(runs("tidelock-forgotten"), "it waits for holds to renew");
        await("its end", LIMIT_MS, () -> {
            System.gc();
            return !runs("tidelock-forgotten");
        });
    }

    public void the_register_of_one_server_is_refused() {
        String register = "tidelock:phase:{fleet}";
        call(register, "HSET", register, "phase", "1", "epoch", "1", "lease_ms", "2000");
        String why = thrown(() -> open().lock(fresh()));
        call(register, "DEL", register);
        check(why.contains("redis+cluster:"), why);
    }

    public void a_name_whose_other_keys_are_elsewhere_is_refused() {
        check(thrown(() -> open().lock("a}b")).startsWith("IllegalArgumentException"), "a '}' and no tag");
        try (TidelockLockUtil one = open()) {
            for (String key : new String[] {"{tag}a}b", "a{b", "sch\u00fcssel"})
                check(one.lock(key) && one.release(key), key);
        }
    }

    public void an_eval_for_one_server_is_named() {
        Eval deaf = (script, keys, args) -> {
            throw new IllegalStateException("MOVED 866 10.0.0.6:6379");
        };
        String why = thrown(() -> open(deaf).lock(fresh()));
        check(why.contains("client for a Redis Cluster: MOVED 866"), why);
    }

    // ---- slots on the move ----

    public void in_an_open_slot_none_is_acquired() throws InterruptedException {
        for (int phase = 1; phase < 4; phase++) {
            String key = fresh(), slot = slot(key);
            phase(key, phase);
            try (TidelockLockUtil one = open(); TidelockLockUtil other = open()) {
                check(one.lock(key) && one.release(key), "its keys are there");
                openSlot(slot, 0, 1);
                check(thrown(() -> one.lock(key)).contains("is being moved"), "the key is at neither node");
                moveKey(0, 1, register(key));
                check(thrown(() -> other.lock(key)).contains("is being moved"), "all are apart");
                for (int node = 0; node < 2; node++)
                    equal(0L, ((List<?>) at(node, "CLUSTER", "GETKEYSINSLOT", slot, "100")).stream()
                        .filter(each -> key.equals(new String((byte[]) each, StandardCharsets.ISO_8859_1))).count());
                closeSlot(slot, 0, 1);
                check(other.tryLock(key, LIMIT_MS), "it has moved");
                equal(phase < 2 ? "stamp" : "token", kind(key));
                check(other.release(key), "held");
            }
        }
    }

    public void a_lock_outlasts_the_move_of_its_slot() throws InterruptedException {
        for (int phase = 1; phase < 4; phase++) {
            String key = fresh(), slot = slot(key);
            phase(key, phase);
            try (TidelockLockUtil one = openShort(true); TidelockLockUtil other = open()) {
                check(one.lock(key), "it is free");
                openSlot(slot, 0, 1);
                moveKey(0, 1, key);
                closeSlot(slot, 0, 1);
                String held = get(key);
                check(!other.lock(key), "it is held");
                long leftMs = (Long) call(key, "PTTL", key);
                await("a renewal", LIMIT_MS, () -> !held.equals(get(key)) || (Long) call(key, "PTTL", key) > leftMs);
                check(one.remainingMs(key) > 0, "all the time");
                check(one.release(key), "until now");
            }
        }
    }

    public void a_release_in_an_open_slot_is_repeated_until_it_has_moved() throws InterruptedException {
        String key = fresh(), slot = slot(key);
        phase(key, 2);
        try (TidelockLockUtil one = new TidelockLockUtil(redis, options().legacyTtlMinMs(10 * LIMIT_MS))) { // not by itself
            check(one.lock(key), "it is free");
            openSlot(slot, 0, 1);
            moveKey(0, 1, key);
            check(!one.release(key), "it can't be done there");
            check(one.lastLoss().contains("is being moved"), one.lastLoss());
            closeSlot(slot, 0, 1);
            await("the release", LIMIT_MS, () -> get(key) == null);
        }
    }

    public void a_counter_is_exact_while_slots_move_and_phases_change() throws InterruptedException {
        String key = fresh(), slot = slot(key);
        phase(key, 1);
        int[] counter = {0};
        AtomicReference<Throwable> fault = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            threads.add(new Thread(() -> count(key, counter, fault)));
            threads.get(i).start();
        }
        for (int i = 0, from = 0; threads.stream().anyMatch(Thread::isAlive); i++) {
            openSlot(slot, from, 1 - from);
            closeSlot(slot, from, 1 - from);
            from = 1 - from;
            phase(key, i % 4);
            Thread.sleep(50); // on a slow machine it moves less often
        }
        equal(null, fault.get());
        equal(60, counter[0]);
    }

    private void count(String key, int[] counter, AtomicReference<Throwable> fault) {
        Eval repeating = new Repeating(new ClusterSocket(ports[0]));
        try (TidelockLockUtil one = new TidelockLockUtil(repeating, options().legacyTtlMinMs(LEFT_MS))) {
            for (int i = 0; i < 20; i++) {
                check(one.tryLock(key, LIMIT_MS), "a turn");
                int n = counter[0];
                Thread.yield();
                counter[0] = n + 1;
                one.release(key); // false: it is being moved
            }
        } catch (Exception | AssertionError e) {
            fault.set(e);
        }
    }

    // ---- a client that repeats requests ----

    /** As JedisCluster where a connection fails: what had no reply is sent again, by another connection. */
    private static final class Repeating implements Eval {
        private final Eval server;
        private final AtomicBoolean loses = new AtomicBoolean();

        Repeating(Eval server) {
            this.server = server;
        }

        @Override
        public Object eval(String script, List<byte[]> keys, List<byte[]> args) {
            if (loses.getAndSet(!loses.get()))
                server.eval(script, keys, args);
            return server.eval(script, keys, args);
        }
    }

    public void a_repeated_request_acquires_once() {
        Eval twice = (script, keys, args) -> {
            redis.eval(script, keys, args);
            return redis.eval(script, keys, args);
        };
        for (int phase = -1; phase < 4; phase++) {
            String key = fresh();
            if (phase >= 0)
                phase(key, phase);
            try (TidelockLockUtil one = open(twice); TidelockLockUtil other = open()) {
                check(one.lock(key), "the second request finds its own");
                check(!other.lock(key), "it is held");
                check(one.remainingMs(key) > 0, "by one");
                one.release(key);
                equal("nothing", kind(key));
                check(other.lock(key) && other.release(key), "it is free");
            }
        }
    }

    public void a_repeated_request_whose_first_copy_is_late_holds_for_nobody_else() {
        for (int phase = 1; phase < 4; phase++) {
            String key = fresh();
            phase(key, phase);
            AtomicReference<Runnable> late = new AtomicReference<>();
            Eval delays = (script, keys, args) -> {
                if (Lossy.kind(script).equals("acquire") && late.get() == null)
                    late.set(() -> redis.eval(script, keys, args));
                return redis.eval(script, keys, args);
            };
            try (TidelockLockUtil one = open(delays); TidelockLockUtil other = open()) {
                check(one.lock(key), "by the second copy");
                long fence = one.fence(key);
                late.get().run(); // while it is held
                check(!other.lock(key), "it is held");
                check(one.release(key), "all the time");
                late.get().run(); // after its release
                equal("nothing", kind(key));
                check(other.lock(key), "it is free");
                late.get().run(); // while another holds it
                check(other.fence(key) > fence && !one.lock(key) && other.release(key), "it is the other's");
            }
        }
    }

    // ---- the queue ----

    public void a_waiter_queues_by_the_phase_of_its_slot() throws InterruptedException {
        String key = fresh(), line = "tidelock:{" + key + "}:line";
        phase(key, 3);
        AtomicReference<Object> end = new AtomicReference<>();
        try (TidelockLockUtil one = open(); TidelockLockUtil other = open()) {
            for (int phase : new int[] {3, 2}) {
                check(one.lock(key), "it is free");
                Thread waiter = new Thread(() -> end.set(turn(other, key)));
                waiter.start();
                await("its entry", LIMIT_MS, () -> (Long) call(line, "ZCARD", line) == 1);
                String entry = first(line);
                phase(key, phase);
                await("a look by this register", LIMIT_MS, () -> !first(line).equals(entry));
                equal(phase == 3 ? entry.substring(0, 36) : "", first(line).replaceFirst(" .*", "")); // it keeps its place
                equal(null, end.getAndSet(null));
                check(one.release(key), "held");
                waiter.join();
                equal(true, end.getAndSet(null));
                phase(key, 3);
            }
        }
        equal(0L, call(line, "ZCARD", line));
    }

    private String first(String line) {
        List<?> entries = (List<?>) call(line, "ZRANGE", line, "0", "0");
        return entries.isEmpty() ? "" : new String((byte[]) entries.get(0), StandardCharsets.UTF_8);
    }

    private static Object turn(TidelockLockUtil locks, String key) {
        try {
            return locks.tryLock(key, LIMIT_MS) && locks.release(key);
        } catch (InterruptedException | RuntimeException e) {
            return e;
        }
    }

    public static void main(String[] args) throws Exception {
        Checks.run(new ClusterTests(Integer.parseInt(args[0]), Integer.parseInt(args[1])));
    }
}
