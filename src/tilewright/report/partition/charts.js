// Headline, before and after, roofline, savings, tables.
(() => {
  const mapping = figures.mapping, f = figures;
  const cards = [];
  const card = (name, value, detail) => cards.push(
    `<div class="card"><span class="name">${esc(name)}</span><b>${esc(value)}</b><span>${esc(detail)}</span></div>`);
  card("Operators to kernels", `${f.operators} → ${f.kernels}`, Object.entries(f.patterns).slice(0, 4).map(([p, n]) => `${p} ${n}`).join(", "));
  card("Bytes saved", tenths(f.saved_ratio), `${finely(f.bytes_op_by_op)} op by op, ${finely(f.bytes_fused)} fused`);
  card("FLOPs", flops(f.flops_total), `${flops(f.flops_matmul)} in products`);
  card("Launches", `${f.launches.before} → ${f.launches.after}`, mapping ? `${time(mapping.before.overhead_seconds)} → ${time(mapping.after.overhead_seconds)} of overhead` : "views launch nothing");
  if (mapping) card("Time", `${time(mapping.before.seconds)} → ${time(mapping.after.seconds)}`, `${mapping.speedup.toFixed(2)}× with fusion, in ${mapping.dtype}`);
  card("Longest chain", counted(f.critical_path.length, "kernel"), `at most ${counted(f.parallel_width, "kernel")} at once`);
  element("head").innerHTML = `<h1>${esc(f.model)}${f.machine ? ` on ${esc(f.machine)}` : ""}
    <small>${esc(data.title)}${data.title ? "; " : ""}${esc(f.level)} level, ${counted(f.kernels, "kernel")}</small></h1><div class="cards">${cards.join("")}</div>`;

  const panels = [];
  const bars = (title, rows, text) => {
    const most = Math.max(...rows.map((row) => row[1]), 1e-30);
    panels.push(`<div class="panel"><h2>${esc(title)}</h2><div class="bars">${rows.map(([name, value, after]) =>
      `<span>${esc(name)}</span><div class="rod${after ? " after" : ""}" style="width:${100 * value / most}%"></div><span class="n">${esc(text(value))}</span>`).join("")}</div></div>`);
  };
  const i = f.intermediates;
  bars("Traffic", [["op by op", f.bytes_op_by_op], ["fused", f.bytes_fused, true]], finely);
  bars("Intermediates", [["written before", i.writes_before], ["written after", i.writes_after, true],
    ["read before", i.reads_before], ["read after", i.reads_after, true]], finely);
  if (mapping) {
    bars("Time", [["op by op", mapping.before.seconds], ["fused", mapping.after.seconds, true]], time);
    bars("Bound by, kernels", Object.entries(mapping.after.bound_by).map(([name, n]) => [name, n, true]), String);
  } else bars("Launches", [["op by op", f.launches.before], ["fused", f.launches.after, true]], String);
  element("story").innerHTML = panels.join("");

  // ---- roofline: FLOP/B across, FLOP/s up; without a machine, FLOPs up
  const shown = kernels.map((kernel, k) => k).filter((k) => kernels[k].flops_total > 0 && kernels[k].bytes_external > 0);
  const width = 640, height = 320, left = 70, bottom = 280, top = 14, right = 612;
  const xOf = (k) => (figures.mapping ? kernels[k].flops_total / Math.max(1, kernels[k].mapping.external_bytes) : kernels[k].intensity_total);
  const roofs = mapping ? mapping.roofs : null;
  const yOf = (k) => (mapping ? kernels[k].flops_total / Math.max(1e-12, kernels[k].mapping.seconds) : kernels[k].flops_total);
  const xs = shown.map(xOf), ys = shown.map(yOf).concat(roofs ? [roofs.matrix_flops_per_second] : []);
  const log = Math.log10, low = (list) => Math.floor(log(Math.min(...list))), high = (list) => Math.ceil(log(Math.max(...list)) + 0.05);
  const ridge = roofs ? [roofs.matrix_flops_per_second / Object.values(roofs.bytes_per_second)[0]] : [];
  const x0 = low(xs.concat(ridge, [1])), x1 = Math.max(x0 + 1, high(xs.concat(ridge, [1])));
  const y0 = low(ys.length ? ys : [1]), y1 = Math.max(y0 + 1, high(ys.length ? ys : [10]));
  const px = (x) => left + (log(x) - x0) / (x1 - x0) * (right - left), py = (y) => bottom - (log(y) - y0) / (y1 - y0) * (bottom - top);
  const out = [];
  for (let x = x0; x <= x1; x += 1) out.push(`<line class="axis" x1="${px(10 ** x)}" x2="${px(10 ** x)}" y1="${top}" y2="${bottom}"/><text class="tick" x="${px(10 ** x)}" y="${bottom + 15}" text-anchor="middle">${Number((10 ** x).toPrecision(1))}</text>`);
  for (let y = y0; y <= y1; y += 1) out.push(`<line class="axis" x1="${left}" x2="${right}" y1="${py(10 ** y)}" y2="${py(10 ** y)}"/><text class="tick" x="${left - 6}" y="${py(10 ** y) + 4}" text-anchor="end">${esc(scaled(10 ** y, [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3, ""]], 0))}</text>`);
  out.push(`<text class="tick" x="${(left + right) / 2}" y="${bottom + 32}" text-anchor="middle">FLOP per byte of external traffic</text>`);
  if (roofs) {
    Object.entries(roofs.bytes_per_second).forEach(([name, rate], r) => {
      const peak = roofs.matrix_flops_per_second, meet = Math.min(peak / rate, 10 ** x1), start = Math.max(10 ** x0, 10 ** y0 / rate);
      const at = Math.min(meet, start * 10 ** (0.35 + 0.3 * r));
      if (start < meet) out.push(`<path class="roof" data-roof="${esc(name)}" d="M${px(start)} ${py(start * rate)}L${px(meet)} ${py(meet * rate)}L${right} ${py(Math.min(peak, 10 ** x1 * rate))}"/>
        <text class="tick" x="${px(at) - 5}" y="${py(at * rate) - 3}" text-anchor="end">${esc(name)}</text>`);
    });
  }
  const most = Math.max(...shown.map((k) => kernels[k].flops_total), 1);
  shown.forEach((k) => out.push(`<circle class="dot" data-group="${k}" cx="${px(xOf(k))}" cy="${py(yOf(k))}" r="${3 + 11 * Math.sqrt(kernels[k].flops_total / most)}" fill="${groupColour(k)}"/>`));
  element("roof-view").innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="Roofline of ${counted(shown.length, "kernel")}">${out.join("")}</svg>`;
  element("roof-facts").textContent = mapping
    ? `${flops(roofs.matrix_flops_per_second)}/s for products in ${mapping.dtype}; ${Object.entries(roofs.bytes_per_second).map(([name, rate]) => `${name} ${finely(rate)}/s`).join(", ")}` : "no machine given: FLOPs instead of FLOP/s";

  // ---- savings
  const best = f.top_savings.map((name) => kernels.findIndex((kernel) => kernel.name === name));
  const largest = Math.max(...best.map((k) => kernels[k].bytes_op_by_op), 1);
  legend("traffic-legend", [["#8aa8d8", "op by op"], ["#0b57d0", "as a kernel"]]);
  element("traffic-view").innerHTML = best.length ? `<div class="bars" style="padding:9px 12px">${best.map((k) => {
    const kernel = kernels[k], part = (value) => 100 * value / largest;
    return `<span data-group="${k}">${esc(kernel.name)}</span><div data-group="${k}"><div class="rod" style="width:${part(kernel.bytes_op_by_op)}%"></div>
      <div class="rod after" style="width:${part(kernel.bytes_external)}%"></div></div><span class="n">${finely(kernel.bytes_op_by_op - kernel.bytes_external)} (${tenths(kernel.saved_ratio, 0)})</span>`;
  }).join("")}</div>` : '<p class="hint">No kernel saves bytes.</p>';

  // ---- tables
  const columns = [["kernel", (k) => k.name], ["pattern", (k) => k.label], ["operators", (k) => k.operators.length, String],
    ["all FLOPs", (k) => k.flops_total, flops], ["share", (k) => k.flops_share, tenths], ["external", (k) => k.bytes_external, finely],
    ["internal", (k) => k.bytes_internal, finely], ["saved", (k) => k.saved_ratio, tenths], ["all FLOP/B", (k) => k.intensity_total, (v) => v.toFixed(2)]];
  if (mapping) columns.push(["time", (k) => k.mapping.seconds, time], ["op by op", (k) => k.mapping.unfused_seconds, time], ["bound by", (k) => k.mapping.bound]);
  const own = [["occupancy", "occupancy", tenths], ["waves", "waves", String], ["utilisation", "array use", tenths],
    ["units_busy", "units busy", String], ["fits", "fits", (v) => (v ? "yes" : "no")], ["split", "split", String]];
  if (mapping) for (const [key, name, text] of own) if (kernels.some((k) => key in k.mapping)) columns.push([name, (k) => k.mapping[key] ?? "", text]);
  if (kernels.some((k) => k.tiling)) columns.push(["tile", (k) => (k.tiling ? k.tiling.tile_shape.join("×") : ""), String], ["halo", (k) => (k.tiling ? k.tiling.halo_ratio : 0), tenths]);
  let sorted = null, order = kernels.map((_, k) => k);
  const stop = rowKeys(element("kernels-view"));
  const drawTable = () => {
    const numeric = (c) => columns[c].length > 2;
    element("kernels-view").innerHTML = `<table aria-label="Kernels" role="grid"><thead><tr>${columns.map(([name], c) => `<th scope="col" class="${numeric(c) ? "n" : ""}"><button type="button" data-column="${c}">${esc(name)}</button></th>`).join("")}</tr></thead>
      <tbody>${order.map((k) => `<tr class="row${state.group === k ? " chosen" : ""}" data-group="${k}" aria-selected="${state.group === k}">${columns.map(([, read, text], c) =>
        `<td class="${numeric(c) ? "n" : ""}">${esc(text ? text(read(kernels[k])) : read(kernels[k]))}</td>`).join("")}</tr>`).join("")}</tbody></table>`;
    stop();
  };
  element("kernels-view").addEventListener("click", (event) => {
    const button = event.target.closest("[data-column]"), row = event.target.closest("tr[data-group]");
    if (button) {
      const c = Number(button.dataset.column), read = columns[c][1], down = sorted === c ? -1 : 1;
      sorted = sorted === c ? null : c;
      order = kernels.map((_, k) => k).sort((a, b) => {
        const x = read(kernels[a]), y = read(kernels[b]);
        return down * (typeof x === "number" ? y - x : String(x).localeCompare(String(y))) || a - b;
      });
      drawTable();
    } else if (row) {
      const k = Number(row.dataset.group);
      select(k === state.group ? null : k);
    }
  });
  element("singles-view").innerHTML = f.singles.length ? `<table aria-label="Operators alone"><thead><tr><th scope="col">operator</th><th scope="col">kind</th><th scope="col">why</th></tr></thead><tbody>${f.singles.map((s) =>
    `<tr><td>${esc(s.operator)}</td><td>${esc(s.kind)}</td><td>${esc(s.reason)}</td></tr>`).join("")}</tbody></table>` : '<p class="hint">None.</p>';
  for (const id of ["roof-view", "traffic-view"]) {
    element(id).addEventListener("pointermove", (event) => {
      const part = event.target.closest("[data-group]");
      if (part) showTip(event, kernelTip(Number(part.dataset.group))); else hideTip();
    });
    element(id).addEventListener("pointerleave", hideTip);
    element(id).addEventListener("click", (event) => {
      const part = event.target.closest("[data-group]");
      if (part) select(Number(part.dataset.group) === state.group ? null : Number(part.dataset.group));
    });
  }
  on("select", () => {
    document.querySelectorAll("#roof-view .dot").forEach((dot) => {
      dot.classList.toggle("chosen", Number(dot.dataset.group) === state.group);
      dot.classList.toggle("faded", state.group !== null && Number(dot.dataset.group) !== state.group);
    });
    drawTable();
  });
  drawTable();
})();
select(null);
document.documentElement.dataset.ready = "yes";
