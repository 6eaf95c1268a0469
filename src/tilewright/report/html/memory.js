// Buffers as rectangles: addresses over the timeline's time.
(() => {
  const canvas = element("memory-canvas"), which = element("memory-which"), left = gutter, tall = 300, base = tall - 22, topEdge = 10;
  const inside = machine.memories.map(() => []);
  buffers.memory.forEach((memory, b) => { if (buffers.end[b] > buffers.start[b]) inside[memory].push(b); });
  which.innerHTML = machine.memories.map((memory, m) =>
    `<option value="${m}">${esc(memory.name)} (peak ${bytes(memory.peak)})</option>`).join("");
  // It opens with the fullest memory on the chip: a large L2 may hold next to nothing.
  const filled = machine.memories.map((memory) => (memory.main ? 0 : memory.peak / memory.usable));
  which.value = String(filled.indexOf(Math.max(...filled)));
  const range = { low: 0, high: 1 };
  const current = () => machine.memories[Number(which.value)];
  // A capacity far above all addresses is not drawn to scale, or nothing could be seen.
  const full = () => (current().usable <= 3 * current().highest ? Math.max(current().capacity, current().highest) * 1.03 : Math.max(1, current().highest) * 1.1);
  const widest = () => Math.max(full(), current().usable * 1.03);
  const all = () => { Object.assign(range, { low: 0, high: full() }); };
  const zoom = (factor, y = (topEdge + base) / 2) => {
    const at = range.low + (base - y) / (base - topEdge) * (range.high - range.low);
    const length = Math.min(widest(), Math.max(256, (range.high - range.low) * factor));
    range.low = Math.max(0, Math.min(widest() - length, at - (at - range.low) * length / (range.high - range.low)));
    range.high = range.low + length;
    request();
  };
  const byKind = () => element("time-colour").value === "kind";
  const fill = (b) => (byKind() ? (buffers.role[b] === 2 || isWeight[b] ? kindColours[2] : kindColours[3]) : groupColour(buffers.group[b]));
  const weights = new Set();
  buffers.role.forEach((role, b) => { if (role === 2) weights.add(buffers.value[b]); });
  const isWeight = buffers.value.map((value) => weights.has(value));

  const request = canvasPainter(canvas, () => tall, (context, width) => {
    const inner = width - left - 8, across = inner / (state.to - state.from), up = (base - topEdge) / (range.high - range.low);
    const x = (c) => left + (c - state.from) * across, y = (a) => base - (a - range.low) * up;
    drawRuler(context, left, inner, tall - 6, topEdge, base);
    const [unit, factor] = range.high - range.low > 2e6 ? ["MB", 1e6] : range.high - range.low > 2e3 ? ["kB", 1e3] : ["B", 1];
    const step = niceStep((range.high - range.low) / factor, 6), digits = Math.max(0, -Math.floor(Math.log10(step)));
    context.textAlign = "right";
    for (let k = Math.ceil(range.low / factor / step); k * step * factor <= range.high; k += 1) {
      context.fillStyle = inkOf("rule");
      context.fillRect(left, y(k * step * factor), inner, 1);
      context.fillStyle = inkOf("soft");
      context.fillText(`${(k * step).toFixed(digits)} ${unit}`, left - 8, y(k * step * factor) + 4);
    }
    context.save();
    context.beginPath();
    context.rect(left, topEdge, inner, base - topEdge);
    context.clip();
    for (const b of inside[Number(which.value)]) {
      const low = buffers.address[b], high = low + buffers.size[b];
      if (buffers.end[b] < state.from || buffers.start[b] > state.to || high < range.low || low > range.high) continue;
      const from = Math.max(left - 2, x(buffers.start[b])), w = Math.max(0.7, Math.min(width + 2, x(buffers.end[b])) - from);
      const upper = y(high), h = Math.max(0.5, y(low) - upper);
      context.globalAlpha = isFaded(buffers.group[b]) ? 0.18 : 1;
      context.fillStyle = fill(b);
      context.fillRect(from, upper, w, h);
      if (w > 4 && h > 3) {
        context.strokeStyle = "#0005";
        context.lineWidth = 0.6;
        context.strokeRect(from, upper, w, h);
      }
      if (w > 60 && h > 12) {
        const name = strings[buffers.value[b]] || bufferName(b), most = Math.floor((w - 6) / 6.8);
        context.fillStyle = "#1c2733";
        context.textAlign = "left";
        context.fillText(shorter(name, most), Math.max(left, from) + 3, upper + h / 2 + 4);
      }
    }
    context.globalAlpha = 1;
    const limit = current().usable, seen = limit <= range.high && limit >= range.low;
    const level = seen ? y(limit) : topEdge + 1, text = `usable ${bytes(limit)}${seen ? "" : ", not to scale"}`;
    if (seen) {
      context.fillStyle = "#c6282814";
      context.fillRect(left, topEdge, inner, Math.max(0, level - topEdge));
    }
    if (limit >= range.low) {
      context.strokeStyle = inkOf("bad");
      context.lineWidth = 2;
      context.setLineDash(seen ? [] : [3, 5]);
      context.beginPath();
      context.moveTo(left, level);
      context.lineTo(left + inner, level);
      context.stroke();
      context.setLineDash([]);
      const plate = context.measureText(text).width + 8;
      context.fillStyle = inkOf("paper");
      context.fillRect(left + inner - plate, level + 2, plate, 15);
      context.fillStyle = inkOf("bad");
      context.textAlign = "right";
      context.fillText(text, left + inner - 4, level + 13);
    }
    context.restore();
  });

  const hit = (event) => {
    const cycle = state.from + (event.offsetX - left) / (canvas.clientWidth - left - 8) * (state.to - state.from);
    const address = range.low + (base - event.offsetY) / (base - topEdge) * (range.high - range.low);
    if (event.offsetX < left || event.offsetY < topEdge || event.offsetY > base) return {};
    const b = inside[Number(which.value)].find((i) => buffers.start[i] <= cycle && cycle < buffers.end[i]
      && buffers.address[i] <= address && address < buffers.address[i] + buffers.size[i]);
    return { b, cycle, address };
  };
  timeGestures(canvas, left, {
    vertical: zoom,
    hover: (event) => {
      const { b, address } = hit(event);
      if (address === undefined) { hideTip(); return; }
      if (b === undefined) { showTip(event, `<span>free at address ${count(address)}</span>`); return; }
      const low = buffers.address[b], role = roles[buffers.role[b]] || (isWeight[b] ? "weights" : "");
      showTip(event, `<b>${esc(bufferName(b))}</b>${role ? ` <span>${role}</span>` : ""}<br>
        value ${esc(strings[buffers.value[b]])}; ${esc(groupName(buffers.group[b]))}<br>
        ${bytes(buffers.size[b])} <span>(${count(buffers.size[b])} B)</span> at ${count(low)} – ${count(low + buffers.size[b])}<br>
        cycles ${count(buffers.start[b])} – ${count(buffers.end[b])}`);
    },
    click: (event) => {
      const { b } = hit(event);
      select(b === undefined || buffers.group[b] < 0 || buffers.group[b] === state.group ? null : buffers.group[b]);
    },
  });
  const facts = () => {
    const memory = current();
    element("memory-facts").textContent = `${counted(inside[Number(which.value)].length, "buffer")}; peak ${bytes(memory.peak)}`
      + ` (${percent(memory.peak / memory.usable)} of ${bytes(memory.usable)} usable); highest address ${bytes(memory.highest)}`;
  };
  which.onchange = () => { all(); facts(); request(); };
  element("memory-in").onclick = () => zoom(0.5);
  element("memory-out").onclick = () => zoom(2);
  element("memory-reset").onclick = () => { all(); request(); };
  on("range", request);
  on("select", request);
  all();
  facts();
})();
