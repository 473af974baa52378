/*
 * The command is compiled with few slots here: thousands of worlds are played in the time that one of 16,384 slots
 * takes, and nothing in it depends on their number.
 */
#pragma once

#include "wire/keys.h"

#undef TL_SLOTS
#define TL_SLOTS 16
