/*
 * A reply as a line for people: +OK  :1  $text  -ERR no  nil  [:1 $x]. Bytes that can't be printed
 * are \xff. What is too long ends in "…".
 */
#pragma once

#include "wire/reply.h"

#define FAKE_SHOW_SIZE 4096

/** NULL is shown as "pushed". Returns text. */
const char *fake_show(const tl_reply *reply, char text[FAKE_SHOW_SIZE]);
