/*
 * Reading the reply to INFO: lines of "name:value". Their sections differ with the server's version.
 */
#pragma once

#include "transport/conn.h" /* tl_bytes */

/** The value of a line, as a C string of printable bytes; false: there is no line of that name. */
bool info_field(tl_bytes info, const char *name, char *to, size_t size);

/** "Redis 2.4.18", "Valkey 8.0.1" (which also calls itself Redis 7.2, for older client libraries), "Dragonfly
 *  df-v1.40.1". False: INFO has no version. */
#define INFO_PRODUCT_SIZE 64
bool info_product(tl_bytes info, char to[INFO_PRODUCT_SIZE]);
