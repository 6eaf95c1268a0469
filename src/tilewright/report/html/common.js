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
  element(id).innerHTML = entries.map(([colour, text]) =>
    `<span><i class="swatch" style="background:${colour}"></i>${esc(text)}</span>`).join("");
}

// ---- canvases: sharp on every screen, drawn once per frame at most
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
  draw();
  return request;
}

function niceStep(range, most) {
  const rough = range / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((m) => m * power >= rough);
}
