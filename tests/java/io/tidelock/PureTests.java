package io.tidelock;

import static io.tidelock.Checks.check;
import static io.tidelock.Checks.equal;
import static io.tidelock.Checks.thrown;

import java.util.Arrays;
import java.util.List;

/** The pure classes, with the time as data. */
public final class PureTests {
    private static final long MS = 1000000;
    private static final long SERVER_US = 1700000000000000L;
    private static final long SERVER_MS = SERVER_US / 1000;
    private static final String TOKEN = "0d8b2a3c-5c1f-4a53-9a57-000000000001";
    private static final Moment START = at(0);

    private final Rules rules = new Rules(new Options());
    private final Keys keys = new Keys("jobs:42");
    private final byte[] token = Rules.bytes(TOKEN);
    private final ServerClock clock = new ServerClock(SERVER_US, START, START);

    private static Moment at(long ms) {
        return new Moment(ms * MS, 1600000000000L + ms);
    }

    private static List<Object> taken(long status, String value, long leftMs, long serverMs, boolean known) {
        return Arrays.<Object>asList(status, value, leftMs, Long.toString(serverMs * 1000), Long.toString(serverMs / 1000),
            Long.toString(serverMs % 1000 * 1000), 1L, known ? 1L : 0L);
    }

    private static List<Object> renewed(long status, String value, long leftMs, long serverMs) {
        return Arrays.<Object>asList(serverMs / 1000, serverMs % 1000 * 1000, Arrays.<Object>asList(status, value, leftMs));
    }

    private Attempt attempt(int phase) {
        return new Attempt(rules, keys, token, "host 1 java", lease(phase, 1, 30000));
    }

    private static String text(byte[] bytes) {
        return Reply.text(bytes);
    }

    private SlotPhase slot(String reads) {
        return SlotPhase.read(rules, reads);
    }

    private static List<Object> differs(String reads) {
        return Arrays.<Object>asList(-6L, reads, -1L, "0", Long.toString(SERVER_MS / 1000), "0", 1L, 0L);
    }

    // ---- time ----

    public void a_deadline_counts_on_the_later_clock() {
        Limit limit = new Limit(new Moment(0, 1000), 500 * MS);
        equal(400 * MS, limit.leftNs(new Moment(100 * MS, 1050)));
        equal(200 * MS, limit.leftNs(new Moment(0, 1300))); // suspended: nanoTime stood still
        equal(400 * MS, limit.leftNs(new Moment(100 * MS, 0))); // the wall clock was set back
        check(limit.leftNs(new Moment(0, Long.MAX_VALUE)) < 0, "a wall clock far ahead ends it");
    }

    public void a_request_has_its_limit_by_the_earliest_time() {
        Moment later = new Moment(1000 * MS, 1600000000000L + 3600000); // the wall clock was set forward
        check(clock.earliestUs(later) <= SERVER_US + 1000000, "the wall clock does not count");
        check(clock.latestUs(later) >= SERVER_US + 3600000000L, "here it does");
        check(clock.earliestUs(later, 5000 * MS) < SERVER_US + 6000000 * 0.82, "by the slowest rate");
    }

    public void rates_are_those_of_the_library() {
        equal(46903L, Rates.leastOfMs(57500) / MS);
        check(Rates.most(Rates.least(1000 * MS)) <= 1000 * MS, "the most of the least");
        check(Rates.most(Long.MAX_VALUE) > 0, "no overflow");
    }

    // ---- names ----

    public void keys_beside_a_key_have_its_names() {
        equal("tidelock:{jobs:42}", text(keys.sidecar));
        equal("tidelock:{jobs:42}:line", text(keys.line));
        equal("{a}b:tidelock", text(new Keys("{a}b").sidecar));
        equal("a}b:tidelock", text(new Keys("a}b").sidecar));
        equal(12182, Keys.slot(Rules.bytes("foo")));
        equal(12182, Keys.slot(Rules.bytes("a{foo}b")));
        equal("IllegalArgumentException: a key has 1 to 16384 bytes, not 0", thrown(() -> new Keys("")));
    }

