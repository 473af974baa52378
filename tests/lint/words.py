#!/usr/bin/env python3
"""Retired words, sentences without an actor as their subject, sentences that are too long, lines that are too wide.

Usage: words.py [ROOT]    each finding is one line, FILE:LINE: "found": say ...

Of C it reads comments and string literals, so names in code may be what they are; of pages the text without code.
"""
import os
import re
import sys

# What to find (a regular expression, in any case, between word boundaries) = what to say instead.
EVERYWHERE = r"""
old kind(s)? = legacy
old clients? = legacy client
robb(ed|er|ers|ery|eries|ing)|robs? = stolen, overwritten, lost
under way = in flight; of an operation: in progress
makes? no sense = malformed
strange answer = malformed reply
(without a|no|a) word to (a|the) server = request
without a word = printed nothing, silently
something is missing = KEY is missing
there is none (called|with number) = unknown
the server to ask any more = the master
led across = migrated
gets? on with = compatible
(take|takes|took|taken|taking) ((a|an|the|no|this|these|that|those|any|its|his|such|all|some|another|your|one|other|of) )?((held|legacy|other) )?locks? = acquire
locks? (that )?(is|are|was|were|be|has been|had been|can be) taken = acquired
"""
# In what users and readers of the code read: all but the tests' own comments.
SHIPPED = r"""
(stands?|standing|stood) in (the |a )?line|in line = queue, in the queue
(end|front|head|length|order) of the line|line of waiters|the line's = queue
who(ever)? waits|those (who|that) wait|all (who|that) wait = a waiter, the waiters
who(ever)? holds( it)?|who(ever)? has it = the holder
(comes?|came|coming) to the front = becomes first in the queue
(is|are|was|were|be|been|being) (not )?had|to be had = acquired, available, supported
mends?|mended|mending = fix
(give|gives|giving|given|gave) (it |them |the lock |a lock |up the lock )?back = release
gets? (it|them) back = acquire again
told|tells? (it|them|him|whoever|who|the client|the caller|those|all|of) = report, notify, know
hears?|heard = is notified, receives
(is|are|was|were) minded|minds = watch, handle
(is|are|was|were|be) gone = no longer exists; expired
(is|are|was|were|be) away = unavailable, unreachable
gets? round to = does it later
adds nothing = requires
found what they assume = a timing assumption failed
(keep|keeps|kept|keeping) (the|a|its|their|his|this|that|each|every) (held )?locks? = renew, hold
nobody answers = unreachable
"""
LEFT = re.compile(r"taken (over|from|back|for)|lock (from|over|back|away)|told apart", re.I)
NOT_READ = re.compile(
    r"^build/|^\.git/"
    r"|^tests/lint/(test_)?words\.|^tests/wire/.*\.(wire|c|h)$|^tests/model/|^tests/fuzz/corpus/|^tests/unit/golden/old_scripts\."  # data, or the words themselves
    r"|\.lua$"  # a comment behind code is part of what the SHA1 is of
)
HISTORY = re.compile(r"(^|/)CHANGELOG\.md$")
MOST_WORDS = 30
# Which files may be how wide.
WIDTHS = [(re.compile(r"^include/"), 100), (re.compile(r"\.md$|^\.github/"), 110)]
WIDE = re.compile(r"(^|/)(CHANGELOG|RESULTS)\.md$")  # history; generated


def rules(table):
    found = []
    for line in table.strip().splitlines():
        pattern, say = line.rsplit(" = ", 1)
        found.append((re.compile(r"(?<![a-z_.>-])(" + pattern + r")(?![a-z_-])", re.I), say))
    return found


RULES_EVERYWHERE, RULES_SHIPPED = rules(EVERYWHERE), rules(SHIPPED)
SUBJECT = re.compile(r"(?:^|[.!?] )((?:Who|Whoever|What|Whatever|Whose)\b(?![^.!?]*\?)[^.!?]{0,30})")
TOKEN = re.compile(r"//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/|\"(?P<string>(?:\\.|[^\"\\\n])*)\"|'(?:\\.|[^'\\\n])*'", re.S)


