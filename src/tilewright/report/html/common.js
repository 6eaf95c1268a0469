"use strict";
// What every page of Tilewright uses: formats, the tooltip, canvases, legends. No page's own data.
const element = (id) => document.getElementById(id);

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const esc = (text) => String(text).replace(/[&<>"']/g, (c) => escapes[c]);
const count = (value) => Math.round(value).toLocaleString("en-US");
const counted = (value, one) => `${count(value)} ${one}${value === 1 ? "" : "s"}`;
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;

function bytes(amount) {
  for (const [unit, factor] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (Math.abs(amount) >= factor) return `${(amount / factor).toFixed(amount >= 100 * factor ? 0 : 1)} ${unit}`;
  }
  return `${amount} B`;
}

const palette = ["#7aa6d8", "#f2a65a", "#7fc08a", "#d98aa6", "#b39ddb", "#e3c94b", "#6fc3c9", "#c49a7a",
  "#a0b85c", "#e88873", "#8fa3ad", "#d6a0d6"];

// ---- one tooltip for all views
const tip = element("tip");
function showTip(event, html) {
  tip.innerHTML = html;
  tip.hidden = false;
  const room = 14, box = tip.getBoundingClientRect();
  const left = event.clientX + room + box.width > innerWidth ? event.clientX - room - box.width : event.clientX + room;
  const top = event.clientY + room + box.height > innerHeight ? event.clientY - room - box.height : event.clientY + room;
  tip.style.left = `${Math.max(2, left)}px`;
  tip.style.top = `${Math.max(2, top)}px`;
}
const hideTip = () => { tip.hidden = true; };

function legend(id, entries) {
  element(id).innerHTML = entries.map(([colour, text, word]) =>
    `<span${word ? ` class="term" data-term="${esc(word)}"` : ""}><i class="swatch" style="background:${colour}"></i>${esc(text)}</span>`).join("");
}

// ---- canvases: sharp on every screen, drawn once per frame at most, in the page's colours
const dark = matchMedia("(prefers-color-scheme:dark)");
const inkOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
function canvasPainter(canvas, height, paint) {
  const context = canvas.getContext("2d");
  let asked = false;
  const draw = () => {
    asked = false;
    const ratio = devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    const tall = height();
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(tall * ratio);
      canvas.style.height = `${tall}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, tall);
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    paint(context, width, tall);
  };
  const request = () => { if (!asked) { asked = true; requestAnimationFrame(draw); } };
  new ResizeObserver(request).observe(canvas.parentElement);
  dark.addEventListener("change", request);
  draw();
  return request;
}

function niceStep(range, most) {
  const rough = range / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((m) => m * power >= rough);
}

// ---- rows that can be chosen: one stop of the Tab key for a table, arrows within it
function rowKeys(view) {
  const rows = () => [...view.querySelectorAll("tr.row")];
  const stop = (row) => rows().forEach((other) => { other.tabIndex = other === row ? 0 : -1; });
  view.addEventListener("focusin", (event) => { const row = event.target.closest("tr.row"); if (row) stop(row); });
  view.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr.row"), all = rows();
    if (!row || event.target !== row) return;
    const at = all.indexOf(row), to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) { event.preventDefault(); all[to]?.focus(); }
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); row.click(); }
  });
  // After every drawing: the chosen row, else the first, is where Tab leads.
  return () => { const all = rows(); stop(all.find((row) => row.classList.contains("chosen")) ?? all[0]); };
}

// A column is sorted by a click on its heading, the other way by a second one; a click on a row is told.
function sortable(view, sorting, downFirst, draw, onRow) {
  view.addEventListener("click", (event) => {
    const sorter = event.target.closest("[data-column]"), row = event.target.closest("tr.row");
    if (sorter) {
      const column = Number(sorter.dataset.column);
      Object.assign(sorting, { column, down: column === sorting.column ? !sorting.down : downFirst(column) });
      draw();
      view.querySelector(`[data-column="${column}"]`).focus();
    } else if (row) onRow(row);
  });
}

// ---- words explained where they stand: with the mouse, by Tab, by a touch
const escapable = (key) => { if (key === "Escape") hideTip(); };
function explainWords(texts) {
  const show = (event) => {
    const word = event.target.closest?.("[data-term]");
    if (!word || !(word.dataset.term in texts)) return;
    const box = word.getBoundingClientRect();
    showTip({ clientX: box.left, clientY: box.bottom - 8 }, `<b>${esc(word.dataset.term)}</b><br>${esc(texts[word.dataset.term])}`);
  };
  const hide = (event) => { if (event.target.closest?.("[data-term]")) hideTip(); };
  for (const kind of ["mouseover", "focusin", "click"]) document.addEventListener(kind, show);
  for (const kind of ["mouseout", "focusout"]) document.addEventListener(kind, hide);
  document.addEventListener("keydown", (event) => escapable(event.key));
  // A word with its explanation; `stop` where the Tab key should lead to it.
  return (word, text = word, stop = true) => (!(word in texts) ? esc(text) : stop
    ? `<button type="button" class="term" data-term="${esc(word)}" aria-describedby="tip">${esc(text)}</button>`
    : `<span class="term" data-term="${esc(word)}">${esc(text)}</span>`);
}
function listWords(holder, texts, used) {
  holder.innerHTML = used.filter((word) => word in texts).map((word) => `<dt>${esc(word)}</dt><dd>${esc(texts[word])}</dd>`).join("");
}
