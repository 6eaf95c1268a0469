// Parallel coordinates: parameters, then figures; pieces of an axis keep what crosses them.
(() => {
  const canvas = element("parallel-canvas"), top = 34, bottom = 18, side = 70, MOST = 20000;
  const everything = [...leaders.map((axis) => axis.name), ...new Set([...data.columns, "latency_ms", "energy_pj", "dram_bytes"])]
    .filter((name, i, all) => all.indexOf(name) === i && (isAxis(name) || figureNames.includes(name)));
  let names = everything, width = 0, height = 0;
  const px = (i) => side + (names.length > 1 ? i / (names.length - 1) : 0.5) * (width - 2 * side);
  const scales = () => names.map(scaleOf);
  const py = (scale, x) => height - bottom - (x - scale.low) / (scale.high - scale.low) * (height - bottom - top);

  const request = canvasPainter(canvas, () => 300, (context, wide, tall) => {
    [width, height] = [wide, tall];
    names = everything.filter((name) => !(isAxis(name) && axisOf[name].workload)); // a view has one workload, or all
    const all = scales(), onFront = new Set(views.length ? views[state.view].rows : []);
    const step = Math.max(1, Math.ceil(items.rows.length / MOST));
    const line = (item) => {
      context.beginPath();
      names.forEach((name, i) => {
        const x = at(name, item);
        if (x !== null) context[i ? "lineTo" : "moveTo"](px(i), py(all[i], x));
      });
      context.stroke();
    };
    context.lineWidth = 1;
    const shown = items.rows.map((_, item) => item).filter((item) => (item % step === 0 || onFront.has(items.rows[item])) && state.keep(items.rows[item]));
    context.globalAlpha = Math.max(0.04, Math.min(0.6, 60 / shown.length));
    context.strokeStyle = "#5b8def";
    shown.filter((item) => !onFront.has(items.rows[item])).forEach(line);
    context.globalAlpha = 0.9;
    context.strokeStyle = "#1c2733";
    context.lineWidth = 1.6;
    shown.filter((item) => onFront.has(items.rows[item])).forEach(line);
    context.strokeStyle = "#0b57d0";
    context.lineWidth = 3;
    items.rows.forEach((row, item) => { if (row === state.row) line(item); });
    context.globalAlpha = 1;
    context.lineWidth = 1;
    names.forEach((name, i) => {
      context.fillStyle = "#7d8894";
      context.fillRect(px(i), top, 1, height - top - bottom);
      context.textAlign = "center";
      context.fillStyle = "#1c2733";
      context.fillText(name, px(i), 14);
      context.fillStyle = "#5b6876";
      const marks = isAxis(name) ? axisOf[name].values.map((text, k) => [k, text]) : [[all[i].low, figureText(name, all[i].low)], [all[i].high, figureText(name, all[i].high)]];
      const every = Math.ceil(marks.length / 14);
      context.textAlign = "left";
      marks.forEach(([x, text], k) => {
        if (k % every) return;
        const label = text.length > 18 ? `${text.slice(0, 17)}…` : text;
        context.fillStyle = "#ffffffc0";
        context.fillRect(px(i) + 3, py(all[i], x) - 6, context.measureText(label).width + 4, 13);
        context.fillStyle = "#5b6876";
        context.fillText(label, px(i) + 5, py(all[i], x) + 4);
      });
      const brush = state.brushes[name];
      if (brush) {
        context.fillStyle = "#0b57d033";
        const [a, b] = [py(all[i], brush[1]), py(all[i], brush[0])];
        context.fillRect(px(i) - 8, a, 16, Math.max(3, b - a));
      }
    });
  });

  const axisAt = (x) => names.reduce((best, _, i) => (Math.abs(px(i) - x) < Math.abs(px(best) - x) ? i : best), 0);
  let grabbed = null;
  const valueAt = (i, y) => {
    const { low, high } = scaleOf(names[i]);
    return low + (height - bottom - Math.min(height - bottom, Math.max(top, y))) / (height - bottom - top) * (high - low);
  };
  canvas.addEventListener("pointerdown", (event) => {
    const i = axisAt(event.offsetX);
    if (Math.abs(px(i) - event.offsetX) > 30) return;
    grabbed = { i, y: event.offsetY };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!grabbed) return;
    const { i, y } = grabbed, name = names[i];
    grabbed = null;
    if (Math.abs(event.offsetY - y) < 4) delete state.brushes[name];
    else {
      const slack = isAxis(name) ? 0.3 : 0;
      const ends = [valueAt(i, y), valueAt(i, event.offsetY)].sort((a, b) => a - b);
      state.brushes[name] = [ends[0] - slack, ends[1] + slack];
    }
    refilter();
  });
  for (const what of ["view", "row", "keep"]) on(what, request);
})();
