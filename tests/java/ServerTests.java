import static io.tidelock.Checks.await;
import static io.tidelock.Checks.check;
import static io.tidelock.Checks.equal;
import static io.tidelock.Checks.thrown;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

import io.tidelock.Checks;
import io.tidelock.Eval;
import io.tidelock.Options;
import io.tidelock.TidelockException;
import io.tidelock.TidelockLockUtil;

/** The class on a real server, beside DistributeLockUtil. Usage: ServerTests PORT */
public final class ServerTests {
    private static final int LIFETIME_MS = 60000;
    private static final int SHORT_MS = 1000;   // where a lock is to expire
    private static final int RENEWED_MS = 3000; // where it is renewed
    private static final int LEASE_MS = 2000;   // where a client is to follow the phase
    private static final int SKEW_MS = 100;
    private static final int DELAY_MS = 50;
    private static final long LIMIT_MS = 60000;

    private final int port;
    private final RespSocket redis;
    private int keys;

    private ServerTests(int port) throws Exception {
        this.port = port;
        redis = new RespSocket(port);
    }

    // ---- what the tests use ----

    private Options options(String namespace) {
        return new Options().namespace(namespace).clockSkewMaxMs(SKEW_MS).legacyDelayMaxMs(DELAY_MS)
            .legacyTtlMinMs(LIFETIME_MS).service("test");
    }

    private TidelockLockUtil open() {
        return new TidelockLockUtil(redis, options("none"));
    }

    /** Its locks expire soon. */
    private TidelockLockUtil openShort(String namespace) {
        return new TidelockLockUtil(redis, options(namespace).legacyTtlMinMs(SHORT_MS));
    }

    private TidelockLockUtil open(Eval eval) {
        return new TidelockLockUtil(eval, options("none"));
    }

    private String fresh() {
        return "key:" + ++keys;
    }

    private Object call(String... words) {
        List<byte[]> args = new ArrayList<>();
        for (String word : words)
            args.add(word.getBytes(StandardCharsets.UTF_8));
        return redis.eval("return redis.call(unpack(ARGV))", Collections.emptyList(), args);
    }

    private String get(String key) {
        Object value = call("GET", key);
        return value == null ? null : new String((byte[]) value, StandardCharsets.UTF_8);
    }

    private void phase(String namespace, int phase, int epoch) {
        phase(namespace, phase, epoch, LEASE_MS);
    }

    private void phase(String namespace, int phase, int epoch, int leaseMs) {
        call("HSET", "tidelock:phase:{" + namespace + "}", "phase", "" + phase, "epoch", "" + epoch, "lease_ms", "" + leaseMs,
            "since", "0", "keys", "*");
    }

    private DistributeLockUtil legacy() {
        return new DistributeLockUtil(redis, SHORT_MS);
    }

    // ---- one instance ----

    public void a_released_lock_is_free() {
        String key = fresh();
        try (TidelockLockUtil one = open(); TidelockLockUtil other = open()) {
            check(one.lock(key), "it is free");
            check(!other.lock(key), "it is held");
            check(one.remainingMs(key) > 0 && other.remainingMs(key) == 0, "one holds it");
            check(one.fence(key) > 0, "it has a number");
            check(one.release(key), "it was held all the time");
            equal(null, get(key));
            equal(0L, one.remainingMs(key));
            check(other.lock(key), "it is free again");
            check(other.fence(key) > 0, "and has a number");
            check(other.release(key), "held");
        }
    }

    public void fences_rise() {
        String key = fresh();
        long last = 0;
        try (TidelockLockUtil one = open()) {
            for (int i = 0; i < 5; i++) {
                check(one.lock(key), "it is free");
                check(one.fence(key) > last, "the number rises");
                last = one.fence(key);
                one.release(key);
            }
        }
    }

    public void an_instance_does_not_lock_twice() {
        String key = fresh();
        Lossy lossy = new Lossy(redis);
        try (TidelockLockUtil one = open(lossy)) {
            check(one.lock(key), "it is free");
            check(!one.lock(key), "this thread holds it");
            equal(1, Collections.frequency(lossy.sent, "acquire"));
            check(one.release(key), "the first hold counts");
        }
    }

