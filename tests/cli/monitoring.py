#!/usr/bin/env python3
"""What tools/monitoring names, beside what the tool prints.

Usage: monitoring.py FOLDER QUERIES METRICS...

FOLDER is tools/monitoring, METRICS are files that the tool has written. Writes the queries of the dashboard to
QUERIES, as rules for promtool. Exit status 1, with a line for each: a metric, label or value that nothing prints; a
metric that nothing uses and UNUSED does not name; a dashboard that Grafana would not show; a link that leads nowhere.
"""
import json
import os
import re
import sys

import yaml

UNUSED = {  # printed, and in no rule or panel, for a reason
    "tidelock_agent_offset_seconds": "skew prints it of all hosts, by the same server's clock",
    "tidelock_agent_width_seconds": "likewise",
    "tidelock_skew_lock_timeout_seconds": "the slack is what the gap is compared with",
    "tidelock_skew_longest_hold_assumed": "an option of the command, which nothing changes later",
    "tidelock_releases_total": "a release that fails shows as a loss, or as a wait of others",
    "tidelock_renewals_total": "their failures tell more",
    "tidelock_connections_total": "for whom debugs",
    "tidelock_migrate_since_timestamp_seconds": "the phase shows when it changed",
    "tidelock_migrate_all_keys": "for whom reads the counts by hand",
}
FOREIGN = {"node_textfile_mtime_seconds": {"file"}}  # by the node exporter
ANYWHERE = {"instance", "job"}  # Prometheus' own labels
METRIC = re.compile(r"\b(tidelock_[a-z_]+|node_[a-z_]+)\b(?:\{([^}]*)\})?")
problems = []


