/* Phases in a Redis Cluster: a register in each slot, judged by the script that acquires.
 *
 * Each slot has its own register: an epoch, and whether tokens may be written there. A client
 * sends what it believes of it with each take. The master executes the take only if the register
 * says exactly that. Else the client learns what it says, and takes again by that. So the take is
 * judged where it is executed, and nothing depends on when it was sent: there are no leases.
 *
 * A stamp is safe in each phase: bridge.pml has it beside Java, pair.pml beside tokens. So the
 * rules are about tokens alone. A token may not be written, nor be left, while Java may run.
 *
 * Java may run from the tool's word until it was stopped, which the tool's evidence shows (assumed
 * here, requests in flight included). The tool goes up (tokens may be written) and down, slot by slot.
 * It can die at any moment; another begins with what it finds. Each write is a compare-and-set of
 * the epoch, and may be in flight for any time. Each slot's replica follows late. Failovers
 * lose what it doesn't have. A master that was replaced may wake, and execute takes once more.
 *
 * C is a client in detail, whose take can be in flight for any time. The fresh client's take is executed as
 * soon as it is sent. A register that is gone forbids tokens, so nothing is lost with it but time.
 *
 * Broken on purpose, one guard each:
 *   NO_CONDITION  a take is executed whatever the register says
 *   NO_WAIT       the tool doesn't wait for the replica, or another replica takes over
 *   NO_BEYOND     the tool writes nothing into a slot that forbids tokens already
 *   NO_SCAN       the tool doesn't look for tokens that are left
 *   NO_LAST_WAIT  the tool doesn't wait for the replica after its look
 *   EARLY         the tool writes before it knows that Java has stopped
 *   UNCONFIRMED   the reply of a woken master counts
 *   REUSED        the tool counts from the highest epoch that it finds
 * Sizes: RUNS - 1 runs of the tool, FAILOVERS; NO_FRESH leaves the fresh client out.
 */

/*
 * Lessons (traces/phaseslot-...).
 * - no-condition: a take that was sent while tokens were allowed is executed after Java has started.
 * - no-wait: a failover undoes the register's last change in one slot. So all servers that may take over must
 *   have it before Java starts. On one server the same holds for the one register.
 * - no-beyond: a tool dies while its write is in flight. The slot looks untouched, and is skipped by the next
 *   tool. The write comes after Java has started. So a step down writes every slot, with a new epoch.
 * - reused: a dead tool's write comes late, after a failover undid the step down that it followed. The next tool
 *   counts on from what it finds, and gives the epoch that the write expects. So an epoch is a time, not a count.
 * - no-scan, no-last-wait: tokens that are left. A replica may still have a token that its master has released.
 */
#include "time.pml"

#ifndef RUNS
#define RUNS 4
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#define S 2 /* slots, each on its own master */

/* claims */
#define TAKEN 1 /* no token is written while Java may run */
#define LEFT 2  /* no key has a token while Java may run */

/* events that must be possible */
#define UP_AGAIN 1
#define WORD 2
#define DIFFERS 3
#define FELL_BACK 4
#define LATE 5
#define DIED 6

typedef server { byte ep; bool ok; bool token };
server M[S], R[S], W[S]; /* master, replica, the master before that may wake */
bool woken[S];
byte sent[S], sets[S];   /* a write of a step up in flight: the epoch that it expects, and the one that it sets; 0: none */
byte runs, failovers;
bool java = true;
byte take[S]; /* C's take in flight: 1 + the epoch that it expects, of a register that allows tokens; 0: none */

inline execute(s)
{
    claim(TAKEN, !java, "a token is written while Java may run");
    M[s].token = true
}
#ifdef NO_CONDITION
#define FITS(s) true
#else
#define FITS(s) (M[s].ok && take[s] == 1 + M[s].ep)
#endif

proctype client(byte s)
{
    do
    :: atomic { take[s] == 0 && M[s].ok -> take[s] = 1 + M[s].ep;
           printf("[%d] C sends slot %d a token, for epoch %d\n", hour, s, M[s].ep) }
    :: atomic { take[s] != 0 && FITS(s) -> printf("[%d] slot %d: C's token is written\n", hour, s);
           take[s] = 0; execute(s) }
    :: atomic { take[s] != 0 && !FITS(s) -> seen(DIFFERS, "a take finds another register"); take[s] = 0 }
    :: atomic { take[s] != 0 -> take[s] = 0 } /* lost */
    :: atomic { M[s].token -> M[s].token = false; printf("[%d] slot %d: the token is released\n", hour, s) }
    :: atomic { woken[s] && W[s].ok -> printf("[%d] slot %d: the woken master writes a token\n", hour, s);
#ifdef UNCONFIRMED
           claim(TAKEN, !java, "a token at a woken master counts while Java may run")
#else
           skip
#endif
           ; woken[s] = false }
    od
}

#ifndef NO_FRESH
proctype fresh(byte s)
{
    do
    :: atomic { M[s].ok && !M[s].token -> printf("[%d] slot %d: a fresh client's token is written\n", hour, s); execute(s) }
    od
}
#endif

