// The page of a plan on many cores: network, schedule, cores, memories, front.
const data = JSON.parse(element("data").textContent);
const colour = (k) => palette[k % palette.length];
document.body.classList.toggle("narrow", !data.full);

const table = (label, heads, rows) => `<table aria-label="${esc(label)}"><thead><tr>${heads.map((name) =>
  (name.startsWith("#") ? `<th scope="col" class="n">${esc(name.slice(1))}</th>` : `<th scope="col">${esc(name)}</th>`)).join("")}</tr></thead>
  <tbody>${rows.map((row) => `<tr>${row.join("")}</tr>`).join("")}</tbody></table>`;
const cell = (value) => (typeof value === "number" ? `<td class="n">${count(value)}</td>` : `<td>${esc(value)}</td>`);
const meter = (share, text) => `<td><span class="meter"><i style="width:${Math.round(44 * Math.min(1, share))}px"></i></span>${esc(text)}</td>`;

// ---- headline
(() => {
  const card = ([name, value, detail]) =>
    `<div class="card"><span class="name">${esc(name)}</span><b>${esc(value)}</b><span>${esc(detail)}</span></div>`;
  element("head").innerHTML = `<h1>${esc(data.title)}</h1>
    <p class="verified${data.proved ? "" : " not"}">${data.proved ? "✓ " : ""}${esc(data.proof)}</p>
    <div class="cards">${data.cards.map(card).join("")}</div>
    <div class="adapted">${data.lines.map((line) => `<div>${esc(line)}</div>`).join("")}</div>`;
})();

// ---- network: a layer that is divided among cores has all their colours
(() => {
  if (!data.full) return;
  const { graph } = data, [wide, tall] = graph.box, shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const fills = [], boxes = graph.name.map((name, i) => {
    const layer = data.layers[graph.group[i]];
    const cores = layer ? [...new Set(layer.position)] : [];
    let fill = layer ? colour(cores[0]) : "#fff";
    if (cores.length > 1) {
      fills.push(`<linearGradient id="fill${i}">${cores.flatMap((core, k) => [k, k + 1].map((at) =>
        `<stop offset="${at / cores.length}" stop-color="${colour(core)}"/>`)).join("")}</linearGradient>`);
      fill = `url(#fill${i})`;
    }
    return `<g class="box" data-box="${i}"><rect x="${graph.x[i] - wide / 2}" y="${graph.y[i] - tall / 2}" width="${wide}" height="${tall}"
      rx="${layer ? 4 : tall / 2}" fill="${fill}"/><text x="${graph.x[i]}" y="${graph.y[i] - 2}">${esc(shortened(graph.kind[i], 16))}</text>
      <text class="sub" x="${graph.x[i]}" y="${graph.y[i] + 10}">${esc(shortened(name, 19))}</text></g>`;
  });
  const edges = graph.edges.map((edge) => `<path class="edge${edge.resident ? "" : " between"}" d="${edge.path}"/>`);
  const holder = element("network-view");
  holder.innerHTML = `<svg viewBox="0 0 ${graph.width} ${graph.height}" width="${graph.width}" style="max-width:100%"
    role="img" aria-label="Network of ${counted(graph.name.length, "node")}"><defs>${fills.join("")}</defs>${edges.join("")}${boxes.join("")}</svg>`;
  legend("network-legend", [...data.cores.map((core, k) => [colour(k), core.name]), ["#c2185b", "passes between cores or to the outside"]]);
  holder.addEventListener("pointermove", (event) => {
    const box = event.target.closest("[data-box]");
    if (!box) { hideTip(); return; }
    const i = Number(box.dataset.box), layer = data.layers[graph.group[i]];
    showTip(event, `<b>${esc(graph.name[i])}</b> ${esc(graph.kind[i])}<br><span>${layer ? `core ${layer.cores.join(", ")}<br>${esc(layer.told)}` : "of the network"}</span>`);
  });
  holder.addEventListener("pointerleave", hideTip);
})();

// ---- schedule
const canvas = element("time"), LABEL = 150, ROW = 26, AXIS = 24;
let from = 0, to = data.latency, read = null;  // `read`: the task that the keys have led to
const byEngine = data.engines.map(() => []);
data.tasks.forEach((task) => byEngine[task[0]].push(task));
byEngine.forEach((row) => row.sort((a, b) => a[1] - b[1]));
const shown = data.engines.map((_, k) => k).filter((k) => byEngine[k].length);
const place = (time) => LABEL + ((time - from) / (to - from)) * (canvas.clientWidth - LABEL);
const firstAt = (row, time) => {
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle][2] <= time) low = middle + 1; else high = middle;
  }
  return low;
};
const redraw = canvasPainter(canvas, () => shown.length * ROW + AXIS, (context, width, height) => {
  const step = niceStep(to - from, (width - LABEL) / 90), [ink, soft] = ["ink", "soft"].map(inkOf);
  context.fillStyle = soft;
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    const x = place(t);
    context.globalAlpha = 0.2;
    context.fillRect(x, 0, 1, height - AXIS);
    context.globalAlpha = 1;
    context.fillText(count(t), x + 3, height - 8);
  }
  shown.forEach((engine, line) => {
    const y = line * ROW, row = byEngine[engine];
    context.save();
    context.beginPath();
    context.rect(LABEL, y, width - LABEL, ROW);
    context.clip();
    let edge = -1;
    for (let k = firstAt(row, from); k < row.length && row[k][1] < to; k++) {
      const task = row[k], x = place(task[1]), w = Math.max(place(task[2]) - x, 0.6);
      if (x + w < edge + 0.4) continue;
      edge = x + w;
      context.fillStyle = task[4] < data.layers.length ? colour(task[4]) : "#c8ced5";
      context.fillRect(x, y + 3, w > 3 ? w - 0.5 : w, ROW - 6);
      if (w > 46) { context.fillStyle = "#1c2733"; context.fillText(task[3].slice(0, Math.floor(w / 6.5)), x + 3, y + 17); }
    }
    if (read && read[0] === engine) {
      context.strokeStyle = ink;
      context.lineWidth = 2;
      context.strokeRect(place(read[1]), y + 2, Math.max(2, place(read[2]) - place(read[1])), ROW - 4);
    }
    context.restore();
    context.fillStyle = ink;
    context.fillText(data.engines[engine], 6, y + 17);
  });
  element("time-range").textContent = `cycles ${count(from)} to ${count(to)} of ${count(data.latency)}`;
});
const look = (start, span) => {
  span = Math.min(data.latency, Math.max(20, span));
  from = Math.max(0, Math.min(data.latency - span, start));
  to = from + span;
  redraw();
};
const zoom = (factor, share = 0.5) => look(from + share * (to - from) * (1 - factor), (to - from) * factor);
const shift = (share) => look(from + share * (to - from), to - from);
const under = (event) => {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left;
  const engine = shown[Math.floor((event.clientY - box.top) / ROW)];
  if (engine === undefined || x < LABEL) return null;
  const time = from + ((x - LABEL) / (box.width - LABEL)) * (to - from);
  const row = byEngine[engine], found = row[firstAt(row, time)];
  return found && found[1] <= time ? found : null;
};
const told = (task) => `<b>${esc(task[3])}</b><br>cycles ${count(task[1])} to ${count(task[2])} (${count(task[2] - task[1])})
  ${task[5].map((line) => `<code>${esc(line)}</code>`).join("")}`;
