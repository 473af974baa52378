/*
 * The style of a page, and its only script: constant text, with no result in it.
 */
#pragma once

extern const char skew_look_style[];

/** The signs of the verdicts and the patterns of kinds, drawn once. */
extern const char skew_look_symbols[];

/** Compares the page's time with the browser's, and shows when the page is stale. Makes no
 *  request. */
extern const char skew_look_script[];

/** The script's hash, so that the page can forbid all others: sha256, base64. */
extern const char skew_look_script_hash[];