    public void in_a_cluster_all_keys_are_in_one_slot() {
        for (String name : new String[] {"jobs:42", "{a}b", "x{a}b", "a{b", "\u00e4"}) {
            Keys each = new Keys(name);
            check(each.areInOneSlot(), name);
            for (byte[] key : each.all(rules))
                equal(each.slot, Keys.slot(key));
        }
        for (String name : new String[] {"a}b", "{}a", "a}{b", "{}x{y"})
            check(!new Keys(name).areInOneSlot(), name);
        equal("tidelock:phase:slot:{" + Keys.tag(12182) + "}:default", text(new Keys("foo").register(rules)));
    }

    public void each_slot_has_a_tag() {
        for (int slot = 0; slot < 16384; slot += 31)
            equal(slot, Keys.slot(Rules.bytes(Keys.tag(slot))));
        check(Keys.tag(5) == Keys.tag(5), "it is found once");
    }

    public void patterns_match_as_scan_does() {
        String[] fits = {"*", "jobs:*", "j?bs:42", "j[a-o]bs:42", "j[^a-n]bs:42", "jobs:42*", "*42", "*:4*", "jobs\\:42"};
        String[] fitsNot = {"jobs", "obs:42", "jobs:43", "j[^o]bs:42", "J*", "", "jobs:4?2"};
        for (String pattern : fits)
            check(new Glob(pattern).matches(keys.key), pattern);
        for (String pattern : fitsNot)
            check(!new Glob(pattern).matches(keys.key), pattern);
        thrown(() -> new Glob("a["));
        thrown(() -> new Glob("a\\"));
        thrown(() -> new Glob("[\u00e4-z]"));
    }

    // ---- options ----

    public void options_that_leave_no_validity_are_refused() {
        thrown(() -> new Rules(new Options().lifetimeMs(3000)));
        thrown(() -> new Rules(new Options().lifetimeMs(2 * 60000 - 3 * 1000 - 2 * 500 + 1)));
        thrown(() -> new Rules(new Options().legacyTtlMinMs(3999).lifetimeMs(3999)));
        thrown(() -> new Rules(new Options().namespace("a b")));
        thrown(() -> new Rules(new Options().leaseMs(1999)));
        equal(500L, rules.delayMs);
        equal(4000L, new Rules(new Options().legacyTtlMinMs(4000)).lifetimeMs);
    }

    // ---- stamps ----

    public void only_a_likely_time_is_a_stamp() {
        String[] odd = {null, "", "1", "locked", TOKEN, "01700000000000", "-1700000000000", "1700000000000.5", " 1700000000000",
            "999999999999", "9999999999999999", "1700000000000\n"};
        for (String value : odd)
            equal(null, Stamp.read(value, SERVER_MS));
        equal(SERVER_MS, Stamp.read(Long.toString(SERVER_MS), SERVER_MS).endMs);
    }

    private Attempt.Outcome find(int phase, String value, long leftMs, long serverMs, boolean known) {
        return attempt(phase).judge(taken(0, value, leftMs, serverMs, known), START, at(1));
    }

    public void a_stamp_is_free_after_M_and_L() {
        String stamp = Long.toString(SERVER_MS);
        long free = SERVER_MS + 1 + rules.skewMs + rules.delayMs;
        for (int phase = 0; phase < 3; phase++) {
            equal(Attempt.Outcome.BUSY, find(phase, stamp, -1, free, false));
            equal(Attempt.Outcome.AGAIN, find(phase, stamp, -1, free + 1, false));
        }
        equal(Attempt.Outcome.BUSY, find(Phase.TOKEN, stamp, -1, free + 1000000, false));
    }

    public void a_stamp_with_a_lifetime_of_its_own_counts_as_held() {
        equal(Attempt.Outcome.BUSY, find(1, Long.toString(SERVER_MS - 100000), 5000, SERVER_MS, false));
        equal(Attempt.Outcome.AGAIN, find(1, Long.toString(SERVER_MS - 100000), 5000, SERVER_MS, true));
    }