def printed(paths):
    """Name -> label -> values."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                match = re.match(r"([a-z_]+)(?:\{(.*)\})? [-+.0-9eInf]+$", line)
                if match:
                    labels = found.setdefault(match[1], {})
                    for name, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""):
                        labels.setdefault(name, set()).add(value)
    return found


def check_selector(where, name, selector, has):
    for label, how, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', selector or ""):
        if label in ANYWHERE or (name in FOREIGN and label in FOREIGN[name]):
            continue
        if label not in has.get(name, {}):
            problems.append(f"{where}: {name} has no label {label}")
        elif "$" not in value and how != "!~":
            for one in value.split("|"):
                if one not in has[name][label]:
                    problems.append(f"{where}: no {name} has {label}={one}")


def check_query(where, query, has, shown=""):
    """shown: a text with the labels of its results, as {{name}} or {{ $labels.name }}."""
    labels = set(ANYWHERE) | {"le"}
    names = set()
    for name, selector in METRIC.findall(query):
        names.add(name)
        if name not in FOREIGN and name not in has:
            problems.append(f"{where}: nothing prints {name}")
        check_selector(where, name, selector, has)
        labels |= FOREIGN.get(name, set()) | set(has.get(name, {}))
    for group in re.findall(r"\b(?:by|on|group_left|without)\s*\(([^)]*)\)", query):
        for label in re.findall(r"\w+", group):
            if label not in labels:
                problems.append(f"{where}: no metric of the query has the label {label}")
    for label in re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", shown):
        if label not in labels:
            problems.append(f"{where}: it shows the label {label}, which no metric of the query has")
    return names


def check_link(where, link, man):
    match = re.fullmatch(r"man/([\w-]+\.\d)\.html#(\w+)", link)
    page = match and os.path.join(man, match[1] + ".scd")
    if not match or not os.path.exists(page):
        problems.append(f"{where}: no page for {link}")
        return
    with open(page, encoding="utf-8") as file:
        if not re.search(rf"^##? {match[2].replace('_', ' ')}$", file.read(), re.M):
            problems.append(f"{where}: {match[1]} has no section {match[2]}")


def rules(folder, has):
    used = set()
    with open(os.path.join(folder, "tidelock.rules.yml"), encoding="utf-8") as file:
        groups = yaml.safe_load(file)["groups"]
    with open(os.path.join(folder, "tidelock.rules.test.yml"), encoding="utf-8") as file:
        tests = [case for test in yaml.safe_load(file)["tests"] for case in test["alert_rule_test"]]
    for rule in (rule for group in groups for rule in group["rules"]):
        name, notes = rule["alert"], rule["annotations"]
        used |= check_query(name, rule["expr"], has, notes["summary"])
        check_link(name, notes["runbook_url"], os.path.join(folder, "..", "man"))
        for fires in (True, False):
            if not any(case["alertname"] == name and bool(case.get("exp_alerts")) == fires for case in tests):
                problems.append(f"{name}: no case in which it {'fires' if fires else 'is silent'}")
    return used


def check_grid(panels):
    taken = {}
    for panel in panels:
        at = panel["gridPos"]
        if at["x"] + at["w"] > 24 or min(at["h"], at["w"]) < 1:
            problems.append(f"panel {panel['title']}: it is not on the page")
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                if taken.setdefault((x, y), panel["id"]) != panel["id"]:
                    problems.append(f"panel {panel['title']}: another lies over it")
                    return


def dashboard(folder, has, queries):
    with open(os.path.join(folder, "grafana-dashboard.json"), encoding="utf-8") as file:
        board = json.load(file)
    used, panels, parsed = set(), board["panels"], []
    if next(iter(board)) != "description" or "Install:" not in board["description"]:
        problems.append("dashboard: it does not begin with what it is, and how to install it")
    for member in ("uid", "title", "schemaVersion", "time", "templating"):
        if member not in board:
            problems.append(f"dashboard: it has no {member}")
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids):
        problems.append("dashboard: two panels have one id")
    check_grid(panels)
    variables = {variable["name"] for variable in board["templating"]["list"]}
    for panel in panels:
        where = f"panel {panel.get('title')}"
        if panel["type"] == "row":
            continue
        if not panel.get("title") or not panel.get("description") or not panel.get("targets"):
            problems.append(f"{where}: a title, a description and queries belong to a panel")
        refs = [target["refId"] for target in panel["targets"]]
        if len(set(refs)) != len(refs):
            problems.append(f"{where}: two queries have one refId")
        for target in panel["targets"]:
            used |= check_query(where, target["expr"], has, target["legendFormat"])
            for variable in re.findall(r"\$\{?(\w+)", target["expr"] + target["datasource"]["uid"]):
                if variable not in variables | {"__rate_interval"}:
                    problems.append(f"{where}: there is no variable {variable}")
            parsed.append(re.sub(r"\$__rate_interval", "5m", target["expr"]).replace("$key", "k"))
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            used |= check_query("variable " + variable["name"], variable["definition"], has)
    with open(queries, "w", encoding="utf-8") as file:
        records = [{"record": f"panel_query_{i}", "expr": query} for i, query in enumerate(parsed)]
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}, file)
    return used


def check_causes(folder, paths):
    """A cause of a loss that the library knows and the tool does not print would be missed by all."""
    with open(os.path.join(folder, "..", "..", "include", "tidelock", "tidelock.h"), encoding="utf-8") as file:
        known = {name.lower() for name in re.findall(r"^ *TL_LOST_(\w+),", file.read(), re.M)}
    for path in paths:
        losses = printed([path]).get("tidelock_losses_total", {"cause": known})
        for cause in sorted(known - losses["cause"]):
            problems.append(f"{os.path.basename(path)}: losses have no line for the cause {cause}")


def main():
    folder, queries, *paths = sys.argv[1:]
    has = printed(paths)
    check_causes(folder, paths)
    used = rules(folder, has) | dashboard(folder, has, queries)
    base = {re.sub(r"_(bucket|sum|count)$", "", name) if "le" in labels else name for name, labels in has.items()}
    base = {name for name in base if not re.search(r"_seconds_(sum|count)$", name)}
    used = {re.sub(r"(_seconds)_(bucket|sum|count)$", r"\1", name) for name in used}
    problems.extend(f"{name}: printed, and in no rule or panel: use it, or say in UNUSED why not" for name in sorted(base - used - set(UNUSED)))
    problems.extend(f"{name}: UNUSED names it, and it is used, or not printed" for name in sorted(set(UNUSED) - (base - used)))
    for problem in dict.fromkeys(problems):
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
