"use strict";
// What belongs together carries the names of the user's lines (data-l) and of kernels (data-k).
const items = [...document.querySelectorAll(".i")];
const byLine = new Map(), byKernel = new Map();
const words = (text) => (text || "").split(" ").filter(Boolean);
const add = (table, key, item) => table.has(key) ? table.get(key).push(item) : table.set(key, [item]);
for (const item of items) {
  item.lines = words(item.dataset.l);
  item.kernels = words(item.dataset.k);
  for (const key of item.lines) if (!item.classList.contains("function")) add(byLine, key, item);
  for (const key of item.kernels) add(byKernel, key, item);
}
const isKernel = (item) => item.kernels.length > 0;
let lit = [], chosen = null;

function related(item) {
  const found = new Set([item]);
  const kernels = new Set(item.kernels);
  for (const key of item.lines)
    for (const other of byLine.get(key) || [])
      if (!isKernel(other)) found.add(other);
      else if (!isKernel(item)) for (const kernel of other.kernels) kernels.add(kernel);
  for (const kernel of kernels) for (const other of byKernel.get(kernel) || []) found.add(other);
  return found;
}

function light(item) {
  for (const each of lit) each.classList.remove("lit");
  lit = item ? [...related(item)] : [];
  for (const each of lit) each.classList.add("lit");
}

function choose(item) {
  if (chosen) { chosen.classList.remove("chosen"); chosen.setAttribute("aria-selected", "false"); }
  chosen = item;
  light(item);
  if (!item) return;
  item.classList.add("chosen");
  item.setAttribute("aria-selected", "true");
  for (const box of document.querySelectorAll("[role=listbox]")) {
    if (box.contains(item)) continue;
    const first = lit.find((each) => box.contains(each) && !each.closest("[hidden]"));
    if (first && first.scrollIntoView && !first.closest("svg")) {
      const inside = first.getBoundingClientRect().top - box.getBoundingClientRect().top;
      box.scrollTop += inside - box.clientHeight / 3;
    }
  }
}

document.addEventListener("mouseover", (event) => {
  if (!chosen) light(event.target.closest(".i"));
});
document.addEventListener("click", (event) => {
  const item = event.target.closest(".i");
  if (item) { item.focus({ preventScroll: true }); choose(item === chosen ? null : item); }
});

const slider = document.getElementById("pass"), shown = document.getElementById("passname");
const passes = [...document.querySelectorAll(".pass")];
const names = [...document.querySelectorAll("#passes option")].map((each) => each.label);
function show(number) {
  number = Math.max(0, Math.min(passes.length - 1, number));
  passes.forEach((each, i) => { each.hidden = i !== number; });
  slider.value = number;
  shown.textContent = names[number];
  slider.setAttribute("aria-valuetext", names[number]);
}
slider.addEventListener("input", () => show(Number(slider.value)));

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return choose(null);
  if (event.key === "[" || event.key === "]")
    return show(Number(slider.value) + (event.key === "]" ? 1 : -1));
  const box = event.target.closest && event.target.closest("[role=listbox]");
  if (!box) return;
  const own = [...box.querySelectorAll(".i")].filter((each) => !each.closest("[hidden]"));
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