    public void a_hold_belongs_to_its_thread() throws InterruptedException {
        String key = fresh();
        try (TidelockLockUtil one = open()) {
            check(one.lock(key), "it is free");
            AtomicReference<Boolean> other = new AtomicReference<>();
            Thread thread = new Thread(() -> other.set(one.lock(key) || one.release(key)));
            thread.start();
            thread.join();
            equal(false, other.get());
            check(one.remainingMs(key) > 0, "it is still held");
            check(one.release(key), "by this thread");
            check(!one.release(key), "once");
            equal("this thread does not hold it", one.lastLoss());
        }
    }

    public void a_lock_expires_and_its_late_release_deletes_nobody_elses() throws InterruptedException {
        String key = fresh();
        try (TidelockLockUtil one = openShort("none"); TidelockLockUtil other = open()) {
            check(one.lock(key), "it is free");
            check(other.tryLock(key, LIMIT_MS), "it expires");
            equal(0L, one.remainingMs(key));
            check(!one.release(key), "it was lost");
            check(one.lastLoss() != null, "and why");
            check(other.remainingMs(key) > 0 && get(key) != null, "the other's stays");
            check(other.release(key), "all the time");
        }
    }

    public void a_thread_whose_lock_expired_does_not_count_on_the_next_holders() throws InterruptedException {
        String key = fresh();
        try (TidelockLockUtil one = openShort("none")) {
            check(one.lock(key), "it is free");
            Thread next = new Thread(() -> {
                try {
                    one.tryLock(key, LIMIT_MS);
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            next.start();
            next.join();
            equal(0L, one.remainingMs(key));
            equal(0L, one.fence(key));
            check(!one.release(key), "it belongs to the next thread");
            check(get(key) != null, "whose lock stays");
        }
    }

    public void without_info_a_cluster_is_known_too() {
        String key = fresh();
        redis.ask(RespSocket.words("ACL", "SETUSER", "curious", "on", "nopass", "~*", "&*", "+@all", "-info"));
        RespSocket user = new RespSocket(port);
        user.ask(RespSocket.words("AUTH", "curious", ""));
        check(open(user).lock(key), "one server");
        redis.ask(RespSocket.words("ACL", "SETUSER", "curious", "-cluster"));
        check(thrown(() -> open(user).lock(fresh())).contains("permit INFO"), "it says what to do");
        List<Integer> counts = new ArrayList<>();
        Eval cluster = (script, keys, args) -> {
            boolean asks = Lossy.kind(script).equals("kind");
            counts.add(keys.size());
            return asks ? user.eval(script.replace("CLUSTER', 'KEYSLOT', 'a'", "STRLEN', 'none'"), keys, args)
                : redis.eval(script, keys, args);
        };
        check(open(cluster).lock(fresh()), "by the register of its slot");
        equal("[1, 1, 1, 5]", counts.toString());
    }

    public void closing_releases_nothing_and_removes_the_record() {
        String key = fresh();
        TidelockLockUtil one = new TidelockLockUtil(redis, options("closing"));
        check(one.lock(key), "it is free");
        equal(1L, call("HLEN", "tidelock:phase:{closing}:clients"));
        one.close();
        equal(0L, call("HLEN", "tidelock:phase:{closing}:clients"));
        check(get(key) != null, "the lock stays");
        check(thrown(() -> one.lock(key)).startsWith("IllegalStateException"), "it is closed");
        check(one.release(key), "what is held can be released");
    }

    public void odd_values_and_other_types_count_as_held() {
        try (TidelockLockUtil one = open()) {
            for (String value : new String[] {"", "1", "locked", "\u00ff\u00fe", "1e12", "99999999999999999999"}) {
                String key = fresh();
                call("SET", key, value);
                check(!one.lock(key), value);
                check(!one.release(key), value);
                equal(value, get(key));
            }
            String list = fresh();
            call("RPUSH", list, "1");
            check(!one.lock(list), "a list");
        }
    }

    public void a_name_is_utf_8() {
        String key = "sch\u00fcssel:\u65e5:\ud83d\ude00:" + fresh();
        try (TidelockLockUtil one = open()) {
            check(one.lock(key), "it is free");
            check(get(key) != null, "by these bytes");
            check(one.release(key), "held");
        }
        TidelockLockUtil few = new TidelockLockUtil(redis, options("none").keys("jobs:*"));
        check(thrown(() -> few.lock("other")).startsWith("IllegalArgumentException"), "no pattern matches");
    }

    // ---- lost requests and replies ----

    public void a_lost_reply_is_no_lock_and_is_undone() {
        String key = fresh();
        Lossy lossy = new Lossy(redis);
        try (TidelockLockUtil one = open(lossy)) {
            check(one.lock(fresh()), "the phase is read");
            lossy.lose("acquire", true);
            check(thrown(() -> one.lock(key)).startsWith("TidelockException"), "no reply");
            equal(0L, one.remainingMs(key));
            equal(null, get(key)); // undone at once
        }
    }

    public void what_could_not_be_undone_is_undone_by_the_next_call() throws InterruptedException {
        String key = fresh(), other = fresh();
        Lossy lossy = new Lossy(redis);
        try (TidelockLockUtil one = open(lossy)) {
            check(one.lock(fresh()), "the phase is read");
            lossy.between = () -> lossy.lose("all", false);
            lossy.lose("acquire", true);
            thrown(() -> one.lock(key));
            check(get(key) != null, "nothing reaches the server");
            lossy.between = () -> { };
            lossy.lose("", false);
            await("undone", LIMIT_MS, () -> {
                one.lock(other);
                one.release(other);
                return get(key) == null;
            });
        }
    }

    public void a_request_that_was_undone_acquires_nothing_when_it_comes_late() {
        String key = fresh();
        AtomicReference<Runnable> late = new AtomicReference<>();
        Eval delays = new Eval() {
            @Override
            public Object eval(String script, List<byte[]> keys, List<byte[]> args) {
                boolean takes = Lossy.kind(script).equals("acquire");
                if (!takes || late.get() != null)
                    return redis.eval(script, keys, args);
                late.set(() -> redis.eval(script, keys, args));
                throw new IllegalStateException("timed out");
            }
        };
        try (TidelockLockUtil one = open(delays)) {
            thrown(() -> one.lock(key));
            late.get().run();
            equal(null, get(key));
        }
    }

    public void a_request_that_comes_after_its_limit_acquires_nothing() throws InterruptedException {
        String key = fresh();
        Eval slow = (script, keys, args) -> {
            if (Lossy.kind(script).equals("acquire"))
                sleep(300);
            return redis.eval(script, keys, args);
        };
        TidelockLockUtil one = new TidelockLockUtil(slow, options("none").attemptMs(200));
        check(thrown(() -> one.lock(key)).contains("too late"), "it says so");
        equal(null, get(key));
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    public void a_reply_that_comes_after_the_deadline_is_no_lock() {
        String key = fresh();
        Lossy lossy = new Lossy(redis);
        TidelockLockUtil one = new TidelockLockUtil(lossy, options("none").legacyTtlMinMs(SHORT_MS));
        check(one.lock(fresh()), "the phase is read");
        lossy.between = () -> sleep(SHORT_MS);
        check(thrown(() -> one.lock(key)).contains("too late"), "it says so");
        equal(null, get(key));
    }

    public void a_lost_release_never_throws_and_is_repeated() {
        String key = fresh();
        Lossy lossy = new Lossy(redis);
        TidelockLockUtil one = open(lossy);
        check(one.lock(key), "it is free");
        lossy.lose("release", false);
        check(!one.release(key), "no reply");
        check(one.lastLoss().contains("lost on its way"), one.lastLoss());
        lossy.lose("", false);
        one.close(); // tries it again
        equal(null, get(key));
    }

    public void a_refusal_of_the_server_is_no_lock() {
        Eval refuses = (script, keys, args) -> {
            throw new IllegalStateException("NOPERM");
        };
        try (TidelockLockUtil one = open(refuses)) {
            check(thrown(() -> one.lock("k")).contains("NOPERM"), "its words are told");
            check(!one.release("k"), "nothing is held");
        }
        for (Object odd : new Object[] {null, "OK", 1L, new byte[0], new ArrayList<Object>(), Arrays.asList("x", null)}) {
            TidelockLockUtil one = open((script, keys, args) -> odd);
            check(thrown(() -> one.lock("k")).startsWith("TidelockException"), "" + odd);
        }
    }

    public void a_waiter_that_is_interrupted_holds_nothing() throws InterruptedException {
        String key = fresh();
        try (TidelockLockUtil one = open(); TidelockLockUtil other = open()) {
            check(one.lock(key), "it is free");
            AtomicReference<Throwable> end = new AtomicReference<>();
            Thread waiter = new Thread(() -> {
                try {
                    other.tryLock(key, LIMIT_MS);
                } catch (InterruptedException e) {
                    end.set(e);
                }
            });
            waiter.start();
            waiter.interrupt();
            waiter.join();
            check(end.get() instanceof InterruptedException, "it was interrupted");
            equal(0L, other.remainingMs(key));
            check(one.release(key), "held");
        }
    }

    // ---- beside the legacy class ----

    public void a_legacy_clients_stamp_is_respected_and_taken_over_after_M_and_L() throws InterruptedException {
        String key = fresh();
        DistributeLockUtil legacy = legacy();
        try (TidelockLockUtil one = open()) {
            check(legacy.tryLock(key), "it is free");
            check(!one.lock(key), "it is held");
            long free = legacy.expiresMs() + SKEW_MS + DELAY_MS;
            check(one.tryLock(key, LIMIT_MS), "it expires");
            check(System.currentTimeMillis() > free, "not before M and L");
            check(one.release(key), "held");
        }
    }

    public void a_legacy_client_respects_ours() {
        String key = fresh();
        DistributeLockUtil legacy = legacy();
        try (TidelockLockUtil one = open()) {
            check(one.lock(key), "it is free");
            check(!legacy.tryLock(key), "it is held");
            check(one.release(key), "held");
            check(legacy.tryLock(key), "it is free");
            legacy.unlock(key);
        }
    }

    public void a_racing_losers_stamp_is_no_loss() {
        String key = fresh();
        try (TidelockLockUtil one = open()) {
            check(one.lock(key), "it is free");
            call("SET", key, "" + (Long.parseLong(get(key)) + 1));
            check(one.release(key), "its writer raced and lost");
        }
    }

    public void a_thiefs_stamp_is_a_loss() {
        String key = fresh();
        try (TidelockLockUtil one = open()) {
            check(one.lock(key), "it is free");
            String thiefs = "" + (System.currentTimeMillis() + LIFETIME_MS + 5000);
            call("SET", key, thiefs);
            check(!one.release(key), "its writer's clock is ahead");
            equal(thiefs, get(key));
        }
    }

    // ---- renewing ----

    private TidelockLockUtil renewing(String namespace) {
        return new TidelockLockUtil(redis, options(namespace).legacyTtlMinMs(RENEWED_MS).renew(true));
    }

    public void a_renewed_lock_outlasts_its_lifetime() throws InterruptedException {
        String key = fresh();
        try (TidelockLockUtil one = renewing("none"); TidelockLockUtil other = open()) {
            check(one.lock(key), "it is free");
            String first = get(key);
            check(!other.tryLock(key, 2 * RENEWED_MS), "it is held all the time");
            check(one.remainingMs(key) > 0, "and its holder counts on it");
            check(!first.equals(get(key)), "its stamp is a later one");
            check(one.release(key), "held");
            check(other.lock(key), "it is free");
            other.release(key);
        }
    }

    public void a_longest_hold_ends() throws InterruptedException {
        String key = fresh();
        try (TidelockLockUtil one = new TidelockLockUtil(redis, options("none").renew(true).maxHoldMs(1500))) {
            check(one.lock(key), "it is free");
            await("its end", LIMIT_MS, () -> one.remainingMs(key) == 0);
            check(!one.release(key), "it had expired");
        }
    }

    public void the_lock_of_a_thread_that_ended_expires() throws InterruptedException {
        String key = fresh();
        try (TidelockLockUtil one = renewing("none"); TidelockLockUtil other = open()) {
            Thread thread = new Thread(() -> one.lock(key));
            thread.start();
            thread.join();
            check(other.tryLock(key, LIMIT_MS), "nobody renews it");
            check(other.release(key), "held");
        }
    }

    public void a_holder_notices_that_its_key_was_deleted() throws InterruptedException {
        String key = fresh();
        try (TidelockLockUtil one = renewing("none")) {
            check(one.lock(key), "it is free");
            call("DEL", key);
            await("the loss", LIMIT_MS, () -> one.remainingMs(key) == 0);
            check(!one.release(key), "lost");
            check(one.lastLoss().contains("no longer exists") || one.lastLoss().contains("expired"), one.lastLoss());
        }
    }

    public void a_renewal_replaces_a_losers_stamp() throws InterruptedException {
        String key = fresh();
        try (TidelockLockUtil one = renewing("none")) {
            check(one.lock(key), "it is free");
            String losers = "" + (Long.parseLong(get(key)) + 1);
            call("SET", key, losers);
            await("our stamp", LIMIT_MS, () -> !losers.equals(get(key)));
            check(one.release(key), "held");
            equal(null, get(key));
        }
    }

    // ---- phases ----

    private String stampOrToken(String key) {
        String value = get(key);
        return value == null ? "nothing" : value.matches("[0-9]{13}") ? "stamp" : value.length() == 36 ? "token" : value;
    }

    public void each_phase_writes_what_its_neighbours_respect() throws InterruptedException {
        String[] writes = {"stamp", "stamp", "token", "token"};
        int epoch = 1;
        for (int phase : new int[] {0, 1, 2, 3, 2, 1, 0}) {
            phase("phases", phase, epoch++);
            TidelockLockUtil one = new TidelockLockUtil(redis, options("phases"));
            for (int next : new int[] {Math.max(phase - 1, 0), phase, Math.min(phase + 1, 3)}) {
                String key = fresh();
                check(one.lock(key), "it is free");
                equal(phase, one.phase());
                equal(writes[phase], stampOrToken(key));
                phase("neighbour", next, 1);
                try (TidelockLockUtil other = new TidelockLockUtil(redis, options("neighbour"))) {
                    check(!other.lock(key), "it is held for phase " + next);
                    equal(next, other.phase());
                }
                check(one.release(key), "held");
            }
            one.close();
        }
    }

    public void a_client_follows_the_phase() throws InterruptedException {
        phase("follows", 1, 1);
        TidelockLockUtil one = new TidelockLockUtil(redis, options("follows"));
        String key = fresh();
        check(one.lock(key), "it is free");
        one.release(key);
        phase("follows", 2, 2);
        await("the next lease", LIMIT_MS, () -> {
            check(one.lock(key), "it is free");
            boolean token = stampOrToken(key).equals("token");
            check(one.release(key), "held");
            return token;
        });
        equal(2, one.phase());
    }

    public void a_drain_turns_a_renewed_stamp_into_a_token() throws InterruptedException {
        phase("drain", 1, 1);
        String key = fresh();
        try (TidelockLockUtil one = renewing("drain")) {
            check(one.lock(key), "it is free");
            equal("stamp", stampOrToken(key));
            phase("drain", 2, 2);
            await("a token", LIMIT_MS, () -> stampOrToken(key).equals("token"));
            check(one.remainingMs(key) > 0, "it is held");
            check(one.release(key), "all the time");
            equal(null, get(key));
        }
    }

    public void no_stamp_becomes_a_token_after_the_lease() throws InterruptedException {
        String key = fresh();
        AtomicReference<String> found = new AtomicReference<>();
        Eval slow = (script, keys, args) -> {
            boolean renews = Lossy.kind(script).equals("renew");
            if (renews)
                sleep(800);
            Object reply = redis.eval(script, keys, args);
            if (renews)
                found.set(stampOrToken(key));
            return reply;
        };
        phase("late-drain", 1, 1, 600);
        Options options = options("late-drain").legacyTtlMinMs(8000).attemptMs(5000).renew(true);
        try (TidelockLockUtil one = new TidelockLockUtil(slow, options)) {
            check(one.lock(key), "it is free");
            phase("late-drain", 2, 2, 600);
            await("a renewal", LIMIT_MS, () -> found.get() != null);
            equal("stamp", found.get());
        }
    }

    public void a_drain_takes_over_an_expired_stamp() throws InterruptedException {
        phase("over", 2, 1);
        String key = fresh();
        call("SET", key, "" + (System.currentTimeMillis() - 1000));
        try (TidelockLockUtil one = new TidelockLockUtil(redis, options("over"))) {
            check(one.lock(key), "it has expired");
            equal("token", stampOrToken(key));
            check(one.release(key), "held");
        }
    }

    public void a_register_that_is_gone_or_older_is_refused() throws InterruptedException {
        phase("gone", 2, 5);
        TidelockLockUtil one = new TidelockLockUtil(redis, options("gone"));
        String key = fresh();
        check(one.lock(key), "it is free");
        one.release(key);
        call("DEL", "tidelock:phase:{gone}");
        AtomicReference<String> why = new AtomicReference<>();
        await("the lease's end", LIMIT_MS, () -> refuses(one, key, why));
        check(why.get().contains("no longer exists"), why.get());
        phase("gone", 1, 4);
        check(thrown(() -> one.lock(key)).contains("lost writes"), "older");
        phase("gone", 2, 6);
        check(one.lock(key), "it is known again");
        check(one.release(key), "held");
    }

    private static boolean refuses(TidelockLockUtil one, String key, AtomicReference<String> why) {
        try {
            one.lock(key);
            one.release(key);
            return false;
        } catch (TidelockException e) {
            why.set(e.getMessage());
            return true;
        }
    }

    public void without_its_phase_a_client_acquires_nothing_after_its_lease() throws InterruptedException {
        phase("away", 1, 1);
        Lossy lossy = new Lossy(redis);
        TidelockLockUtil one = new TidelockLockUtil(lossy, options("away"));
        String key = fresh();
        check(one.lock(key), "it is free");
        one.release(key);
        lossy.lose("phase", false);
        AtomicReference<String> why = new AtomicReference<>();
        await("the lease's end", LIMIT_MS, () -> refuses(one, key, why));
        int before = Collections.frequency(lossy.sent, "acquire");
        refuses(one, key, why);
        equal(before, Collections.frequency(lossy.sent, "acquire"));
    }

    public void a_request_that_comes_after_the_lease_acquires_nothing() {
        String key = fresh();
        phase("late", 1, 1, 600);
        Eval slow = (script, keys, args) -> {
            if (Lossy.kind(script).equals("acquire"))
                sleep(700);
            return redis.eval(script, keys, args);
        };
        TidelockLockUtil one = new TidelockLockUtil(slow, options("late").attemptMs(10000));
        check(thrown(() -> one.lock(key)).startsWith("TidelockException"), "it is no lock");
        equal(null, get(key));
    }

    public void a_register_whose_lease_is_too_short_is_named() {
        phase("short-lease", 1, 1, 1000);
        try (TidelockLockUtil one = new TidelockLockUtil(redis, options("short-lease").clockSkewMaxMs(1000))) {
            String why = thrown(() -> one.lock(fresh()));
            check(why.contains("lease of 1000 ms") && why.contains("at least 2000 ms"), why);
            phase("short-lease", 1, 2, 30000);
            String key = fresh();
            check(one.lock(key) && one.release(key), "it is long enough");
        }
    }

    public void a_client_is_registered() {
        phase("registered", 1, 3);
        try (TidelockLockUtil one = new TidelockLockUtil(redis, options("registered").keys("key:*"))) {
            check(one.lock(fresh()), "it is free");
            Object records = call("HVALS", "tidelock:phase:{registered}:clients");
            String record = new String((byte[]) ((List<?>) records).get(0), StandardCharsets.UTF_8);
            check(record.matches("3 1 2000 [0-9]{16} [0-9.]+-java [^ ]+ [0-9]+ test\tkey:\\*"), record);
        }
    }

    // ---- the queue ----

    private Thread waiter(String key, List<String> order, String name) {
        Thread thread = new Thread(() -> {
            try (TidelockLockUtil one = new TidelockLockUtil(redis, options("queue"))) {
                check(one.tryLock(key, LIMIT_MS), "a turn");
                order.add(name + (one.fence(key) > 0 ? "" : " without a number"));
                check(one.release(key), "held");
            } catch (InterruptedException | RuntimeException | AssertionError e) {
                order.add(e.toString());
            }
        });
        thread.start();
        return thread;
    }

    public void each_waiter_in_the_queue_gets_its_turn() throws InterruptedException {
        phase("queue", 3, 1);
        String key = fresh(), line = "tidelock:{" + key + "}:line";
        List<String> order = Collections.synchronizedList(new ArrayList<>());
        List<Thread> waiters = new ArrayList<>();
        try (TidelockLockUtil one = new TidelockLockUtil(redis, options("queue").renew(true))) {
            check(one.lock(key), "it is free");
            for (String name : new String[] {"a", "b", "c", "d"}) {
                waiters.add(waiter(key, order, name));
                await("its entry", LIMIT_MS, () -> (Long) call("ZCARD", line) == waiters.size());
            }
            check(one.release(key), "held");
        }
        for (Thread each : waiters)
            each.join();
        Collections.sort(order); // where a waiter is held up, the next one passes it
        equal("[a, b, c, d]", order.toString());
        equal(0L, call("ZCARD", line));
    }

    public void a_waiter_that_gives_up_leaves_the_queue() throws InterruptedException {
        phase("gives-up", 3, 1);
        String key = fresh();
        try (TidelockLockUtil one = new TidelockLockUtil(redis, options("gives-up").renew(true));
                TidelockLockUtil other = new TidelockLockUtil(redis, options("gives-up"))) {
            check(one.lock(key), "it is free");
            check(!other.tryLock(key, 400), "it is held");
            equal(0L, call("ZCARD", "tidelock:{" + key + "}:line"));
            check(one.release(key), "held");
            check(other.lock(key), "it is free");
            check(other.release(key), "held");
        }
    }

    public void a_waiter_that_loses_a_reply_gets_its_turn() throws InterruptedException {
        phase("queue-lossy", 3, 1);
        String key = fresh(), line = "tidelock:{" + key + "}:line";
        Lossy lossy = new Lossy(redis);
        AtomicReference<Object> end = new AtomicReference<>();
        try (TidelockLockUtil one = new TidelockLockUtil(redis, options("queue-lossy"));
                TidelockLockUtil other = new TidelockLockUtil(lossy, options("queue-lossy"))) {
            check(one.lock(key), "it is free");
            lossy.lose("join", true); // the first one, as this is called before its loss
            lossy.between = () -> lossy.lose(lossy.sent.contains("join") ? "" : "join", true);
            Thread waiter = waiter(other, key, end);
            await("a second look", LIMIT_MS, () -> Collections.frequency(lossy.sent, "join") > 1);
            check(one.release(key), "held");
            waiter.join();
            equal(true, end.get());
            equal(3, lossy.lastArgs); // a look that got no reply may come late
            equal(0L, call("ZCARD", line));
        }
    }

    private static Thread waiter(TidelockLockUtil locks, String key, AtomicReference<Object> end) {
        Thread waiter = new Thread(() -> {
            try {
                end.set(locks.tryLock(key, LIMIT_MS) && locks.release(key));
            } catch (InterruptedException | RuntimeException e) {
                end.set(e);
            }
        });
        waiter.start();
        return waiter;
    }

    public void a_waiter_leaves_the_queue_with_its_phase() throws InterruptedException {
        phase("queue-back", 3, 1);
        String key = fresh(), line = "tidelock:{" + key + "}:line";
        AtomicReference<Object> end = new AtomicReference<>();
        try (TidelockLockUtil one = new TidelockLockUtil(redis, options("queue-back"));
                TidelockLockUtil other = new TidelockLockUtil(redis, options("queue-back"))) {
            check(one.lock(key), "it is free");
            Thread waiter = waiter(other, key, end);
            await("its entry", LIMIT_MS, () -> (Long) call("ZCARD", line) == 1);
            phase("queue-back", 2, 2);
            await("its leaving", LIMIT_MS, () -> (Long) call("ZCARD", line) == 0);
            equal(null, end.get());
            check(one.release(key), "held");
            waiter.join();
            equal(true, end.get());
        }
    }

    public void a_waiter_that_may_not_queue_polls() throws InterruptedException {
        phase("queue-not", 3, 1);
        String key = fresh();
        Lossy lossy = new Lossy(redis);
        lossy.lose("join", false);
        try (TidelockLockUtil one = openShort("queue-not");
                TidelockLockUtil other = new TidelockLockUtil(lossy, options("queue-not"))) {
            check(one.lock(key), "it is free");
            check(other.tryLock(key, LIMIT_MS), "it expires");
            check(other.release(key), "held");
        }
    }

    // ---- what runs in the background ----

    public void an_open_client_stays_registered_and_follows_the_phase() throws InterruptedException {
        phase("idle", 1, 1);
        try (TidelockLockUtil one = new TidelockLockUtil(redis, options("idle"))) {
            check(one.lock(fresh()), "it is free");
            phase("idle", 2, 2);
            await("the phase", LIMIT_MS, () -> one.phase() == 2);
            Object records = call("HVALS", "tidelock:phase:{idle}:clients");
            check(new String((byte[]) ((List<?>) records).get(0), StandardCharsets.UTF_8).startsWith("2 2 "), "its record");
        }
        equal(0L, call("HLEN", "tidelock:phase:{idle}:clients"));
    }

    public void a_record_stays_where_its_client_may_register_again() throws InterruptedException {
        phase("closes", 1, 1, 300);
        CountDownLatch asked = new CountDownLatch(1), goes = new CountDownLatch(1);
        List<String> sent = Collections.synchronizedList(new ArrayList<>());
        Eval blocks = (script, keys, args) -> {
            String kind = Lossy.kind(script);
            sent.add(kind);
            if (kind.equals("phase") && Thread.currentThread().getName().equals("tidelock-closes")) {
                asked.countDown();
                awaitLatch(goes);
            }
            return redis.eval(script, keys, args);
        };
        TidelockLockUtil one = new TidelockLockUtil(blocks, options("closes").attemptMs(300));
        check(one.lock(fresh()), "it is free");
        awaitLatch(asked);
        one.close();
        check(!sent.contains("leave"), "a reader is on its way");
        goes.countDown();
    }

    private static void awaitLatch(CountDownLatch latch) {
        try {
            check(latch.await(LIMIT_MS, TimeUnit.MILLISECONDS), "not in time");
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static boolean runs(String thread) {
        return Thread.getAllStackTraces().keySet().stream().anyMatch(each -> each.getName().equals(thread));
    }

    private void lockAndForget(String namespace) {
        TidelockLockUtil forgotten = new TidelockLockUtil(redis, options(namespace));
        check(forgotten.lock(fresh()), "it is free");
    }

    public void the_thread_of_a_forgotten_instance_ends() throws InterruptedException {
        phase("forgotten", 1, 1, 300);
        lockAndForget("forgotten");
        check(runs("tidelock-forgotten"), "it reads the phase");
        await("its end", LIMIT_MS, () -> {
            System.gc();
            return !runs("tidelock-forgotten");
        });
    }

    public void a_shorter_lease_is_not_read_without_a_pause() throws InterruptedException {
        phase("shorter", 1, 1, 1000);
        Lossy lossy = new Lossy(redis);
        try (TidelockLockUtil one = new TidelockLockUtil(lossy, options("shorter"))) {
            check(one.lock(fresh()), "it is free");
            phase("shorter", 1, 1, 300);
            await("a look", LIMIT_MS, () -> Collections.frequency(lossy.sent, "phase") > 1);
            int before = Collections.frequency(lossy.sent, "phase");
            Thread.sleep(200); // on a slow machine fewer come
            check(Collections.frequency(lossy.sent, "phase") - before < 10, "not one behind the other");
        }
    }

    // ---- many threads ----

    public void a_counter_under_the_lock_is_exact() throws InterruptedException {
        phase("many", 1, 1);
        String key = fresh();
        List<Thread> threads = new ArrayList<>();
        AtomicReference<Throwable> fault = new AtomicReference<>();
        int[] counter = {0};
        for (int i = 0; i < 4; i++) {
            Thread thread = new Thread(() -> count(key, counter, fault));
            threads.add(thread);
            thread.start();
        }
        phase("many", 2, 2);
        for (Thread thread : threads)
            thread.join();
        equal(null, fault.get());
        equal(40, counter[0]);
    }

    private void count(String key, int[] counter, AtomicReference<Throwable> fault) {
        try (TidelockLockUtil one = new TidelockLockUtil(new RespSocket(port), options("many"))) {
            for (int i = 0; i < 10; i++) {
                check(one.tryLock(key, LIMIT_MS), "a turn");
                int n = counter[0];
                Thread.yield();
                counter[0] = n + 1;
                check(one.release(key), "held");
            }
        } catch (Exception | AssertionError e) {
            fault.set(e);
        }
    }

    public static void main(String[] args) throws Exception {
        Checks.run(new ServerTests(Integer.parseInt(args[0])));
    }
}
