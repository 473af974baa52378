#!/usr/bin/env python3
"""Plays a command in a terminal of its own and draws what it printed: an SVG that moves (`make demo-svg`).

Usage: cast.py PICTURE COMMAND [ARGUMENT...]

A bold line that follows an empty one begins a scene. The lines of a scene appear one by one, at a pace to read
them: the picture measures nothing. If this run and PICTURE differ in figures alone, PICTURE stays as it is. To
draw it anew nevertheless, delete it first. Exit status 1: the command failed, or left a scene out.
"""
import os
import pty
import re
import sys
import textwrap
import xml.etree.ElementTree as tree
from html import escape

COLUMNS, WIDTH, LEFT, TOP, STEP = 100, 760, 16, 46, 17
STYLES = {"1": "strong", "2": "command", "31": "bad", "32": "good"}
STYLE = """
  text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; white-space: pre }
  .strong { font-weight: 600 } .command { fill: #0969da } .good { fill: #1a7f37 } .bad { fill: #cf222e } .name { fill: #59636e }
  .paper { fill: #ffffff } .edge { fill: none; stroke: #d1d9e0 }
  .scene + .scene { opacity: 0 }
  .scene, .line { animation: SECONDSs step-end infinite } .line { animation-name: line }
  @keyframes line { 0% { opacity: 1 } 50% { opacity: 0 } }
SCENES
  @media (prefers-reduced-motion: reduce) { .scene, .line { animation: none } }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .command { fill: #4493f8 } .good { fill: #3fb950 } .bad { fill: #f85149 } .name { fill: #9198a1 }
    .paper { fill: #0d1117 } .edge { stroke: #3d444d }
  }
"""


def play(argv):
    """The text that the command writes to its terminal, and its exit status."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(argv[0], argv)
    written = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        written += part
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return written.decode().replace("\r\n", "\n"), status


def scenes_of(text):
    """Lists of (style, line), the lines as wide as the picture. Each line of the demo has one style."""
    scenes, after_empty = [[]], False
    for line in text.split("\n"):
        style = next((STYLES[c] for c in re.findall(r"\x1b\[(\d+)m", line) if c in STYLES), "")
        line = re.sub(r"\x1b\[\d*m", "", line).rstrip()
        if style == "strong" and after_empty and any(style == "strong" for style, _ in scenes[-1]):
            scenes.append([])
        after_empty = not line
        if line:
            further = " " * (len(line) - len(line.lstrip()) + 2)
            scenes[-1] += [(style, part) for part in textwrap.wrap(line, COLUMNS, subsequent_indent=further, break_on_hyphens=False)]
    return scenes


def draw(scenes):
    marks, rules, now = [], [], 0
    pauses = [[0.2 + len(line) / 200 for _, line in lines] for lines in scenes]
    whole = sum(sum(pause) + 2 for pause in pauses)
    for n, lines in enumerate(scenes):
        began = now
        marks.append(f'<g class="scene" style="animation-name:scene{n}">')
        for row, ((style, line), pause) in enumerate(zip(lines, pauses[n])):
            marks.append(f'<text class="line{" " + style if style else ""}" style="animation-delay:{now - whole:.2f}s" '
                         f'x="{LEFT}" y="{TOP + STEP * row}" xml:space="preserve">{escape(line, quote=False)}</text>')
            now += pause
        now += 2
        marks.append("</g>")
        rules.append(f"  @keyframes scene{n} {{ 0% {{ opacity: {int(n == 0)} }} {100 * began / whole:.2f}% {{ opacity: 1 }} "
                     f"{100 * now / whole:.2f}% {{ opacity: 0 }} }}")
    height = TOP + STEP * max(map(len, scenes))
    style = STYLE.replace("SECONDS", f"{whole:.2f}").replace("SCENES", "\n".join(rules))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-labelledby="title">\n<title id="title">make demo, scene by scene</title>\n<style>{style}</style>\n'
            f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>\n<text class="name" x="{LEFT}" y="22">$ make demo</text>\n'
            + "\n".join(marks)
            + f'\n<rect class="edge" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>\n</svg>\n')


def words(picture):
    """All that it says, whatever its figures are (and names that end in one) and wherever its lines end."""
    said = " ".join(text.text for text in tree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"))
    return re.sub(r"\S*\d\S*", "#", said).split()


def main():
    path, argv = sys.argv[1], sys.argv[2:]
    text, status = play(argv)
    left_out = re.search(r"left out: .*", text)
    if status or left_out:
        sys.exit(f"{path} is not drawn: {left_out[0] if left_out else f'exit status {status}'}\n{text[-2000:]}")
    picture = draw(scenes_of(text))
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if words(file.read()) == words(picture):
                print(f"{path}: only figures differ; it stays as it is")
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(picture)
    print(f"{path}: drawn")


main()