    public void odd_values_count_as_held() {
        for (String value : new String[] {null, "", "1", "locked", TOKEN, "12345"})
            equal(Attempt.Outcome.BUSY, find(1, value, -1, SERVER_MS, false));
    }

    public void a_free_stamp_is_replaced_by_its_exact_bytes_and_not_twice_the_same() {
        Attempt attempt = attempt(1);
        String stamp = Long.toString(SERVER_MS - 100000);
        attempt.judge(taken(0, stamp, -1, SERVER_MS, false), START, at(1));
        Request request = attempt.request(clock, at(1), 5000 * MS);
        equal("=" + stamp, text(request.args.get(8)));
        equal(Attempt.Outcome.BUSY, attempt.judge(taken(0, stamp, -1, SERVER_MS, true), START, at(1)));
    }

    public void an_attempt_ends_though_others_change_the_stamp() {
        Attempt attempt = attempt(1);
        for (int i = 0; i < Attempt.ROUNDS; i++)
            equal(Attempt.Outcome.AGAIN, attempt.judge(taken(0, "" + (SERVER_MS - 100000 - i), -1, SERVER_MS, false), START, at(1)));
        equal(Attempt.Outcome.BUSY, attempt.judge(taken(0, "" + (SERVER_MS - 90000), -1, SERVER_MS, false), START, at(1)));
    }

    // ---- holds ----

    public void a_fresh_stamp_counts_from_its_request_and_spares_2M_and_L() {
        Attempt attempt = attempt(1);
        String stamp = Long.toString(SERVER_MS + 60000);
        equal(Attempt.Outcome.HELD, attempt.judge(taken(1, stamp, 3660000, SERVER_MS, true), START, at(700)));
        equal(46903L, attempt.proof.leftNs(START) / MS);
        equal(46203L, attempt.proof.leftNs(at(700)) / MS);
        equal(SERVER_US, attempt.fence);
    }

    public void a_stamp_that_was_set_earlier_counts_for_less() {
        Attempt attempt = attempt(1);
        attempt.judge(taken(1, Long.toString(SERVER_MS + 30000), 3660000, SERVER_MS, true), START, at(1));
        equal(Rates.leastOfMs(29000), attempt.proof.leftNs(START));
    }

    public void a_token_counts_for_what_is_left_of_its_key() {
        for (int phase = 2; phase < 4; phase++) {
            Attempt attempt = attempt(phase);
            equal(Attempt.Outcome.HELD, attempt.judge(taken(1, TOKEN, 10000, SERVER_MS, true), START, at(1)));
            equal(Rates.leastOfMs(10000), attempt.proof.leftNs(START));
            attempt.judge(Long.toString(SERVER_US), START, at(1));
            equal(Rates.leastOfMs(60000), attempt.proof.leftNs(START));
            equal(SERVER_US, attempt.fence);
        }
    }

    public void a_key_that_expired_while_the_script_ran_counts_for_nothing() {
        equal(0L, Proof.ofToken(rules, START, -2, SERVER_US).leftNs(START));
        equal(Rates.leastOfMs(60000), Proof.ofToken(rules, START, -1, SERVER_US).leftNs(START));
    }

    public void what_another_phase_would_write_is_malformed() {
        thrown(() -> attempt(1).judge(Long.toString(SERVER_US), START, at(1)));
        thrown(() -> attempt(2).judge(taken(1, "" + (SERVER_MS + 60000), 1, SERVER_MS, true), START, at(1)));
        thrown(() -> attempt(3).judge(null, START, at(1)));
        thrown(() -> attempt(3).judge("OK", START, at(1)));
        thrown(() -> attempt(3).judge(Arrays.asList(1L), START, at(1)));
    }

    public void a_server_that_checks_no_limit_is_refused() {
        List<Object> reply = taken(1, TOKEN, 60000, SERVER_MS, true);
        reply.set(6, 0L);
        check(thrown(() -> attempt(3).judge(reply, START, at(1))).contains("3.2"), "it names the version");
    }