// By keys: the next task of a row, or the row above or below; what a tip would show is read out.
const step = (along, rows) => {
  const line = read ? Math.min(shown.length - 1, Math.max(0, shown.indexOf(read[0]) + rows)) : 0;
  const row = byEngine[shown[line]], at = !read || rows ? firstAt(row, read ? read[1] : from) : row.indexOf(read) + along;
  read = row[Math.min(row.length - 1, Math.max(0, at))];
  const span = Math.max(to - from, read[2] - read[1]);
  look(read[1] < from || read[2] > to ? (read[1] + read[2] - span) / 2 : from, span);
  const box = canvas.getBoundingClientRect();
  showTip({ clientX: box.left + Math.max(LABEL, place(read[1])), clientY: box.top + (shown.indexOf(read[0]) + 1) * ROW }, told(read));
  element("time-told").textContent = `${data.engines[read[0]]}: ${tip.innerText}`;
};
let held = null;
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (event.clientX - box.left - LABEL) / (box.width - LABEL)));
  zoom(event.deltaY > 0 ? 1.25 : 0.8, share);
}, { passive: false });
canvas.addEventListener("pointerdown", (event) => { held = [event.clientX, from]; canvas.classList.add("dragging"); });
window.addEventListener("pointerup", () => { held = null; canvas.classList.remove("dragging"); });
canvas.addEventListener("dblclick", () => look(0, data.latency));
canvas.addEventListener("pointermove", (event) => {
  if (held) {
    look(held[1] + ((held[0] - event.clientX) / (canvas.clientWidth - LABEL)) * (to - from), to - from);
    return;
  }
  const task = under(event);
  if (!task) { hideTip(); return; }
  showTip(event, told(task));
});
canvas.addEventListener("pointerleave", hideTip);
canvas.addEventListener("keydown", (event) => {
  const keys = { "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), 0: () => look(0, data.latency),
    ArrowLeft: () => shift(-0.1), ArrowRight: () => shift(0.1), ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1),
    n: () => step(1, 0), p: () => step(-1, 0), Escape: hideTip };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
canvas.addEventListener("blur", () => { read = null; hideTip(); redraw(); });
element("time-in").onclick = () => zoom(0.7);
element("time-out").onclick = () => zoom(1 / 0.7);
element("time-left").onclick = () => shift(-0.25);
element("time-right").onclick = () => shift(0.25);
element("time-reset").onclick = () => look(0, data.latency);
legend("time-legend", [...data.layers.slice(0, 12).map((layer, k) => [colour(k), layer.name]), ["#c8ced5", "from outside"]]);

// ---- tables
if (data.full) {
  element("cores-view").innerHTML = table("Cores", ["core", "busy", "idle cycles, and why"], data.cores.map((core, k) => [
    `<td><i class="swatch" style="background:${colour(k)}"></i>${esc(core.name)}</td>`,
    meter(core.share, percent(core.share)), cell(core.idle)]));
  element("memories-view").innerHTML = table("Memories", ["memory", "peak", "of", "twice as large"], data.memories.map((memory) => [
    cell(memory.name), meter(memory.peak / memory.size, `${bytes(memory.peak)} (${percent(memory.peak / memory.size)})`),
    `<td>${bytes(memory.size)}</td>`, cell(memory.more)]));
  element("front-view").innerHTML = table("Latency, energy and memory", ["#cycles", "#energy, pJ", "#memory", "cores of the parts, in their order"], data.front.map((point) => [
    cell(point[0]), cell(point[1]), `<td class="n">${bytes(point[2])}</td>`, cell(point[3])]));
  element("layers-view").innerHTML = table("Layers", ["layer", "cores", "kind, result and tiles"], data.layers.map((layer) => [
    cell(layer.name), cell(layer.cores.join(", ")), cell(layer.told)]));
  element("notes").hidden = !data.notes.length;
  element("notes-view").innerHTML = data.notes.map((note) => `<div>${esc(note)}</div>`).join("");
}
document.documentElement.dataset.ready = "yes";
