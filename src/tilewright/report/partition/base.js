// Data, formats of its own, and which kernel is selected; common.js stands before it. graph.js draws
// with these too.
const data = JSON.parse(document.getElementById("data").textContent);
const term = explainWords({}); // the graph is drawn by the report's own script
const figures = data.figures, kernels = figures.kernel_list, groups = kernels;
const tenths = (share, digits = 1) => percent(share, digits);

function scaled(amount, units, digits) {
  for (const [unit, factor] of units) {
    if (Math.abs(amount) >= factor) return `${(amount / factor).toFixed(digits)} ${unit}`;
  }
  return `${Number(amount.toPrecision(3))} ${units[units.length - 1][2] || ""}`.trim();
}
const finely = (amount) => scaled(amount, [["GB", 1e9], ["MB", 1e6], ["kB", 1e3, "B"]], 2);
const flops = (amount) => scaled(amount, [["TFLOP", 1e12], ["GFLOP", 1e9], ["MFLOP", 1e6], ["kFLOP", 1e3, "FLOP"]], 3);
const time = (seconds) => (seconds === 0 ? "0" : scaled(seconds, [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9, "s"]], 2));

const groupColour = (k) => (k < 0 ? "#e9edf1" : palette[k % palette.length]);
const groupTitle = (k) => `${kernels[k].label}: ${kernels[k].name}`;
const grid = (k) => `${counted(kernels[k].operators.length, "operator")}, ${finely(kernels[k].bytes_external)} external, ${finely(kernels[k].bytes_internal)} inside`;

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

function kernelTip(k) {
  const kernel = kernels[k], mapped = kernel.mapping;
  return `<b>${esc(groupTitle(k))}</b><br>${flops(kernel.flops_total)}, ${finely(kernel.bytes_external)} external,
    ${finely(kernel.bytes_internal)} inside<br><span>${kernel.intensity_total.toFixed(2)} FLOP/B${mapped
    ? `; ${time(mapped.seconds)}, bound by ${esc(mapped.bound)}` : ""}</span>`;
}