    public void a_clock_before_2001_is_refused() {
        ServerClock early = new ServerClock(1000000, START, START);
        check(thrown(() -> attempt(1).request(early, START, MS)).contains("2001"), "it says why");
    }

    // ---- renewing ----

    private Proof stamped() {
        return Proof.ofStamp(rules, START, at(2), SERVER_MS + 60000, SERVER_US, null);
    }

    private Renewal renewal(Proof before, boolean drains) {
        return new Renewal(rules, keys, token, "host 1 java", 7, before, drains, false);
    }

    public void a_cap_ends_with_a_renewal_that_is_asked_after_L() {
        long endMs = SERVER_MS + 80000, serverUs = SERVER_US + 20000000;
        long ofL = Rates.most(rules.delayMs * MS) / MS + 3;
        Proof soon = Proof.ofStamp(rules, at(ofL - 2), at(ofL), endMs, serverUs, stamped());
        Proof later = Proof.ofStamp(rules, at(ofL + 2), at(ofL + 3), endMs, serverUs, stamped());
        equal(46903L, soon.leftNs(START) / MS);
        check(later.leftNs(START) > 47500 * MS, "the cap is lifted");
    }

    public void a_renewal_of_a_token_counts_from_its_request() {
        Renewal renewal = renewal(Proof.ofToken(rules, START, 60000, SERVER_US), false);
        equal(Renewal.Outcome.KEPT, renewal.judge(renewed(1, TOKEN, 60000, SERVER_MS), at(100), at(900)));
        equal(Rates.leastOfMs(60000) - 800 * MS, renewal.proof.leftNs(at(900)));
    }

    public void a_drain_turns_a_stamp_into_a_token() {
        Renewal renewal = renewal(stamped(), true);
        Request request = renewal.request(clock, at(1), 5000 * MS);
        equal(TOKEN, text(request.args.get(4)));
        equal("60000", text(request.args.get(6)));
        equal(Renewal.Outcome.KEPT, renewal.judge(renewed(1, TOKEN, 60000, SERVER_MS), at(1), at(2)));
        check(renewal.proof.isToken, "it is a token's proof");
    }

    public void a_losers_stamp_is_replaced_and_a_thiefs_is_a_loss() {
        long losers = SERVER_MS + rules.skewMs + rules.legacyMs;
        Renewal renewal = renewal(stamped(), false);
        equal(Renewal.Outcome.AGAIN, renewal.judge(renewed(0, "" + losers, -1, SERVER_MS + 100), at(50), at(100)));
        Request request = renewal.request(clock, START, 5000 * MS);
        equal("=" + losers, text(request.args.get(8)));
        check(Long.parseLong(text(request.args.get(7))) > SERVER_MS + 60000, "it ends no earlier than its holder believes");
        equal(Renewal.Outcome.LOST, renewal(stamped(), false).judge(renewed(0, "" + (losers + 1), -1, SERVER_MS), at(50), at(100)));
        equal(Renewal.Outcome.LOST, renewal(stamped(), false).judge(renewed(0, "" + losers, -1, SERVER_MS), at(50), at(50000)));
        equal(Renewal.Outcome.LOST, renewal(stamped(), false).judge(renewed(0, TOKEN, -1, SERVER_MS), at(50), at(100)));
    }

    public void after_L_no_stamp_is_a_racing_losers() {
        String losers = "" + (SERVER_MS + rules.legacyMs);
        long ofL = Rates.most(rules.delayMs * MS) / MS + 3;
        Proof soon = Proof.ofStamp(rules, at(ofL - 2), at(ofL), SERVER_MS + 60000, SERVER_US, stamped());
        Proof later = Proof.ofStamp(rules, at(ofL + 2), at(ofL + 3), SERVER_MS + 60000, SERVER_US, stamped());
        equal(Renewal.Outcome.AGAIN, renewal(soon, false).judge(renewed(0, losers, -1, SERVER_MS), at(ofL + 5), at(ofL + 6)));
        equal(Renewal.Outcome.LOST, renewal(later, false).judge(renewed(0, losers, -1, SERVER_MS), at(ofL + 5), at(ofL + 6)));
    }

