/*
 * When to wait without sleeping. It learns by trial. The time that a reply takes while the caller sleeps is
 * no measure, since most of it is the time to wake up. Pure.
 */
#include "ground/spin.h"

int64_t tl__spin_ns(tl_spin *spin, unsigned others) {
    if (others >= TL_SPINNERS_MAX)
        return 0;
    if (spin->rest == 0)
        return TL_SPIN_NS;
    spin->rest--;
    return 0;
}

void tl__spin_learn(tl_spin *spin, bool there) {
    if (there) {
        spin->miss /= 2;
        return;
    }
    unsigned miss = spin->miss ? spin->miss * 2U : 1;
    spin->miss = (uint16_t)(miss < TL_SPIN_REST_MAX ? miss : TL_SPIN_REST_MAX);
    spin->rest = spin->miss;
}
