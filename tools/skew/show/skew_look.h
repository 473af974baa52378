/*
 * How a page looks, and the one script that it may run: constant text, without any result in it.
 */
#pragma once

extern const char skew_look_style[];

/** The signs of the verdicts and the patterns of kinds, drawn once. */
extern const char skew_look_symbols[];

/** Compares the page's time with the browser's, and says when the page is stale. It asks nobody. */
extern const char skew_look_script[];

/** Of the script, so that a page may forbid every other: sha256, base64. */
extern const char skew_look_script_hash[];
