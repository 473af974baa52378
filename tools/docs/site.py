#!/usr/bin/env python3
"""Makes one static HTML site of all pages: `make docs`.

Usage: site.py MAN_DIR MAN3_DIR OUT_DIR

Manual pages are converted by mandoc, Markdown by cmark-gfm. A link to a page leads to its HTML; a link to
another file of the project leads to a copy of it. Exit status 1, with a line for each: a link that leads
nowhere, a page that no other page's text links to.
"""
import html
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GROUPS = [  # title, which pages (by their path in the site, in this order)
    ("Start", r"index\.html|tools/monitoring/README\.html"),
    ("Commands", r"man/.*\.1\.html"),
    ("Concepts", r"man/.*\.7\.html"),
    ("Migration", r"compat/(MIGRATION|RUNBOOK)\.html"),
    ("C library", r"man/.*\.3\.html"),
    ("Change the code", r"(src|compat|tools)/(.*/)?README\.html"),
    ("Tests", r"tests/.*\.html"),
    ("Project", r"(\.github|src)/.*\.html"),
]
NOT_PAGES = re.compile(r"^(build|\.git)/|^\.github/(ISSUE_TEMPLATE|PULL_REQUEST_TEMPLATE)")


class Page:
    def __init__(self, source, target, title, body):
        self.source, self.target, self.title, self.body = source, target, title, body
        self.links = set()  # pages that its text links to


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def text_of(body):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))).strip()


def slug(heading, taken):
    """The anchor that GitHub gives a heading."""
    name = re.sub(r"[^\w\- ]", "", text_of(heading).lower()).replace(" ", "-")
    n = taken.get(name, 0)
    taken[name] = n + 1
    return f"{name}-{n}" if n else name


def markdown(path):
    body = run("cmark-gfm", "-e", "table", "-e", "autolink", os.path.join(ROOT, path))
    taken = {}
    body = re.sub(r"<h([1-6])>(.*?)</h\1>", lambda m: f'<h{m[1]} id="{slug(m[2], taken)}">{m[2]}</h{m[1]}>', body)
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    heading = re.search(r"<h1[^>]*>(.*?)</h1>", body)
    target = "index.html" if path == "README.md" else path[: -len(".md")] + ".html"
    return Page(path, target, text_of(heading[1]) if heading else path, body)


def manual(path):
    name = os.path.basename(path)
    body = run("mandoc", "-T", "html", "-O", "fragment", path)
    body = re.sub(r'<table class="(head|foot)">.*?</table>', "", body, flags=re.S)
    body = re.sub(r'<a class="permalink" href="[^"]*">(.*?)</a>', r"\1", body, flags=re.S)  # they hide references
    body = re.sub(r'(<table class="tbl".*?</table>)', r'<div class="wide">\1</div>', body, flags=re.S)
    body = body.replace("&#x2022;", "&#x2022; ")
    title = re.sub(r"\.(\d)$", r"(\1)", name)
    source = f"tools/man/{name}.scd" if re.search(r"\.[17]$", name) else "include/tidelock/"
    return Page(source, f"man/{name}.html", title, f"<h1>{title}</h1>{body}")


def all_pages(man, man3):
    pages = []
    for directory, below, files in os.walk(ROOT):
        below[:] = sorted(d for d in below if d not in (".git", "build"))
        for name in sorted(files):
            path = os.path.relpath(os.path.join(directory, name), ROOT)
            if name.endswith(".md") and not NOT_PAGES.search(path):
                pages.append(markdown(path))
    for directory in (man, man3):
        pages += [manual(os.path.join(directory, name)) for name in sorted(os.listdir(directory))]
    return pages