def of_c(text):
    """(line, text, is it a message) of comments and string literals. Strings that follow each other are one."""
    pieces, end = [], None
    for match in TOKEN.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        if match["string"] is not None:
            part = re.sub(r"\\n(?= {2}|\\n|[-*])", "\n", match["string"])  # a list, or a paragraph
            part = re.sub(r"\\n$", "\n", part).replace("\\n", " ")
            part = re.sub(r'" PRI[a-z0-9A-Z]+ "', "", part)
            if pieces and pieces[-1][2] and end is not None and not text[end : match.start()].strip():
                pieces[-1] = (pieces[-1][0], pieces[-1][1] + part, True)
            else:
                pieces.append((number, part, True))
            end = match.end()
        elif match["line"] is not None or match["block"] is not None:
            for n, line in enumerate((match["line"] or match["block"] or "").split("\n")):
                line = re.sub(r"^\s*[*/!<]* ?", "", line).rstrip()
                pieces.append((number + n, re.sub(r"`[^`]*`", "X", line), False))
            end = None
    return pieces


def of_page(text):
    """(line, text) without code; an empty text between paragraphs, list items and rows of tables."""
    pieces, code = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            code = not code
        if code or line.startswith("```") or re.match(r"    (?! *[-*\d])|\t\t", line):
            pieces.append((number, ""))
            continue
        if re.match(r"\s*([|:\]\[#]|[-*+] |\d+\. |\*[^ ]|_)", line):
            pieces.append((number, ""))
        pieces.append((number, re.sub(r"`[^`]*`", "X", line).strip()))
        if re.match(r"[|:\]\[#]", line):
            pieces.append((number, ""))
    return pieces


def sentences(pieces):
    """(line, words) of each sentence."""
    words, start = [], 0
    for number, text in pieces + [(0, "")]:
        if not text and words:
            yield start, words
            words = []
        for word in text.split():
            start = start if words else number
            words.append(word)
            if re.search(r"[.!?:;][)\"'*_]*$", word):
                yield start, words
                words = []


def look(name, text):
    shipped = not name.startswith("tests/") and not HISTORY.search(name)
    page = name.endswith((".md", ".scd"))
    shipped = shipped or (page and not HISTORY.search(name))
    code = re.search(r"\.([ch]|[ch]pp)$", name)
    if code:
        pieces = of_c(text)
    elif page:
        pieces = [(n, t, True) for n, t in of_page(text)]
    else:
        pieces = [(n, t, False) for n, t in enumerate(text.split("\n"), 1)]
        shipped = False
    for number, line, _ in pieces:
        for rule, say in RULES_EVERYWHERE + (RULES_SHIPPED if shipped else []):
            for match in rule.finditer(line):
                if not LEFT.search(line[max(0, match.start() - 12) : match.end() + 12]):
                    yield number, f'"{match[1].strip()}": say {say}'
        if shipped:
            for match in SUBJECT.finditer(line):
                yield number, f'"{match[1]}": name the actor as the subject'
    if shipped:
        prose = [(n, t) for n, t, message in pieces if message]
        if code:
            prose = [pair for n, t in prose for part in t.split("\n") for pair in ((n, part), (n, ""))]
        for number, words in sentences(prose):
            count = sum(1 for word in words if re.search("[A-Za-z]", word))
            if count > MOST_WORDS and not re.search(r"[{}<=]", " ".join(words)):  # code in a string
                yield number, f"a sentence of {count} words: {' '.join(words[:5])} ..."
    for pattern, most in WIDTHS:
        if pattern.search(name) and not WIDE.search(name):
            written = False  # by a command: a table between <!-- NAME --> and <!-- /NAME -->
            for number, line in enumerate(text.split("\n"), 1):
                mark = re.fullmatch("<!-- (/?)[a-z]+ -->", line)
                written = not mark[1] if mark else written
                if len(line) > most and not written:
                    yield number, f"{len(line)} columns, more than {most}"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    os.chdir(root)
    found = 0
    for top in ("src", "compat", "tools", "include", "tests", ".github", ".ci", "README.md"):
        names = [top] if os.path.isfile(top) else [os.path.join(d, f) for d, _, files in os.walk(top) for f in files]
        for name in sorted(names):
            if NOT_READ.search(name) or not re.search(r"\.([ch]|[ch]pp|md|scd|sh|py|java|service)$|^\.ci/run$", name):
                continue
            with open(name, encoding="utf-8", errors="replace") as file:
                text = file.read()
            for number, what in look(name, text):
                print(f"{name}:{number}: {what}")
                found += 1
    sys.exit(1 if found else 0)


main()
