// Engines and links over time: one lane each, and above them when which group was finished.
(() => {
  const canvas = element("time-canvas"), left = gutter, lane = machine.engines.length > 14 ? 20 : 26, gap = 4, ribbon = 18, topEdge = 20;
  const lanes = machine.engines.map(() => []);
  tasks.engine.forEach((engine, t) => lanes[engine].push(t));
  lanes.forEach((list) => list.sort((a, b) => tasks.start[a] - tasks.start[b] || a - b));
  const critical = new Set(data.critical);
  let reached = 0;
  const finished = groups.map((group, g) => [g, group]).sort((a, b) => a[1].end - b[1].end).flatMap(([g, group]) => {
    const part = { g, from: reached, to: group.end };
    reached = Math.max(reached, group.end);
    return part.to > part.from ? [part] : [];
  });
  const laneTop = (i) => topEdge + ribbon + 8 + i * (lane + gap);
  const height = () => laneTop(machine.engines.length) + 6;
  const byKind = () => element("time-colour").value === "kind";
  const fill = (t) => (byKind() ? kindColours[tasks.kind[t]] : groupColour(tasks.group[t]));

  // The first task of a lane that ends after a moment (tasks of a lane do not overlap).
  const firstAfter = (list, moment) => {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tasks.end[list[middle]] > moment) high = middle; else low = middle + 1;
    }
    return low;
  };

  // The whole name where it fits, else its node's.
  const clipText = (context, t, x, y, room) => {
    const most = Math.floor((room - 8) / 6.8);
    if (most >= 5) context.fillText(taskName(t).length <= most ? taskName(t) : shorter(strings[tasks.name[t]], most), x + 3, y);
  };

  const request = canvasPainter(canvas, height, (context, width) => {
    const inner = width - left - 8, scale = inner / (state.to - state.from), place = (c) => left + (c - state.from) * scale;
    const onPath = element("time-critical").checked;
    drawRuler(context, left, inner, 13, topEdge, height());
    context.textAlign = "right";
    const [ink, soft, back] = ["ink", "soft", "back"].map(inkOf);
    context.fillStyle = soft;
    context.fillText("group finished", left - 8, topEdge + 13);
    machine.engines.forEach((engine, i) => {
      context.fillStyle = ink;
      context.fillText(shorter(engine.name, Math.floor((left - 52) / 6.2)), left - 50, laneTop(i) + lane / 2 + 4);
      context.fillStyle = soft;
      context.fillText(percent(engine.busy / makespan), left - 8, laneTop(i) + lane / 2 + 4);
      context.fillStyle = back;
      context.fillRect(left, laneTop(i), inner, lane);
    });
    context.save();
    context.beginPath();
    context.rect(left, 0, inner, height());
    context.clip();
    context.textAlign = "left";
    for (const part of finished) {
      if (part.to < state.from || part.from > state.to) continue;
      const x = Math.max(left, place(part.from)), w = Math.max(1, Math.min(width, place(part.to)) - x);
      context.globalAlpha = isFaded(part.g) ? 0.25 : 1;
      context.fillStyle = groupColour(part.g);
      context.fillRect(x, topEdge, Math.max(1, w - 1), ribbon);
      context.fillStyle = "#1c2733";
      if (w > 7 * groupName(part.g).length + 5) context.fillText(groupName(part.g), x + 3, topEdge + 13);
    }
    lanes.forEach((list, i) => {
      let drawn = -1; // nothing narrower than a third of a pixel is drawn twice at one place
      for (let k = firstAfter(list, state.from); k < list.length && tasks.start[list[k]] < state.to; k += 1) {
        const t = list[k], x = place(tasks.start[t]), end = place(tasks.end[t]);
        const chosen = state.group === tasks.group[t];
        if (end - drawn < 0.33 && !chosen) continue;
        drawn = end;
        const from = Math.max(left - 2, x), w = Math.max(0.7, Math.min(width + 2, end) - from);
        const faded = isFaded(tasks.group[t], tasks.tile[t]) || (onPath && !critical.has(t));
        context.globalAlpha = faded ? 0.16 : 1;
        context.fillStyle = fill(t);
        context.fillRect(from, laneTop(i), w > 3 ? w - 0.6 : w, lane);
        if (onPath && critical.has(t) && !faded) {
          context.fillStyle = "#c62828";
          context.fillRect(from, laneTop(i) + lane - 3, w, 3);
        }
        if (t === state.task) {
          context.strokeStyle = ink;
          context.lineWidth = 2;
          context.strokeRect(from + 1, laneTop(i) + 1, Math.max(1, w - 2), lane - 2);
        }
        if (w > 34) {
          context.fillStyle = "#1c2733";
          clipText(context, t, Math.max(left, from), laneTop(i) + lane / 2 + 4, w);
        }
      }
    });
    context.restore();
  });

  const found = (event) => {
    const cycle = state.from + (event.offsetX - left) / (canvas.clientWidth - left - 8) * (state.to - state.from);
    if (event.offsetX < left) return null;
    if (event.offsetY >= topEdge && event.offsetY < topEdge + ribbon) {
      const part = finished.find((p) => cycle >= p.from && cycle < p.to);
      return part ? { group: part.g } : null;
    }
    const i = Math.floor((event.offsetY - laneTop(0)) / (lane + gap));
    if (i < 0 || i >= lanes.length) return null;
    const slack = 2 * (state.to - state.from) / canvas.clientWidth, k = firstAfter(lanes[i], cycle - slack);
    const t = k < lanes[i].length && tasks.start[lanes[i][k]] <= cycle + slack ? lanes[i][k] : undefined;
    return t === undefined ? null : { task: t };
  };
  const taskTip = (t) => {
    const start = tasks.start[t], end = tasks.end[t];
    const list = (title, all) => (all.length ? `<span>${title}</span>${all.map((v) => `<code>${esc(viewLine(v))}</code>`).join("")}` : "");
    return `<b>${esc(taskName(t))}</b> <span>${kinds[tasks.kind[t]]}</span><br>
      node ${esc(strings[tasks.node[t]])}; ${esc(groupName(tasks.group[t]))}, tile ${tasks.tile[t]} (${esc(tileLabel(t).slice(1))})<br>
      cycles ${count(start)} – ${count(end)} <span>(${count(end - start)}; ${time(end - start)})</span>
      ${tasks.moved[t] ? `<br>moves ${bytes(tasks.moved[t])}, ${((tasks.moved[t]) / (end - start)).toFixed(1)} B/cycle` : ""}
      ${critical.has(t) ? "<br>on the critical path" : ""}<br>${list("reads", tasks.reads[t])}${list("writes", tasks.writes[t])}`;
  };
  timeGestures(canvas, left, {
    hover: (event) => {
      const hit = found(event);
      if (!hit) { hideTip(); return; }
      showTip(event, hit.task !== undefined ? taskTip(hit.task)
        : `<b>${esc(groupTitle(hit.group))}</b><br><span>adds ${time(groups[hit.group].adds)} to the run; ${esc(grid(hit.group))}</span>`);
    },
    click: (event) => {
      const hit = found(event);
      if (!hit) select(null);
      else if (hit.task !== undefined) select(tasks.group[hit.task], tasks.tile[hit.task], hit.task);
      else select(hit.group === state.group && state.tile === null ? null : hit.group);
    },
  });
  const showLegend = () => legend("time-legend", byKind() ? kinds.map((kind, k) => [kindColours[k], kind]) : []);
  element("time-in").onclick = () => zoomTime(0.5);
  element("time-out").onclick = () => zoomTime(2);
  element("time-left").onclick = () => moveTime(-0.3);
  element("time-right").onclick = () => moveTime(0.3);
  element("time-reset").onclick = () => showTime(0, makespan);
  element("time-selected").onclick = () => showGroup(state.group, state.tile);
  element("time-colour").onchange = () => { showLegend(); request(); tell("range"); };
  element("time-critical").onchange = request;
  on("range", () => {
    element("time-range").textContent = `${time(state.from, 4)} – ${time(state.to, 4)} of ${time(makespan, 4)}`;
    request();
  });
  on("select", () => { element("time-selected").disabled = state.group === null; request(); });
  showLegend();
})();
