"""The part of the report's page that draws a step's graph: boxes in five columns that open into the name scopes below them.

A drawing of every op is unreadable from a few hundred on. So there is one column a role, one box a name scope in it; scopes
that differ in a number alone share a box, small ones too, and a click on a box opens it. Edges are bundled by boxes.
"""

from __future__ import annotations

import json
from typing import Any

from tf_booster.passes.roles import ROLES

STYLE = """.graph { overflow: auto; border: 1px solid #ddd; max-height: 44em } .graph svg { display: block; font: 12px system-ui, sans-serif }
.graph rect { fill: #eef3fa; stroke: #6b8cba; rx: 4px } .graph rect.frame { fill: none; stroke-dasharray: 3 3 }
.graph rect.closed { cursor: pointer } .graph rect.closed:hover { fill: #d5e3f6 } .graph text { pointer-events: none }
.graph text.head { font-weight: bold; pointer-events: auto; cursor: pointer } .graph text.count { fill: #667 } .graph text.plus { fill: #36c }
.graph path { fill: none; stroke: #889; stroke-opacity: .35 } .graph path.near { stroke: #d4600a; stroke-opacity: .95 }
.told { min-height: 3em; color: #444; font-size: 13px } button { font: inherit }"""

# What the graph may have of its names goes into the page as JSON, and from there into text nodes only, never into markup.
SCRIPT = r"""
"use strict";
const WIDTH = 220, GAP = 75, HEIGHT = 30, MOST_BOXES = 16, MOST_EDGES = 500;

function tree(summary) {
  return ROLES.map((role) => {
    const root = box(role, null);
    summary.scopes.forEach(([itsRole, path, ops, depth, types], index) => {
      if (itsRole !== role) return;
      let node = root;
      add(node, ops, depth, types);
      for (const part of path.split("/")) {
        if (!node.named.has(part)) node.named.set(part, box(part, node));
        node = node.named.get(part);
        add(node, ops, depth, types);
      }
      node.scopes.push(index);
    });
    arrange(root);
    for (let node = root; node; node = node.children.length === 1 ? node.children[0] : null) node.open = true;
    return root;
  }).filter((root) => root.ops > 0);
}

function box(name, parent) {
  return {name, parent, ops: 0, depth: 0, types: {}, named: new Map(), children: [], scopes: [], open: false};
}

function add(node, ops, depth, types) {
  node.depth = (node.depth * node.ops + depth * ops) / (node.ops + ops);
  node.ops += ops;
  for (const [type, count] of Object.entries(types)) node.types[type] = (node.types[type] || 0) + count;
}

function gather(name, parent, members) {
  const node = box(name, parent);
  for (const member of members) { add(node, member.ops, member.depth, member.types); member.parent = node; }
  node.children = members;
  return node;
}

function arrange(node) {
  while (node.parent && node.named.size === 1 && node.scopes.length === 0) {
    const [only] = node.named.values();
    Object.assign(node, {name: node.name + "/" + only.name, named: only.named, scopes: only.scopes});
  }
  let children = [...node.named.values()];
  children.forEach((child) => { child.parent = node; arrange(child); });
  const alike = new Map();
  for (const child of children) {
    const key = child.name.replace(/\d+/g, "#");
    if (!alike.has(key)) alike.set(key, []);
    alike.get(key).push(child);
  }
  children = [...alike].flatMap(([key, members]) =>
    members.length < 4 || alike.size === 1 && members.length <= MOST_BOXES ? members : [gather(key + " (" + members.length + ")", node, members)]);
  node.children = few(children, node);
  return node;
}

function few(children, node) {
  children.sort((a, b) => b.ops - a.ops);
  if (children.length > MOST_BOXES) {
    const rest = children.splice(MOST_BOXES - 1);
    const more = gather(rest.length + " more", node, rest);
    more.children = few(rest.slice(), more);
    children.push(more);
  }
  children.forEach((child) => { if (/ \(\d+\)$/.test(child.name)) child.children = few(child.children, child); });
  return children.sort((a, b) => a.depth - b.depth);
}

function put(node, x, y, width, placed) {
  Object.assign(node, {x, y, width});
  if (!node.open || !node.children.length) {
    node.height = HEIGHT;
    placed.push(node);
    return y + HEIGHT + 8;
  }
  let below = y + HEIGHT;
  for (const child of node.children) below = put(child, x + 8, below, width - 16, placed);
  node.height = below - y;
  placed.push(node);
  return below + 8;
}

function owners(node, shown, map) {
  const by = shown || (!node.open || !node.children.length ? node : null);
  node.scopes.forEach((scope) => map.set(scope, by || node));
  node.children.forEach((child) => owners(child, by, map));
}

function make(svg, tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  svg.appendChild(element);
  return element;
}

function draw(name) {
  const summary = GRAPHS[name], roots = tree(summary);
  const place = document.getElementById(name), told = document.getElementById(name + "_told");
  let zoom = 1;
  document.getElementById(name + "_larger").onclick = () => { zoom *= 1.25; paint(); };
  document.getElementById(name + "_smaller").onclick = () => { zoom /= 1.25; paint(); };

  function paint() {
    place.replaceChildren();
    const svg = make(place, "svg", {}), placed = [], owner = new Map();
    let bottom = 0;
    roots.forEach((root, column) => {
      bottom = Math.max(bottom, put(root, 10 + column * (WIDTH + GAP), 10, WIDTH, placed));
      owners(root, null, owner);
    });
    const width = 20 + roots.length * (WIDTH + GAP);
    svg.setAttribute("viewBox", "0 0 " + width + " " + bottom);
    svg.setAttribute("width", width * zoom);
    svg.setAttribute("height", bottom * zoom);
    const paths = edges(svg, owner);
    for (const node of placed) show(svg, node, paths);
  }

  function edges(svg, owner) {
    const bundles = new Map();
    for (const [from, to, count] of summary.edges) {
      const a = owner.get(from), b = owner.get(to);
      if (a === b) continue;
      if (!bundles.has(a)) bundles.set(a, new Map());
      bundles.get(a).set(b, (bundles.get(a).get(b) || 0) + count);
    }
    const all = [...bundles].flatMap(([a, tos]) => [...tos].map(([b, count]) => ({a, b, count})));
    all.sort((one, other) => other.count - one.count);
    return all.slice(0, MOST_EDGES).map((edge) => {
      const {a, b, count} = edge;
      const x1 = a.x + a.width, y1 = a.y + HEIGHT / 2, y2 = b.y + HEIGHT / 2;
      const forward = b.x > x1, x2 = forward ? b.x : b.x + b.width;
      const out = forward ? (x2 - x1) / 2 : 50, into = forward ? -out : 50;
      const line = "M" + x1 + "," + y1 + " C" + (x1 + out) + "," + y1 + " " + (x2 + into) + "," + y2 + " " + x2 + "," + y2;
      edge.path = make(svg, "path", {d: line, "stroke-width": 1 + Math.log10(count)});
      return edge;
    });
  }

  function show(svg, node, paths) {
    const opened = node.open && node.children.length;
    const rect = make(svg, "rect", {x: node.x, y: node.y, width: node.width, height: node.height,
      class: opened ? "frame" : node.children.length ? "closed" : ""});
    const room = Math.floor((node.width - 40) / 7) - String(node.ops).length;
    const label = node.name.length > room ? node.name.slice(0, room - 1) + "\u2026" : node.name;
    const head = make(svg, "text", {x: node.x + 8, y: node.y + 19, class: opened ? "head" : ""}, label);
    make(svg, "text", {x: node.x + node.width - 20, y: node.y + 19, class: "count", "text-anchor": "end"}, node.ops);
    if (node.children.length) make(svg, "text", {x: node.x + node.width - 14, y: node.y + 19, class: "plus"}, opened ? "\u2212" : "+");
    const toggle = () => { node.open = !node.open; paint(); };
    if (opened) head.onclick = toggle; else if (node.children.length) rect.onclick = toggle;
    if (opened) return;
    rect.onmouseenter = () => { tell(node, paths); mark(node, paths, true); };
    rect.onmouseleave = () => mark(node, paths, false);
  }

  function mark(node, paths, on) {
    for (const edge of paths) if (edge.a === node || edge.b === node) edge.path.setAttribute("class", on ? "near" : "");
  }

  function tell(node, paths) {
    const sum = (list) => list.reduce((total, edge) => total + edge.count, 0);
    const types = Object.entries(node.types).sort((a, b) => b[1] - a[1]).slice(0, 8).map(([type, count]) => count + " " + type);
    told.textContent = node.name + ": " + node.ops + " ops (" + types.join(", ") + "); " + sum(paths.filter((e) => e.b === node)) +
      " edges in, " + sum(paths.filter((e) => e.a === node)) + " out";
  }

  paint();
}
Object.keys(GRAPHS).forEach(draw);
"""


def drawings(before: Any, after: Any) -> str:
    """Markup and script for two GraphSummaries."""
    parts = [_place("before", "Before", before), _place("after", "After", after)]
    graphs = {name: {"scopes": s.scopes, "edges": s.edges} for name, s in (("before", before), ("after", after))}
    # In a script element only `</` and `<!--` mean anything to HTML.
    data = f"const ROLES = {json.dumps(ROLES)};\nconst GRAPHS = {json.dumps(graphs, separators=(',', ':'))};".replace(
        "<", "\\u003c"
    )
    return "\n".join([*parts, f"<script>{data}\n{SCRIPT}</script>"])


def _place(name: str, title: str, summary: Any) -> str:
    return (
        f"<h3>{title}: {summary.num_ops} ops</h3>\n"
        f'<p><button id="{name}_smaller">smaller</button> <button id="{name}_larger">larger</button> '
        "A click on a box with a + opens it, a click on its title closes it; point at a box to see its edges.</p>\n"
        f'<div class="graph" id="{name}"></div><p class="told" id="{name}_told"></p>'
    )
