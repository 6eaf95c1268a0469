"use strict";
// Data, formats, colours, the tooltip, and which kernel is selected. graph.js draws with these too.
const data = JSON.parse(document.getElementById("data").textContent);
const figures = data.figures, kernels = figures.kernel_list, groups = kernels;
const element = (id) => document.getElementById(id);
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const esc = (text) => String(text).replace(/[&<>"']/g, (c) => escapes[c]);
const count = (value) => Math.round(value).toLocaleString("en-US");
const counted = (value, one) => `${count(value)} ${one}${value === 1 ? "" : "s"}`;
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

function scaled(amount, units, digits) {
  for (const [unit, factor] of units) {
    if (Math.abs(amount) >= factor) return `${(amount / factor).toFixed(digits)} ${unit}`;
  }
  return `${Number(amount.toPrecision(3))} ${units[units.length - 1][2] || ""}`.trim();
}
const bytes = (amount) => scaled(amount, [["GB", 1e9], ["MB", 1e6], ["kB", 1e3, "B"]], 2);
const flops = (amount) => scaled(amount, [["TFLOP", 1e12], ["GFLOP", 1e9], ["MFLOP", 1e6], ["kFLOP", 1e3, "FLOP"]], 3);
const time = (seconds) => (seconds === 0 ? "0" : scaled(seconds, [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9, "s"]], 2));

const palette = ["#7aa6d8", "#f2a65a", "#7fc08a", "#d98aa6", "#b39ddb", "#e3c94b", "#6fc3c9", "#c49a7a",
  "#a0b85c", "#e88873", "#8fa3ad", "#d6a0d6"];
const groupColour = (k) => (k < 0 ? "#e9edf1" : palette[k % palette.length]);
const groupTitle = (k) => `${kernels[k].label}: ${kernels[k].name}`;
const grid = (k) => `${counted(kernels[k].operators.length, "operator")}, ${bytes(kernels[k].bytes_external)} external, ${bytes(kernels[k].bytes_internal)} inside`;

const state = { group: null };
const listeners = [];
const on = (what, listener) => listeners.push(listener);
function select(group) {
  state.group = group;
  element("chosen").textContent = group === null ? "" : groupTitle(group);
  element("unselect").hidden = group === null;
  listeners.forEach((listener) => listener());
}
element("unselect").onclick = () => select(null);

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
function kernelTip(k) {
  const kernel = kernels[k], mapped = kernel.mapping;
  return `<b>${esc(groupTitle(k))}</b><br>${flops(kernel.flops_total)}, ${bytes(kernel.bytes_external)} external,
    ${bytes(kernel.bytes_internal)} inside<br><span>${kernel.intensity_total.toFixed(2)} FLOP/B${mapped
    ? `; ${time(mapped.seconds)}, bound by ${esc(mapped.bound)}` : ""}</span>`;
}
