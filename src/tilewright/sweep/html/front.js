// Two figures against each other: every point, and the front of what is shown.
(() => {
  const canvas = element("front-canvas"), left = 78, bottom = 40, top = 14, right = 16;
  const names = [...figureNames, ...leaders.map((axis) => axis.name)];
  const [wantedY, wantedX] = data.columns;
  const picks = { x: element("front-x"), y: element("front-y"), colour: element("front-colour") };
  for (const key of ["x", "y"]) picks[key].innerHTML = names.map((name) => `<option>${esc(name)}</option>`).join("");
  picks.colour.innerHTML = ["nothing", ...axes.filter((axis) => axis.values.length > 1).map((axis) => axis.name)]
    .map((name) => `<option>${esc(name)}</option>`).join("");
  picks.x.value = wantedX;
  picks.y.value = wantedY;
  if (leaders.length) picks.colour.value = (leaders.find((axis) => !axis.workload) || leaders[0]).name;
  element("load").innerHTML = views.map((view, v) => `<option value="${v}">${esc(view.label)}</option>`).join("");
  element("load-label").hidden = views.length < 2;

  let places = [], front = [], hovered = null;
  const logarithmic = () => element("front-log").checked;
  const own = () => items.rows.map((_, item) => item).filter((item) =>
    state.keep(items.rows[item]) && at(picks.x.value, item) !== null && at(picks.y.value, item) !== null);

  function frontOf(shown) {
    const [x, y] = [picks.x.value, picks.y.value];
    const order = shown.slice().sort((a, b) => at(x, a) - at(x, b) || at(y, a) - at(y, b));
    let least = Infinity;
    return order.filter((item) => { const less = at(y, item) < least; least = Math.min(least, at(y, item)); return less; });
  }

  function ruler(name) {
    const { low, high } = scaleOf(name), log = logarithmic() && low > 0 && !isAxis(name);
    const f = log ? Math.log : (x) => x, a = f(low), b = f(high), spare = 0.04 * (b - a);
    return { share: (x) => (f(x) - a + spare) / (b - a + 2 * spare), low, high, log };
  }

  function ticks(name, scale, most) {
    if (isAxis(name)) return axisOf[name].values.map((text, i) => [i, text]);
    if (scale.log) {
      const found = [];
      for (let k = Math.floor(Math.log10(scale.low)); 10 ** k <= scale.high; k += 1) {
        for (const m of [1, 2, 5]) if (m * 10 ** k >= scale.low && m * 10 ** k <= scale.high) found.push([m * 10 ** k, figureText(name, m * 10 ** k)]);
      }
      return found;
    }
    const step = niceStep(scale.high - scale.low, most), found = [];
    for (let k = Math.ceil(scale.low / step); k * step <= scale.high; k += 1) found.push([k * step, figureText(name, k * step)]);
    return found;
  }

  const request = canvasPainter(canvas, () => 420, (context, width, height) => {
    const xs = ruler(picks.x.value), ys = ruler(picks.y.value);
    const px = (value) => left + xs.share(value) * (width - left - right);
    const py = (value) => height - bottom - ys.share(value) * (height - bottom - top);
    context.fillStyle = "#5b6876";
    context.strokeStyle = "#edf0f3";
    context.textAlign = "center";
    for (const [value, text] of ticks(picks.x.value, xs, width / 110)) {
      context.strokeRect(px(value), top, 0, height - bottom - top);
      context.fillText(text, px(value), height - bottom + 15);
    }
    context.textAlign = "right";
    for (const [value, text] of ticks(picks.y.value, ys, 7)) {
      context.strokeRect(left, py(value), width - left - right, 0);
      context.fillText(text, left - 6, py(value) + 4);
    }
    context.textAlign = "center";
    context.fillText(picks.x.value, (left + width - right) / 2, height - 8);
    context.save();
    context.translate(12, (top + height - bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(picks.y.value, 0, 0);
    context.restore();
    const shown = own(), colour = picks.colour.value, many = shown.length > 5000;
    front = frontOf(shown);
    places = shown.map((item) => [px(at(picks.x.value, item)), py(at(picks.y.value, item)), item]);
    context.globalAlpha = many ? 0.35 : 0.85;
    for (const [x, y, item] of places) {
      context.fillStyle = colour === "nothing" ? "#7aa6d8" : palette[codes[colour][items.rows[item]] % palette.length];
      if (many) context.fillRect(x - 1, y - 1, 2.5, 2.5);
      else { context.beginPath(); context.arc(x, y, 3.6, 0, 7); context.fill(); }
    }
    context.globalAlpha = 1;
    context.strokeStyle = "#1c2733";
    context.lineWidth = 1.4;
    context.beginPath();
    front.forEach((item, i) => {
      const [x, y] = [px(at(picks.x.value, item)), py(at(picks.y.value, item))];
      if (i) { context.lineTo(x, py(at(picks.y.value, front[i - 1]))); context.lineTo(x, y); } else context.moveTo(x, y);
    });
    context.stroke();
    for (const item of front) {
      context.beginPath();
      context.arc(px(at(picks.x.value, item)), py(at(picks.y.value, item)), 5, 0, 7);
      context.stroke();
    }
    const knee = views.length ? views[state.view].knee : null;
    for (const [x, y, item] of places) {
      const row = items.rows[item];
      if (row === knee || row === state.row || item === hovered) {
        context.beginPath();
        context.lineWidth = row === state.row ? 3 : 2;
        context.strokeStyle = row === state.row ? "#0b57d0" : "#c2185b";
        context.arc(x, y, 8, 0, 7);
        context.stroke();
      }
      if (row === knee) { context.fillStyle = "#c2185b"; context.textAlign = "left"; context.fillText("knee", x + 11, y - 6); }
    }
    context.lineWidth = 1;
    const values = colour === "nothing" ? [] : axisOf[colour].values.slice(0, 24);
    legend("front-legend", values.map((text, i) => [palette[i % palette.length], text]));
  });

  function near(event) {
    let best = null, least = 15 ** 2;
    for (const [x, y, item] of places) {
      const far = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (far < least) { least = far; best = item; }
    }
    return best;
  }
  const tipOf = (item) => `${views[state.view].machines ? `<b>machine</b>, mean over workloads<br>${leaders.filter((axis) => !axis.workload).map((axis) => `${esc(axis.name)} ${esc(valueText(axis.name, items.rows[item]))}`).join("<br>")}` : pointTip(items.rows[item])}<br>
    <span>${[...new Set([picks.y.value, picks.x.value, ...data.columns])].filter((name) => !isAxis(name)).map((name) => `${esc(name)} ${figureText(name, items.figures[name][item])}`).join("<br>")}</span>`;
  canvas.addEventListener("pointermove", (event) => {
    const item = near(event);
    if (item !== hovered) { hovered = item; request(); }
    if (item === null) hideTip(); else showTip(event, tipOf(item));
  });
  canvas.addEventListener("pointerleave", () => { hovered = null; hideTip(); request(); });
  canvas.addEventListener("click", (event) => { const item = near(event); if (item !== null) choose(items.rows[item]); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !front.length) return;
    event.preventDefault();
    const now = front.findIndex((item) => items.rows[item] === state.row);
    choose(items.rows[front[Math.min(front.length - 1, Math.max(0, now + step))]]);
  });
  for (const pick of [...Object.values(picks), element("front-log")]) pick.addEventListener("change", request);
  element("load").addEventListener("change", () => chooseView(Number(element("load").value)));
  for (const what of ["view", "row", "keep"]) on(what, request);
})();
