"use strict";
// The table of tasks, and two kernels side by side. Whatever a completion says enters the page as text, never as markup.
const rows = JSON.parse(document.getElementById("tasks").textContent);
const policies = JSON.parse(document.getElementById("policies").textContent);
const blocks = [...document.querySelectorAll(".samples")];
const place = new Map(rows.map((row, index) => [row[0], index]));
const body = document.querySelector("#explorer tbody");
const heads = [...document.querySelectorAll("#explorer th")];
const find = document.getElementById("find"), category = document.getElementById("category");
const level = document.getElementById("level"), outcome = document.getElementById("outcome");
const more = document.getElementById("more"), viewer = document.getElementById("viewer");
const STEP = 25;
let sorted = { column: -1, down: false }, limit = STEP;

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

async function unpack(id) {
  const packed = blocks[Math.floor(place.get(id) / Number(blocks[0].dataset.tasks))].textContent;
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// a row: id, category, level, then for each policy: samples, correct ones, best speedup
function value(row, column) {
  if (column < 3) return row[column];
  const at = 3 + 3 * Math.floor((column - 3) / 2);
  return (column - 3) % 2 ? row[at + 2] : row[at] ? row[at + 1] / row[at] : null;
}

function chosen() {
  const words = find.value.toLowerCase(), last = 3 * policies.length;
  return rows.filter((row) => {
    const right = row[last + 1], all = row[last];
    const kept = { "": true, all: right === all, some: right > 0 && right < all, none: right === 0 }[outcome.value];
    return kept && `${row[0]} ${row[1]}`.toLowerCase().includes(words)
      && (!category.value || row[1] === category.value) && (!level.value || String(row[2]) === level.value);
  });
}

function draw() {
  const shown = chosen(), sign = sorted.down ? -1 : 1;
  if (sorted.column >= 0) shown.sort((a, b) => {
    const x = value(a, sorted.column), y = value(b, sorted.column);
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y);
  });
  body.replaceChildren(...shown.slice(0, limit).map((row) => {
    const line = element("tr"), name = element("button", row[0], "link");
    name.addEventListener("click", () => open(row[0]));
    line.append(element("td"), element("td", row[1]), element("td", row[2] ?? "–"));
    line.firstChild.append(name);
    policies.forEach((_, index) => {
      const [all, right, best] = row.slice(3 + 3 * index, 6 + 3 * index);
      line.append(element("td", `${right} / ${all}`, right ? "up" : ""), element("td", best === null ? "–" : `${best.toFixed(2)}×`));
    });
    return line;
  }));
  document.getElementById("count").textContent = `${shown.length} of ${rows.length} tasks`;
  more.hidden = shown.length <= limit;
  heads.forEach((head, index) =>
    head.setAttribute("aria-sort", index !== sorted.column ? "none" : sorted.down ? "descending" : "ascending"));
}

function differences(a, b) {
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--)
    longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const lines = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { lines.push([" ", a[i++]]); j++; }
    else if (j === b.length || (i < a.length && longest[i + 1][j] >= longest[i][j + 1])) lines.push(["-", a[i++]]);
    else lines.push(["+", b[j++]]);
  }
  return lines;
}

function describe(sample) {
  const list = element("dl");
  for (const [name, text] of sample.facts) list.append(element("dt", name), element("dd", text));
  return list;
}

async function open(id) {
  const all = await unpack(id), kernels = all.tasks[id];
  if (!kernels.length) return viewer.replaceChildren(element("h3", `${id}: no samples`));
  const pick = (start) => {
    const menu = element("select");
    kernels.forEach((sample, index) => menu.append(new Option(`${sample.policy} ${sample.number}: ${sample.title}`, index)));
    menu.value = start;
    menu.addEventListener("change", show);
    return menu;
  };
  const best = (some) => some.reduce((a, b) => (kernels[b].rank > kernels[a].rank ? b : a));
  const every = kernels.map((_, index) => index), last = policies[policies.length - 1];
  const own = every.filter((index) => kernels[index].policy === last), right = best(own.length ? own : every);
  const others = every.filter((index) => index !== right);
  const elsewhere = others.filter((index) => kernels[index].policy !== kernels[right].policy);
  const left = best(elsewhere.length ? elsewhere : others.length ? others : [right]);
  const menus = [pick(left), pick(right)], sides = [element("div"), element("div")], diff = element("pre", "", "text diff");
  const grid = element("div", undefined, "sides"), close = element("button", "close");
  close.addEventListener("click", () => viewer.replaceChildren());
  function show() {
    const two = menus.map((menu) => kernels[menu.value]);
    sides.forEach((side, index) => side.replaceChildren(menus[index], describe(two[index]), element("pre", all.texts[two[index].text])));
    const lines = two.map((sample) => all.texts[sample.text].split("\n").slice(0, 3000));
    diff.replaceChildren(...differences(...lines).map(([mark, line]) =>
      element("span", `${mark} ${line}\n`, { "+": "up", "-": "down", " ": "" }[mark])));
  }
  grid.append(...sides);
  viewer.replaceChildren(element("h3", id), close, grid, element("h3", "from the left to the right"), diff);
  show();
  viewer.scrollIntoView({ behavior: "smooth" });
}

heads.forEach((head, index) => head.addEventListener("click", () => {
  sorted = { column: index, down: sorted.column === index ? !sorted.down : index > 2 };
  draw();
}));
for (const control of [find, category, level, outcome]) control.addEventListener("input", () => { limit = STEP; draw(); });
more.addEventListener("click", () => { limit = Infinity; draw(); });
draw();