    public void a_key_that_no_longer_exists_is_a_loss_and_a_late_request_is_none() {
        equal(Renewal.Outcome.LOST, renewal(stamped(), false).judge(renewed(-1, null, -1, SERVER_MS), at(1), at(2)));
        Renewal late = renewal(stamped(), false);
        equal(Renewal.Outcome.AGAIN, late.judge(renewed(-2, null, -1, SERVER_MS), at(1), at(2)));
        equal(Renewal.Outcome.FAILED, late.judge(renewed(-2, null, -1, SERVER_MS), at(3), at(4)));
        Proof token = Proof.ofToken(rules, START, 60000, SERVER_US);
        equal(Renewal.Outcome.LOST, renewal(token, false).judge(renewed(0, "" + SERVER_MS, -1, SERVER_MS), at(1), at(2)));
    }

    private static long limitUs(Request request, int fromEnd) {
        return Long.parseLong(text(request.args.get(request.args.size() - fromEnd)));
    }

    /** Asks with a reading of the clock that is 60 s old, and again by the reply. `fromEnd`: the limit's place. */
    private void askLate(Renewal renewal, int place, List<Object> late) {
        long nowUs = SERVER_US + 60000000;
        check(limitUs(renewal.request(clock, at(60000), 200 * MS), place) < nowUs, "the server refuses it");
        equal(Renewal.Outcome.AGAIN, renewal.judge(late, at(60000), at(60001)));
        equal(nowUs, renewal.serverUs);
        long limitUs = limitUs(renewal.request(new ServerClock(nowUs, at(60000), at(60001)), at(60001), 200 * MS), place);
        check(limitUs > nowUs + 100000 && limitUs < nowUs + 200000, "it executes the second one, within its limit");
    }

    public void a_renewal_that_an_old_reading_of_the_clock_made_late_is_repeated_by_the_reply() {
        Proof token = Proof.ofToken(rules, at(59000), 60000, SERVER_US);
        for (boolean drains : new boolean[] {false, true}) {
            Renewal renewal = renewal(drains ? stamped() : token, drains);
            askLate(renewal, 2, renewed(-2, null, -1, SERVER_MS + 60000));
            equal(Renewal.Outcome.KEPT, renewal.judge(renewed(1, TOKEN, 60000, SERVER_MS + 60001), at(60001), at(60002)));
        }
        Renewal renewal = renewal(token, false);
        askLate(renewal, 2, renewed(-2, null, -1, SERVER_MS + 60000));
        equal(Renewal.Outcome.FAILED, renewal.judge(renewed(-2, null, -1, SERVER_MS + 61000), at(60001), at(61001)));
    }

    public void a_late_replacement_of_a_losers_stamp_is_repeated_by_the_reply() {
        String losers = "" + (SERVER_MS + rules.skewMs + rules.legacyMs);
        for (boolean kept : new boolean[] {false, true}) {
            Renewal renewal = renewal(stamped(), false);
            equal(Renewal.Outcome.AGAIN, renewal.judge(renewed(0, losers, -1, SERVER_MS + 100), at(50), at(100)));
            askLate(renewal, 8, taken(-1, losers, -1, SERVER_MS + 60000, true));
            List<Object> end = kept ? taken(1, "" + (SERVER_MS + 120001), 3660000, SERVER_MS + 60001, true)
                : taken(-1, losers, -1, SERVER_MS + 61000, true);
            equal(kept ? Renewal.Outcome.KEPT : Renewal.Outcome.FAILED, renewal.judge(end, at(60001), at(60002)));
        }
    }

    public void a_hold_that_was_over_is_not_renewed() {
        Hold hold = new Hold(rules, keys, token, 7, Proof.ofToken(rules, START, 1000, SERVER_US), START, false);
        hold.renewed(Proof.ofToken(rules, at(900), 60000, SERVER_US), at(900));
        equal(0L, hold.leftNs(at(900)));
        hold.renewed(Proof.ofToken(rules, at(900), 60000, SERVER_US), at(1)); // a reading of the clock from before that
        equal(0L, hold.leftNs(at(900)));
        Hold longest = new Hold(new Rules(new Options().maxHoldMs(1000)), keys, token, 7,
            Proof.ofToken(rules, START, 60000, SERVER_US), START, false);
        equal(Rates.leastOfMs(1000), longest.leftNs(START));
    }

