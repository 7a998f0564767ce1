"use strict";
// What belongs together carries the names of the user's lines (data-l) and of kernels (data-k).
const items = [...document.querySelectorAll(".i")];
const passes = [...document.querySelectorAll(".pass")];
const byLine = new Map(), byKernel = new Map();
const words = (text) => (text || "").split(" ").filter(Boolean);
const add = (table, key, item) => table.has(key) ? table.get(key).push(item) : table.set(key, [item]);
for (const item of items) {
  item.lines = words(item.dataset.l);
  item.kernels = words(item.dataset.k);
  for (const key of item.lines) if (!item.classList.contains("function")) add(byLine, key, item);
  for (const key of item.kernels) add(byKernel, key, item);
}
passes.forEach((each, i) => { for (const item of each.children) item.pass = i; });
const isKernel = (item) => item.kernels.length > 0;
let lit = new Set(), pointed = null, chosen = null, shownPass = passes.length - 1, waits = false;

// What belongs to an item, found once, in parts: what always shows, and what a pass shows.
function related(item) {
  if (item.related) return item.related;
  const found = new Set([item]), kernels = new Set(item.kernels);
  for (const key of item.lines)
    for (const other of byLine.get(key) || [])
      if (!isKernel(other)) found.add(other);
      else if (!isKernel(item)) for (const kernel of other.kernels) kernels.add(kernel);
  for (const kernel of kernels) for (const other of byKernel.get(kernel) || []) found.add(other);
  item.related = { always: [] };
  for (const each of found) (item.related[each.pass ?? "always"] ||= []).push(each);
  return item.related;
}

// Only what changes is touched, and nothing that is not shown.
function light(item) {
  pointed = item;
  const parts = item ? related(item) : { always: [] };
  const next = new Set([...parts.always, ...(parts[shownPass] || [])]);
  for (const each of lit) if (!next.has(each)) each.classList.remove("lit");
  for (const each of next) if (!lit.has(each)) each.classList.add("lit");
  lit = next;
}

function choose(item) {
  if (chosen) { chosen.classList.remove("chosen"); chosen.setAttribute("aria-selected", "false"); }
  chosen = item;
  light(item);
  document.body.classList.toggle("kept", item !== null);
  if (!item) return;
  item.classList.add("chosen");
  item.setAttribute("aria-selected", "true");
  const firsts = new Map();
  for (const each of lit) {
    const box = each.closest("[role=listbox]");
    if (!firsts.has(box) && !box.contains(item) && !each.closest("svg")) firsts.set(box, each);
  }
  // all places are read before any box is moved
  const moves = [...firsts].map(([box, first]) => [box, box.scrollTop - box.clientHeight / 3 +
    first.getBoundingClientRect().top - box.getBoundingClientRect().top]);
  for (const [box, place] of moves) box.scrollTop = place;
}

// The mouse may pass over many items between two pictures; only the last one is lit.
document.addEventListener("mouseover", (event) => {
  const item = event.target.closest(".i");
  if (chosen || item === pointed) return;
  pointed = item;
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => { waits = false; if (!chosen) light(pointed); });
});
document.addEventListener("click", (event) => {
  const item = event.target.closest(".i");
  if (item) { item.focus({ preventScroll: true }); choose(item === chosen ? null : item); }
});

const slider = document.getElementById("pass"), shown = document.getElementById("passname");
const names = [...document.querySelectorAll("#passes option")].map((each) => each.label);
function show(number) {
  number = Math.max(0, Math.min(passes.length - 1, number));
  passes.forEach((each, i) => { each.hidden = i !== number; });
  shownPass = number;
  slider.value = number;
  shown.textContent = names[number];
  slider.setAttribute("aria-valuetext", names[number]);
  light(pointed);
}
slider.addEventListener("input", () => show(Number(slider.value)));

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return choose(null);
  if (event.key === "[" || event.key === "]")
    return show(Number(slider.value) + (event.key === "]" ? 1 : -1));
  const box = event.target.closest && event.target.closest("[role=listbox]");
  if (!box) return;
  const own = [...box.querySelectorAll(".i")].filter((each) => (each.pass ?? shownPass) === shownPass);
  const place = own.indexOf(event.target);
  const moves = { ArrowDown: place + 1, ArrowUp: Math.max(place - 1, 0), Home: 0, End: own.length - 1 };
  if (event.key in moves && own.length) {
    event.preventDefault();
    const next = own[Math.min(moves[event.key], own.length - 1)];
    next.focus();
    if (!chosen) light(next);
  } else if ((event.key === "Enter" || event.key === " ") && place >= 0) {
    event.preventDefault();
    choose(own[place] === chosen ? null : own[place]);
  }
});