class Site:
    def __init__(self, pages, out):
        self.pages, self.out = pages, out
        self.by_source = {page.source: page for page in pages if not page.source.endswith("/")}
        self.by_target = {page.target: page for page in pages}
        self.problems = []

    def copy(self, page, path):
        """A file or directory of the project that a page links to. Returns its path in the site."""
        full = os.path.join(ROOT, path)
        if os.path.isdir(full):
            target = posixpath.join("files", path, "index.html")
            names = sorted(name for name in os.listdir(full) if os.path.isfile(os.path.join(full, name)))
            items = [(name, posixpath.basename(self.copy(page, posixpath.join(path, name)))) for name in names]
            listing = "".join(f'<li><a href="{html.escape(at)}">{html.escape(name)}</a></li>' for name, at in items)
            self.write(target, path, f"<h1>{html.escape(path)}</h1><ul>{listing}</ul>", None)
            return target
        target = posixpath.join("files", path)
        if not re.search(r"\.(svg|png)$", path):
            target += ".txt"  # so that a browser shows it
        os.makedirs(os.path.dirname(os.path.join(self.out, target)), exist_ok=True)
        shutil.copyfile(full, os.path.join(self.out, target))
        return target

    def link(self, page, reference):
        if re.match(r"[a-z]+:", reference) or reference.startswith("#"):
            return reference
        path, _, anchor = reference.partition("#")
        at = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), path))
        to = self.by_source.get(at) or self.by_source.get(posixpath.join(at, "README.md"))
        if to:
            page.links.add(to.target)
            target = to.target
        elif os.path.exists(os.path.join(ROOT, at)):
            target = self.copy(page, at)
        else:
            self.problems.append(f"{page.source}: the link to {reference} leads nowhere")
            return reference
        relative = posixpath.relpath(target, posixpath.dirname(page.target) or ".")
        return relative + ("#" + anchor if anchor else "")

    def resolve(self, page):
        if page.source.endswith(".md"):
            page.body = re.sub(
                r'(href|src)="([^"]*)"', lambda m: f'{m[1]}="{html.escape(self.link(page, html.unescape(m[2])))}"', page.body
            )

        def reference(match):  # tidelock-run(1), in bold or not, also in Markdown
            target = f"man/{match['name']}.{match['section']}.html"
            if target not in self.by_target or target == page.target:
                return match[0]
            page.links.add(target)
            relative = posixpath.relpath(target, posixpath.dirname(page.target) or ".")
            return f'<a href="{relative}">{match["name"]}({match["section"]})</a>'

        parts = re.split(r"(<a .*?</a>|<pre.*?</pre>|<h1.*?</h1>)", page.body, flags=re.S)
        pattern = r"(?:<(?P<tag>b|i|code)>)?\b(?P<name>[a-z][\w.-]*)(?:</(?P=tag)>)?\((?P<section>[137])\)(?(tag)(?:</(?P=tag)>)?)"
        for n in range(0, len(parts), 2):
            parts[n] = re.sub(pattern, reference, parts[n])
        page.body = "".join(parts)

    def navigation(self, at):
        groups, seen = [], set()
        for title, pattern in GROUPS:
            pages = [p for p in self.pages if re.fullmatch(pattern, p.target) and p.target not in seen]
            seen |= {p.target for p in pages}
            base = posixpath.dirname(at) or "."
            items = "".join(
                f'<li><a href="{posixpath.relpath(p.target, base)}"{" aria-current=page" if p.target == at else ""}>'
                f"{html.escape(p.title)}</a></li>"
                for p in sorted(pages, key=lambda p: p.target)
            )
            is_open = " open" if title not in ("C library", "Tests") or any(p.target == at for p in pages) else ""
            groups.append(f"<details{is_open}><summary>{title}</summary><ul>{items}</ul></details>")
        if at == "index.html":
            self.problems += [f"{p.target}: in no group of the navigation" for p in self.pages if p.target not in seen]
        return "".join(groups)

    def write(self, target, title, body, source):
        top = posixpath.relpath(".", posixpath.dirname(target) or ".")
        origin = f"<footer>From <code>{html.escape(source)}</code></footer>" if source else ""
        with open(os.path.join(HERE, "page.html"), encoding="utf-8") as file:
            page = file.read()
        for name, value in (("TITLE", html.escape(title)), ("TOP", top), ("NAVIGATION", self.navigation(target)), ("ORIGIN", origin), ("BODY", body)):
            page = page.replace("{" + name + "}", value)
        path = os.path.join(self.out, target)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)

    def search_index(self):
        entries = [{"at": p.target, "title": p.title, "text": text_of(p.body)} for p in self.pages]
        with open(os.path.join(self.out, "search-index.js"), "w", encoding="utf-8") as file:
            file.write("window.pages = " + json.dumps(entries, ensure_ascii=False).replace("</", "<\\/") + ";\n")

    def check(self):
        """Each link of the finished files, with its anchor; each page is linked to from another's text."""
        anchors = {}

        def anchors_of(path):
            if path not in anchors:
                with open(path, encoding="utf-8") as file:
                    anchors[path] = set(re.findall(r'\bid="([^"]*)"', file.read()))
            return anchors[path]

        for page in self.pages:
            path = os.path.join(self.out, page.target)
            for reference in re.findall(r'(?:href|src)="([^"]*)"', page.body):
                reference = html.unescape(reference)
                if re.match(r"[a-z]+:", reference):
                    continue
                file, _, anchor = reference.partition("#")
                to = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
                if not os.path.exists(to):
                    self.problems.append(f"{page.source}: the link to {reference} leads nowhere")
                elif anchor and to.endswith(".html") and anchor not in anchors_of(to):
                    self.problems.append(f"{page.source}: {reference}: there is no such section")
        linked = set().union(*(page.links - {page.target} for page in self.pages))
        self.problems += [
            f"{page.target}: no page links to it" for page in self.pages if page.target not in linked and page.target != "index.html"
        ]


def main():
    man, man3, out = sys.argv[1:]
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    site = Site(all_pages(man, man3), out)
    for page in site.pages:
        site.resolve(page)
    for page in site.pages:
        site.write(page.target, page.title, page.body, page.source)
    for name in ("style.css", "search.js"):
        shutil.copyfile(os.path.join(HERE, name), os.path.join(out, name))
    site.search_index()
    site.check()
    for problem in sorted(set(site.problems)):
        print(problem)
    sys.exit(1 if site.problems else 0)


main()
