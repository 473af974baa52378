package io.tidelock;

/** A reply of acquire.lua. As tl__sidecar_acquired(). */
final class AcquireReply {
    static final long DIFFERS = -6; // the register of the slot does; nothing was changed

    private static final long FENCE_END = 1L << 53;

    final long status;
    final String value; // K's; null: it is absent, or no text. To a condition that does not hold: what is there
    final long leftMs;
    final long serverUs;
    final long fence;
    final boolean known; // S has K's value

    AcquireReply(Rules rules, byte[] token, Object reply) {
        boolean usual = Reply.isNumber(reply); // then a token has all its lifetime, and the fence is the server's time
        status = usual ? 1 : Reply.number(Reply.item(reply, 0));
        value = usual ? Reply.text(token) : Reply.text(Reply.item(reply, 1));
        leftMs = usual ? rules.lifetimeMs : Reply.number(Reply.item(reply, 2));
        fence = Reply.number(usual ? reply : Reply.item(reply, 3));
        serverUs = usual ? fence : Reply.timeUs(reply, 4);
        known = usual || Reply.number(Reply.item(reply, 7)) == 1;
        if (!usual && Reply.number(Reply.item(reply, 6)) != 1)
            throw new TidelockException("the server is older than Redis 3.2: it can't check how late a request is");
        if ((status < -2 && status != DIFFERS) || status > 1 || (status == 1 && (fence < 1 || fence >= FENCE_END)))
            throw Reply.malformed();
    }

    /** The proof of a hold that this reply says is the token's. */
    Proof proof(Rules rules, byte[] token, Moment asked, Moment received, Proof before) {
        if (Reply.text(token).equals(value))
            return Proof.ofToken(rules, asked, leftMs, serverUs);
        Stamp stamp = Stamp.read(value, serverUs / 1000 + 1);
        if (stamp == null)
            throw Reply.malformed();
        return Proof.ofStamp(rules, asked, received, stamp.endMs, serverUs, before);
    }
}
