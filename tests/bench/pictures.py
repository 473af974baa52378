"""The pictures beside RESULTS.md, which ../../README.md shows: SVG, from the lines that the benchmark has measured (tables.py).

Each has its own paper, so that it can be read on a page of any colour; a reader's dark mode darkens it. Nothing is fetched.
"""
from html import escape

WIDTH = 760
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .group, .ahead { font-weight: 600 }
  .note, .tick { font-size: 11px; fill: #59636e }
  .paper { fill: #ffffff } .edge { fill: none; stroke: #d1d9e0 } .grid { stroke: #e4e8ec }
  .ours { fill: #0969da } .peer { fill: #a3abb5 } .limit { stroke: #bc4c00; stroke-width: 1.5; stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .note, .tick { fill: #9198a1 }
    .paper { fill: #0d1117 } .edge { stroke: #3d444d } .grid { stroke: #262c34 }
    .ours { fill: #4493f8 } .peer { fill: #6e7681 } .limit { stroke: #f0883e }
  }
"""


class Picture:
    """Marks, from the top down: `y` is where the next one goes."""

    def __init__(self, title, about):
        self.title, self.about, self.marks, self.y = title, about, [], 30
        self.text(16, title, "title")
        for line in about:
            self.y += 18
            self.text(16, line, "note")

    def text(self, x, words, kind="", anchor="start", y=None):
        y = self.y if y is None else y
        self.marks.append(f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>')

    def bar(self, x, y, width, height, kind):
        self.marks.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{max(width, 1):.1f}" height="{height}" class="{kind}"/>')

    def line(self, x, top, bottom, kind):
        self.marks.append(f'<line x1="{x:.1f}" y1="{top:.0f}" x2="{x:.1f}" y2="{bottom:.0f}" class="{kind}"/>')

    def axis(self, scale, top, bottom, unit):
        """Grid lines from `top` to `bottom`, drawn before the bars, and their numbers below them."""
        for tick in scale.ticks:
            self.line(scale.at(tick), top, bottom, "grid")
            self.text(scale.at(tick), number(tick), "tick", "middle", bottom + 14)
        self.text(scale.at(0) + scale.width / 2, unit, "tick", "middle", bottom + 29)

    def key(self, x, kind, words):
        self.bar(x, self.y - 10, 12, 11, kind)
        self.text(x + 18, words)

    def svg(self):
        height = self.y + 14
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-labelledby="title">\n<title id="title">{escape(self.title)}</title>\n<style>{STYLE}</style>\n'
            f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>\n'
            + "\n".join(self.marks)
            + f'\n<rect class="edge" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>\n</svg>\n'
        )


class Scale:
    """From 0 to the first round number above `most`, over `width`."""

    def __init__(self, left, width, most):
        step = next(s * 10**e for e in range(-2, 9) for s in (1, 2, 2.5, 5) if s * 10**e * 5 >= most)
        self.left, self.width = left, width
        self.ticks = [step * n for n in range(6) if step * (n - 1) < most]

    def at(self, value):
        return self.left + self.width * value / self.ticks[-1]


def number(value):
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def same_throughout(line):
    """Whether all rounds say which of the two is ahead."""
    return not line["least"] <= 1 <= line["most"]


# ---- pairs --------------------------------------------------------------------------------------

PAIRS = [  # who it is beside; of its rows the words, and which line: row, regime, what
    ("Redis, beside blocking hiredis with a connection for each thread", [
        ("1 thread, all on one core", ("pairs", "one", "pairs a second")),
        ("1 thread, a core each", ("pairs", "cross", "pairs a second")),
        ("4 threads, nothing pinned", ("threads", "free", "4: pairs a second")),
        ("16 threads, a core each", ("threads", "cross", "16: pairs a second")),
        ("64 threads, a core each", ("threads", "cross", "64: pairs a second")),
    ]),
    ("Redis, beside hiredis pipelined by hand, 64 pairs in flight", [
        ("all on one core", ("async", "one", "64 in flight: pairs beside hiredis by hand")),
        ("a core each", ("async", "cross", "64 in flight: pairs beside hiredis by hand")),
    ]),
    ("etcd, beside Go's concurrency.Mutex", [
        ("1 caller, nothing pinned", ("etcd-peers", "free", "pairs a second")),
    ]),
]


def pairs(runs):
    measured = {(l["row"], l["regime"], l["what"]): l for run in runs.values() for l in run["lines"]}
    groups = [(who, [(words, measured[which]) for words, which in rows if which in measured]) for who, rows in PAIRS]
    p = Picture("Acquire and release a free lock: pairs a second",
                ["More is better. Bold is ahead, where all rounds agree. tidelock's locks carry a fencing number, hiredis's do not.",
                 "Medians of one run of make bench and make bench-peers; client and server on the same machine."])
    p.y += 26
    p.key(16, "ours", "tidelock")
    p.key(110, "peer", "peer, named above its bars")
    for who, rows in groups:
        if not rows:
            continue
        p.y += 30
        p.text(16, who, "group")
        scale = Scale(210, 450, max(max(l["ours"], l["baseline"]) for _, l in rows))
        top = p.y + 8
        p.axis(scale, top, top + 36 * len(rows), "pairs a second")
        for words, line in rows:
            p.text(200, words, "", "end", p.y + 31)
            for n, (side, kind) in enumerate((("ours", "ours"), ("baseline", "peer"))):
                y, value = p.y + 12 + 15 * n, line[side]
                ahead = same_throughout(line) and value == max(line["ours"], line["baseline"])
                p.bar(scale.left, y, scale.at(value) - scale.left, 14, kind)
                p.text(scale.at(value) + 5, number(value), "ahead" if ahead else "", "start", y + 11.5)
            p.y += 36
        p.y += 40
    return p.svg()


# ---- a crowd ------------------------------------------------------------------------------------

LANGUAGE = {"plain hiredis": "C", "redis-py": "Python", "redislock": "Go", "redisson": "Java", "redlock": "Node", "redsync": "Go",
            "rslock": "Rust", "rueidislock": "Go"}
RATE, FAIR = "acquisitions", "Jain's index"


def crowd_rows(lines):
    """Name, rate and fairness of each, ours among them, the quickest first; and of the queue, which is the limit."""
    of = {}
    for line in lines:
        name, what = line["what"].removeprefix("beside ").split(": ")
        of.setdefault(name, {})[what] = line
    rows = [(name, it[RATE]["baseline"], it[FAIR]["baseline"], not same_throughout(it[RATE])) for name, it in of.items()]
    one = next(iter(of.values()))
    rows.append(("tidelock", one[RATE]["ours"], one[FAIR]["ours"], False))
    return sorted(rows, key=lambda row: -row[1]), one[RATE]["limit"], one[FAIR]["limit"]


def crowd(runs):
    lines = [l for l in runs.get("peers", {"lines": []})["lines"] if l["row"] == "peers" and "ours" in l]
    p = Picture("100 clients want one lock again and again, and hold it for 1 ms",
                ["Medians of one run of make bench-peers. Plain hiredis and most libraries ask every 20 ms, quicker than by default.",
                 "Level: not all rounds say that tidelock is ahead."])
    p.y += 26
    p.key(16, "ours", "tidelock")
    p.key(110, "peer", "other clients")
    p.line(247, p.y - 10, p.y + 2, "limit")
    p.text(256, "a queue by BLPOP and RPUSH in place of the lock: the limit")
    for regime, where in (("cross", "Client and server a core each, by TCP"), ("delay", "A round trip of 5 ms")):
        here = [l for l in lines if l["regime"] == regime]
        if not here:
            continue
        rows, *limits = crowd_rows(here)
        p.y += 32
        p.text(16, where, "group")
        rate, fair = Scale(166, 250, max(limits[0], rows[0][1])), Scale(510, 190, 1)
        top, bottom = p.y + 10, p.y + 14 + 21 * len(rows)
        p.axis(rate, top, bottom, "acquisitions a second, more is better")
        p.axis(fair, top, bottom, "fairness: Jain's index of the turns, 1 is even")
        for name, turns, even, level in rows:
            kind = "ours" if name == "tidelock" else "peer"
            words = f"{name} ({LANGUAGE[name]})" if name in LANGUAGE else name
            p.text(156, words, "ahead" if kind == "ours" else "", "end", p.y + 27)
            for scale, value, text in ((rate, turns, number(turns)), (fair, even, f"{even:.2f}")):
                p.bar(scale.left, p.y + 15, scale.at(value) - scale.left, 15, kind)
                p.text(scale.left + scale.width + 40, text, "ahead" if kind == "ours" else "", "end", p.y + 27)
            if level:
                p.text(rate.left + rate.width + 46, "level", "note", "start", p.y + 27)
            p.y += 21
        for scale, limit in zip((rate, fair), limits):
            p.line(scale.at(limit), top, bottom, "limit")
        p.y += 44
    return p.svg()