proctype replica(byte s)
{
    do
    :: d_step { R[s].ep != M[s].ep || R[s].ok != M[s].ok || R[s].token != M[s].token ->
           R[s].ep = M[s].ep; R[s].ok = M[s].ok; R[s].token = M[s].token;
           printf("[%d] slot %d: the replica has caught up\n", hour, s) }
    :: atomic { failovers < FAILOVERS ->
           failovers++;
           if :: R[s].ep < M[s].ep -> seen(FELL_BACK, "a failover undoes a change of the register") :: else fi;
           W[s].ok = M[s].ok; woken[s] = true;
           M[s].ep = R[s].ep; M[s].ok = R[s].ok; M[s].token = R[s].token;
           printf("[%d] slot %d: failover: the register has epoch %d\n", hour, s, M[s].ep);
           if :: java && M[s].token -> claim(LEFT, false, "a failover brings a token back while Java may run") :: else fi }
    od
}

/* writes of steps up that are in flight */
proctype net(byte s)
{
    do
    :: atomic { sent[s] != 0 && sent[s] == M[s].ep && !M[s].ok ->
           if :: java && SEE == LATE -> seen(LATE, "a write comes after the word") :: else fi;
           M[s].ep = sets[s]; M[s].ok = true; sent[s] = 0; sets[s] = 0;
           printf("[%d] slot %d: tokens are allowed, epoch %d\n", hour, s, M[s].ep) }
    :: atomic { sent[s] != 0 && (sent[s] != M[s].ep || M[s].ok) -> sent[s] = 0; sets[s] = 0 } /* it compares */
    :: atomic { sent[s] != 0 -> sent[s] = 0; sets[s] = 0 } /* lost */
    od
}

#define SAME(s) (R[s].ep == M[s].ep && R[s].ok == M[s].ok)
#ifdef NO_WAIT
#define WAITED(s) true
#else
#define WAITED(s) SAME(s)
#endif
#if defined NO_WAIT || defined NO_LAST_WAIT
#define WAITED_LAST(s) true
#else
#define WAITED_LAST(s) (SAME(s) && R[s].token == M[s].token)
#endif
#ifdef NO_BEYOND
#define DONE(s) (!M[s].ok)
#else
#define DONE(s) (!M[s].ok && M[s].ep == to)
#endif
#ifdef NO_SCAN
#define NO_TOKEN(s) true
#else
#define NO_TOKEN(s) (!M[s].token)
#endif
#ifdef REUSED
#define NEXT (1 + MAX(M[0].ep, M[1].ep))
#else
#define NEXT (1 + runs)
#endif

proctype tool()
{
    byte s, to;
begin:
    s = 0; to = 0;
    if
    /* up: Java has stopped, and the evidence says so; then each slot by its epoch */
    :: atomic { runs < RUNS -> runs++; to = NEXT;
#ifndef EARLY
           java = false;
           printf("[%d] Java has stopped, and the tool knows\n", hour);
#endif
           if :: runs > 2 -> seen(UP_AGAIN, "another step up") :: else fi };
        do
        :: atomic { s < S && !M[s].ok ->
               sent[s] = M[s].ep; sets[s] = to;
               printf("[%d] the tool sends slot %d epoch %d, tokens allowed\n", hour, s, to); s++ }
        :: atomic { s < S && M[s].ok -> s++ }
        :: atomic { s < S -> seen(DIED, "the tool dies midway"); printf("[%d] the tool dies\n", hour); goto begin }
        :: atomic { s == S -> java = false; goto begin }
        od
    /* down: each slot gets an epoch that no register had before */
    :: atomic { runs < RUNS && !java -> runs++; to = NEXT; printf("[%d] the tool goes down, to epoch %d\n", hour, to) };
        do
        :: atomic { s < S && !DONE(s) -> M[s].ep = to; M[s].ok = false; printf("[%d] slot %d: no tokens, epoch %d\n", hour, s, to) }
        :: atomic { s < S && DONE(s) && WAITED(s) -> s++ }
        :: atomic { s < S -> printf("[%d] the tool dies\n", hour); goto begin }
        :: s == S -> break
        od;
        s = 0;
        do
        :: atomic { s < S && NO_TOKEN(s) && WAITED_LAST(s) -> printf("[%d] slot %d: no token is left\n", hour, s); s++ }
        :: atomic { s < S -> printf("[%d] the tool dies\n", hour); goto begin }
        :: s == S -> break
        od;
        atomic {
            java = true; seen(WORD, "Java may start");
            printf("[%d] the tool says that Java may start\n", hour);
            claim(LEFT, !M[0].token && !M[1].token, "a token is left when Java may start")
        };
        goto begin
    :: runs == RUNS -> goto begin
    fi
}

init
{
    byte s;
    atomic {
        for (s : 0 .. S - 1) {
            M[s].ep = 1; R[s].ep = 1;
            run client(s); run replica(s); run net(s);
#ifndef NO_FRESH
            run fresh(s);
#endif
        }
        runs = 1; /* the register's first epoch */
        run tool()
    }
}
