/* What if phases 2 and 3 took their tokens with the server's own SET NX PX, which knows no not_after?
 *
 * This is pair.pml where a request may be under way for LIMIT ticks, and the leases of phase 2 may end
 * and Java begin meanwhile. By script, as pair.pml has it, the request is refused then. NATIVE is the
 * server's own command: executed whenever it arrives, S read but not written (the first keep writes it). Repeated
 * takes go by script. Another client may pass by, which takes a free stamp over and releases at once.
 *
 *   CHECKED  an answer that comes after the end of the lease isn't believed; what was taken is given back
 */
#define PAIRN
#define CLEAN 3 /* no token appears in K once Java may begin */
#include "pair.pml"
