/* What if phases 2 and 3 took their tokens with the server's own SET NX PX, which knows no not_after?
 *
 * This is pair.pml where a request may be under way for LIMIT ticks, and the leases of phase 2 may end
 * and Java begin meanwhile. By script, as pair.pml has it, the request is refused then. NATIVE is the
 * server's own command: executed whenever it arrives, S read but not written (the first keep writes it). Repeated
 * takes go by script. Another client may pass by, which takes a free stamp over and releases at once.
 *
 *   CHECKED  an answer that comes after the end of the lease isn't believed; what was taken is given back
 */

/*
 * Lessons (traces/pairn-...): clients under a lease of the phase take by script, since SET NX PX has no not_after.
 * - native: a token that appears after Java has begun is overwritten by a GETSET that loses. The next Java client
 *   takes that stamp when it expires, and the token's holder still relies on its lock.
 * - native-checked: checking the lease again when the answer arrives does not help. The answer is lost, the take is
 *   repeated under a new lease, and the token is already its own.
 * - native-left: a token without a holder stays, and Java throws on it.
 */
#define PAIRN
#define CLEAN 3 /* no token appears in K once Java may begin */
#include "pair.pml"
