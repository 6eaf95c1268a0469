// Tables: sensitivity, the cheapest machines, all points; and the chosen point with its plan.
(() => {
  const spark = (curve) => {
    const known = curve.map(([, y], i) => [i, y]).filter(([, y]) => y !== null);
    const ys = known.map(([, y]) => y), low = Math.min(...ys), high = Math.max(...ys), span = high - low || 1;
    const points = known.map(([i, y]) => `${4 + i / Math.max(1, curve.length - 1) * 102},${22 - (y - low) / span * 18}`).join(" ");
    return `<svg class="spark" viewBox="0 0 110 26" role="img" aria-label="${esc(curve.map(([text, y]) => `${text}: ${short(y)}`).join(", "))}"><polyline points="${points}" fill="none" stroke="#0b57d0" stroke-width="1.6"/></svg>`;
  };
  const bar = (x) => {
    const wide = Math.min(50, 50 * Math.abs(x));
    return `<span class="elastic"><i class="${x > 0 ? "up" : ""}" style="left:${x > 0 ? 50 : 50 - wide}%;width:${wide}%"></i></span>`;
  };
  element("sensitivity-view").innerHTML = data.sensitivity.length ? `<table aria-label="What matters how much"><thead><tr><th scope="col">parameter</th><th scope="col">figure</th><th scope="col">elasticity</th><th scope="col" class="n">quartiles</th><th scope="col" class="n">pairs</th><th scope="col">first to last value</th></tr></thead><tbody>${
    data.sensitivity.map((s) => `<tr><td>${esc(s.axis)}</td><td>${esc(s.figure)}</td><td>${s.elasticity === null ? "" : `${bar(s.elasticity)}${s.elasticity.toFixed(3)}`}</td>
      <td class="n">${s.quartiles ? s.quartiles.map((q) => q.toFixed(3)).join(" … ") : s.fitted ? "fitted" : ""}</td><td class="n">${s.pairs || ""}</td>
      <td title="${esc(s.curve.map(([text, y]) => `${text}: ${short(y)}x`).join("\n"))}">${spark(s.curve)}</td></tr>`).join("")}</tbody></table>`
    : `<p class="hint">No parameter has more than one value.</p>`;

  const rowOf = new Map(data.number.map((number, row) => [number, row]));
  const { cheapest } = data;
  element("cheapest").hidden = !cheapest;
  if (cheapest) {
    element("cheapest-facts").textContent = `run everything under ${short(cheapest.under_ms)} ms; ${counted(cheapest.machines_judged, "machine")} judged`;
    element("cheapest-view").innerHTML = cheapest.machines.length ? `<table aria-label="The cheapest machines"><thead><tr><th scope="col" class="n">cost</th><th scope="col" class="n">slowest</th><th scope="col">machine</th></tr></thead><tbody>${
      cheapest.machines.map((m) => `<tr class="row" tabindex="0" data-row="${rowOf.get(m.number)}"><td class="n">${short(m.cost)}</td><td class="n">${short(m.slowest_ms)} ms</td>
        <td>${esc(axes.filter((axis) => !axis.workload).map((axis) => `${axis.name} ${m.axes[axis.name]}`).join(", "))}</td></tr>`).join("")}</tbody></table>`
      : `<p class="hint">None of them does.</p>`;
  }

  // ---- all points
  const onFront = new Set(data.fronts.flatMap((front) => front.rows));
  const columns = [["point", (row) => data.number[row], (row) => data.number[row], "n"],
    ...axes.map((axis) => [axis.name, (row) => (axis.numbers ? axis.numbers[codes[axis.name][row]] : codes[axis.name][row]), (row) => esc(valueText(axis.name, row)), axis.numbers ? "n" : ""]),
    ...figureNames.map((name) => [name, (row) => figures[name][row], (row) => figureText(name, figures[name][row]), "n"])];
  if (data.reasons.some(Boolean)) columns.push(["no plan because", (row) => data.reasons[data.reason[row]], (row) => esc(data.reasons[data.reason[row]]), "bad"]);
  const STEP = 100, sorting = { column: 0, down: false };
  let room = STEP, order = allRows;
  const sortRows = () => {
    const value = columns[sorting.column][1], sign = sorting.down ? -1 : 1;
    order = allRows.filter(state.keep).sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return x < y ? -sign : x > y ? sign : a - b;
    });
  };
  const draw = () => {
    element("points-view").innerHTML = `<table id="points-table" aria-label="Points"><thead><tr>${columns.map(([name, , , kind], c) =>
      `<th scope="col" class="${kind}" aria-sort="${c !== sorting.column ? "none" : sorting.down ? "descending" : "ascending"}"><button type="button" data-column="${c}">${esc(name)}${c !== sorting.column ? "" : sorting.down ? " ▾" : " ▴"}</button></th>`).join("")}</tr></thead>
      <tbody>${order.slice(0, room).map((row) => `<tr class="row${row === state.row ? " chosen" : ""}${onFront.has(row) ? " onfront" : ""}" data-row="${row}" tabindex="0">${columns.map(([, , cell, kind]) => `<td class="${kind}">${cell(row)}</td>`).join("")}</tr>`).join("")}</tbody></table>
      ${order.length > room ? `<p class="hint"><button type="button" id="more">${count(Math.min(STEP, order.length - room))} more of ${count(order.length - room)}</button></p>` : order.length ? "" : `<p class="hint">No point is left: take something out of the filter.</p>`}`;
  };
  const redraw = () => { room = STEP; sortRows(); draw(); };
  sortable(element("points-view"), sorting, () => false, redraw, () => {});
  element("points-view").addEventListener("click", (event) => { if (event.target.id === "more") { room += STEP; draw(); } });
  for (const id of ["points-view", "cheapest-view"]) {
    const open = (event) => { const row = event.target.closest("tr[data-row]"); if (row) choose(Number(row.dataset.row)); };
    element(id).addEventListener("click", open);
    element(id).addEventListener("keydown", (event) => { if (event.key === "Enter") open(event); });
  }
  on("keep", redraw);
  on("row", () => element("points-view").querySelectorAll("tr[data-row]").forEach((row) => row.classList.toggle("chosen", Number(row.dataset.row) === state.row)));

  // ---- the chosen point
  let plans = null;
  const unpacked = async () => {
    if (plans === null) {
      const packed = Uint8Array.from(atob(data.plans), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
      plans = JSON.parse(await new Response(stream).text());
    }
    return plans;
  };
  on("row", async () => {
    const row = state.row, view = element("point-view");
    element("point-name").textContent = row === null ? "none chosen" : `number ${data.number[row]}, key ${data.key[row]}`;
    if (row === null) { view.innerHTML = `<p class="hint">Click a point, a line of a table, or walk along the front with the arrow keys.</p>`; return; }
    const pair = ([name, text]) => `<dt>${esc(name)}</dt><dd>${text}</dd>`;
    const facts = `<dl>${axes.map((axis) => pair([axis.name, esc(valueText(axis.name, row))])).join("")}${
      data.ok[row] ? figureNames.map((name) => pair([name, figureText(name, figures[name][row])])).join("") : ""}</dl>`;
    const reason = data.reasons[data.reason[row]];
    const plan = data.plan_of[row] < 0 ? null : (await unpacked())[data.plan_of[row]];
    if (state.row !== row) return;
    const text = plan !== null ? `<h3>Plan</h3><pre id="plan-text">${esc(plan)}</pre>` : reason ? `<h3>No plan</h3><p class="warn">${esc(reason)}</p>`
      : `<h3>Plan</h3><p>Not in this page, which holds only so many. Print it with <code>tilewright sweep --out DIR --show ${data.number[row]}</code></p>`;
    view.innerHTML = facts + text;
    view.scrollTop = 0;
  });
  redraw();
})();
