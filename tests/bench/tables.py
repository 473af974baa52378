#!/usr/bin/python3
"""RESULTS.md, and the pictures beside it, from what the benchmark has measured.

  tables.py record FILE...   put these runs (build/bench.json, build/bench-peers.json) into results.json
  tables.py write            print results.json into RESULTS.md, pairs.svg and crowd.svg
  tables.py check            say what of these is not what would be printed; exit status 1 then
  tables.py judge FILE       of each line of a run that has a goal, whether it is met
"""
import difflib
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
import pictures

HERE = pathlib.Path(__file__).resolve().parent
RECORDED = HERE / "results.json"
RESULTS = HERE / "RESULTS.md"


# ---- goals --------------------------------------------------------------------------------------

CLAUSE = re.compile(r"(>=|<=|>|never below)? *([0-9.]+)(?: (.+))?$")
HOLDS = {
    ">=": lambda v, n: v >= n,
    "never below": lambda v, n: v >= n,
    "<=": lambda v, n: v <= n,
    ">": lambda v, n: v > n,
    None: lambda v, n: abs(v - n) < 1e-9,
}


def judged(line, clause):
    """One clause of a line's goal: what it is compared with, in words, and whether it holds."""
    found = CLAUSE.match(clause)
    if not found:
        sys.exit(f"tables.py: no such goal: '{clause}' of '{line['what']}'")
    how, number, of = found.groups()
    unit = line["unit"]
    if of == "of the limit":
        value, words = line["part"], " of the limit"
    elif of:
        if unit != of and not unit.startswith(of + " "):
            sys.exit(f"tables.py: the goal '{clause}' of '{line['what']}' is in another unit than {unit}")
        value, words = line["ours"], "" if of == "counted" else " " + of
    elif how == "never below":
        value, words = line["least"], " at least"
    elif how is None or "ratio" not in line:
        value, words = line["ours"], ""
    else:
        value, words = line["ratio"], ""
    goal = number if how is None else f"{'>=' if how == 'never below' else how} {number}"
    return number_text(value) + words, goal, HOLDS[how](value, float(number))


def verdicts(line):
    return [judged(line, clause) for clause in line["goal"].split(", ")]


def is_met(line):
    return all(met for _, _, met in verdicts(line))


# ---- numbers and tables -------------------------------------------------------------------------


def number_text(value):
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def with_goals(run):
    return [line for line in run["lines"] if "goal" in line]


def cell(line):
    texts = [f"{value} ({goal})" if met else f"**{value}** ({goal})" for value, goal, met in verdicts(line)]
    return ", ".join(texts)


def full_row(line):
    if "skipped" in line:
        return [line["row"], line["regime"], "skipped: " + line["skipped"]] + [""] * 8
    spread = f"{number_text(line['least'])}..{number_text(line['most'])}" if line["rounds"] > 1 else ""
    goal = line.get("goal", "")
    met = "" if not goal else "yes" if is_met(line) else "**no**"
    figures = [number_text(line.get(k)) for k in ("ours", "baseline", "ratio", "limit", "part")]
    return [line["row"], line["regime"], f"{line['what']}, {line['unit']}", *figures, spread, goal, met]


def missed_row(line):
    return [line["row"], line["regime"], f"{line['what']}, {line['unit']}", cell(line), number_text(line.get("part"))]


def results_text(runs):
    goals = [line for run in runs.values() for line in with_goals(run)]
    missed = [line for line in goals if not is_met(line)]
    text = (
        "# What `make bench` printed\n\n"
        "Printed by `make bench-readme` from `results.json`: every line of the run. [README.md](README.md) says what each\n"
        "row is; ratios hold better than times. *Spread* is that of the rounds' ratios, or of ours where there is no baseline.\n"
        "*Of it* is ours as a part of the limit.\n\n"
        f"![Pairs a second](pairs.svg)\n\n![A crowd of 100](crowd.svg)\n\n## Missed goals\n\n{len(missed)} of {len(goals)}. "
        "A figure is the ratio; where the goal has a unit or there is no baseline, ours.\n\n"
    )
    text += table(["row", "where", "what", "figure (goal)", "of the limit"], map(missed_row, missed))
    titles = {"bench": "All rows", "peers": "Beside other libraries"}
    head = ["row", "where", "what", "ours", "baseline", "ratio", "limit", "of it", "spread", "goal", "met"]
    for name, run in runs.items():
        lines = with_goals(run)
        met = sum(map(is_met, lines))
        text += f"\n## {titles[name]}\n\n{run['machine']}; {run['rounds']} rounds, medians. "
        text += f"Of {len(lines)} goals {met} met, {len(lines) - met} missed.\n\n"
        text += table(head, map(full_row, run["lines"]))
    return text


# ---- files --------------------------------------------------------------------------------------


def recorded():
    return json.loads(RECORDED.read_text()) if RECORDED.exists() else {}


def read_run(path):
    try:
        return json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError):
        sys.exit(f"tables.py: {path} holds no whole run: make bench or make bench-peers, to its end")


def record(paths):
    runs = recorded()
    for path in paths:
        run = read_run(path)
        if not run.pop("complete"):
            sys.exit(
                f"tables.py: {path} has a part of the rows: make bench without BENCH and REGIME, "
                "make bench-peers without PEERS and REGIME; or remove the file"
            )
        name = "peers" if any(line["row"] == "peers" for line in run["lines"]) else "bench"
        runs[name] = run
    save({name: runs[name] for name in ("bench", "peers") if name in runs})


def save(runs):
    """A line of the file for each line of the benchmark."""
    parts = []
    for name, run in runs.items():
        head = json.dumps({k: v for k, v in run.items() if k != "lines"})[:-1]
        lines = ",\n".join(json.dumps(line, separators=(",", ":")) for line in run["lines"])
        parts.append(f'"{name}": {head}, "lines": [\n{lines}\n]}}')
    RECORDED.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def printed():
    """What each file should hold, by its name."""
    runs = recorded()
    return {RESULTS: results_text(runs), HERE / "pairs.svg": pictures.pairs(runs), HERE / "crowd.svg": pictures.crowd(runs)}


def check():
    same = True
    for path, text in printed().items():
        there = path.read_text() if path.exists() else ""
        for line in difflib.unified_diff(there.splitlines(), text.splitlines(), f"{path.name}, as it is",
                                         f"{path.name}, as make bench-readme prints it", lineterm="", n=0):
            same = False
            print(line)
    return same


def main(words):
    if words[:1] == ["record"] and len(words) > 1:
        record(words[1:])
    elif words == ["write"]:
        for path, text in printed().items():
            path.write_text(text)
    elif words == ["check"]:
        sys.exit(0 if check() else 1)
    elif words[:1] == ["judge"] and len(words) == 2:
        for line in read_run(words[1])["lines"]:
            if "goal" in line:
                print("met" if is_met(line) else "missed", cell(line))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