    // ---- releasing ----

    public void a_release_says_whether_the_lock_lasted() {
        equal(null, Release.judge(rules, 1L, stamped(), at(1)));
        check(Release.judge(rules, -1L, stamped(), at(1)) != null, "it was deleted");
        equal(null, Release.judge(rules, "" + (SERVER_MS + 60500), stamped(), at(1))); // a racing loser's
        check(Release.judge(rules, "" + (SERVER_MS + 61001), stamped(), at(1)) != null, "a thief's");
        check(Release.judge(rules, "" + (SERVER_MS + 60500), stamped(), at(50000)) != null, "it was over");
        check(Release.judge(rules, "1", stamped(), at(1)) != null, "what the key holds is no status");
        check(Release.judge(rules, TOKEN, Proof.ofToken(rules, START, 60000, SERVER_US), at(1)) != null, "another's token");
    }

    // ---- the phase ----

    private Object register(long phase, long epoch, long leaseMs) {
        return Arrays.<Object>asList(phase, epoch, leaseMs, "1700000000", "5", -1L);
    }

    private Lease lease(long phase, long epoch, long leaseMs) {
        return Lease.UNREAD.read(rules, register(phase, epoch, leaseMs), at(1000), at(3000));
    }

    public void a_lease_counts_from_before_it_was_asked_for_and_spares_M() {
        Lease lease = lease(1, 1, 30000);
        equal(Rates.leastOfMs(30000) - 1000 * MS, lease.leftNs(rules, at(1000)));
        check(lease.lasts(rules, at(3000)), "it lasts");
        long quarter = 1000 + Rates.leastOfMs(30000) / MS - 7500;
        check(lease.lasts(rules, at(quarter - 2)) && !lease.lasts(rules, at(quarter + 2)), "for all but a quarter");
        check(!Lease.UNREAD.lasts(rules, at(0)) && Lease.UNREAD.leftNs(rules, at(0)) == 0, "none was read");
    }

    public void a_lease_of_less_than_2M_is_too_short() {
        check(lease(1, 1, 1999).isTooShort(rules), "its register must have a longer one");
        check(!lease(1, 1, 2000).isTooShort(rules) && !Lease.UNREAD.isTooShort(rules), "not too short");
    }

    public void without_a_register_the_bridge_counts() {
        Lease lease = lease(-1, 0, 30000);
        equal(1, lease.acts());
        equal(-1, lease.phase);
        check(lease.lasts(rules, at(3000)), "under a lease, too");
    }

    public void an_older_epoch_or_none_is_refused() {
        Lease known = lease(2, 5, 30000);
        check(thrown(() -> known.read(rules, register(1, 4, 30000), at(3001), at(3002))).contains("lost writes"), "older");
        check(thrown(() -> known.read(rules, register(-1, 0, 30000), at(3001), at(3002))).contains("no longer exists"), "none");
        equal(null, known.read(rules, register(1, 4, 30000), at(2999), at(3002))); // it may have been read before
        equal(6L, known.newer(known.read(rules, register(3, 6, 30000), at(2000), at(2001)), at(3002)).epoch);
    }

    public void a_register_that_is_out_of_range_is_refused() {
        long[][] odd = {{-2, 0, 1000}, {4, 1, 1000}, {1, 0, 1000}, {-1, 1, 1000}, {1, 1, 0}, {1, 1, 30001}};
        for (long[] each : odd)
            check(thrown(() -> lease(each[0], each[1], each[2])).contains("can't be read"), Arrays.toString(each));
    }

    public void a_reader_says_for_how_long_it_may_still_act() {
        List<byte[]> args = lease(2, 5, 30000).args(rules, token, "0-java h 1 s", clock, at(3000));
        check(Long.parseLong(text(args.get(5))) >= 24000, "the former lease");
        equal("5", text(args.get(6)));
        equal("2", text(args.get(7)));
        equal("0", text(Lease.UNREAD.args(rules, token, "0-java h 1 s", null, at(3000)).get(5)));
    }

