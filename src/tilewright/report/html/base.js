// The run's data, names and colours, and the state that all views share.
const data = JSON.parse(document.getElementById("data").textContent);
const { tasks, views, layouts, buffers, groups, machine, strings, kinds, head } = data;
const makespan = Math.max(1, head.latency_cycles);
const term = explainWords(data.terms);

function time(cycles, digits = 3) {
  const seconds = cycles / machine.clock_hz;
  for (const [unit, factor] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
    if (Math.abs(seconds) >= factor) return `${Number((seconds / factor).toPrecision(digits))} ${unit}`;
  }
  return `${Number((seconds * 1e9).toPrecision(digits))} ns`;
}

const kindColours = ["#7f9fe0", "#b596dd", "#d98e2b", "#e8c35a", "#6cb677", "#9aa5b0", "#d39ac2"];
const groupColour = (group) => (group < 0 ? "#e9edf1" : palette[group % palette.length]);
const groupName = (group) => (group < 0 ? "no group" : `g${group}`);
const taskName = (t) => strings[tasks.name[t]] + strings[tasks.label[t]];
const tileLabel = (t) => strings[tasks.label[t]].split("+")[0] || `@${tasks.tile[t]}`;
const bufferName = (b) => strings[buffers.name[b]] + strings[buffers.label[b]];
const roles = ["", "network input", "weights", "network output"];

// Names of engines stand left of both canvases: as much room as they need, up to a third.
const gutter = (() => {
  const context = document.createElement("canvas").getContext("2d");
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  const widest = Math.max(...machine.engines.map((engine) => context.measureText(engine.name).width));
  return Math.round(Math.min(Math.max(widest + 60, 100), 0.36 * document.documentElement.clientWidth));
})();

// A name in less room: its end says more than its beginning.
const shorter = (text, most) => (text.length <= most ? text : most < 4 ? "" : `…${text.slice(text.length - most + 1)}`);

function groupTitle(group) {
  const nodes = groups[group].nodes;
  const ends = nodes.length > 2 ? `${nodes[0]} … ${nodes[nodes.length - 1]}` : nodes.join(", ");
  return `${groupName(group)}: ${ends}`;
}

function grid(group) {
  const { splits, place } = groups[group];
  if (place === "view") return "view";
  if (place === "main") return "in main memory";
  return splits.map(([axis, parts, halo]) => `${axis}/${parts}${halo ? ` ${halo}` : ""}`).join(" × ") || "whole";
}

function viewText(v) {
  const b = views.buffer[v], [shape, strides, item] = layouts[views.layout[v]];
  return {
    value: strings[buffers.value[b]] || bufferName(b), shape: shape.join("×") || "scalar", item,
    strides: strides.join(","), at: buffers.address[b] + views.offset[v],
    memory: machine.memories[buffers.memory[b]].name,
  };
}

function viewLine(v) {
  const { value, shape, memory, at } = viewText(v);
  return `${value} [${shape}] @ ${memory}+${count(at)}`;
}

// ---- shared state: what is selected, and which part of time is visible
const state = { group: null, tile: null, task: null, from: 0, to: makespan };
const listeners = { select: [], range: [] };
const on = (what, listener) => listeners[what].push(listener);
const tell = (what) => listeners[what].forEach((listener) => listener());

function select(group, tile = null, task = null) {
  Object.assign(state, { group, tile, task });
  tell("select");
}

function showTime(from, to) {
  const least = Math.min(makespan, 20);
  let length = Math.min(makespan, Math.max(least, to - from));
  let start = Math.min(Math.max(0, from), makespan - length);
  Object.assign(state, { from: start, to: start + length });
  tell("range");
}

function zoomTime(factor, at = (state.from + state.to) / 2) {
  showTime(at - (at - state.from) * factor, at + (state.to - at) * factor);
}

const moveTime = (share) => showTime(state.from + share * (state.to - state.from),
  state.to + share * (state.to - state.from));

function showGroup(group, tile = null) {
  let from = Infinity, to = 0;
  for (const t of tasksOf(group)) {
    if (tile !== null && tasks.tile[t] !== tile) continue;
    from = Math.min(from, tasks.start[t]);
    to = Math.max(to, tasks.end[t]);
  }
  if (to > from) showTime(from - 0.06 * (to - from), to + 0.06 * (to - from));
}

// ---- tasks by group, found once
const byGroup = groups.map(() => []);
tasks.group.forEach((group, t) => byGroup[group].push(t));
const tasksOf = (group) => byGroup[group];
const isFaded = (group, tile) => state.group !== null &&
  (group !== state.group || (state.tile !== null && tile !== undefined && tile !== state.tile));

// Dragging moves time, a click without a move is a click.
function timeGestures(canvas, left, extra = {}) {
  const span = () => canvas.clientWidth - left - 8;
  const at = (x) => state.from + (x - left) / span() * (state.to - state.from);
  let grabbed = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300)));
    if (event.shiftKey && extra.vertical) extra.vertical(factor, event.offsetY);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) moveTime(event.deltaX / span());
    else zoomTime(factor, at(Math.max(left, event.offsetX)));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    grabbed = { x: event.clientX, from: state.from, to: state.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (grabbed) {
      const shift = (grabbed.x - event.clientX) / span() * (grabbed.to - grabbed.from);
      if (Math.abs(event.clientX - grabbed.x) > 3) grabbed.moved = true;
      if (grabbed.moved) { canvas.classList.add("dragging"); hideTip(); showTime(grabbed.from + shift, grabbed.to + shift); }
    } else if (extra.hover) extra.hover(event);
  });
  canvas.addEventListener("pointerup", (event) => {
    canvas.classList.remove("dragging");
    if (grabbed && !grabbed.moved && extra.click) extra.click(event);
    grabbed = null;
  });
  canvas.addEventListener("pointercancel", () => { grabbed = null; canvas.classList.remove("dragging"); });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("keydown", (event) => {
    const keys = { "+": () => zoomTime(0.6), "=": () => zoomTime(0.6), "-": () => zoomTime(1 / 0.6),
      ArrowLeft: () => moveTime(-0.2), ArrowRight: () => moveTime(0.2), 0: () => showTime(0, makespan) };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
}

// ---- the ruler of time below or above a canvas
function drawRuler(context, left, width, y, top, bottom) {
  const scale = width / (state.to - state.from), per = 1 / machine.clock_hz;
  const [unit, factor] = (state.to - state.from) * per > 2e-3 ? ["ms", 1e-3]
    : (state.to - state.from) * per > 2e-6 ? ["µs", 1e-6] : ["ns", 1e-9];
  const step = niceStep((state.to - state.from) * per / factor, width / 90);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  context.textAlign = "center";
  for (let k = Math.ceil(state.from * per / factor / step); k * step * factor / per <= state.to; k += 1) {
    const x = left + (k * step * factor / per - state.from) * scale;
    context.fillStyle = inkOf("rule");
    context.fillRect(x, top, 1, bottom - top);
    context.fillStyle = inkOf("soft");
    const text = `${(k * step).toFixed(digits)} ${unit}`, half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(x, left + width + 6 - half), y);
  }
}