    // ---- in a cluster ----

    public void a_register_of_a_slot_has_a_phase_and_an_epoch() {
        equal(2, slot("2 1700000000000000").acts());
        equal(1700000000000000L, slot("2 1700000000000000").epoch);
        equal(1, slot("").acts());
        equal(Phase.NONE, slot("").phase);
        equal(9007199254740991L, slot("0 9007199254740991").epoch);
        String[] odd = {null, " ", "4 1", "1", "1 ", "1 0", "1 01", "1  1", "1 1 ", "1 -1", "-1 1", "1 x", "1 1\n",
            "1 9007199254740992", "1 99999999999999999999"};
        for (String reads : odd)
            check(thrown(() -> slot(reads)).contains("can't be read"), reads);
    }

    public void an_older_register_than_another_slots_allows_no_more_than_that_one() {
        SlotPhase older = slot("2 5").limitedBy(slot("1 6"));
        equal(1, older.acts());
        equal("2 5", older.condition());
        equal(2, slot("2 6").limitedBy(slot("1 6")).acts());
        equal(2, slot("2 5").limitedBy(slot("3 6")).acts());
        equal(1, slot("").limitedBy(slot("0 6")).acts());
        equal(3, slot("3 7").limitedBy(slot("1 6")).acts());
    }

    public void an_acquire_carries_what_the_register_must_hold() {
        for (String reads : new String[] {"", "0 5", "1 5", "2 5", "3 5"}) {
            Request request = new Attempt(rules, keys, token, "host 1 java", slot(reads)).request(clock, START, MS);
            equal(5, request.keys.size());
            equal(text(keys.register(rules)), text(request.keys.get(4)));
            equal(12, request.args.size());
            equal("", text(request.args.get(10)));
            equal(reads, text(request.args.get(11)));
        }
    }

    public void a_stamp_in_a_cluster_expires_soon_after_it_is_free_for_all() {
        Request request = new Attempt(rules, keys, token, "host 1 java", slot("1 5")).request(clock, START, MS);
        equal("63500", text(request.args.get(1)));
        Renewal renewal = new Renewal(rules, keys, token, "host 1 java", 7, stamped(), false, true);
        equal("63500", text(renewal.request(clock, START, MS).args.get(5)));
        equal("3660000", text(renewal(stamped(), false).request(clock, START, MS).args.get(5)));
    }

    public void a_register_that_differs_is_told_and_acquires_nothing() {
        Attempt attempt = new Attempt(rules, keys, token, "host 1 java", slot("1 5"));
        equal(Attempt.Outcome.DIFFERS, attempt.judge(differs("2 6"), START, at(1)));
        equal("2 6", attempt.found);
        equal(null, attempt.proof);
        equal(Attempt.Outcome.DIFFERS, attempt.judge(differs(""), START, at(1)));
        equal("", attempt.found);
        thrown(() -> attempt(1).judge(differs("2 6"), START, at(1))); // nothing was asked of a register
        thrown(() -> attempt.judge(differs(null), START, at(1)));
    }

    public void no_lease_limits_an_acquire_in_a_cluster() {
        equal(Long.MAX_VALUE, slot("1 5").leftNs(rules, at(1000000)));
    }

    public void a_waiter_carries_what_the_register_must_hold() {
        Entry entry = new Entry(rules, keys, token, "host 1 java");
        Request request = entry.request(clock, START, MS, "3 5");
        equal(5, request.keys.size());
        equal(9, request.args.size());
        equal("3 5", text(request.args.get(8)));
        equal(0L, entry.judge(Arrays.<Object>asList(-6L, "2 6"), START));
        equal("2 6", entry.found);
        equal(null, entry.proof);
        equal(4, entry.request(clock, START, MS, null).keys.size());
    }

    public static void main(String[] args) throws Exception {
        Checks.run(new PureTests());
    }
}
